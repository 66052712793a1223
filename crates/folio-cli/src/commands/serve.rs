//! `folio serve`: runs and pages over HTTP and in the browser, and the memory of models.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use folio_server::{ServeError, ServeOptions, Server, Spaces};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use super::driving::{Driving, Minds, MindsOfMany};
use super::mcp::Offer;
use super::{Absent, Context, interrupted};
use crate::error::{Exit, Failure};
use crate::leftovers::{Leftovers, WaitingRuns, are_of_another_user};
use crate::noticed::note_clocks_behind;
use crate::store_watch::watch_store;

/// How often each space is tidied.
const TIDY_INTERVAL: Duration = Duration::from_secs(60);

/// How many files may be open at once. More are of no use, and where millions are allowed, programs started by tools
/// take longer to begin: some close every possible file descriptor.
const OPEN_FILES_MAX: u64 = 65_536;
/// How many connections may be open at once.
const CONNECTIONS_MAX: usize = 4_096;

/// `folio serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address and port to listen on; beyond loopback, clients need an access token (`folio token new`)
    ///
    /// On a loopback address no token is needed: every user of this machine, and every command and agent that a run
    /// starts, can do there whatever you can, running commands included. --require-token demands a token there, too.
    #[arg(long, value_name = "ADDRESS", default_value_t = ServeOptions::default().listen, value_parser = address)]
    listen: SocketAddr,
    /// Demand an access token on a loopback address, too
    #[arg(long)]
    require_token: bool,
    /// Do not resume runs whose process is gone
    #[arg(long)]
    no_resume: bool,
    /// Requests per second that one access token may make
    #[arg(long, value_name = "N", default_value_t = ServeOptions::DEFAULT_PER_SECOND, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    #[command(flatten)]
    offer: Offer,
    #[command(flatten)]
    minds: MindsOfMany,
    #[command(flatten)]
    driving: Driving,
}

/// What programs learn as soon as the server listens.
#[derive(Debug, Serialize)]
struct Ready {
    url: String,
    space: String,
}

/// Parses an address to listen on.
fn address(text: &str) -> Result<SocketAddr, String> {
    let usual = ServeOptions::default().listen;
    text.parse().map_err(|_| {
        format!(
            "write a numeric address and a port, such as {usual} or [::1]:{}",
            usual.port()
        )
    })
}

/// Carries out `folio serve`: until Ctrl-C.
pub(crate) async fn run(context: &Context<'_>, serve: Serve) -> Result<Exit, Failure> {
    let minds = Minds::from(serve.minds);
    let runner = minds.runner(context, &serve.driving, true, Absent::Made).await?;
    if !serve.driving.is_elsewhere() {
        serve.offer.check(context, runner.tools())?;
    }
    let mut options = ServeOptions::at(serve.listen);
    options.local = context.person();
    options.folder = Some(context.settings.current.clone());
    options.per_second = serve.rate;
    options.require_token = serve.require_token;
    options.connections = raise_connection_limit();
    let server = Server::bind(&options, runner.clone())
        .await
        .map_err(refused)?
        .with_mcp(serve.offer.options(context));
    let spaces = server.spaces();
    // Their unfinished runs are resumed and they are tidied, even if no request comes.
    spaces.open_those_with_tokens().await?;
    let workspaces: Vec<_> = spaces
        .runners()
        .iter()
        .map(|runner| runner.workspace().clone())
        .collect();
    note_clocks_behind(&workspaces, context.output).await;
    let leaves = serve.no_resume || serve.driving.is_elsewhere();
    let leftovers = if leaves || are_of_another_user(&runner, context.output, WaitingRuns::Kept).await? {
        None
    } else {
        Some(Leftovers::resume_unfinished(&runner, context.output, WaitingRuns::Kept).await?)
    };
    let ready = Ready {
        url: server.url(),
        space: context.settings.space.to_string(),
    };
    context.output.ready(&ready.url, &ready)?;
    let resuming = async {
        if let Some(leftovers) = leftovers {
            // Waits for what is under way: afterwards the tools of other programs are gone.
            Box::pin(leftovers.keep_resuming(|| spaces.runners(), context.output, None, runner.wait_for_leave())).await;
        }
    };
    let mut serving = Box::pin(async { tokio::join!(server.run(interrupted()?), resuming).0.map_err(refused) });
    let keeping = async { tokio::join!(tidy_regularly(context, &spaces), watch_store(&runner, context.output)) };
    let mut keeping = Box::pin(keeping);
    tokio::select! {
        served = &mut serving => served?,
        _ = &mut keeping => serving.await?,
    }
    // Every command writes the notes of its workspaces at its end: those of the other spaces are to be among them.
    let others = spaces.runners().into_iter().skip(1);
    let mut opened = context.opened.borrow_mut();
    opened.extend(others.map(|runner| runner.workspace().clone()));
    Ok(Exit::Done)
}

/// Raises the limit of open files of this process as far as allowed, and returns how many of them connections may use:
/// half, so that the store, tools and programs have what they need, however many clients connect.
fn raise_connection_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let target_limit = limit.maximum.unwrap_or(OPEN_FILES_MAX).min(OPEN_FILES_MAX);
    if limit.current.is_some_and(|files| files < target_limit) {
        let new_limit = Rlimit {
            current: Some(target_limit),
            ..limit
        };
        // If the limit cannot be raised, there are fewer.
        let _as_it_was = setrlimit(Resource::Nofile, new_limit);
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(OPEN_FILES_MAX);
    let half = usize::try_from(files / 2).unwrap_or(CONNECTIONS_MAX);
    half.clamp(1, CONNECTIONS_MAX)
}

/// Does what `folio tidy` does at intervals, in each of `spaces`, until it is dropped. First delivers what waits in the
/// outbox: where no further answer of a tool comes, and no turn begins, nobody else would.
async fn tidy_regularly(context: &Context<'_>, spaces: &Spaces) {
    let mut again = tokio::time::interval(TIDY_INTERVAL);
    // Many spaces may take longer than that.
    again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        again.tick().await;
        for runner in spaces.runners() {
            let workspace = runner.workspace();
            if let Err(error) = workspace.deliver_outbox().await {
                context
                    .output
                    .detail(format_args!("what waits in the outbox is not delivered: {error}"));
            }
            let message = match workspace.tidy(workspace.now()).await {
                Ok(tidied) if tidied.is_nothing() => continue,
                Ok(_) => "archived or erased what was due".to_owned(),
                Err(error) => format!("tidying is postponed: {error}"),
            };
            let space = workspace.space();
            context.output.detail(format_args!("space {space}: {message}"));
        }
    }
}

fn refused(error: ServeError) -> Failure {
    match error {
        ServeError::NoToken { .. } => Failure::usage("token_needed", error.to_string())
            .hint("create one with `folio token new --role client`, or listen on 127.0.0.1 without --require-token"),
        ServeError::Store(error) => error.into(),
        error => {
            let failure = Failure::new(Exit::Unavailable, "cannot_serve", error.to_string()).caused_by(&error);
            let is_taken = |source: &std::io::Error| source.kind() == ErrorKind::AddrInUse;
            if matches!(&error, ServeError::Bind { source, .. } if is_taken(source)) {
                let hint = "another program, perhaps another `folio serve`, uses this port; choose another one with --listen 127.0.0.1:PORT";
                return failure.hint(hint);
            }
            failure
        }
    }
}
