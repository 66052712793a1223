//! Which files this process has open, so that it can end when they are closed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

static OPEN: Mutex<usize> = Mutex::new(0);
static CLOSED: Condvar = Condvar::new();

/// Counts as an open file for as long as anything that may have a connection to it lives.
#[derive(Debug)]
pub(super) struct Open(());

impl Open {
    /// One more.
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

/// Waits until everything that was open in this process is closed, `patience` at most; whether it is. Blocks.
///
/// Whoever closes a file last moves its write-ahead log into it. A program that ends while something still has a store open leaves the
/// log lying, where it could be taken for that of another file.
pub fn wait_until_closed(patience: Duration) -> bool {
    let mut open = OPEN.lock();
    CLOSED.wait_while_for(&mut open, |open| *open > 0, patience);
    *open == 0
}
