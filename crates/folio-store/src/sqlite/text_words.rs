//! How words are put to the index, which costs as much as entries have them.

use folio_memory::{FOUND_MAX, Order, TextMatch, TextQuery};
use rusqlite::Connection;

use super::error::Failure;

/// How many entries may have a word before it is left out of the reckoning if others are rare: it would cost most and say
/// least.
const COMMON: u32 = 20_000;

/// What the index is asked. An entry that several expressions find has the best of their scores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) expressions: Vec<String>,
    /// What has to hold as well, without being reckoned with. Few entries are found by it.
    pub(super) only: Option<String>,
    /// Whether that finds all there is.
    pub(super) is_whole: bool,
}

/// A word, as the terms that make it, and how many entries have it, counted up to [`COMMON`].
type Counted = (u32, Vec<String>);

impl Asked {
    /// What finds everything with `words`.
    pub(super) fn whole(words: &TextQuery) -> Self {
        let between = match words.how() {
            TextMatch::All => " AND ",
            TextMatch::Any => " OR ",
        };
        Self {
            expressions: vec![joined(words.words(), between)],
            only: None,
            is_whole: true,
        }
    }

    /// What finds the best of what has `words` in `order`.
    ///
    /// Of what has any of several words, so much may be found that the newest are not the best: then those with the rarest
    /// words are looked for, and the other words only tell which of them are better. Of what has all of them, a word that
    /// very many entries have tells nothing: everything that is found has it.
    pub(super) fn best(conn: &Connection, table: &str, words: &TextQuery, order: Order) -> Result<Self, Failure> {
        let by_age = matches!(order, Order::Newest | Order::Oldest);
        if by_age || words.words().len() < 2 {
            return Ok(Self::whole(words));
        }
        let sql = format!("SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ?1 LIMIT {COMMON})");
        let mut statement = conn.prepare_cached(&sql)?;
        let mut counted = Vec::new();
        for word in words.words() {
            let count = statement.query_row([joined(std::slice::from_ref(word), "")], |row| row.get(0))?;
            counted.push((count, word.clone()));
        }
        Ok(match words.how() {
            TextMatch::All => Self::all(&counted, words),
            TextMatch::Any => Self::any(counted, words),
        })
    }

    fn all(counted: &[Counted], words: &TextQuery) -> Self {
        let whole = Self::whole(words);
        let is_rare = counted.iter().any(|(count, _)| *count <= FOUND_MAX);
        let mut telling = counted.to_vec();
        telling.retain(|(count, _)| *count < COMMON);
        if !is_rare || telling.len() == counted.len() {
            return whole;
        }
        let telling: Vec<_> = telling.into_iter().map(|(_, word)| word).collect();
        Self {
            expressions: vec![joined(&telling, " AND ")],
            only: whole.expressions.into_iter().next(),
            is_whole: true,
        }
    }

    fn any(mut counted: Vec<Counted>, words: &TextQuery) -> Self {
        counted.retain(|(count, _)| *count > 0);
        counted.sort();
        let (mut rare, mut others, mut sum) = (Vec::new(), Vec::new(), 0);
        for (count, word) in counted {
            sum += count;
            if rare.is_empty() || sum <= FOUND_MAX {
                rare.push(word);
            } else if count < COMMON {
                others.push(word);
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
            is_whole: false,
        }
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

    use super::{Asked, COMMON, Counted};

    fn query(counts: &[(u32, &str)], how: TextMatch) -> (Vec<Counted>, TextQuery) {
        let words: Vec<_> = counts.iter().map(|(_, word)| *word).collect();
        let counted = counts.iter().map(|(count, word)| (*count, vec![(*word).to_owned()]));
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
}
