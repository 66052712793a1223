//! Input that tells when it is over: what only waits need not be waited for then.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

/// `inner`, of which `over` tells that it has ended.
#[derive(Debug)]
pub(super) struct Input<R> {
    pub(super) inner: R,
    pub(super) over: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.remaining();
        let read = ready!(Pin::new(&mut self.inner).poll_read(context, into));
        if read.is_err() || (before > 0 && into.remaining() == before) {
            self.over.cancel();
        }
        Poll::Ready(read)
    }
}
