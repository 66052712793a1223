//! Which files this process has open, so that it can end when they are closed.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

static OPEN: Mutex<usize> = Mutex::new(0);
static CLOSED: Condvar = Condvar::new();

/// Counts as an open file for as long as anything that may have a connection to it lives.
#[derive(Debug)]
pub(super) struct Open(());

impl Open {
    /// One more.
    pub(super) fn new() -> Arc<Self> {
        *OPEN.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Arc::new(Self(()))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        *OPEN.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        CLOSED.notify_all();
    }
}

/// Waits until everything that was open in this process is closed, `patience` at most; whether it is. Blocks.
///
/// Whoever closes a file last moves its write-ahead log into it. A program that ends while something still has a store open leaves the
/// log lying, where it could be taken for that of another file.
pub fn wait_until_closed(patience: Duration) -> bool {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = CLOSED.wait_timeout_while(open, patience, |open| *open > 0);
    let (open, _) = waited.unwrap_or_else(PoisonError::into_inner);
    *open == 0
}
