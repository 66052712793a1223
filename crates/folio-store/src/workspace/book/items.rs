//! Lists of the items of a scratchbook: class by class, so that a list reads what it shows, and not what there is.

use folio_memory::query::MAX_LIMIT;
use folio_memory::scratchbook::{self, BookClass, BookPlace};
use folio_memory::{Entry, EntryKind, EntryQuery, ListAnswer, ThreadKey};

use super::super::notes::Stopwatch;
use super::super::{Workspace, WorkspaceError};
use super::BookFilter;
use crate::cursor::book::BookCursor;
use crate::cursor::list::{After, ListCursor};
use crate::cursor::{Snapshot, binding};

/// Up to this many matching items are read at once: reading them is cheaper than asking class by class.
const FEW: u32 = 100;

/// The state of memory that a list shows, and where the part that is still to be shown begins.
struct Rest {
    snapshot: Snapshot,
    total: u64,
    after: Option<BookPlace>,
}

impl Workspace {
    /// Lists the items of the scratchbook of `thread`, most urgent first: pinned, tasks, todos, notes, done.
    ///
    /// A scratchbook that nobody has written to is empty. Without a limit, the answer holds up to 1,000 items. If there
    /// are more, `next` continues after the last one. All pages show the scratchbook as it was for the first page: what
    /// is written in between neither moves nor repeats an item, and an item whose lifetime ends in between is shown as
    /// if it did not (M7.2.15).
    ///
    /// Reads little more than it returns, apart from pinned items, of which all are read, and from settled ones, which
    /// are sorted by the database.
    ///
    /// # Errors
    ///
    /// `Invalid` if the cursor belongs to another list; `Unavailable` or `Corrupt`.
    pub async fn book_items(
        &self,
        thread: &ThreadKey,
        filter: BookFilter,
    ) -> Result<ListAnswer<Entry>, WorkspaceError> {
        let (page, _) = scratchbook::page_of(self.space(), thread);
        let watch = Stopwatch::start();
        let query = EntryQuery {
            page: Some(page),
            kinds: filter.kinds,
            status: filter.status,
            tags: filter.tags,
            ..EntryQuery::default()
        };
        let bound = binding(self.space(), &query)?;
        let cursor = filter.cursor.as_deref().map(|text| BookCursor::parse(text, &bound));
        let cursor = cursor.transpose()?;
        let limit = match filter.limit {
            0 => MAX_LIMIT as usize,
            limit => limit,
        };
        let answer = self.items_in_order(&query, cursor, &bound, limit).await;
        let noted_query = EntryQuery {
            kinds: vec![EntryKind::Note, EntryKind::Todo, EntryKind::Task],
            as_of: cursor.map(|cursor| cursor.snapshot.as_of),
            limit: MAX_LIMIT,
            ..query
        };
        self.note_query(None, &noted_query, &watch, &answer);
        answer
    }

    /// The first `limit` items that match `query`, after `cursor` if there is one.
    async fn items_in_order(
        &self,
        query: &EntryQuery,
        cursor: Option<BookCursor>,
        bound: &str,
        limit: usize,
    ) -> Result<ListAnswer<Entry>, WorkspaceError> {
        let (rest, mut items) = match cursor {
            Some(BookCursor { snapshot, total, after }) => {
                let after = Some(after);
                (Rest { snapshot, total, after }, None)
            }
            None => {
                let few = EntryQuery {
                    limit: FEW,
                    ..query.clone()
                };
                let few = self.visible_entries(&few).await?;
                let shown = few.next.as_deref().and_then(Snapshot::in_cursor);
                let rest = Rest {
                    snapshot: Snapshot {
                        as_of: few.as_of,
                        at: shown.map_or_else(|| self.now(), |shown| shown.at),
                    },
                    total: few.total,
                    after: None,
                };
                (rest, few.next.is_none().then_some(few.items))
            }
        };
        let mut items = match items.take() {
            Some(mut all) => {
                all.sort_by_key(|item| BookPlace::of(rest.snapshot.at, item));
                all
            }
            None => self.items_by_class(query, &rest, limit.saturating_add(1)).await?,
        };
        let has_more = items.len() > limit;
        items.truncate(limit);
        let Rest { snapshot, total, .. } = rest;
        let last = items.last().filter(|_| has_more);
        let last = last.map(|item| BookPlace::of(snapshot.at, item));
        Ok(ListAnswer {
            returned: items.len(),
            next: last.map(|after| BookCursor { snapshot, total, after }.to_text(bound)),
            items,
            total,
            ..ListAnswer::empty(snapshot.as_of)
        })
    }

    /// The first `wanted` items that match `query`, of what `rest` says.
    async fn items_by_class(
        &self,
        query: &EntryQuery,
        rest: &Rest,
        wanted: usize,
    ) -> Result<Vec<Entry>, WorkspaceError> {
        let mut items = Vec::new();
        let first = rest.after.map(|after| after.class());
        for class in BookClass::in_order().filter(|class| first.is_none_or(|first| *class >= first)) {
            let missing = wanted - items.len();
            if missing == 0 {
                break;
            }
            let mut found = Vec::new();
            for part in class.queries(query) {
                // Only pinned items themselves tell in which order they are.
                let enough = if class == BookClass::Pinned {
                    usize::MAX
                } else {
                    missing
                };
                found.extend(self.items_of_part(part, class, rest, enough).await?);
            }
            found.sort_by_key(|item| BookPlace::of(rest.snapshot.at, item));
            found.retain(|item| {
                rest.after
                    .is_none_or(|after| BookPlace::of(rest.snapshot.at, item) > after)
            });
            found.truncate(missing);
            items.append(&mut found);
        }
        Ok(items)
    }

    /// The first `wanted` items that `query`, a part of `class`, finds after what was shown before.
    async fn items_of_part(
        &self,
        query: EntryQuery,
        class: BookClass,
        rest: &Rest,
        wanted: usize,
    ) -> Result<Vec<Entry>, WorkspaceError> {
        let query = EntryQuery {
            as_of: Some(rest.snapshot.as_of),
            ..query
        };
        let shown = rest
            .after
            .filter(|after| after.class() == class && class != BookClass::Pinned);
        let after = match shown {
            Some(place) => After {
                number: place.handle().0,
                last_change: place.last_change(),
                ..After::nothing(query.order)
            },
            None => After::nothing(query.order),
        };
        // With a total, nothing is counted.
        let start = ListCursor {
            snapshot: rest.snapshot,
            total: 0,
            after,
        };
        let mut next = Some(start.to_text(&binding(self.space(), &query)?));
        let mut items: Vec<Entry> = Vec::new();
        while let Some(cursor) = next.take().filter(|_| items.len() < wanted) {
            let part = EntryQuery {
                cursor: Some(cursor),
                limit: u32::try_from(wanted - items.len()).map_or(MAX_LIMIT, |missing| missing.min(MAX_LIMIT)),
                ..query.clone()
            };
            let answer = self.visible_part(&part).await?;
            items.extend(answer.items);
            next = answer.next;
        }
        Ok(items)
    }
}
