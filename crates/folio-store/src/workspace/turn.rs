//! Turns: the stages look at an input before the work, and at the outcome after it (M7.11).

mod advisor;
mod elsewhere;
mod end;
mod episodes;
mod export;
mod exported;
mod learn;
mod touched;
mod unlearn;

use std::borrow::Cow;

use folio_memory::actor::Trust;
use folio_memory::calibration::Calibration;
use folio_memory::entry::{Outcome, Status};
use folio_memory::excerpt::cut;
use folio_memory::goals::ACTION_PATH;
use folio_memory::id::{EntryRef, Ref, TurnHandle, TurnRef};
use folio_memory::observation::{self, Class};
use folio_memory::query::MAX_LIMIT;
use folio_memory::roles::Visibility;
use folio_memory::scratchbook;
use folio_memory::turn::{
    Answer, Assessment, Clarity, Decision, JOINED_WITHIN, NewTurn, Settled, SettledBy, Situation, Stage, Turn,
    TurnQuery, Used, WorkOrder, can_be_joined, clarification_of, is_clarification, joined_turn, settled_clarifications,
};
use folio_memory::{
    Actor, Change, Confidence, Entry, EntryFields, EntryId, EntryKind, EntryQuery, FieldChange, Invalid, NewEntry,
    Owner, Role, RunId, State, ThreadKey, TurnId,
};
use serde_json::json;

pub(super) use advisor::Asked as AskedAdvisor;
pub use advisor::{Advice, Advisor, After, Before};
pub use end::Ended;
pub use episodes::{Episode, EpisodeQuery, Episodes};
pub use exported::{ExportReader, Exported, ExportedEntries};
pub(super) use learn::FirstConfidences;

use super::observations::Whose;
use super::patch::{Guard, Trying};
use super::redact::recall;
use super::{MAX_ACTIVE, Workspace, WorkspaceError, Write, source_of, trust_of_role};
use crate::store::MemoryMark;

/// Limit in bytes for the input that a turn keeps.
const MAX_INPUT_BYTES: usize = 64 * 1024;

/// An input for a turn to handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnInput {
    /// The thread.
    pub thread: ThreadKey,
    /// The input, in its writer's words; may be empty.
    pub input: String,
    /// The run that the turn belongs to, if any.
    pub run: Option<RunId>,
    /// Whether nobody waits for the turn.
    pub background: bool,
}

impl TurnInput {
    /// A turn in `thread` that somebody waits for, to handle `input`, which may be empty.
    #[must_use]
    pub fn of(thread: ThreadKey, input: impl Into<String>) -> Self {
        Self {
            thread,
            input: input.into(),
            run: None,
            background: false,
        }
    }
}

/// What the stages before the work decided, with the turn that is ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DraftedTurn {
    /// The turn.
    pub new: NewTurn,
    /// The router's finding: how urgent the input is.
    pub assessment: Assessment,
    /// The clarifier's finding: whether the input is clear.
    pub clarity: Clarity,
    /// Questions about earlier inputs of the thread that this input settles.
    pub clarified: Vec<Settled>,
    /// The executor's order of the work.
    pub order: WorkOrder,
}

impl DraftedTurn {
    /// The decision of the clarifier, as it is recorded.
    fn of_clarifier(clarity: &Clarity, clarified: &[Settled]) -> Decision {
        let mut decision = clarity.decision();
        decision.reasons.extend(clarified.iter().map(Settled::reason));
        decision.used.extend(clarified.iter().map(|settled| settled.question));
        decision
    }
}

/// What the verdict of the clarifier asks for, in commits after the one that begins the turn.
#[derive(Debug, Default)]
struct Consequences {
    /// Questions about earlier inputs that are settled.
    clarified: Vec<Settled>,
    /// The confirmation that is answered.
    answer: Option<(Used, Answer)>,
    /// The question to ask.
    question: Option<String>,
}

impl Consequences {
    fn of(clarity: &Clarity, clarified: Vec<Settled>) -> Self {
        let (mut answer, mut question) = (None, None);
        match clarity {
            Clarity::Ambiguous { question: text, .. } => question = Some(text.clone()),
            Clarity::Answers(confirmation, said) => answer = Some((*confirmation, *said)),
            Clarity::Clear(_) => {}
        }
        Self {
            clarified,
            answer,
            question,
        }
    }

    /// Those of a turn that was begun with the decision `recorded`; `clarity` is the verdict as it would be now. Only it
    /// has the question.
    fn of_recorded(recorded: &Decision, clarity: &Clarity) -> Self {
        let settled = |used: &Used| {
            let by_each = [SettledBy::Answer, SettledBy::AnotherRequest].map(|by| Settled { question: *used, by });
            by_each
                .into_iter()
                .find(|settled| recorded.reasons.contains(&settled.reason()))
        };
        let answers = |answer| {
            let confirmation = *recorded.used.first()?;
            let decision = Clarity::Answers(confirmation, answer).decision();
            let is_this = decision.verdict == recorded.verdict && recorded.reasons.starts_with(&decision.reasons);
            is_this.then_some((confirmation, answer))
        };
        let question = match clarity {
            Clarity::Ambiguous { question, .. } if clarity.decision().verdict == recorded.verdict => {
                Some(question.clone())
            }
            _ => None,
        };
        Self {
            clarified: recorded.used.iter().filter_map(settled).collect(),
            answer: answers(Answer::Yes).or_else(|| answers(Answer::No)),
            question,
        }
    }
}

/// What becomes of the question of a clarifier that finds an input unclear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Questions {
    /// It is written, for the next input to answer.
    #[default]
    Written,
    /// It is left out, because the input is part of a conversation elsewhere, which tells what is meant. The verdict is
    /// recorded, and an input answers a question that waits.
    LeftOut,
}

/// A turn that has begun.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Begun {
    /// The turn.
    pub turn: Turn,
    /// The router's finding: how urgent the input is.
    pub assessment: Assessment,
    /// The clarifier's finding: whether the input is clear.
    pub clarity: Clarity,
    /// The executor's order of the work.
    pub order: WorkOrder,
    /// The confirmation that was added because the input is not clear.
    pub question: Option<Entry>,
    /// The confirmation that the input answered. A question about an earlier input that it moves on from is settled, but
    /// not answered.
    pub answered: Option<Entry>,
    /// Whether an earlier call with the same idempotency key began the turn. What is missing of that, this call did.
    pub replayed: bool,
}

/// What those who work in a turn need to know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkingIn {
    /// Its id, with which everything is stamped.
    pub id: TurnId,
    /// Its handle, for people.
    pub handle: TurnHandle,
    /// Whether it has ended, so that its export does not include what is done now.
    pub has_ended: bool,
}

impl Workspace {
    /// Lets the stages before the work decide on `input` without writing anything, for a commit that also makes other
    /// changes.
    ///
    /// # Errors
    ///
    /// `Invalid` if the input is too long; `Unavailable` or `Corrupt`.
    pub async fn draft_turn(&self, input: TurnInput) -> Result<DraftedTurn, WorkspaceError> {
        Ok(self.drafted(input).await?.0)
    }

    /// The same, with the entries that the stages looked at.
    async fn drafted(&self, input: TurnInput) -> Result<(DraftedTurn, Vec<Entry>), WorkspaceError> {
        if input.input.len() > MAX_INPUT_BYTES {
            let message = format!("{} bytes are more than {MAX_INPUT_BYTES}", input.input.len());
            return Err(Invalid::new("input_too_large", "input", message).into());
        }
        let mark = self.mark().await?;
        let as_of = match mark {
            Some(mark) => mark.as_of,
            None => self.head().await?,
        };
        let active = self.entries_for_stages(&input, mark).await?;
        let policy = self.policy_at(mark).await?;
        let types = policy.types();
        let now = self.now();
        let has_alert = active
            .iter()
            .any(|entry| types.class_of(entry.fields.type_name.as_deref()) == Class::Alert);
        let calibration = if has_alert {
            self.calibration_of_class(Class::Alert).await?
        } else {
            Calibration::default()
        };
        let situation = Situation {
            input: &input.input,
            background: input.background,
            active: &active,
            types,
            calibration: &calibration,
            now,
        };
        // The plan of a run says what it is to do.
        let (clarity, clarified) = match input.run {
            Some(_) => (Clarity::Clear(Vec::new()), Vec::new()),
            None => {
                let visible = self
                    .without_foreign_confirmations(&input.thread, &input.input, &active, types)
                    .await?;
                let situation = Situation {
                    active: &visible,
                    ..situation
                };
                let clarity = self.stages.clarifier.assess(&situation);
                let clarified = settled_clarifications(&situation, &clarity);
                (clarity, clarified)
            }
        };
        // Nobody waits any more for questions that the input answers, nor for what they were about.
        let is_left = |entry: &&Entry| {
            let waits = entry.kind == EntryKind::PendingAction && is_clarification(entry);
            !waits && clarified.iter().all(|settled| settled.question.id != entry.id)
        };
        let left: Cow<'_, [Entry]> = match clarified.is_empty() {
            true => Cow::Borrowed(&active),
            false => Cow::Owned(active.iter().filter(is_left).cloned().collect()),
        };
        let assessment = self.stages.router.assess(&Situation {
            active: &left,
            ..situation
        });
        let order = self.stages.orderer.order(&left, types, now);
        let new = NewTurn {
            id: TurnId::draw(&*self.inner.ids, now),
            thread: input.thread,
            input: input.input,
            run: input.run,
            background: input.background,
            as_of,
            decisions: vec![
                assessment.decision(),
                DraftedTurn::of_clarifier(&clarity, &clarified),
                order.decision(),
            ],
        };
        let drafted = DraftedTurn {
            new,
            assessment,
            clarity,
            clarified,
            order,
        };
        Ok((drafted, active))
    }

    /// Begins a turn: the router decides how urgent the input is, the clarifier whether it is clear, the executor what
    /// comes first. Their decisions are recorded with the turn, with the entries that they used.
    ///
    /// An advisor may be asked as well: [`Workspace::with_advisor`].
    ///
    /// An unclear input adds a `pending_confirmation` with the question; an input that answers such a confirmation
    /// resolves it.
    ///
    /// # Errors
    ///
    /// `Refused` if the asker may not read the whole space, which the stages look at (M7.7); otherwise as
    /// [`Workspace::draft_turn`] and [`Workspace::record`].
    pub async fn begin_turn(&self, actor: &Actor, input: TurnInput) -> Result<Begun, WorkspaceError> {
        self.begin_turn_under(actor, input, None, Questions::Written).await
    }

    /// Like [`Workspace::begin_turn`], with a choice of what becomes of questions, and under a key: a second call with
    /// the key returns the turn that the first one began, and asks and answers only what the first one could not
    /// because it failed.
    ///
    /// # Errors
    ///
    /// As [`Workspace::begin_turn`]; `NotFound` if the key was used before for something that began no turn.
    pub async fn begin_turn_under(
        &self,
        actor: &Actor,
        input: TurnInput,
        idempotency_key: Option<String>,
        questions: Questions,
    ) -> Result<Begun, WorkspaceError> {
        // This comes before anything is written: decisions reveal what the stages looked at.
        self.require_space_read("what a turn begins with")?;
        // Items in the outbox must be in memory before the stages decide. Why any still wait is in the trace.
        let _delivered = self.deliver_outbox().await;
        let (mut drafted, at_hand) = self.drafted(input).await?;
        let mut is_new = true;
        if let Some(key) = &idempotency_key {
            // A repeated call finds the turn by this id.
            drafted.new.id = TurnId::derived(&["turn", self.space().as_str(), key]);
            is_new = self.advisor.is_none() || self.replayed(actor, key).await?.is_none();
        }
        if is_new {
            self.advised(&mut drafted, &at_hand, actor).await;
        }
        let DraftedTurn {
            new,
            assessment,
            clarity,
            clarified,
            order,
        } = drafted;
        let (id, thread) = (new.id, new.thread.clone());
        let actor = actor.clone().in_turn(id);
        let write = Write {
            idempotency_key,
            ..Write::of(vec![Change::BeginTurn(Box::new(new))])
        };
        let replayed = self.record(&actor, write).await?.committed.replayed;
        let mut left = if replayed {
            self.left_to_do(id, &clarity).await?
        } else {
            Consequences::of(&clarity, clarified)
        };
        left.question = left.question.filter(|_| questions == Questions::Written);
        let (mut question, mut answered) = (None, None);
        for settled in left.clarified {
            let question = self.settle(id, settled).await?;
            answered = answered.or((settled.by == SettledBy::Answer).then_some(question));
        }
        if let Some((confirmation, answer)) = left.answer {
            answered = Some(self.answer(&actor, confirmation, answer).await?);
        }
        if let (Some(text), Clarity::Ambiguous { options, .. }) = (left.question, &clarity) {
            question = Some(self.ask(id, &thread, &text, trust_among(options, &at_hand)).await?);
        }
        let turn = self.read_turn(Ref::Id(id)).await?;
        Ok(Begun {
            turn,
            assessment,
            clarity,
            order,
            question,
            answered,
            replayed,
        })
    }

    /// What a call that began the turn `id` under the same key before has left undone, because it failed half-way. A
    /// turn that has ended since needs nothing any more.
    async fn left_to_do(&self, id: TurnId, clarity: &Clarity) -> Result<Consequences, WorkspaceError> {
        let turn = self.read_turn(Ref::Id(id)).await?;
        let is_clarifier = |decision: &&Decision| decision.stage == Stage::Clarifier;
        let recorded = turn.begun.decisions.iter().find(is_clarifier);
        let Some(recorded) = recorded.filter(|_| turn.ended.is_none()) else {
            return Ok(Consequences::default());
        };
        let mut left = Consequences::of_recorded(recorded, clarity);
        let mut live = Vec::new();
        let clarified = left.clarified.iter().map(|settled| &settled.question);
        for used in clarified.chain(left.answer.iter().map(|(used, _)| used)) {
            let entry = self.entry_if_there(used.id).await?;
            live.extend(
                entry
                    .filter(|entry| entry.state(self.now()) == State::Live)
                    .map(|entry| entry.id),
            );
        }
        left.clarified.retain(|settled| live.contains(&settled.question.id));
        left.answer = left.answer.filter(|(used, _)| live.contains(&used.id));
        if left.question.is_some() && self.was_asked(turn.handle).await? {
            left.question = None;
        }
        Ok(left)
    }

    /// Whether the clarifier has asked about the input of `turn`.
    async fn was_asked(&self, turn: TurnHandle) -> Result<bool, WorkspaceError> {
        let query = EntryQuery {
            context: vec![(ACTION_PATH.to_owned(), clarification_of(turn).into())],
            status: Status::ALL.into(),
            include_expired: true,
            include_superseded: true,
            limit: 1,
            ..EntryQuery::default()
        };
        Ok(!self.read_entries(&query).await?.items.is_empty())
    }

    /// Returns one turn. Askers that may not read the whole space are not told of entries that they may not read
    /// (M7.7).
    ///
    /// # Errors
    ///
    /// `NotFound`; `Refused` for a turn of another run, or of another thread; `Unavailable` or `Corrupt`.
    pub async fn turn(&self, turn: TurnRef) -> Result<Turn, WorkspaceError> {
        let turn = self.read_turn(turn).await?;
        self.check_turn(&turn).await?;
        self.as_seen(turn).await
    }

    /// Returns the turn that a caller says it works in. A caller that may not read the turn may still name it, and
    /// cannot read it because of that.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    pub async fn turn_to_work_in(&self, turn: TurnRef) -> Result<WorkingIn, WorkspaceError> {
        let turn = self.stored_turn(turn).await?;
        Ok(WorkingIn {
            id: turn.begun.id,
            handle: turn.handle,
            has_ended: turn.ended.is_some(),
        })
    }

    /// Returns `actor` in the turn that is open in `thread` ([`joined_turn`]), unless it works in one already: what an
    /// agent writes belongs to the turn that its hooks began (M7.11.1). Without such a turn, or if the store cannot
    /// tell, it stays outside of any: nobody is kept from writing by that.
    pub async fn joined(&self, actor: Actor, thread: &ThreadKey) -> Actor {
        if actor.turn.is_some() {
            return actor;
        }
        let now = self.now();
        let mut query = TurnQuery {
            thread: Some(thread.clone()),
            ended: Some(false),
            from: Some(now.minus(JOINED_WITHIN)),
            limit: MAX_LIMIT,
            ..TurnQuery::default()
        };
        let mut candidates = Vec::new();
        // Any number of runs may be open besides.
        loop {
            let Ok(open) = self.inner.store.turns(&self.inner.space, &query).await else {
                return actor;
            };
            let is_last = open.len() < MAX_LIMIT as usize;
            query.before = open.last().map(|turn| turn.handle.0);
            candidates.extend(open.into_iter().filter(|turn| can_be_joined(turn, now)));
            if is_last || candidates.len() > 1 {
                break;
            }
        }
        match joined_turn(&candidates, now) {
            Some(turn) => actor.in_turn(turn.begun.id),
            None => actor,
        }
    }

    /// The id of `turn`, if the asker may read it. Turns are never removed, so for askers that may read the whole space
    /// each turn is looked up only once.
    pub(super) async fn turn_id(&self, turn: TurnRef) -> Result<TurnId, WorkspaceError> {
        let sees_all = self.visibility().await? == Visibility::Space;
        if let Ref::Id(id) = turn
            && sees_all
            && self.inner.known_turns.contains(&id)
        {
            return Ok(id);
        }
        let id = self.turn(turn).await?.begun.id;
        if sees_all {
            self.inner.known_turns.insert(id);
        }
        Ok(id)
    }

    /// The same as it is stored, for those who only want to know which turn it is and when: looking for what has to be
    /// taken out of its texts costs more than reading it.
    pub(super) async fn stored_turn(&self, turn: TurnRef) -> Result<Turn, WorkspaceError> {
        Ok(self.inner.store.turn(&self.inner.space, turn).await?)
    }

    /// The same for internal use, whoever asks.
    pub(super) async fn read_turn(&self, turn: TurnRef) -> Result<Turn, WorkspaceError> {
        let mut turn = self.stored_turn(turn).await?;
        recall::turn(&mut turn, self.redaction_of_reads().await?);
        Ok(turn)
    }

    /// Returns the turns that match `query` and that the asker may read, newest first: those of its run or its thread
    /// (M7.7).
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn turns(&self, query: &TurnQuery) -> Result<Vec<Turn>, WorkspaceError> {
        let Some(query) = self.visibility().await?.restrict_turns(query) else {
            return Ok(Vec::new());
        };
        let mut turns = self.read_turns(&query).await?;
        for turn in &mut turns {
            *turn = self.as_seen(turn.clone()).await?;
        }
        Ok(turns)
    }

    /// The same for internal use, whoever asks.
    pub(super) async fn read_turns(&self, query: &TurnQuery) -> Result<Vec<Turn>, WorkspaceError> {
        let mut turns = self.inner.store.turns(&self.inner.space, query).await?;
        let mode = self.redaction_of_reads().await?;
        for turn in &mut turns {
            recall::turn(turn, mode);
        }
        Ok(turns)
    }

    /// Returns the decisions that used `entry`, each with the version that was read, newest first: those of `turn`, or
    /// of all turns.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such entry or turn; `Refused` if the asker may not read it; `Unavailable` or
    /// `Corrupt`.
    pub async fn why(&self, entry: EntryRef, turn: Option<TurnRef>) -> Result<Vec<(Turn, Decision)>, WorkspaceError> {
        let entry = self.read_entry(entry).await?;
        self.check_entry(&entry).await?;
        let id = entry.id;
        let mut found = Vec::new();
        if let Some(turn) = turn {
            add_decisions_on(&mut found, &[self.turn(turn).await?], id);
            return Ok(found);
        }
        let mut query = TurnQuery {
            limit: MAX_LIMIT,
            ..TurnQuery::default()
        };
        loop {
            let turns = self.turns(&query).await?;
            add_decisions_on(&mut found, &turns, id);
            match turns.last() {
                Some(last) if turns.len() >= MAX_LIMIT as usize => query.before = Some(last.handle.0),
                _ => return Ok(found),
            }
        }
    }

    /// What the stages look at: the observations that matter most, and the open items of the thread.
    async fn entries_for_stages(
        &self,
        input: &TurnInput,
        mark: Option<MemoryMark>,
    ) -> Result<Vec<Entry>, WorkspaceError> {
        let place = (&input.thread, &*input.input);
        let mut active = self.read_active_in(place, mark, MAX_ACTIVE, Whose::Stages).await?.items;
        let (book, _) = scratchbook::page_of(self.space(), &input.thread);
        let open = EntryQuery {
            page: Some(book),
            status: vec![Status::Open, Status::InProgress, Status::Blocked],
            limit: MAX_LIMIT,
            ..EntryQuery::default()
        };
        let open = self.cached_entries(mark, Whose::Stages, &open).await?;
        active.extend(open.items.iter().cloned());
        Ok(active)
    }

    /// Adds a question: a pending action, and the confirmation that it waits for. Both get at most the trust of what
    /// the question quotes: `trust`.
    async fn ask(
        &self,
        turn: TurnId,
        thread: &ThreadKey,
        question: &str,
        trust: Trust,
    ) -> Result<Entry, WorkspaceError> {
        let actor = Actor::new(Role::Clarifier, "").in_turn(turn);
        let (now, trust) = (self.now(), trust.min(trust_of_role(&actor)));
        let key = clarification_of(self.stored_turn(Ref::Id(turn)).await?.handle);
        let context = Some(json!({ACTION_PATH: key}));
        let (page, scratch_page) = self.scratch_page().await?;
        let (book, book_fields) = scratchbook::page_of(self.space(), thread);
        let book_change = self.ensured(book, || book_fields).await?;
        // Whoever begins the turn again under its key may ask at the same moment: both ask the same.
        let asked_under = ["clarify", &turn.to_string()].join(" ");
        let new = |kind, page, fields: EntryFields| {
            Change::AddEntry(Box::new(NewEntry {
                id: EntryId::derived_at(now, &["clarify", &turn.to_string(), "action"]),
                page,
                kind,
                fields,
            }))
        };
        let mut action = EntryFields::new(EntryKind::PendingAction, Owner::agent(), trust);
        action.title = cut(&format!("Clarify: {question}"), 200);
        (action.context, action.source) = (context.clone(), source_of(&actor));
        let input = observation::ObservationInput {
            type_name: Some("pending_confirmation".to_owned()),
            content: question.to_owned(),
            owner: Some("user".to_owned()),
            context,
            ..observation::ObservationInput::default()
        };
        // Questions are rare, so the present policy is read.
        self.policy().await?;
        let mut confirmation = self
            .draft_observation(&actor, input, source_of(&actor), trust)
            .await?
            .new;
        confirmation.fields.confidence = Some(Confidence::DEFAULT);
        confirmation.page = page;
        let id = EntryId::derived(&["clarify", &turn.to_string(), "confirmation"]);
        confirmation.id = id;
        let pages = scratch_page.into_iter().chain(book_change);
        let changes = pages
            .chain([
                new(EntryKind::PendingAction, book, action),
                Change::AddEntry(confirmation),
            ])
            .collect();
        let write = Write {
            at: Some(now),
            idempotency_key: Some(asked_under),
            ..Write::of(changes)
        };
        let recorded = self.record(&actor, write).await?;
        self.entry_after(id, &recorded.committed).await
    }

    /// Resolves a question about an earlier input, which the input of `turn` settles.
    async fn settle(&self, turn: TurnId, settled: Settled) -> Result<Entry, WorkspaceError> {
        let actor = Actor::new(Role::Clarifier, "").in_turn(turn);
        let reason = match settled.by {
            SettledBy::Answer => "the next input says what was meant",
            SettledBy::AnotherRequest => "the next input is a request of its own",
        };
        self.resolve(&actor, settled.question, None, reason).await
    }

    /// Resolves a confirmation with the answer to it.
    async fn answer(&self, actor: &Actor, confirmation: Used, answer: Answer) -> Result<Entry, WorkspaceError> {
        let (outcome, reason) = match answer {
            Answer::Yes => (Outcome::Confirmed, "answered with yes"),
            Answer::No => (Outcome::Refuted, "answered with no"),
        };
        self.resolve(actor, confirmation, Some(outcome), reason).await
    }

    /// Resolves `confirmation`, if it is still live.
    async fn resolve(
        &self,
        actor: &Actor,
        confirmation: Used,
        outcome: Option<Outcome>,
        reason: &str,
    ) -> Result<Entry, WorkspaceError> {
        let changes = |current: &Entry| {
            if current.state(self.now()) != State::Live {
                return Ok((Vec::new(), Vec::new()));
            }
            let mut changes = vec![FieldChange::Status(Status::Resolved)];
            changes.extend(outcome.map(|outcome| FieldChange::Outcome(Some(outcome))));
            Ok((changes, Vec::new()))
        };
        let guard = Guard {
            reason: Some(reason.to_owned()),
            ..Guard::default()
        };
        let entry = Ref::Id(confirmation.id);
        let written = self
            .patch_under(actor, entry, guard, Trying::to("complete"), &[], changes)
            .await?;
        Ok(written.entry)
    }
}

/// Adds to `found` the decisions of `turns` that used the entry `id`.
fn add_decisions_on(found: &mut Vec<(Turn, Decision)>, turns: &[Turn], id: EntryId) {
    for turn in turns {
        let rest_on_it = turn
            .decisions()
            .filter(|decision| decision.used.iter().any(|used| used.id == id));
        found.extend(rest_on_it.map(|decision| (turn.clone(), decision.clone())));
    }
}

/// The least trust of `options`, which are among `entries`.
fn trust_among(options: &[Used], entries: &[Entry]) -> Trust {
    let is_option = |entry: &&Entry| options.iter().any(|used| used.id == entry.id);
    let trusts = entries.iter().filter(is_option).map(|entry| entry.fields.trust);
    trusts.min().unwrap_or(Trust::User)
}
