//! The lines to a program and from it, each of them one message.

use std::future::ready;
use std::io;
use std::sync::Arc;

use futures_util::{Sink, SinkExt, Stream, StreamExt as _};
use parking_lot::Mutex;
use tokio::process::{ChildStdin, ChildStdout};
use tokio_util::codec::{AnyDelimiterCodec, FramedRead, FramedWrite, LinesCodec};

use super::heard::SessionState;
use super::output::{OutputLine, is_message, repaired_line};

/// The messages of the program. When its output exceeds `bytes_max`, reading stops, which ends the conversation.
pub(super) fn lines_from(
    stdout: ChildStdout,
    heard: Arc<Mutex<SessionState>>,
    bytes_max: usize,
) -> impl Stream<Item = io::Result<String>> + Send + 'static {
    let lines = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), Vec::new(), bytes_max);
    FramedRead::new(stdout, lines)
        // Lines are bytes: programs write logs in other encodings, and cut texts inside of characters.
        .map(|line| line.map(|bytes| OutputLine::of(&bytes)))
        .take_while(move |line| ready(heard.lock().take_line(line, bytes_max)))
        // The library answers lines that are not messages. A program that does the same would exchange such answers
        // until its time is over.
        .filter(|line| ready(line.as_ref().map_or(true, |line| is_message(&line.text))))
        .map(|line| line.map(|line| repaired_line(line.text)).map_err(io::Error::other))
}

/// Where messages for the program go.
pub(super) fn lines_to(
    stdin: ChildStdin,
    heard: Arc<Mutex<SessionState>>,
) -> impl Sink<String, Error = io::Error> + Send + 'static {
    let lines = FramedWrite::new(stdin, LinesCodec::new());
    SinkExt::<String>::sink_map_err(lines, move |error| {
        heard.lock().has_delivery_failed = true;
        io::Error::other(error)
    })
}
