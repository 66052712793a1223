//! Counts the files that this process has open, so that it can end when they are closed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

static OPEN: Mutex<usize> = Mutex::new(0);
static CLOSED: Condvar = Condvar::new();

/// Counts as one open file for as long as anything lives that may have a connection to it.
#[derive(Debug)]
pub(super) struct Open(());

impl Open {
    /// Counts one more open file.
    pub(super) fn new() -> Arc<Self> {
        *OPEN.lock() += 1;
        Arc::new(Self(()))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        *OPEN.lock() -= 1;
        CLOSED.notify_all();
    }
}

/// Waits until every store that was open in this process is closed, for `patience` at most; returns whether all are.
/// Blocks.
///
/// The last connection that closes a file moves the write-ahead log into it. A program that ends while a store is still
/// open leaves that log behind, where it could be taken for the log of another file.
pub fn wait_until_closed(patience: Duration) -> bool {
    let mut open = OPEN.lock();
    CLOSED.wait_while_for(&mut open, |open| *open > 0, patience);
    *open == 0
}
