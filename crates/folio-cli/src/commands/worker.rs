//! `folio worker`: drives runs that others submit.

use clap::Args;
use serde_json::json;

use super::driving::{Driving, Minds, MindsOfMany};
use super::{Absent, Context, interrupted};
use crate::error::{Exit, Failure};
use crate::leftovers::{Leftovers, WaitingRuns};
use crate::store_watch::watch_store;

/// `folio worker`.
#[derive(Debug, Args)]
pub(crate) struct WorkerArguments {
    #[command(flatten)]
    minds: MindsOfMany,
    #[command(flatten)]
    driving: Driving,
    /// Maximum number of runs driven at the same time, not counting those that only wait [default: 8; with Restate 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    runs: Option<u32>,
    #[cfg(feature = "restate")]
    #[command(flatten)]
    restate: shared::Listening,
}

/// Carries out `folio worker`: until Ctrl-C.
pub(crate) async fn run(context: &Context<'_>, worker: Box<WorkerArguments>) -> Result<Exit, Failure> {
    let runs = worker.runs.map(|runs| runs as usize);
    #[cfg(feature = "restate")]
    if let crate::who::Who::Restate(ingress) = worker.driving.who() {
        let ingress = ingress.clone();
        return shared::run(context, *worker, runs, ingress).await;
    }
    let minds = Minds::from(worker.minds);
    let runner = minds.runner(context, &worker.driving, true, Absent::Made).await?;
    let leftovers = Leftovers::resume_unfinished(&runner, context.output, WaitingRuns::Kept).await?;
    let space = &context.settings.space;
    let ready = format!("driving runs of the space {space}");
    context.output.ready(&ready, &json!({"space": space}))?;
    let working = leftovers.keep_resuming(|| vec![runner.clone()], context.output, runs, interrupted()?);
    let mut working = Box::pin(working);
    tokio::select! {
        () = &mut working => {}
        () = watch_store(&runner, context.output) => working.await,
    }
    Ok(Exit::Done)
}

/// Drives the runs of a whole store, each of which Restate assigns to one worker.
#[cfg(feature = "restate")]
mod shared {
    use std::net::SocketAddr;

    use clap::Args;
    use folio_restate::{Place, Worker, WorkerError, WorkerOptions};
    use serde_json::json;

    use super::{Context, Exit, Failure, Minds, WorkerArguments, interrupted};
    use crate::models;

    /// How Restate reaches this worker.
    #[derive(Debug, Args)]
    #[command(next_help_heading = "With Restate")]
    pub(crate) struct Listening {
        /// Address and port to listen on for Restate; several workers on a machine may share one
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9080")]
        listen: SocketAddr,
        /// Address at which Restate reaches all workers [default: the address of --listen]
        #[arg(long, value_name = "URL")]
        advertise: Option<Place>,
        /// Admin API of Restate, at which to register the workers [default: do not register them]
        #[arg(long, value_name = "URL")]
        restate_admin: Option<Place>,
        /// Public key of the identity with which Restate signs its requests; required beyond loopback
        #[arg(long, value_name = "KEY")]
        restate_identity: Option<String>,
        /// Accept unsigned requests, because only Restate can reach the worker
        #[arg(long, conflicts_with = "restate_identity")]
        trust_network: bool,
    }

    pub(super) async fn run(
        context: &Context<'_>,
        worker: WorkerArguments,
        runs: Option<usize>,
        ingress: Place,
    ) -> Result<Exit, Failure> {
        let (listening, minds) = (worker.restate, Minds::from(worker.minds));
        if !listening.listen.ip().is_loopback() && listening.restate_identity.is_none() && !listening.trust_network {
            let why = format!(
                "other machines can reach {}, and nothing proves that a request comes from Restate",
                listening.listen
            );
            return Err(Failure::usage("identity_needed", why)
                .hint("pass the public key of Restate's request identity with --restate-identity KEY")
                .hint("or pass --trust-network if only Restate can reach it"));
        }
        let models = models::open(minds.model(), &context.settings)?;
        let mut runner = worker.driving.options(context, models, minds.has_person(true))?;
        // Runs that are assigned to this worker are driven here.
        runner.dispatch = None;
        let mut options = WorkerOptions::new(listening.listen, ingress);
        options.advertise = listening.advertise;
        options.admin = listening.restate_admin;
        options.identity = listening.restate_identity;
        options.runs = runs.unwrap_or(options.runs);
        let worker =
            Worker::bind(options, context.folio().await?, context.registry().await?, runner).map_err(refused)?;
        let address = worker.address().to_string();
        let ready = format!("listening on {address}");
        context.output.ready(&ready, &json!({"address": address}))?;
        let note = |text: &str| context.output.note(text);
        Box::pin(worker.run(interrupted()?, note)).await;
        Ok(Exit::Done)
    }

    fn refused(error: WorkerError) -> Failure {
        match error {
            WorkerError::Ingress(error) => error.into(),
            error @ WorkerError::Identity(_) => Failure::usage("identity_invalid", error.to_string()),
            error @ WorkerError::NoAddress { .. } => Failure::usage("advertise_needed", error.to_string())
                .hint("pass the address at which Restate reaches all workers with --advertise URL"),
            error => Failure::new(Exit::Unavailable, "cannot_serve", error.to_string()).caused_by(&error),
        }
    }
}
