//! Reads all commits of a space, part by part.

use folio_memory::{Seq, SpaceName};
use folio_store::{LogRow, Store, StoreError};

/// The whole log of `space`, the oldest commit first.
///
/// # Errors
///
/// As [`Store::changes`].
pub async fn whole_log(store: &dyn Store, space: &SpaceName) -> Result<Vec<LogRow>, StoreError> {
    let mut log: Vec<LogRow> = Vec::new();
    loop {
        let since = log.last().map_or(Seq(0), |row| row.seq);
        let rows = store.changes(space, since, u32::MAX).await?;
        if rows.is_empty() {
            return Ok(log);
        }
        log.extend(rows);
    }
}
