//! What a program asked to be allowed, and what it was answered, for those who read its result (E9.14, E9.17).

use folio_memory::counted::counted;
use folio_memory::excerpt::short_line;

use super::AgentGrant;

/// The most requests that are kept word for word.
const LISTED_MAX: usize = 32;
/// The most refused ones in the message of a failure.
const TOLD_MAX: usize = 8;
/// The most characters of what a request is about.
const TITLE_CHARS: usize = 80;

/// The requests of one program, bounded: a program may ask as often as it likes.
#[derive(Debug, Default)]
pub(super) struct Permissions {
    granted: Vec<String>,
    refused: Vec<String>,
    /// Those that are only counted.
    more: u64,
}

impl Permissions {
    /// Notes a request about `title`, and whether it was granted.
    pub(super) fn note(&mut self, kinds: &[AgentGrant], title: Option<&str>, is_granted: bool) {
        let list = if is_granted {
            &mut self.granted
        } else {
            &mut self.refused
        };
        if list.len() >= LISTED_MAX / 2 {
            self.more += 1;
            return;
        }
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
        let kinds = if kinds.is_empty() {
            AgentGrant::Other.as_str().to_owned()
        } else {
            kinds.join("+")
        };
        let title = short_line(title.unwrap_or("something"), TITLE_CHARS);
        list.push(format!("{kinds}: {title}"));
    }

    /// One line for each: those that were refused come first, because they may be why something is missing.
    pub(super) fn lines(&self) -> Vec<String> {
        let refused = self.refused.iter().map(|line| format!("refused {line}"));
        let granted = self.granted.iter().map(|line| format!("granted {line}"));
        let more = (self.more > 0).then(|| format!("and {}", counted(self.more, "more request")));
        refused.chain(granted).chain(more).collect()
    }

    /// The note that something was not granted, if so.
    pub(super) fn not_granted(&self) -> String {
        if self.refused.is_empty() {
            return String::new();
        }
        let listed: Vec<&str> = self.refused.iter().take(TOLD_MAX).map(String::as_str).collect();
        format!("; it was not granted: {}", listed.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_listed_refused_ones_first_and_bounded() {
        let mut permissions = Permissions::default();
        assert!(permissions.lines().is_empty() && permissions.not_granted().is_empty());
        permissions.note(&[AgentGrant::Read], Some("Look at a.txt"), true);
        permissions.note(&[], None, false);
        permissions.note(&[AgentGrant::Edit, AgentGrant::Delete], Some("Replace\na.txt"), false);
        assert_eq!(
            permissions.lines(),
            [
                "refused other: something",
                "refused edit+delete: Replace a.txt",
                "granted read: Look at a.txt"
            ]
        );
        assert_eq!(
            permissions.not_granted(),
            "; it was not granted: other: something, edit+delete: Replace a.txt"
        );
        for _ in 0..100 {
            permissions.note(&[AgentGrant::Fetch], Some("more"), false);
        }
        let lines = permissions.lines();
        assert_eq!(lines.last().map(String::as_str), Some("and 86 more requests"));
        assert!(lines.len() <= LISTED_MAX + 1);
    }
}
