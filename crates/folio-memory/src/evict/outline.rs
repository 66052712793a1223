//! The outline of a JSON text that streams by piece by piece: its keys, the lengths of its lists, their first and last
//! items.
//!
//! Only what may be shown is kept, so memory use does not depend on the length of the text.

mod node;

use std::collections::VecDeque;

pub(super) use node::{DETAILS, Node};

/// The maximum nesting depth. A deeper text is not treated as JSON.
const DEPTH_MAX: usize = 128;
/// The nesting depth down to which content is kept; deeper containers are only counted.
const KEPT_DEPTH: usize = 6;
/// The maximum number of values kept at a time.
const NODES_MAX: usize = 8_192;
/// The maximum number of bytes kept of a string or number.
const SCALAR_BYTES: usize = 480;
/// The number of most recent bytes that are buffered, from which the last items of a list are read. A longer item is
/// left out.
const RECENT_BYTES: usize = 256 * 1024;

/// How many first and last items of a list, and keys of an object, are kept at each depth: the outer ones say more.
const KEPT: [(usize, usize, usize); KEPT_DEPTH] =
    [(96, 12, 96), (24, 4, 48), (6, 2, 24), (3, 1, 16), (2, 1, 12), (1, 1, 8)];

/// Parses a JSON text while it streams by, as long as it is valid.
///
/// Nobody knows which items of a long list are the last before the list ends. Beyond the first items, only the
/// positions are noted, and when the list ends, its last items are parsed from the most recent bytes.
#[derive(Debug, Default)]
pub(super) struct Outline {
    state: State,
    /// The containers that are kept, from the outermost to the innermost.
    frames: Vec<Frame>,
    /// The open containers of which nothing is kept.
    inside: SkippedContainers,
    /// The string, number or word being read.
    scalar: Scalar,
    nodes: usize,
    root: Option<Node>,
    /// The most recent bytes.
    recent: Vec<u8>,
    /// The number of bytes before those.
    dropped_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// A value is next, possibly after white space.
    #[default]
    Value,
    /// A value is next, or the end of the list that has just begun.
    ValueOrEnd,
    /// A key is next, or, in an object that has just begun, its end.
    Key {
        or_end: bool,
    },
    Colon,
    CommaOrEnd,
    Text {
        is_key: bool,
        is_escaped: bool,
    },
    Plain,
    /// The value is complete; only white space may follow.
    Over,
    /// The text is not JSON, or not a single value.
    NoJson,
}

impl State {
    /// The state after a container has just begun.
    fn of_new(is_object: bool) -> Self {
        if is_object {
            Self::Key { or_end: true }
        } else {
            Self::ValueOrEnd
        }
    }
}

#[derive(Debug, Default)]
struct Scalar {
    /// The bytes that are kept, as they are written.
    kept: Vec<u8>,
    bytes: u64,
}

/// The nested containers of which nothing is kept: one bit each, for their kind.
#[derive(Debug, Clone, Copy, Default)]
struct SkippedContainers {
    kinds: u128,
    depth: usize,
}

impl SkippedContainers {
    fn open(&mut self, is_object: bool) {
        self.kinds = self.kinds << 1 | u128::from(is_object);
        self.depth += 1;
    }

    fn close(&mut self) {
        self.kinds >>= 1;
        self.depth -= 1;
    }

    /// Whether the innermost container is an object.
    fn is_object(self) -> bool {
        self.kinds & 1 == 1
    }
}

#[derive(Debug)]
struct Frame {
    is_object: bool,
    len: u64,
    head: Vec<Node>,
    /// The start and end of the last items after `head`.
    tail: VecDeque<(u64, u64)>,
    /// The start of the current item.
    item: u64,
    entries: Vec<(String, Node)>,
    key: Option<String>,
}

impl Frame {
    fn new(is_object: bool) -> Self {
        Self {
            is_object,
            len: 0,
            head: Vec::new(),
            tail: VecDeque::new(),
            item: 0,
            entries: Vec::new(),
            key: None,
        }
    }

    /// Whether the next value is kept at once. `depth` is the number of containers, including this one.
    fn keeps_next(&self, depth: usize) -> bool {
        let (head, _, keys) = KEPT[depth.clamp(1, KEPT_DEPTH) - 1];
        if self.is_object {
            self.entries.len() < keys
        } else {
            // After an item that is not kept, no further item belongs to the beginning.
            self.tail.is_empty() && self.head.len() < head
        }
    }
}

impl Outline {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.state == State::NoJson {
            self.recent = Vec::new();
            return;
        }
        if self.recent.len() > 2 * RECENT_BYTES {
            let drop_count = self.recent.len() - RECENT_BYTES;
            self.recent.drain(..drop_count);
            self.dropped_bytes += drop_count as u64;
        }
        let before = self.recent.len();
        self.recent.extend_from_slice(bytes);
        let recent = std::mem::take(&mut self.recent);
        self.read(&recent, before);
        self.recent = recent;
    }

    fn read(&mut self, recent: &[u8], mut at: usize) {
        loop {
            if self.inside.depth > 0 {
                at += self.skim(&recent[at..]);
            }
            let Some(&byte) = recent.get(at) else { return };
            at += match self.state {
                State::NoJson => return,
                State::Text { is_key, is_escaped } => self.text(recent, at, is_key, is_escaped),
                State::Plain => self.plain(recent, at),
                _ if byte.is_ascii_whitespace() => 1,
                _ => {
                    self.sign(recent, at, byte);
                    1
                }
            };
        }
    }

    /// Skims a section of which nothing is kept, as far as it is complete and valid, and returns the number of bytes
    /// skimmed. Most of a long text is skimmed, and each byte is looked at only once.
    fn skim(&mut self, bytes: &[u8]) -> usize {
        let (mut state, mut inside, mut at) = (self.state, self.inside, 0);
        while let Some(&byte) = bytes.get(at) {
            let step = match (state, byte) {
                (State::Value | State::ValueOrEnd, b'"') => {
                    text_len(&bytes[at + 1..]).map(|len| (State::CommaOrEnd, len + 1))
                }
                (State::Key { .. }, b'"') => text_len(&bytes[at + 1..]).map(|len| (State::Colon, len + 1)),
                (State::Colon, b':') => Some((State::Value, 1)),
                (State::CommaOrEnd, b',') if inside.is_object() => Some((State::Key { or_end: false }, 1)),
                (State::CommaOrEnd, b',') => Some((State::Value, 1)),
                (State::Value | State::ValueOrEnd, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                    let rest = &bytes[at..];
                    let len = rest.iter().position(|byte| !is_of_plain(*byte));
                    len.filter(|len| *len <= SCALAR_BYTES && is_plain(&rest[..*len]))
                        .map(|len| (State::CommaOrEnd, len))
                }
                (State::Value | State::ValueOrEnd, b'{' | b'[') if self.frames.len() + inside.depth < DEPTH_MAX => {
                    inside.open(byte == b'{');
                    Some((State::of_new(byte == b'{'), 1))
                }
                (State::Key { or_end: true } | State::CommaOrEnd, b'}') if inside.depth > 1 && inside.is_object() => {
                    inside.close();
                    Some((State::CommaOrEnd, 1))
                }
                (State::ValueOrEnd | State::CommaOrEnd, b']') if inside.depth > 1 && !inside.is_object() => {
                    inside.close();
                    Some((State::CommaOrEnd, 1))
                }
                (State::Text { .. } | State::Plain | State::NoJson, _) => None,
                (_, byte) if byte.is_ascii_whitespace() => Some((state, 1)),
                _ => None,
            };
            let Some((next, len)) = step else { break };
            state = next;
            at += len;
        }
        (self.state, self.inside) = (state, inside);
        at
    }

    /// The value, if the text is a single list or object and nothing else.
    pub(super) fn finish(self) -> Option<Node> {
        self.root
            .filter(|root| self.state == State::Over && matches!(root, Node::List { .. } | Node::Object { .. }))
    }

    /// Handles a character outside of strings and numbers, or the first of one.
    fn sign(&mut self, recent: &[u8], at: usize, byte: u8) {
        let top_is_object = match self.inside.depth {
            0 => self.frames.last().map(|frame| frame.is_object),
            _ => Some(self.inside.is_object()),
        };
        if matches!(self.state, State::Value | State::ValueOrEnd)
            && self.inside.depth == 0
            && let Some(frame) = self.frames.last_mut()
        {
            frame.item = self.dropped_bytes + at as u64;
        }
        self.state = match (self.state, byte) {
            (State::Value | State::ValueOrEnd, b'{') => self.open(true),
            (State::Value | State::ValueOrEnd, b'[') => self.open(false),
            (State::ValueOrEnd | State::CommaOrEnd, b']') if top_is_object == Some(false) => self.close(recent, at),
            (State::Key { or_end: true } | State::CommaOrEnd, b'}') if top_is_object == Some(true) => {
                self.close(recent, at)
            }
            (State::Value | State::ValueOrEnd, b'"') => self.begin_text(false),
            (State::Key { .. }, b'"') => self.begin_text(true),
            // A string by itself is shown as text, and so is any other single value.
            (State::Value | State::ValueOrEnd, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') if top_is_object.is_some() => {
                self.scalar.clear();
                self.scalar.push(&[byte]);
                State::Plain
            }
            (State::Colon, b':') => State::Value,
            (State::CommaOrEnd, b',') if top_is_object == Some(true) => State::Key { or_end: false },
            (State::CommaOrEnd, b',') => State::Value,
            _ => State::NoJson,
        };
    }

    fn begin_text(&mut self, is_key: bool) -> State {
        if self.frames.is_empty() {
            return State::NoJson;
        }
        self.scalar.clear();
        State::Text {
            is_key,
            is_escaped: false,
        }
    }

    /// Whether the current value, or the value of the current key, is kept at once.
    fn keeps_next(&self) -> bool {
        let depth = self.frames.len();
        self.inside.depth == 0 && self.frames.last().is_some_and(|frame| frame.keeps_next(depth))
    }

    /// Continues a string; returns the number of bytes that belong to it.
    fn text(&mut self, recent: &[u8], at: usize, is_key: bool, is_escaped: bool) -> usize {
        let bytes = &recent[at..];
        if is_escaped {
            self.scalar.push(&bytes[..1]);
            self.state = State::Text {
                is_key,
                is_escaped: false,
            };
            return 1;
        }
        let len = bytes
            .iter()
            .position(|byte| matches!(byte, b'"' | b'\\'))
            .unwrap_or(bytes.len());
        self.scalar.push(&bytes[..len]);
        match bytes.get(len) {
            None => return len,
            Some(b'\\') => {
                self.scalar.push(b"\\");
                self.state = State::Text {
                    is_key,
                    is_escaped: true,
                };
            }
            Some(_) if is_key => {
                let key = self.keeps_next().then(|| self.scalar.text());
                if let Some(frame) = self.frames.last_mut()
                    && self.inside.depth == 0
                {
                    frame.key = key.map(|(text, is_whole)| if is_whole { text } else { format!("{text}…") });
                }
                self.state = State::Colon;
            }
            Some(_) => {
                let text = self.keeps_next().then(|| self.scalar.text());
                let bytes = self.scalar.bytes;
                self.place(
                    at + len + 1,
                    text.map(|(text, is_whole)| Node::Text(text, bytes, is_whole)),
                );
            }
        }
        len + 1
    }

    /// Continues a number or a word; returns the number of bytes that belong to it.
    fn plain(&mut self, recent: &[u8], at: usize) -> usize {
        let bytes = &recent[at..];
        let len = bytes.iter().position(|byte| !is_of_plain(*byte)).unwrap_or(bytes.len());
        self.scalar.push(&bytes[..len]);
        if len < bytes.len() {
            if self.scalar.is_plain() {
                let is_kept = self.keeps_next();
                let node = is_kept.then(|| Node::Plain(String::from_utf8_lossy(&self.scalar.kept).into_owned()));
                self.place(at + len, node);
            } else {
                self.state = State::NoJson;
            }
        }
        len
    }

    fn open(&mut self, is_object: bool) -> State {
        if self.frames.len() + self.inside.depth >= DEPTH_MAX {
            return State::NoJson;
        }
        let is_kept = self.frames.is_empty() || self.keeps_next();
        if is_kept && self.frames.len() < KEPT_DEPTH && self.nodes < NODES_MAX {
            self.frames.push(Frame::new(is_object));
        } else {
            self.inside.open(is_object);
        }
        State::of_new(is_object)
    }

    fn close(&mut self, recent: &[u8], at: usize) -> State {
        if self.inside.depth > 0 {
            self.inside.close();
            self.place(at + 1, None);
            return self.state;
        }
        let Some(frame) = self.frames.pop() else {
            return State::NoJson;
        };
        let is_kept = self.frames.is_empty() || self.keeps_next();
        let node = is_kept.then(|| {
            if frame.is_object {
                return Node::Object {
                    entries: frame.entries,
                    len: frame.len,
                };
            }
            let depth = self.frames.len() + 1;
            // Items before one that cannot be parsed do not belong to the end.
            let last = frame
                .tail
                .iter()
                .rev()
                .map_while(|item| self.item(recent, *item, depth));
            let mut tail = VecDeque::with_capacity(frame.tail.len());
            last.for_each(|item| tail.push_front(item));
            Node::List {
                head: frame.head,
                tail,
                len: frame.len,
            }
        });
        if self.frames.is_empty() {
            self.root = node;
            return State::Over;
        }
        self.place(at + 1, node);
        self.state
    }

    /// Parses an item of a list at `depth` from the most recent bytes, if it is still within them.
    fn item(&self, recent: &[u8], (from, to): (u64, u64), depth: usize) -> Option<Node> {
        let from = usize::try_from(from.checked_sub(self.dropped_bytes)?).ok()?;
        let to = usize::try_from(to.checked_sub(self.dropped_bytes)?).ok()?;
        let mut outline = Self {
            frames: (0..depth).map(|_| Frame::new(false)).collect(),
            nodes: self.nodes,
            ..Self::default()
        };
        outline.read(recent.get(..to)?, from);
        if outline.state == State::Plain {
            outline.plain(b",", 0);
        }
        outline.frames.pop().and_then(|mut frame| frame.head.pop())
    }

    /// Adds a value that ends before `end` to its list or object; `node` is set if the value is kept.
    fn place(&mut self, end: usize, node: Option<Node>) {
        self.state = State::CommaOrEnd;
        if self.inside.depth > 0 {
            return;
        }
        let depth = self.frames.len();
        let end = self.dropped_bytes + end as u64;
        let Some(frame) = self.frames.last_mut() else { return };
        frame.len += 1;
        let key = frame.key.take();
        match node {
            Some(node) if frame.is_object => frame.entries.push((key.unwrap_or_default(), node)),
            Some(node) => frame.head.push(node),
            None => {
                let (_, tail, _) = KEPT[depth.clamp(1, KEPT_DEPTH) - 1];
                if !frame.is_object {
                    frame.tail.push_back((frame.item, end));
                    if frame.tail.len() > tail {
                        frame.tail.pop_front();
                    }
                }
                return;
            }
        }
        self.nodes += 1;
    }
}

impl Scalar {
    fn clear(&mut self) {
        self.kept.clear();
        self.bytes = 0;
    }

    /// Whether it is a number, `true`, `false` or `null` that is kept completely.
    fn is_plain(&self) -> bool {
        self.kept.len() as u64 == self.bytes && is_plain(&self.kept)
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let copy_len = SCALAR_BYTES.saturating_sub(self.kept.len()).min(bytes.len());
        self.kept.extend_from_slice(&bytes[..copy_len]);
    }

    /// The kept part of a string, unescaped, and whether it is the whole.
    fn text(&self) -> (String, bool) {
        let is_whole = self.kept.len() as u64 == self.bytes;
        // The cut may be within a character or an escape, the longest of which has twelve bytes.
        for cut_bytes in 0..=self.kept.len().min(12) {
            let kept = &self.kept[..self.kept.len() - cut_bytes];
            if let Ok(text) = std::str::from_utf8(kept)
                && let Ok(text) = serde_json::from_str::<String>(&format!("\"{text}\""))
            {
                return (text, is_whole && cut_bytes == 0);
            }
        }
        (String::from_utf8_lossy(&self.kept).into_owned(), false)
    }
}

/// The number of bytes up to and including the closing quote of a string, if the quote is in `bytes`.
fn text_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        match bytes[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

/// Whether `byte` can be part of a number or a word.
fn is_of_plain(byte: u8) -> bool {
    matches!(byte, b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z')
}

/// Whether `text` is a number, `true`, `false` or `null`.
fn is_plain(text: &[u8]) -> bool {
    matches!(text, b"true" | b"false" | b"null") || is_number(text)
}

/// Whether `text` is a JSON number.
fn is_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let integer_digits = digits(text);
    if integer_digits == 0 || (integer_digits > 1 && text.starts_with(b"0")) {
        return false;
    }
    let mut rest = &text[integer_digits..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let len = digits(fraction);
        rest = &fraction[len..];
        if len == 0 {
            return false;
        }
    }
    if let Some(exponent) = rest.strip_prefix(b"e").or_else(|| rest.strip_prefix(b"E")) {
        let exponent = exponent
            .strip_prefix(b"-")
            .or_else(|| exponent.strip_prefix(b"+"))
            .unwrap_or(exponent);
        return !exponent.is_empty() && digits(exponent) == exponent.len();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a\\\\\"é🙂 \n]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 12, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[a\\\\\"é]{0,3}", inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn outlined(text: &[u8], piece: usize) -> String {
        let mut outline = Outline::default();
        text.chunks(piece).for_each(|piece| outline.feed(piece));
        format!("{:?}", outline.finish())
    }

    #[test]
    fn outline_keeps_the_last_list_item_after_its_node_limit_m7_8_v9() {
        let row: Map<String, Value> = (0..16)
            .map(|key| (format!("k{key}"), json!([1, 2, 3, 4, 5, 6])))
            .collect();
        let mut items = vec![Value::Object(row); 90];
        items.extend([json!(5), json!({"a": 1}), json!(6)]);
        let mut outline = Outline::default();
        outline.feed(Value::Array(items).to_string().as_bytes());
        let shown = outline.finish().unwrap().render(DETAILS[0]);
        let (_, end) = shown.rsplit_once('}').unwrap();
        assert!(end.starts_with(",\"… ") && end.ends_with(" items\",6]"), "{end}");
    }

    proptest! {
        #[test]
        fn skimmed_outline_equals_the_outline_fed_byte_by_byte_m7_8_v9(
            value in values(),
            is_pretty in any::<bool>(),
            edit in proptest::option::of((any::<proptest::sample::Index>(), proptest::sample::select(b"\"{}[],:\\ 1-.ex".to_vec()))),
        ) {
            // More than is kept of a list, so that most of it is skimmed.
            let whole = json!({"rows": vec![value; 120], "end": 1});
            let mut text = if is_pretty { serde_json::to_vec_pretty(&whole)? } else { serde_json::to_vec(&whole)? };
            if let Some((at, byte)) = &edit {
                let at = at.index(text.len());
                text[at] = *byte;
            }
            let outline = outlined(&text, 1);
            prop_assert!(edit.is_some() || outline.starts_with("Some"));
            prop_assert_eq!(&outlined(&text, text.len()), &outline);
            prop_assert_eq!(outlined(&text, 7), outline);
        }
    }
}
