//! How similar two texts are by their words: whether a plan only repeats what it is a plan for (E9.3).

use std::collections::BTreeSet;

use folio_memory::text::is_of_spaceless;

/// The similarity from 0, no word in common, to 1, the same words (Dice's coefficient). Two texts without words are not
/// similar.
pub(super) fn likeness(one: &str, other: &str) -> f64 {
    let (one, other) = (words(one), words(other));
    let shared = one.intersection(&other).count();
    let all = one.len() + other.len();
    if all == 0 {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts of words are small")]
    {
        2.0 * shared as f64 / all as f64
    }
}

/// The words of `text`. In a script without spaces, every two adjacent characters count as a word.
fn words(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for word in text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        let chars: Vec<char> = word.chars().collect();
        for run in chars.chunk_by(|one, next| is_of_spaceless(*one) == is_of_spaceless(*next)) {
            match run {
                [first, _, ..] if is_of_spaceless(*first) => found.extend(run.windows(2).map(String::from_iter)),
                _ => drop(found.insert(String::from_iter(run).to_lowercase())),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likeness_ignores_word_order_and_punctuation() {
        assert!(likeness("Review the repository", "the repository: review!") > 0.99);
        assert!(likeness("Review the repository", "Count the files") < 0.5);
        assert!(likeness("", "") < 0.01);
    }

    #[test]
    fn likeness_of_text_without_spaces_uses_character_pairs_e9_3() {
        let task = "写一份关于春天的报告";
        assert!(likeness(task, "写一份关于春天的长报告") > 0.8);
        assert!(likeness(task, "数一数花园里的燕子") < 0.5);
        assert!(likeness("庭の燕を数える", "庭の燕を全部数える") > 0.5);
        assert!(likeness("庭の燕を数える", "屋根を直す") < 0.5);
        assert!(likeness("写 README 报告", "写README报告") > 0.5);
    }
}
