//! A store that several share, and workers on it.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "shared by several tests, none of which needs all; one that cannot go on has failed"
)]

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use folio::Folio;
use folio_memory::{RunId, Seq, SpaceName};
use folio_restate::{Ingress, Place, Worker, WorkerOptions};
use folio_runner::{Runner, RunnerOptions};
use folio_testkit::postgres::Database;
use folio_testkit::restate::Restate;
use folio_tools::Registry;
use regex::Regex;
use serde_json::Value;
use tokio::sync::oneshot;

/// How long everything in a run waits here until the run is given up: shorter than any person answers.
const PATIENCE: Duration = Duration::from_millis(100);

/// A database, and where Restate is.
pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) folio: Folio,
    ingress: Place,
    admin: Place,
    /// Where all workers listen: Restate knows them by one address.
    listen: SocketAddr,
}

/// A worker in this process, until this is dropped.
pub(crate) struct Working {
    _end: oneshot::Sender<()>,
}

pub(crate) async fn folio(url: &str) -> Folio {
    Folio::open(url).await.unwrap()
}

impl Shared {
    pub(crate) async fn new(restate: &Restate) -> Self {
        let database = Database::fresh();
        Self {
            folio: folio(&database.url()).await,
            database,
            ingress: restate.ingress(0).parse().unwrap(),
            admin: restate.admin(0).parse().unwrap(),
            listen: TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap(),
        }
    }

    /// A worker that Restate knows when this returns.
    pub(crate) async fn worker(&self, registry: Registry, runner: RunnerOptions) -> Working {
        let mut options = WorkerOptions::new(self.listen, self.ingress.clone());
        options.admin = Some(self.admin.clone());
        options.patience = PATIENCE;
        options.look_every = Duration::from_millis(500);
        // A store of its own: a worker is another process.
        let folio = folio(&self.database.url()).await;
        let worker = Worker::bind(options, folio, registry, runner).unwrap();
        let (end, ended) = oneshot::channel::<()>();
        let (known, knows) = oneshot::channel();
        let known = std::sync::Mutex::new(Some(known));
        tokio::spawn(async move {
            let end = async move {
                let _told = ended.await;
            };
            let said = |text: &str| {
                if text.starts_with("takes runs") {
                    known.lock().unwrap().take().map(|known| known.send(()));
                }
            };
            worker.run(end, said).await;
        });
        knows.await.unwrap();
        Working { _end: end }
    }

    /// Submits runs that workers drive.
    pub(crate) fn runner(&self, registry: Registry, options: RunnerOptions) -> Runner {
        let options = RunnerOptions {
            dispatch: Some(Arc::new(Ingress::at(self.ingress.clone()).unwrap())),
            ..options
        };
        Runner::new(self.folio.workspace(SpaceName::main()), registry, options)
    }
}

/// The events of a run without what no two runs have in common: ids are numbered as they appear, times are left out.
pub(crate) async fn journal(runner: &Runner, run: RunId) -> Vec<Value> {
    let journal = runner.workspace().journal(run, Seq(0)).await.unwrap();
    let mut names = Names::default();
    let events = journal.events.iter().map(|(_, event)| {
        let mut event = serde_json::to_value(event).unwrap();
        names.replace(&mut event);
        event
    });
    events.collect()
}

struct Names {
    ids: Regex,
    times: Regex,
    known: HashMap<String, String>,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            ids: Regex::new(r"\b([a-z]+_[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{16}|[0-9a-f]{64})\b").unwrap(),
            times: Regex::new(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z\b|\b\d+(\.\d+)?(ms|µs)\b").unwrap(),
            known: HashMap::new(),
        }
    }
}

impl Names {
    fn replace(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                let known = &mut self.known;
                let named = self.ids.replace_all(text, |found: &regex::Captures<'_>| {
                    let number = known.len();
                    known
                        .entry(found[0].to_owned())
                        .or_insert_with(|| format!("ID{number}"))
                        .clone()
                });
                *text = self.times.replace_all(&named, "TIME").into_owned();
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace(item)),
            Value::Object(fields) => {
                // How long a prompt is depends on the ids in it.
                const ACCIDENTS: [&str; 5] = ["duration_us", "deadline", "until", "tokens_in", "tokens_out"];
                fields.retain(|name, _| !ACCIDENTS.contains(&name.as_str()));
                fields.iter_mut().for_each(|(_, field)| self.replace(field));
            }
            _ => {}
        }
    }
}
