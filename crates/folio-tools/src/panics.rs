//! Code that is called here and written elsewhere may panic: that is a failure of the call alone, and affects nothing
//! else.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Awaits `work`, and turns a panic in it into its message.
///
/// The work stays in this future, so that dropping it drops the work; a spawned task would go on.
///
/// # Errors
///
/// The message of the panic.
pub async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = pin!(work);
    // A future that panicked is not polled again and is dropped, so nothing half-changed in it is ever seen.
    poll_fn(|cx| match caught_now(|| work.as_mut().poll(cx)) {
        Ok(poll) => poll.map(Ok),
        Err(message) => Poll::Ready(Err(message)),
    })
    .await
}

/// Does the same for a function that does not wait.
///
/// # Errors
///
/// The message of the panic.
pub fn caught_now<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message_of(&*panic))
}

pub(crate) fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "it panicked without a message".to_owned())
}
