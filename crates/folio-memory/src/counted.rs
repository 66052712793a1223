//! Counts of things in words: `1 file`, `2 files`.

/// Returns `count` with `noun` in singular or plural: `1 file`, `2 entries`.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {}", noun_for_count(count, noun))
}

/// Returns `noun` in the number that `count` requires: `entry`, `entries`.
#[must_use]
pub fn noun_for_count(count: u64, noun: &str) -> String {
    let before_y = noun
        .strip_suffix('y')
        .filter(|rest| !rest.ends_with(['a', 'e', 'o', 'u']));
    match before_y {
        _ if count == 1 => noun.to_owned(),
        Some(rest) => format!("{rest}ies"),
        None if noun.ends_with("ch") || noun.ends_with('x') => format!("{noun}es"),
        None => format!("{noun}s"),
    }
}

/// Returns a `share`, from 0 to 1, in whole percent: `60%`. Only the whole is `100%`.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    // What is nearly done would look as if it were.
    let shown = if share < 1.0 { percent.min(99.0) } else { percent };
    format!("{shown:.0}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_is_a_hundred_percent() {
        for (share, shown) in [(0.0, "0%"), (0.6, "60%"), (0.984, "98%"), (0.996, "99%"), (1.0, "100%")] {
            assert_eq!(percent(share), shown);
        }
    }

    #[test]
    fn counted_noun_is_singular_for_one_and_plural_otherwise() {
        assert_eq!(counted(0, "file"), "0 files");
        assert_eq!(counted(1, "matching line"), "1 matching line");
        assert_eq!(counted(2, "file"), "2 files");
        assert_eq!(counted(1, "entry"), "1 entry");
        assert_eq!(counted(2, "entry"), "2 entries");
        assert_eq!(counted(2, "key"), "2 keys");
        assert_eq!(counted(2, "match"), "2 matches");
    }
}
