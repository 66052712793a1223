//! Whole runs, with every node durable before the next.

use std::path::Path;
use std::time::Duration;

use folio::engine::{Event, Outcome};
use folio::memory::{RunId, Seq, Timestamp};
use folio::runner::{Runner, RunnerOptions};
use folio::store::sqlite::yardstick;
use folio::tools::Registry;
use folio::{Folio, SpaceName};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use super::{bytes_of_closed, mean, median, millis, shapes};
use crate::error::Failure;

/// The cost of a run of some shape.
#[derive(Debug, Serialize)]
pub(crate) struct RunFigures {
    pub(super) shape: &'static str,
    pub(super) nodes: usize,
    pub(super) ms_per_node: f64,
    pub(super) bytes_per_node: f64,
}

/// The cost of a chain.
#[derive(Debug, Serialize)]
pub(crate) struct ChainFigures {
    pub(super) steps: u32,
    pub(super) ms_per_step: f64,
    pub(super) ms_per_step_first: f64,
    pub(super) ms_per_step_last: f64,
    pub(super) bytes_per_step: f64,
    /// Its time relative to that of as many bare commits of the same size, made right before and right after it.
    pub(super) to_bare_commits: f64,
}

/// Measures the tree and the wide run, `repeats` times each in new files.
pub(super) async fn measure(folder: &Path, repeats: u32) -> Result<Vec<RunFigures>, Failure> {
    let mut figures = Vec::new();
    for (shape, steps) in [
        ("tree, 4 children, 5 deep", shapes::tree(4, 5)),
        ("10 groups of 100", shapes::wide(10, 100)),
    ] {
        let mut times = Vec::new();
        let (mut nodes, mut bytes) = (0, 0);
        for repeat in 0..repeats {
            let path = folder.join(format!("run-{}-{repeat}.db", figures.len()));
            let driven_run = drive(&path, &steps).await?;
            times.push(driven_run.elapsed);
            nodes = driven_run.nodes;
            drop(driven_run);
            bytes = bytes_of_closed(&path).await;
        }
        figures.push(RunFigures {
            shape,
            nodes,
            ms_per_node: millis(median(times)) / count(nodes),
            bytes_per_node: count(usize::try_from(bytes).unwrap_or(usize::MAX)) / count(nodes),
        });
    }
    Ok(figures)
}

/// Measures a chain of `steps`, between two series of as many bare commits.
pub(super) async fn measure_chain(folder: &Path, steps: u32) -> Result<ChainFigures, Failure> {
    let path = folder.join("chain.db");
    let before = yardstick::bare_commits(&folder.join("bare-before.db"), steps as usize, super::ROW_BYTES)?;
    let driven_run = drive(&path, &shapes::chain(steps)).await?;
    let after = yardstick::bare_commits(&folder.join("bare-after.db"), steps as usize, super::ROW_BYTES)?;
    let bare = (mean(&before) + mean(&after)) / 2;
    let times: Vec<Timestamp> = finishes(&driven_run).await?;
    // The first entry is the start of the first step: many steps may become durable at the same instant.
    let hundred = 100.min(times.len() / 2);
    let span = |from: usize, to: usize| match (times.get(from), times.get(to)) {
        (Some(from_at), Some(to_at)) if to > from => millis(to_at.since(*from_at)) / count(to - from),
        _ => f64::NAN,
    };
    let elapsed = driven_run.elapsed;
    drop(driven_run);
    let bytes = bytes_of_closed(&path).await;
    Ok(ChainFigures {
        steps,
        ms_per_step: millis(elapsed) / f64::from(steps),
        ms_per_step_first: span(0, hundred),
        ms_per_step_last: span(times.len().saturating_sub(hundred + 1), times.len().saturating_sub(1)),
        bytes_per_step: count(usize::try_from(bytes).unwrap_or(usize::MAX)) / f64::from(steps),
        to_bare_commits: elapsed.as_secs_f64() / (bare.as_secs_f64() * f64::from(steps)),
    })
}

/// A run that was measured.
#[derive(Debug)]
pub(super) struct Driven {
    folio: Folio,
    run: RunId,
    elapsed: Duration,
    nodes: usize,
}

async fn drive(path: &Path, steps: &Value) -> Result<Driven, Failure> {
    let folio = Folio::open(&format!("sqlite:{}", path.display())).await?;
    drive_in(folio, SpaceName::main(), steps).await
}

/// Drives a run of `steps` to its end, which must be a success.
pub(super) async fn drive_in(folio: Folio, space: SpaceName, steps: &Value) -> Result<Driven, Failure> {
    let runner = Runner::new(
        folio.workspace(space),
        Registry::with_builtins(),
        RunnerOptions::default(),
    );
    let new = shapes::new_run(steps);
    let began = Instant::now();
    let (run, _) = runner.submit(new).await?;
    let result = runner.drive(run).await?;
    let elapsed = began.elapsed();
    assert_eq!(
        result.status,
        Outcome::Ok,
        "a run that is measured must end well: {}",
        result.notes
    );
    let nodes = runner.load(run).await?.len();
    Ok(Driven {
        folio,
        run,
        elapsed,
        nodes,
    })
}

impl Driven {
    /// The time from submission to end.
    pub(super) fn elapsed(&self) -> Duration {
        self.elapsed
    }
}

/// When the first step began, and when each step's result was recorded.
async fn finishes(driven_run: &Driven) -> Result<Vec<Timestamp>, Failure> {
    let journal = driven_run
        .folio
        .store()
        .journal(&SpaceName::main(), driven_run.run, Seq(0))
        .await?;
    let mut has_begun = false;
    Ok(journal
        .events
        .iter()
        .filter(|(_, event)| match event {
            Event::Started { .. } => !std::mem::replace(&mut has_begun, true),
            event => matches!(event, Event::Finished { .. }),
        })
        .map(|(at, _)| *at)
        .collect())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts stay far below the limit of exact numbers"
)]
fn count(n: usize) -> f64 {
    n as f64
}
