//! The metrics of the server, in the format of Prometheus.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use folio::engine::Run;
use folio::memory::RunId;
use folio::runner::Runner;
use folio::store::{RunQuery, RunRow, StoreError};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

use super::problem::Problem;

/// The upper bounds of the histogram buckets, in seconds.
const BUCKET_SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// How long the store may take to answer until it counts as away.
const STORE_TIMEOUT: Duration = Duration::from_secs(4);
/// The number of runs that are counted, the newest.
const MAX_COUNTED_RUNS: u32 = 1_000;
/// The label of a run that has not ended and is not driven although something in it is due: it waits to be resumed.
const WAITING_LABEL: &str = "waiting";
/// The label of one in which everything waits, for people or for a time, or is paused: it needs nobody to drive it.
const IDLE_LABEL: &str = "idle";
/// The label of a path without a route: made-up paths must not become label values.
const NO_ROUTE: &str = "none";
/// The label of a method that is not one of the nine of HTTP.
const OTHER_METHOD: &str = "other";

/// The metrics of the server as a whole. Those of a space are read when they are requested. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    registry: Arc<Registry>,
    requests: Family<Answered, Counter>,
    seconds: Family<Asked, Histogram>,
    store_bytes: Gauge,
    streams: Gauge,
    spans_lost: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    method: String,
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: String,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    status: String,
}

/// Counts a live stream as open until it is dropped.
#[derive(Debug)]
pub(crate) struct Watcher(Gauge);

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Creates the metrics. The size of the store is left out if the store has no files of its own, and lost spans are
    /// left out if there is no collector.
    pub(crate) fn new(has_files: bool, has_collector: bool) -> Self {
        let mut registry = Registry::with_prefix("folio");
        let seconds = || Histogram::new(BUCKET_SECONDS);
        let metrics = Self {
            registry: Arc::default(),
            requests: Family::default(),
            seconds: Family::new_with_constructor(seconds as fn() -> Histogram),
            store_bytes: Gauge::default(),
            streams: Gauge::default(),
            spans_lost: Counter::default(),
        };
        registry.register("http_requests", "Answered requests", metrics.requests.clone());
        registry.register_with_unit(
            "http_request_duration",
            "Time until the answer began",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        if has_files {
            registry.register_with_unit(
                "store",
                "The size of the store's files",
                Unit::Bytes,
                metrics.store_bytes.clone(),
            );
        }
        registry.register("event_streams", "Open live streams", metrics.streams.clone());
        if has_collector {
            registry.register(
                "spans_lost",
                "Spans of runs that their collector did not accept",
                metrics.spans_lost.clone(),
            );
        }
        Self {
            registry: Arc::new(registry),
            ..metrics
        }
    }

    /// Counts one more live stream.
    pub(crate) fn watcher(&self) -> Watcher {
        self.streams.inc();
        Watcher(self.streams.clone())
    }

    /// Returns the current metrics of the space of `runner` in the text format of OpenMetrics, and, if `of_server`,
    /// those of the server as well: its request counts would tell clients of one space what those of others do.
    pub(crate) async fn text(&self, runner: &Runner, of_server: bool) -> Result<String, Problem> {
        let of_space = build_space_metrics(runner).await;
        let mut text = String::new();
        if of_server {
            self.refresh_gauges(runner).await;
            encode_registry(&mut text, &self.registry).map_err(encode_problem)?;
        }
        encode_registry(&mut text, &of_space).map_err(encode_problem)?;
        encode_eof(&mut text).map_err(encode_problem)?;
        Ok(text)
    }

    /// Updates the metrics of the server that are not counted as events happen. The size of a store whose files cannot
    /// be read now stays as it was.
    async fn refresh_gauges(&self, runner: &Runner) {
        if let Some(lost) = runner.untold() {
            self.spans_lost.inner().fetch_max(lost, Ordering::Relaxed);
        }
        if let Ok(Some(bytes)) = runner.workspace().store().bytes().await {
            self.store_bytes.set(saturating_i64(bytes));
        }
    }
}

/// Returns the metrics of the space of `runner`. They are built for each request: two may ask for different spaces at
/// the same time. While the store is away, those that it knows are left out.
async fn build_space_metrics(runner: &Runner) -> Registry {
    let workspace = runner.workspace();
    let mut registry = Registry::with_prefix("folio");
    let is_up = Gauge::<i64, AtomicI64>::default();
    registry.register("store_up", "Whether the store answers: 1 or 0", is_up.clone());
    let waiting = Gauge::<i64, AtomicI64>::default();
    registry.register(
        "trace_notes_waiting",
        "Notes for the trace of the space that are not written yet",
        waiting.clone(),
    );
    let dropped: Counter = Counter::default();
    registry.register(
        "trace_notes_dropped",
        "Notes for the trace of the space that were dropped because they could not be written",
        dropped.clone(),
    );
    let notes = workspace.notes_state();
    waiting.set(saturating_i64(notes.waiting as u64));
    dropped.inner().store(notes.dropped, Ordering::Relaxed);
    let of_store = tokio::time::timeout(STORE_TIMEOUT, add_store_metrics(runner, &mut registry)).await;
    is_up.set(i64::from(matches!(of_store, Ok(Ok(())))));
    registry
}

/// Adds what only the store knows to `registry`, or nothing if it does not answer.
async fn add_store_metrics(runner: &Runner, registry: &mut Registry) -> Result<(), StoreError> {
    let (store, space) = (runner.workspace().store(), runner.workspace().space());
    let head = store.head(space).await?;
    let query = RunQuery {
        limit: MAX_COUNTED_RUNS,
        ..RunQuery::default()
    };
    let runs = store.runs(space, &query).await?;
    let commits = Gauge::<i64, AtomicI64>::default();
    registry.register("commits", "The number of the last commit of the space", commits.clone());
    commits.set(saturating_i64(head.0));
    let states: Family<InState, Gauge> = Family::default();
    registry.register("runs", "The newest 1,000 runs, by status", states.clone());
    let running = runs.iter().filter(|row| row.status == Run::RUNNING);
    let running = running.map(|row| row.id).collect();
    let now = runner.workspace().now();
    let summaries = store.runs_so_far(space, running).await?;
    let idle = summaries.into_iter().filter(|(_, summary)| summary.waits_at(now));
    let idle: HashSet<RunId> = idle.map(|(id, _)| id).collect();
    let status_of = |row: &RunRow| match row.status.as_str() {
        Run::RUNNING if idle.contains(&row.id) => IDLE_LABEL.to_owned(),
        Run::RUNNING if row.driven => Run::RUNNING.to_owned(),
        Run::RUNNING => WAITING_LABEL.to_owned(),
        status => status.to_owned(),
    };
    let mut counts: HashMap<String, u64> = HashMap::new();
    for row in &runs {
        *counts.entry(status_of(row)).or_default() += 1;
    }
    for status in Run::STATUSES.into_iter().chain([WAITING_LABEL, IDLE_LABEL]) {
        let label = InState {
            status: status.to_owned(),
        };
        let count = counts.get(status).copied().unwrap_or_default();
        states.get_or_create(&label).set(saturating_i64(count));
    }
    Ok(())
}

fn saturating_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn encode_problem(error: std::fmt::Error) -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
}

/// Returns the label of `method`: made-up methods must not become label values.
fn method_of(method: &Method) -> &str {
    let known = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
        Method::TRACE,
        Method::CONNECT,
    ];
    if known.contains(method) {
        method.as_str()
    } else {
        OTHER_METHOD
    }
}

/// Counts a request, and measures the time until its answer begins.
pub(crate) async fn count_request(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or(NO_ROUTE, MatchedPath::as_str).to_owned();
    let method = method_of(request.method()).to_owned();
    let began = Instant::now();
    let response = next.run(request).await;
    let route_labels = Asked {
        method: method.clone(),
        route: route.clone(),
    };
    metrics
        .seconds
        .get_or_create(&route_labels)
        .observe(began.elapsed().as_secs_f64());
    let response_labels = Answered {
        method,
        route,
        status: response.status().as_u16(),
    };
    metrics.requests.get_or_create(&response_labels).inc();
    response
}

/// Returns `text`, which is OpenMetrics, or the older text format of Prometheus for a client that accepts only that.
pub(crate) fn answer(text: String, accept: &str) -> Response {
    let accepts = |kind: &str| accept.split(',').any(|range| range.trim().starts_with(kind));
    if accepts("text/plain") && !accepts("application/openmetrics-text") {
        let kind = "text/plain; version=0.0.4; charset=utf-8";
        return ([(header::CONTENT_TYPE, kind)], to_prometheus_text(&text)).into_response();
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Converts OpenMetrics to the older text format: there, a counter's type line has the `_total` suffix of its sample,
/// and there is no end marker.
fn to_prometheus_text(text: &str) -> String {
    let lines = text.lines().filter(|line| *line != "# EOF");
    let renamed = lines.map(|line| match line.strip_suffix(" counter") {
        Some(name) if name.starts_with("# TYPE ") => format!("{name}_total counter\n"),
        _ => format!("{line}\n"),
    });
    renamed.collect()
}

#[cfg(test)]
mod tests {
    use folio::runner::{DriveFollower, Observer, RunnerOptions};
    use folio::{Folio, SpaceName};
    use folio_testkit::FaultyStore;

    use super::*;

    #[derive(Debug)]
    struct LosingObserver(u64);

    impl Observer for LosingObserver {
        fn drive_started(&self, _: DriveFollower) {}

        fn unreported_count(&self) -> Option<u64> {
            Some(self.0)
        }
    }

    #[tokio::test]
    async fn process_metrics_are_there_while_the_store_is_away() {
        let open = Folio::open("memory:").await.unwrap();
        let store = Arc::new(FaultyStore::new(Arc::clone(open.store())));
        let workspace = Folio::on(store.clone()).workspace(SpaceName::main());
        let runner = Runner::new(
            workspace,
            folio::tools::Registry::with_builtins(),
            RunnerOptions::default(),
        );
        let metrics = Metrics::new(false, false);
        let lines = async || {
            let text = metrics.text(&runner, true).await.unwrap();
            let has = |line: &str| text.lines().any(|found| found == line);
            (
                has("folio_store_up 1"),
                has("folio_commits 0"),
                has("folio_event_streams 0"),
            )
        };
        assert_eq!(lines().await, (true, true, true));
        store.take_away();
        assert_eq!(lines().await, (false, false, true));
        store.heal();
        assert_eq!(lines().await, (true, true, true));
    }

    #[tokio::test]
    async fn lost_spans_metric_is_present_only_with_a_collector() {
        for (observer, told) in [
            (None, None),
            (
                Some(Arc::new(LosingObserver(7)) as Arc<dyn Observer>),
                Some("folio_spans_lost_total 7"),
            ),
        ] {
            let options = RunnerOptions {
                observer,
                ..RunnerOptions::default()
            };
            let space = Folio::open("memory:").await.unwrap().workspace(SpaceName::main());
            let runner = Runner::new(space, folio::tools::Registry::with_builtins(), options);
            let metrics = Metrics::new(false, runner.untold().is_some());
            for _ in 0..2 {
                let text = metrics.text(&runner, true).await.unwrap();
                assert_eq!(text.lines().find(|line| line.starts_with("folio_spans_lost")), told);
            }
        }
    }
}
