//! Lists of what a few words find: which entries, how well they fit, and where to go on.

use std::collections::{HashMap, HashSet};

use folio_memory::terms::{MORE, context_term};
use folio_memory::{Entry, EntryQuery, ListAnswer, Order, Seq, SpaceName, TextMatch, TextQuery, Timestamp};
use rusqlite::{Connection, params_from_iter};

use super::cursor::binding;
use super::error::{Failure, damaged};
use super::filter::{Conditions, Filter, required};
use super::job::Job;
use super::place::{Place, SpaceId};
use super::text_cursor::{Cursor, Position};
use super::{SqliteStore, entry, journal, page, text};
use crate::error::StoreError;

/// How much a word in the title, in the text and in a tag says about an entry.
const WEIGHTS: &str = "4.0, 1.0, 2.0";

impl SqliteStore {
    /// The entries that a query with a text asks for, once the index has come to the last commit of this moment.
    pub(super) async fn search(
        &self,
        space: &SpaceName,
        query: &EntryQuery,
        now: Timestamp,
    ) -> Result<ListAnswer<Entry>, StoreError> {
        let mut known = None;
        loop {
            let (name, query) = (space.clone(), query.clone());
            let search = self
                .read(space, move |conn, space| {
                    entries(conn, &name, space, &query, now, known)
                })
                .await?;
            match search {
                Search::Found(answer) => return Ok(answer),
                Search::Behind(space, head) => {
                    while self.write(|answer| Job::Index(space, answer)).await? < head {}
                    known = Some(head);
                }
            }
        }
    }
}

/// What comes of a question.
#[derive(Debug)]
enum Search {
    /// What was found.
    Found(ListAnswer<Entry>),
    /// Nothing was looked for, because the index of the space has not come to this commit yet.
    Behind(SpaceId, Seq),
}

/// The entries that `query`, which has a text, asks for, as they are at `now`.
///
/// Looks only into an index that has come to the commit `known`, or to the last one if that is none.
fn entries(
    conn: &Connection,
    name: &SpaceName,
    space: Option<SpaceId>,
    query: &EntryQuery,
    now: Timestamp,
    known: Option<Seq>,
) -> Result<Search, Failure> {
    let binding = binding(name, query)?;
    let cursor = query.cursor.as_deref();
    let cursor = cursor.map(|text| Cursor::parse(text, &binding)).transpose()?;
    let asked = cursor.as_ref().map(|cursor| cursor.as_of).or(query.as_of);
    let position = cursor.map(|cursor| cursor.position);
    let words = query.text_query().filter(|words| !words.is_empty());
    let head = match space {
        Some(space) => journal::last(conn, space)?.map_or(Seq(0), |(head, _)| head),
        None => Seq(0),
    };
    let (Some(space), Some(words)) = (space, words) else {
        return Ok(Search::Found(nothing(asked.unwrap_or(head).min(head))));
    };
    let wanted = known.unwrap_or(head);
    let Some(indexed) = text::indexed(conn, space)?.filter(|indexed| *indexed >= wanted) else {
        return Ok(Search::Behind(space, wanted));
    };
    let as_of = asked.unwrap_or(indexed).min(indexed);
    let question = Question {
        conn,
        space,
        query,
        words,
        now,
        as_of,
    };
    let mut hits = question.hits(head)?;
    question.sort(&mut hits)?;
    let total = hits.len() as u64;
    let (hits, position) = part(hits, position, query);
    let mut answer = nothing(as_of);
    for hit in hits {
        answer.scores.push(hit.score);
        answer.items.push(question.entry(hit)?);
    }
    (answer.returned, answer.total) = (answer.items.len(), total);
    answer.next = position.map(|position| Cursor { as_of, position }.to_text(&binding));
    Ok(Search::Found(answer))
}

fn nothing(as_of: Seq) -> ListAnswer<Entry> {
    ListAnswer {
        items: Vec::new(),
        returned: 0,
        total: 0,
        next: None,
        as_of,
        scores: Vec::new(),
    }
}

/// An entry that is found.
#[derive(Debug)]
struct Hit {
    place: Place,
    score: f64,
    /// As it was, if it has changed since the state of memory that is asked for.
    before: Option<Box<Entry>>,
}

/// A question that is being answered, within one transaction.
struct Question<'q> {
    conn: &'q Connection,
    space: SpaceId,
    query: &'q EntryQuery,
    words: TextQuery,
    now: Timestamp,
    as_of: Seq,
}

impl Question<'_> {
    /// Everything that is found in memory as it was, by what is indexed of it now.
    ///
    /// What has changed since is matched as it was, and ordered by what it says now: behind everything else if that no
    /// longer has the words.
    fn hits(&self, head: Seq) -> Result<Vec<Hit>, Failure> {
        let mut hits = self.present()?;
        if self.as_of < head {
            let changed = entry::changed_after(self.conn, self.space, self.as_of)?;
            let places: HashSet<_> = changed.iter().copied().collect();
            hits.retain(|hit| !places.contains(&hit.place));
            let scores: HashMap<_, _> = self
                .found(&among(&changed))?
                .into_iter()
                .map(|hit| (hit.place, hit.score))
                .collect();
            for place in changed {
                let before = journal::as_of(self.conn, place, self.as_of)?;
                if let Some(before) = before.filter(|before| self.query.matches(before, self.now)) {
                    let score = scores.get(&place).copied().unwrap_or_default();
                    hits.push(Hit {
                        place,
                        score,
                        before: Some(Box::new(before)),
                    });
                }
            }
        }
        Ok(hits)
    }

    /// Everything that is found as it stands.
    fn present(&self) -> Result<Vec<Hit>, Failure> {
        let (conn, query) = (self.conn, self.query);
        let mut terms = query.context.iter().map(|(path, value)| context_term(path, value));
        let has_terms = query.context.is_empty()
            || terms.all(|term| term.is_some()) && !entry::is_any_found_by(conn, self.space, MORE)?;
        let mut filter = Filter::wanted(query, self.as_of, self.now, &required(query, has_terms));
        if let Some(page) = query.page {
            let Some(page) = page::place_of(conn, self.space, page)? else {
                return Ok(Vec::new());
            };
            filter.and("page = ?", [page::place_value(page)]);
        }
        let hits = self.found(&filter)?;
        if has_terms {
            return Ok(hits);
        }
        // Only the whole entry tells what is in its context.
        let rest = EntryQuery {
            text: None,
            ..query.clone()
        };
        let mut kept = Vec::new();
        for hit in hits {
            if rest.matches(&entry_at(conn, hit.place)?, self.now) {
                kept.push(hit);
            }
        }
        Ok(kept)
    }

    /// The entries with the words for which `filter` holds.
    fn found(&self, filter: &Conditions) -> Result<Vec<Hit>, Failure> {
        let table = text::table(self.space);
        let sql = format!(
            "SELECT entry.place, -bm25({table}, {WEIGHTS}) FROM {table} CROSS JOIN entry ON entry.place = {table}.rowid
             WHERE {table} MATCH ? AND {}",
            filter.sql
        );
        let values = std::iter::once(expression(&self.words).into()).chain(filter.values.iter().cloned());
        let mut statement = self.conn.prepare_cached(&sql)?;
        let hits = statement.query_map(params_from_iter(values), |row| {
            Ok(Hit {
                place: row.get(0)?,
                score: row.get(1)?,
                before: None,
            })
        })?;
        Ok(hits.collect::<Result<_, _>>()?)
    }

    fn sort(&self, hits: &mut [Hit]) -> Result<(), Failure> {
        match self.query.order {
            Order::Relevance => {
                hits.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then_with(|| b.place.cmp(&a.place)));
            }
            Order::Newest => hits.sort_unstable_by_key(|hit| std::cmp::Reverse(hit.place)),
            Order::Oldest => hits.sort_unstable_by_key(|hit| hit.place),
            Order::Priority => {
                for hit in &mut *hits {
                    if hit.before.is_none() {
                        hit.before = Some(Box::new(entry_at(self.conn, hit.place)?));
                    }
                }
                hits.sort_by(|a, b| match (&a.before, &b.before) {
                    (Some(a), Some(b)) => self.query.compare(a, b),
                    _ => std::cmp::Ordering::Equal,
                });
            }
        }
        Ok(())
    }

    fn entry(&self, hit: Hit) -> Result<Entry, Failure> {
        hit.before
            .map_or_else(|| entry_at(self.conn, hit.place), |before| Ok(*before))
    }
}

fn entry_at(conn: &Connection, place: Place) -> Result<Entry, Failure> {
    entry::at(conn, place)?.ok_or_else(|| damaged("an entry", "it was there a moment ago"))
}

/// That an entry stands at one of `places`.
fn among(places: &[Place]) -> Conditions {
    let places: Vec<_> = places.iter().map(|place| place.raw().to_string()).collect();
    let mut among = Conditions::default();
    let list = format!("[{}]", places.join(","));
    among.and("entry.place IN (SELECT value FROM json_each(?))", [list.into()]);
    among
}

/// `words` as FTS5 reads them. Terms have no signs, so quotes keep every one of them from being a word of its language.
fn expression(words: &TextQuery) -> String {
    let word = |terms: &Vec<String>| {
        let terms: Vec<_> = terms.iter().map(|term| format!("\"{term}\"")).collect();
        format!("({})", terms.join(" AND "))
    };
    let between = match words.how() {
        TextMatch::All => " AND ",
        TextMatch::Any => " OR ",
    };
    words.words().iter().map(word).collect::<Vec<_>>().join(between)
}

/// The hits that are given now, and where to go on if there are more.
fn part(hits: Vec<Hit>, from: Option<Position>, query: &EntryQuery) -> (Vec<Hit>, Option<Position>) {
    let limit = usize::try_from(query.limit()).unwrap_or(usize::MAX);
    let is_left = |hit: &Hit| match &from {
        None => true,
        Some(Position::After(number)) if query.order == Order::Oldest => hit.place.number() > *number,
        Some(Position::After(number)) => hit.place.number() < *number,
        Some(Position::Given(given)) => !given.contains(&hit.place.number()),
    };
    let mut part: Vec<_> = hits.into_iter().filter(is_left).take(limit + 1).collect();
    let goes_on = part.len() > limit;
    part.truncate(limit);
    let mut numbers = part.iter().map(|hit| hit.place.number());
    let next = match (query.order, from) {
        (Order::Newest | Order::Oldest, _) => numbers.next_back().map(Position::After),
        (_, Some(Position::Given(mut given))) => {
            given.extend(numbers);
            Some(Position::Given(given))
        }
        _ => Some(Position::Given(numbers.collect())),
    };
    let next = next.filter(|next| goes_on && next.can_be_written());
    (part, next)
}
