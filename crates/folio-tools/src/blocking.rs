//! File work, kept off the threads that drive tasks.

use tokio_util::sync::CancellationToken;

use crate::response::ToolError;

/// Runs `work` on a thread that may block on a disk.
///
/// The token passed to `work` is cancelled when the caller gives up, by cancelling or by dropping the future.
pub(crate) async fn blocking<T: Send + 'static>(
    cancel: &CancellationToken,
    work: impl FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let token = cancel.child_token();
    let _ends_with_this_future = token.clone().drop_guard();
    match tokio::task::spawn_blocking(move || work(&token)).await {
        Ok(result) => result,
        // The registry turns the panic into an answer.
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The process is about to end.
        Err(_) => Err(ToolError::cancelled()),
    }
}
