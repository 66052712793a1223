//! What runs do, as OpenTelemetry spans, sent to a collector.
//!
//! The journal of a run is read beside its driver, by somebody who is told when driving begins ([`Observer`]). So the driver
//! waits for no collector, and nothing has to be queued that the journal does not keep anyway.
//!
//! - [`spans`]: from events to spans
//! - [`names`]: how things are called in them

pub mod names;
pub mod spans;

use std::collections::HashMap;
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

use crate::spans::Spans;

/// Spans that wait to be sent. Who reads a journal waits for room.
const QUEUE: usize = 1_024;
/// Spans that are sent at once.
const BATCH: usize = 512;
/// How long it is waited for more to send.
const DELAY: Duration = Duration::from_millis(500);

/// Why nothing is sent.
#[derive(Debug, thiserror::Error)]
#[error("spans cannot be sent to {endpoint}: {reason}")]
pub struct TelemetryError {
    endpoint: String,
    reason: String,
}

/// Where spans go.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TelemetryOptions {
    /// The address of the collector, without the path of a signal: `http://127.0.0.1:4318`.
    pub endpoint: String,
    /// Whether the environment says so: then it says the rest, too (`OTEL_EXPORTER_OTLP_…`).
    pub is_of_environment: bool,
}

impl TelemetryOptions {
    /// To `endpoint`.
    #[must_use]
    pub fn to(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            is_of_environment: false,
        }
    }

    /// To `endpoint`, which the environment names.
    #[must_use]
    pub fn of_environment(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            is_of_environment: true,
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
            endpoint: options.endpoint.clone(),
            reason,
        };
        let client = folio::model::http_client(options.endpoint.starts_with("http://")).map_err(failed)?;
        let mut builder = SpanExporter::builder().with_http().with_http_client(client);
        if !options.is_of_environment {
            builder = builder.with_endpoint(format!("{}/v1/traces", options.endpoint.trim_end_matches('/')));
        }
        let mut exporter = builder.build().map_err(|error| failed(error.to_string()))?;
        exporter.set_resource(&resource());
        let (spans, queue) = mpsc::channel(QUEUE);
        let (ending, _) = watch::channel(false);
        Ok(Self {
            shared: Arc::new(Shared {
                readers: Mutex::default(),
                spans: Mutex::new(Some(spans)),
                sending: Mutex::new(Some(tokio::spawn(send(exporter, queue)))),
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
        tokio::time::timeout(patience, finishing)
            .await
            .unwrap_or_else(|_| Sent {
                reason: Some(format!("the collector was not done after {} s", patience.as_secs())),
                ..Sent::default()
            })
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

/// Sends what comes until nobody is left who could give more.
async fn send(exporter: SpanExporter, mut queue: mpsc::Receiver<SpanData>) -> Sent {
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
        match exporter.export(batch).await {
            Ok(()) => sent.sent += count,
            Err(error) => {
                sent.lost += count;
                sent.reason = Some(error.to_string());
            }
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
