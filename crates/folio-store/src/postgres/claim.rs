//! Claims of runs. Whoever claims one may stop waiting, because its runtime ends for example, while the claim is under
//! way: then the run is given up again, since nobody is there to drive it.

use std::sync::Arc;

use folio_memory::{RunId, SpaceName};
use tokio::runtime::Handle;

use super::{Inner, run};
use crate::error::StoreError;
use crate::store::OwnerId;

/// A claim that somebody wants.
pub(super) struct Wanted {
    pub(super) inner: Arc<Inner>,
    /// Where the run is given up if nobody takes what was granted.
    pub(super) runtime: Handle,
    pub(super) space: SpaceName,
    pub(super) run: RunId,
    pub(super) owner: OwnerId,
}

impl Wanted {
    /// Claims the run; `None` if it has to be tried again later.
    pub(super) async fn claim(self) -> Result<Option<Granted>, StoreError> {
        let claimed = self.inner.write_in(&self.space, |session, inner| {
            let owner = self.owner.clone();
            async move { run::claim(session.as_deref(), self.run, &owner, &inner.owners).await }
        });
        let fence = claimed.await?;
        Ok(fence.map(|fence| Granted {
            wanted: Some(self),
            fence,
        }))
    }
}

/// A claim that was granted. Dropped before it is taken, it is given up.
pub(super) struct Granted {
    /// `None` once it was taken.
    wanted: Option<Wanted>,
    fence: u64,
}

impl Granted {
    /// The fence, for whoever drives the run from now on.
    pub(super) fn taken(mut self) -> u64 {
        self.wanted = None;
        self.fence
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        let Some(Wanted {
            inner,
            runtime,
            space,
            run,
            ..
        }) = self.wanted.take()
        else {
            return;
        };
        let fence = self.fence;
        let giving_up = async move {
            let released = inner.write_in(&space, |session, _| async move {
                match session.as_deref() {
                    Some(session) => run::release(session, run, fence).await,
                    None => Ok(()),
                }
            });
            // If this fails, the claim lasts as long as its owner.
            drop(released.await);
        };
        drop(runtime.spawn(giving_up));
    }
}
