//! Lists of what a search for words finds: which entries, how well they match, and where to continue.

use std::collections::HashMap;
use std::sync::Arc;

use folio_memory::terms::{MORE, context_term};
use folio_memory::text::is_searchable;
use folio_memory::{Entry, EntryQuery, FOUND_MAX, ListAnswer, Order, Seq, SpaceName, TextMatch, TextQuery, Timestamp};

use super::column::{Statement, Value, count, get};
use super::error::{Failure, damaged};
use super::filter::{Has, push_wanted, push_without, required};
use super::lookup::looked_up;
use super::session::Session;
use super::text::Indexed;
use super::{PostgresStore, commit, entry, journal, page, text};
use crate::cursor::search::{Position, SearchCursor};
use crate::cursor::{Snapshot, binding};
use crate::error::StoreError;
use crate::lists::hits::{Hit, Hits, is_by_age, needs_entries, part, sort};
use crate::place::{Place, to_column};
use crate::words::{COMMON, Counted, EVERYWHERE, Expression, IndexLookup, Ranking};

/// How much the repetition of a word and the length of an entry count: the same values as in FTS5.
const REPETITION: f64 = 1.2;
const LENGTH: f64 = 0.75;
/// How many entries that changed since the first page are rebuilt at a time.
const CHANGED_AT_ONCE: usize = 1_000;
/// The least weight of a word.
const MIN_WORD_WEIGHT: f64 = 1e-6;

impl PostgresStore {
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
                .read(space, move |session, _| {
                    let (name, query) = (name.clone(), query.clone());
                    async move { entries(session.as_deref(), &name, &query, now, reach).await }
                })
                .await?;
            match search {
                Search::Found(answer) => return Ok(answer),
                Search::Behind(head) => {
                    let (inner, space) = (Arc::clone(&self.inner), space.clone());
                    let indexed = self
                        .on_threads("write to", async move {
                            let indexed = inner.index(&space, head).await;
                            indexed.map_err(|failure| failure.into_error("write to", &inner.target.location))
                        })
                        .await;
                    reach = match indexed {
                        Ok(()) => Reach::Commit(head),
                        Err(StoreError::Unavailable { .. }) => Reach::Any,
                        Err(error) => return Err(error),
                    };
                }
            }
        }
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
    Behind(Seq),
}

/// The entries that match `query`, which has a text, as they are at `now`.
///
/// Uses the index as it is only if it has come as far as `reach`.
async fn entries(
    session: Option<&Session>,
    name: &SpaceName,
    query: &EntryQuery,
    now: Timestamp,
    reach: Reach,
) -> Result<Search, Failure> {
    let (first, position) = SearchCursor::of(name, query)?
        .map(|cursor| (cursor.snapshot, cursor.position))
        .unzip();
    let words = query.text_query().filter(|words| !words.is_empty());
    let head = match session {
        Some(session) => commit::ends(session).await?.head,
        None => Seq(0),
    };
    let (Some(session), Some(words)) = (session, words) else {
        let shown = Snapshot::shown(first, query, head, now);
        return Ok(Search::Found(ListAnswer::empty(shown.as_of)));
    };
    let least_seq = match reach {
        Reach::Commit(seq) => seq,
        Reach::Head | Reach::Any => head,
    };
    let index = text::indexed(session).await?;
    let (newest, unindexed) = match (index.filter(|index| index.seq >= least_seq), reach) {
        (Some(index), _) => (index.seq, Vec::new()),
        (None, Reach::Any) => (head, text::unindexed(session, index.map(|index| index.seq)).await?),
        (None, Reach::Head | Reach::Commit(_)) => return Ok(Search::Behind(least_seq)),
    };
    let mut snapshot = Snapshot::shown(first, query, newest, now);
    if snapshot.is_requested_past(query, head) {
        snapshot.at = journal::expiry_time_at(session, snapshot.as_of, snapshot.at).await?;
    }
    let question = Question {
        session,
        query,
        words,
        now: snapshot.at,
        as_of: snapshot.as_of,
        index: index.unwrap_or(Indexed::NOTHING),
        has_index: index.is_some(),
        unindexed,
    };
    let Hits {
        mut hits,
        total,
        at_least,
    } = question.hits(head, position.as_ref()).await?;
    question.sort(&mut hits).await?;
    let (hits, position) = part(hits, position, query);
    let mut answer = ListAnswer::empty(snapshot.as_of);
    answer.at_least = at_least;
    let numbers: Vec<u64> = hits.iter().map(|hit| hit.place.number()).collect();
    let mut now: HashMap<u64, Entry> = entry::by_numbers(session, &numbers)
        .await?
        .into_iter()
        .map(|entry| (entry.handle.0, entry))
        .collect();
    for hit in hits {
        answer.scores.push(hit.score);
        let missing = || damaged("an entry", "it was there a moment ago");
        answer.items.push(match hit.before {
            Some(before) => *before,
            None => now.remove(&hit.place.number()).ok_or_else(missing)?,
        });
    }
    (answer.returned, answer.total) = (answer.items.len(), total);
    if let Some(position) = position {
        answer.next = Some(SearchCursor { snapshot, position }.to_text(&binding(name, query)?));
    }
    Ok(Search::Found(answer))
}

/// The conditions on an entry apart from its words.
struct Wanted {
    page: Option<u64>,
    terms: Vec<String>,
    /// What the conditions cannot express, so that each entry has to be read.
    rest: Option<EntryQuery>,
}

/// Which of the entries that an expression finds are wanted.
enum Which<'w> {
    /// Those that meet these conditions, without those that have changed, on one side of a number.
    Wanted(&'w Wanted, &'w [u64], Option<(&'static str, u64)>),
    /// Those with these numbers.
    Among(&'w [u64]),
}

/// A query that is being answered within one transaction.
struct Question<'q> {
    session: &'q Session,
    query: &'q EntryQuery,
    words: TextQuery,
    now: Timestamp,
    as_of: Seq,
    index: Indexed,
    /// Whether there is an index.
    has_index: bool,
    /// The entries that it does not have as they are, if nothing can be written.
    unindexed: Vec<u64>,
}

impl Question<'_> {
    /// The matches in memory as it was, found through the index of memory as it is; for a list by age those after
    /// `from`.
    ///
    /// Entries that have changed since are matched as they were, but ordered by their current content: last, if it no
    /// longer has the words. So are those that the index lacks.
    async fn hits(&self, head: Seq, from: Option<&Position>) -> Result<Hits, Failure> {
        let mut changed = self.unindexed.clone();
        if self.as_of < head {
            changed.extend(entry::changed_after(self.session, self.as_of).await?);
            changed.sort_unstable();
            changed.dedup();
        }
        if !self.has_index {
            return Ok(Hits::of(
                self.query.order,
                (Vec::new(), 0, true),
                self.changed_hits(None, &changed).await?,
            ));
        }
        let is_by_age = is_by_age(self.query.order);
        let best = self.build_lookup().await?;
        let unchanged = match self.wanted().await? {
            None => (Vec::new(), 0, true),
            Some(conditions) if conditions.rest.is_some() => {
                // Only the whole entry tells what is in its context.
                let whole = best.find_all_with_same_ranking(&self.words);
                let mut found = self
                    .fetch_hits(&whole, &Which::Wanted(&conditions, &changed, None), None)
                    .await?;
                let numbers: Vec<u64> = found.iter().map(|hit| hit.place.number()).collect();
                let entries = entry::by_numbers(self.session, &numbers).await?;
                let matches = |entry: &&Entry| {
                    conditions
                        .rest
                        .as_ref()
                        .is_none_or(|rest| rest.matches(entry, self.now))
                };
                let kept: std::collections::HashSet<u64> =
                    entries.iter().filter(matches).map(|entry| entry.handle.0).collect();
                found.retain(|hit| kept.contains(&hit.place.number()));
                let counted = found.len() as u64;
                (found, counted, true)
            }
            Some(conditions) => match (is_by_age, from) {
                (true, Some(Position::After(number))) => {
                    let counted = self.count(&best, &Which::Wanted(&conditions, &changed, None)).await?;
                    let side = if self.query.order == Order::Newest { "<" } else { ">" };
                    let rest = Which::Wanted(&conditions, &changed, Some((side, *number)));
                    (
                        self.fetch_hits(&best, &rest, Some(self.query.limit() + 1)).await?,
                        counted,
                        true,
                    )
                }
                _ => {
                    let filter = Which::Wanted(&conditions, &changed, None);
                    let hits = self.fetch_hits(&best, &filter, Some(FOUND_MAX + 1)).await?;
                    let counted = hits.len() as u64;
                    (hits, counted, best.is_whole)
                }
            },
        };
        // What the conditions cannot express was looked for among all matches.
        let lookup = match unchanged {
            (_, _, true) => best.find_all_with_same_ranking(&self.words),
            _ => best,
        };
        let changed = self.changed_hits(Some(&lookup), &changed).await?;
        Ok(Hits::of(self.query.order, unchanged, changed))
    }

    /// The matches among entries that have changed since, as far as `best` finds them, or that the index lacks.
    async fn changed_hits(&self, best: Option<&IndexLookup>, changed: &[u64]) -> Result<Vec<Hit>, Failure> {
        let found = match best.filter(|_| !changed.is_empty()) {
            Some(best) => {
                let lookup = best.find_all_with_same_ranking(&self.words);
                self.fetch_hits(&lookup, &Which::Among(changed), None).await?
            }
            None => Vec::new(),
        };
        let scores: HashMap<_, _> = found.into_iter().map(|hit| (hit.place.number(), hit.score)).collect();
        let mut hits = Vec::new();
        for chunk in changed.chunks(CHANGED_AT_ONCE) {
            let now = entry::by_numbers(self.session, chunk).await?;
            for before in journal::as_of(self.session, &now, self.as_of).await? {
                if is_searchable(before.kind) && self.matches_in_whole(&before, best).await? {
                    let number = before.handle.0;
                    hits.push(Hit {
                        place: Place::of(self.session.space, number),
                        score: scores.get(&number).copied().unwrap_or_default(),
                        before: Some(Box::new(before)),
                    });
                }
            }
        }
        Ok(hits)
    }

    /// Whether `entry` matches and `best` would find it, by the whole of its text.
    async fn matches_in_whole(&self, entry: &Entry, best: Option<&IndexLookup>) -> Result<bool, Failure> {
        let is_found = |entry: &Entry| best.is_none_or(|best| best.finds(&entry.fields));
        let matches = |entry: &Entry| self.query.matches(entry, self.now) && is_found(entry);
        if entry.fields.body_ref.is_none() || matches(entry) {
            return Ok(matches(entry));
        }
        let mut whole = entry.clone();
        text::fill_in_text(self.session, &mut whole).await?;
        Ok(matches(&whole))
    }

    /// The conditions on an entry apart from its words. `None` if nothing can match.
    async fn wanted(&self) -> Result<Option<Wanted>, Failure> {
        let query = self.query;
        let mut terms = query.context.iter().map(|(path, value)| context_term(path, value));
        let has_terms = query.context.is_empty()
            || terms.all(|term| term.is_some()) && !entry::is_any_found_by(self.session, MORE).await?;
        let page = match query.page {
            Some(page) => match page::number_of(self.session, page).await? {
                Some(page) => Some(page),
                None => return Ok(None),
            },
            None => None,
        };
        let rest = (!has_terms).then(|| EntryQuery {
            text: None,
            ..query.clone()
        });
        Ok(Some(Wanted {
            page,
            terms: required(query, has_terms),
            rest,
        }))
    }

    /// The query that finds the best matches.
    async fn build_lookup(&self) -> Result<IndexLookup, Failure> {
        let last = commit::ends(self.session).await?.entries;
        if IndexLookup::needs_no_counts(last, &self.words, self.query.order) {
            return Ok(IndexLookup::whole(&self.words));
        }
        let mut counted = Vec::new();
        for terms in self.words.words() {
            let of_each = self.document_counts(terms).await?;
            let mut rarest_first = terms.clone();
            rarest_first.sort_by_key(|term| of_each.get(term).copied().unwrap_or(0));
            let count = match rarest_first.split_first() {
                Some((rarest, others)) if !others.is_empty() => self.count_having(rarest, others).await?,
                _ => of_each.values().copied().min().unwrap_or(0),
            };
            counted.push(Counted {
                count: u32::try_from(count).unwrap_or(u32::MAX).min(COMMON),
                is_everywhere: of_each.values().any(|count| *count >= EVERYWHERE),
                terms: terms.clone(),
            });
        }
        Ok(IndexLookup::by_counts(counted, &self.words, self.query.order))
    }

    /// How many entries have the term `rarest` and all `others`, counted up to [`COMMON`].
    async fn count_having(&self, rarest: &str, others: &[String]) -> Result<u64, Failure> {
        let mut statement = Statement::default();
        // The alias is the one that the condition for the others uses.
        statement.push(
            "SELECT count(*) FROM (SELECT 1 FROM word AS entry WHERE entry.space = ? AND entry.word = ?",
            [Value::Int(self.session.space.0), Value::Text(rarest.to_owned())],
        );
        push_expression(&mut statement, &Expression::of(&[others.to_vec()], TextMatch::All));
        statement.push(" LIMIT ?) AS found", [Value::Int(i64::from(COMMON))]);
        let rows = self.session.ask(&statement).await?;
        rows.first().map_or(Ok(0), |row| count(row, 0))
    }

    /// How many entries have each of `terms`.
    async fn document_counts(&self, terms: &[String]) -> Result<HashMap<String, u64>, Failure> {
        let sql = "SELECT wanted.word, (SELECT count(*) FROM word WHERE word.space = $1 AND word.word = wanted.word)
                   FROM unnest($2::text[]) AS wanted (word)";
        let rows = self.session.query(sql, &[&self.session.space.0, &terms]).await?;
        rows.iter().map(|row| Ok((get(row, 0)?, count(row, 1)?))).collect()
    }

    /// The entries that `lookup` asks for, newest first unless the oldest are wanted; at most `limit` of each
    /// expression.
    async fn fetch_hits(
        &self,
        lookup: &IndexLookup,
        filter: &Which<'_>,
        limit: Option<u32>,
    ) -> Result<Vec<Hit>, Failure> {
        let mut numbers: Vec<u64> = Vec::new();
        for expression in &lookup.expressions {
            let expressions = std::iter::once(expression).chain(lookup.only.as_ref());
            let statement = self.select("entry.number", expressions, filter, limit);
            for row in self.session.ask(&statement).await? {
                numbers.push(count(&row, 0)?);
            }
        }
        if lookup.expressions.len() > 1 {
            numbers.sort_unstable_by(|a, b| b.cmp(a));
            numbers.dedup();
        }
        let scores = match &lookup.ranking {
            Ranking::Finder => self.scores(&lookup.expressions, &numbers).await?,
            Ranking::By(expressions) => self.scores(expressions, &numbers).await?,
            Ranking::Nothing => HashMap::new(),
        };
        let hit = |number: u64| Hit {
            place: Place::of(self.session.space, number),
            score: scores.get(&number).copied().unwrap_or_default(),
            before: None,
        };
        Ok(numbers.into_iter().map(hit).collect())
    }

    /// How well each of the entries with `numbers` matches the words of the best of `expressions`: by how often it has
    /// them, how rare they are, and how long it is.
    async fn scores(&self, expressions: &[Expression], numbers: &[u64]) -> Result<HashMap<u64, f64>, Failure> {
        let numbers: Vec<i64> = numbers.iter().map(|number| to_column(*number)).collect();
        let mut words: Vec<String> = Vec::new();
        for expression in expressions {
            words.extend(
                expression
                    .0
                    .iter()
                    .flat_map(|group| group.words.iter().flatten().cloned()),
            );
        }
        words.sort();
        words.dedup();
        if numbers.is_empty() || words.is_empty() {
            return Ok(HashMap::new());
        }
        let counts = self.document_counts(&words).await?;
        let sql = looked_up!("number, length", "entry_text", "number", "bigint");
        let space = self.session.space.0;
        let mut lengths: HashMap<u64, u64> = HashMap::new();
        for row in self.session.query(sql, &[&space, &numbers]).await? {
            lengths.insert(count(&row, 0)?, count(&row, 1)?);
        }
        let average_length = as_real(self.index.length) / as_real(self.index.entries).max(1.0);
        let mut scores: HashMap<u64, f64> = HashMap::new();
        let sql = "SELECT number, word, weight FROM word WHERE space = $1 AND word = ANY($2) AND number = ANY($3)";
        for row in self.session.query(sql, &[&space, &words, &numbers]).await? {
            let (number, weight) = (count(&row, 0)?, get::<f64>(&row, 2)?);
            let having = as_real(counts.get(get::<&str>(&row, 1)?).copied().unwrap_or(0));
            let rarity = ((as_real(self.index.entries) - having + 0.5) / (having + 0.5))
                .ln()
                .max(MIN_WORD_WEIGHT);
            let length = as_real(lengths.get(&number).copied().unwrap_or(0)) / average_length.max(1.0);
            let relevance = weight * (REPETITION + 1.0) / (weight + REPETITION * (1.0 - LENGTH + LENGTH * length));
            *scores.entry(number).or_default() += rarity * relevance;
        }
        Ok(scores)
    }

    /// The number of entries that `lookup` asks for, counted until there are more than [`FOUND_MAX`].
    async fn count(&self, lookup: &IndexLookup, filter: &Which<'_>) -> Result<u64, Failure> {
        let mut counted = 0;
        for expression in &lookup.expressions {
            let statement = self.select("1", std::iter::once(expression), filter, Some(FOUND_MAX + 1));
            counted += self.session.ask(&statement).await?.len() as u64;
        }
        Ok(counted)
    }

    fn select<'e>(
        &self,
        columns: &str,
        expressions: impl Iterator<Item = &'e Expression>,
        filter: &Which<'_>,
        limit: Option<u32>,
    ) -> Statement {
        let mut statement = Statement::default();
        statement.push(
            &format!("SELECT {columns} FROM entry WHERE entry.space = ?"),
            [Value::Int(self.session.space.0)],
        );
        for expression in expressions {
            push_expression(&mut statement, expression);
        }
        match filter {
            Which::Wanted(conditions, changed, side) => {
                if let Some(page) = conditions.page {
                    statement.push(" AND entry.page = ?", [Value::count(page)]);
                }
                push_wanted(
                    &mut statement,
                    self.query,
                    self.as_of,
                    self.now,
                    &conditions.terms,
                    Has::Joined,
                );
                push_without(&mut statement, changed);
                if let Some((side, number)) = side {
                    statement.push(&format!(" AND entry.number {side} ?"), [Value::count(*number)]);
                }
            }
            Which::Among(numbers) => {
                let numbers = numbers.iter().map(|number| to_column(*number)).collect();
                statement.push(" AND entry.number = ANY(?)", [Value::Ints(numbers)]);
            }
        }
        if let Some(limit) = limit {
            let direction = if self.query.order == Order::Oldest {
                "ASC"
            } else {
                "DESC"
            };
            statement.push(
                &format!(" ORDER BY entry.number {direction} LIMIT ?"),
                [Value::Int(i64::from(limit))],
            );
        }
        statement
    }

    /// Sorts `hits`, after reading their entries if the order needs them.
    async fn sort(&self, hits: &mut [Hit]) -> Result<(), Failure> {
        if needs_entries(self.query.order) {
            let numbers: Vec<u64> = hits.iter().map(|hit| hit.place.number()).collect();
            let entries = entry::by_numbers(self.session, &numbers).await?;
            let mut now: HashMap<_, _> = entries.into_iter().map(|entry| (entry.handle.0, entry)).collect();
            for hit in hits.iter_mut().filter(|hit| hit.before.is_none()) {
                hit.before = now.remove(&hit.place.number()).map(Box::new);
            }
        }
        sort(self.query, hits);
        Ok(())
    }
}

/// The condition that an entry has the words of `expression`.
fn push_expression(statement: &mut Statement, expression: &Expression) {
    const HAS: &str =
        "EXISTS (SELECT 1 FROM word WHERE word.space = entry.space AND word.number = entry.number AND word.word";
    for group in &expression.0 {
        match group.how {
            TextMatch::All => {
                for term in group.words.iter().flatten() {
                    statement.push(&format!(" AND {HAS} = ?)"), [Value::Text(term.clone())]);
                }
            }
            TextMatch::Any if group.words.iter().all(|terms| terms.len() == 1) => {
                let terms = group.words.iter().flatten().cloned().collect();
                statement.push(&format!(" AND {HAS} = ANY(?))"), [Value::Texts(terms)]);
            }
            TextMatch::Any => {
                statement.push(" AND (false", []);
                for terms in &group.words {
                    statement.push(" OR (true", []);
                    for term in terms {
                        statement.push(&format!(" AND {HAS} = ?)"), [Value::Text(term.clone())]);
                    }
                    statement.push(")", []);
                }
                statement.push(")", []);
            }
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of entries and words are far below where that begins"
)]
fn as_real(count: u64) -> f64 {
    count as f64
}
