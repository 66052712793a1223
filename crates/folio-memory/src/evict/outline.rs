//! The structure of a JSON text that goes by piece by piece: its keys, how long its lists are, their first and last items.
//!
//! Nothing is held but what may be shown, so a text of any length takes the same memory.

use std::collections::VecDeque;
use std::fmt::Write as _;

use serde_json::Value;

/// Containers inside one another. A text that is deeper is not taken for JSON.
const DEPTH_MAX: usize = 128;
/// Containers inside one another of which something is kept; deeper ones are counted.
const KEPT_DEPTH: usize = 6;
/// Values that are kept at a time.
const NODES_MAX: usize = 8_192;
/// Bytes of a text or number that are kept.
const SCALAR_BYTES: usize = 480;

/// How many first and last items of a list, and keys of an object, are kept, by depth: the outer ones say more.
const KEPT: [(usize, usize, usize); KEPT_DEPTH] =
    [(96, 12, 96), (24, 4, 48), (6, 2, 24), (3, 1, 16), (2, 1, 12), (1, 1, 8)];

/// A value, as far as it is kept.
#[derive(Debug)]
pub(super) enum Node {
    /// A number, `true`, `false` or `null`, as it was written.
    Plain(String),
    /// A text: what is kept of its beginning, how many bytes it has in all, and whether that is all of it.
    Text(String, u64, bool),
    List {
        head: Vec<Self>,
        tail: VecDeque<Self>,
        len: u64,
    },
    Object {
        entries: Vec<(String, Self)>,
        len: u64,
    },
}

impl Node {
    /// How many values it is.
    fn size(&self) -> usize {
        match self {
            Self::Plain(_) | Self::Text(..) => 1,
            Self::List { head, tail, .. } => 1 + head.iter().chain(tail).map(Self::size).sum::<usize>(),
            Self::Object { entries, .. } => 1 + entries.iter().map(|(_, node)| node.size()).sum::<usize>(),
        }
    }
}

/// How much of a value is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Detail {
    pub(super) head: usize,
    pub(super) tail: usize,
    pub(super) keys: usize,
    pub(super) chars: usize,
    pub(super) depth: usize,
}

/// From the most to the least.
pub(super) const DETAILS: [Detail; 14] = {
    const fn of(head: usize, tail: usize, keys: usize, chars: usize, depth: usize) -> Detail {
        Detail {
            head,
            tail,
            keys,
            chars,
            depth,
        }
    }
    [
        of(96, 12, 96, 400, 6),
        of(48, 8, 96, 200, 6),
        of(24, 4, 48, 200, 6),
        of(12, 3, 48, 120, 6),
        of(8, 3, 32, 120, 5),
        of(5, 2, 32, 80, 5),
        of(3, 1, 24, 60, 4),
        of(2, 1, 24, 40, 4),
        of(2, 1, 16, 32, 3),
        of(1, 1, 16, 24, 3),
        of(1, 1, 12, 16, 2),
        of(1, 0, 8, 12, 2),
        of(1, 0, 8, 12, 1),
        of(0, 0, 6, 0, 1),
    ]
};

impl Node {
    /// The value as JSON, with what is left out said in its place: in a list as a text, in an object under the key `…`.
    pub(super) fn render(&self, detail: Detail) -> String {
        let mut out = String::new();
        self.write(detail, 0, &mut out);
        out
    }

    fn write(&self, detail: Detail, depth: usize, out: &mut String) {
        match self {
            Self::Plain(text) => out.push_str(text),
            Self::Text(start, bytes, is_whole) => {
                let cut = start.char_indices().nth(detail.chars).map(|(at, _)| at);
                match (cut, is_whole) {
                    (None, true) => quote(start, out),
                    (cut, _) => {
                        let start = &start[..cut.unwrap_or(start.len())];
                        quote(&format!("{start}… ({bytes} bytes)"), out);
                    }
                }
            }
            Self::List { head, tail, len } => {
                let (wanted_head, wanted_tail) = if depth < detail.depth {
                    (detail.head, detail.tail)
                } else {
                    (0, 0)
                };
                let shown_head = head.len().min(wanted_head);
                // What is kept of the end, and what of the beginning is the end of a short list.
                let rest = head[shown_head..].iter().chain(tail);
                let shown_tail = (head.len() - shown_head + tail.len()).min(wanted_tail);
                let rest = rest.skip(head.len() - shown_head + tail.len() - shown_tail);
                let left_out = len - (shown_head + shown_tail) as u64;
                out.push('[');
                let mut separator = "";
                for item in &head[..shown_head] {
                    out.push_str(separator);
                    item.write(detail, depth + 1, out);
                    separator = ",";
                }
                if left_out > 0 {
                    // Writing to a string does not fail.
                    let _infallible = write!(out, "{separator}\"… {left_out} items\"");
                    separator = ",";
                }
                for item in rest {
                    out.push_str(separator);
                    item.write(detail, depth + 1, out);
                    separator = ",";
                }
                out.push(']');
            }
            Self::Object { entries, len } => {
                let shown = entries.len().min(if depth < detail.depth { detail.keys } else { 0 });
                out.push('{');
                let mut separator = "";
                for (key, value) in &entries[..shown] {
                    out.push_str(separator);
                    quote(key, out);
                    out.push(':');
                    value.write(detail, depth + 1, out);
                    separator = ",";
                }
                let left_out = len - shown as u64;
                if left_out > 0 {
                    let _infallible = write!(out, "{separator}\"…\":\"{left_out} keys\"");
                }
                out.push('}');
            }
        }
    }
}

fn quote(text: &str, out: &mut String) {
    out.push_str(&Value::from(text).to_string());
}

/// Reads a JSON text that goes by, as long as it is one.
#[derive(Debug, Default)]
pub(super) struct Outline {
    state: State,
    frames: Vec<Frame>,
    /// The text, number or word under way.
    scalar: Scalar,
    nodes: usize,
    root: Option<Node>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// A value comes, or white space before it.
    #[default]
    Value,
    /// A value comes, or the end of the list that has just begun.
    ValueOrEnd,
    /// A key comes, or, in an object that has just begun, its end.
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
    /// The value is over; only white space may follow.
    Over,
    /// It is no JSON, or not one value of it.
    NoJson,
}

#[derive(Debug, Default)]
struct Scalar {
    /// What is kept, as it is written.
    kept: Vec<u8>,
    bytes: u64,
}

#[derive(Debug)]
struct Frame {
    is_object: bool,
    is_kept: bool,
    len: u64,
    head: Vec<Node>,
    tail: VecDeque<Node>,
    entries: Vec<(String, Node)>,
    key: Option<String>,
}

impl Outline {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at += match self.state {
                State::NoJson => return,
                State::Text { is_key, is_escaped } => self.text(&bytes[at..], is_key, is_escaped),
                State::Plain => self.plain(&bytes[at..]),
                _ if byte.is_ascii_whitespace() => {
                    1 + bytes[at + 1..].iter().take_while(|b| b.is_ascii_whitespace()).count()
                }
                _ => {
                    self.sign(byte);
                    1
                }
            };
        }
    }

    /// The value, if what went by is one list or one object and nothing else.
    pub(super) fn finish(self) -> Option<Node> {
        self.root
            .filter(|root| self.state == State::Over && matches!(root, Node::List { .. } | Node::Object { .. }))
    }

    /// A sign outside of texts and numbers, or the first of one.
    fn sign(&mut self, byte: u8) {
        let top_is_object = self.frames.last().map(|frame| frame.is_object);
        self.state = match (self.state, byte) {
            (State::Value | State::ValueOrEnd, b'{') => self.open(true),
            (State::Value | State::ValueOrEnd, b'[') => self.open(false),
            (State::ValueOrEnd | State::CommaOrEnd, b']') if top_is_object == Some(false) => self.close(),
            (State::Key { or_end: true } | State::CommaOrEnd, b'}') if top_is_object == Some(true) => self.close(),
            (State::Value | State::ValueOrEnd, b'"') => self.begin_text(false),
            (State::Key { .. }, b'"') => self.begin_text(true),
            // A text by itself is shown as text; so is anything else that stands alone.
            (State::Value | State::ValueOrEnd, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') if top_is_object.is_some() => {
                self.scalar = Scalar::default();
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
        self.scalar = Scalar::default();
        State::Text {
            is_key,
            is_escaped: false,
        }
    }

    /// Goes on with a text; gives how many bytes belong to it.
    fn text(&mut self, bytes: &[u8], is_key: bool, is_escaped: bool) -> usize {
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
            Some(_) => {
                let (text, is_whole) = self.scalar.text();
                if is_key {
                    if let Some(frame) = self.frames.last_mut() {
                        frame.key = Some(if is_whole { text } else { format!("{text}…") });
                    }
                    self.state = State::Colon;
                } else {
                    let bytes = self.scalar.bytes;
                    self.place(|| Node::Text(text, bytes, is_whole));
                }
            }
        }
        len + 1
    }

    /// Goes on with a number or a word; gives how many bytes belong to it.
    fn plain(&mut self, bytes: &[u8]) -> usize {
        let len = bytes
            .iter()
            .position(|byte| !matches!(byte, b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z'))
            .unwrap_or(bytes.len());
        self.scalar.push(&bytes[..len]);
        if len < bytes.len() {
            let text = String::from_utf8_lossy(&self.scalar.kept).into_owned();
            let is_whole = self.scalar.kept.len() as u64 == self.scalar.bytes;
            if is_whole && serde_json::from_str::<Value>(&text).is_ok() {
                self.place(|| Node::Plain(text));
            } else {
                self.state = State::NoJson;
            }
        }
        len
    }

    fn open(&mut self, is_object: bool) -> State {
        if self.frames.len() >= DEPTH_MAX {
            return State::NoJson;
        }
        let above = self.frames.last().is_none_or(|frame| frame.is_kept);
        self.frames.push(Frame {
            is_object,
            is_kept: above && self.frames.len() < KEPT_DEPTH && self.nodes < NODES_MAX,
            len: 0,
            head: Vec::new(),
            tail: VecDeque::new(),
            entries: Vec::new(),
            key: None,
        });
        if is_object {
            State::Key { or_end: true }
        } else {
            State::ValueOrEnd
        }
    }

    fn close(&mut self) -> State {
        let Some(frame) = self.frames.pop() else {
            return State::NoJson;
        };
        let node = if frame.is_object {
            Node::Object {
                entries: frame.entries,
                len: frame.len,
            }
        } else {
            Node::List {
                head: frame.head,
                tail: frame.tail,
                len: frame.len,
            }
        };
        if self.frames.is_empty() {
            self.root = Some(node);
            return State::Over;
        }
        self.place(|| node);
        self.state
    }

    /// Puts a value that is over into the list or object that it stands in.
    fn place(&mut self, node: impl FnOnce() -> Node) {
        self.state = State::CommaOrEnd;
        let depth = self.frames.len();
        let Some(frame) = self.frames.last_mut() else { return };
        frame.len += 1;
        let key = frame.key.take();
        if !frame.is_kept {
            return;
        }
        let (head, tail, keys) = KEPT[depth.clamp(1, KEPT_DEPTH) - 1];
        if frame.is_object {
            if frame.entries.len() < keys {
                self.nodes += 1;
                frame.entries.push((key.unwrap_or_default(), node()));
            }
        } else if frame.head.len() < head {
            self.nodes += 1;
            frame.head.push(node());
        } else {
            self.nodes += 1;
            frame.tail.push_back(node());
            if frame.tail.len() > tail
                && let Some(gone) = frame.tail.pop_front()
            {
                // Each value in it was counted when it was placed.
                self.nodes = self.nodes.saturating_sub(gone.size());
            }
        }
    }
}

impl Scalar {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let room = SCALAR_BYTES.saturating_sub(self.kept.len()).min(bytes.len());
        self.kept.extend_from_slice(&bytes[..room]);
    }

    /// What is kept of a text, read, and whether that is all of it.
    fn text(&self) -> (String, bool) {
        let is_whole = self.kept.len() as u64 == self.bytes;
        // What was cut off may end within a character or an escape, the longest of which has twelve bytes.
        for back in 0..=self.kept.len().min(12) {
            let kept = &self.kept[..self.kept.len() - back];
            if let Ok(text) = std::str::from_utf8(kept)
                && let Ok(text) = serde_json::from_str::<String>(&format!("\"{text}\""))
            {
                return (text, is_whole && back == 0);
            }
        }
        (String::from_utf8_lossy(&self.kept).into_owned(), false)
    }
}
