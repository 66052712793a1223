//! What each section of a view could show, all from one state of memory, so that an entry that changes meanwhile is in
//! just one of them.

use std::sync::Arc;

use folio_memory::entry::{State, Status};
use folio_memory::observation::Class;
use folio_memory::query::MAX_LIMIT;
use folio_memory::roles::Visibility;
use folio_memory::view::{Audience, BookSections, Offer, Shown, ViewSection};
use folio_memory::{Entry, EntryKind, EntryQuery, ListAnswer, Order, PageId, Seq, ThreadKey, scratchbook};
use parking_lot::Mutex;

use super::super::book::LAST_PIN;
use super::super::observations::Whose;
use super::super::{PolicyInForce, Workspace, WorkspaceError};
use crate::store::MemoryMark;

/// The statuses that a view shows.
const OF_WORK: [Status; 3] = [Status::InProgress, Status::Open, Status::Blocked];
const OF_KNOWLEDGE: [Status; 2] = [Status::Active, Status::PendingReview];
/// How often the sections are read at most because memory changes meanwhile. The last time all of them are read as of
/// the commit of the first; before that they are read as of now, since an entry that has expired since a commit counts
/// as live at it.
const TRIES: u32 = 3;
/// The kinds of work in each section.
const WAITING: [EntryKind; 1] = [EntryKind::PendingAction];
const TASKS: [EntryKind; 2] = [EntryKind::Goal, EntryKind::Task];
const TODOS: [EntryKind; 1] = [EntryKind::Todo];

/// What each section could show.
#[derive(Debug, Default)]
pub(in super::super) struct Sections {
    pub(in super::super) offers: BookSections,
    /// The commit at which they were read, unless they were read at the mark that was requested.
    pub(super) read_at: Option<Seq>,
}

impl Workspace {
    /// What each section of the view of `thread` could show, read from the indexes: at most `max` entries each. What is
    /// cached at `mark` is not read again. Without an `audience` the sections are for a context, which has sections of
    /// its own for observations and pages.
    pub(in super::super) async fn book_sections(
        &self,
        thread: &ThreadKey,
        max: usize,
        audience: Option<Audience>,
        mark: Option<MemoryMark>,
    ) -> Result<Sections, WorkspaceError> {
        let (page, _) = scratchbook::page_of(self.space(), thread);
        let (mut mark, mut tries) = (mark, 1);
        loop {
            let mut book = Ask {
                workspace: self,
                page,
                max,
                mark,
                policy: self.policy_at(mark).await?,
                with_observations: audience.is_some(),
                told: Vec::new(),
                is_pinned: tries == TRIES,
                read_at: Mutex::default(),
            };
            if mark.is_none() {
                book.ask_at_once().await?;
            }
            let offers = book.sections(thread, audience).await?;
            if tries == TRIES || book.is_of_one_state().await? {
                let read_at = book.last_commit().filter(|_| mark.is_none());
                return Ok(Sections { offers, read_at });
            }
            (mark, tries) = (None, tries + 1);
        }
    }
}

/// The reads for the view of one scratchbook.
struct Ask<'w> {
    workspace: &'w Workspace,
    page: PageId,
    max: usize,
    mark: Option<MemoryMark>,
    policy: Arc<PolicyInForce>,
    with_observations: bool,
    /// Whether all reads are as of the commit of the first one.
    is_pinned: bool,
    /// The answers that were read at once.
    told: Vec<(EntryQuery, Arc<ListAnswer<Entry>>)>,
    /// The first and the last commit of the answers.
    read_at: Mutex<Option<(Seq, Seq)>>,
}

/// The summaries of a scratchbook, newest first, and how many there are.
type Summaries = (Vec<Entry>, u64);

impl Ask<'_> {
    /// Reads in one transaction what will be shown, if the asker may read all of it.
    async fn ask_at_once(&mut self) -> Result<(), WorkspaceError> {
        if self.workspace.visibility().await? != Visibility::Space {
            return Ok(());
        }
        let mut queries = vec![self.summaries(), self.pinned_of_book(), self.notes_of_book()];
        for kinds in [&WAITING[..], &TASKS, &TODOS] {
            queries.extend(OF_WORK.map(|status| self.work_of(kinds, status)));
        }
        if self.with_observations {
            queries.extend([self.pinned_observations(), self.alerts(), self.other_than_alerts()]);
        }
        let answers = self.workspace.read_entries_of_each(queries.clone()).await?;
        self.told = queries.into_iter().zip(answers.into_iter().map(Arc::new)).collect();
        Ok(())
    }

    async fn ask(&self, query: &EntryQuery) -> Result<Arc<ListAnswer<Entry>>, WorkspaceError> {
        let answer = match self.told.iter().find(|(cached_query, _)| cached_query == query) {
            Some((_, answer)) => Arc::clone(answer),
            None => {
                let query = EntryQuery {
                    as_of: self.last_commit().filter(|_| self.is_pinned),
                    ..query.clone()
                };
                self.workspace.cached_entries(self.mark, Whose::AsAsked, &query).await?
            }
        };
        let mut read_at = self.read_at.lock();
        let (first, last) = read_at.unwrap_or((answer.as_of, answer.as_of));
        *read_at = Some((first.min(answer.as_of), last.max(answer.as_of)));
        Ok(answer)
    }

    fn last_commit(&self) -> Option<Seq> {
        let read_at = self.read_at.lock();
        read_at.map(|(_, last)| last)
    }

    /// Whether memory has not changed from the first answer to the last.
    async fn is_of_one_state(&self) -> Result<bool, WorkspaceError> {
        let read_at = *self.read_at.lock();
        if read_at.is_none_or(|(first, last)| first == last) {
            return Ok(true);
        }
        let Some(mark) = self.mark else { return Ok(false) };
        let now = self.workspace.mark().await?;
        Ok(now.is_some_and(|now| now.number == mark.number))
    }

    async fn sections(&self, thread: &ThreadKey, audience: Option<Audience>) -> Result<BookSections, WorkspaceError> {
        let summaries = self.unpinned_and_pinned_summaries().await?;
        let mut sections = BookSections::new();
        for (section, _) in ViewSection::SHARES {
            let offer = match section {
                ViewSection::Pinned => self.pinned(&summaries).await?,
                ViewSection::Alerts => {
                    let waiting = self.work(&WAITING).await?;
                    if self.with_observations {
                        joined(self.alerts_in(thread).await?, waiting)
                    } else {
                        waiting
                    }
                }
                ViewSection::Tasks => self.work(&TASKS).await?,
                ViewSection::Todos => self.work(&TODOS).await?,
                ViewSection::Observations if self.with_observations => self.offered(&self.other_than_alerts()).await?,
                ViewSection::Observations => continue,
                ViewSection::Notes => self.notes(&summaries).await?,
                ViewSection::Pages => match audience {
                    Some(audience) => {
                        let at_hand = self.workspace.pages_at_hand(thread, (self.max, audience), self.mark);
                        at_hand.await?
                    }
                    None => continue,
                },
            };
            sections.push((section, offer));
        }
        Ok(sections)
    }

    /// What `query` finds, as an offer.
    async fn offered(&self, query: &EntryQuery) -> Result<Offer, WorkspaceError> {
        let answer = self.ask(query).await?;
        Ok(Offer {
            shown: answer.items.iter().cloned().map(shown).collect(),
            total: answer.total,
        })
    }

    /// The query for the live observations that are not pinned, of whatever type.
    fn observations(&self) -> EntryQuery {
        EntryQuery {
            ranks: self.policy.types().ranks(),
            ..unpinned(
                vec![EntryKind::Observation],
                OF_KNOWLEDGE.into(),
                Order::Priority,
                self.max,
            )
        }
    }

    /// The types of alerts and pending confirmations. All others are registered otherwise, or not, or no longer.
    fn types_of_alerts(&self) -> Vec<String> {
        let types = self.policy.types();
        let is_alert = |name: &&str| matches!(types.class_of(Some(name)), Class::Alert | Class::PendingConfirmation);
        types.names().filter(is_alert).map(str::to_owned).collect()
    }

    fn alerts(&self) -> EntryQuery {
        EntryQuery {
            types: self.types_of_alerts(),
            ..self.observations()
        }
    }

    fn other_than_alerts(&self) -> EntryQuery {
        EntryQuery {
            types_none: self.types_of_alerts(),
            ..self.observations()
        }
    }

    /// The live alerts and pending confirmations that are not pinned, without the questions of the clarifier about
    /// inputs of other threads than `thread`.
    async fn alerts_in(&self, thread: &ThreadKey) -> Result<Offer, WorkspaceError> {
        let mut answer = self.ask(&self.alerts()).await?;
        let mut elsewhere = self
            .workspace
            .clarifications_elsewhere(thread, "", &answer.items)
            .await?;
        if !elsewhere.is_empty() && answer.next.is_some() {
            // What those have displaced is looked for behind them.
            let query = EntryQuery {
                limit: MAX_LIMIT,
                ..self.alerts()
            };
            answer = self.ask(&query).await?;
            elsewhere = self
                .workspace
                .clarifications_elsewhere(thread, "", &answer.items)
                .await?;
        }
        let here = answer.items.iter().filter(|entry| !elsewhere.contains(&entry.id));
        Ok(Offer {
            shown: here.take(self.max).cloned().map(shown).collect(),
            total: answer.total.saturating_sub(elsewhere.len() as u64),
        })
    }

    /// The query for summaries of offloaded history: they are few, so pinned ones are not queried separately.
    fn summaries(&self) -> EntryQuery {
        EntryQuery {
            page: Some(self.page),
            pinned: None,
            ..unpinned(vec![EntryKind::Summary], OF_KNOWLEDGE.into(), Order::Newest, self.max)
        }
    }

    async fn unpinned_and_pinned_summaries(&self) -> Result<Summaries, WorkspaceError> {
        let answer = self.ask(&self.summaries()).await?;
        Ok((answer.items.clone(), answer.total))
    }

    fn pinned_of_book(&self) -> EntryQuery {
        EntryQuery {
            page: Some(self.page),
            ..pinned(EntryKind::memory().collect())
        }
    }

    fn pinned_observations(&self) -> EntryQuery {
        pinned(vec![EntryKind::Observation])
    }

    /// Pinned entries by rank, and within a rank in the order in which they were written.
    async fn pinned(&self, summaries: &Summaries) -> Result<Offer, WorkspaceError> {
        let answer = self.ask(&self.pinned_of_book()).await?;
        let (mut found, mut total) = (answer.items.clone(), answer.total);
        if self.with_observations {
            let answer = self.ask(&self.pinned_observations()).await?;
            total += answer.total;
            found.extend(answer.items.iter().cloned());
        }
        let of_summaries = summaries.0.iter().filter(|entry| entry.fields.pin_rank.is_some());
        total += u64::try_from(of_summaries.clone().count()).unwrap_or(u64::MAX);
        found.extend(of_summaries.cloned());
        // What an offload pins it cannot unpin, and nobody needs next actions that are done.
        let all = found.len();
        found.retain(|entry| entry.fields.pin_rank != Some(LAST_PIN) || entry.fields.status.state() == State::Live);
        total = total.saturating_sub((all - found.len()) as u64);
        found.sort_by_key(|entry| (entry.fields.pin_rank, entry.handle));
        found.truncate(self.max);
        Ok(Offer {
            shown: found.into_iter().map(shown).collect(),
            total,
        })
    }

    fn work_of(&self, kinds: &[EntryKind], status: Status) -> EntryQuery {
        EntryQuery {
            page: Some(self.page),
            ..unpinned(kinds.into(), vec![status], Order::Oldest, self.max)
        }
    }

    /// Work of `kinds`: in progress before open before blocked, each in the order in which it was added.
    async fn work(&self, kinds: &[EntryKind]) -> Result<Offer, WorkspaceError> {
        let mut all = Offer::default();
        for status in OF_WORK {
            all = joined(all, self.offered(&self.work_of(kinds, status)).await?);
        }
        all.shown.truncate(self.max);
        Ok(all)
    }

    fn notes_of_book(&self) -> EntryQuery {
        EntryQuery {
            page: Some(self.page),
            ..unpinned(vec![EntryKind::Note], OF_KNOWLEDGE.into(), Order::Newest, self.max)
        }
    }

    /// Notes and summaries, newest first.
    async fn notes(&self, summaries: &Summaries) -> Result<Offer, WorkspaceError> {
        let mut offer = self.offered(&self.notes_of_book()).await?;
        let loose: Vec<_> = summaries
            .0
            .iter()
            .filter(|entry| entry.fields.pin_rank.is_none())
            .cloned()
            .collect();
        let pinned = u64::try_from(summaries.0.len() - loose.len()).unwrap_or(u64::MAX);
        offer.total += summaries.1.saturating_sub(pinned);
        offer.shown.extend(loose.into_iter().map(shown));
        offer.shown.sort_by_key(|item| match item {
            Shown::Entry(entry) => std::cmp::Reverse(Some(entry.handle)),
            Shown::Line(_) => std::cmp::Reverse(None),
        });
        offer.shown.truncate(self.max);
        Ok(offer)
    }
}

fn shown(entry: Entry) -> Shown {
    Shown::Entry(Box::new(entry))
}

fn pinned(kinds: Vec<EntryKind>) -> EntryQuery {
    EntryQuery {
        kinds,
        status: Status::ALL
            .into_iter()
            .filter(|status| *status != Status::Archived)
            .collect(),
        pinned: Some(true),
        limit: MAX_LIMIT,
        order: Order::Oldest,
        ..EntryQuery::default()
    }
}

fn unpinned(kinds: Vec<EntryKind>, status: Vec<Status>, order: Order, max: usize) -> EntryQuery {
    EntryQuery {
        kinds,
        status,
        order,
        pinned: Some(false),
        limit: u32::try_from(max.max(1)).unwrap_or(u32::MAX),
        ..EntryQuery::default()
    }
}

fn joined(mut first: Offer, second: Offer) -> Offer {
    first.shown.extend(second.shown);
    first.total += second.total;
    first
}
