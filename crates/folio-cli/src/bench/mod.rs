//! `folio bench`: what durable work costs on this machine, compared with the best that its disk can do.

mod adds;
pub(crate) mod fanout;
mod processes;
mod runs;
mod shapes;
pub(crate) mod store;

use std::fmt::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use folio::store::sqlite::{wait_until_closed, yardstick};
use serde::Serialize;

use crate::CLOSING_PATIENCE;
use crate::error::Failure;
use crate::output::{Output, Report, Style};

/// The size of a row of the bare commits, in bytes: about that of a small observation's record.
const ROW_BYTES: usize = 600;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// How many adds one writer makes; of several writers each makes as many, up to a limit.
    pub(crate) adds: u32,
    /// The number of steps in the chain.
    pub(crate) chain: u32,
    /// How often the tree and the wide run are repeated.
    pub(crate) repeats: u32,
}

impl Extent {
    /// Measures for about half a minute.
    pub(crate) const FULL: Self = Self {
        adds: 2_000,
        chain: 2_000,
        repeats: 5,
    };
    /// Measures for a few seconds.
    pub(crate) const QUICK: Self = Self {
        adds: 300,
        chain: 300,
        repeats: 1,
    };
}

/// Everything that was measured. Times are medians; every acknowledged write is durable (a full sync).
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    sync_us: f64,
    bare_commit_us: f64,
    adds: Vec<adds::Adds>,
    /// The rate of 64 writers relative to that of one.
    adds_64_to_1: f64,
    /// The time of one add relative to that of one bare commit of the same size.
    add_to_bare_commit: f64,
    runs: Vec<runs::RunFigures>,
    chain: runs::ChainFigures,
    processes: processes::ProcessFigures,
}

/// Measures everything in files below `folder`.
pub(crate) async fn measure(folder: &Path, extent: Extent, output: &Output) -> Result<Figures, Failure> {
    output.note("measuring the disk");
    let syncs = yardstick::syncs(folder, 500)?;
    let adds = {
        output.note("measuring durable adds with 1, 8 and 64 writers");
        let mut adds = Vec::new();
        for writers in [1, 8, 64] {
            adds.push(adds::measure(folder, writers, extent.adds).await?);
        }
        adds
    };
    let bare = yardstick::bare_commits(&folder.join("bare.db"), extent.adds as usize, adds[0].record_bytes)?;
    output.note("measuring runs: a tree of 1,365 tasks, ten groups of a hundred");
    let runs = runs::measure(folder, extent.repeats).await?;
    output.note(format_args!("measuring a chain of {} steps", extent.chain));
    let chain = runs::measure_chain(folder, extent.chain).await?;
    output.note("measuring the start of a process and a take-over");
    let processes = processes::measure(folder)?;
    let rate = |index: usize| adds.get(index).map_or(f64::NAN, |adds| adds.per_second);
    Ok(Figures {
        sync_us: micros(median(syncs)),
        bare_commit_us: micros(median(bare.clone())),
        adds_64_to_1: rate(2) / rate(0),
        add_to_bare_commit: 1e6 / rate(0) / micros(mean(&bare)),
        adds,
        runs,
        chain,
        processes,
    })
}

impl Report for Figures {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        writeln!(out, "{}", style.strong("The disk"))?;
        writeln!(out, "  one sync                    {:>9.0} µs", self.sync_us)?;
        writeln!(out, "  one bare SQLite commit      {:>9.0} µs", self.bare_commit_us)?;
        writeln!(out, "\n{}", style.strong("Durable adds"))?;
        for adds in &self.adds {
            let (writers, rate, p50, p99) = (adds.writers, adds.per_second, adds.p50_us, adds.p99_us);
            writeln!(
                out,
                "  {writers:>2} writers                  {rate:>9.0} a second, p50 {p50:.0} µs, p99 {p99:.0} µs"
            )?;
        }
        writeln!(out, "  one add to a bare commit    {:>9.2} ×", self.add_to_bare_commit)?;
        writeln!(out, "  64 writers to one           {:>9.2} ×", self.adds_64_to_1)?;
        writeln!(
            out,
            "\n{}",
            style.strong("Runs, every node durable, a tool that answers at once")
        )?;
        for run in &self.runs {
            writeln!(
                out,
                "  {:<27} {:>9.3} ms a node, {:>6.0} bytes a node ({} nodes)",
                run.shape, run.ms_per_node, run.bytes_per_node, run.nodes
            )?;
        }
        let chain = &self.chain;
        writeln!(
            out,
            "  chain of {:<18} {:>9.3} ms a step, {:>6.0} bytes a step",
            chain.steps, chain.ms_per_step, chain.bytes_per_step
        )?;
        writeln!(out, "    to as many bare commits   {:>9.2} ×", chain.to_bare_commits)?;
        writeln!(
            out,
            "    first and last hundred    {:>9.3} and {:.3} ms a step",
            chain.ms_per_step_first, chain.ms_per_step_last
        )?;
        writeln!(out, "\n{}", style.strong("Processes"))?;
        writeln!(
            out,
            "  start to first step         {:>9.1} ms",
            self.processes.start_to_first_step_ms
        )?;
        writeln!(
            out,
            "  take-over to first new step {:>9.1} ms",
            self.processes.resume_to_first_step_ms
        )?;
        writeln!(
            out,
            "  of {} steps that were done, {} were done again; {} calls in flight were made again",
            self.processes.done_before, self.processes.calls_again, self.processes.calls_again_in_flight
        )
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn mean(durations: &[Duration]) -> Duration {
    durations.iter().sum::<Duration>() / u32::try_from(durations.len().max(1)).unwrap_or(u32::MAX)
}

fn median(durations: Vec<Duration>) -> Duration {
    quantile(durations, 0.5)
}

/// The smallest duration that at least the fraction `q` of all durations do not exceed; zero if there are none.
fn quantile(mut durations: Vec<Duration>, q: f64) -> Duration {
    durations.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index within the list"
    )]
    let index = ((durations.len() as f64 * q).ceil() as usize).saturating_sub(1);
    durations.get(index).copied().unwrap_or_default()
}

/// The size of a store's file and its write-ahead log once it is closed. The closing may still be under way: it moves
/// the log into the file, and the rest is what keeping the store costs.
async fn bytes_of_closed(path: &Path) -> u64 {
    // A store that is still open then is counted with its log.
    let _closed = tokio::task::spawn_blocking(|| wait_until_closed(CLOSING_PATIENCE)).await;
    let log = path.with_file_name(format!(
        "{}-wal",
        path.file_name().unwrap_or_default().to_string_lossy()
    ));
    [path, &log]
        .iter()
        .filter_map(|path| path.metadata().ok())
        .map(|meta| meta.len())
        .sum()
}
