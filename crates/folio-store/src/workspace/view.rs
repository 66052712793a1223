//! The view of a scratchbook: its sections are asked for, fitted by the rules, and kept as long as nothing changes.

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
/// Views that are kept.
const KEPT: usize = 32;
/// Ends of lifetimes that are looked at to see whether a view is still true.
const ENDS: u32 = 100;

/// Which view is wanted. What is left out is as the policy of the space says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewRequest {
    /// Of which thread.
    pub thread: ThreadKey,
    /// For which turn, if for one: its trace has the receipt.
    pub turn: Option<TurnRef>,
    /// Tokens that it may have.
    pub view_token_limit: Option<u32>,
    /// Lines that one section has at most.
    pub max_rendered_items: Option<u32>,
    /// Tokens of the model's window, if somebody knows.
    pub window: Option<u32>,
    /// In whose name a model reads it; by where it is placed unless it is said.
    pub audience: Option<Audience>,
    /// What stands beside the view already, so that the view leaves it out.
    pub besides: Vec<EntryHandle>,
}

impl ViewRequest {
    /// The view of `thread`, as the policy of the space says.
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

/// A view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The text, and what it holds and what not.
    pub rendered: Arc<Rendered>,
    /// Where the policy of the space puts it.
    pub placement: Placement,
    /// The commit that it is true for.
    pub as_of: Seq,
    /// Whether the policy of the space has scratchbooks.
    pub enabled: bool,
}

impl View {
    /// What is said instead of an empty view: why there is nothing to read. None if there is something.
    #[must_use]
    pub fn instead(&self) -> Option<String> {
        let receipt = &self.rendered.receipt;
        if !self.rendered.text.is_empty() {
            return None;
        }
        Some(match receipt.omitted() {
            _ if !self.enabled => SCRATCHBOOKS_OFF.to_owned(),
            // Nobody looked whether there is anything.
            0 if receipt.budget == 0 => "nothing fits into a budget of 0 tokens".to_owned(),
            0 => "the scratchbook is empty".to_owned(),
            omitted => format!("{}; the budget is too small to show one", counted(omitted, "entry")),
        })
    }
}

/// What a view depends on besides what is in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    thread: ThreadKey,
    render: Render,
    besides: Vec<EntryHandle>,
    counted: String,
    /// Who asks, in whatever turn, and from where: what they may not read is not in it (M7.7).
    asker: Actor,
    seen_from: ThreadKey,
}

/// What has to be the same for a view to be still true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// The mark of what lists of memory tell. Only of a view that shows no pages: blocks of their logs are no part of it.
    At(u64),
    /// The last commit, and what has ended since.
    AsOf(Seq),
}

/// A view that was made.
#[derive(Debug)]
struct Kept {
    key: Key,
    stands: Stands,
    at: Timestamp,
    rendered: Arc<Rendered>,
    /// The turn whose trace has the receipt.
    noted: Option<TurnId>,
}

/// The last views that were made, the latest last.
#[derive(Debug, Default)]
pub(super) struct KeptViews(Mutex<VecDeque<Kept>>);

impl KeptViews {
    /// The view for `key` that stands as one of `stands`, with that and its instant, and whether `turn` knows of it.
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
        while kept.len() > KEPT {
            kept.pop_front();
        }
    }
}

impl Workspace {
    /// The view of a scratchbook as a model reads it: within its budget, with a receipt that the trace keeps, and the same
    /// bytes as long as nothing of it changes. Empty if the policy switches scratchbooks off, or nothing is remembered.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such turn; `Unavailable` or `Corrupt`.
    pub async fn view(&self, request: ViewRequest, tokens: &dyn Tokens) -> Result<View, WorkspaceError> {
        let moment = self.moment().await?;
        self.view_at(moment, request, tokens).await
    }

    /// The same for whoever asks for more than that at `moment`.
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
            let is_known = |turn| !self.inner.shown.is_news(turn, &(&key.thread, &rendered.receipt));
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
            self.inner.shown.is_news(turn, &(&key.thread, &rendered.receipt));
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

    /// Whether nobody's time has ended after `since`, as far as no commit says so.
    async fn nothing_ended(&self, since: Timestamp, now: Timestamp) -> Result<bool, WorkspaceError> {
        let ended = self.inner.store.ended(self.space(), now, ENDS).await?;
        let is_all = ended.len() < usize::try_from(ENDS).unwrap_or(usize::MAX);
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

/// Takes `besides` out of what the sections could show.
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
