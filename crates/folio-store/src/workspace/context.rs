//! Assembles what of memory goes into a prompt (M7.11.4): it fetches the sections here, and fixed rules fit them into
//! the budget.

mod session;

use std::collections::HashSet;

use folio_engine::Run;
use folio_memory::context::{Content, Lines, Offered, Section, assemble, by_relevance};
use folio_memory::counted::counted;
use folio_memory::entry::Status;
use folio_memory::id::{PageRef, Ref, TurnRef};
use folio_memory::patterns::{self, FACT};
use folio_memory::query::MAX_LIMIT;
use folio_memory::text::TextMatch;
use folio_memory::tokens::Tokens;
use folio_memory::turn::{Turn, TurnQuery};
use folio_memory::view::{Audience, Candidate, Offer, PageTail, Rendered, Shown, rollup};
use folio_memory::{
    Entry, EntryHandle, EntryId, EntryKind, EntryQuery, Order, Page, PageQuery, PageRole, RunId, Seq, State, ThreadKey,
    TraceNote, TurnId,
};
use serde_json::json;

use self::session::Told;
use super::observations::Whose;
use super::{Moment, Workspace, WorkspaceError};
use crate::store::{MemoryMark, RunQuery};

/// How many pages are offered.
const PAGES: usize = 20;
/// How many entries at the end of a page represent it.
const TAIL: u32 = 4;
/// Among how many runs the newest is looked for that is not forgotten.
const NEWEST_RUNS: u32 = 10;
/// How many entries at the end of a page a roll-up can show.
const ROLLUP_TAIL: u32 = 20;
/// The operation under which an assembled context is noted.
pub(super) const ASSEMBLE_CONTEXT: &str = "assemble_context";
/// How many earlier turns are offered, and among how many they are looked for.
const EPISODES: usize = 20;
const EPISODES_READ: u32 = 40;
/// How many patterns and learnings are read to count the other observations: as many as the cache keeps of an answer.
const REFLECTIONS: u32 = 256;

/// What a context is assembled for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextRequest {
    /// The thread.
    pub thread: ThreadKey,
    /// The turn, if any: its input is the prompt unless another is given, and the pages of its run are offered.
    pub turn: Option<TurnRef>,
    /// The prompt that the context is for; may be empty.
    pub prompt: String,
    /// The budget in tokens.
    pub budget: u32,
    /// The sections and their shares in percent; empty means all sections with the usual shares.
    pub sections: Vec<(Section, u32)>,
}

impl ContextRequest {
    /// A request for a thread, without a particular prompt, within 4,000 tokens.
    #[must_use]
    pub fn of(thread: ThreadKey) -> Self {
        Self {
            thread,
            turn: None,
            prompt: String::new(),
            budget: 4_000,
            sections: Vec::new(),
        }
    }
}

impl Workspace {
    /// Assembles what of memory goes into a prompt, within a budget, with a receipt of what was left out.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such turn; `Unavailable` or `Corrupt`.
    pub async fn assemble_context(
        &self,
        request: ContextRequest,
        tokens: &dyn Tokens,
    ) -> Result<Rendered, WorkspaceError> {
        let moment = self.moment().await?;
        self.assemble_context_at(moment, request, tokens).await
    }

    /// Like [`Workspace::assemble_context`], for callers that ask for more than this at one `moment`.
    ///
    /// # Errors
    ///
    /// As [`Workspace::assemble_context`].
    pub async fn assemble_context_at(
        &self,
        moment: Moment,
        request: ContextRequest,
        tokens: &dyn Tokens,
    ) -> Result<Rendered, WorkspaceError> {
        self.assembled_beside(moment, request, None, tokens).await
    }

    /// The same without what the reader was told before.
    async fn assembled_beside(
        &self,
        moment: Moment,
        request: ContextRequest,
        told: Option<&Told>,
        tokens: &dyn Tokens,
    ) -> Result<Rendered, WorkspaceError> {
        let needs_turn = request.prompt.is_empty() || request.sections.is_empty() || {
            let of_turns = [Section::Pages, Section::Episodic];
            request.sections.iter().any(|(section, _)| of_turns.contains(section))
        };
        let (turn, turn_id) = match request.turn {
            Some(turn) if needs_turn => {
                let turn = self.turn(turn).await?;
                let id = turn.begun.id;
                (Some(turn), Some(id))
            }
            Some(turn) => (None, Some(self.turn_id(turn).await?)),
            None => (None, None),
        };
        let prompt = match &turn {
            Some(turn) if request.prompt.is_empty() => turn.begun.input.clone(),
            _ => request.prompt,
        };
        let sections = if request.sections.is_empty() {
            Section::SHARES.to_vec()
        } else {
            request.sections
        };
        let Moment(mark) = moment;
        let policy = self.policy_at(mark).await?;
        let max = usize::try_from(policy.scratchbook.max_rendered_items()).unwrap_or(usize::MAX);
        let mut offered = Vec::new();
        for (section, share) in sections {
            let mut content = match section {
                Section::ScratchPage => {
                    let place = (&request.thread, prompt.as_str());
                    self.offer_observations(place, max, told, mark).await?
                }
                Section::Scratchbook if !policy.scratchbook.enabled => lines(Vec::new()),
                Section::Scratchbook => {
                    let sections = self.book_sections(&request.thread, max, None, mark).await?;
                    Content::Book(sections.offers)
                }
                Section::Pages => {
                    let run = turn.as_ref().and_then(|turn| turn.begun.run);
                    lines(self.offer_pages(&request.thread, run, told).await?)
                }
                Section::Episodic => {
                    let before = turn.as_ref().map(|turn| turn.handle.0);
                    self.offer_turns(&request.thread, &prompt, before).await?
                }
                Section::Semantic => self.offer_knowledge(&prompt, max, mark).await?,
                _ => lines(Vec::new()),
            };
            if let Some(told) = told {
                told.leave_out(section, &mut content);
            }
            offered.push(Offered {
                section,
                share,
                content,
            });
        }
        let assembled = assemble(offered, request.budget, max, tokens);
        self.note_context(&assembled, &request.thread, turn_id);
        Ok(assembled)
    }

    /// Notes what was shown, so that it can be said later what a prompt was made of. The same context shown to a turn
    /// again is not noted again.
    fn note_context(&self, assembled: &Rendered, thread: &ThreadKey, turn: Option<TurnId>) {
        let receipt = &assembled.receipt;
        let turn = turn.or(self.asker.turn);
        if turn.is_some_and(|turn| !self.inner.contexts.record_if_changed(turn, receipt)) {
            return;
        }
        let detail = json!({"thread": thread, "omitted": receipt.omitted(), "receipt": receipt});
        let note = self
            .noted("context", ASSEMBLE_CONTEXT)
            .with_detail(detail)
            .using(receipt.shown().filter_map(|name| name.parse().ok()));
        self.note(TraceNote { turn, ..note });
    }

    /// The observations that concern the prompt, then those that matter most, and how many more there are. For a reader
    /// who was told before, also what is new and what had no room then, however little it matters, and how much more is
    /// new. Patterns have a section of their own.
    async fn offer_observations(
        &self,
        (thread, prompt): (&ThreadKey, &str),
        max: usize,
        told: Option<&Told>,
        mark: Option<MemoryMark>,
    ) -> Result<Content, WorkspaceError> {
        let limit = max.saturating_mul(2).min(super::MAX_ACTIVE);
        let place = (thread, prompt);
        let active = self.read_active_in(place, mark, limit, Whose::AsAsked).await?;
        let mut omitted = active
            .total
            .saturating_sub(u64::try_from(active.items.len()).unwrap_or(u64::MAX));
        if omitted > 0 {
            let reflections = EntryQuery {
                kinds: vec![EntryKind::Observation],
                types: vec![FACT.to_owned(), patterns::PATTERN.to_owned()],
                status: vec![Status::Active, Status::PendingReview],
                limit: REFLECTIONS,
                ..EntryQuery::default()
            };
            let all = self.cached_entries(mark, Whose::AsAsked, &reflections).await?;
            let count = |entries: &[Entry]| {
                let reflections = entries.iter().filter(|entry| patterns::is_reflection(entry));
                u64::try_from(reflections.count()).unwrap_or(u64::MAX)
            };
            // Those that were not read count by their type alone.
            let unseen = all.total.saturating_sub(all.items.len() as u64);
            let not_looked_at = (count(&all.items) + unseen).saturating_sub(count(&active.items));
            omitted = omitted.saturating_sub(not_looked_at);
        }
        let mut own = active.items;
        own.retain(|entry| !patterns::is_reflection(entry));
        if omitted > 0 {
            let read = own.len();
            own = self.with_concerned(place, own, max, mark).await?;
            omitted = omitted.saturating_sub((own.len() - read) as u64);
        }
        if let Some((told, since)) = told.and_then(|told| Some((told, told.news_since()?))) {
            omitted = self.add_news(place, (told, since), &mut own, (limit, mark)).await?;
        }
        let concerning = by_relevance(prompt, &mut own);
        Ok(Content::Lines(Lines {
            shown: own.into_iter().map(|entry| Shown::Entry(Box::new(entry))).collect(),
            concerning,
            beyond: omitted,
            ..Lines::default()
        }))
    }

    /// Adds to `own` what a reader who was `told` before does not know: what is new since then, at most `limit`, and what
    /// had no room. Returns how much more is new.
    async fn add_news(
        &self,
        (thread, prompt): (&ThreadKey, &str),
        (told, since): (&Told, Seq),
        own: &mut Vec<Entry>,
        (limit, mark): (usize, Option<MemoryMark>),
    ) -> Result<u64, WorkspaceError> {
        let query = EntryQuery {
            kinds: vec![EntryKind::Observation],
            status: vec![Status::Active, Status::PendingReview],
            since: Some(since),
            order: Order::Priority,
            limit: u32::try_from(limit.max(1)).unwrap_or(MAX_LIMIT),
            ..EntryQuery::default()
        };
        let news = self.cached_entries(mark, Whose::AsAsked, &query).await?;
        let elsewhere = self.clarifications_elsewhere(thread, prompt, &news.items).await?;
        let is_here = |entry: &&Entry| !patterns::is_reflection(entry) && !elsewhere.contains(&entry.id);
        let mut all: Vec<Entry> = news.items.iter().filter(is_here).cloned().collect();
        let mut known: HashSet<EntryHandle> = all.iter().map(|entry| entry.handle).collect();
        all.extend(own.drain(..).filter(|entry| known.insert(entry.handle)));
        *own = all;
        for handle in told.left().filter(|handle| known.insert(*handle)) {
            let entry = self.read_entry(Ref::Handle(handle)).await?;
            let is_shown = entry.state(self.now()) == State::Live && entry.fields.superseded_by.is_none();
            if is_shown
                && entry.kind == EntryKind::Observation
                && !patterns::is_reflection(&entry)
                && self.check_entry(&entry).await.is_ok()
            {
                own.push(entry);
            }
        }
        Ok(news.total.saturating_sub(news.items.len() as u64))
    }

    /// Returns `active` with those observations that a search for the words of `prompt` finds, at most `max`: first what
    /// is found, because a search also finds other forms of a word.
    async fn with_concerned(
        &self,
        (thread, prompt): (&ThreadKey, &str),
        active: Vec<Entry>,
        max: usize,
        mark: Option<MemoryMark>,
    ) -> Result<Vec<Entry>, WorkspaceError> {
        let query = EntryQuery {
            kinds: vec![EntryKind::Observation],
            status: vec![Status::Active, Status::PendingReview],
            text: Some(prompt.to_owned()),
            text_match: TextMatch::Any,
            limit: u32::try_from(max.max(1)).unwrap_or(MAX_LIMIT).min(MAX_LIMIT),
            ..EntryQuery::default()
        };
        if query.text_query().is_none_or(|words| words.words().is_empty()) {
            return Ok(active);
        }
        let found = self.cached_entries(mark, Whose::AsAsked, &query).await?;
        let is_among = |entries: &[Entry], entry: &Entry| entries.iter().any(|other| other.id == entry.id);
        let elsewhere = self.clarifications_elsewhere(thread, prompt, &found.items).await?;
        let is_here = |entry: &&Entry| !patterns::is_reflection(entry) && !elsewhere.contains(&entry.id);
        let found = found.items.iter().filter(is_here);
        let others: Vec<Entry> = found
            .clone()
            .filter(|entry| !is_among(&active, entry))
            .cloned()
            .collect();
        let found: HashSet<EntryId> = found.map(|entry| entry.id).collect();
        let (mut all, rest): (Vec<_>, Vec<_>) = active.into_iter().partition(|entry| found.contains(&entry.id));
        all.extend(others);
        all.extend(rest);
        Ok(all)
    }

    /// The newest pages of the thread, each with the end of its content.
    pub(super) async fn pages_at_hand(
        &self,
        thread: &ThreadKey,
        (max, audience): (usize, Audience),
        mark: Option<MemoryMark>,
    ) -> Result<Offer, WorkspaceError> {
        let query = of_thread(thread, max.min(PAGES));
        if self.cached_page_count(mark, &query).await? == 0 {
            return Ok(Offer::default());
        }
        let total = self.page_count(&query).await?;
        let lines = self.tails(self.pages(&query).await?, TAIL).await?;
        Ok(Offer {
            shown: lines
                .iter()
                .map(|page| Shown::Line(page.candidate_for(audience)))
                .collect(),
            total,
        })
    }

    /// The pages of the run, of the thread, or of the last run: one line each, with the end of their content.
    async fn offer_pages(
        &self,
        thread: &ThreadKey,
        run: Option<RunId>,
        told: Option<&Told>,
    ) -> Result<Vec<Candidate>, WorkspaceError> {
        let mut pages = match run {
            Some(run) => self.pages_of_run(run).await?,
            None => self.pages(&of_thread(thread, PAGES)).await?,
        };
        if pages.is_empty() && run.is_none() {
            let newest = RunQuery {
                limit: NEWEST_RUNS,
                ..RunQuery::default()
            };
            let newest = self.runs_in_sight(&newest).await?;
            if let Some(row) = newest.iter().find(|row| row.status != Run::FORGOTTEN) {
                pages = self.pages_of_run(row.id).await?;
            }
        }
        let mut tails = self.tails(pages, TAIL).await?;
        tails.retain(|page| told.is_none_or(|told| told.lacks_page(page)));
        Ok(tails.iter().map(|page| page.candidate_for(Audience::Message)).collect())
    }

    /// Returns `pages` with the last `entries` entries of each, at most 1,000: [`Workspace::tail`] for many pages in
    /// one query. The pages must come from this workspace.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn tails(&self, pages: Vec<Page>, entries: u32) -> Result<Vec<PageTail>, WorkspaceError> {
        let tails = self.tails_of(pages.iter().map(|page| page.id), entries).await?;
        let tails = pages.into_iter().zip(tails);
        Ok(tails.map(|(page, tail)| PageTail { page, tail }).collect())
    }

    /// Sums up the child pages of `page`, or the page itself if it has none, within a budget: a line for each, then the
    /// newest entry of each, then more of their tails.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such page; `Unavailable` or `Corrupt`.
    pub async fn rollup(&self, page: PageRef, budget: u32, tokens: &dyn Tokens) -> Result<Rendered, WorkspaceError> {
        let page = self.page(page).await?;
        let children = self.children(page.id).await?;
        let pages = if children.is_empty() { vec![page] } else { children };
        let tails = self.tails(pages, ROLLUP_TAIL).await?;
        Ok(rollup(&tails, budget, tokens))
    }

    /// The newest pages of a run.
    async fn pages_of_run(&self, run: RunId) -> Result<Vec<Page>, WorkspaceError> {
        let query = PageQuery {
            run: Some(run),
            newest_first: true,
            limit: u32::try_from(PAGES).unwrap_or(u32::MAX),
            ..PageQuery::default()
        };
        self.pages(&query).await
    }

    async fn offer_turns(
        &self,
        thread: &ThreadKey,
        prompt: &str,
        before: Option<u64>,
    ) -> Result<Content, WorkspaceError> {
        let query = TurnQuery {
            thread: Some(thread.clone()),
            ended: Some(true),
            before,
            limit: EPISODES_READ,
            ..TurnQuery::default()
        };
        let prompt_subjects = folio_memory::turn::words::subjects(prompt);
        let shared = |turn: &Turn| {
            let input_subjects = folio_memory::turn::words::subjects(&turn.begun.input);
            folio_memory::turn::words::common(&prompt_subjects, &input_subjects).len()
        };
        let turns = self.turns(&query).await?.into_iter();
        // Of one without an input, or whose input was forgotten, there is nothing to tell.
        let turns = turns.filter(|turn| !turn.begun.input.trim().is_empty());
        let turns = turns.take(EPISODES).map(|turn| (shared(&turn), turn));
        let mut turns: Vec<_> = turns.collect();
        turns.sort_by_key(|(shared, _)| std::cmp::Reverse(*shared));
        let concerning = turns.iter().filter(|(shared, _)| *shared > 0).count();
        let shown = turns.into_iter().map(|(_, turn)| {
            let input: Vec<_> = turn.begun.input.split_whitespace().collect();
            let (state, touched) = match &turn.ended {
                Some(ended) if ended.end.complete => ("complete", ended.end.touched),
                Some(ended) => ("more work left", ended.end.touched),
                None => ("open", 0),
            };
            let line = format!(
                "{} [{state}] {} ({} touched)",
                turn.handle,
                input.join(" "),
                counted(touched, "entry")
            );
            Shown::Line(Candidate::of_line(turn.handle.to_string(), &line))
        });
        Ok(Content::Lines(Lines {
            shown: shown.collect(),
            concerning,
            ..Lines::default()
        }))
    }

    /// Facts, and patterns from which no fact follows yet.
    async fn offer_knowledge(
        &self,
        prompt: &str,
        max: usize,
        mark: Option<MemoryMark>,
    ) -> Result<Content, WorkspaceError> {
        let known = EntryQuery {
            kinds: vec![EntryKind::Observation],
            types: vec![FACT.to_owned(), patterns::PATTERN.to_owned()],
            status: vec![Status::Active],
            limit: MAX_LIMIT,
            ..EntryQuery::default()
        };
        let mut known = self.cached_entries(mark, Whose::AsAsked, &known).await?.items.clone();
        let is_fact = |entry: &Entry| entry.fields.type_name.as_deref() == Some(FACT);
        let facts: HashSet<String> = known
            .iter()
            .filter(|entry| is_fact(entry))
            .map(|entry| entry.fields.body.clone())
            .collect();
        known.retain(|entry| is_fact(entry) || !facts.contains(&entry.fields.body));
        known.sort_by(|a, b| {
            let confidence = |entry: &Entry| entry.fields.confidence.map_or(0.0, |confidence| confidence.value());
            confidence(b)
                .total_cmp(&confidence(a))
                .then_with(|| b.handle.cmp(&a.handle))
        });
        let concerning = by_relevance(prompt, &mut known);
        let omitted = known.len().saturating_sub(max);
        known.truncate(max);
        Ok(Content::Lines(Lines {
            shown: known.into_iter().map(|entry| Shown::Entry(Box::new(entry))).collect(),
            concerning,
            beyond: u64::try_from(omitted).unwrap_or(u64::MAX),
            ..Lines::default()
        }))
    }
}

/// The query for the newest pages of a thread, without standing pages.
fn of_thread(thread: &ThreadKey, limit: usize) -> PageQuery {
    PageQuery {
        thread: Some(thread.clone()),
        roles: PageRole::ALL.into_iter().filter(|role| !role.is_standing()).collect(),
        newest_first: true,
        limit: u32::try_from(limit.max(1)).unwrap_or(u32::MAX),
        ..PageQuery::default()
    }
}

fn lines(candidates: Vec<Candidate>) -> Content {
    Content::Lines(Lines {
        shown: candidates.into_iter().map(Shown::Line).collect(),
        ..Lines::default()
    })
}
