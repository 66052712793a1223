//! How like two texts are, by their words: whether a plan only says again what it is a plan for (E9.3).

use std::collections::BTreeSet;

/// From 0, no word in common, to 1, the same words (Dice's coefficient). Two texts without words are not alike.
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

fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_are_alike_in_any_order() {
        assert!(likeness("Review the repository", "the repository: review!") > 0.99);
        assert!(likeness("Review the repository", "Count the files") < 0.5);
        assert!(likeness("", "") < 0.01);
    }
}
