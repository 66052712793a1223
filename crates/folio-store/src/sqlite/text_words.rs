//! How words are put to the index, which costs as much as entries have them.

use folio_memory::{FOUND_MAX, Order, TextMatch, TextQuery};
use rusqlite::Connection;

use super::error::Failure;
use super::place::{Place, SpaceId};
use super::{entry, text};

/// How many entries may have a word before it is left out of the reckoning if others are rare: it would cost most and say
/// least.
const COMMON: u32 = 20_000;
/// How many entries may have a term before nothing is ranked by it: FTS5 counts them all before it ranks the first, which
/// takes 30 to 40 ns each.
const EVERYWHERE: u64 = 250_000;
/// At how many places it is looked how many entries have a term, and at how many entries each time.
const SAMPLES: u64 = 32;
const SAMPLE: u64 = 128;

/// What the index is asked. An entry that several expressions find has the best of their scores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) expressions: Vec<String>,
    /// What has to hold as well, without being reckoned with. Few entries are found by it.
    pub(super) only: Option<String>,
    /// What tells how well an entry fits.
    pub(super) ranking: Ranking,
    /// Whether that finds all there is.
    pub(super) is_whole: bool,
}

/// What tells how well an entry fits that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ranking {
    /// What found it.
    Finder,
    /// This expression; an entry that it does not find fits worst.
    By(String),
    /// Nothing: all fit alike.
    Nothing,
}

/// A word that is asked for. The rarer come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Counted {
    /// How many entries have it, counted up to [`COMMON`].
    count: u32,
    /// Whether one of its terms is one of [`EVERYWHERE`].
    is_everywhere: bool,
    terms: Vec<String>,
}

impl Asked {
    /// What finds everything with `words`.
    pub(super) fn whole(words: &TextQuery) -> Self {
        Self {
            expressions: vec![joined(words.words(), between(words.how()))],
            only: None,
            ranking: Ranking::Finder,
            is_whole: true,
        }
    }

    /// What finds everything with `words`, ranked as this is.
    pub(super) fn wholly(&self, words: &TextQuery) -> Self {
        let whole = Self::whole(words);
        let ranking = match &self.ranking {
            Ranking::Finder if self.expressions != whole.expressions => Ranking::By(self.expressions.join(" OR ")),
            ranking => ranking.clone(),
        };
        Self { ranking, ..whole }
    }

    /// What finds the best of what has `words` in `order`.
    ///
    /// Of what has any of several words, so much may be found that the newest are not the best: then those with the rarest
    /// words are looked for, and the other words only tell which of them are better. Of what has all of them, a word that
    /// very many entries have tells nothing: everything that is found has it.
    ///
    /// By words that hundreds of thousands have nothing is ranked.
    pub(super) fn best(conn: &Connection, space: SpaceId, words: &TextQuery, order: Order) -> Result<Self, Failure> {
        let by_age = matches!(order, Order::Newest | Order::Oldest);
        let last = entry::last_number(conn, space)?;
        if last < EVERYWHERE && (by_age || words.words().len() < 2) {
            return Ok(Self::whole(words));
        }
        let index = Index { conn, space, last };
        let counted = words.words().iter().map(|word| index.counted(word));
        let counted = counted.collect::<Result<Vec<_>, _>>()?;
        Ok(match words.how() {
            _ if by_age || counted.len() < 2 => Self::by_telling(&counted, words),
            TextMatch::All => Self::all(&counted, words),
            TextMatch::Any => Self::any(counted, words),
        })
    }

    /// What finds everything, ranked by the words that are not everywhere.
    fn by_telling(counted: &[Counted], words: &TextQuery) -> Self {
        let telling: Vec<_> = counted.iter().filter(|word| !word.is_everywhere).cloned().collect();
        let ranking = match telling.len() {
            all if all == counted.len() => Ranking::Finder,
            0 => Ranking::Nothing,
            _ => Ranking::By(joined(&terms(telling), between(words.how()))),
        };
        Self {
            ranking,
            ..Self::whole(words)
        }
    }

    fn all(counted: &[Counted], words: &TextQuery) -> Self {
        let is_rare = counted.iter().any(|word| word.count <= FOUND_MAX);
        let telling: Vec<_> = counted.iter().filter(|word| word.count < COMMON).cloned().collect();
        if !is_rare || telling.len() == counted.len() {
            return Self::by_telling(counted, words);
        }
        Self {
            expressions: vec![joined(&terms(telling), " AND ")],
            only: Self::whole(words).expressions.into_iter().next(),
            ranking: Ranking::Finder,
            is_whole: true,
        }
    }

    fn any(mut counted: Vec<Counted>, words: &TextQuery) -> Self {
        counted.retain(|word| word.count > 0);
        counted.sort();
        let is_mute = counted.first().is_some_and(|rarest| rarest.is_everywhere);
        let (mut rare, mut others, mut sum) = (Vec::new(), Vec::new(), 0);
        for word in counted {
            sum += word.count;
            if rare.is_empty() || sum <= FOUND_MAX {
                rare.push(word.terms);
            } else if word.count < COMMON {
                others.push(word.terms);
            }
        }
        if sum <= FOUND_MAX {
            return Self::whole(words);
        }
        let rare = joined(&rare, " OR ");
        let mut expressions = Vec::new();
        if !others.is_empty() {
            expressions.push(format!("({rare}) AND ({})", joined(&others, " OR ")));
        }
        expressions.push(rare);
        Self {
            expressions,
            only: None,
            ranking: if is_mute { Ranking::Nothing } else { Ranking::Finder },
            is_whole: false,
        }
    }
}

/// The index of a space in which an entry `last` is the newest.
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

    /// How many entries have all of `terms`, up to [`COMMON`].
    fn count(&self, terms: &[String]) -> Result<u32, Failure> {
        let table = text::table(self.space);
        let sql = format!("SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ?1 LIMIT {COMMON})");
        let mut statement = self.conn.prepare_cached(&sql)?;
        Ok(statement.query_row([joined(&[terms.to_vec()], "")], |row| row.get(0))?)
    }

    /// About how many entries have all of `terms`, from looks here and there.
    fn estimate(&self, terms: &[String]) -> Result<u64, Failure> {
        let table = text::table(self.space);
        let sql = format!("SELECT count(*) FROM {table} WHERE {table} MATCH ?1 AND rowid BETWEEN ?2 AND ?3");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let expression = joined(&[terms.to_vec()], "");
        let mut seen: u64 = 0;
        for sample in 0..SAMPLES {
            let from = 1 + self.last / SAMPLES * sample;
            let (from, to) = (Place::of(self.space, from), Place::of(self.space, from + SAMPLE - 1));
            seen += statement.query_row((&expression, from, to), |row| row.get::<_, u32>(0).map(u64::from))?;
        }
        Ok(seen * self.last / (SAMPLES * SAMPLE))
    }
}

fn terms(words: Vec<Counted>) -> Vec<Vec<String>> {
    words.into_iter().map(|word| word.terms).collect()
}

fn between(how: TextMatch) -> &'static str {
    match how {
        TextMatch::All => " AND ",
        TextMatch::Any => " OR ",
    }
}

/// `words` as FTS5 reads them. Terms have no signs, so quotes keep every one of them from being a word of its language.
fn joined(words: &[Vec<String>], between: &str) -> String {
    let word = |terms: &Vec<String>| {
        let terms: Vec<_> = terms.iter().map(|term| format!("\"{term}\"")).collect();
        format!("({})", terms.join(" AND "))
    };
    words.iter().map(word).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use folio_memory::{TextMatch, TextQuery};

    use super::{Asked, COMMON, Counted, EVERYWHERE, Ranking};

    fn query(counts: &[(u32, &str)], how: TextMatch) -> (Vec<Counted>, TextQuery) {
        let words: Vec<_> = counts.iter().map(|(_, word)| *word).collect();
        let counted = counts.iter().map(|(count, word)| Counted {
            count: (*count).min(COMMON),
            is_everywhere: u64::from(*count) >= EVERYWHERE,
            terms: vec![(*word).to_owned()],
        });
        (counted.collect(), TextQuery::of(&words.join(" "), how))
    }

    fn any(counts: &[(u32, &str)]) -> (Vec<String>, bool) {
        let (counted, words) = query(counts, TextMatch::Any);
        let asked = Asked::any(counted, &words);
        (asked.expressions, asked.is_whole)
    }

    #[test]
    fn what_few_have_is_asked_as_it_is() {
        let (expressions, is_whole) = any(&[(300, "rain"), (0, "snow"), (700, "wind")]);
        assert_eq!(expressions, [r#"("rain") OR ("snow") OR ("wind")"#]);
        assert!(is_whole);
    }

    #[test]
    fn rare_words_find_and_the_others_tell_which_are_better() {
        let (expressions, is_whole) = any(&[(9_000, "rain"), (COMMON, "snow"), (30, "wind"), (100, "hail")]);
        let best = r#"(("wind") OR ("hail")) AND (("rain"))"#;
        assert_eq!(expressions, [best, r#"("wind") OR ("hail")"#]);
        assert!(!is_whole);
    }

    #[test]
    fn of_common_words_the_rarest_finds() {
        let (expressions, is_whole) = any(&[(9_000, "rain"), (COMMON, "snow"), (8_000, "wind")]);
        assert_eq!(expressions, [r#"(("wind")) AND (("rain"))"#, r#"("wind")"#]);
        assert!(!is_whole);
    }

    #[test]
    fn a_word_that_all_have_is_not_reckoned_with() {
        let (counted, words) = query(&[(COMMON, "case"), (3, "rain"), (5_000, "wind")], TextMatch::All);
        let asked = Asked::all(&counted, &words);
        assert_eq!(asked.expressions, [r#"("rain") AND ("wind")"#]);
        assert_eq!(asked.only.as_deref(), Some(r#"("case") AND ("rain") AND ("wind")"#));
        assert!(asked.is_whole);
        for counts in [[(COMMON, "case"), (5_000, "rain")], [(19_999, "case"), (3, "rain")]] {
            let (counted, words) = query(&counts, TextMatch::All);
            assert_eq!(Asked::all(&counted, &words), Asked::whole(&words));
        }
    }

    #[test]
    fn by_what_is_everywhere_nothing_is_ranked() {
        const MANY: u32 = 400_000;
        let ranking = |counts: &[(u32, &str)], how| {
            let (counted, words) = query(counts, how);
            match how {
                TextMatch::All => Asked::all(&counted, &words).ranking,
                TextMatch::Any => Asked::any(counted, &words).ranking,
            }
        };
        let of_rain = Ranking::By(r#"("rain")"#.to_owned());
        assert_eq!(ranking(&[(MANY, "case")], TextMatch::All), Ranking::Nothing);
        assert_eq!(ranking(&[(MANY, "case"), (5_000, "rain")], TextMatch::All), of_rain);
        assert_eq!(
            ranking(&[(MANY, "case"), (MANY, "rain")], TextMatch::All),
            Ranking::Nothing
        );
        assert_eq!(ranking(&[(MANY, "case"), (3, "rain")], TextMatch::All), Ranking::Finder);
        assert_eq!(
            ranking(&[(MANY, "case"), (90_000, "rain")], TextMatch::Any),
            Ranking::Finder
        );
        assert_eq!(
            ranking(&[(MANY, "case"), (MANY, "rain")], TextMatch::Any),
            Ranking::Nothing
        );
        let (counted, words) = query(&[(MANY, "case"), (5_000, "rain")], TextMatch::All);
        assert_eq!(
            Asked::by_telling(&counted, &words).expressions,
            Asked::whole(&words).expressions
        );
    }
}
