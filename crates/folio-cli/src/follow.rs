//! Follows a run until it has ended: shows it, drives it if it is ours, and passes on Ctrl-C.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::pin::Pin;
use std::time::Duration;

use folio::engine::spend::Dimension;
use folio::engine::{Event, NodeId, NodeResult, Outcome, StopReason, projection};
use folio::memory::RunId;
use folio::memory::id::Ref;
use folio::runner::{HeldUp, LEFTOVER_PATIENCE, Runner, RunnerError, Watch};
use folio::store::{ErrorKind, RunRow};
use folio::{Timestamp, Workspace};
use folio_server::run_pages::main_pages;
use folio_server::wire::{HeldUpShape, RunInFull};
use tokio::signal::unix::SignalKind;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::commands::Context;
use crate::commands::budget::{before_raising, raise_commands, unplanned_line, use_in_words, warning_step};
use crate::error::{Exit, Failure};
use crate::progress::{Lines, Progress};
use crate::report::run::Summary;
use crate::report::{for_people, printable};
use crate::settings::quoted;
use crate::signals::{EndSignals, listen_for};
use crate::unwritten;

/// What is said once somebody has pressed Ctrl-C.
const CANCELLING: &str = "cancelling; press Ctrl-C again to exit at once";
/// How long work under way has to finish when the program was asked to end.
const GRACE: Duration = Duration::from_secs(10);
/// How long to wait until a store is asked again that is away.
const AWAY_PAUSE: Duration = Duration::from_secs(1);
/// The interval between redraws.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Drives `run` to its end while showing it. The first Ctrl-C cancels it, the second exits immediately. If the program
/// is asked to end, the run is given up where it is.
pub(crate) async fn drive(context: &Context<'_>, runner: &Runner, run: RunId) -> Result<Exit, Failure> {
    Ok(drive_until_stopped(context, runner, run).await?.0)
}

/// Like [`drive`], and returns whether somebody pressed Ctrl-C.
pub(crate) async fn drive_until_stopped(
    context: &Context<'_>,
    runner: &Runner,
    run: RunId,
) -> Result<(Exit, bool), Failure> {
    let driver = runner.clone();
    let task = tokio::spawn(async move { driver.drive(run).await });
    show_while_driven(context, runner, run, task).await
}

/// Like [`drive`], but also stops when the run asks a question that nobody here can answer although somebody could
/// where it was begun: then it is left as it is.
pub(crate) async fn drive_until_asked(
    context: &Context<'_>,
    runner: &Runner,
    run: RunId,
) -> Result<(Exit, bool), Failure> {
    if runner.has_person() {
        return drive_until_stopped(context, runner, run).await;
    }
    let driver = runner.clone();
    let task = tokio::spawn(async move { driver.drive_until_asked(run, LEFTOVER_PATIENCE).await });
    show_while_driven(context, runner, run, task).await
}

/// Shows `run` while `task` drives it.
async fn show_while_driven(
    context: &Context<'_>,
    runner: &Runner,
    run: RunId,
    task: JoinHandle<Result<NodeResult, RunnerError>>,
) -> Result<(Exit, bool), Failure> {
    let progress = Progress::new(context.output, Lines::Aside);
    let follow = Follow::new(context, runner.workspace(), run, progress)?;
    // A large future, which every command that drives runs would carry.
    let ended = Box::pin(follow.until_ended(Some((runner, task)))).await?;
    let is_stopped = ended.is_stopped;
    let exit = finish(context, runner.workspace(), run, ended).await?;
    Ok((exit, is_stopped))
}

/// Shows `run`, which another process drives, until it has ended. Ctrl-C stops watching and does not touch the run.
pub(crate) async fn watch(context: &Context<'_>, workspace: &Workspace, run: RunId) -> Result<Exit, Failure> {
    let progress = Progress::new(context.output, Lines::Answer);
    let ended = Follow::new(context, workspace, run, progress)?
        .until_ended(None)
        .await?;
    finish(context, workspace, run, ended).await
}

/// A run and how it is shown.
struct Follow<'a> {
    context: &'a Context<'a>,
    workspace: &'a Workspace,
    watch: Watch,
    /// The short name of the run, once it is known.
    handle: OnceCell<String>,
    progress: Progress<'a>,
    /// What holds up a call of the run, and the line that says so.
    held_up: Option<(HeldUp, String)>,
    /// Why the run waits for its store, and the line that says so.
    outage: Option<(String, String)>,
    /// The line that says that the run cannot be cancelled yet, because its store cannot be written.
    uncancelled: Option<String>,
    questions: Questions,
    /// The line that says which parts are paused, if the run waits for nothing else.
    paused: Option<String>,
    /// How much of each limit, of the run and of its parts, was used when the user was told of it last, in per cent.
    told_uses: HashMap<(NodeId, Dimension), u64>,
    /// Why not all could be shown, if somebody still wanted to see it.
    unshown: Option<Failure>,
}

/// How far the user knows that the run asks something. Only the first question is pointed out: the command lists those
/// that follow, too.
enum Questions {
    /// To be pointed out.
    Unseen,
    /// Pointed out by this line, until nothing is asked any more.
    PointedOut(String),
    /// Not to be pointed out, or not again.
    Known,
}

/// A run that was shown to its end.
struct EndedRun {
    watch: Watch,
    /// Whether somebody pressed Ctrl-C.
    is_stopped: bool,
    /// Why not all of it could be shown, if somebody still wanted to see it.
    unshown: Option<Failure>,
}

type Driving<'a> = (&'a Runner, JoinHandle<Result<NodeResult, RunnerError>>);

/// A request to cancel the run.
type Cancelling<'a> = Pin<Box<dyn Future<Output = Result<(), RunnerError>> + Send + 'a>>;

impl<'a> Follow<'a> {
    fn new(
        context: &'a Context<'a>,
        workspace: &'a Workspace,
        run: RunId,
        progress: Progress<'a>,
    ) -> Result<Self, Failure> {
        let watch = Watch::new(workspace.store().clone(), workspace.space().clone(), run);
        Ok(Self {
            context,
            workspace,
            watch,
            handle: OnceCell::new(),
            progress,
            held_up: None,
            outage: None,
            uncancelled: None,
            questions: Questions::Unseen,
            paused: None,
            told_uses: HashMap::new(),
            unshown: None,
        })
    }

    /// Waits until everything that happened has been shown.
    async fn until_ended(mut self, drive_task: Option<Driving<'_>>) -> Result<EndedRun, Failure> {
        let mut interrupts = listen_for(SignalKind::interrupt())?;
        let mut endings = EndSignals::listen()?;
        let mut pictures = tokio::time::interval(REDRAW_INTERVAL);
        let (runner, mut driver) = drive_task.map_or((None, None), |(runner, driver)| (Some(runner), Some(driver)));
        if !self.is_answered_elsewhere(runner) {
            self.questions = Questions::Known;
        }
        let mut asked_to_stop = false;
        let mut cancelling: Option<Cancelling<'_>> = None;
        // Not later: while the store is away, nobody waits for it only to name the run.
        self.handle().await;
        let mut watch_again = Instant::now();
        let run = self.watch.run().id();
        loop {
            let known = self.held_up.as_ref().map(|(held_up, _)| held_up);
            let known_outage = self.outage.as_ref().map(|(reason, _)| reason.as_str());
            let interrupted = tokio::select! {
                update = next_update(&mut self.watch, watch_again), if self.is_watching() => {
                    let update = match update {
                        // Its driver waits for the store, or says why not.
                        Err(error) if driver.is_some() && error.kind() == ErrorKind::Unavailable => {
                            watch_again = Instant::now() + AWAY_PAUSE;
                            continue;
                        }
                        update => update?,
                    };
                    let Some(events) = update else { break };
                    let is_over = self.show(&events, runner.is_some(), driver.is_some()).await?;
                    if is_over {
                        break;
                    }
                    false
                }
                _ = pictures.tick(), if self.progress.needs_redraw() => {
                    self.progress.draw(self.watch.run(), self.workspace.now());
                    false
                }
                result = join(&mut driver), if driver.is_some() => {
                    driver = None;
                    result?;
                    if self.progress.is_silent() {
                        self.watch.catch_up().await?;
                        break;
                    }
                    false
                }
                now = held_up_by(runner, run, known) => {
                    self.show_wait(now).await;
                    false
                }
                now = outage_of(runner, run, known_outage) => {
                    self.show_outage(now, runner).await;
                    false
                }
                cancelled = cancelled(&mut cancelling) => {
                    cancelling = None;
                    match (cancelled, runner) {
                        (Err(error), Some(runner)) if driver.is_some() && error.kind() == ErrorKind::Unavailable => {
                            self.show_uncancelled(&error.to_string()).await;
                            cancelling = Some(self.cancel(runner, AWAY_PAUSE));
                        }
                        (cancelled, _) => {
                            cancelled?;
                            if let Some(line) = self.uncancelled.take() {
                                self.progress.remove_note(&line);
                                self.progress.show_note(self.context.output, CANCELLING);
                            }
                        }
                    }
                    false
                }
                _ = interrupts.recv() => true,
                () = endings.recv() => {
                    if let Some(runner) = runner {
                        runner.leave();
                    }
                    if driver.is_some() {
                        // Work under way gets time to finish.
                        let _in_time = tokio::time::timeout(GRACE, join(&mut driver)).await;
                    }
                    return Err(self.ended_early(asked_to_stop, cancelling.is_none(), runner.is_some()).await);
                }
            };
            if interrupted {
                let Some(runner) = runner.filter(|_| !asked_to_stop) else {
                    return Err(self.ended_early(asked_to_stop, cancelling.is_none(), false).await);
                };
                asked_to_stop = true;
                match self.outage.as_ref().map(|(reason, _)| reason.clone()) {
                    Some(reason) => self.show_uncancelled(&reason).await,
                    None => self.progress.show_note(self.context.output, CANCELLING),
                }
                cancelling = Some(self.cancel(runner, Duration::ZERO));
            }
        }
        self.progress.draw(self.watch.run(), self.workspace.now());
        // The last events are durable before the driver has released the run.
        if driver.is_some() {
            join(&mut driver).await?;
        }
        Ok(EndedRun {
            watch: self.watch,
            is_stopped: asked_to_stop,
            unshown: self.unshown,
        })
    }

    /// Shows what happened; returns whether that was the last, because the rest cannot be shown and the run has ended.
    /// `is_ours`: this process drives the run, `is_driven`: and has not come to its end.
    async fn show(&mut self, events: &[(Timestamp, Event)], is_ours: bool, is_driven: bool) -> Result<bool, Failure> {
        if let Err(failure) = self.progress.events(self.watch.run(), events) {
            let has_ended = !is_driven && self.has_ended().await?;
            // The run is driven to its end, whether somebody watches or not.
            let goes_on = is_ours || failure.is_closed_pipe() && has_ended;
            if !goes_on {
                return Err(failure);
            }
            self.progress = Progress::Silent;
            self.unshown = Some(failure).filter(|failure| !failure.is_closed_pipe());
            if has_ended {
                return Ok(true);
            }
        }
        self.point_out_uses().await;
        self.point_out_questions().await;
        if is_ours {
            self.point_out_pauses().await;
        }
        Ok(false)
    }

    /// Whether anything is shown, or a question is still to be pointed out.
    fn is_watching(&self) -> bool {
        !self.progress.is_silent() || matches!(self.questions, Questions::Unseen)
    }

    /// Says that the run asks something, for as long as it does.
    async fn point_out_questions(&mut self) {
        let asks = self.watch.run().summary().asks > 0;
        match &self.questions {
            Questions::Unseen if asks => {
                let line = self.asking_line().await;
                self.progress.show_request(self.context.output, &line);
                self.questions = Questions::PointedOut(line);
            }
            Questions::PointedOut(line) if !asks => {
                self.progress.remove_note(line);
                self.questions = Questions::Known;
            }
            Questions::Unseen | Questions::PointedOut(_) | Questions::Known => {}
        }
    }

    /// Says that much of a limit of the run or of a part of it is used, once at each step. A tree shows it all the time.
    async fn point_out_uses(&mut self) {
        let run = self.watch.run();
        if run.result().is_some() || !self.progress.has_notes() {
            return;
        }
        let whole = run.purse().map(|purse| (NodeId::root(run.id()), "", purse));
        let parts = run
            .limited_parts()
            .filter_map(|part| Some((part.id, part.path, part.purse?)));
        // Of each, the name and what it has used.
        let mut reached: Vec<(String, String)> = Vec::new();
        for (node, path, purse) in whole.into_iter().chain(parts) {
            let mut uses = Vec::new();
            for used in purse.uses() {
                let step = warning_step(used).unwrap_or_default();
                let told = self.told_uses.entry((node, used.dimension)).or_default();
                if step > *told {
                    *told = step;
                    uses.push(use_in_words(used));
                }
            }
            if !uses.is_empty() {
                reached.push((printable(path), uses.join(", ")));
            }
        }
        if reached.is_empty() {
            return;
        }
        let (handle, again) = (self.handle().await, self.context.settings.repeated());
        for (path, uses) in reached {
            let (of, part) = match path.as_str() {
                "" => (handle.clone(), String::new()),
                path => (format!("{handle}: {path}"), format!(" --node {}", quoted(path))),
            };
            self.context.output.note(format_args!(
                "{of} has used {uses}; `folio budget {handle}{part}{again}` shows and changes its limits"
            ));
        }
    }

    /// Says that the run waits for nothing but paused parts, as often as others are paused.
    async fn point_out_pauses(&mut self) {
        let run = self.watch.run();
        let summary = run.summary();
        let only_waits = summary.waits && summary.due_at.is_none() && summary.asks == 0;
        let tree = if only_waits { run.tree() } else { Vec::new() };
        let paused = tree.iter().filter(|view| view.paused && view.result.is_none());
        let paths: Vec<String> = paused.map(|view| view.path.to_owned()).collect();
        if paths.is_empty() {
            if let Some(line) = self.paused.take() {
                self.progress.remove_note(&line);
            }
            return;
        }
        let handle = self.handle().await;
        let again = self.context.settings.repeated();
        let line = match paths.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["", ..] => format!("{handle} is paused; continue it with `folio continue {handle}{again}`"),
            [path] => {
                let path = printable(path);
                let name = quoted(&path);
                format!("{path} is paused; continue it with `folio continue {handle} --node {name}{again}`")
            }
            paths => {
                let all = paths.join(", ");
                let all = printable(&all);
                format!("{all} are paused; continue each with `folio continue {handle} --node NODE{again}`")
            }
        };
        if self.paused.as_ref() != Some(&line) {
            self.progress.show_note(self.context.output, &line);
            self.paused = Some(line);
        }
    }

    /// The short name of the run.
    async fn handle(&self) -> String {
        let run = self.watch.run().id();
        let read = async || self.workspace.run(Ref::Id(run)).await.map(|row| row.handle.to_string());
        let handle = self.handle.get_or_try_init(read).await;
        handle.map_or_else(|_| run.to_string(), String::clone)
    }

    /// The failure for a program that ends before the run. `asked_to_stop`: somebody wanted it cancelled, which is
    /// `recorded` or not. `given_up`: the run was driven here, and can be resumed.
    async fn ended_early(&self, asked_to_stop: bool, recorded: bool, given_up: bool) -> Failure {
        let (name, settings) = (self.handle().await, &self.context.settings);
        let failure = Failure::new(Exit::Cancelled, "cancelled", format!("left {name} before it ended"));
        let again = settings.repeated();
        if !settings.is_persistent() {
            failure.hint("its store was in memory, so nothing is kept; use --store sqlite:PATH to keep runs")
        } else if asked_to_stop && !recorded {
            failure.hint(format!(
                "it was not cancelled yet; cancel it with `folio cancel {name}{again}`"
            ))
        } else if asked_to_stop {
            failure.hint(format!("finish cancelling it with `folio resume {name}{again}`"))
        } else if given_up {
            failure.hint(format!("resume it with `folio resume {name}{again}`"))
        } else {
            failure
        }
    }

    /// Cancels the run, after `pause`.
    fn cancel<'r>(&self, runner: &'r Runner, pause: Duration) -> Cancelling<'r> {
        let (run, actor) = (self.watch.run().id(), self.context.actor());
        Box::pin(async move {
            tokio::time::sleep(pause).await;
            runner.cancel(run, None, &actor).await
        })
    }

    /// Says once that the run cannot be cancelled yet, because its store cannot be written for this `reason`.
    async fn show_uncancelled(&mut self, reason: &str) {
        if self.uncancelled.is_none() {
            let line = format!(
                "the store cannot be written now; {} is cancelled as soon as it can; press Ctrl-C again to exit at once: {reason}",
                self.handle().await
            );
            self.progress.show_request(self.context.output, &line);
            self.uncancelled = Some(line);
        }
    }

    /// Says what holds up a call of the run `now`, in place of what did before.
    async fn show_wait(&mut self, now: Option<HeldUp>) {
        if let Some((_, line)) = self.held_up.take() {
            self.progress.remove_note(&line);
        }
        if let Some(now) = now {
            let line = self.waiting_line(&now).await;
            self.progress.show_note(self.context.output, &line);
            self.held_up = Some((now, line));
        }
    }

    /// Says that the run waits for its store `now`, in place of what was said before.
    async fn show_outage(&mut self, now: Option<String>, runner: Option<&Runner>) {
        if let Some((_, line)) = self.outage.take() {
            self.progress.remove_note(&line);
        }
        if let (Some(reason), Some(runner)) = (now, runner) {
            let (run, minutes) = (self.handle().await, runner.outage_patience().as_secs().div_ceil(60));
            let line = format!(
                "{run} waits for its store, holds how its calls ended, and gives up after {minutes} minutes: {reason}"
            );
            if self.uncancelled.is_none() {
                self.progress.show_note(self.context.output, &line);
            }
            self.outage = Some((reason, line));
        }
    }

    /// Whether what the run asks waits for an answer from elsewhere: nobody sits at a terminal here, and yet somebody
    /// may answer.
    fn is_answered_elsewhere(&self, runner: Option<&Runner>) -> bool {
        let may_be_answered = runner.is_some_and(Runner::has_person) && self.context.settings.is_persistent();
        may_be_answered && !std::io::stdin().is_terminal()
    }

    /// A line saying where the questions of the run are listed.
    async fn asking_line(&self) -> String {
        let run = self.handle().await;
        let again = self.context.settings.repeated();
        format!("{run} asks something and waits; `folio questions {run}{again}` lists it")
    }

    /// Whether the run has ended; if so, all of its events have been read.
    async fn has_ended(&mut self) -> Result<bool, Failure> {
        self.watch.catch_up().await?;
        Ok(self.watch.run().result().is_some())
    }

    /// A line saying that a call waits, and for which run.
    async fn waiting_line(&self, held_up: &HeldUp) -> String {
        let row = self.workspace.run(Ref::Id(held_up.by)).await;
        let by = row.map_or_else(|_| held_up.by.to_string(), |row| row.handle.to_string());
        waits_for(&held_up.name, &by)
    }
}

/// A line saying that a call waits for a call of the run `by`, which writes `name`.
pub(crate) fn waits_for(name: &str, by: &str) -> String {
    let name = printable(name);
    format!(
        "waiting: a call of {by} is writing {name}, where this run writes, too; it continues when that call has ended"
    )
}

/// Waits until something other than `known` holds up a call of the run that is driven here, and returns it.
async fn held_up_by(runner: Option<&Runner>, run: RunId, known: Option<&HeldUp>) -> Option<HeldUp> {
    match runner {
        Some(runner) => runner.held_up(run, known).await,
        None => std::future::pending().await,
    }
}

/// Waits until the run that is driven here waits for its store for another reason than `known`, and returns it.
async fn outage_of(runner: Option<&Runner>, run: RunId, known: Option<&str>) -> Option<String> {
    match runner {
        Some(runner) => runner.store_outage(run, known).await,
        None => std::future::pending().await,
    }
}

/// Waits for what happens next in the run, not earlier than `from`.
async fn next_update(watch: &mut Watch, from: Instant) -> Result<Option<Vec<(Timestamp, Event)>>, RunnerError> {
    tokio::time::sleep_until(from).await;
    watch.next().await
}

/// Waits until the run is cancelled; for ever if nobody asked for it.
async fn cancelled(cancelling: &mut Option<Cancelling<'_>>) -> Result<(), RunnerError> {
    match cancelling {
        Some(cancelling) => cancelling.await,
        None => std::future::pending().await,
    }
}

/// Waits for the driver, and returns its failure, if any.
async fn join(driver: &mut Option<JoinHandle<Result<NodeResult, RunnerError>>>) -> Result<(), Failure> {
    let Some(driver) = driver else {
        return std::future::pending().await;
    };
    match driver.await {
        Ok(result) => Ok(result.map(|_| ())?),
        Err(panicked) => Err(Failure::new(
            Exit::Damaged,
            "internal",
            format!("the driver of the run stopped: {panicked}"),
        )
        .hint("`folio resume` carries on where it stopped; please report this")),
    }
}

/// Reports the outcome of the run, and returns how the program exits.
async fn finish(context: &Context<'_>, workspace: &Workspace, run: RunId, ended: EndedRun) -> Result<Exit, Failure> {
    let EndedRun { watch, unshown, .. } = ended;
    let row = workspace.run(Ref::Id(run)).await?;
    let summary = summary(workspace, &row, watch.run(), None).await?;
    let Some(result) = watch.run().result() else {
        return Err(Failure::new(
            Exit::Damaged,
            "internal",
            format!("run {} ended without a result", row.handle),
        ));
    };
    // That this cannot be read must not hide how the run ended.
    let unwritten = match unwritten::first_reason(workspace, run).await {
        Ok(reason) => reason.map(Unwritten::Because),
        Err(failure) => Some(Unwritten::Unknown(failure.message().to_owned())),
    };
    let reported = tell(context, &row, &summary, (watch.run(), result), unwritten.as_ref());
    match unshown.map_or(reported, Err) {
        Err(failure) if !failure.is_closed_pipe() => {
            let (run, again) = (row.handle, context.settings.repeated());
            let headline = format!("{run} has ended: {}", result.status);
            Err(failure.hint(format!("{headline}; `folio show {run}{again}` shows its result")))
        }
        _ => Ok(exit_of(result.status)),
    }
}

/// Whether something was not written to memory.
enum Unwritten {
    /// It was not, for this reason.
    Because(String),
    /// That could not be found out, for this reason.
    Unknown(String),
}

fn tell(
    context: &Context<'_>,
    row: &RunRow,
    summary: &Summary,
    (run_itself, result): (&folio::engine::Run, &NodeResult),
    unwritten: Option<&Unwritten>,
) -> Result<(), Failure> {
    let output = context.output;
    if output.is_json() {
        let mut line = serde_json::json!(summary);
        line["event"] = "run_ended".into();
        match unwritten {
            Some(Unwritten::Because(reason)) => line["unwritten"] = reason.as_str().into(),
            Some(Unwritten::Unknown(reason)) => line["unwritten_unknown"] = reason.as_str().into(),
            None => {}
        }
        output.line(&line)?;
    } else {
        if let Some(report) = summary.report() {
            output.note("");
            output.text(&for_people(report, context.settings.repeated()))?;
        }
        let style = output.error_style();
        let status = crate::report::run::colored(style, result.status.as_str());
        let notes = crate::report::first_line(summary.notes(), 200);
        let again = context.settings.repeated();
        let why = result
            .stop_reason
            .map_or_else(String::new, |reason| format!(" ({reason})"));
        let headline = format!("{} {status}{why}: {notes}", style.strong(row.handle));
        if exit_of(result.status) == Exit::Done || !output.is_quiet() {
            output.note(format_args!("\n{headline}"));
        } else {
            output.trouble(headline);
        }
        let run = row.handle;
        let untold = unwritten.map(|unwritten| match unwritten {
            Unwritten::Because(reason) => ("not everything was written to memory", reason),
            Unwritten::Unknown(reason) => ("whether all was written to memory is unknown", reason),
        });
        if let Some((what, reason)) = untold {
            let reason = crate::report::first_line(reason, 200);
            output.trouble(format_args!("{what}: {reason}"));
        }
        if let Some(unplanned) = unplanned_line(run_itself) {
            output.note(format_args!("  {unplanned}"));
        }
        let unplanned = run_itself.unplanned().map(|(_, reason)| reason);
        let reasons: Vec<StopReason> = result.stop_reason.into_iter().chain(unplanned).collect();
        let more = raise_commands(&reasons, run_itself, &run.to_string()).into_iter();
        let left_out = unwritten.map(|_| ("left out", format!("trace --run {run} --component scratch_page")));
        let lookups = [
            ("pages", format!("tree --run {run}")),
            ("steps", format!("show {run}")),
            ("trace", format!("trace --run {run}")),
            ("in the browser", "serve".to_owned()),
        ];
        if !context.settings.is_persistent() {
            output.note(style.faint(
                "  the store was in memory, so nothing of the run is kept; use --store sqlite:PATH to keep runs",
            ));
            return Ok(());
        }
        if let Some(first) = result.stop_reason.and_then(|reason| before_raising(reason, run_itself)) {
            output.note(style.faint(format_args!("  {first}")));
        }
        for (label, command) in more.chain(left_out).chain(lookups) {
            output.note(style.faint(format_args!("  {label:<15} folio {command}{again}")));
        }
    }
    Ok(())
}

/// How the program exits after a run with this outcome.
pub(crate) fn exit_of(outcome: Outcome) -> Exit {
    match outcome {
        Outcome::Ok => Exit::Done,
        Outcome::Cancelled => Exit::Cancelled,
        Outcome::Partial | Outcome::Failed | Outcome::Skipped => Exit::RunNotOk,
    }
}

/// A report with its `title` as a heading, unless it begins with that heading itself.
fn report_of(title: &str, bodies: &[&str]) -> String {
    let first = bodies.first().map_or("", |body| body.trim_start());
    let mut parts: Vec<&str> = bodies.iter().map(|body| body.trim_end()).collect();
    let heading = format!("# {title}");
    if first.lines().next().map(str::trim_end) != Some(&*heading) {
        parts.insert(0, &heading);
    } else if let Some(part) = parts.first_mut() {
        *part = part.trim_start();
    }
    let mut text = parts.join("\n\n");
    text.push('\n');
    text
}

/// A run as programs read it, with what holds it up and the text of its report.
pub(crate) async fn summary(
    workspace: &Workspace,
    row: &RunRow,
    run: &folio::engine::Run,
    held_up: Option<HeldUpShape>,
) -> Result<Summary, Failure> {
    let pages = main_pages(workspace, run).await?;
    let report = match pages.contains_key("report") {
        false => None,
        true => {
            let page = workspace.page(Ref::Id(projection::report_page(row.id))).await?;
            let entries = workspace.page_entries(Ref::Id(page.id)).await?;
            let bodies: Vec<&str> = entries.iter().map(|entry| entry.fields.body.as_str()).collect();
            Some(report_of(&page.fields.title, &bodies))
        }
    };
    let shape = RunInFull::of(row, run, pages, held_up, workspace.now());
    Ok(Summary::of(shape, row, run, report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_its_title_as_a_heading_once() {
        assert_eq!(report_of("Ships", &["Two."]), "# Ships\n\nTwo.\n");
        assert_eq!(report_of("Ships", &["# Ships\n\nTwo.\n"]), "# Ships\n\nTwo.\n");
        assert_eq!(report_of("Ships", &["# Harbours\n"]), "# Ships\n\n# Harbours\n");
        assert_eq!(report_of("Ships", &[]), "# Ships\n");
    }
}
