//! The runs that this worker drives.
//!
//! Each run is driven by a task of its own. If Restate loses the connection of a call, it repeats the call, here or
//! elsewhere; the task goes on meanwhile, and a repeated call here waits for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use folio::Folio;
use folio::memory::id::Ref;
use folio::memory::{RunId, SpaceName};
use folio::runner::{Driven, Runner, RunnerError, RunnerOptions};
use folio::tools::Registry;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinError;

use crate::place::RunKey;

/// How long a run waits for a free place before it is passed on, because another worker may have one.
const FREE_PLACE_WAIT: Duration = Duration::from_secs(1);

/// The outcome of driving a run, shared by all that wait for it.
pub(crate) type Drove = Result<Driven, Arc<NotDriven>>;

/// Why a run was not driven further.
#[derive(Debug)]
pub(crate) enum NotDriven {
    /// The worker drives as many runs as it may.
    Busy,
    /// Driving it failed.
    Failed(RunnerError),
    /// The task that drove it panicked. Its claim stays until this process ends, unless the run is driven here again.
    Broke(JoinError),
}

/// Drives runs of all spaces of one store.
#[derive(Debug)]
pub(crate) struct Drives {
    folio: Folio,
    /// The runner that those of all spaces are made from: they share the places for model calls, and their end.
    first: Runner,
    /// How long everything in a run must be waiting before the run is released.
    patience: Duration,
    places: Arc<Semaphore>,
    runners: Mutex<HashMap<SpaceName, Runner>>,
    under_way: Mutex<HashMap<RunId, Shared<BoxFuture<'static, Drove>>>>,
}

impl Drives {
    /// Starts without runs. At most `most` runs are driven at once; others wait a little, and are then passed on.
    pub(crate) fn new(
        folio: Folio,
        registry: Registry,
        options: RunnerOptions,
        patience: Duration,
        most: usize,
    ) -> Self {
        let first = Runner::new(folio.workspace(SpaceName::main()), registry, options);
        Self {
            folio,
            first,
            patience,
            places: Arc::new(Semaphore::new(most)),
            runners: Mutex::default(),
            under_way: Mutex::default(),
        }
    }

    /// The store with the runs.
    pub(crate) fn folio(&self) -> &Folio {
        &self.folio
    }

    /// Drives a run until it has ended or waits; if it is driven here already, waits for that.
    pub(crate) fn drive(self: &Arc<Self>, key: &RunKey) -> Shared<BoxFuture<'static, Drove>> {
        let mut under_way = self.under_way.lock();
        if let Some(running) = under_way.get(&key.run) {
            return running.clone();
        }
        let (drives, key, run) = (Arc::clone(self), key.clone(), key.run);
        let task = tokio::spawn(async move {
            let outcome = drives.drive_in_place(&key).await;
            let mut under_way = drives.under_way.lock();
            under_way.remove(&run);
            outcome.map_err(Arc::new)
        });
        let forgets = Arc::clone(self);
        let future = async move {
            task.await.unwrap_or_else(|join_error| {
                let mut under_way = forgets.under_way.lock();
                under_way.remove(&run);
                Err(Arc::new(NotDriven::Broke(join_error)))
            })
        };
        let future = future.boxed().shared();
        under_way.insert(run, future.clone());
        future
    }

    async fn drive_in_place(&self, key: &RunKey) -> Result<Driven, NotDriven> {
        // The semaphore is never closed.
        let permit = tokio::time::timeout(FREE_PLACE_WAIT, self.places.acquire()).await;
        let Ok(_place) = permit else {
            return Err(NotDriven::Busy);
        };
        let runner = self.runner(key).await.map_err(NotDriven::Failed)?;
        let outcome = runner.drive_while_due(key.run, self.patience).await;
        outcome.map_err(NotDriven::Failed)
    }

    /// Begins nothing more, and waits until nothing is under way.
    pub(crate) async fn wind_down(&self) {
        self.first.leave();
        let left: Vec<_> = {
            let under_way = self.under_way.lock();
            under_way.values().cloned().collect()
        };
        for running in left {
            let _over = running.await;
        }
    }

    /// The runner of a space. Kept only once one of its runs exists, because a caller can name any space.
    async fn runner(&self, key: &RunKey) -> Result<Runner, RunnerError> {
        if let Some(runner) = self.runners.lock().get(&key.space) {
            return Ok(runner.clone());
        }
        let runner = self.first.in_space(key.space.clone());
        runner.row(Ref::Id(key.run)).await?;
        Ok(self.runners.lock().entry(key.space.clone()).or_insert(runner).clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use folio::engine::plan;
    use folio::memory::{Actor, Role};
    use folio::model::{Delta, Model, ModelError, Reply, Request, StopCause, ToolCall, Usage};
    use folio::runner::{NewRun, RunnerModel, RunnerModels};
    use serde_json::json;

    use super::*;

    /// A model that takes a while, and counts how many of its calls were under way at once.
    #[derive(Debug, Default)]
    struct Counting {
        now: AtomicUsize,
        most: AtomicUsize,
    }

    #[async_trait]
    impl Model for Counting {
        async fn reply(&self, _: &Request, _: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            for _ in 0..10_000 {
                tokio::task::yield_now().await;
            }
            self.now.fetch_sub(1, Ordering::SeqCst);
            Ok(Reply {
                permissions: Vec::new(),
                stop: StopCause::ToolCalls,
                text: String::new(),
                tool_calls: vec![ToolCall {
                    id: "1".to_owned(),
                    tool: "finish".to_owned(),
                    args: json!({"status": "ok", "notes": "done"}),
                }],
                usage: Some(Usage::default()),
            })
        }
    }

    #[tokio::test]
    async fn calls_of_a_model_at_a_time_are_counted_over_the_runs_of_all_spaces() {
        let model = Arc::new(Counting::default());
        let options = RunnerOptions {
            models: Some(RunnerModels::one(
                RunnerModel::new("counting", Arc::<Counting>::clone(&model)).at_a_time(1),
            )),
            ..RunnerOptions::default()
        };
        let folio = Folio::open("memory:").await.unwrap();
        let drives = Arc::new(Drives::new(
            folio.clone(),
            Registry::with_builtins(),
            options,
            Duration::ZERO,
            8,
        ));
        let mut under_way = Vec::new();
        for space in ["main", "other", "third"].map(|name| SpaceName::parse(name).unwrap()) {
            let runner = drives.first.in_space(space.clone());
            let plan = plan::parse("steps: [{id: a, title: Look}]", &runner.known()).unwrap();
            let new = NewRun::of(plan, Actor::new(Role::Human, "ada"));
            let (run, _) = runner.submit(new).await.unwrap();
            under_way.push(drives.drive(&RunKey { space, run }));
        }
        for outcome in under_way {
            assert!(matches!(outcome.await, Ok(Driven::Ended(_))));
        }
        assert_eq!(model.most.load(Ordering::SeqCst), 1);
    }
}
