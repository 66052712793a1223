//! What of memory goes into a prompt (M7.11.4): the sections are asked for here, and fitted by the rules.

use folio_memory::context::{Assembled, Candidate, Offered, Section, assemble, by_relevance, candidate};
use folio_memory::entry::Status;
use folio_memory::id::{Ref, TurnRef};
use folio_memory::patterns::{self, FACT};
use folio_memory::query::MAX_LIMIT;
use folio_memory::tokens::Tokens;
use folio_memory::turn::TurnQuery;
use folio_memory::{Entry, EntryQuery, PageQuery, PageRole, RunId, ThreadKey, TraceNote, Turn};
use serde_json::json;

use super::{BookFilter, Workspace, WorkspaceError};
use crate::store::RunQuery;

/// Entries that one section offers.
const OFFERED: usize = 40;
/// Pages that are offered.
const PAGES: usize = 20;
/// Earlier turns that are offered.
const EPISODES: u32 = 20;

/// What a context is assembled for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextRequest {
    /// In which thread.
    pub thread: ThreadKey,
    /// In which turn, if in one: its input is the prompt unless another is given, and its run's pages are at hand.
    pub turn: Option<TurnRef>,
    /// What it is for; may be empty.
    pub prompt: String,
    /// Tokens that it may have.
    pub budget: u32,
    /// Which sections with which shares in per cent; empty means all of them with the usual ones.
    pub sections: Vec<(Section, u32)>,
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
    ) -> Result<Assembled, WorkspaceError> {
        let turn = match request.turn {
            Some(turn) => Some(self.turn(turn).await?),
            None => None,
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
        let mut offered = Vec::new();
        for (section, share) in sections {
            let candidates = match section {
                Section::ScratchPage => self.offer_observations().await?,
                Section::Scratchbook => self.offer_book(&request.thread).await?,
                Section::Pages => {
                    let run = turn.as_ref().and_then(|turn| turn.begun.run);
                    self.offer_pages(&request.thread, run).await?
                }
                Section::Episodic => {
                    let before = turn.as_ref().map(|turn| turn.handle.0);
                    self.offer_turns(&request.thread, &prompt, before).await?
                }
                Section::Semantic => self.offer_knowledge(&prompt).await?,
                _ => Vec::new(),
            };
            offered.push(Offered {
                section,
                share,
                candidates,
            });
        }
        let assembled = assemble(offered, request.budget, tokens);
        self.note_context(&assembled, turn.as_ref());
        Ok(assembled)
    }

    /// Notes what was shown, so that it can be said later what a prompt was made of.
    fn note_context(&self, assembled: &Assembled, turn: Option<&Turn>) {
        let receipt = &assembled.receipt;
        let sections = receipt.sections.iter();
        let shown = sections
            .clone()
            .flat_map(|section| section.shown.iter().chain(&section.shortened))
            .filter_map(|name| name.parse().ok());
        let omitted: usize = sections.map(|section| section.omitted.len()).sum();
        let detail =
            json!({"hash": receipt.hash, "budget": receipt.budget, "tokens": receipt.tokens, "omitted": omitted});
        let note = self
            .noted("context", "assemble_context")
            .with_detail(detail)
            .using(shown);
        self.note(TraceNote {
            turn: turn.map(|turn| turn.begun.id).or(note.turn),
            ..note
        });
    }

    async fn offer_observations(&self) -> Result<Vec<Candidate>, WorkspaceError> {
        let active = self.active_observations(OFFERED * 2).await?.items;
        let own = active.iter().filter(|entry| !patterns::is_reflection(entry));
        Ok(own.take(OFFERED).map(candidate).collect())
    }

    async fn offer_book(&self, thread: &ThreadKey) -> Result<Vec<Candidate>, WorkspaceError> {
        let live = BookFilter {
            status: vec![
                Status::Active,
                Status::PendingReview,
                Status::Open,
                Status::InProgress,
                Status::Blocked,
            ],
            limit: OFFERED,
            ..BookFilter::default()
        };
        Ok(self
            .book_items(thread, live)
            .await?
            .items
            .iter()
            .map(candidate)
            .collect())
    }

    /// The pages of the run, or of the thread, or of the last run: one line each, with the end of what is on it.
    async fn offer_pages(&self, thread: &ThreadKey, run: Option<RunId>) -> Result<Vec<Candidate>, WorkspaceError> {
        let mut pages = match run {
            Some(run) => self.pages_of_run(run).await?,
            None => {
                let query = PageQuery {
                    thread: Some(thread.clone()),
                    ..PageQuery::default()
                };
                self.pages(&query).await?
            }
        };
        pages.retain(|page| !matches!(page.fields.role, PageRole::Scratchbook | PageRole::ScratchPage));
        if pages.is_empty() && run.is_none() {
            let last = RunQuery {
                limit: 1,
                ..RunQuery::default()
            };
            if let Some(row) = self.runs(&last).await?.first() {
                pages = self.pages_of_run(row.id).await?;
            }
        }
        pages.reverse();
        let mut candidates = Vec::new();
        for page in pages.iter().take(PAGES) {
            let tail = self.tail(Ref::Id(page.id), 2).await?;
            let mut line = format!(
                "{} [{}/{}] {}",
                page.handle, page.fields.role, page.fields.status, page.fields.title
            );
            for entry in &tail {
                let text = if entry.fields.body.is_empty() {
                    &entry.fields.title
                } else {
                    &entry.fields.body
                };
                let text: Vec<_> = text.split_whitespace().collect();
                line.push_str(&format!("; {} {}", entry.handle, text.join(" ")));
            }
            candidates.push(Candidate::of_line(page.handle.to_string(), &line));
        }
        Ok(candidates)
    }

    async fn pages_of_run(&self, run: RunId) -> Result<Vec<folio_memory::Page>, WorkspaceError> {
        let query = PageQuery {
            run: Some(run),
            ..PageQuery::default()
        };
        self.pages(&query).await
    }

    async fn offer_turns(
        &self,
        thread: &ThreadKey,
        prompt: &str,
        before: Option<u64>,
    ) -> Result<Vec<Candidate>, WorkspaceError> {
        let query = TurnQuery {
            thread: Some(thread.clone()),
            ended: Some(true),
            before,
            limit: EPISODES,
            ..TurnQuery::default()
        };
        let about = folio_memory::turn::words::subjects(prompt);
        let mut turns: Vec<_> = self.turns(&query).await?;
        turns.sort_by_cached_key(|turn| {
            let said = folio_memory::turn::words::subjects(&turn.begun.input);
            std::cmp::Reverse(folio_memory::turn::words::common(&about, &said).len())
        });
        let lines = turns.into_iter().map(|turn| {
            let input: Vec<_> = turn.begun.input.split_whitespace().collect();
            let (state, touched) = match &turn.ended {
                Some(ended) if ended.end.complete => ("complete", ended.end.touched),
                Some(ended) => ("more work left", ended.end.touched),
                None => ("open", 0),
            };
            let line = format!(
                "{} [{state}] {} ({touched} entries touched)",
                turn.handle,
                input.join(" ")
            );
            Candidate::of_line(turn.handle.to_string(), &line)
        });
        Ok(lines.collect())
    }

    /// Facts, and patterns of which no fact follows yet.
    async fn offer_knowledge(&self, prompt: &str) -> Result<Vec<Candidate>, WorkspaceError> {
        let known = EntryQuery {
            types: vec![FACT.to_owned(), patterns::PATTERN.to_owned()],
            status: vec![Status::Active],
            limit: MAX_LIMIT,
            ..EntryQuery::default()
        };
        let mut known = self.read_entries(&known).await?.items;
        let is_fact = |entry: &Entry| entry.fields.type_name.as_deref() == Some(FACT);
        let facts: Vec<String> = known
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
        by_relevance(prompt, &mut known);
        Ok(known.iter().take(OFFERED).map(candidate).collect())
    }
}
