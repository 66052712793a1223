//! Durable adds by one writer and by many writers of one process.

use std::path::Path;
use std::time::Duration;

use folio::memory::SpacePolicy;
use folio::memory::keeping::QuotaPolicy;
use folio::{Actor, Folio, ObservationInput, Role, SpaceName, Workspace};
use serde::Serialize;
use tokio::time::Instant;

use super::{micros, quantile};
use crate::error::Failure;

/// The figures for a number of writers.
#[derive(Debug, Serialize)]
pub(crate) struct Adds {
    pub(super) writers: u32,
    pub(super) per_second: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// The size of one add in the log, in bytes.
    #[serde(skip)]
    pub(super) record_bytes: usize,
}

fn observation(number: u32) -> ObservationInput {
    ObservationInput {
        type_name: Some("contextual_insight".to_owned()),
        content: format!("src/lib.rs was touched by {number} of the last commits. ").repeat(4),
        tags: vec!["hot-file".to_owned(), "lang/rust".to_owned()],
        ..ObservationInput::default()
    }
}

/// Has `writers` tasks add `each` observations each (fewer if there are many writers), waiting for each one to be
/// durable.
pub(super) async fn measure(folder: &Path, writers: u32, each: u32) -> Result<Adds, Failure> {
    let path = folder.join(format!("adds-{writers}.db"));
    let folio = Folio::open(&format!("sqlite:{}", path.display())).await?;
    let each = (each * 8 / writers).clamp(1, each);
    measure_in(&folio.workspace(SpaceName::main()), writers, each).await
}

/// The same in an existing space, with `each` observations per writer.
pub(super) async fn measure_in(space: &Workspace, writers: u32, each: u32) -> Result<Adds, Failure> {
    // A limit beyond what is added: archiving when the space is full is not what is measured here.
    let policy = SpacePolicy {
        quota: QuotaPolicy {
            live_observations: u64::MAX,
        },
        ..SpacePolicy::default()
    };
    space
        .set_policy(&Actor::new(Role::Human, "bench"), policy, None, None)
        .await?;
    add(space, 1).await?;
    let began = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let space = space.clone();
            tokio::spawn(async move { add(&space, each).await })
        })
        .collect();
    let mut durations = Vec::new();
    for task in tasks {
        durations.extend(task.await.expect("a writer does not panic")?);
    }
    let elapsed = began.elapsed();
    Ok(Adds {
        writers,
        per_second: f64::from(writers * each) / elapsed.as_secs_f64(),
        p50_us: micros(quantile(durations.clone(), 0.5)),
        p99_us: micros(quantile(durations, 0.99)),
        record_bytes: record_bytes(space).await?,
    })
}

async fn add(space: &Workspace, count: u32) -> Result<Vec<Duration>, Failure> {
    let actor = Actor::new(Role::Tool, "bench");
    let mut durations = Vec::with_capacity(count as usize);
    for number in 0..count {
        let began = Instant::now();
        space.add_observation(&actor, observation(number), None).await?;
        durations.push(began.elapsed());
    }
    Ok(durations)
}

async fn record_bytes(space: &Workspace) -> Result<usize, Failure> {
    let head = space.store().head(space.space()).await?;
    let before = folio::memory::Seq(head.0.saturating_sub(1));
    let rows = space.store().changes(space.space(), before, 1).await?;
    Ok(rows.first().map_or(super::ROW_BYTES, |row| {
        serde_json::to_string(&row.record).unwrap_or_default().len()
    }))
}
