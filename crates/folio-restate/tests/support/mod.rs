//! A shared store, and workers on it.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "shared by several tests, none of which needs all; one that cannot go on has failed"
)]

pub(crate) mod journals;

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use folio::Folio;
use folio_memory::SpaceName;
use folio_restate::{Ingress, Place, Worker, WorkerOptions};
use folio_runner::{Runner, RunnerOptions};
use folio_testkit::postgres::Database;
use folio_testkit::restate::Restate;
use folio_tools::Registry;
use tokio::sync::oneshot;

/// How long everything in a run waits here until the run is given up: shorter than any person takes to answer.
const PATIENCE: Duration = Duration::from_millis(100);

/// A database, and where Restate is.
pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) folio: Folio,
    ingress: Place,
    admin: Place,
    /// The address of all workers: Restate knows them by one address.
    listen: SocketAddr,
}

/// A worker in this process, until this is dropped.
pub(crate) struct Working {
    _end: oneshot::Sender<()>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Working {
    /// The worker's notes to people.
    pub(crate) fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }
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
            listen: free(),
        }
    }

    /// Makes workers listen on another address from now on.
    pub(crate) fn moves(&mut self) {
        self.listen = free();
    }

    /// The address of the workers.
    pub(crate) fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// The addresses of workers that Restate knows.
    pub(crate) async fn known(&self) -> Vec<String> {
        let answer = reqwest::get(format!("{}/deployments", self.admin)).await.unwrap();
        let known: serde_json::Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        let address = |known: &serde_json::Value| known["uri"].as_str().unwrap().to_owned();
        known["deployments"].as_array().unwrap().iter().map(address).collect()
    }

    /// Makes Restate forget all workers.
    pub(crate) async fn forget_all(&self) {
        let answer = reqwest::get(format!("{}/deployments", self.admin)).await.unwrap();
        let known: serde_json::Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        for known in known["deployments"].as_array().unwrap() {
            let address = format!(
                "{}/deployments/{}?force=true",
                self.admin,
                known["id"].as_str().unwrap()
            );
            let gone = reqwest::Client::new().delete(address).send().await.unwrap();
            assert!(gone.status().is_success(), "{gone:?}");
        }
    }

    /// Starts a worker; Restate knows it when this returns.
    pub(crate) async fn worker(&self, registry: Registry, runner: RunnerOptions) -> Working {
        self.worker_with(registry, runner, |_| ()).await
    }

    /// The same with other options.
    pub(crate) async fn worker_with(
        &self,
        registry: Registry,
        runner: RunnerOptions,
        otherwise: impl FnOnce(&mut WorkerOptions),
    ) -> Working {
        let mut options = WorkerOptions::new(self.listen, self.ingress.clone());
        options.admin = Some(self.admin.clone());
        options.patience = PATIENCE;
        options.look_every = Duration::from_millis(500);
        otherwise(&mut options);
        // A store of its own: a worker is another process.
        let folio = folio(&self.database.url()).await;
        let worker = Worker::bind(options, folio, registry, runner).unwrap();
        let (end, ended) = oneshot::channel::<()>();
        let (known, knows) = oneshot::channel();
        let known = Mutex::new(Some(known));
        let told = Arc::<Mutex<Vec<String>>>::default();
        let tells = Arc::clone(&told);
        tokio::spawn(async move {
            let end = async move {
                let _told = ended.await;
            };
            let said = |text: &str| {
                tells.lock().unwrap().push(text.to_owned());
                if text.starts_with("takes runs") {
                    known.lock().unwrap().take().map(|known| known.send(()));
                }
            };
            worker.run(end, said).await;
        });
        knows.await.unwrap();
        Working { _end: end, told }
    }

    /// A runner that submits runs for workers.
    pub(crate) fn runner(&self, registry: Registry, options: RunnerOptions) -> Runner {
        let options = RunnerOptions {
            dispatch: Some(Arc::new(Ingress::at(self.ingress.clone()).unwrap())),
            ..options
        };
        Runner::new(self.folio.workspace(SpaceName::main()), registry, options)
    }
}

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
