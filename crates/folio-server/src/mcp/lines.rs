//! The messages of a conversation as lines. Lines that cannot be read are answered with errors, by the same writer as
//! everything else.

use std::io;

use futures_util::future::BoxFuture;
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader, Empty};
use tokio_util::sync::CancellationToken;

use super::MAX_MESSAGE_BYTES;
use super::id_search::IdSearch;
use super::input::{self, Line};
use super::pending_requests::{PendingRequests, id_of_answered, id_of_cancelled, id_of_request};

/// Reads messages from `R`, one per line, and writes them to `W`.
pub(super) struct Lines<R, W: AsyncWrite> {
    read: BufReader<R>,
    /// The part of the current line that was read.
    line: Vec<u8>,
    /// Set while a line that is too long is being skipped.
    skipped_line: Option<IdSearch>,
    /// The writer. It has nothing to read.
    out: AsyncRwTransport<RoleServer, Empty, W>,
    /// An answer that is being sent. Nothing is read until it is sent: otherwise answers would pile up for a client
    /// that does not read them.
    answering: Option<BoxFuture<'static, io::Result<()>>>,
    /// The requests that are being answered.
    pending_requests: PendingRequests,
    /// Cancelled when the input has ended, so that requests that only wait stop waiting.
    input_ended: CancellationToken,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Creates the transport, which cancels `over` when `read` has ended.
    pub(super) fn new(read: R, write: W, over: CancellationToken) -> Self {
        Self {
            read: BufReader::new(read),
            line: Vec::new(),
            skipped_line: None,
            out: AsyncRwTransport::new_server(tokio::io::empty(), write),
            answering: None,
            pending_requests: PendingRequests::default(),
            input_ended: over,
        }
    }

    /// Returns the next whole line, or `None` when the input has ended. Cancel safe: dropping the future loses nothing.
    async fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            let available = self.read.fill_buf().await?;
            if available.is_empty() {
                return Ok(None);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            match &mut self.skipped_line {
                Some(search) => search.feed(part),
                None if self.line.len() + part.len() > MAX_MESSAGE_BYTES => {
                    let mut search = IdSearch::default();
                    search.feed(&std::mem::take(&mut self.line));
                    search.feed(part);
                    self.skipped_line = Some(search);
                }
                None => self.line.extend_from_slice(part),
            }
            let used = part.len() + usize::from(end.is_some());
            self.read.consume(used);
            if end.is_none() {
                continue;
            }
            if let Some(search) = self.skipped_line.take() {
                return Ok(Some(input::line_too_long(search.into_id())));
            }
            let line = input::parse_line(&self.line);
            self.line.clear();
            return Ok(Some(line));
        }
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(&mut self, item: TxJsonRpcMessage<RoleServer>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        if let Some(id) = id_of_answered(&item) {
            self.pending_requests.remove_answered(id);
        }
        self.out.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            // The send is kept in `self`, since this future is dropped whenever the service has something else to do.
            if let Some(answering) = &mut self.answering {
                let sent = answering.await;
                self.answering = None;
                if sent.is_err() {
                    break;
                }
            }
            match self.next_line().await {
                Ok(Some(Line::Message(message))) => {
                    if let Some(id) = id_of_cancelled(&message) {
                        self.pending_requests.remove_answered(id);
                    }
                    match id_of_request(&message).map(|id| self.pending_requests.begin(id)) {
                        None | Some(Ok(())) => return Some(*message),
                        Some(Err(error)) => {
                            self.answering = Some(Box::pin(self.out.send(JsonRpcMessage::Error(*error))));
                        }
                    }
                }
                Ok(Some(Line::Nothing)) => {}
                Ok(Some(Line::Refused(error))) => {
                    self.answering = Some(Box::pin(self.out.send(JsonRpcMessage::Error(*error))));
                }
                Ok(None) | Err(_) => break,
            }
        }
        self.input_ended.cancel();
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        self.out.close().await
    }
}
