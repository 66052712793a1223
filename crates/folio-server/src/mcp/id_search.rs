//! Finds the id of a request in a line that cannot be parsed: without it nobody would know which request failed.

use rmcp::model::RequestId;
use serde::Deserialize;

/// The most bytes of one member that are kept. Names of methods and ids are short.
const MAX_MEMBER_BYTES: usize = 512;

/// Looks for the id of a request in bytes that need not be JSON and that arrive in parts. Keeps at most one member of
/// the object in memory.
///
/// It finds nothing when in doubt: in a text that does not begin as an object, has no method, or has two ids.
#[derive(Debug, Default)]
pub(super) struct IdSearch {
    depth: usize,
    has_begun: bool,
    is_in_string: bool,
    is_escaped: bool,
    /// The part of the current member that was read.
    member: Vec<u8>,
    /// Whether the member has more than is kept.
    is_cut: bool,
    has_method: bool,
    /// Whether the text is something other than one object.
    is_other: bool,
    ids: Vec<RequestId>,
}

/// The members that matter.
#[derive(Debug, Deserialize)]
struct Member {
    id: Option<RequestId>,
    method: Option<String>,
}

impl IdSearch {
    /// Reads the next bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.feed_byte(*byte);
        }
    }

    /// Returns the id if the text was one request.
    pub(super) fn into_id(self) -> Option<RequestId> {
        match <[RequestId; 1]>::try_from(self.ids) {
            Ok([id]) if self.has_method && !self.is_other => Some(id),
            _ => None,
        }
    }

    fn feed_byte(&mut self, byte: u8) {
        if self.is_in_string {
            self.push_member_byte(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'{' if self.depth == 0 && !self.has_begun => {
                self.has_begun = true;
                self.depth = 1;
            }
            _ if self.depth == 0 => self.is_other |= !byte.is_ascii_whitespace(),
            b'{' | b'[' => {
                self.depth += 1;
                self.is_cut = true;
            }
            b'}' | b']' => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.end_member();
                }
            }
            b',' if self.depth == 1 => self.end_member(),
            b'"' => {
                self.is_in_string = true;
                self.push_member_byte(byte);
            }
            _ => self.push_member_byte(byte),
        }
    }

    fn push_member_byte(&mut self, byte: u8) {
        if self.depth != 1 {
            return;
        }
        if self.member.len() < MAX_MEMBER_BYTES {
            self.member.push(byte);
        } else {
            self.is_cut = true;
        }
    }

    fn end_member(&mut self) {
        let is_whole = !std::mem::take(&mut self.is_cut);
        let member = self.member.trim_ascii_start();
        if is_whole && (member.starts_with(b"\"id\"") || member.starts_with(b"\"method\"")) {
            let object = [b"{", member, b"}"].concat();
            if let Ok(read) = serde_json::from_slice::<Member>(&object) {
                self.has_method |= read.method.is_some();
                // Two are enough to be in doubt.
                if self.ids.len() < 2 {
                    self.ids.extend(read.id);
                }
            }
        }
        self.member.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<String> {
        let mut search = IdSearch::default();
        for part in text.as_bytes().chunks(3) {
            search.feed(part);
        }
        search.into_id().map(|id| id.to_string())
    }

    #[test]
    fn id_search_finds_the_id_at_any_position() {
        for line in [
            r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":1e999}}"#,
            r#"{"method":"ping","params":{"x":"\ud83d, \"id\":1}","id":2},"jsonrpc":"2.0", "id" : 7 }"#,
            r#"{"id":"7","method":"ping","params":{"a":[{"id":1},"#,
        ] {
            assert_eq!(found(line).as_deref(), Some("7"), "{line}");
        }
        let long = format!(
            r#"{{"method":"ping","params":{{}},"x":"{}","id":7}}"#,
            "x".repeat(MAX_MEMBER_BYTES)
        );
        assert_eq!(found(&long).as_deref(), Some("7"));
    }

    #[test]
    fn id_search_returns_none_for_ambiguous_messages() {
        for line in [
            "",
            "hello, \"id\":7",
            r#"[{"id":7,"method":"ping"}]"#,
            // The answer to a request of this side.
            r#"{"id":7,"result":1e999}"#,
            r#"{"id":7,"id":8,"method":"ping"}"#,
            r#"{"id":7,"method":"ping"} {"id":8,"method":"ping"}"#,
            r#"{} {"id":8,"method":"ping"}"#,
            // Perhaps there was more of it.
            r#"{"method":"ping","id":7"#,
            r#"{"method":"ping","id":7.5}"#,
            r#"{"method":"ping","params":{"id":7},"x":1e999}"#,
            r#"{"method":"ping" "id":7}"#,
        ] {
            assert_eq!(found(line), None, "{line}");
        }
    }
}
