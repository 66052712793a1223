//! Changes several entries, one after the other.

use folio::Workspace;
use folio::memory::id::EntryRef;
use folio::store::{WorkspaceError, Written};

use crate::error::{Exit, Failure};

/// What was written, and what stopped the rest.
pub(crate) struct Several {
    written: Vec<Written>,
    broken_off: Option<Failure>,
}

impl Several {
    /// Does `each` to every one of `names`, up to the first failure. If one of them does not exist, nothing is done to
    /// any.
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
                // Reads the entry directly, so that the trace does not record it.
                workspace.store().entry(workspace.space(), *name).await?;
            }
        }
        let mut results = Self::from(Vec::new());
        for name in names {
            match each(name).await {
                Ok(written) => results.written.push(written),
                Err(error) if results.written.is_empty() => return Err(error.into()),
                Err(error) => {
                    results.broken_off = Some(error.into());
                    break;
                }
            }
        }
        Ok(results)
    }

    /// Reports what was written with `present`, then what stopped the rest.
    pub(crate) fn report(self, present: impl FnOnce(&[Written]) -> Result<Exit, Failure>) -> Result<Exit, Failure> {
        let outcome = present(&self.written);
        self.broken_off.map_or(outcome, Err)
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
