//! A connection that is closed when the client stops reading, or has gone.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How long to wait for a client that reads nothing of what is written for it, the same as for an export. What is kept
/// for it, and whoever produces it, is held no longer.
pub(super) const MAX_WRITE_STALL: Duration = Duration::from_secs(30);

/// A fact that the connection and the code that answers on it share.
#[derive(Debug, Clone, Default)]
pub(super) struct Flag(Arc<AtomicBool>);

impl Flag {
    pub(super) fn set(&self, value: bool) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the connection and the code that answers on it share.
#[derive(Debug, Clone, Default)]
pub(super) struct LineState {
    /// Whether the client waits for a stream of events, or reads one.
    pub(super) expects_events: Flag,
    /// Whether part of an answer waits for the client to read.
    pub(super) has_unread_output: Flag,
}

/// A connection to a client.
#[derive(Debug)]
pub(super) struct ClientStream {
    stream: TcpStream,
    state: LineState,
    /// The timer that runs while something waits to be read.
    standstill: Option<Pin<Box<Sleep>>>,
}

impl ClientStream {
    pub(super) fn new(stream: TcpStream, state: LineState) -> Self {
        Self {
            stream,
            state,
            standstill: None,
        }
    }

    /// Passes `written` on, or fails if the client has read nothing for too long.
    fn check_write_stall(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.state.has_unread_output.set(written.is_pending());
        if written.is_ready() {
            self.standstill = None;
            return written;
        }
        let timer = self.standstill.get_or_insert_with(|| Box::pin(sleep(MAX_WRITE_STALL)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Returns whether the client has closed its side while it expects a stream of events, as far as is known;
    /// registers to be woken when that changes. After a request for one answer, a client may close its side and wait;
    /// nobody would do that for a stream, whose end they bring about in this way.
    fn is_closed_by_client(&self, cx: &mut Context<'_>) -> bool {
        if !self.state.expects_events.is_set() {
            return false;
        }
        let mut byte = [0];
        let next = self.stream.poll_peek(cx, &mut ReadBuf::new(&mut byte));
        matches!(next, Poll::Ready(Ok(0) | Err(_)))
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.check_write_stall(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.check_write_stall(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_closed_by_client(cx) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
