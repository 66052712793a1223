//! The loop of one run: ask what is due, record it, and when that is durable, do it.

mod appends;
mod beginning;
mod calls;
mod ended;
mod put_away;
mod telling;
mod writing;

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use folio_engine::run::{CheckFinding, ModelAnswer};
use folio_engine::{Event, NodeId, Run};
use folio_memory::id::Ref;
use folio_memory::{Change, EntryId, RunId, ThreadKey, Timestamp};
use folio_store::workspace::WorkspaceError;
use folio_store::{StoreError, Workspace};
use folio_tools::ToolContext;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::calls::{Call, Calls};
use crate::ahead::Ahead;
use crate::beside::Beside;
use crate::bodies::Bodies;
use crate::book::RunBook;
use crate::busy::BusyRun;
use crate::compact::PutAway;
use crate::dispatch::{Driven, Until};
use crate::error::RunnerError;
use crate::grants;
use crate::locks::{HeldUp, RunLocks};
use crate::memory::{MemoryWriter, ruled, turn_of};
use crate::models::AskEnded;
use crate::others::Followed;
use crate::pages::RunPages;
use crate::perform::Performed;
use crate::prefer::Preferences;
use crate::results::{Question, RunResults};
use crate::run_time::RunTime;
use crate::runner::Shared;
use crate::sessions::SessionBegun;
use crate::steps::{Outside, UnderWay, derive, needed_model};
use crate::submitted::Opened;

/// Bytes of what models answered after which no more goes into the same commit. A plan of theirs is in memory many times as large while it
/// is read, made nodes and pages of, and written.
const REPLIES_AT_ONCE: usize = 256 * 1024;

/// How many answers go into the same commit. While they are being written the others are read: where models answer at once, all that may be
/// under way would end together, and whoever writes and whoever drives the run would wait for one another.
const ANSWERS_AT_ONCE: usize = 32;

/// A run that goes on by itself within this time does not only wait.
const SOON: Duration = Duration::from_secs(5);

/// How often whoever waits for an instant looks how late it is.
const LOOKED_AT: Duration = Duration::from_secs(30);

/// Something that was done outside: to be recorded, and then kept until it is durable.
#[derive(Debug)]
enum Done {
    /// A call ended, whose beginning is recorded in this batch.
    Call(Box<Performed>, u64),
    /// The criteria of a node were checked; by commands, if that they were about to is recorded in this batch.
    Checked(NodeId, Option<u64>, Vec<CheckFinding>),
    /// A model answered, or did not. Its being asked is recorded in this batch.
    Asked(Box<AskEnded>, u64),
    /// A program that was asked has a session. Its being asked is recorded in this batch.
    Session(Box<SessionBegun>, u64),
    /// What was said was put away by a compactor. Its being asked is recorded in this batch.
    PutAway(Box<PutAway>, u64),
}

impl Done {
    /// Bytes of what a model answered.
    fn replied(&self) -> usize {
        match self {
            Self::Asked(ended, _) => match &ended.answer {
                ModelAnswer::Replied { reply, .. } => reply.text.len(),
                ModelAnswer::Failed(_) | ModelAnswer::Stopped => 0,
            },
            _ => 0,
        }
    }
}

/// What comes of a call. It fails if the store is away, or damaged, and could not keep what was to be put away.
type Outcome = Result<Done, WorkspaceError>;

/// One run while this process drives it.
///
/// What an effect follows from is durable before the effect begins. Calls that only compute have none: while the disk writes
/// one batch, the run goes on with them, and what comes of it is the next batch. Nobody sees it before it is durable, and if
/// somebody else wrote to the journal first it never was.
pub(crate) struct Drive {
    shared: Arc<Shared>,
    /// The run with everything that was applied, durable or not.
    run: Run,
    /// Its large outputs.
    bodies: Bodies,
    /// Where the journal ends, as far as `run` knows it, and who else writes to it.
    followed: Arc<Followed>,
    fence: u64,
    context: ToolContext,
    memory: MemoryWriter,
    /// How far it is driven.
    until: Until,
    /// Whether somebody is there to answer, here or where it was submitted.
    has_person: bool,
    /// The tools that the run's submitter allowed.
    allowed_tools: Vec<String>,
    /// What its calls write, beside those of other runs.
    locks: RunLocks,
    /// What comes first, if somebody waits for something.
    prefer: Option<Preferences>,
    under_way: UnderWay,
    /// What was begun since it was last looked at. Nobody has polled it, so nobody waits for it.
    begun: Vec<Call<Outcome>>,
    /// When it was asked last what is due.
    asked_at: Option<Timestamp>,
    /// What time it is in the run.
    time: RunTime,
    /// Results that calls ask for.
    questions: mpsc::Receiver<Question>,
    ahead: Ahead<Done>,
    /// Steps of which nothing is written any more, because somebody has put their entries away.
    put_away: HashSet<EntryId>,
    /// How often in a row somebody else was quicker.
    conflicts: u32,
    /// What is told of the run's pages, once somebody asked, as far as that is known.
    pages: Option<RunPages>,
    /// What it was held up by, each of which is told once.
    held_up: HashSet<HeldUp>,
    calling_off: CallingOff,
}

/// Those elsewhere who are being told that nobody waits for them any more. Each has the time that its settings give it, also where the run is
/// not driven on here meanwhile.
#[derive(Debug, Default)]
struct CallingOff(JoinSet<()>);

impl Drop for CallingOff {
    fn drop(&mut self) {
        self.0.detach_all();
    }
}

impl Drive {
    /// Takes up a run that was claimed under the fence beside it.
    ///
    /// Calls that had begun and have no outcome are owed again, by the class of their tools.
    pub(crate) async fn open(
        shared: Arc<Shared>,
        (id, fence): (RunId, u64),
        until: Until,
    ) -> Result<Self, RunnerError> {
        let Opened { run, head, pages } = shared.open(id).await?;
        let policy = shared.workspace.policy().await?;
        if shared.options.models.is_none()
            && let Some(tasks) = needed_model(&run)
        {
            // Whoever has a model goes on with it; here it would only fail.
            return Err(RunnerError::NeedsModel { tasks });
        }
        let roots = grants::roots_of(&run)?;
        let run_folder = grants::run_folder(shared.options.run_folders.as_deref(), &run);
        let mut context = ToolContext::new(roots, run_folder);
        context.shell = Arc::new(grants::shell_of(&run));
        context.hosts = Arc::new(grants::hosts_of(&run));
        context.environment = Arc::new(shared.options.environment.clone());
        let (results, questions) = RunResults::new(&shared.workspace);
        context.results = results;
        context.scratchbook = Arc::new(RunBook {
            workspace: shared.workspace.clone(),
            run: id,
            turn: turn_of(&run),
        });
        let mut memory = MemoryWriter {
            workspace: shared.workspace.clone(),
            turn: turn_of(&run),
            thread: ThreadKey::main(),
            policy,
        };
        if let Some(turn) = memory.turn {
            memory.thread = match shared.workspace.turn(Ref::Id(turn)).await {
                Ok(turn) => turn.begun.thread,
                // One that somebody else keeps: then it is the main one.
                Err(WorkspaceError::Store(StoreError::NotFound { .. })) => ThreadKey::main(),
                Err(error) => return Err(error.into()),
            };
        }
        let locks = RunLocks::of(&shared.locks, &run);
        let is_answered = shared.options.has_person || until.leaves_to_person(&run);
        let has_person = is_answered && !grants::is_unattended(&run);
        let prefer = Preferences::of(&shared.workspace).await?;
        let allowed_tools = grants::allowed_tools_of(&run);
        let followed = shared.others.follow(&shared.workspace, id, head);
        let bodies = Bodies::of(&shared.workspace, shared.options.outputs_at_hand);
        let mut drive = Self {
            shared,
            run,
            bodies,
            followed,
            fence,
            context,
            memory,
            until,
            has_person,
            allowed_tools,
            locks,
            prefer,
            under_way: UnderWay::default(),
            begun: Vec::new(),
            asked_at: None,
            time: RunTime::default(),
            questions,
            ahead: Ahead::default(),
            put_away: HashSet::new(),
            conflicts: 0,
            pages,
            held_up: HashSet::new(),
            calling_off: CallingOff::default(),
        };
        drive.tell_run();
        // A request to stop may come in between; what is in flight is then looked at again.
        loop {
            let in_flight = drive.run.in_flight();
            if in_flight.is_empty() {
                return Ok(drive);
            }
            let batch = drive.ahead.number();
            drive.record(Event::Resumed { in_flight }).await?;
            drive.write_here().await?;
            if drive.ahead.has_written(batch) {
                return Ok(drive);
            }
        }
    }

    /// Tells the run what is no part of its journal: who says yes to calls, what they write, which models there are.
    fn tell_run(&mut self) {
        let (shared, run) = (&self.shared, &mut self.run);
        let registry = &shared.registry;
        if self.has_person {
            run.ask_first(Some(grants::asks_first(registry, run)));
        }
        run.know_elsewhere(Some(self.locks.elsewhere()));
        let looking = registry.clone();
        run.know_looks(Some(Arc::new(move |tool| grants::only_looks(&looking, tool))));
        run.know_writes(Some(grants::writes_of(registry, &self.context, &shared.workspace, run)));
        if let Some(models) = &shared.options.models {
            run.equip(
                shared
                    .equipped
                    .of(models, registry, self.has_person, run, &self.memory.policy),
            );
        }
    }

    /// Tells whoever reads beside the drivers of runs that this one is driven from now on.
    fn tell_observer(&self) {
        if let Some(observer) = &self.shared.options.observer {
            let watch = self.shared.watch(self.run.id());
            let models = self.shared.options.models.clone();
            observer.drives(Beside::new(watch, self.followed.from, self.followed.heads(), models));
        }
    }

    /// Drives the run to its end; or as far as [`Until`] says, until everything has waited for so long and goes on waiting; or, if the process is about to end, until nothing is under way.
    /// Meanwhile `busy` knows whether the run does more than wait.
    pub(crate) async fn run(mut self, busy: Option<&BusyRun>) -> Result<Driven, RunnerError> {
        self.tell_observer();
        let followed = Arc::clone(&self.followed);
        let leaving = self.shared.leaving.clone();
        let mut done: Vec<Done> = Vec::new();
        let mut calls = Calls::default();
        let locks = self.locks.locks();
        loop {
            // From here on nothing is missed that others give back.
            let mut given_back = pin!(locks.given_back());
            given_back.as_mut().enable();
            calls.take_up(&mut self.begun);
            calls.beside(pin!(self.step(std::mem::take(&mut done)))).await?;
            calls.take_up(&mut self.begun);
            let waits = self.locks.has_waited();
            self.tell_what_holds_up(waits);
            let is_durable = self.ahead.is_durable();
            if let Some(result) = self.run.result().filter(|_| is_durable) {
                let calling_off = &mut self.calling_off.0;
                calls
                    .beside(pin!(async { while calling_off.join_next().await.is_some() {} }))
                    .await;
                return Ok(Driven::Ended(result.clone()));
            }
            let until = self.run.wakes_after(self.asked_at);
            let wake = until.map(|at| at.since(self.time.now(&self.shared.workspace)));
            let has_room = self.ahead.has_room();
            let is_idle = is_durable && calls.is_empty();
            // Whoever is being told that nobody waits any more would not hear it otherwise: no journal says that they were told.
            let is_over = is_idle && self.calling_off.0.is_empty();
            if is_over && leaving.is_cancelled() {
                return Err(RunnerError::Leaving);
            }
            // What becomes due soon is waited for here.
            let (is_idle, is_over) = (is_idle && !waits, is_over && !waits);
            if let Some(busy) = busy {
                busy.waits(is_idle && wake.is_none_or(|wake| wake > SOON));
            }
            let patience = self
                .until
                .patience(&self.run)
                .filter(|patience| is_over && wake.is_none_or(|wake| wake > *patience * 2));
            tokio::select! {
                biased;
                (writing, written) = self.ahead.written() => calls.beside(pin!(self.take_in(writing, written))).await?,
                // What was begun goes on also while no more of it can be taken in.
                Some(first) = calls.next(has_room) => done.push(first?),
                Some(question) = self.questions.recv() => question.answer(&self.run, &self.ahead),
                () = followed.foreign(), if is_durable => calls.beside(pin!(self.catch_up())).await?,
                () = &mut given_back, if waits => {}
                Some(_told) = self.calling_off.0.join_next() => {}
                () = comes(&self.time, &self.shared.workspace, until.unwrap_or(Timestamp::MAX)), if until.is_some() && has_room => {}
                () = tokio::time::sleep(patience.unwrap_or(Duration::MAX)), if patience.is_some() => {
                    return Ok(Driven::Waits { until, head: followed.head() });
                }
                () = leaving.cancelled(), if !leaving.is_cancelled() => {}
            }
            // Whatever else has ended meanwhile goes into the same commit.
            let mut replied: usize = done.iter().map(Done::replied).sum();
            let mut answers = done.iter().filter(|done| matches!(done, Done::Asked(..))).count();
            while has_room
                && replied < REPLIES_AT_ONCE
                && answers < ANSWERS_AT_ONCE
                && let Some(Some(more)) = futures_util::FutureExt::now_or_never(calls.next(true))
            {
                let more = more?;
                replied += more.replied();
                answers += usize::from(matches!(more, Done::Asked(..)));
                done.push(more);
            }
        }
    }

    /// Goes on as soon as no more than [`STEPPING_MAX`] runs do.
    async fn step(&mut self, done: Vec<Done>) -> Result<(), RunnerError> {
        let shared = Arc::clone(&self.shared);
        let _place = shared.stepping.acquire().await;
        self.go_on(done).await
    }

    /// Applies what was done and all that follows, has it written, and begins what may begin.
    async fn go_on(&mut self, mut done: Vec<Done>) -> Result<(), RunnerError> {
        // A call that was begun ahead may not be owed any more.
        let is_owed = |performed: &Performed, batch| {
            let begun = self.under_way.calls.get(&performed.node);
            begun.is_some_and(|begun| begun.batch == batch)
        };
        done.retain(|done| !matches!(done, Done::Call(performed, batch) if !is_owed(performed, *batch)));
        for done in &mut done {
            if let Done::Call(performed, ..) = done {
                appends::resolve_pages(&self.shared.workspace, self.run.id(), performed).await?;
            }
        }
        self.conclude_all(done).await?;
        loop {
            let outside = self.derive().await?;
            self.under_way.stop_checks(&self.run);
            self.observe_ended().await?;
            self.begin_ahead();
            // What is told of memory may be told before what it follows from is durable, if that changes nothing of it but the run's own
            // pages: then both are one commit.
            let only_tells = outside.load.is_empty() && outside.compact.is_empty() && outside.verify.is_empty();
            if (self.ahead.may_write() || !self.ahead.batch.is_empty() && self.ahead.has_room())
                && !self.ahead.has_calls()
                && only_tells
                && !outside.brief.is_empty()
                && self.brief_all(&outside.brief).await?
            {
                continue;
            }
            if self.ahead.may_write() {
                if self.ahead.has_calls() || self.under_way.is_any() {
                    self.write_beside().await;
                    return Ok(());
                }
                // Nothing can be done meanwhile, so nobody has to change threads for it.
                self.write_here().await?;
                continue;
            }
            if !self.ahead.is_durable() {
                return Ok(());
            }
            for check in outside.verify {
                self.begin_checking(check, None);
            }
            if outside.load.is_empty() && outside.brief.is_empty() && outside.compact.is_empty() {
                return Ok(());
            }
            for hash in outside.load {
                let value = self.bodies.read(&hash).await?;
                self.run.supply(&hash, Arc::new(value));
            }
            if !self.brief_all(&outside.brief).await? {
                // All of it is durable, so it can be read.
                self.pages = None;
                self.brief_all(&outside.brief).await?;
            }
            for action in outside.compact {
                self.compact(action).await?;
            }
        }
    }

    async fn conclude_all(&mut self, all: Vec<Done>) -> Result<(), RunnerError> {
        for mut done in all {
            // Nobody waits any more for what it would be told, and its program ends.
            if let Done::Session(begun, _) = &done
                && self.session_began(begun).is_none()
            {
                self.under_way.calls.remove(&begun.ask.0);
                continue;
            }
            self.conclude(&mut done).await?;
            self.ahead.keep(done);
        }
        Ok(())
    }

    /// Applies all that follows from the state.
    async fn derive(&mut self) -> Result<Outside, RunnerError> {
        if !self.ahead.has_room() {
            return Ok(Outside::default());
        }
        let now = self.time.now(&self.shared.workspace);
        self.asked_at = Some(now);
        self.locks.follow(&self.run);
        self.under_way.waiting = self.ahead.waiting_calls();
        let concurrency = self.concurrency();
        let registry = &self.shared.registry;
        let prefer = self.prefer.as_ref();
        let outside = derive(
            (&mut self.run, &mut self.bodies),
            registry,
            &self.under_way,
            (prefer, &self.shared.options.lost_calls, &self.locks),
            concurrency,
            now,
            &mut self.ahead.batch,
        )
        .await?;
        self.bodies.let_go(&self.run);
        Ok(outside)
    }

    /// Applies how a call or a check ended. One that was overtaken by a cancellation still counts: it did happen.
    async fn conclude(&mut self, done: &mut Done) -> Result<(), RunnerError> {
        let now = self.time.now(&self.shared.workspace);
        match done {
            Done::Call(performed, _) => {
                let performed = &**performed;
                self.under_way.calls.remove(&performed.node);
                let node = performed.node;
                // What criteria and rules read may have been let go of while the call was under way.
                let counted = self.memory.counted(&performed.outcome, &performed.writes);
                let outcome = counted.as_ref().unwrap_or(&performed.outcome);
                let concluded = |run: &Run| run.conclude(node, outcome.clone(), performed.duration, now);
                let mut event = self.bodies.at_hand(&self.run, concluded).await?;
                self.shared.workspace.clean_event(&mut event);
                let ruled = |run: &Run| match &event {
                    Event::Finished { result, .. } => ruled(run, node, result),
                    _ => (Vec::new(), Vec::new()),
                };
                let (ruled, problems) = self.bodies.at_hand(&self.run, ruled).await?;
                let writes = performed.writes.clone();
                let taken = self.memory.take_in(&self.run, node, writes, ruled, problems);
                self.ahead.batch.notes.extend(taken.notes);
                let recorded = self.record_with(now, event, taken.changes).await;
                self.locks.follow(&self.run);
                recorded
            }
            Done::Asked(ended, _) => {
                let ended = &**ended;
                let (node, _) = ended.ask;
                self.under_way.calls.remove(&node);
                let answered = |run: &Run| run.model_answered(node, ended.answer.clone(), ended.duration, now);
                let event = self.bodies.at_hand(&self.run, answered).await?;
                self.record_any(event).await
            }
            Done::Session(begun, _) => {
                let event = self.session_began(begun);
                self.record_any(event).await
            }
            Done::PutAway(put, _) => {
                self.under_way.calls.remove(&put.node);
                self.put_away_ended(put.as_ref().clone()).await
            }
            Done::Checked(node, batch, found) => {
                let (node, found) = (&*node, &*found);
                match batch {
                    Some(_) => drop(self.under_way.calls.remove(node)),
                    None => drop(self.under_way.checks.remove(node)),
                }
                let verified = |run: &Run| run.verified(*node, found);
                let event = self.bodies.at_hand(&self.run, verified).await?;
                self.record_any(event).await
            }
        }
    }

    fn session_began(&self, begun: &SessionBegun) -> Option<Event> {
        let (node, call) = begun.ask;
        self.run.session_began(node, call, &begun.new.id)
    }

    /// Applies `event`, without what the space does not want stored, and has it written.
    async fn record(&mut self, mut event: Event) -> Result<(), RunnerError> {
        self.shared.workspace.clean_event(&mut event);
        let now = self.time.now(&self.shared.workspace);
        self.record_with(now, event, Vec::new()).await
    }

    async fn record_any(&mut self, event: Option<Event>) -> Result<(), RunnerError> {
        match event {
            Some(event) => self.record(event).await,
            None => Ok(()),
        }
    }

    /// Applies `event`, and has it written with `more` that it writes.
    async fn record_with(&mut self, now: Timestamp, event: Event, more: Vec<Change>) -> Result<(), RunnerError> {
        let (run, bodies) = (&mut self.run, &mut self.bodies);
        self.ahead.batch.record(run, bodies, now, event, more).await
    }

    fn concurrency(&self) -> usize {
        if self.shared.leaving.is_cancelled() {
            return 0;
        }
        self.shared
            .options
            .concurrency
            .unwrap_or(self.run.limits().concurrency)
            .max(1) as usize
    }

    fn journal_error(&self, source: folio_engine::run::JournalError) -> RunnerError {
        RunnerError::Journal {
            run: self.run.id(),
            source,
        }
    }
}

/// Waits until it is `at` in the space. Whoever waits goes by another clock, which stands still while the machine sleeps: so the time is asked
/// now and then, which costs nothing.
async fn comes(time: &RunTime, workspace: &Workspace, at: Timestamp) {
    loop {
        let left = at.since(time.now(workspace));
        tokio::time::sleep(left.min(LOOKED_AT)).await;
        if left <= LOOKED_AT {
            break;
        }
    }
}

#[cfg(test)]
mod tests;
