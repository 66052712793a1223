//! The commands, one file each: from arguments to a report.

pub(crate) mod approve;
pub(crate) mod archive;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod blob;
pub(crate) mod book;
pub(crate) mod budget;
pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod connect;
pub(crate) mod context;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod driving;
pub(crate) mod episodes;
pub(crate) mod evict;
pub(crate) mod export;
pub(crate) mod files;
pub(crate) mod forget;
pub(crate) mod fork;
pub(crate) mod goals;
pub(crate) mod hook;
pub(crate) mod import;
mod import_foreign;
mod input;
pub(crate) mod life;
mod markdown_folder;
pub(crate) mod mcp;
pub(crate) mod migrate;
pub(crate) mod observe;
pub(crate) mod offload;
pub(crate) mod page;
pub(crate) mod patterns;
pub(crate) mod people;
pub(crate) mod plan;
pub(crate) mod plan_of_run;
pub(crate) mod policy;
mod recorder;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod serve;
mod several;
pub(crate) mod show;
pub(crate) mod spaces;
pub(crate) mod tidy;
pub(crate) mod token;
pub(crate) mod tokens;
pub(crate) mod tool;
mod tool_login;
pub(crate) mod trace;
pub(crate) mod tree;
pub(crate) mod trust;
pub(crate) mod turn;
pub(crate) mod watch;
pub(crate) mod why;
pub(crate) mod worker;

use std::cell::{Cell, RefCell};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use folio::mcp::Servers;
use folio::memory::canonical::canonical_json;
use folio::memory::roles::Denied;
use folio::memory::{Role, RunId, TurnId};
use folio::runner::Observer;
use folio::store::Asking;
use folio::store::workspace::WorkingIn;
use folio::tools::Registry;
use folio::{Actor, Folio, OpenError, Workspace};
use folio_telemetry::Telemetry;
use serde::Serialize;
use tokio::signal::unix::SignalKind;
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;

pub(crate) use self::input::{
    MAX_INPUT_BYTES, check_given_once, json_file, json_or_text, opened_if_file, text_of, text_or_stdin,
};
use crate::arguments::Command;
use crate::error::{Exit, Failure};
use crate::later::Later;
use crate::noticed;
use crate::output::Output;
use crate::servers;
use crate::settings::Settings;
use crate::signals::{EndSignals, listen_for, outlive_large_files};

/// How long to wait for a collector at the end.
const TELEMETRY_PATIENCE: Duration = Duration::from_secs(5);

/// What to do if there is no store yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Create it.
    Made,
    /// Treat it as empty.
    Empty,
}

/// How long a hook waits for the store: the agent program stands still meanwhile.
const HOOK_STORE_TIME: Duration = Duration::from_secs(3);

/// The outcome of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    /// How the program exits.
    pub(crate) done: Result<Exit, Failure>,
    /// Whether another process keeps the store from being written to, so that it cannot be closed soon, either.
    pub(crate) is_held_up: bool,
}

/// What a command has to work with.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    /// The settings of this call.
    pub(crate) settings: Settings,
    /// Where the answer goes.
    pub(crate) output: &'a Output,
    /// The opened workspaces, so that their notes are written before the program ends.
    opened: RefCell<Vec<Workspace>>,
    /// Whether the store did not answer in time and is left as it is.
    is_given_up: Cell<bool>,
    /// A note that the store does not exist, once that is known.
    absent: OnceLock<String>,
    /// The turn that the command works in, once that is known.
    turn: OnceLock<TurnId>,
    /// The MCP servers, once their tools are needed.
    servers: OnceCell<Servers>,
    /// The telemetry that reports runs to a collector, if one is configured, and the task that waits to report the
    /// first loss. Set once it is needed.
    telling: OnceLock<Option<(Telemetry, AbortHandle)>>,
}

impl Context<'_> {
    /// Opens the store that the settings name.
    pub(crate) async fn folio(&self) -> Result<Folio, Failure> {
        let result = Folio::open(&self.settings.store).await;
        Ok(self.with_outbox(result.map_err(|error| self.settings.not_opened(error))?))
    }

    /// Opens the store that the settings name if it exists; nothing is created.
    pub(crate) async fn existing(&self) -> Result<Folio, Failure> {
        let result = Folio::open_existing(&self.settings.store).await;
        Ok(self.with_outbox(result.map_err(|error| self.settings.not_opened(error))?))
    }

    /// `folio` with an outbox: a file on this machine in which answers of tools wait while a database cannot be
    /// written.
    fn with_outbox(&self, folio: Folio) -> Folio {
        let location = folio.store().location();
        match self.settings.outbox_for(&location) {
            Some(file) => folio.with_outbox(file),
            None => folio,
        }
    }

    /// The store that the settings name if it exists, otherwise an empty one in memory, with a note about it. For
    /// commands that only read, or act on existing things: a query leaves no file behind, least of all in the wrong
    /// place.
    async fn folio_if_any(&self) -> Result<Folio, Failure> {
        match Folio::open_existing(&self.settings.store).await {
            Ok(folio) => Ok(self.with_outbox(folio)),
            Err(error @ OpenError::NotThere { .. }) => {
                self.output.note(format_args!("{error} yet"));
                self.absent.get_or_init(|| format!("{error} yet"));
                Ok(Folio::open("memory:").await?)
            }
            Err(error) => Err(self.settings.not_opened(error)),
        }
    }

    /// Opens the space that the settings name for writing: a store that does not exist is created.
    pub(crate) async fn workspace(&self) -> Result<Workspace, Failure> {
        self.in_turn(self.folio().await?).await
    }

    /// Opens the space for reading, or to act on existing things: a store that does not exist is not created.
    pub(crate) async fn workspace_if_any(&self) -> Result<Workspace, Failure> {
        self.in_turn(self.folio_if_any().await?).await
    }

    /// Opens the space of an existing store: a missing store is an error, and does not count as empty.
    pub(crate) async fn existing_workspace(&self) -> Result<Workspace, Failure> {
        self.in_turn(self.existing().await?).await
    }

    /// Opens the space; `absent` says what to do without a store.
    pub(crate) async fn workspace_or(&self, absent: Absent) -> Result<Workspace, Failure> {
        match absent {
            Absent::Made => self.workspace().await,
            Absent::Empty => self.workspace_if_any().await,
        }
    }

    /// Opens the space that the settings name for writing, outside of any turn.
    pub(crate) async fn workspace_outside_turn(&self) -> Result<Workspace, Failure> {
        Ok(self.opened(self.folio().await?, &self.person()))
    }

    /// Opens the space to take in the answer of a tool. If the store cannot be opened, the answer goes into the outbox.
    pub(crate) async fn workspace_for_answers(&self) -> Result<Workspace, Failure> {
        match Folio::open(&self.settings.store).await {
            Ok(folio) => Ok(self.opened(self.with_outbox(folio), &self.person())),
            Err(error) => {
                let Some(away) = Folio::away(&self.settings.store, &error) else {
                    return Err(self.settings.not_opened(error));
                };
                let workspace = self.with_outbox(away).workspace(self.settings.space.clone());
                if workspace.outbox().is_none() {
                    return Err(self.settings.not_opened(error));
                }
                let failure = self.settings.not_opened(error);
                self.output.note(format_args!("{}", failure.message()));
                // Its notes cannot be written, so it is not among those whose notes are.
                Ok(workspace.asked_by(&self.person()).in_thread(&self.settings.thread))
            }
        }
    }

    /// Opens the space for a hook that writes, and makes sure that it can be written
    /// to.
    pub(crate) async fn for_hook(&self, absent: Absent) -> Result<Workspace, Failure> {
        self.in_hook_time(async {
            let workspace = match absent {
                Absent::Made => self.workspace_outside_turn().await?,
                Absent::Empty => self.workspace_outside_turn_if_any().await?,
            };
            // Changes nothing, because there is no such run, but takes the way of every write.
            let store = workspace.store();
            store
                .release_run(workspace.space(), RunId::derived(&["hook"]), 0)
                .await?;
            Ok(workspace)
        })
        .await
    }

    /// Opens the space for a hook that only reads.
    pub(crate) async fn for_reading_hook(&self) -> Result<Workspace, Failure> {
        self.in_hook_time(self.workspace_outside_turn_if_any()).await
    }

    /// The result of `opening`, unless the store takes longer than a hook may keep an agent program waiting.
    async fn in_hook_time(
        &self,
        opening: impl Future<Output = Result<Workspace, Failure>>,
    ) -> Result<Workspace, Failure> {
        match tokio::time::timeout(HOOK_STORE_TIME, opening).await {
            Ok(opened) => opened,
            Err(_) => {
                let message = format!(
                    "the store did not answer within {} s: it is away, or another process has locked it",
                    HOOK_STORE_TIME.as_secs()
                );
                // Closing the store would wait for it as well.
                std::mem::forget(self.opened.take());
                self.is_given_up.set(true);
                Err(Failure::new(Exit::Unavailable, "store_unavailable", message))
            }
        }
    }

    /// Opens the space for reading, outside of any turn.
    pub(crate) async fn workspace_outside_turn_if_any(&self) -> Result<Workspace, Failure> {
        Ok(self.opened(self.folio_if_any().await?, &self.person()))
    }

    /// The space in the named turn, if one was named.
    async fn in_turn(&self, folio: Folio) -> Result<Workspace, Failure> {
        if let (Some(turn), None) = (self.settings.turn, self.turn.get()) {
            let space = folio.workspace(self.settings.space.clone());
            let found = space.turn_to_work_in(turn).await.map_err(|error| {
                let failure = Failure::from(error);
                match self.settings.turn_flag {
                    Some(_) => failure,
                    // The variable affects every command of a shell, so the failure names it.
                    None => failure.about("FOLIO_TURN"),
                }
            });
            let found = found?;
            self.note_if_ended(&found);
            self.turn.get_or_init(|| found.id);
        }
        Ok(self.opened(folio, &self.actor()))
    }

    /// Says if `turn` has ended, because what is written now is not in its export then.
    fn note_if_ended(&self, turn: &WorkingIn) {
        if turn.has_ended {
            self.output.note(format_args!(
                "{} has ended; its export will not include this command",
                turn.handle
            ));
        }
    }

    /// The space of `folio` for `actor`. Its notes are written at the end.
    fn opened(&self, folio: Folio, actor: &Actor) -> Workspace {
        let workspace = folio.workspace(self.settings.space.clone());
        let workspace = workspace.asked_by(actor).in_thread(&self.settings.thread);
        self.opened.borrow_mut().push(workspace.clone());
        workspace
    }

    /// The tools that runs may call: those that come with Folio, and those of the configured MCP servers.
    pub(crate) async fn registry(&self) -> Result<Registry, Failure> {
        let opening = self
            .servers
            .get_or_try_init(|| servers::open(&self.settings, self.output));
        Ok(servers::registry(opening.await?))
    }

    /// The tools for a plan in `text`: no MCP server is started for a plan that names none.
    pub(crate) async fn registry_for(&self, text: &str) -> Result<Registry, Failure> {
        let mut names = self.settings.mcp.iter().map(|server| format!("{}.", server.name));
        if names.any(|name| text.contains(&name)) {
            self.registry().await
        } else {
            Ok(Registry::with_builtins())
        }
    }

    /// The observer of the runs that are driven here: none, unless the settings name a collector. That the collector
    /// cannot be reached, or does not get everything, is reported and changes nothing else.
    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        let started = self.telling.get_or_init(|| {
            let options = self.settings.telemetry.as_ref()?;
            for unread in &options.unread {
                self.output.note(format_args!("{unread}"));
            }
            let telemetry = Telemetry::open(options)
                .inspect_err(|error| self.output.note(format_args!("{error}")))
                .ok()?;
            let (output, watched) = (self.output.clone(), telemetry.clone());
            let first_loss = tokio::spawn(async move {
                if let Some(reason) = watched.first_loss().await {
                    output.note(format_args!("telemetry will be incomplete: {reason}"));
                }
            });
            Some((telemetry, first_loss.abort_handle()))
        });
        let (telemetry, _) = started.as_ref()?;
        Some(Arc::new(telemetry.clone()))
    }

    /// Sends the remaining spans.
    async fn flush_telemetry(&self) {
        let Some(Some((telemetry, first_loss))) = self.telling.get() else {
            return;
        };
        // What is lost from here on is reported once, with everything else.
        first_loss.abort();
        let sent = telemetry.finish(TELEMETRY_PATIENCE).await;
        match sent.reason {
            Some(reason) => {
                let loss = match sent.lost {
                    0 => String::new(),
                    lost => format!("; spans lost: {lost}"),
                };
                self.output
                    .note(format_args!("telemetry is incomplete: {reason}{loss}"));
            }
            None => self
                .output
                .detail(format_args!("spans sent to the collector: {}", sent.sent)),
        }
    }

    /// Refuses whatever affects more than one space, or grants permissions, to every role but a person's (M7.7).
    pub(crate) fn only_people(&self, action: &str) -> Result<(), Failure> {
        match self.settings.role {
            Role::Human => Ok(()),
            role => Err(Failure::new(
                Exit::Refused,
                Denied::CODE,
                format!("a caller in the role {role} may not {action}; human may"),
            )),
        }
    }

    /// The actor at the terminal, outside of any turn.
    pub(crate) fn person(&self) -> Actor {
        Actor::new(self.settings.role, self.settings.user.clone())
    }

    /// The actor at the terminal, in the named turn. The turn is known once the workspace was opened.
    pub(crate) fn actor(&self) -> Actor {
        match self.turn.get() {
            Some(turn) => self.person().in_turn(*turn),
            None => self.person(),
        }
    }
}

/// Carries out `command`.
pub(crate) async fn run(command: Command, settings: Settings, output: &Output) -> Ended {
    outlive_large_files();
    let patience = match command {
        // The agent program waits for the end of the hook, too.
        Command::Hook(_) => noticed::PATIENCE_OF_HOOKS,
        _ => noticed::PATIENCE,
    };
    let context = Context {
        settings,
        output,
        opened: RefCell::default(),
        is_given_up: Cell::default(),
        absent: OnceLock::new(),
        turn: OnceLock::new(),
        servers: OnceCell::new(),
        telling: OnceLock::new(),
    };
    let result = Box::pin(carry_out(&context, command))
        .await
        .map_err(|failure| match context.absent.get() {
            // People have seen the note already: in a mistyped store, everything is missing.
            Some(absent) if output.is_json() && failure.exit() == Exit::NotFound => failure.hint(absent),
            _ => failure,
        });
    if let Some(servers) = context.servers.get() {
        servers.close().await;
    }
    let is_held_up = !noticed::write(context.opened.take(), output, patience, &result).await;
    let is_held_up = is_held_up || context.is_given_up.get();
    context.flush_telemetry().await;
    Ended {
        done: result,
        is_held_up,
    }
}

async fn carry_out(context: &Context<'_>, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Run(Later(run)) => run::run(context, *run).await,
        Command::Runs(Later(runs)) => runs::run(context, *runs).await,
        Command::Show(Later(show)) => show::run(context, *show).await,
        Command::Watch(Later(watch)) => watch::run(context, *watch).await,
        Command::Resume(Later(resume)) => resume::run(context, *resume).await,
        Command::Cancel(Later(cancel)) => cancel::run(context, *cancel).await,
        Command::Questions(Later(questions)) => people::questions(context, *questions).await,
        Command::Answer(Later(answer)) => people::answer(context, *answer).await,
        Command::Pause(Later(pause)) => people::pause(context, *pause).await,
        Command::Continue(Later(pause)) => people::go_on(context, *pause).await,
        Command::Observe(Later(observe)) => observe::run(context, *observe).await,
        Command::Book(Later(book)) => book::run(context, *book).await,
        Command::Tree(Later(tree)) => tree::run(context, *tree).await,
        Command::Page(Later(page)) => page::run(context, *page).await,
        Command::Turn(Later(turn)) => turn::run(context, *turn).await,
        Command::Why(Later(why)) => why::run(context, *why).await,
        Command::Goals(Later(goals)) => goals::run(context, *goals).await,
        Command::Context(Later(arguments)) => context::run(context, *arguments).await,
        Command::Tokens(Later(arguments)) => tokens::run(context, *arguments).await,
        Command::Episodes(Later(episodes)) => episodes::run(context, *episodes).await,
        Command::Patterns(Later(patterns)) => patterns::run(context, *patterns).await,
        Command::Calibration(_) => patterns::calibration(context).await,
        Command::Search(Later(search)) => search::run(context, *search).await,
        Command::Trace(Later(trace)) => trace::run(context, *trace).await,
        Command::Policy(Later(policy)) => policy::run(context, *policy).await,
        Command::Tool(Later(tool)) => tool::run(context, *tool).await,
        // Boxed, or the future of every command would be as large.
        Command::Fork(Later(arguments)) => Box::pin(fork::fork(context, *arguments)).await,
        Command::Diff(Later(arguments)) => diff::diff(context, *arguments).await,
        Command::Replay(Later(arguments)) => replay::replay(context, *arguments).await,
        Command::Approve(Later(arguments)) => approve::approve(context, *arguments).await,
        Command::Reject(Later(arguments)) => approve::reject(context, *arguments).await,
        Command::Budget(Later(arguments)) => budget::budget(context, *arguments).await,
        Command::Plan(Later(plan)) => plan::run(context, *plan).await,
        Command::Archive(Later(archive)) => archive::run(context, *archive).await,
        Command::Tidy(Later(tidy)) => tidy::run(context, *tidy).await,
        Command::Forget(Later(forget)) => forget::run(context, *forget).await,
        Command::Offload(Later(offload)) => offload::offload(context, *offload).await,
        Command::History(Later(history)) => offload::history(context, *history).await,
        Command::Evict(Later(evict)) => evict::run(context, *evict).await,
        Command::Blob(Later(blob)) => blob::run(context, *blob).await,
        Command::Files(Later(files)) => files::run(context, *files).await,
        Command::Spaces(Later(spaces)) => spaces::run(context, *spaces).await,
        Command::Export(Later(export)) => export::run(context, *export).await,
        Command::Import(Later(import)) => import::run(context, *import).await,
        Command::Backup(Later(backup)) => backup::back_up(context, *backup).await,
        Command::Restore(Later(restore)) => backup::restore(context, *restore).await,
        Command::Migrate(Later(migrate)) => migrate::run(context, *migrate).await,
        Command::Trust(Later(trust)) => trust::run(context, &trust),
        Command::Doctor(Later(doctor)) => doctor::run(context, *doctor).await,
        Command::Token(Later(token)) => token::run(context, *token).await,
        Command::Serve(Later(serve)) => serve::run(context, *serve).await,
        Command::Worker(Later(worker)) => worker::run(context, worker).await,
        Command::Mcp(Later(arguments)) => mcp::run(context, *arguments).await,
        Command::Connect(Later(connect)) => connect::run(context, &connect),
        Command::Hook(Later(hook)) => hook::run(context, *hook).await,
        Command::Bench(Later(bench)) => bench::run(context, *bench).await,
        Command::Completions(Later(completions)) => completions::run(context, &completions),
    }
}

/// A future that is ready when somebody presses Ctrl-C, the terminal is closed, or the system asks the program to end.
pub(crate) fn interrupted() -> Result<impl Future<Output = ()> + Send + 'static, Failure> {
    let mut interrupts = listen_for(SignalKind::interrupt())?;
    let mut endings = EndSignals::listen()?;
    Ok(async move {
        tokio::select! {
            _ = interrupts.recv() => {}
            () = endings.recv() => {}
        }
    })
}

/// `workspace` for the command `verb`, which takes effect once under the idempotency key that its caller gave.
/// `request` identifies the request: a different request under the same key is reported.
pub(crate) fn with_idempotency_key(
    context: &Context<'_>,
    workspace: &Workspace,
    verb: &str,
    key: Option<String>,
    request: &impl Serialize,
) -> (Workspace, Option<String>) {
    let Some(key) = key else {
        return (workspace.clone(), None);
    };
    // Requests that cannot be written as JSON are not told apart.
    let canonical = canonical_json(request).unwrap_or_default();
    let asking = Asking {
        surface: "cli",
        verb,
        place: &context.settings.thread.0,
        actor: &context.actor(),
        token: None,
    };
    let keyed = asking.under(&key, &[canonical.as_bytes()]);
    let key = keyed.key().to_owned();
    (workspace.asked_under(keyed), Some(key))
}
