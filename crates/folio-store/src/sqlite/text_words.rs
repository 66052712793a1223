//! How words are put to the index, which costs as much as entries have them.

use folio_memory::{FOUND_MAX, Order, TextMatch, TextQuery};
use rusqlite::Connection;

use super::error::Failure;

/// How many entries may have a word before it is left out of a question for any of several words, some of which are rare:
/// it would cost most and say least.
const COMMON: u32 = 20_000;

/// What the index is asked. An entry that several expressions find has the best of their scores.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) expressions: Vec<String>,
    /// Whether that finds all there is.
    pub(super) is_whole: bool,
}

impl Asked {
    /// What finds everything with `words`.
    pub(super) fn whole(words: &TextQuery) -> Self {
        let between = match words.how() {
            TextMatch::All => " AND ",
            TextMatch::Any => " OR ",
        };
        Self {
            expressions: vec![joined(words.words(), between)],
            is_whole: true,
        }
    }

    /// What finds the best of what has `words` in `order`.
    ///
    /// Of what has any of several words, so much may be found that the newest are not the best: then those with the rarest
    /// words are looked for, and the other words only tell which of them are better.
    pub(super) fn best(conn: &Connection, table: &str, words: &TextQuery, order: Order) -> Result<Self, Failure> {
        let by_age = matches!(order, Order::Newest | Order::Oldest);
        if by_age || words.how() == TextMatch::All || words.words().len() < 2 {
            return Ok(Self::whole(words));
        }
        let sql = format!("SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ?1 LIMIT {COMMON})");
        let mut statement = conn.prepare_cached(&sql)?;
        let mut counted = Vec::new();
        for word in words.words() {
            let count: u32 = statement.query_row([joined(std::slice::from_ref(word), "")], |row| row.get(0))?;
            counted.push((count, word.clone()));
        }
        Ok(Self::of(counted, words))
    }

    /// The same, given how many entries have each word, counted up to [`COMMON`].
    fn of(mut counted: Vec<(u32, Vec<String>)>, words: &TextQuery) -> Self {
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

    use super::{Asked, COMMON};

    fn asked(counts: &[(u32, &str)]) -> (Vec<String>, bool) {
        let words: Vec<_> = counts.iter().map(|(_, word)| *word).collect();
        let query = TextQuery::of(&words.join(" "), TextMatch::Any);
        let counted = counts.iter().map(|(count, word)| (*count, vec![(*word).to_owned()]));
        let asked = Asked::of(counted.collect(), &query);
        (asked.expressions, asked.is_whole)
    }

    #[test]
    fn what_few_have_is_asked_as_it_is() {
        let (expressions, is_whole) = asked(&[(700, "rain"), (0, "snow"), (1_300, "wind")]);
        assert_eq!(expressions, [r#"("rain") OR ("snow") OR ("wind")"#]);
        assert!(is_whole);
    }

    #[test]
    fn rare_words_find_and_the_others_tell_which_are_better() {
        let (expressions, is_whole) = asked(&[(9_000, "rain"), (COMMON, "snow"), (30, "wind"), (100, "hail")]);
        let best = r#"(("wind") OR ("hail")) AND (("rain"))"#;
        assert_eq!(expressions, [best, r#"("wind") OR ("hail")"#]);
        assert!(!is_whole);
    }

    #[test]
    fn of_common_words_the_rarest_finds() {
        let (expressions, is_whole) = asked(&[(9_000, "rain"), (COMMON, "snow"), (8_000, "wind")]);
        assert_eq!(expressions, [r#"(("wind")) AND (("rain"))"#, r#"("wind")"#]);
        assert!(!is_whole);
    }
}
