//! Lists of what a search for words finds: which entries, how well they match, and where to continue.

use std::collections::{HashMap, HashSet};

use folio_memory::terms::{MORE, context_term};
use folio_memory::text::is_searchable;
use folio_memory::{Entry, EntryQuery, FOUND_MAX, ListAnswer, Order, Seq, SpaceName, TextQuery, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::error::{Failure, damaged};
use super::filter::{Conditions, Filter, required};
use super::job::Job;
use super::place::{Place, SpaceId, from_column};
use super::{SqliteStore, entry, journal, page, text, text_words};
use crate::cursor::search::{Position, SearchCursor};
use crate::cursor::{Snapshot, binding};
use crate::error::StoreError;
use crate::lists::hits::{Hit, Hits, is_by_age, needs_entries, part, sort};
use crate::words::{IndexLookup, Ranking};

/// The weights of a word in the title, in the text and in a tag.
const WEIGHTS: &str = "4.0, 1.0, 2.0";

/// How many entries that changed since the first page are rebuilt at a time.
const CHANGED_AT_ONCE: usize = 1_000;

impl SqliteStore {
    /// The entries that match a query with a text, once the index has reached the last commit as of now. If nothing can
    /// be written, what the index lacks is read.
    pub(super) async fn search(
        &self,
        space: &SpaceName,
        query: &EntryQuery,
        now: Timestamp,
    ) -> Result<ListAnswer<Entry>, StoreError> {
        let mut reach = Reach::Head;
        loop {
            let (name, query) = (space.clone(), query.clone());
            let search = self
                .read(space, move |conn, space| {
                    entries(conn, &name, space, &query, now, reach)
                })
                .await?;
            match search {
                Search::Found(answer) => return Ok(answer),
                Search::Behind(space, head) => {
                    reach = match self.index(space, head).await {
                        Ok(()) => Reach::Commit(head),
                        Err(StoreError::Unavailable { .. }) => Reach::Any,
                        Err(error) => return Err(error),
                    };
                }
            }
        }
    }

    /// Lets the index of `space` catch up, until it has reached commit `head`.
    async fn index(&self, space: SpaceId, head: Seq) -> Result<(), StoreError> {
        while self.write(|answer| Job::Index(space, answer)).await? < head {}
        Ok(())
    }
}

/// How far the index must have come for a search.
#[derive(Debug, Clone, Copy)]
enum Reach {
    /// To the last commit.
    Head,
    /// To this commit.
    Commit(Seq),
    /// It does not matter: what it lacks is read. Nothing can be written.
    Any,
}

/// The outcome of a search.
#[derive(Debug)]
enum Search {
    /// The entries that were found.
    Found(ListAnswer<Entry>),
    /// No search was made, because the index of the space has not reached this commit yet.
    Behind(SpaceId, Seq),
}

/// The entries that match `query`, which has a text, as they are at `now`.
///
/// Uses the index as it is only if it has come as far as `reach`.
fn entries(
    conn: &Connection,
    name: &SpaceName,
    space: Option<SpaceId>,
    query: &EntryQuery,
    now: Timestamp,
    reach: Reach,
) -> Result<Search, Failure> {
    let (first, position) = SearchCursor::of(name, query)?
        .map(|cursor| (cursor.snapshot, cursor.position))
        .unzip();
    let words = query.text_query().filter(|words| !words.is_empty());
    let head = match space {
        Some(space) => journal::last(conn, space)?.map_or(Seq(0), |(head, _)| head),
        None => Seq(0),
    };
    let (Some(space), Some(words)) = (space, words) else {
        let shown = Snapshot::shown(first, query, head, now);
        return Ok(Search::Found(ListAnswer::empty(shown.as_of)));
    };
    let least_seq = match reach {
        Reach::Commit(seq) => seq,
        Reach::Head | Reach::Any => head,
    };
    let indexed = text::indexed(conn, space)?;
    let (newest, unindexed) = match (indexed.filter(|indexed| *indexed >= least_seq), reach) {
        (Some(indexed), _) => (indexed, Vec::new()),
        (None, Reach::Any) => (head, text::unindexed(conn, space, indexed)?),
        (None, Reach::Head | Reach::Commit(_)) => return Ok(Search::Behind(space, least_seq)),
    };
    let mut snapshot = Snapshot::shown(first, query, newest, now);
    if snapshot.is_requested_past(query, head) {
        snapshot.at = journal::expiry_time_at(conn, space, snapshot.as_of, snapshot.at)?;
    }
    let question = Question {
        conn,
        space,
        query,
        words,
        now: snapshot.at,
        as_of: snapshot.as_of,
        has_index: indexed.is_some(),
        unindexed,
    };
    let Hits {
        mut hits,
        total,
        at_least,
    } = question.hits(head, position.as_ref())?;
    question.sort(&mut hits)?;
    let (hits, position) = part(hits, position, query);
    let mut answer = ListAnswer::empty(snapshot.as_of);
    answer.at_least = at_least;
    for hit in hits {
        answer.scores.push(hit.score);
        answer.items.push(question.entry(hit)?);
    }
    (answer.returned, answer.total) = (answer.items.len(), total);
    if let Some(position) = position {
        answer.next = Some(SearchCursor { snapshot, position }.to_text(&binding(name, query)?));
    }
    Ok(Search::Found(answer))
}

/// A query that is being answered within one transaction.
struct Question<'q> {
    conn: &'q Connection,
    space: SpaceId,
    query: &'q EntryQuery,
    words: TextQuery,
    now: Timestamp,
    as_of: Seq,
    /// Whether there is an index.
    has_index: bool,
    /// The entries that it does not have as they are, if nothing can be written.
    unindexed: Vec<Place>,
}

impl Question<'_> {
    /// The matches in memory as it was, found through the index of memory as it is; for a list by age those after
    /// `from`.
    ///
    /// Entries that have changed since are matched as they were, but ordered by their current content: last, if it no
    /// longer has the words. So are those that the index lacks.
    fn hits(&self, head: Seq, from: Option<&Position>) -> Result<Hits, Failure> {
        let mut changed = self.unindexed.clone();
        if self.as_of < head {
            changed.extend(entry::changed_after(self.conn, self.space, self.as_of)?);
            changed.sort_unstable();
            changed.dedup();
        }
        if !self.has_index {
            return Ok(Hits::of(
                self.query.order,
                (Vec::new(), 0, true),
                self.changed_hits(None, &changed, head)?,
            ));
        }
        let places: HashSet<_> = changed.iter().copied().collect();
        let is_by_age = is_by_age(self.query.order);
        let best = text_words::build_lookup(self.conn, self.space, &self.words, self.query.order)?;
        let unchanged = match self.filter()? {
            None => (Vec::new(), 0, true),
            Some(Wanted {
                filter,
                rest: Some(rest),
            }) => {
                // Only the whole entry tells what is in its context.
                let mut kept = Vec::new();
                for hit in self.fetch_hits(&best.find_all_with_same_ranking(&self.words), &filter, None)? {
                    if rest.matches(&entry_at(self.conn, hit.place)?, self.now) {
                        kept.push(hit);
                    }
                }
                kept.retain(|hit| !places.contains(&hit.place));
                let counted = kept.len() as u64;
                (kept, counted, true)
            }
            Some(Wanted { mut filter, rest: None }) => {
                if !changed.is_empty() {
                    filter.and("entry.place NOT IN (SELECT value FROM json_each(?))", [list(&changed)]);
                }
                match (is_by_age, from) {
                    (true, Some(Position::After(number))) => {
                        let counted = self.count(&best, &filter)?;
                        let after = if self.query.order == Order::Newest { "<" } else { ">" };
                        let place = Place::of(self.space, *number);
                        filter.and(
                            &format!("{}.rowid {after} ?", text::table(self.space)),
                            [place.raw().into()],
                        );
                        (
                            self.fetch_hits(&best, &filter, Some(self.query.limit() + 1))?,
                            counted,
                            true,
                        )
                    }
                    _ => {
                        let hits = self.fetch_hits(&best, &filter, Some(FOUND_MAX + 1))?;
                        let counted = hits.len() as u64;
                        (hits, counted, best.is_whole)
                    }
                }
            }
        };
        // What the conditions cannot express was looked for among all matches.
        let lookup = match unchanged {
            (_, _, true) => best.find_all_with_same_ranking(&self.words),
            _ => best,
        };
        let changed = self.changed_hits(Some(&lookup), &changed, head)?;
        Ok(Hits::of(self.query.order, unchanged, changed))
    }

    /// The matches among entries that have changed since, as far as `best` finds them, or that the index lacks. `head`
    /// is the last commit.
    fn changed_hits(&self, best: Option<&IndexLookup>, changed: &[Place], head: Seq) -> Result<Vec<Hit>, Failure> {
        let Some(found_by) = best.filter(|_| !changed.is_empty()) else {
            return self.hits_among(changed, &HashMap::new(), best, head);
        };
        let lookup = found_by.find_all_with_same_ranking(&self.words);
        let scores: HashMap<_, _> = self
            .fetch_hits(&lookup, &among(changed), None)?
            .into_iter()
            .map(|hit| (hit.place, hit.score))
            .collect();
        self.hits_among(changed, &scores, best, head)
    }

    /// The entries at `places` that match as they were.
    fn hits_among(
        &self,
        places: &[Place],
        scores: &HashMap<Place, f64>,
        best: Option<&IndexLookup>,
        head: Seq,
    ) -> Result<Vec<Hit>, Failure> {
        let is_past = self.as_of < head;
        let mut hits = Vec::new();
        for chunk in places.chunks(CHANGED_AT_ONCE) {
            let entries = match is_past {
                true => journal::as_of(self.conn, chunk, self.as_of)?,
                false => chunk
                    .iter()
                    .map(|place| entry_at(self.conn, *place))
                    .collect::<Result<_, _>>()?,
            };
            for entry in entries {
                if !is_searchable(entry.kind) || !self.matches_in_whole(&entry, best)? {
                    continue;
                }
                let place = Place::of(self.space, entry.handle.0);
                let score = scores.get(&place).copied().unwrap_or_default();
                let before = is_past.then(|| Box::new(entry));
                hits.push(Hit { place, score, before });
            }
        }
        Ok(hits)
    }

    /// Whether `entry` matches and `best` would find it, by the whole of its text.
    fn matches_in_whole(&self, entry: &Entry, best: Option<&IndexLookup>) -> Result<bool, Failure> {
        let is_found = |entry: &Entry| best.is_none_or(|best| best.finds(&entry.fields));
        let matches = |entry: &Entry| self.query.matches(entry, self.now) && is_found(entry);
        if entry.fields.body_ref.is_none() || matches(entry) {
            return Ok(matches(entry));
        }
        let mut whole = entry.clone();
        text::fill_in_text(self.conn, self.space, &mut whole)?;
        Ok(matches(&whole))
    }

    /// The conditions on an entry apart from its words. `None` if nothing can match.
    fn filter(&self) -> Result<Option<Wanted>, Failure> {
        let (conn, query) = (self.conn, self.query);
        let mut terms = query.context.iter().map(|(path, value)| context_term(path, value));
        let has_terms = query.context.is_empty()
            || terms.all(|term| term.is_some()) && !entry::is_any_found_by(conn, self.space, MORE)?;
        let mut filter = Filter::wanted(query, self.as_of, self.now, &required(query, has_terms));
        if let Some(page) = query.page {
            let Some(page) = page::place_of(conn, self.space, page)? else {
                return Ok(None);
            };
            filter.and("page = ?", [page::place_value(page)]);
        }
        let rest = (!has_terms).then(|| EntryQuery {
            text: None,
            ..query.clone()
        });
        Ok(Some(Wanted { filter, rest }))
    }

    /// The entries that `lookup` asks for and that match `filter`, newest first unless the oldest are wanted; at most
    /// `limit` for each expression.
    fn fetch_hits(&self, lookup: &IndexLookup, filter: &Conditions, limit: Option<u32>) -> Result<Vec<Hit>, Failure> {
        let only = lookup
            .only
            .as_ref()
            .map(|only| self.places(&only.to_string()))
            .transpose()?;
        // Entries that are dropped afterwards must not use up the limit.
        let limit = limit.filter(|_| only.is_none());
        let mut hits: Vec<Hit> = Vec::new();
        for expression in &lookup.expressions {
            let expression = expression.to_string();
            let found = match lookup.ranking {
                Ranking::Finder => self.ranked(&expression, filter, limit)?,
                Ranking::By(_) | Ranking::Nothing => self.unranked(&expression, filter, limit)?,
            };
            let is_wanted = |hit: &Hit| only.as_ref().is_none_or(|only| only.contains(&hit.place));
            hits.extend(found.into_iter().filter(is_wanted));
        }
        if lookup.expressions.len() > 1 {
            hits.sort_unstable_by(|a, b| b.place.cmp(&a.place).then_with(|| b.score.total_cmp(&a.score)));
            hits.dedup_by_key(|hit| hit.place);
        }
        if let Ranking::By(expressions) = &lookup.ranking {
            let expressions: Vec<_> = expressions.iter().map(ToString::to_string).collect();
            self.rank(&mut hits, &expressions.join(" OR "))?;
        }
        Ok(hits)
    }

    fn ranked(&self, expression: &str, filter: &Conditions, limit: Option<u32>) -> Result<Vec<Hit>, Failure> {
        let table = text::table(self.space);
        let sql = self.select(&format!("entry.place, -bm25({table}, {WEIGHTS})"), filter, limit);
        self.hits_of(&sql, expression, filter)
    }

    fn unranked(&self, expression: &str, filter: &Conditions, limit: Option<u32>) -> Result<Vec<Hit>, Failure> {
        let sql = self.select("entry.place, 0.0", filter, limit);
        self.hits_of(&sql, expression, filter)
    }

    fn hits_of(&self, sql: &str, expression: &str, filter: &Conditions) -> Result<Vec<Hit>, Failure> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let hits = statement.query_map(params_from_iter(values(expression, filter)), |row| {
            Ok(Hit {
                place: row.get(0)?,
                score: row.get(1)?,
                before: None,
            })
        })?;
        Ok(hits.collect::<Result<_, _>>()?)
    }

    /// Scores each of `hits` by `expression`.
    fn rank(&self, hits: &mut [Hit], expression: &str) -> Result<(), Failure> {
        let places: Vec<_> = hits.iter().map(|hit| hit.place).collect();
        let (Some(first), Some(last)) = (places.iter().min(), places.iter().max()) else {
            return Ok(());
        };
        let mut those = among(&places);
        those.and(
            &format!("{}.rowid BETWEEN ? AND ?", text::table(self.space)),
            [first.raw().into(), last.raw().into()],
        );
        let ranked = self.ranked(expression, &those, None)?;
        let scores: HashMap<_, _> = ranked.into_iter().map(|hit| (hit.place, hit.score)).collect();
        for hit in hits {
            hit.score = scores.get(&hit.place).copied().unwrap_or_default();
        }
        Ok(())
    }

    /// The places of the entries that match `expression`, which are few.
    fn places(&self, expression: &str) -> Result<HashSet<Place>, Failure> {
        let table = text::table(self.space);
        let sql = format!("SELECT rowid FROM {table} WHERE {table} MATCH ?1");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let places = statement.query_map([expression], |row| row.get(0))?;
        Ok(places.collect::<Result<_, _>>()?)
    }

    /// The number of entries that `lookup` asks for and that match `filter`, counted until there are more than
    /// [`FOUND_MAX`].
    fn count(&self, lookup: &IndexLookup, filter: &Conditions) -> Result<u64, Failure> {
        let sql = format!(
            "SELECT count(*) FROM ({})",
            self.select("1", filter, Some(FOUND_MAX + 1))
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut counted = 0;
        for expression in &lookup.expressions {
            let expression = expression.to_string();
            let values = params_from_iter(values(&expression, filter));
            counted += from_column(statement.query_row(values, |row| row.get(0))?);
        }
        Ok(counted)
    }

    fn select(&self, columns: &str, filter: &Conditions, limit: Option<u32>) -> String {
        let table = text::table(self.space);
        let direction = if self.query.order == Order::Oldest {
            "ASC"
        } else {
            "DESC"
        };
        // Without an order the index returns rows as they come, without keeping any.
        let end = limit.map_or_else(String::new, |limit| {
            format!("ORDER BY {table}.rowid {direction} LIMIT {limit}")
        });
        format!(
            "SELECT {columns} FROM {table} CROSS JOIN entry ON entry.place = {table}.rowid
             WHERE {table} MATCH ? AND {} {end}",
            filter.sql
        )
    }

    /// Sorts `hits`, after reading their entries if the order needs them.
    fn sort(&self, hits: &mut [Hit]) -> Result<(), Failure> {
        if needs_entries(self.query.order) {
            for hit in hits.iter_mut().filter(|hit| hit.before.is_none()) {
                hit.before = Some(Box::new(entry_at(self.conn, hit.place)?));
            }
        }
        sort(self.query, hits);
        Ok(())
    }

    fn entry(&self, hit: Hit) -> Result<Entry, Failure> {
        hit.before
            .map_or_else(|| entry_at(self.conn, hit.place), |before| Ok(*before))
    }
}

/// The conditions on an entry that is found.
struct Wanted {
    filter: Conditions,
    /// What the conditions cannot express, so that each entry has to be read.
    rest: Option<EntryQuery>,
}

fn entry_at(conn: &Connection, place: Place) -> Result<Entry, Failure> {
    entry::by_place(conn, place)?.ok_or_else(|| damaged("an entry", "it was there a moment ago"))
}

/// Restricts entries to those at one of `places`.
fn among(places: &[Place]) -> Conditions {
    let mut among = Conditions::default();
    among.and("entry.place IN (SELECT value FROM json_each(?))", [list(places)]);
    among
}

fn values(expression: &str, filter: &Conditions) -> impl Iterator<Item = Value> {
    std::iter::once(expression.to_owned().into()).chain(filter.values.iter().cloned())
}

fn list(places: &[Place]) -> Value {
    let places: Vec<_> = places.iter().map(|place| place.raw().to_string()).collect();
    format!("[{}]", places.join(",")).into()
}

#[cfg(test)]
mod tests;
