//! What runs do, as OpenTelemetry spans, sent to a collector.
//!
//! The journal of a run is read beside its driver, by somebody who is told when driving begins ([`Observer`]). So the driver
//! waits for no collector, and nothing has to be queued that the journal does not keep anyway.
//!
//! - [`spans`]: from events to spans
//! - [`names`]: how things are called in them
//! - `client`: how they get to the collector

mod client;
pub mod names;
pub mod spans;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use folio::Timestamp;
use folio::memory::RunId;
use folio::runner::{Observer, Watch};
use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::client::{Client, Failed, late};
use crate::spans::Spans;

/// Spans that wait to be sent. Who reads a journal waits for room.
const QUEUE: usize = 1_024;
/// Spans that are sent at once.
const BATCH: usize = 512;
/// How long it is waited for more to send.
const DELAY: Duration = Duration::from_millis(500);

/// How long a batch may take, if nobody says.
const WITHIN: Duration = Duration::from_secs(10);
/// Where a collector takes spans, below its address.
const SIGNAL: &str = "v1/traces";

/// Why nothing is sent.
#[derive(Debug, thiserror::Error)]
#[error("spans cannot be sent to {place}: {reason}")]
pub struct TelemetryError {
    /// The address without what may be a password.
    place: String,
    reason: String,
}

/// Where spans go.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TelemetryOptions {
    /// The whole address, with the path.
    address: String,
    /// Whether the environment names it: then its headers (`OTEL_EXPORTER_OTLP_HEADERS`) are for it.
    is_of_environment: bool,
    /// How long a batch of spans may take until it is given up, all attempts together. Default: 10 s.
    pub within: Duration,
}

impl fmt::Debug for TelemetryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelemetryOptions")
            .field("place", &self.place())
            .field("is_of_environment", &self.is_of_environment)
            .field("within", &self.within)
            .finish()
    }
}

impl TelemetryOptions {
    /// To the collector at `endpoint`, which is an address without the path of a signal: `http://127.0.0.1:4318`.
    #[must_use]
    pub fn to(endpoint: &str) -> Self {
        Self::at(&format!("{}/{SIGNAL}", endpoint.trim_end_matches('/')))
    }

    /// To the whole address `address`.
    #[must_use]
    pub fn at(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            is_of_environment: false,
            within: WITHIN,
        }
    }

    /// The same where the environment names the address: then it says the rest, too.
    #[must_use]
    pub fn of_environment(mut self) -> Self {
        self.is_of_environment = true;
        self
    }

    /// Where they go, as people see it: without what may be a password.
    fn place(&self) -> String {
        let address = self.address.split(['?', '#']).next().unwrap_or_default();
        let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
        let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
        let rest = rest.trim_end_matches(SIGNAL).trim_end_matches('/');
        if scheme.is_empty() {
            rest.to_owned()
        } else {
            format!("{scheme}://{rest}")
        }
    }
}

/// Sends the spans of the runs that this process drives. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Telemetry {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Who reads the journal of which run.
    readers: Mutex<HashMap<RunId, JoinHandle<()>>>,
    /// To the one who sends; none once it is over.
    spans: Mutex<Option<mpsc::Sender<SpanData>>>,
    sending: Mutex<Option<JoinHandle<Sent>>>,
    failed: Failed,
    /// Where they go, as people see it.
    place: String,
    /// Turns true when readers are to read what there is and go.
    ending: watch::Sender<bool>,
}

/// What became of the spans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// Spans that the collector took.
    pub sent: u64,
    /// Spans that it did not take, whatever was tried.
    pub lost: u64,
    /// Why, at the last time.
    pub reason: Option<String>,
}

impl Telemetry {
    /// Begins to send as `options` say. Has to be called within a runtime.
    ///
    /// # Errors
    ///
    /// If the address is none, or the environment says what cannot be done.
    pub fn open(options: &TelemetryOptions) -> Result<Self, TelemetryError> {
        let failed = |reason: String| TelemetryError {
            place: options.place(),
            reason,
        };
        let address = reqwest::Url::parse(&options.address).ok();
        let address = address.filter(|address| matches!(address.scheme(), "http" | "https") && address.has_host());
        let Some(address) = address else {
            let form = "its address has to begin with http:// or https://, and to name a host";
            return Err(failed(form.to_owned()));
        };
        let last = Failed::default();
        let client = Client {
            inner: folio::model::http_client(address.scheme() == "http").map_err(failed)?,
            within: options.within,
            takes_headers: options.is_of_environment,
            failed: last.clone(),
        };
        let builder = SpanExporter::builder().with_http().with_http_client(client);
        let builder = builder.with_endpoint(address).with_timeout(options.within);
        let mut exporter = builder.build().map_err(|error| failed(error.to_string()))?;
        exporter.set_resource(&resource());
        let (spans, queue) = mpsc::channel(QUEUE);
        let (ending, _) = watch::channel(false);
        let sender = Sender {
            exporter,
            within: options.within,
            failed: last.clone(),
        };
        Ok(Self {
            shared: Arc::new(Shared {
                readers: Mutex::default(),
                spans: Mutex::new(Some(spans)),
                sending: Mutex::new(Some(tokio::spawn(sender.send(queue)))),
                failed: last,
                place: options.place(),
                ending,
            }),
        })
    }

    /// Sends what there still is, for at most `patience`, and says what became of all of it.
    pub async fn finish(&self, patience: Duration) -> Sent {
        self.shared.ending.send_replace(true);
        let readers = std::mem::take(&mut *lock(&self.shared.readers));
        let sending = lock(&self.shared.sending).take();
        let finishing = async {
            for (_, reader) in readers {
                // One that broke off has told all it could.
                let _over = reader.await;
            }
            drop(lock(&self.shared.spans).take());
            match sending {
                Some(sending) => sending.await.unwrap_or_default(),
                None => Sent::default(),
            }
        };
        let sent = tokio::time::timeout(patience, finishing).await.unwrap_or_else(|_| {
            let late = format!(
                "the end of the program waits {} s for it and no longer",
                patience.as_secs()
            );
            let last = self.shared.failed.last();
            Sent {
                reason: Some(last.map_or_else(|| late.clone(), |last| format!("{last} ({late})"))),
                ..Sent::default()
            }
        });
        Sent {
            reason: sent.reason.map(|reason| format!("{}: {reason}", self.shared.place)),
            ..sent
        }
    }
}

impl Observer for Telemetry {
    fn drives(&self, watch: Watch, from: Timestamp) {
        let Some(spans) = lock(&self.shared.spans).clone() else {
            return;
        };
        let ending = self.shared.ending.subscribe();
        let mut readers = lock(&self.shared.readers);
        readers.retain(|_, reader| !reader.is_finished());
        let run = watch.run().id();
        let reader = tokio::spawn(read(watch, from, spans, ending));
        if let Some(before) = readers.insert(run, reader) {
            // Driven again by the same process: who read it until now would tell everything twice.
            before.abort();
        }
    }
}

/// Reads a journal to its end, and hands on the spans that ended since `from`. What ended before was told by who drove then.
async fn read(mut watch: Watch, from: Timestamp, spans: mpsc::Sender<SpanData>, mut ending: watch::Receiver<bool>) {
    let mut made = Spans::of(watch.run().id());
    let mut is_last = false;
    loop {
        let news = if is_last {
            watch.read().await.map(Some)
        } else {
            tokio::select! {
                news = watch.next() => news,
                () = told_to_end(&mut ending) => {
                    is_last = true;
                    continue;
                }
            }
        };
        // A journal that cannot be read is told of by who drives the run.
        let Ok(Some(events)) = news else {
            return;
        };
        for (at, event) in &events {
            if let Some(span) = made.take(watch.run(), *at, event)
                && *at >= from
                && spans.send(span).await.is_err()
            {
                return;
            }
        }
        if is_last {
            return;
        }
    }
}

/// Returns when it is to end, or whoever could say so is gone.
async fn told_to_end(ending: &mut watch::Receiver<bool>) {
    let _ = ending.wait_for(|ending| *ending).await.is_ok();
}

/// The one who sends.
struct Sender {
    exporter: SpanExporter,
    /// How long a batch may take.
    within: Duration,
    failed: Failed,
}

impl Sender {
    /// Sends what comes until nobody is left who could give more.
    async fn send(self, mut queue: mpsc::Receiver<SpanData>) -> Sent {
        let mut sent = Sent::default();
        loop {
            let mut batch = Vec::new();
            if queue.recv_many(&mut batch, BATCH).await == 0 {
                return sent;
            }
            let until = tokio::time::Instant::now() + DELAY;
            while batch.len() < BATCH {
                let room = BATCH - batch.len();
                match tokio::time::timeout_at(until, queue.recv_many(&mut batch, room)).await {
                    Ok(more) if more > 0 => {}
                    _ => break,
                }
            }
            let count = batch.len() as u64;
            // The exporter tries again for as long; whatever it has under way then is not its matter.
            let why = match tokio::time::timeout(self.within, self.exporter.export(batch)).await {
                Ok(Ok(())) => {
                    sent.sent += count;
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => late(self.within),
            };
            sent.lost += count;
            sent.reason = Some(self.failed.last().unwrap_or(why));
        }
    }
}

/// Who sends: `folio`, unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` say otherwise.
fn resource() -> Resource {
    let found = Resource::builder().build();
    let name = found.get(&Key::from_static_str("service.name"));
    let is_named = name.is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let builder = Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    let builder = if is_named {
        builder
    } else {
        builder.with_service_name("folio")
    };
    builder.build()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
