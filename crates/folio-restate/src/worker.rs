//! Takes runs that Restate distributes, and drives them.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use folio::Folio;
use folio::runner::{RunnerError, RunnerOptions};
use folio::tools::Registry;
use parking_lot::Mutex;
use restate_sdk::endpoint::Endpoint;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::admin::Admin;
use crate::drives::Drives;
use crate::ingress::Ingress;
use crate::listen;
use crate::object::RunObject;
use crate::place::Place;
use crate::sweep::Sweep;

/// How many messages for people may be queued.
const QUEUED_MESSAGES_MAX: usize = 64;

/// The number of passes of the sweep (for runs that nobody drives) after which Restate is asked whether it still knows
/// of the worker.
const PASSES_PER_ADMIN_CHECK: u32 = 15;

/// Settings of a worker.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// The address on which it listens for Restate. Several workers of one machine may listen on the same address.
    pub listen: SocketAddr,
    /// The address at which Restate reaches it, or a load balancer before several workers; `None` for the address on
    /// which it listens.
    pub advertise: Option<Place>,
    /// The ingress of Restate: runs that nobody drives are submitted there.
    pub ingress: Place,
    /// The admin API of Restate, to register workers; `None` if they are registered by other means.
    pub admin: Option<Place>,
    /// The public key of Restate's signatures; calls without a valid signature are refused. `None` if whoever can reach
    /// the worker may call it.
    pub identity: Option<String>,
    /// How many runs are driven at the same time [default: 256].
    pub runs: usize,
    /// How long everything in a run must be waiting before the run is released until something is due [default: 2 s].
    pub patience: Duration,
    /// How often it looks for runs that nobody drives [default: 2 s].
    pub look_every: Duration,
    /// How long what is under way may take to end once the worker was told to stop [default: 10 s].
    pub grace: Duration,
}

impl WorkerOptions {
    /// Settings for a worker that listens on `listen` and submits runs at `ingress`, with the defaults for the rest.
    #[must_use]
    pub fn new(listen: SocketAddr, ingress: Place) -> Self {
        Self {
            listen,
            advertise: None,
            ingress,
            admin: None,
            identity: None,
            runs: 256,
            patience: Duration::from_secs(2),
            look_every: Duration::from_secs(2),
            grace: Duration::from_secs(10),
        }
    }
}

/// Why a worker cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The address cannot be bound.
    #[error("cannot listen at {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why it cannot be bound.
        #[source]
        source: std::io::Error,
    },
    /// The worker is to be registered with Restate, but listens on all addresses of this machine.
    #[error("Restate needs an address at which it can reach the worker, and {address} is not one")]
    NoAddress {
        /// The address on which it listens.
        address: SocketAddr,
    },
    /// The key is not valid.
    #[error("the identity of Restate is not a public key: {0}")]
    Identity(String),
    /// No connection to Restate is possible at all.
    #[error(transparent)]
    Ingress(#[from] RunnerError),
}

/// A worker that has bound its address but takes no runs yet.
pub struct Worker {
    listener: TcpListener,
    address: SocketAddr,
    options: WorkerOptions,
    ingress: Ingress,
    admin: Option<Admin>,
    drives: Arc<Drives>,
    endpoint: Endpoint,
    /// Messages of its calls for people.
    said: mpsc::Receiver<String>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// Binds the address. Runs of every space of `folio` are driven with the tools of `registry`, as configured by
    /// `runner`.
    ///
    /// # Errors
    ///
    /// `Bind` if the address is taken or does not belong to this machine; `NoAddress` if there is no address for
    /// Restate to call; `Identity`; `Ingress`.
    pub fn bind(
        options: WorkerOptions,
        folio: Folio,
        registry: Registry,
        runner: RunnerOptions,
    ) -> Result<Self, WorkerError> {
        let address = options.listen;
        if address.ip().is_unspecified() && options.admin.is_some() && options.advertise.is_none() {
            return Err(WorkerError::NoAddress { address });
        }
        let bind_error = |source| WorkerError::Bind { address, source };
        let ingress = Ingress::at(options.ingress.clone())?;
        let dispatch_error = |place: &Place, reason| RunnerError::Dispatch {
            at: place.to_string(),
            reason,
        };
        let admin = match &options.admin {
            Some(place) => Some(Admin::at(place.clone()).map_err(|reason| dispatch_error(place, reason))?),
            None => None,
        };
        let drives = Arc::new(Drives::new(folio, registry, runner, options.patience, options.runs));
        let (says, said) = mpsc::channel(QUEUED_MESSAGES_MAX);
        let mut endpoint = Endpoint::builder().bind(RunObject {
            drives: Arc::clone(&drives),
            says,
            told: Mutex::default(),
        });
        if let Some(key) = &options.identity {
            endpoint = endpoint
                .identity_key(key)
                .map_err(|error| WorkerError::Identity(error.to_string()))?;
        }
        let listener = listen::bind(address).map_err(bind_error)?;
        let address = listener.local_addr().map_err(bind_error)?;
        Ok(Self {
            listener,
            address,
            options,
            ingress,
            admin,
            drives,
            endpoint: endpoint.build(),
            said,
        })
    }

    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Works until `end`; then begins nothing more, and releases its runs as soon as what is under way has ended.
    /// `report` is called with messages for people.
    pub async fn run(mut self, end: impl Future<Output = ()>, report: impl Fn(&str)) {
        let public_address = match &self.options.advertise {
            Some(place) => place.to_string(),
            None => format!("http://{}", self.address),
        };
        let to_register = self.admin.is_none().then_some(&*public_address);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = listen::serve(self.listener, self.endpoint, async move {
            // A dropped sender means the same.
            let _told = stopped.await;
        });
        let serving = tokio::spawn(serving);
        let working = async {
            let mut sweep = Sweep::default();
            // How often in a row Restate knew of no worker.
            let mut unknown: u32 = 0;
            loop {
                // If Restate knows of no worker right after one was registered, the ingress belongs to another Restate
                // than the admin API; retried only now and then.
                if let Some(admin) = self
                    .admin
                    .as_ref()
                    .filter(|_| unknown == 1 || unknown.is_multiple_of(PASSES_PER_ADMIN_CHECK))
                {
                    admin.register(&public_address, &report).await;
                }
                if unknown == 0 {
                    report(&format!("takes runs at {public_address}"));
                }
                let look_every = self.options.look_every;
                let ask_every = look_every * PASSES_PER_ADMIN_CHECK;
                let forgotten = async {
                    match &self.admin {
                        Some(admin) => admin.until_forgotten(&public_address, ask_every, &report).await,
                        None => std::future::pending::<()>().await,
                    }
                };
                tokio::select! {
                    took = sweep.run_passes(&self.drives, &self.ingress, to_register, look_every, &report) => {
                        unknown = if took { 1 } else { unknown + 1 };
                    }
                    () = forgotten => {
                        (sweep, unknown) = (Sweep::default(), 0);
                        continue;
                    }
                }
                // Workers that are registered by other means may be registered at any time.
                tokio::time::sleep(self.options.look_every).await;
            }
        };
        let telling = async {
            // Ends when no handler is left that could send messages.
            while let Some(text) = self.said.recv().await {
                report(&text);
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = working => {}
            () = telling => {}
            () = end => {}
        }
        // What is under way gets time to end.
        let _in_time = tokio::time::timeout(self.options.grace, self.drives.wind_down()).await;
        drop(stop);
        let _served = serving.await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use folio::engine::plan;
    use folio::runner::{NewRun, Runner};
    use folio::{Actor, Role, SpaceName};
    use serde_json::json;
    use tokio::sync::Notify;

    use super::*;
    use crate::ingress::tests::fake_restate;

    #[tokio::test]
    async fn missing_worker_registration_is_reported_once() {
        let folio = Folio::open("memory:").await.unwrap();
        let runner = Runner::new(
            folio.workspace(SpaceName::main()),
            Registry::with_builtins(),
            RunnerOptions::default(),
        );
        let step = json!({"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": 1}}});
        let plan = plan::from_value(&json!({"steps": [step]}), &runner.known()).unwrap();
        let new = NewRun::of(plan, Actor::new(Role::Human, "test"));
        runner.submit(new).await.unwrap();

        let (enough, times) = (Arc::new(Notify::new()), AtomicU32::new(0));
        let notify = Arc::clone(&enough);
        let ingress = fake_restate("404 Not Found", "{}", move || {
            if times.fetch_add(1, Ordering::Relaxed) == 4 {
                notify.notify_one();
            }
        });
        let mut options = WorkerOptions::new(SocketAddr::from(([127, 0, 0, 1], 0)), ingress.await);
        options.look_every = Duration::from_millis(5);
        let worker = Worker::bind(options, folio, Registry::with_builtins(), RunnerOptions::default()).unwrap();
        let said = Mutex::new(Vec::new());
        let says = |line: &str| {
            said.lock().push(line.to_owned());
        };
        worker.run(enough.notified(), says).await;
        let said = said.into_inner();
        assert!(
            said.len() == 2 && said[0].starts_with("takes runs at ") && said[1].contains("it knows of no worker"),
            "{said:?}"
        );
    }
}
