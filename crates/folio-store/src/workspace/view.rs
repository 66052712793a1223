//! The view of a scratchbook: its sections are read, fitted into the budget by fixed rules, and cached while nothing
//! changes.

mod sections;

use std::collections::VecDeque;
use std::sync::Arc;

use folio_memory::counted::counted;
use folio_memory::id::{EntryHandle, TurnRef};
use folio_memory::policy::{SCRATCHBOOKS_OFF, within_share};
use folio_memory::query::MAX_LIMIT;
use folio_memory::tokens::Tokens;
use folio_memory::view::{Audience, BookSections, Placement, Render, Rendered, Shown, ViewSection, render};
use folio_memory::{Actor, Seq, ThreadKey, Timestamp, TraceNote, TurnId};
use parking_lot::Mutex;
use serde_json::json;

use self::sections::Sections;
use super::notes::Stopwatch;
use super::{Moment, Workspace, WorkspaceError};

/// The operation under which a view is noted.
pub(super) const RENDER_VIEW: &str = "render_view";
/// How many views are cached.
const MAX_CACHED_VIEWS: usize = 32;
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
        }
    }
}

/// A rendered view.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// What a view depends on apart from the content of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    thread: ThreadKey,
    render: Render,
    besides: Vec<EntryHandle>,
    counted: String,
    /// The asker, in whatever turn, and the thread it reads from: what it may not read is left out (M7.7).
    asker: Actor,
    seen_from: ThreadKey,
}

/// What must be unchanged for a cached view to be still true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// The mark of lists of memory. Only for a view without pages: a mark does not cover the blocks of their logs.
    At(u64),
    /// The last commit, and the expiries since.
    AsOf(Seq),
}

#[derive(Debug)]
struct Kept {
    key: Key,
    stands: Stands,
    at: Timestamp,
    rendered: Arc<Rendered>,
    /// The turn whose trace has the receipt.
    noted: Option<TurnId>,
}

/// The views rendered last, the latest at the end.
#[derive(Debug, Default)]
pub(super) struct KeptViews(Mutex<VecDeque<Kept>>);

impl KeptViews {
    /// The cached view for `key` that is true at one of `stands`, with that and its instant, and whether `turn` has its
    /// receipt.
    fn get(
        &self,
        key: &Key,
        stands: &[Stands],
        turn: Option<TurnId>,
    ) -> Option<(Stands, Timestamp, Arc<Rendered>, bool)> {
        let kept = self.0.lock();
        let kept = kept
            .iter()
            .find(|kept| stands.contains(&kept.stands) && kept.key == *key)?;
        Some((kept.stands, kept.at, Arc::clone(&kept.rendered), kept.noted == turn))
    }

    pub(super) fn forget(&self) {
        self.0.lock().clear();
    }

    fn put(&self, new: Kept) {
        let mut kept = self.0.lock();
        kept.retain(|kept| kept.key != new.key);
        kept.push_back(new);
        while kept.len() > MAX_CACHED_VIEWS {
            kept.pop_front();
        }
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
        request: ViewRequest,
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
        let max = request.max_rendered_items.unwrap_or(policy.max_rendered_items());
        let key = Key {
            thread: request.thread,
            render: Render {
                budget: match request.view_token_limit.filter(|_| policy.enabled) {
                    Some(limit) => within_share(limit, request.window),
                    None => policy.budget(request.window),
                },
                max_rendered_items: usize::try_from(max.min(MAX_LIMIT)).unwrap_or(usize::MAX),
                audience: request.audience.unwrap_or(match placement {
                    Placement::System => Audience::System,
                    Placement::Tail => Audience::Message,
                }),
            },
            besides: request.besides,
            counted: tokens.method(),
            asker: Actor {
                turn: None,
                ..(*self.asker).clone()
            },
            seen_from: self.thread().clone(),
        };
        let as_of = match mark {
            Some(mark) => mark.as_of,
            None => self.head().await?,
        };
        let marked = mark.map(|mark| Stands::At(mark.number));
        let stands: Vec<Stands> = marked.into_iter().chain([Stands::AsOf(as_of)]).collect();
        if let Some((stands, made_at, rendered, is_noted)) = self.inner.views.get(&key, &stands, turn)
            && (stands != Stands::AsOf(as_of) || self.nothing_ended(made_at, at).await?)
        {
            let is_known = |turn| {
                !self
                    .inner
                    .shown
                    .record_if_changed(turn, &(&key.thread, &rendered.receipt))
            };
            if !is_noted && !turn.is_some_and(is_known) {
                self.note_view(&key, &rendered, turn, &watch);
                self.keep(key, stands, made_at, &rendered, turn);
            }
            return Ok(View {
                rendered,
                placement,
                as_of,
                enabled: policy.enabled,
            });
        }
        let Sections {
            offers: mut sections,
            read_at,
        } = if key.render.budget == 0 {
            Sections::default()
        } else {
            self.book_sections(
                &key.thread,
                key.render.max_rendered_items,
                Some(key.render.audience),
                mark,
            )
            .await?
        };
        leave_out(&mut sections, &key.besides);
        let (marked, as_of) = match read_at {
            Some(read_at) => (None, read_at),
            None => (marked, as_of),
        };
        let has_pages = sections
            .iter()
            .any(|(section, offer)| *section == ViewSection::Pages && (offer.total > 0 || !offer.shown.is_empty()));
        let stands = marked.filter(|_| !has_pages).unwrap_or(Stands::AsOf(as_of));
        let rendered = Arc::new(render(sections, key.render, tokens));
        if let Some(turn) = turn {
            self.inner
                .shown
                .record_if_changed(turn, &(&key.thread, &rendered.receipt));
        }
        self.note_view(&key, &rendered, turn, &watch);
        self.keep(key, stands, at, &rendered, turn);
        Ok(View {
            rendered,
            placement,
            as_of,
            enabled: policy.enabled,
        })
    }

    fn keep(&self, key: Key, stands: Stands, at: Timestamp, rendered: &Arc<Rendered>, noted: Option<TurnId>) {
        let rendered = Arc::clone(rendered);
        self.inner.views.put(Kept {
            key,
            stands,
            at,
            rendered,
            noted,
        });
    }

    /// Whether no lifetime has ended after `since`, of those that no commit has noted yet.
    async fn nothing_ended(&self, since: Timestamp, now: Timestamp) -> Result<bool, WorkspaceError> {
        let ended = self.inner.store.ended(self.space(), now, MAX_CHECKED_EXPIRIES).await?;
        let is_all = ended.len() < usize::try_from(MAX_CHECKED_EXPIRIES).unwrap_or(usize::MAX);
        Ok(is_all && ended.iter().all(|(_, at)| *at <= since))
    }

    fn note_view(&self, key: &Key, rendered: &Rendered, turn: Option<TurnId>, watch: &Stopwatch) {
        let receipt = &rendered.receipt;
        let note = self
            .noted("scratchbook", RENDER_VIEW)
            .with_detail(json!({"thread": key.thread, "omitted": receipt.omitted(), "receipt": receipt}))
            .using(receipt.shown().filter_map(|name| name.parse().ok()))
            .taking(watch.elapsed());
        self.note(TraceNote { turn, ..note });
    }
}

/// Removes `besides` from what the sections could show.
fn leave_out(sections: &mut BookSections, besides: &[EntryHandle]) {
    for (_, offer) in sections {
        let offered = offer.shown.len();
        offer
            .shown
            .retain(|shown| !matches!(shown, Shown::Entry(entry) if besides.contains(&entry.handle)));
        let left_out = offered - offer.shown.len();
        offer.total = offer.total.saturating_sub(u64::try_from(left_out).unwrap_or(u64::MAX));
    }
}
