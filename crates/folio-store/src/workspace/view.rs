//! The view of a scratchbook: its sections are read, fitted into the budget by fixed rules, and cached while nothing
//! changes.

mod kept;
mod sections;

use std::collections::HashSet;
use std::sync::Arc;

use folio_memory::counted::counted;
use folio_memory::id::{EntryHandle, TurnRef};
use folio_memory::policy::{SCRATCHBOOKS_OFF, ScratchbookPolicy, within_share};
use folio_memory::query::MAX_LIMIT;
use folio_memory::tokens::Tokens;
use folio_memory::view::{
    Audience, BookSections, Candidate, Placement, Render, Rendered, Shown, ViewSection, folded, render,
};
use folio_memory::{Actor, Seq, ThreadKey, Timestamp, TraceNote, TurnId};
use serde::Serialize;
use serde_json::json;

pub(super) use self::kept::KeptViews;
use self::kept::{Kept, Key, Lines, Noted, Stands};
use self::sections::Sections;
use super::notes::Stopwatch;
use super::{Moment, Workspace, WorkspaceError};
use crate::store::MemoryMark;

/// The operation under which a view is noted.
pub(super) const RENDER_VIEW: &str = "render_view";
/// How many ends of lifetimes are checked to see whether a view is still true.
const MAX_CHECKED_EXPIRIES: u32 = 100;

/// Which view is wanted. Fields that are not set follow the policy of the space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewRequest {
    /// The thread.
    pub thread: ThreadKey,
    /// The turn that it is for, if any: its trace keeps the receipt.
    pub turn: Option<TurnRef>,
    /// Limit in tokens for the view.
    pub view_token_limit: Option<u32>,
    /// Limit in lines for each section.
    pub max_rendered_items: Option<u32>,
    /// Size of the model's window in tokens, if known.
    pub window: Option<u32>,
    /// The part of a request in which a model reads it; by default it follows from the placement.
    pub audience: Option<Audience>,
    /// Entries that are already shown beside the view, so that the view leaves them out.
    pub besides: Vec<EntryHandle>,
    /// A text that stands above the view. Entries with a line in it are left out, as long as the line says what they
    /// say now.
    pub above: String,
}

impl ViewRequest {
    /// A request for the view of `thread`, as the policy of the space says.
    #[must_use]
    pub fn of(thread: ThreadKey) -> Self {
        Self {
            thread,
            turn: None,
            view_token_limit: None,
            max_rendered_items: None,
            window: None,
            audience: None,
            besides: Vec::new(),
            above: String::new(),
        }
    }
}

/// A rendered view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct View {
    /// The text, with the receipt.
    pub rendered: Arc<Rendered>,
    /// Its placement by the policy of the space.
    pub placement: Placement,
    /// The commit for which it is true.
    pub as_of: Seq,
    /// Whether the policy of the space enables scratchbooks.
    pub enabled: bool,
}

impl View {
    /// The text to show instead of an empty view: why there is nothing to read. `None` if the view is not empty.
    #[must_use]
    pub fn instead(&self) -> Option<String> {
        let receipt = &self.rendered.receipt;
        if !self.rendered.text.is_empty() {
            return None;
        }
        Some(match receipt.omitted() {
            _ if !self.enabled => SCRATCHBOOKS_OFF.to_owned(),
            // With no budget, nobody looked whether there is anything.
            0 if receipt.budget == 0 => "nothing fits into a budget of 0 tokens".to_owned(),
            0 => "the scratchbook is empty".to_owned(),
            omitted => format!("{}; the budget is too small to show one", counted(omitted, "entry")),
        })
    }
}

/// A view that is wanted now.
struct Wanted {
    key: Key,
    /// The text above, whatever it says.
    above: String,
    /// The turn whose trace gets the receipt.
    turn: Option<TurnId>,
    at: Timestamp,
    mark: Option<MemoryMark>,
    /// The last commit.
    head: Seq,
    watch: Stopwatch,
}

impl Wanted {
    /// How a view stands that is true as long as lists of memory show the same.
    fn marked(&self) -> Option<Stands> {
        self.mark.map(|mark| Stands::At(mark.number))
    }

    /// What a cached view may be true for.
    fn stands(&self) -> Vec<Stands> {
        self.marked().into_iter().chain([Stands::AsOf(self.head)]).collect()
    }
}

impl Workspace {
    /// Returns the view of a scratchbook as a model reads it: within its budget, with a receipt that the trace keeps,
    /// and with the same bytes while nothing in it changes. Empty if the policy disables scratchbooks, or if nothing is
    /// remembered.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such turn; `Unavailable` or `Corrupt`.
    pub async fn view(&self, request: ViewRequest, tokens: &dyn Tokens) -> Result<View, WorkspaceError> {
        let moment = self.moment().await?;
        self.view_at(moment, request, tokens).await
    }

    /// Like [`Workspace::view`], for callers that ask for more than this at one `moment`.
    ///
    /// # Errors
    ///
    /// As [`Workspace::view`].
    pub async fn view_at(
        &self,
        moment: Moment,
        mut request: ViewRequest,
        tokens: &dyn Tokens,
    ) -> Result<View, WorkspaceError> {
        let watch = Stopwatch::start();
        let turn = match request.turn {
            Some(turn) => Some(self.turn_id(turn).await?),
            None => self.asker.turn,
        };
        let (Moment(mark), at) = (moment, self.now());
        let policy = self.policy_at(mark).await?;
        let policy = &policy.scratchbook;
        let placement = policy.placement(request.window);
        let above = std::mem::take(&mut request.above);
        let mut wanted = Wanted {
            key: self.key_of(request, policy, tokens),
            above,
            turn,
            at,
            mark,
            head: match mark {
                Some(mark) => mark.as_of,
                None => self.head().await?,
            },
            watch,
        };
        wanted.key.above = match self.inner.views.lines(&wanted.key, &wanted.stands()) {
            Some(lines) => lines.said_in(&wanted.above),
            None => wanted.above.clone(),
        };
        let (rendered, as_of) = match self.kept_view(&wanted).await? {
            Some(rendered) => (rendered, wanted.head),
            None => self.rendered_anew(wanted, tokens).await?,
        };
        Ok(View {
            rendered,
            placement,
            as_of,
            enabled: policy.enabled,
        })
    }

    /// What the requested view depends on, apart from the content of memory.
    fn key_of(&self, request: ViewRequest, policy: &ScratchbookPolicy, tokens: &dyn Tokens) -> Key {
        let max = request.max_rendered_items.unwrap_or(policy.max_rendered_items());
        Key {
            thread: request.thread,
            render: Render {
                budget: match request.view_token_limit.filter(|_| policy.enabled) {
                    Some(limit) => within_share(limit, request.window),
                    None => policy.budget(request.window),
                },
                max_rendered_items: usize::try_from(max.min(MAX_LIMIT)).unwrap_or(usize::MAX),
                audience: request.audience.unwrap_or(match policy.placement(request.window) {
                    Placement::System => Audience::System,
                    Placement::Tail => Audience::Message,
                }),
            },
            besides: request.besides,
            above: String::new(),
            counted: tokens.method(),
            asker: Actor {
                turn: None,
                ..(*self.asker).clone()
            },
            seen_from: self.thread().clone(),
        }
    }

    /// The cached view, if it is still true. The turn's trace gets its receipt.
    async fn kept_view(&self, wanted: &Wanted) -> Result<Option<Arc<Rendered>>, WorkspaceError> {
        let Wanted { key, turn, .. } = wanted;
        let at_head = Stands::AsOf(wanted.head);
        let Some(known) = self.inner.views.get(key, &wanted.stands(), *turn) else {
            return Ok(None);
        };
        if known.stands == at_head && !self.nothing_ended(known.at, wanted.at).await? {
            return Ok(None);
        }
        let rendered = known.rendered;
        let is_in_trace = self.is_watching
            || known.is_noted
            || turn.is_some_and(|turn| !self.record_receipt_if_new(turn, &key.thread, &rendered));
        if !is_in_trace {
            self.note_view(wanted, &rendered);
            self.keep(wanted, known.stands, known.at, &rendered, known.lines);
        }
        Ok(Some(rendered))
    }

    /// Renders the view, and returns the commit for which it is true.
    async fn rendered_anew(
        &self,
        mut wanted: Wanted,
        tokens: &dyn Tokens,
    ) -> Result<(Arc<Rendered>, Seq), WorkspaceError> {
        let Key {
            thread,
            render: wanted_render,
            besides,
            ..
        } = &wanted.key;
        let Sections {
            offers: mut sections,
            read_at,
        } = if wanted_render.budget == 0 {
            Sections::default()
        } else {
            let (max, audience) = (wanted_render.max_rendered_items, Some(wanted_render.audience));
            self.book_sections(thread, max, audience, wanted.mark).await?
        };
        let lines = (!wanted.above.is_empty()).then(|| Arc::new(possible_lines(&sections)));
        let said = lines
            .as_ref()
            .map(|lines| lines.said_in(&wanted.above))
            .unwrap_or_default();
        leave_out(&mut sections, besides, &said);
        let (marked, as_of) = match read_at {
            Some(read_at) => (None, read_at),
            None => (wanted.marked(), wanted.head),
        };
        let has_pages = sections
            .iter()
            .any(|(section, offer)| *section == ViewSection::Pages && (offer.total > 0 || !offer.shown.is_empty()));
        let stands = marked.filter(|_| !has_pages).unwrap_or(Stands::AsOf(as_of));
        let rendered = Arc::new(render(sections, *wanted_render, tokens));
        if !self.is_watching {
            if let Some(turn) = wanted.turn {
                self.record_receipt_if_new(turn, thread, &rendered);
            }
            self.note_view(&wanted, &rendered);
        }
        wanted.key.above = said;
        self.keep(&wanted, stands, wanted.at, &rendered, lines);
        Ok((rendered, as_of))
    }

    /// Remembers which view of `thread` the trace of `turn` has last; false if it has this one already.
    fn record_receipt_if_new(&self, turn: TurnId, thread: &ThreadKey, rendered: &Rendered) -> bool {
        self.inner.shown.record_if_changed(turn, &(thread, &rendered.receipt))
    }

    fn keep(
        &self,
        wanted: &Wanted,
        stands: Stands,
        at: Timestamp,
        rendered: &Arc<Rendered>,
        lines: Option<Arc<Lines>>,
    ) {
        self.inner.views.put(Kept {
            key: wanted.key.clone(),
            stands,
            at,
            rendered: Arc::clone(rendered),
            noted: if self.is_watching {
                Noted::Nowhere
            } else {
                Noted::In(wanted.turn)
            },
            lines,
        });
    }

    /// Whether no lifetime has ended after `since`, of those that no commit has noted yet.
    async fn nothing_ended(&self, since: Timestamp, now: Timestamp) -> Result<bool, WorkspaceError> {
        let ended = self.inner.store.ended(self.space(), now, MAX_CHECKED_EXPIRIES).await?;
        let is_all = ended.len() < usize::try_from(MAX_CHECKED_EXPIRIES).unwrap_or(usize::MAX);
        Ok(is_all && ended.iter().all(|(_, at)| *at <= since))
    }

    fn note_view(&self, wanted: &Wanted, rendered: &Rendered) {
        let receipt = &rendered.receipt;
        let note = self
            .noted("scratchbook", RENDER_VIEW)
            .with_detail(json!({"thread": wanted.key.thread, "omitted": receipt.omitted(), "receipt": receipt}))
            .using(receipt.shown().filter_map(|name| name.parse().ok()))
            .taking(wanted.watch.elapsed());
        self.note(TraceNote {
            turn: wanted.turn,
            ..note
        });
    }
}

/// The lines that entries in `sections` can have.
fn possible_lines(sections: &BookSections) -> Lines {
    let mut lines = Lines::default();
    for candidate in sections
        .iter()
        .flat_map(|(_, offer)| folded(offer.shown.clone(), Audience::Message))
    {
        candidate.lengths.iter().for_each(|line| lines.add(line));
    }
    lines
}

/// Removes from what the sections could show what is shown `besides`, and what a line of the text `above` says.
fn leave_out(sections: &mut BookSections, besides: &[EntryHandle], above: &str) {
    let lines: HashSet<&str> = above.lines().collect();
    for (_, offer) in sections {
        let mut said: HashSet<String> = besides.iter().map(ToString::to_string).collect();
        if !lines.is_empty() {
            let candidates = folded(offer.shown.clone(), Audience::Message).into_iter();
            let is_said = |candidate: &Candidate| candidate.lengths.iter().any(|line| lines.contains(&**line));
            let names = candidates
                .filter(is_said)
                .flat_map(|candidate| candidate.folded.into_iter().chain([candidate.name]));
            said.extend(names);
        }
        let offered = offer.shown.len();
        offer
            .shown
            .retain(|shown| !matches!(shown, Shown::Entry(entry) if said.contains(&entry.handle.to_string())));
        let left_out = offered - offer.shown.len();
        offer.total = offer.total.saturating_sub(u64::try_from(left_out).unwrap_or(u64::MAX));
    }
}
