//! A connection that is given up when whoever is at the other end takes nothing, or has gone.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How long a reader is waited for who takes nothing of what is written for him: as long as one of an export is. What is kept for him, and
/// whoever gathers it, is held no longer.
pub(super) const STANDSTILL_MAX: Duration = Duration::from_secs(30);

/// Something that whoever answers and the connection know of one another.
#[derive(Debug, Clone, Default)]
pub(super) struct Flag(Arc<AtomicBool>);

impl Flag {
    pub(super) fn set(&self, is_so: bool) {
        self.0.store(is_so, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Line {
    stream: TcpStream,
    /// Whether what is being answered is a stream of events.
    live: Flag,
    /// Whether something of an answer waits to be taken.
    owed: Flag,
    /// Runs while something waits to be taken.
    standstill: Option<Pin<Box<Sleep>>>,
}

impl Line {
    pub(super) fn new(stream: TcpStream, live: Flag, owed: Flag) -> Self {
        Self {
            stream,
            live,
            owed,
            standstill: None,
        }
    }

    /// What `written` comes to: an error if nothing was taken for too long.
    fn within_time(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.owed.set(written.is_pending());
        if written.is_ready() {
            self.standstill = None;
            return written;
        }
        let waits = self.standstill.get_or_insert_with(|| Box::pin(sleep(STANDSTILL_MAX)));
        ready!(waits.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Whether whoever is at the other end says nothing more, as far as that is known; it is woken when that changes. Where one answer is
    /// asked for, he may wait for it; a stream of events without an end nobody would ask for and then close.
    fn is_left(&self, cx: &mut Context<'_>) -> bool {
        if !self.live.is_set() {
            return false;
        }
        let mut byte = [0];
        let next = self.stream.poll_peek(cx, &mut ReadBuf::new(&mut byte));
        matches!(next, Poll::Ready(Ok(0) | Err(_)))
    }
}

impl AsyncRead for Line {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.within_time(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.within_time(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_left(cx) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
