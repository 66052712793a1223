//! `folio serve`: runs and pages over HTTP and in the browser.

use std::net::SocketAddr;

use clap::Args;
use folio_server::{ServeError, ServeOptions, Server};
use tokio::signal::unix::{SignalKind, signal};

use super::Context;
use super::run::Driving;
use crate::error::{Exit, Failure};
use crate::leftovers::Leftovers;

/// `folio serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen; only this machine can be named
    #[arg(long, value_name = "ADDRESS", default_value_t = ServeOptions::default().listen)]
    listen: SocketAddr,
    /// Do not go on with runs whose process is gone
    #[arg(long)]
    no_resume: bool,
    #[command(flatten)]
    driving: Driving,
}

/// Carries out `folio serve`: until Ctrl-C.
pub(crate) async fn run(context: &Context<'_>, serve: Serve) -> Result<Exit, Failure> {
    let runner = serve.driving.runner(context).await?;
    let server = Server::bind(&ServeOptions::at(serve.listen), runner.clone())
        .await
        .map_err(refused)?;
    let leftovers = if serve.no_resume {
        Leftovers::default()
    } else {
        Leftovers::take_up(&runner, context.output).await?
    };
    context.output.text(&format!("{}\n", server.url()))?;
    let cannot = |error| Failure::cannot("listen for", "Ctrl-C", error);
    let mut interrupts = signal(SignalKind::interrupt()).map_err(cannot)?;
    let mut terminations = signal(SignalKind::terminate()).map_err(cannot)?;
    let stop = async move {
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = terminations.recv() => {}
        }
    };
    let serving = server.run(stop);
    tokio::pin!(serving);
    let finishing = leftovers.finish(context.output);
    tokio::pin!(finishing);
    let served = tokio::select! {
        served = &mut serving => served,
        () = &mut finishing => serving.await,
    };
    served.map_err(refused)?;
    Ok(Exit::Done)
}

fn refused(error: ServeError) -> Failure {
    let exit = match error {
        ServeError::NotLoopback { .. } => Exit::Usage,
        _ => Exit::Unavailable,
    };
    let code = if exit == Exit::Usage {
        "not_loopback"
    } else {
        "cannot_serve"
    };
    Failure::new(exit, code, error.to_string()).caused_by(&error)
}
