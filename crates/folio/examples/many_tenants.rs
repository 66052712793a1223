//! A service with a space and a runner for each of its tenants: how it starts, what it does for a request, how it ends.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use folio::engine::plan;
use folio::runner::{Driven, NewRun, ResumedRuns, Runner, RunnerError, RunnerOptions};
use folio::store::{ErrorKind, RequestKey};
use folio::tools::Registry;
use folio::{Actor, Folio, Role, SpaceName};
use tokio::task::JoinSet;

const PLAN: &str = "title: Count\nsteps: [{id: count, do: {tool: text, args: {op: echo, value: 3}}}]";
/// How long what is under way has to end when the service ends.
const GRACE: Duration = Duration::from_secs(10);

struct Service {
    folio: Folio,
    /// All runners share the tools, the models and their limits. Each is made once.
    runners: HashMap<SpaceName, Runner>,
    resumed: Vec<ResumedRuns>,
    driving: JoinSet<Result<(), RunnerError>>,
}

impl Service {
    /// Opens the store, and resumes what an earlier process left.
    async fn start(url: &str) -> Result<Self, Box<dyn Error>> {
        let folio = Folio::open(url).await?;
        let main = folio.workspace(SpaceName::main());
        let main = Runner::new(main, Registry::with_builtins(), RunnerOptions::default());
        let (mut runners, mut resumed) = (HashMap::new(), Vec::new());
        for space in folio.store().spaces().await? {
            let runner = main.in_space(space.clone());
            resumed.push(runner.resume_leftovers().await?);
            runners.insert(space, runner);
        }
        runners.entry(SpaceName::main()).or_insert(main);
        Ok(Self {
            folio,
            runners,
            resumed,
            driving: JoinSet::new(),
        })
    }

    /// Submits a run for a tenant; a repeated request with the same `key` finds the run of the first one.
    async fn order(&mut self, tenant: &str, key: &str) -> Result<String, Box<dyn Error>> {
        let space: SpaceName = tenant.parse()?;
        let main = &self.runners[&SpaceName::main()];
        let runner = self
            .runners
            .get(&space)
            .cloned()
            .unwrap_or_else(|| main.in_space(space.clone()));
        self.runners.entry(space).or_insert_with(|| runner.clone());
        let actor = Actor::new(Role::Client, "orders");
        let plan = plan::parse(PLAN, &runner.known())?;
        let key = RequestKey::new(key, key, &[PLAN.as_bytes()]);
        let submitted = runner.asked_under(key).submit_once(NewRun::of(plan, actor)).await?;
        if !submitted.replayed {
            self.driving.spawn(async move {
                runner
                    .drive(submitted.id)
                    .await
                    .map(|result| println!("ended: {}", result.status))
            });
        }
        Ok(submitted.handle.to_string())
    }

    /// Lets what is under way end, gives up every run where it is, and closes the store.
    async fn stop(mut self) -> bool {
        self.runners[&SpaceName::main()].leave();
        let ended = async {
            while let Some(driven) = self.driving.join_next().await {
                match driven {
                    Ok(Ok(()) | Err(RunnerError::Leaving)) => {}
                    // Another process was quicker.
                    Ok(Err(error)) if error.kind() == ErrorKind::Conflict => {}
                    failed => eprintln!("{failed:?}"),
                }
            }
            for resumed in &mut self.resumed {
                while let Some((row, driven)) = resumed.next().await {
                    match driven {
                        Ok(Driven::Ended(result)) => println!("{} ended: {}", row.handle, result.status),
                        waits => println!("{} goes on later: {waits:?}", row.handle),
                    }
                }
            }
        };
        if tokio::time::timeout(GRACE, ended).await.is_err() {
            eprintln!("what is still under way is given up");
        }
        // Tasks that go on would keep the store open.
        self.driving.shutdown().await;
        for resumed in std::mem::take(&mut self.resumed) {
            resumed.shutdown().await;
        }
        let folio = self.folio.clone();
        drop(self);
        folio.close(GRACE).await
    }
}

/// Starts the service, takes two orders, and ends it.
#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("folio.db").display());
    let mut service = Service::start(&url).await?;
    for tenant in ["house-a", "house-b"] {
        let run = service.order(tenant, "order-1").await?;
        assert_eq!(service.order(tenant, "order-1").await?, run, "the same order");
    }
    assert!(service.stop().await);
    let service = Service::start(&url).await?;
    assert_eq!(service.runners.len(), 3);
    assert!(service.stop().await);
    Ok(())
}
