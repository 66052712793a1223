//! What models were shown: the receipts of views and contexts that the trace keeps.

use folio_memory::id::{EntryRef, TurnRef};
use folio_memory::query::MAX_LIMIT;
use folio_memory::view::Receipt;
use folio_memory::{Entry, EntryKind, NoteQuery, Seq, State, Timestamp, TraceNote, Turn};
use serde::Deserialize;
use serde::Serialize;

use super::context::ASSEMBLE_CONTEXT;
use super::view::RENDER_VIEW;
use super::{Workspace, WorkspaceError};

/// How many notes of one turn are searched for receipts.
const MAX_SEARCHED_NOTES: usize = 10 * MAX_LIMIT as usize;

/// A receipt and when it was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KeptReceipt {
    /// What it is a receipt of: `view` or `context`.
    pub of: &'static str,
    /// When it was made.
    pub at: Timestamp,
    /// The last commit before it.
    pub as_of: Seq,
    /// The thread that it was made for; not known of a context that an older version made.
    pub thread: Option<String>,
    /// What was shown, shortened and left out.
    pub receipt: Receipt,
}

impl KeptReceipt {
    fn of(note: TraceNote) -> Option<Self> {
        #[derive(Deserialize)]
        struct Detail {
            thread: Option<String>,
            receipt: Receipt,
        }
        let of = match note.operation.as_str() {
            RENDER_VIEW => "view",
            ASSEMBLE_CONTEXT => "context",
            _ => return None,
        };
        // A note of an older version has no receipt.
        let detail: Detail = serde_json::from_value(note.detail?).ok()?;
        Some(Self {
            of,
            at: note.at,
            as_of: note.as_of,
            thread: detail.thread,
            receipt: detail.receipt,
        })
    }

    /// Whether one of its sections may show entries like `entry`.
    fn has_section_for(&self, entry: &Entry) -> bool {
        let may_show = |section: &str| match self.of {
            "context" if entry.kind == EntryKind::Observation => section != "pages" && section != "episodic",
            "context" if section == "pages" => matches!(entry.kind, EntryKind::Log | EntryKind::Summary),
            "context" => section.starts_with("scratchbook"),
            _ => true,
        };
        self.receipt.sections.iter().any(|section| may_show(&section.section))
    }

    /// What happened to `entry` in it, in words: `shown in tasks`, `left out of notes: budget`, or why it was not
    /// eligible, as far as can be told at `now`.
    fn fate_of(&self, entry: &Entry, now: Timestamp) -> String {
        if let Some((section, fate)) = self.receipt.fate_of(&entry.handle.to_string()) {
            return format!("{fate} ({section})");
        }
        let state = match entry.state(now) {
            _ if entry.created_seq > self.as_of => "it was added later",
            State::Archived => "it is archived",
            State::Expired => "it has expired",
            State::Settled => "it is settled",
            State::Live if !self.has_section_for(entry) => "the context has no section for it",
            State::Live => "other entries come first, or it is of another thread",
        };
        format!("not considered: {state}")
    }
}

impl Workspace {
    /// Returns what was shown in `turn`, earliest first: every view and context, once for each time that it changed.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such turn; `Refused` for a role that is not a person's; `Unavailable` or `Corrupt`.
    pub async fn receipts(&self, turn: TurnRef) -> Result<Vec<KeptReceipt>, WorkspaceError> {
        self.authorise_trace()?;
        let turn = self.turn(turn).await?;
        self.receipts_of(&turn).await
    }

    async fn receipts_of(&self, turn: &Turn) -> Result<Vec<KeptReceipt>, WorkspaceError> {
        // Another flush reports a failure to write; the trace has what could be written before.
        self.flush_trace_to_read().await;
        let mut receipts = Vec::new();
        for component in ["scratchbook", "context"] {
            let query = NoteQuery {
                turn: Some(turn.begun.id),
                component: Some(component.to_owned()),
                limit: MAX_SEARCHED_NOTES,
                ..NoteQuery::default()
            };
            let notes = self.inner.store.notes(self.space(), &query).await?;
            receipts.extend(notes.into_iter().filter_map(KeptReceipt::of));
        }
        receipts.sort_by_key(|kept| (kept.at, kept.as_of));
        Ok(receipts)
    }

    /// Returns each receipt of `turn` with what happened to `entry` in it: whether a model was shown it, and if not,
    /// why not.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such entry or turn; `Refused` for a role that is not a person's; `Unavailable` or
    /// `Corrupt`.
    pub async fn shown(&self, entry: EntryRef, turn: TurnRef) -> Result<Vec<(KeptReceipt, String)>, WorkspaceError> {
        let receipts = self.receipts(turn).await?;
        let entry = self.read_entry(entry).await?;
        self.check_entry(&entry).await?;
        let now = self.now();
        let fates = receipts.into_iter().map(|kept| {
            let fate = kept.fate_of(&entry, now);
            (kept, fate)
        });
        Ok(fates.collect())
    }
}
