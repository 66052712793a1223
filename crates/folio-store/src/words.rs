//! How words are looked up in an index, which costs in proportion to the number of entries that have them.

use std::collections::HashSet;
use std::fmt;

use folio_memory::text::EntryTerms;
use folio_memory::{EntryFields, FOUND_MAX, Order, TextMatch, TextQuery};

/// How many entries may have a word before it does not count if another word is rare: it would cost most and tell
/// least.
pub(crate) const COMMON: u32 = 20_000;
/// How many entries may have a term before it is not used for ranking: FTS5 counts them all before it ranks the first,
/// which takes 30 to 40 ns each.
pub(crate) const EVERYWHERE: u64 = 250_000;

/// A query to the index. An entry that several expressions find gets the best of their scores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexLookup {
    pub(crate) expressions: Vec<Expression>,
    /// An expression that has to match as well, without counting in the score. Few entries match it.
    pub(crate) only: Option<Expression>,
    /// What determines how well an entry matches.
    pub(crate) ranking: Ranking,
    /// Whether the query finds all matches.
    pub(crate) is_whole: bool,
    /// The words of which an entry must have one to be found, if the query does not find all matches: those that are
    /// rare, and those that no entry has, as the index counts them. What the index counts otherwise, since an entry was
    /// changed or is new, has them too.
    pub(crate) telling: Option<Expression>,
}

/// What determines how well a found entry matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ranking {
    /// The expression that found it.
    Finder,
    /// These expressions; an entry that none of them finds ranks last.
    By(Vec<Expression>),
    /// Nothing: all match equally well.
    Nothing,
}

/// A word of a query. Rarer words come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Counted {
    /// How many entries have the word, counted up to [`COMMON`].
    pub(crate) count: u32,
    /// Whether one of the word's terms occurs in [`EVERYWHERE`] entries.
    pub(crate) is_everywhere: bool,
    pub(crate) terms: Vec<String>,
}

impl IndexLookup {
    /// A query that finds everything with `words`.
    pub(crate) fn whole(words: &TextQuery) -> Self {
        Self {
            expressions: vec![Expression::of(words.words(), words.how())],
            only: None,
            ranking: Ranking::Finder,
            is_whole: true,
            telling: None,
        }
    }

    /// A query that finds everything with `words`, ranked as in this one.
    pub(crate) fn find_all_with_same_ranking(&self, words: &TextQuery) -> Self {
        let whole = Self::whole(words);
        let ranking = match &self.ranking {
            Ranking::Finder if self.expressions != whole.expressions => Ranking::By(self.expressions.clone()),
            ranking => ranking.clone(),
        };
        Self { ranking, ..whole }
    }

    /// A query that finds the best matches of `words` in `order`.
    ///
    /// For a search for any of several words, so many entries may match that the newest of them are not the best: then
    /// the rarest words are searched for, and the other words only affect the ranking. For a search for all words, a
    /// word that very many entries have tells nothing, because everything that is found has it.
    ///
    /// Words that hundreds of thousands of entries have are not used for ranking.
    ///
    /// `counted` returns how many entries have each of the words; `last` is the number of the newest entry.
    pub(crate) fn best<E>(
        last: u64,
        words: &TextQuery,
        order: Order,
        counted: impl FnOnce() -> Result<Vec<Counted>, E>,
    ) -> Result<Self, E> {
        if Self::needs_no_counts(last, words, order) {
            return Ok(Self::whole(words));
        }
        Ok(Self::by_counts(counted()?, words, order))
    }

    /// Whether the query would find an entry with these fields, for one that matches the words and that the index has
    /// otherwise, or not yet.
    pub(crate) fn finds(&self, fields: &EntryFields) -> bool {
        let Some(telling) = &self.telling else { return true };
        let terms = EntryTerms::of(fields);
        let terms: HashSet<&str> = terms.iter().collect();
        telling.0.iter().all(|group| group.matches(&terms))
    }

    /// Whether the words can be searched for as they are, however many entries have them.
    pub(crate) fn needs_no_counts(last: u64, words: &TextQuery, order: Order) -> bool {
        let by_age = matches!(order, Order::Newest | Order::Oldest);
        last < EVERYWHERE && (by_age || words.words().len() < 2)
    }

    /// A query that finds the best matches of words that were counted.
    pub(crate) fn by_counts(counted: Vec<Counted>, words: &TextQuery, order: Order) -> Self {
        let by_age = matches!(order, Order::Newest | Order::Oldest);
        match words.how() {
            _ if by_age || counted.len() < 2 => Self::by_telling(&counted, words),
            TextMatch::All => Self::all(&counted, words),
            TextMatch::Any => Self::any(counted, words),
        }
    }

    /// A query that finds everything, ranked by the words that do not occur everywhere.
    fn by_telling(counted: &[Counted], words: &TextQuery) -> Self {
        let telling: Vec<_> = counted.iter().filter(|word| !word.is_everywhere).cloned().collect();
        let ranking = match telling.len() {
            all if all == counted.len() => Ranking::Finder,
            0 => Ranking::Nothing,
            _ => Ranking::By(vec![Expression::of(&terms(telling), words.how())]),
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
            expressions: vec![Expression::of(&terms(telling), TextMatch::All)],
            only: Self::whole(words).expressions.into_iter().next(),
            ..Self::whole(words)
        }
    }

    fn any(counted: Vec<Counted>, words: &TextQuery) -> Self {
        let (mut counted, unknown): (Vec<_>, Vec<_>) = counted.into_iter().partition(|word| word.count > 0);
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
        let unknown = unknown.into_iter().map(|word| word.terms);
        let telling: Vec<_> = rare.iter().cloned().chain(unknown).collect();
        let rare = Expression::of(&rare, TextMatch::Any);
        let mut expressions = Vec::new();
        if !others.is_empty() {
            expressions.push(rare.clone().and(Expression::of(&others, TextMatch::Any)));
        }
        expressions.push(rare);
        Self {
            expressions,
            only: None,
            ranking: if is_mute { Ranking::Nothing } else { Ranking::Finder },
            is_whole: false,
            telling: Some(Expression::of(&telling, TextMatch::Any)),
        }
    }
}

/// Which words an entry must have: all or any of each group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expression(pub(crate) Vec<Group>);

/// Words of which an entry must have all, or any. A word may consist of several terms, all of which are required.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) words: Vec<Vec<String>>,
    pub(crate) how: TextMatch,
}

impl Group {
    fn matches(&self, terms: &HashSet<&str>) -> bool {
        let mut words = self.words.iter();
        let has = |word: &Vec<String>| word.iter().all(|term| terms.contains(term.as_str()));
        match self.how {
            TextMatch::All => words.all(has),
            TextMatch::Any => words.any(has),
        }
    }
}

impl Expression {
    /// All of `words`, or any.
    pub(crate) fn of(words: &[Vec<String>], text_match: TextMatch) -> Self {
        let words = words.to_vec();
        Self(vec![Group { words, how: text_match }])
    }

    fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

/// The expression in the syntax of FTS5. Terms contain no punctuation, so quotes keep each of them from being read as
/// an operator.
impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = |group: &Group| {
            let word = |terms: &Vec<String>| {
                let terms: Vec<_> = terms.iter().map(|term| format!("\"{term}\"")).collect();
                format!("({})", terms.join(" AND "))
            };
            let between = match group.how {
                TextMatch::All => " AND ",
                TextMatch::Any => " OR ",
            };
            group.words.iter().map(word).collect::<Vec<_>>().join(between)
        };
        match self.0.as_slice() {
            [one] => f.write_str(&group(one)),
            several => {
                let groups: Vec<_> = several.iter().map(|one| format!("({})", group(one))).collect();
                f.write_str(&groups.join(" AND "))
            }
        }
    }
}

fn terms(words: Vec<Counted>) -> Vec<Vec<String>> {
    words.into_iter().map(|word| word.terms).collect()
}

#[cfg(test)]
mod tests {
    use folio_memory::{EntryFields, EntryKind, Owner, TextMatch, TextQuery, Trust};

    use super::{COMMON, Counted, EVERYWHERE, Expression, IndexLookup, Ranking};

    fn query(counts: &[(u32, &str)], how: TextMatch) -> (Vec<Counted>, TextQuery) {
        let words: Vec<_> = counts.iter().map(|(_, word)| *word).collect();
        let counted = counts.iter().map(|(count, word)| Counted {
            count: (*count).min(COMMON),
            is_everywhere: u64::from(*count) >= EVERYWHERE,
            terms: vec![(*word).to_owned()],
        });
        (counted.collect(), TextQuery::of(&words.join(" "), how))
    }

    fn written(expressions: &[Expression]) -> Vec<String> {
        expressions.iter().map(Expression::to_string).collect()
    }

    fn any(counts: &[(u32, &str)]) -> (Vec<String>, bool) {
        let (counted, words) = query(counts, TextMatch::Any);
        let asked = IndexLookup::any(counted, &words);
        (written(&asked.expressions), asked.is_whole)
    }

    #[test]
    fn query_of_rare_words_is_sent_unchanged() {
        let (expressions, is_whole) = any(&[(300, "rain"), (0, "snow"), (700, "wind")]);
        assert_eq!(expressions, [r#"("rain") OR ("snow") OR ("wind")"#]);
        assert!(is_whole);
    }

    #[test]
    fn entry_that_the_index_lacks_is_found_by_rare_words_and_by_words_that_no_other_has() {
        let (counted, words) = query(&[(9_000, "rain"), (0, "snow"), (30, "wind")], TextMatch::Any);
        let asked = IndexLookup::any(counted, &words);
        let is_found = |title: &str| {
            let mut fields = EntryFields::new(EntryKind::Note, Owner::user(), Trust::User);
            title.clone_into(&mut fields.title);
            asked.finds(&fields)
        };
        assert!(is_found("Snow at last") && is_found("Rain and wind"));
        assert!(!is_found("Rain again"), "the newest thousand with it tell nothing");
    }

    #[test]
    fn rare_words_select_matches_and_common_words_rank_them() {
        let (expressions, is_whole) = any(&[(9_000, "rain"), (COMMON, "snow"), (30, "wind"), (100, "hail")]);
        let best = r#"(("wind") OR ("hail")) AND (("rain"))"#;
        assert_eq!(expressions, [best, r#"("wind") OR ("hail")"#]);
        assert!(!is_whole);
    }

    #[test]
    fn rarest_word_selects_matches_if_all_words_are_common() {
        let (expressions, is_whole) = any(&[(9_000, "rain"), (COMMON, "snow"), (8_000, "wind")]);
        assert_eq!(expressions, [r#"(("wind")) AND (("rain"))"#, r#"("wind")"#]);
        assert!(!is_whole);
    }

    #[test]
    fn much_more_common_word_is_required_but_not_ranked_by() {
        let (counted, words) = query(&[(COMMON, "case"), (3, "rain"), (5_000, "wind")], TextMatch::All);
        let asked = IndexLookup::all(&counted, &words);
        assert_eq!(written(&asked.expressions), [r#"("rain") AND ("wind")"#]);
        assert_eq!(
            asked.only.map(|only| only.to_string()).as_deref(),
            Some(r#"("case") AND ("rain") AND ("wind")"#)
        );
        assert!(asked.is_whole);
        for counts in [[(COMMON, "case"), (5_000, "rain")], [(19_999, "case"), (3, "rain")]] {
            let (counted, words) = query(&counts, TextMatch::All);
            assert_eq!(IndexLookup::all(&counted, &words), IndexLookup::whole(&words));
        }
    }

    #[test]
    fn words_found_in_most_entries_are_not_used_for_ranking() {
        const MANY: u32 = 400_000;
        let ranking = |counts: &[(u32, &str)], how| {
            let (counted, words) = query(counts, how);
            match how {
                TextMatch::All => IndexLookup::all(&counted, &words).ranking,
                TextMatch::Any => IndexLookup::any(counted, &words).ranking,
            }
        };
        let of_rain = Ranking::By(vec![Expression::of(&[vec!["rain".to_owned()]], TextMatch::All)]);
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
            IndexLookup::by_telling(&counted, &words).expressions,
            IndexLookup::whole(&words).expressions
        );
    }
}
