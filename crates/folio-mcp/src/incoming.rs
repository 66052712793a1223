//! What a program says, line by line. After an answer that is too long or nested too deeply to be taken comes one that says so: the
//! library drops such a line without a word, and whoever waits for it would wait until the time is up. What is no message at all is
//! kept, as a word on why nothing else comes.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use folio_process::printed;
use rmcp::model::ErrorCode;
use serde_json::json;
use tokio::io::{AsyncBufRead as _, AsyncRead, BufReader, ReadBuf};

use crate::words::one_line;

/// What stands for an answer that is too long. No server has this code: the protocol leaves it to nobody.
pub(crate) const TOO_LONG: ErrorCode = ErrorCode(-40_001);

/// What stands for an answer that is nested too deeply.
pub(crate) const TOO_DEEP: ErrorCode = ErrorCode(-40_002);

/// Levels of an answer that are read: those of the library that reads JSON.
const DEPTH_MAX: usize = 127;
/// Bytes at the beginning and at the end of a line that are looked at: what it answers stands in either of them.
const EDGE_BYTES: usize = 256;
/// Lines in a row that may be no messages. The library answers those that are JSON, and a program that answers each such answer with
/// another would do so for ever; one that prints what it logs is not taken for it.
const STRAYS_MAX: usize = 10_000;
/// Characters of a line that is no message.
const STRAY_CHARS: usize = 120;

/// The output of a program with lines of at most so many bytes.
#[derive(Debug)]
pub(crate) struct Incoming<R> {
    output: BufReader<R>,
    bytes_max: usize,
    line: Line,
    stray: Stray,
    strays_in_a_row: usize,
    /// What is read next, before anything else of the program.
    instead: Vec<u8>,
}

/// The last line that was no message, if there was one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stray(Arc<Mutex<Option<String>>>);

impl Stray {
    fn keep(&self, line: String, in_a_row: usize) {
        let line = match in_a_row {
            STRAYS_MAX => format!(
                "{line} (the last of {STRAYS_MAX} such lines in a row, after which it is no longer listened to)"
            ),
            _ => line,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
    }

    /// It, to be said after what went wrong; nothing, if there was none.
    pub(crate) fn in_words(&self) -> String {
        let line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        printed(line.as_deref(), None)
    }
}

/// What was read of a line.
#[derive(Debug, Default)]
struct Line {
    bytes: usize,
    nesting: Nesting,
    begin: Vec<u8>,
    end: Vec<u8>,
}

impl<R: AsyncRead> Incoming<R> {
    pub(crate) fn new(output: R, bytes_max: usize, stray: Stray) -> Self {
        Self {
            output: BufReader::new(output),
            bytes_max,
            line: Line::default(),
            stray,
            strays_in_a_row: 0,
            instead: Vec::new(),
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Incoming<R> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, taken: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.instead.is_empty() {
            let length = this.instead.len().min(taken.remaining());
            taken.put_slice(&this.instead[..length]);
            this.instead.drain(..length);
            return Poll::Ready(Ok(()));
        }
        if this.strays_in_a_row >= STRAYS_MAX {
            // As if the program had closed its output.
            return Poll::Ready(Ok(()));
        }
        let there = ready!(Pin::new(&mut this.output).poll_fill_buf(context))?;
        let end = there
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(there.len(), |at| at + 1);
        let piece = &there[..end.min(taken.remaining())];
        taken.put_slice(piece);
        this.line.add(piece);
        let (length, is_whole) = (piece.len(), piece.ends_with(b"\n"));
        Pin::new(&mut this.output).consume(length);
        if is_whole {
            let line = std::mem::take(&mut this.line);
            if let Some(said) = line.stray() {
                this.strays_in_a_row += 1;
                this.stray.keep(said, this.strays_in_a_row);
            } else if !line.is_empty() {
                this.strays_in_a_row = 0;
            }
            let untaken = match line.nesting.deepest {
                _ if line.bytes > this.bytes_max => Some((TOO_LONG, longer_than(this.bytes_max))),
                deepest if deepest > DEPTH_MAX => Some((TOO_DEEP, deeper_than_read())),
                _ => None,
            };
            if let Some((code, why)) = untaken
                && let Some(id) = line.answers()
            {
                this.instead = failed(id, code, &why);
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// What is said of an answer that is too long.
pub(crate) fn longer_than(bytes_max: usize) -> String {
    format!("its answer is longer than {bytes_max} bytes (`answer_bytes`)")
}

/// What is said of an answer that is nested too deeply.
pub(crate) fn deeper_than_read() -> String {
    format!("its answer is nested more than {DEPTH_MAX} levels deep")
}

fn failed(id: u64, code: ErrorCode, why: &str) -> Vec<u8> {
    let error = json!({"code": code.0, "message": why});
    let error = json!({"jsonrpc": "2.0", "id": id, "error": error});
    format!("{error}\n").into_bytes()
}

/// How deeply the JSON of a line is nested.
#[derive(Debug, Default)]
struct Nesting {
    now: usize,
    deepest: usize,
    is_in_text: bool,
    is_escaped: bool,
}

impl Nesting {
    fn add(&mut self, byte: u8) {
        match byte {
            _ if std::mem::take(&mut self.is_escaped) => {}
            b'\\' if self.is_in_text => self.is_escaped = true,
            b'"' => self.is_in_text = !self.is_in_text,
            _ if self.is_in_text => {}
            b'{' | b'[' => {
                self.now += 1;
                self.deepest = self.deepest.max(self.now);
            }
            b'}' | b']' => self.now = self.now.saturating_sub(1),
            _ => {}
        }
    }
}

impl Line {
    fn is_empty(&self) -> bool {
        self.begin.trim_ascii().is_empty()
    }

    /// What it says if it is no message.
    fn stray(&self) -> Option<String> {
        let is_in = |edge: &[u8], key: &str| String::from_utf8_lossy(edge).contains(key);
        let has = |key: &str| is_in(&self.begin, key) || is_in(&self.end, key);
        let text = String::from_utf8_lossy(&self.begin);
        let text = text.trim();
        let says = [r#""method""#, r#""result""#, r#""error""#];
        // Of a longer one it is not known what stands in its middle.
        let says_something = self.bytes > EDGE_BYTES || says.into_iter().any(has);
        let is_message = text.starts_with('{') && has(r#""jsonrpc""#) && says_something;
        (!text.is_empty() && !is_message).then(|| one_line(text).chars().take(STRAY_CHARS).collect())
    }

    fn add(&mut self, piece: &[u8]) {
        self.bytes += piece.len();
        piece.iter().for_each(|byte| self.nesting.add(*byte));
        let missing = EDGE_BYTES.saturating_sub(self.begin.len()).min(piece.len());
        self.begin.extend_from_slice(&piece[..missing]);
        self.end
            .extend_from_slice(&piece[piece.len().saturating_sub(EDGE_BYTES)..]);
        self.end.drain(..self.end.len().saturating_sub(EDGE_BYTES));
    }

    /// The number of the request that it answers, if it is an answer that has it first, or last as those of some libraries do.
    fn answers(&self) -> Option<u64> {
        const VERSION: &str = r#""jsonrpc":"2.0""#;
        let plain = |edge: &[u8]| -> String {
            let text = String::from_utf8_lossy(edge);
            text.chars().filter(|c| !c.is_ascii_whitespace()).collect()
        };
        let after_version = |text: &str| -> String {
            let rest = text.strip_prefix(VERSION).and_then(|rest| rest.strip_prefix(','));
            rest.unwrap_or(text).to_owned()
        };
        // A request of the server has a number of its own.
        let is_answer = |text: &str| text.starts_with(r#""result":"#) || text.starts_with(r#""error":"#);
        let (begin, end) = (plain(&self.begin), plain(&self.end));
        let begin = after_version(begin.strip_prefix('{')?);
        if let Some(rest) = begin.strip_prefix(r#""id":"#) {
            let (id, rest) = rest.split_once(',')?;
            return id.parse().ok().filter(|_| is_answer(&after_version(rest)));
        }
        let end = end.strip_suffix('}').filter(|_| is_answer(&begin))?;
        let end = end.strip_suffix(VERSION).map_or(end, |end| end.trim_end_matches(','));
        let (_, id) = end.rsplit_once(r#""id":"#)?;
        id.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn read(said: &str, bytes_max: usize) -> String {
        let mut read = String::new();
        let mut incoming = Incoming::new(said.as_bytes(), bytes_max, Stray::default());
        incoming.read_to_string(&mut read).await.unwrap();
        read
    }

    #[tokio::test]
    async fn after_an_answer_that_is_too_long_comes_one_that_says_so() {
        let long = "x".repeat(20_000);
        let nested = format!(r#"{{"structuredContent":{{"id":3,"text":"{long}","last":{{"id":4}}}}}}"#);
        for line in [
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{nested}}}"#),
            format!(r#"{{"id": 7, "jsonrpc": "2.0", "result": {nested}}}"#),
            format!(r#"{{"result":{nested},"jsonrpc":"2.0","id":7}}"#),
            format!(r#"{{"error":{nested},"id":7,"jsonrpc":"2.0"}}"#),
        ] {
            let said = format!("{line}\nnext\n");
            let instead = String::from_utf8(failed(7, TOO_LONG, &longer_than(10_000))).unwrap();
            assert_eq!(read(&said, 10_000).await, format!("{line}\n{instead}next\n"));
            assert_eq!(read(&said, line.len() + 1).await, said, "as long as it may be");
        }
    }

    #[tokio::test]
    async fn after_an_answer_that_is_nested_too_deeply_comes_one_that_says_so() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let line = |depth: usize| {
            format!(
                r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":"[[[\"[","b":{}}}}}"#,
                nested(depth)
            )
        };
        let readable = line(DEPTH_MAX - 2);
        assert!(serde_json::from_str::<serde_json::Value>(&readable).is_ok());
        assert_eq!(read(&format!("{readable}\n"), 10_000).await, format!("{readable}\n"));
        let deep = line(DEPTH_MAX - 1);
        assert!(serde_json::from_str::<serde_json::Value>(&deep).is_err());
        let instead = String::from_utf8(failed(7, TOO_DEEP, &deeper_than_read())).unwrap();
        assert_eq!(
            read(&format!("{deep}\nnext\n"), 10_000).await,
            format!("{deep}\n{instead}next\n")
        );
    }

    #[tokio::test]
    async fn the_last_line_that_is_no_message_is_kept() {
        let stray = Stray::default();
        let message = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
        let said = format!("Welcome!\n\n{{}}\n{message}\n");
        let mut incoming = Incoming::new(said.as_bytes(), 1_000, stray.clone());
        incoming.read_to_end(&mut Vec::new()).await.unwrap();
        assert!(stray.in_words().ends_with(": {}"), "{stray:?}");
    }

    #[tokio::test]
    async fn who_says_nothing_but_what_is_no_message_is_not_listened_to_for_ever() {
        let message = "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n";
        for line in ["{}\n", "{\"jsonrpc\":\"2.0\"}\n"] {
            let few = line.repeat(STRAYS_MAX - 1);
            let said = format!("{few}\n{message}{few}");
            assert_eq!(read(&said, 1_000).await, said, "a message is among them");
            let stray = Stray::default();
            let said = format!("{few}\n{line}{message}");
            let mut incoming = Incoming::new(said.as_bytes(), 1_000, stray.clone());
            let mut read = String::new();
            incoming.read_to_string(&mut read).await.unwrap();
            assert_eq!(read, format!("{few}\n{line}"));
            assert!(stray.in_words().contains("the last of 10000 such lines"), "{stray:?}");
        }
    }

    #[tokio::test]
    async fn what_answers_nothing_is_left_as_it_is() {
        let long = "x".repeat(20_000);
        for line in [
            format!(r#"{{"jsonrpc":"2.0","id":7,"method":"roots/list","params":"{long}"}}"#),
            format!(r#"{{"method":"roots/list","params":"{long}","jsonrpc":"2.0","id":7}}"#),
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"text":"{long}","id":7}}}}"#),
            format!(r#"{{"result":{{"text":"{long}","id":7}}}}"#),
            long,
        ] {
            let said = format!("{line}\n");
            assert_eq!(read(&said, 10_000).await, said);
        }
    }
}
