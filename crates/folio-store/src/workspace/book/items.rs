//! Lists of the items of a scratchbook: class by class, so that a list reads what it shows, and not what there is.

use folio_memory::query::MAX_LIMIT;
use folio_memory::scratchbook::{self, BookClass, BookPlace};
use folio_memory::{Entry, EntryKind, EntryQuery, ListAnswer, Seq, ThreadKey, Timestamp};

use super::super::notes::Stopwatch;
use super::super::{Workspace, WorkspaceError};
use super::BookFilter;
use crate::cursor::{After, Cursor, binding, time_in};
use crate::error::StoreError;

/// Up to this many matching items are read at once: reading them is cheaper than asking class by class.
const FEW: u32 = 100;

/// Where a list of items continues, and the state of memory that its first page was read from.
#[derive(Debug, Clone, Copy, PartialEq)]
struct BookCursor {
    as_of: Seq,
    /// The time of the first page: an item whose lifetime ends between two pages is on both or on neither.
    at: Timestamp,
    /// How many items matched then.
    total: u64,
    after: BookPlace,
}

impl BookCursor {
    /// The cursor as handed out, bound to the query `bound`.
    fn to_text(self, bound: &str) -> String {
        let Self {
            as_of,
            at,
            total,
            after,
        } = self;
        format!("{bound}.{as_of}.{}.{total}.{}", at.as_nanos(), after.to_text())
    }

    /// Reads a cursor that [`BookCursor::to_text`] made for the same query.
    fn parse(text: &str, bound: &str) -> Result<Self, StoreError> {
        let cursor = Self::parts(text).ok_or_else(|| StoreError::no_cursor(text))?;
        match cursor {
            (binding, cursor) if binding == bound => Ok(cursor),
            _ => Err(StoreError::other_query(text)),
        }
    }

    fn parts(text: &str) -> Option<(&str, Self)> {
        let mut parts = text.splitn(5, '.');
        let binding = parts.next()?;
        let cursor = Self {
            as_of: Seq(parts.next()?.parse().ok()?),
            at: Timestamp::from_nanos(parts.next()?.parse().ok()?),
            total: parts.next()?.parse().ok()?,
            after: BookPlace::parse(parts.next()?)?,
        };
        Some((binding, cursor))
    }
}

/// The state of memory that a list shows, and what its earlier pages showed of it.
struct Rest {
    as_of: Seq,
    at: Timestamp,
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
            as_of: cursor.map(|cursor| cursor.as_of),
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
            Some(BookCursor {
                as_of,
                at,
                total,
                after,
            }) => {
                let after = Some(after);
                (
                    Rest {
                        as_of,
                        at,
                        total,
                        after,
                    },
                    None,
                )
            }
            None => {
                let few = EntryQuery {
                    limit: FEW,
                    ..query.clone()
                };
                let few = self.visible_entries(&few).await?;
                let at = few.next.as_deref().and_then(time_in);
                let rest = Rest {
                    as_of: few.as_of,
                    at: at.unwrap_or_else(|| self.now()),
                    total: few.total,
                    after: None,
                };
                (rest, few.next.is_none().then_some(few.items))
            }
        };
        let mut items = match items.take() {
            Some(mut all) => {
                all.sort_by_key(|item| BookPlace::of(rest.at, item));
                all
            }
            None => self.items_by_class(query, &rest, limit.saturating_add(1)).await?,
        };
        let has_more = items.len() > limit;
        items.truncate(limit);
        let Rest { as_of, at, total, .. } = rest;
        let last = items.last().filter(|_| has_more).map(|item| BookPlace::of(at, item));
        Ok(ListAnswer {
            returned: items.len(),
            next: last.map(|after| {
                BookCursor {
                    as_of,
                    at,
                    total,
                    after,
                }
                .to_text(bound)
            }),
            items,
            total,
            as_of,
            scores: Vec::new(),
            at_least: false,
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
            found.sort_by_key(|item| BookPlace::of(rest.at, item));
            found.retain(|item| rest.after.is_none_or(|after| BookPlace::of(rest.at, item) > after));
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
            as_of: Some(rest.as_of),
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
        let start = Cursor {
            after,
            as_of: rest.as_of,
            at: Some(rest.at),
            total: Some(0),
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
