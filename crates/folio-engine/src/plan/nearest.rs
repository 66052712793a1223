//! "Did you mean …?"

/// The candidate that `written` most likely means, if one is close enough.
pub(super) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written_folded = fold(written);
    let allowed = (written_folded.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (distance(&written_folded, &fold(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

pub(super) fn did_you_mean<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(written, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// The most names that a hint lists.
const LISTED_MAX: usize = 20;

/// `names` as a list: the first of them, and how many more there are.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let mut listed = names.by_ref().take(LISTED_MAX).collect::<Vec<_>>().join(", ");
    let unlisted = names.count();
    if unlisted > 0 {
        listed.push_str(&format!(" and {unlisted} more"));
    }
    listed
}

/// `maxItems`, `max-items` and `max_items` are the same word.
fn fold(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-'))
        .flat_map(char::to_lowercase)
        .take(64)
        .collect()
}

/// How many characters have to be inserted, removed, replaced, or swapped with their neighbour to get from one to the
/// other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &left) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &right) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(left != right))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && left == b[j - 1] && a[i - 1] == right {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_lists_the_first_names_and_counts_the_rest() {
        assert_eq!(listed(["a", "b"]), "a, b");
        let many: Vec<String> = (0..5_000).map(|n| n.to_string()).collect();
        let hint = listed(many.iter().map(String::as_str));
        assert!(
            hint.starts_with("0, 1, 2") && hint.ends_with("19 and 4980 more"),
            "{hint}"
        );
    }

    #[test]
    fn nearest_name_matches_typos_but_not_unrelated_words() {
        let tools = ["grep", "git", "list", "http_get"];
        for (written, meant) in [
            ("grpe", Some("grep")),
            ("gerp", Some("grep")),
            ("lst", Some("list")),
            ("HttpGet", Some("http_get")),
            ("http-gets", Some("http_get")),
            ("shell", None),
            ("x", None),
        ] {
            assert_eq!(nearest(written, tools), meant, "{written}");
        }
    }
}
