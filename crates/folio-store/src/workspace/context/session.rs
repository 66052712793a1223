//! Contexts for a conversation that keeps what it is told: it is told once what memory holds, and after that what is
//! new, what has changed, what had no room before, and what a prompt asks for.
//!
//! The hooks of an agent program are processes of their own, so a note in the trace says what its session was told. If
//! the note is gone, everything is told again.

use folio_memory::canonical::digest_of;
use folio_memory::context::{Content, Section};
use folio_memory::id::TurnHandle;
use folio_memory::patterns::is_reflection;
use folio_memory::tokens::Tokens;
use folio_memory::trace::NoteQuery;
use folio_memory::view::{PageTail, Receipt, Rendered, Shown, TOLD};
use folio_memory::{Entry, EntryHandle, Seq, TraceNote, TurnId};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::{Workspace, WorkspaceError};
use super::ContextRequest;

/// How many names are kept of what had no room.
const LEFT_KEPT: usize = 64;
/// How many turns of a session are known: more than are offered to a context.
const TURNS_KEPT: usize = 40;

/// What a session was told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Told {
    /// The commit as of which it was told.
    as_of: Seq,
    /// The entries that the beginning of the session has shown whole, until the first prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    entries: Vec<String>,
    /// Whether a prompt was told what memory holds, so that from then on only news is told.
    #[serde(default)]
    has_begun: bool,
    /// The entries and pages that a prompt was to be told and that had no room: it does not know them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left: Vec<String>,
    /// The turns of the session: they stand in the conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    turns: Vec<TurnHandle>,
}

impl Told {
    /// The commit after which everything is news for the session; `None` if it has yet to be told what memory holds.
    pub(super) fn news_since(&self) -> Option<Seq> {
        self.has_begun.then_some(self.as_of)
    }

    /// The entries that had no room, by their handles.
    pub(super) fn left(&self) -> impl Iterator<Item = EntryHandle> {
        self.left.iter().filter_map(|name| name.parse().ok())
    }

    fn knows(&self, entry: &Entry) -> bool {
        let name = entry.handle.to_string();
        let is_old = entry.updated_seq <= self.as_of;
        if !self.has_begun {
            return is_old && self.entries.contains(&name);
        }
        // What was learned says again what was noticed.
        (is_old || is_reflection(entry)) && !self.left.contains(&name)
    }

    /// Whether the end of `page` has something new.
    pub(super) fn lacks_page(&self, page: &PageTail) -> bool {
        let changes = page.tail.iter().map(|entry| entry.updated_seq);
        let last = changes.fold(page.page.created_seq, Seq::max);
        !self.has_begun || last > self.as_of || self.left.contains(&page.page.handle.to_string())
    }

    /// Removes what the session was told from what `section` could show, apart from what concerns the prompt. Turns of
    /// the session itself are removed in any case.
    pub(super) fn leave_out(&self, section: Section, content: &mut Content) {
        let Content::Lines(lines) = content else { return };
        if self.has_begun && section != Section::ScratchPage {
            // It was told once that there is more. Of observations only news is counted.
            lines.beyond = 0;
        }
        let (mut at, mut concerning) = (0, 0);
        let told = &mut lines.told;
        let asked_for = lines.concerning;
        lines.shown.retain(|shown| {
            let is_asked_for = at < asked_for;
            at += 1;
            let name = match shown {
                Shown::Entry(entry) => (!is_asked_for && self.knows(entry)).then(|| entry.handle.to_string()),
                Shown::Line(line) => self.knows_turn(&line.name, is_asked_for).then(|| line.name.clone()),
            };
            let is_left = name.is_none();
            concerning += usize::from(is_left && is_asked_for);
            told.extend(name);
            is_left
        });
        lines.concerning = concerning;
    }

    fn knows_turn(&self, name: &str, is_asked_for: bool) -> bool {
        let turn = name.parse::<TurnHandle>();
        turn.is_ok_and(|turn| self.turns.contains(&turn) || (self.has_begun && !is_asked_for))
    }
}

impl Workspace {
    /// Like [`Workspace::assemble_context`], for a turn of `session`, a conversation that keeps what it is told: without
    /// what it was told before and does not ask for, and without its own turns.
    ///
    /// # Errors
    ///
    /// As [`Workspace::assemble_context`].
    pub async fn assemble_context_for_session(
        &self,
        session: &str,
        request: ContextRequest,
        tokens: &dyn Tokens,
    ) -> Result<Rendered, WorkspaceError> {
        let moment = self.moment().await?;
        let as_of = match moment.0 {
            Some(mark) => mark.as_of,
            None => self.head().await?,
        };
        let turn = match request.turn {
            Some(turn) => Some(self.stored_turn(turn).await?),
            None => None,
        };
        let mut told = self.told(session).await?;
        let assembled = self.assembled_beside(moment, request, told.as_ref(), tokens).await?;
        let before = told.get_or_insert_default();
        let mut turns = std::mem::take(&mut before.turns);
        turns.extend(turn.as_ref().map(|turn| turn.handle));
        let turns = turns.split_off(turns.len().saturating_sub(TURNS_KEPT));
        let told = Told {
            as_of,
            has_begun: true,
            left: left_in(&assembled.receipt),
            turns,
            ..Told::default()
        };
        self.note_told(session, told, turn.map(|turn| turn.begun.id));
        Ok(assembled)
    }

    /// Notes that `session` begins, or goes on in a new process, with what `shown` says: of the rest, all is told again.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn begin_session(&self, session: &str, as_of: Seq, shown: &Receipt) -> Result<(), WorkspaceError> {
        let before = self.told(session).await?.unwrap_or_default();
        let sections = shown.sections.iter();
        let whole = sections.flat_map(|section| {
            let folded = section
                .folded
                .iter()
                .filter(|folded| section.shown.contains(&folded.into));
            section.shown.iter().chain(folded.map(|folded| &folded.name))
        });
        let told = Told {
            as_of,
            entries: whole.cloned().collect(),
            turns: before.turns,
            ..Told::default()
        };
        self.note_told(session, told, None);
        Ok(())
    }

    /// Notes that the conversation of `session` is compacted, so that it may know nothing any more of what it was told.
    pub fn forget_told(&self, session: &str) {
        self.note_told(session, Told::default(), None);
    }

    /// What `session` was told; `None` if that is not known.
    async fn told(&self, session: &str) -> Result<Option<Told>, WorkspaceError> {
        // What cannot be written is not read either; then more is told than has to be.
        self.flush_trace_to_read().await;
        let query = NoteQuery {
            entry: Some(TraceNote::session_notes_id(&name_of(session))),
            limit: 1,
            ..NoteQuery::default()
        };
        let last = self.inner.store.notes(self.space(), &query).await?.pop();
        Ok(last.and_then(|note| serde_json::from_value(note.detail?).ok()))
    }

    fn note_told(&self, session: &str, told: Told, turn: Option<TurnId>) {
        let note = TraceNote::of_session(self.now(), &self.asker, &name_of(session), json!(told));
        self.note(TraceNote { turn, ..note });
    }
}

/// What had no room in a context, apart from earlier turns: those are examples, and nobody lacks one.
fn left_in(receipt: &Receipt) -> Vec<String> {
    let turns = Section::Episodic.as_str();
    let sections = receipt.sections.iter().filter(|section| section.section != turns);
    let omitted = sections.flat_map(|section| &section.omitted);
    let left = omitted
        .filter(|omitted| omitted.reason != TOLD)
        .map(|omitted| &omitted.name);
    left.take(LEFT_KEPT).cloned().collect()
}

/// A name for the id of a session, however long that is: four words of its digest, in which nothing looks like a secret
/// or a number of a person.
fn name_of(session: &str) -> String {
    let digest = digest_of([session.as_bytes()]);
    let letter = |half: u8| char::from(b'a' + half);
    let words = digest[..8].chunks(2).map(|bytes| {
        let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
        halves.map(letter).collect::<String>()
    });
    words.collect::<Vec<_>>().join(" ")
}
