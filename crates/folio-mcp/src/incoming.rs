//! What a program says, line by line. After an answer that is too long to be taken comes one that says so: the library drops
//! such a line without a word, and whoever waits for it would wait until the time is up.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rmcp::model::ErrorCode;
use serde_json::json;
use tokio::io::{AsyncBufRead as _, AsyncRead, BufReader, ReadBuf};

/// What stands for an answer that is too long. No server has this code: the protocol leaves it to nobody.
pub(crate) const TOO_LONG: ErrorCode = ErrorCode(-40_001);

/// Bytes at the beginning and at the end of a line that are looked at: what it answers stands in either of them.
const EDGE_BYTES: usize = 256;

/// The output of a program with lines of at most so many bytes.
#[derive(Debug)]
pub(crate) struct Incoming<R> {
    output: BufReader<R>,
    bytes_max: usize,
    line: Line,
    /// What is read next, before anything else of the program.
    instead: Vec<u8>,
}

/// What was read of a line.
#[derive(Debug, Default)]
struct Line {
    bytes: usize,
    begin: Vec<u8>,
    end: Vec<u8>,
}

impl<R: AsyncRead> Incoming<R> {
    pub(crate) fn new(output: R, bytes_max: usize) -> Self {
        Self {
            output: BufReader::new(output),
            bytes_max,
            line: Line::default(),
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
            if line.bytes > this.bytes_max
                && let Some(id) = line.answers()
            {
                this.instead = too_long(id, this.bytes_max);
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// What is said of an answer that is too long.
pub(crate) fn longer_than(bytes_max: usize) -> String {
    format!("its answer is longer than {bytes_max} bytes (`answer_bytes`)")
}

fn too_long(id: u64, bytes_max: usize) -> Vec<u8> {
    let error = json!({"code": TOO_LONG.0, "message": longer_than(bytes_max)});
    let error = json!({"jsonrpc": "2.0", "id": id, "error": error});
    format!("{error}\n").into_bytes()
}

impl Line {
    fn add(&mut self, piece: &[u8]) {
        self.bytes += piece.len();
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
        let mut incoming = Incoming::new(said.as_bytes(), bytes_max);
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
            let instead = String::from_utf8(too_long(7, 10_000)).unwrap();
            assert_eq!(read(&said, 10_000).await, format!("{line}\n{instead}next\n"));
            assert_eq!(read(&said, line.len() + 1).await, said, "as long as it may be");
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
