//! Numbers of things in words: `1 file`, `2 files`.

/// `count` of what is called `one` when it is alone, and `one` with an s otherwise.
#[must_use]
pub fn counted(count: u64, one: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {one}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_told_as_one() {
        assert_eq!(counted(0, "file"), "0 files");
        assert_eq!(counted(1, "matching line"), "1 matching line");
        assert_eq!(counted(2, "file"), "2 files");
    }
}
