//! What is done to several entries, one after the other.

use folio::Workspace;
use folio::memory::id::EntryRef;
use folio::store::{WorkspaceError, Written};

use crate::error::{Exit, Failure};

/// What is written, and what kept the rest from it.
pub(crate) struct Several {
    written: Vec<Written>,
    broken_off: Option<Failure>,
}

impl Several {
    /// Does `each` to every one of `names`, up to the first that it cannot be done to. One that nothing has keeps it from all.
    ///
    /// # Errors
    ///
    /// Why nothing was written.
    pub(crate) async fn each(
        workspace: &Workspace,
        names: Vec<EntryRef>,
        each: impl AsyncFn(EntryRef) -> Result<Written, WorkspaceError>,
    ) -> Result<Self, Failure> {
        if names.len() > 1 {
            for name in &names {
                // Nobody reads it, so the trace says nothing of it.
                workspace.store().entry(workspace.space(), *name).await?;
            }
        }
        let mut done = Self::from(Vec::new());
        for name in names {
            match each(name).await {
                Ok(written) => done.written.push(written),
                Err(error) if done.written.is_empty() => return Err(error.into()),
                Err(error) => {
                    done.broken_off = Some(error.into());
                    break;
                }
            }
        }
        Ok(done)
    }

    /// Tells what is written with `tell`, then what kept the rest from it.
    pub(crate) fn told(self, tell: impl FnOnce(&[Written]) -> Result<Exit, Failure>) -> Result<Exit, Failure> {
        let told = tell(&self.written);
        self.broken_off.map_or(told, Err)
    }
}

impl From<Vec<Written>> for Several {
    fn from(written: Vec<Written>) -> Self {
        Self {
            written,
            broken_off: None,
        }
    }
}
