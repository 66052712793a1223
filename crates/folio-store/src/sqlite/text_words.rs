//! Counts in the index of words how many entries have a word.

use folio_memory::{Order, TextMatch, TextQuery};
use rusqlite::Connection;

use super::error::Failure;
use super::place::{Place, SpaceId};
use super::{entry, text};
use crate::words::{COMMON, Counted, EVERYWHERE, Expression, IndexLookup};

/// How many samples are taken to estimate how many entries have a term, and how many entries each sample covers.
const SAMPLES: u64 = 32;
const SAMPLE: u64 = 128;

/// The query that finds the best matches of `words` in `order`.
pub(super) fn build_lookup(
    conn: &Connection,
    space: SpaceId,
    words: &TextQuery,
    order: Order,
) -> Result<IndexLookup, Failure> {
    let last = entry::last_number(conn, space)?;
    IndexLookup::best(last, words, order, || {
        let index = Index { conn, space, last };
        words.words().iter().map(|word| index.counted(word)).collect()
    })
}

/// The index of a space whose newest entry is `last`.
struct Index<'c> {
    conn: &'c Connection,
    space: SpaceId,
    last: u64,
}

impl Index<'_> {
    fn counted(&self, word: &[String]) -> Result<Counted, Failure> {
        let count = self.count(word)?;
        let mut is_everywhere = false;
        for term in word.iter().filter(|_| self.last >= EVERYWHERE) {
            let term = std::slice::from_ref(term);
            let count = if word.len() == 1 { count } else { self.count(term)? };
            is_everywhere |= count == COMMON && self.estimate(term)? >= EVERYWHERE;
        }
        Ok(Counted {
            count,
            is_everywhere,
            terms: word.to_vec(),
        })
    }

    /// How many entries have all of `terms`, counted up to [`COMMON`].
    fn count(&self, terms: &[String]) -> Result<u32, Failure> {
        let table = text::table(self.space);
        let sql = format!("SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ?1 LIMIT {COMMON})");
        let mut statement = self.conn.prepare_cached(&sql)?;
        Ok(statement.query_row([expression(terms)], |row| row.get(0))?)
    }

    /// An estimate from samples of how many entries have all of `terms`.
    fn estimate(&self, terms: &[String]) -> Result<u64, Failure> {
        let table = text::table(self.space);
        let sql = format!("SELECT count(*) FROM {table} WHERE {table} MATCH ?1 AND rowid BETWEEN ?2 AND ?3");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let expression = expression(terms);
        let mut seen: u64 = 0;
        for sample in 0..SAMPLES {
            let from = 1 + self.last / SAMPLES * sample;
            let (from, to) = (Place::of(self.space, from), Place::of(self.space, from + SAMPLE - 1));
            seen += statement.query_row((&expression, from, to), |row| row.get::<_, u32>(0).map(u64::from))?;
        }
        Ok(seen * self.last / (SAMPLES * SAMPLE))
    }
}

/// An expression that matches everything with all of `terms`.
fn expression(terms: &[String]) -> String {
    Expression::of(&[terms.to_vec()], TextMatch::All).to_string()
}
