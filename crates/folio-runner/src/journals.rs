//! Checks whether the journals of all runs of a store can be read: what `folio doctor` checks beyond the store's own
//! check.

use std::sync::Arc;

use folio_engine::template::Templates;
use folio_memory::SpaceName;
use folio_memory::causes::with_causes;
use folio_memory::counted::counted;
use folio_store::{Checkup, ErrorKind, RunQuery, RunRow, Store, StoreError};

use crate::error::RunnerError;
use crate::watch::Watch;

/// How many runs are queried at a time.
const RUNS_PER_QUERY: u32 = 500;

/// Folds the journal of every run of every space, as for showing it, until `found` has enough problems. A journal that
/// cannot be folded is a problem; one that a newer version wrote is not. The results are added to `found`.
///
/// The store's own check compares its rows with its log; only the engine knows whether the events make a run. Keeps one
/// part of one journal in memory at a time, and the run that it makes.
///
/// # Errors
///
/// `Store` if the store became unavailable.
pub async fn check_journals(store: &Arc<dyn Store>, found: &mut Checkup) -> Result<(), RunnerError> {
    let templates = Arc::new(Templates::new());
    let mut runs = 0_u64;
    for space in store.spaces().await? {
        let mut query = RunQuery {
            limit: RUNS_PER_QUERY,
            ..RunQuery::default()
        };
        while !found.is_full() {
            let rows = match store.runs(&space, &query).await {
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    found.problems.push(format!("space {space}: {}", with_causes(&error)));
                    break;
                }
                rows => rows?,
            };
            for row in rows.iter().filter(|row| !row.is_forgotten()) {
                if found.is_full() {
                    break;
                }
                runs += 1;
                found.problems.extend(problem_of(store, &space, row, &templates).await?);
            }
            query.before = rows.last().map(|row| row.handle.0);
            if rows.len() < RUNS_PER_QUERY as usize {
                break;
            }
        }
    }
    let summary = format!("the journals of {}, each from its first event", counted(runs, "run"));
    found.checked.push(summary);
    Ok(())
}

/// Why the run of `row` cannot be shown, if that is so.
async fn problem_of(
    store: &Arc<dyn Store>,
    space: &SpaceName,
    row: &RunRow,
    templates: &Arc<Templates>,
) -> Result<Option<String>, RunnerError> {
    let mut watch = Watch::with_templates(Arc::clone(store), space.clone(), row.id, Arc::clone(templates));
    match watch.catch_up().await {
        Ok(_) => Ok(None),
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Some(format!(
            "space {space}: run {}: {}",
            row.handle,
            with_causes(&error)
        ))),
        // That is not damage, whoever finds it.
        Err(
            RunnerError::Journal { .. }
            | RunnerError::Store(StoreError::RunTooNew { .. } | StoreError::RunForgotten { .. }),
        ) => Ok(None),
        Err(error) => Err(error),
    }
}
