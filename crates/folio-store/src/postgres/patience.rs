//! Trying again what may pass: a server that restarts, or another one that takes its place.

use std::time::Duration;

use tokio::time::Instant;

use super::error::Failure;
use super::open::PATIENCE;

/// How long after the first failure the next attempt is made; then twice as long.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// How long somebody has been trying.
#[derive(Debug)]
pub(super) struct Patience {
    start: Instant,
    pause: Duration,
}

impl Patience {
    /// Begins now.
    pub(super) fn begin() -> Self {
        Self {
            start: Instant::now(),
            pause: AGAIN_AFTER,
        }
    }

    /// What is said in the end: `attempt`, unless it failed for something that may pass and there is time for another one. That
    /// should be made when this returns.
    pub(super) async fn after<T>(&mut self, attempt: Result<T, Failure>) -> Option<Result<T, Failure>> {
        match attempt {
            Err(failure) if failure.may_pass() && self.start.elapsed() + self.pause < PATIENCE => {
                tokio::time::sleep(self.pause).await;
                self.pause *= 2;
                None
            }
            done => Some(done),
        }
    }
}

/// Tries a block until it is done, fails for good, or has failed for as long as anybody is ready to wait.
macro_rules! patiently {
    ($attempt:block) => {{
        let mut patience = $crate::postgres::patience::Patience::begin();
        loop {
            let attempt = async $attempt.await;
            if let Some(done) = patience.after(attempt).await {
                break done;
            }
        }
    }};
}
pub(super) use patiently;
