//! The output of a program, line by line, in a form that the library can read. An answer that is too long, nested too
//! deeply or not valid JSON is replaced by an error that says so: the library would silently drop such a line, and the
//! caller would wait until the time is up. The last line that is not a message is kept, since it may explain why
//! nothing else comes.

use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use folio_memory::excerpt::short_line;
use folio_memory::readable::readable;
use folio_process::printed;
use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::ErrorCode;
use rmcp::service::RxJsonRpcMessage;
use serde::Serialize;
use serde_json::json;
use tokio::io::{AsyncBufRead as _, AsyncRead, BufReader, ReadBuf};

/// The error code of the replacement for an answer that is too long. No server uses this code: the protocol assigns it
/// to nobody.
pub(crate) const TOO_LONG: ErrorCode = ErrorCode(-40_001);

/// The error code of the replacement for an answer that is nested too deeply.
pub(crate) const TOO_DEEP: ErrorCode = ErrorCode(-40_002);

/// The error code of the replacement for an answer that cannot be read.
pub(crate) const UNREADABLE: ErrorCode = ErrorCode(-40_003);

/// The deepest nesting of an answer that is read: the limit of the library that reads JSON.
const DEPTH_MAX: usize = 127;
/// Bytes at the beginning and at the end of a line that are examined: the id that it answers is in one of them.
const EDGE_BYTES: usize = 256;
/// The most consecutive lines that are not messages. The library answers those that are JSON, and a program that
/// answered each such answer with another would do so forever. A program that prints its log stays below.
const STRAYS_MAX: usize = 10_000;
/// The most characters that are kept of a line that is not a message.
const STRAY_CHARS: usize = 120;

/// The output of a program, with a limit on the bytes of a line.
#[derive(Debug)]
pub(crate) struct Incoming<R> {
    output: BufReader<R>,
    bytes_max: usize,
    line: Line,
    stray: Stray,
    strays_in_a_row: usize,
    /// Bytes that are read next, before more of the program's output, and how many of them were read.
    ready: (Vec<u8>, usize),
}

/// The last line that was not a message, if there was one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stray(Arc<Mutex<Option<String>>>);

impl Stray {
    fn set_last(&self, line: String, in_a_row: usize) {
        let line = match in_a_row {
            STRAYS_MAX => {
                format!("{line} (the last of {STRAYS_MAX} such lines in a row, after which its output is ignored)")
            }
            _ => line,
        };
        *self.0.lock() = Some(line);
    }

    /// Returns the line as an addition to an error message; empty if there was none.
    pub(crate) fn in_words(&self) -> String {
        let line = self.0.lock();
        printed(line.as_deref(), None)
    }
}

/// What was read of the current line.
#[derive(Debug, Default)]
struct Line {
    bytes: usize,
    nesting: Nesting,
    begin: Vec<u8>,
    end: Vec<u8>,
    /// The whole line, unless it is too long.
    whole: Vec<u8>,
    /// Whether it was refused before its end.
    is_refused: bool,
}

impl<R: AsyncRead> Incoming<R> {
    pub(crate) fn new(output: R, bytes_max: usize, stray: Stray) -> Self {
        Self {
            output: BufReader::new(output),
            bytes_max,
            line: Line::default(),
            stray,
            strays_in_a_row: 0,
            ready: (Vec::new(), 0),
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Incoming<R> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let left = &this.ready.0[this.ready.1..];
            if !left.is_empty() {
                let length = left.len().min(buffer.remaining());
                buffer.put_slice(&left[..length]);
                this.ready.1 += length;
                return Poll::Ready(Ok(()));
            }
            this.ready = (Vec::new(), 0);
            if this.strays_in_a_row >= STRAYS_MAX {
                // Treated as if the program had closed its output.
                return Poll::Ready(Ok(()));
            }
            let chunk = ready!(Pin::new(&mut this.output).poll_fill_buf(context))?;
            if chunk.is_empty() {
                // An unfinished line is not a line.
                return Poll::Ready(Ok(()));
            }
            let end = chunk
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(chunk.len(), |at| at + 1);
            let is_whole = chunk[..end].ends_with(b"\n");
            let was_within = this.line.bytes <= this.bytes_max;
            this.line.add(&chunk[..end], this.bytes_max);
            Pin::new(&mut this.output).consume(end);
            if is_whole {
                let line = std::mem::take(&mut this.line);
                this.note_stray(&line);
                this.ready.0 = line.into_readable(this.bytes_max);
            } else if was_within && this.line.bytes > this.bytes_max {
                // The end of the line may never come.
                this.ready.0 = this.line.refuse(this.bytes_max);
            }
        }
    }
}

impl<R> Incoming<R> {
    /// Keeps a line that is not a message, and counts consecutive ones.
    fn note_stray(&mut self, line: &Line) {
        if let Some(text) = line.stray() {
            self.strays_in_a_row += 1;
            self.stray.set_last(text, self.strays_in_a_row);
        } else if !line.is_empty() {
            self.strays_in_a_row = 0;
        }
    }
}

/// Returns the message for an answer that is too long.
pub(crate) fn longer_than(bytes_max: usize) -> String {
    format!("its answer is longer than {bytes_max} bytes (`answer_bytes`)")
}

/// Returns the message for an answer that is nested too deeply.
pub(crate) fn deeper_than_read() -> String {
    format!("its answer is nested more than {DEPTH_MAX} levels deep")
}

/// Returns the message for an answer that cannot be read.
pub(crate) fn not_readable() -> String {
    "its answer cannot be read".to_owned()
}

/// Returns a line with the error `reason` in the place of the answer to the request `id`.
pub(crate) fn error_response(id: impl Serialize, code: ErrorCode, reason: &str) -> String {
    let error = json!({"code": code.0, "message": reason});
    let error = json!({"jsonrpc": "2.0", "id": id, "error": error});
    format!("{error}\n")
}

/// Measures how deeply the JSON of a line is nested.
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

    /// Returns the beginning of the line if it is not a message.
    fn stray(&self) -> Option<String> {
        let is_in = |edge: &[u8], key: &str| String::from_utf8_lossy(edge).contains(key);
        let has = |key: &str| is_in(&self.begin, key) || is_in(&self.end, key);
        let text = String::from_utf8_lossy(&self.begin);
        let text = text.trim();
        let markers = [r#""method""#, r#""result""#, r#""error""#];
        // The middle of a longer line is not known.
        let says_something = self.bytes > EDGE_BYTES || markers.into_iter().any(has);
        let is_message = text.starts_with('{') && has(r#""jsonrpc""#) && says_something;
        (!text.is_empty() && !is_message).then(|| short_line(text, STRAY_CHARS))
    }

    /// Returns the error in the place of a line that is too long already, if its beginning says what it answers.
    fn refuse(&mut self, bytes_max: usize) -> Vec<u8> {
        let id = self.id_at_the_beginning();
        self.is_refused = id.is_some();
        id.map_or_else(Vec::new, |id| {
            error_response(id, TOO_LONG, &longer_than(bytes_max)).into_bytes()
        })
    }

    /// Returns what the library gets to read: the line itself or, for an answer that cannot be accepted, an error that
    /// says so.
    fn into_readable(mut self, bytes_max: usize) -> Vec<u8> {
        if self.is_refused {
            return Vec::new();
        }
        let content = std::mem::take(&mut self.whole);
        let (code, reason) = if self.bytes > bytes_max {
            (TOO_LONG, longer_than(bytes_max))
        } else if self.nesting.deepest > DEPTH_MAX {
            (TOO_DEEP, deeper_than_read())
        } else {
            let line = match readable(&content) {
                Cow::Owned(mended) => mended,
                Cow::Borrowed(_) => content,
            };
            // Checked only for answers: nobody waits for anything else.
            let is_taken = || serde_json::from_slice::<RxJsonRpcMessage<RoleClient>>(&line).is_ok();
            if self.answered_id().is_none() || is_taken() {
                return line;
            }
            (UNREADABLE, not_readable())
        };
        self.answered_id()
            .map_or_else(Vec::new, |id| error_response(id, code, &reason).into_bytes())
    }

    fn add(&mut self, piece: &[u8], bytes_max: usize) {
        self.bytes += piece.len();
        if self.bytes <= bytes_max {
            self.whole.extend_from_slice(piece);
        } else {
            self.whole = Vec::new();
        }
        piece.iter().for_each(|byte| self.nesting.add(*byte));
        let missing = EDGE_BYTES.saturating_sub(self.begin.len()).min(piece.len());
        self.begin.extend_from_slice(&piece[..missing]);
        self.end
            .extend_from_slice(&piece[piece.len().saturating_sub(EDGE_BYTES)..]);
        self.end.drain(..self.end.len().saturating_sub(EDGE_BYTES));
    }

    /// Returns the number of the request that the line answers, if it is an answer that has the number first, or last
    /// as some libraries write it.
    fn answered_id(&self) -> Option<u64> {
        self.id_at_the_beginning().or_else(|| self.id_at_the_end())
    }

    fn id_at_the_beginning(&self) -> Option<u64> {
        let beginning = self.beginning()?;
        let (id, rest) = beginning.strip_prefix(r#""id":"#)?.split_once(',')?;
        id.parse().ok().filter(|_| is_answer(after_version(rest)))
    }

    fn id_at_the_end(&self) -> Option<u64> {
        let is_answer = is_answer(&self.beginning()?);
        let end = without_spaces(&self.end);
        let end = end.strip_suffix('}').filter(|_| is_answer)?;
        let end = end.strip_suffix(VERSION).map_or(end, |end| end.trim_end_matches(','));
        let (_, id) = end.rsplit_once(r#""id":"#)?;
        id.parse().ok()
    }

    /// Returns the beginning of the object without the version.
    fn beginning(&self) -> Option<String> {
        let text = without_spaces(&self.begin);
        Some(after_version(text.strip_prefix('{')?).to_owned())
    }
}

/// The version of the protocol, as a line has it.
const VERSION: &str = r#""jsonrpc":"2.0""#;

fn without_spaces(edge: &[u8]) -> String {
    let text = String::from_utf8_lossy(edge);
    text.chars().filter(|c| !c.is_ascii_whitespace()).collect()
}

fn after_version(text: &str) -> &str {
    let rest = text.strip_prefix(VERSION).and_then(|rest| rest.strip_prefix(','));
    rest.unwrap_or(text)
}

/// Returns whether it is an answer: a request of the server has an id, too, so it must have a result or an error.
fn is_answer(text: &str) -> bool {
    text.starts_with(r#""result":"#) || text.starts_with(r#""error":"#)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn read(said: &str, bytes_max: usize) -> String {
        let mut read = String::new();
        let mut incoming = Incoming::new(said.as_bytes(), bytes_max, Stray::default());
        incoming.read_to_string(&mut read).await.unwrap();
        read
    }

    #[tokio::test]
    async fn too_long_answer_is_replaced_by_an_error() {
        let long = "x".repeat(20_000);
        let nested = format!(r#"{{"structuredContent":{{"id":3,"text":"{long}","last":{{"id":4}}}}}}"#);
        for line in [
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{nested}}}"#),
            format!(r#"{{"id": 7, "jsonrpc": "2.0", "result": {nested}}}"#),
            format!(r#"{{"result":{nested},"jsonrpc":"2.0","id":7}}"#),
            format!(r#"{{"error":{{"code":1,"message":"no","data":{nested}}},"id":7,"jsonrpc":"2.0"}}"#),
        ] {
            let said = format!("{line}\nnext\n");
            let instead = error_response(7, TOO_LONG, &longer_than(10_000));
            assert_eq!(read(&said, 10_000).await, format!("{instead}next\n"));
            assert_eq!(read(&said, line.len() + 1).await, said, "as long as it may be");
        }
    }

    #[tokio::test]
    async fn too_long_answer_is_refused_before_its_line_ends() {
        let (mut program, output) = tokio::io::duplex(64 * 1024);
        let mut incoming = Incoming::new(output, 10_000, Stray::default());
        let begun = format!(
            r#"{{"jsonrpc":"2.0","id":7,"result":{{"id":3,"text":"{}"#,
            "x".repeat(20_000)
        );
        program.write_all(begun.as_bytes()).await.unwrap();
        let instead = error_response(7, TOO_LONG, &longer_than(10_000));
        let mut read = vec![0; instead.len()];
        incoming.read_exact(&mut read).await.unwrap();
        assert_eq!(String::from_utf8(read).unwrap(), instead);
        program.write_all(b"\"}}\nnext\n").await.unwrap();
        drop(program);
        let mut rest = String::new();
        incoming.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "next\n", "refused once");
    }

    #[tokio::test]
    async fn too_deeply_nested_answer_is_replaced_by_an_error() {
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
        let instead = error_response(7, TOO_DEEP, &deeper_than_read());
        assert_eq!(
            read(&format!("{deep}\nnext\n"), 10_000).await,
            format!("{instead}next\n")
        );
    }

    #[tokio::test]
    async fn lone_surrogate_is_repaired_and_invalid_json_becomes_an_error() {
        let line =
            |text: &str| format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":[],"structuredContent":{text}}}}}"#);
        for (text, heard) in [(r#""a \ud83c""#, r#""a \ufffd""#), ("1e999", r#""1e999""#)] {
            assert_eq!(
                read(&format!("{}\n", line(text)), 1_000).await,
                format!("{}\n", line(heard))
            );
        }
        let instead = error_response(7, UNREADABLE, &not_readable());
        for broken in [line("{a:1}"), line("NaN"), line(r#""\q""#)] {
            assert_eq!(read(&format!("{broken}\n"), 1_000).await, instead, "{broken}");
        }
    }

    #[tokio::test]
    async fn last_stray_line_is_kept_for_diagnosis() {
        let stray = Stray::default();
        let message = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
        let said = format!("Welcome!\n\n{{}}\n{message}\n");
        let mut incoming = Incoming::new(said.as_bytes(), 1_000, stray.clone());
        incoming.read_to_end(&mut Vec::new()).await.unwrap();
        assert!(stray.in_words().ends_with(": {}"), "{stray:?}");
    }

    #[tokio::test]
    async fn reading_ends_after_too_many_consecutive_stray_lines() {
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
    async fn lines_other_than_answers_pass_unchanged_unless_too_long() {
        for line in [
            r#"{"jsonrpc":"2.0","id":7,"method":"roots/list","params":"x"}"#,
            r#"{"method":"roots/list","params":"x","jsonrpc":"2.0","id":7}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"text":"x","id":7}}"#,
            r#"{"result":{"text":"x","id":7}}"#,
            "x",
        ] {
            let said = format!("{line}\n");
            assert_eq!(read(&said, 10_000).await, said);
            let long = format!("{}\n", line.replace('x', &"x".repeat(20_000)));
            assert_eq!(
                read(&format!("{long}{said}"), 10_000).await,
                said,
                "nobody waits for it"
            );
        }
    }
}
