//! A transport that reads from a server no faster than the server reads our answers. The library queues what cannot be
//! written yet without a limit, so a program that keeps sending requests and reads nothing would make the queue grow
//! without end.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Semaphore;

/// The most answers to a server's requests that may wait to be written. For a program that reads, there are a handful
/// at most.
const UNWRITTEN_ANSWERS_MAX: usize = 1_000;

/// The room for answers that wait to be written.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<Semaphore>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(UNWRITTEN_ANSWERS_MAX)))
    }
}

impl Room {
    /// Returns whether the server sends requests and does not read the answers.
    pub(crate) fn is_full(&self) -> bool {
        self.0.available_permits() == 0
    }
}

/// The transport, with room for answers.
pub(crate) struct Paced<T> {
    transport: T,
    room: Room,
}

impl<T> Paced<T> {
    pub(crate) fn new(transport: T, room: Room) -> Self {
        Self { transport, room }
    }
}

impl<T: Transport<RoleClient> + 'static> Transport<RoleClient> for Paced<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        // Requests to the server are limited by their callers. If they counted here, nothing would be read from a
        // server that answers one call before it reads the next.
        let is_answer = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let room = is_answer.then(|| Arc::clone(&self.room.0).try_acquire_owned().ok());
        let sending = self.transport.send(item);
        async move {
            let sent = sending.await;
            drop(room);
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        drop(self.room.0.acquire().await.ok()?);
        self.transport.receive().await
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.transport.close()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rmcp::transport::async_rw::AsyncRwTransport;
    use rmcp::{ErrorData, model::RequestId};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn peer_is_not_read_until_it_reads_its_answers() {
        let (ours, mut theirs) = tokio::io::duplex(256);
        let (output, input) = tokio::io::split(ours);
        let room = Room::default();
        let mut paced = Paced::new(AsyncRwTransport::new_client(output, input), room.clone());
        theirs
            .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
            .await
            .unwrap();
        let answer = || JsonRpcMessage::error(ErrorData::internal_error("no", None), Some(RequestId::Number(1)));
        // The first few are written.
        while !room.is_full() {
            drop(tokio::spawn(paced.send(answer())));
            tokio::task::yield_now().await;
        }
        let waited = tokio::time::timeout(Duration::from_millis(50), paced.receive()).await;
        assert!(waited.is_err(), "{waited:?}");
        let mut read = vec![0; 4096];
        let reading = async { while theirs.read(&mut read).await.unwrap() > 0 {} };
        let heard = tokio::select! {
            heard = paced.receive() => heard,
            () = reading => None,
        };
        assert!(matches!(heard, Some(JsonRpcMessage::Request(_))), "{heard:?}");
    }
}
