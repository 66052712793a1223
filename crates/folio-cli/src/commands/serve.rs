//! `folio serve`: runs and pages over HTTP and in the browser, and the memory of models.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use folio::Workspace;
use folio_server::{ServeError, ServeOptions, Server};

use super::mcp::Offer;
use super::run::{Driving, Minds};
use super::{Context, interrupted};
use crate::error::{Exit, Failure};
use crate::leftovers::Leftovers;

/// How long a space is left alone before it is looked for what is due.
const BETWEEN: Duration = Duration::from_secs(60);

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
    offer: Offer,
    #[command(flatten)]
    minds: Minds,
    #[command(flatten)]
    driving: Driving,
}

/// Carries out `folio serve`: until Ctrl-C.
pub(crate) async fn run(context: &Context<'_>, serve: Serve) -> Result<Exit, Failure> {
    let runner = serve.minds.runner(context, &serve.driving, true).await?;
    let server = Server::bind(&ServeOptions::at(serve.listen), runner.clone())
        .await
        .map_err(refused)?
        .with_mcp(serve.offer.options(context));
    let leftovers = if serve.no_resume {
        Leftovers::default()
    } else {
        Leftovers::take_up(&runner, context.output).await?
    };
    context.output.text(&format!("{}\n", server.url()))?;
    let serving = server.run(interrupted()?);
    tokio::pin!(serving);
    let keeping = async {
        tokio::join!(
            leftovers.finish(context.output),
            keep_small(context, runner.workspace())
        );
    };
    tokio::pin!(keeping);
    let served = tokio::select! {
        served = &mut serving => served,
        () = &mut keeping => serving.await,
    };
    served.map_err(refused)?;
    Ok(Exit::Done)
}

/// Does from time to time what `folio tidy` does, for as long as nobody stops it.
async fn keep_small(context: &Context<'_>, workspace: &Workspace) {
    let mut again = tokio::time::interval(BETWEEN);
    loop {
        again.tick().await;
        match workspace.tidy(workspace.now()).await {
            Ok(done) if done.is_nothing() => {}
            Ok(_) => context.output.detail("what was due was put away"),
            Err(error) => context
                .output
                .detail(format_args!("what is due is left for the next time: {error}")),
        }
    }
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
