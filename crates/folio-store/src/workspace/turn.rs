//! Turns: an input is looked at before the work, and what came of it is looked at afterwards (M7.11).

mod advisor;
mod elsewhere;
mod end;
mod episodes;
mod export;
mod learn;
mod touched;

use std::borrow::Cow;

use folio_memory::actor::Trust;
use folio_memory::calibration::Calibration;
use folio_memory::entry::{Outcome, Status};
use folio_memory::excerpt::cut;
use folio_memory::goals::ACTION_PATH;
use folio_memory::id::{EntryRef, Ref, TurnHandle, TurnRef};
use folio_memory::observation::{self, Class};
use folio_memory::query::MAX_LIMIT;
use folio_memory::roles::Sight;
use folio_memory::scratchbook;
use folio_memory::turn::{
    Answer, Assessment, Clarity, Decision, NewTurn, Situation, Turn, TurnQuery, Used, WorkOrder, clarification_of,
    clarified, is_clarification,
};
use folio_memory::{
    Actor, Change, Confidence, Entry, EntryFields, EntryId, EntryKind, EntryQuery, FieldChange, Invalid, NewEntry,
    Owner, Role, RunId, State, ThreadKey, TurnId,
};
use serde_json::json;

pub(super) use advisor::Asked as AskedAdvisor;
pub use advisor::{Advice, Advisor, After, Before};
pub use end::Ended;
pub use episodes::{Episode, EpisodeQuery};
pub use export::Exported;

use super::observations::Whose;
use super::patch::{Guard, Trying};
use super::{MAX_ACTIVE, Workspace, WorkspaceError, Write, source_of, trust_of};
use crate::store::MemoryMark;

/// Bytes of an input that a turn keeps.
const MAX_INPUT_BYTES: usize = 64 * 1024;

/// An input that a turn is to handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnInput {
    /// In which thread.
    pub thread: ThreadKey,
    /// In its writer's words; may be empty.
    pub input: String,
    /// The run that it is the turn of.
    pub run: Option<RunId>,
    /// Whether nobody waits for it.
    pub background: bool,
}

impl TurnInput {
    /// A turn in `thread` that somebody waits for: what is done about `input`, which may be empty.
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

/// What the stages before the work came to, and the turn that is ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftedTurn {
    /// The turn.
    pub new: NewTurn,
    /// How urgent it is.
    pub assessment: Assessment,
    /// Whether it is clear.
    pub clarity: Clarity,
    /// What earlier inputs of the thread were asked about, and this one says.
    pub clarified: Vec<Used>,
    /// In which order things are done.
    pub order: WorkOrder,
}

impl DraftedTurn {
    /// What the clarifier decided, as it is recorded.
    fn of_clarifier(clarity: &Clarity, clarified: &[Used]) -> Decision {
        let mut decision = clarity.decision();
        let says = |used: &Used| format!("says what {} asks", used.handle);
        decision.reasons.extend(clarified.iter().map(says));
        decision.used.extend(clarified);
        decision
    }
}

/// A turn that has begun.
#[derive(Debug, Clone, PartialEq)]
pub struct Begun {
    /// The turn.
    pub turn: Turn,
    /// How urgent it is.
    pub assessment: Assessment,
    /// Whether it is clear.
    pub clarity: Clarity,
    /// In which order things are done.
    pub order: WorkOrder,
    /// The confirmation that was added because the input is not clear.
    pub question: Option<Entry>,
    /// The confirmation that the input answered.
    pub answered: Option<Entry>,
    /// Whether an earlier call with the same idempotency key began it, and this one did nothing.
    pub replayed: bool,
}

/// A turn as far as those need to know it who work in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkingIn {
    /// Its id, with which everything is stamped.
    pub id: TurnId,
    /// Its name for people.
    pub handle: TurnHandle,
    /// Whether it has ended, so that nothing that is done now is in its export.
    pub has_ended: bool,
}

impl Workspace {
    /// Asks the stages before the work what they make of `input`, without writing anything: for a commit that does
    /// more besides.
    ///
    /// # Errors
    ///
    /// `Invalid` if the input is too long; `Unavailable` or `Corrupt`.
    pub async fn draft_turn(&self, input: TurnInput) -> Result<DraftedTurn, WorkspaceError> {
        Ok(self.drafted(input).await?.0)
    }

    /// The same, and what the stages looked at.
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
        let active = self.at_hand(&input.thread, mark).await?;
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
        // What a run is to do is said by its plan.
        let (clarity, clarified) = match input.run {
            Some(_) => (Clarity::Clear(Vec::new()), Vec::new()),
            None => {
                let heard = self.heard_in(&input.thread, &input.input, &active, types).await?;
                let situation = Situation {
                    active: &heard,
                    ..situation
                };
                let clarity = self.stages.clarifier.assess(&situation);
                let clarified = clarified(&situation, &clarity);
                (clarity, clarified)
            }
        };
        // Nobody waits any more for what is said, nor for what that was about.
        let is_left = |entry: &&Entry| {
            let waits = entry.kind == EntryKind::PendingAction && is_clarification(entry);
            !waits && clarified.iter().all(|used| used.id != entry.id)
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

    /// Begins a turn: the router says how urgent the input is, the clarifier whether it is clear, the executor what comes
    /// first. What they decided, and the entries that they used, is recorded with the turn.
    ///
    /// Somebody may be asked besides: [`Workspace::with_advisor`].
    ///
    /// An input that is not clear adds a `pending_confirmation` with what to ask; one that answers such a confirmation
    /// resolves it.
    ///
    /// # Errors
    ///
    /// `Refused` if whoever asks may not read all of the space, which is what the stages look at (M7.7); otherwise as
    /// [`Workspace::draft_turn`] and [`Workspace::record`].
    pub async fn begin_turn(&self, actor: &Actor, input: TurnInput) -> Result<Begun, WorkspaceError> {
        self.begin_turn_under(actor, input, None).await
    }

    /// The same under a key: asked for again with it, it is the turn that began then, and nothing is asked or answered.
    ///
    /// # Errors
    ///
    /// As [`Workspace::begin_turn`]; `NotFound` if the key was used before, for something that began no turn.
    pub async fn begin_turn_under(
        &self,
        actor: &Actor,
        input: TurnInput,
        idempotency_key: Option<String>,
    ) -> Result<Begun, WorkspaceError> {
        // Before anything is written: what the stages decide tells of what they looked at.
        self.needs_the_space("what a turn begins with")?;
        // What tools noticed while the store could not write is there before anybody decides. Whatever keeps it waiting
        // tells the trace.
        let _delivered = self.deliver_outbox().await;
        let (mut drafted, at_hand) = self.drafted(input).await?;
        let mut is_new = true;
        if let Some(key) = &idempotency_key {
            // Whoever asks again finds it by the key.
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
        let (mut question, mut answered) = (None, None);
        for asked in clarified.into_iter().filter(|_| !replayed) {
            answered = Some(self.clarify(id, asked).await?);
        }
        match &clarity {
            _ if replayed => {}
            Clarity::Ambiguous {
                question: text,
                options,
                ..
            } => {
                let trust = trust_among(options, &at_hand);
                question = Some(self.ask(id, &thread, text, trust).await?);
            }
            Clarity::Answers(confirmation, answer) => {
                answered = Some(self.answer(&actor, *confirmation, *answer).await?);
            }
            Clarity::Clear(_) => {}
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

    /// One turn. Who may not read the whole space is not told of entries that are not for them (M7.7).
    ///
    /// # Errors
    ///
    /// `NotFound`; `Refused` for a turn of another run, or of another thread; `Unavailable` or `Corrupt`.
    pub async fn turn(&self, turn: TurnRef) -> Result<Turn, WorkspaceError> {
        let turn = self.read_turn(turn).await?;
        self.check_turn(&turn).await?;
        self.as_seen(turn).await
    }

    /// The turn that somebody says he works in. Whoever may not read it may say so all the same, and reads it no more for that.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    pub async fn turn_to_work_in(&self, turn: TurnRef) -> Result<WorkingIn, WorkspaceError> {
        let turn = self.read_turn(turn).await?;
        Ok(WorkingIn {
            id: turn.begun.id,
            handle: turn.handle,
            has_ended: turn.ended.is_some(),
        })
    }

    /// The id of `turn`, if whoever asks may read it. Turns are never removed, so whoever may read the whole space is asked about each
    /// once.
    pub(super) async fn turn_id(&self, turn: TurnRef) -> Result<TurnId, WorkspaceError> {
        let sees_all = self.sight().await? == Sight::Space;
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

    /// The same for the workspace's own purposes, whoever asks.
    pub(super) async fn read_turn(&self, turn: TurnRef) -> Result<Turn, WorkspaceError> {
        Ok(self.inner.store.turn(&self.inner.space, turn).await?)
    }

    /// The turns that `query` asks for and whoever asks may read, newest first: those of their run, or of their thread (M7.7).
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn turns(&self, query: &TurnQuery) -> Result<Vec<Turn>, WorkspaceError> {
        let Some(query) = self.sight().await?.narrowed(query) else {
            return Ok(Vec::new());
        };
        let mut turns = self.read_turns(&query).await?;
        for turn in &mut turns {
            *turn = self.as_seen(turn.clone()).await?;
        }
        Ok(turns)
    }

    /// The same for the workspace's own purposes, whoever asks.
    pub(super) async fn read_turns(&self, query: &TurnQuery) -> Result<Vec<Turn>, WorkspaceError> {
        Ok(self.inner.store.turns(&self.inner.space, query).await?)
    }

    /// The decisions that rest on `entry`, in the version in which it was read, the newest first: of `turn`, or of the last
    /// 1,000 turns.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such entry or turn; `Refused` for one that whoever asks may not read; `Unavailable` or `Corrupt`.
    pub async fn why(&self, entry: EntryRef, turn: Option<TurnRef>) -> Result<Vec<(Turn, Decision)>, WorkspaceError> {
        let entry = self.read_entry(entry).await?;
        self.check_entry(&entry).await?;
        let id = entry.id;
        let turns = match turn {
            Some(turn) => vec![self.turn(turn).await?],
            None => {
                let last = TurnQuery {
                    limit: MAX_LIMIT,
                    ..TurnQuery::default()
                };
                self.turns(&last).await?
            }
        };
        let mut found = Vec::new();
        for turn in turns {
            let rest_on_it = turn
                .decisions()
                .filter(|decision| decision.used.iter().any(|used| used.id == id));
            found.extend(rest_on_it.map(|decision| (turn.clone(), decision.clone())));
        }
        Ok(found)
    }

    /// What the stages look at: the observations that matter most, and what is open in the thread.
    async fn at_hand(&self, thread: &ThreadKey, mark: Option<MemoryMark>) -> Result<Vec<Entry>, WorkspaceError> {
        let mut active = self.read_active(mark, MAX_ACTIVE, Whose::Stages).await?.items;
        let (book, _) = scratchbook::page_of(self.space(), thread);
        let open = EntryQuery {
            page: Some(book),
            status: vec![Status::Open, Status::InProgress, Status::Blocked],
            limit: MAX_LIMIT,
            ..EntryQuery::default()
        };
        let open = self.kept_entries(mark, Whose::Stages, &open).await?;
        active.extend(open.items.iter().cloned());
        Ok(active)
    }

    /// Adds what has to be asked: a pending action that waits, and the confirmation that it waits for. Both are believed as far as what
    /// the question quotes: `trust`.
    async fn ask(
        &self,
        turn: TurnId,
        thread: &ThreadKey,
        question: &str,
        trust: Trust,
    ) -> Result<Entry, WorkspaceError> {
        let actor = Actor::new(Role::Clarifier, "").in_turn(turn);
        let (now, trust) = (self.now(), trust.min(trust_of(&actor)));
        let key = clarification_of(self.read_turn(Ref::Id(turn)).await?.handle);
        let context = Some(json!({ACTION_PATH: key}));
        let (page, scratch_page) = self.scratch_page().await?;
        let (book, book_fields) = scratchbook::page_of(self.space(), thread);
        let book_change = self.ensured(book, || book_fields).await?;
        let new = |kind, page, fields: EntryFields| {
            Change::AddEntry(Box::new(NewEntry {
                id: EntryId::draw(&*self.inner.ids, now),
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
        // A question is rare: what holds now is asked for.
        self.policy().await?;
        let mut asked = self
            .draft_observation(&actor, input, source_of(&actor), trust)
            .await?
            .new;
        asked.fields.confidence = Some(Confidence::DEFAULT);
        asked.page = page;
        let id = asked.id;
        let pages = scratch_page.into_iter().chain(book_change);
        let changes = pages
            .chain([new(EntryKind::PendingAction, book, action), Change::AddEntry(asked)])
            .collect();
        self.record(
            &actor,
            Write {
                at: Some(now),
                ..Write::of(changes)
            },
        )
        .await?;
        self.read_entry(Ref::Id(id)).await
    }

    /// Resolves a question what an earlier input meant, which the input of `turn` says.
    async fn clarify(&self, turn: TurnId, question: Used) -> Result<Entry, WorkspaceError> {
        let actor = Actor::new(Role::Clarifier, "").in_turn(turn);
        self.resolve(&actor, question, None, "the next input says what was meant")
            .await
    }

    /// Resolves a confirmation with what was answered.
    async fn answer(&self, actor: &Actor, confirmation: Used, answer: Answer) -> Result<Entry, WorkspaceError> {
        let (outcome, said) = match answer {
            Answer::Yes => (Outcome::Confirmed, "answered with yes"),
            Answer::No => (Outcome::Refuted, "answered with no"),
        };
        self.resolve(actor, confirmation, Some(outcome), said).await
    }

    /// Resolves `confirmation`, if somebody waits for it still.
    async fn resolve(
        &self,
        actor: &Actor,
        confirmation: Used,
        outcome: Option<Outcome>,
        why: &str,
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
            reason: Some(why.to_owned()),
            ..Guard::default()
        };
        let entry = Ref::Id(confirmation.id);
        let written = self
            .patch_under(actor, entry, guard, Trying::to("complete"), &[], changes)
            .await?;
        Ok(written.entry)
    }
}

/// How far the least of `options` may be believed, which are among `entries`.
fn trust_among(options: &[Used], entries: &[Entry]) -> Trust {
    let is_option = |entry: &&Entry| options.iter().any(|used| used.id == entry.id);
    let trusts = entries.iter().filter(is_option).map(|entry| entry.fields.trust);
    trusts.min().unwrap_or(Trust::User)
}
