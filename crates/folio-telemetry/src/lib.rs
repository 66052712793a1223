//! Reports runs as OpenTelemetry spans to a collector.
//!
//! The journal of a run is read beside its driver, by a reader that is notified when driving begins ([`Observer`]) and
//! that stops where driving stops. So the driver waits for no collector, and for a run that is driven nothing has to be
//! queued that the journal does not keep anyway.
//!
//! - [`spans`]: turns events into spans; `node`: the span of a node
//! - [`names`]: the names of attributes and operations
//! - `read`: reads a journal; `queue`: the spans that wait to be sent; `send`: sends them
//! - `client`: the HTTP client for the collector; `answer`: reads what the collector answers

mod answer;
mod client;
pub mod names;
mod node;
mod options;
mod queue;
mod read;
mod send;
pub mod spans;

use std::sync::Arc;
use std::time::Duration;

use folio::runner::{DriveFollower, Observer};
use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::client::{Client, Last};
pub use crate::options::{TelemetryError, TelemetryOptions};
use crate::queue::{Counts, Queue};
use crate::send::Sender;

/// Sends the spans of the runs that this process drives. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Telemetry {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The readers of journals. A reader that panicked has reported all it could.
    readers: Mutex<JoinSet<()>>,
    /// The queue to the sender; `None` once it is over.
    queue: Mutex<Option<Queue>>,
    sending: Mutex<Option<JoinHandle<()>>>,
    counts: Arc<Counts>,
    last: Last,
    /// The collector's address, as it is shown to people.
    place: String,
    /// Becomes true when readers are to read what there is and end.
    ending: watch::Sender<bool>,
}

/// What became of the spans of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// Spans that the collector accepted.
    pub sent: u64,
    /// Spans that it did not accept, whatever was tried, or not in time.
    pub lost: u64,
    /// Why spans were lost, the last time that some were.
    pub reason: Option<String>,
}

impl Telemetry {
    /// Begins to send spans as `options` say. Must be called within a Tokio runtime.
    ///
    /// # Errors
    ///
    /// If the address is invalid, or the environment asks for something that is not supported.
    pub fn open(options: &TelemetryOptions) -> Result<Self, TelemetryError> {
        let failed = |reason: String| TelemetryError {
            place: options.place(),
            reason,
        };
        let address = reqwest::Url::parse(&options.address).ok();
        let address = address.filter(|address| matches!(address.scheme(), "http" | "https") && address.has_host());
        let Some(address) = address else {
            let form = "its address must begin with http:// or https:// and name a host";
            return Err(failed(form.to_owned()));
        };
        let last = Last::default();
        let client = Client {
            inner: folio::model::http_client(address.scheme() == "http").map_err(failed)?,
            within: options.within,
            takes_headers: options.is_of_environment,
            last: last.clone(),
        };
        let builder = SpanExporter::builder().with_http().with_http_client(client);
        let builder = builder.with_endpoint(address).with_timeout(options.within);
        let mut exporter = builder.build().map_err(|error| failed(error.to_string()))?;
        exporter.set_resource(&resource());
        let counts = Arc::<Counts>::default();
        let (queue, spans) = Queue::new(Arc::clone(&counts));
        let sender = Sender {
            exporter,
            within: options.within,
            last: last.clone(),
            counts: Arc::clone(&counts),
        };
        Ok(Self {
            shared: Arc::new(Shared {
                readers: Mutex::default(),
                queue: Mutex::new(Some(queue)),
                sending: Mutex::new(Some(tokio::spawn(sender.send(spans)))),
                counts,
                last,
                place: options.place(),
                ending: watch::Sender::new(false),
            }),
        })
    }

    /// Waits until spans are lost for the first time, and returns why.
    pub async fn first_loss(&self) -> Option<String> {
        let reason = self.shared.counts.first_loss().await?;
        Some(format!("{}: {reason}", self.shared.place))
    }

    /// Sends the remaining spans, for at most `patience`, and returns what became of all spans.
    pub async fn finish(&self, patience: Duration) -> Sent {
        self.shared.ending.send_replace(true);
        let mut readers = std::mem::take(&mut *self.shared.readers.lock());
        let sending = self.shared.sending.lock().take();
        let finishing = async {
            while readers.join_next().await.is_some() {}
            drop(self.shared.queue.lock().take());
            if let Some(sending) = sending {
                let _over = sending.await.is_ok();
            }
        };
        let is_late = tokio::time::timeout(patience, finishing).await.is_err();
        let counts = &self.shared.counts;
        let reason = if is_late {
            let late_note = format!("the program waits only {} s for it when it ends", patience.as_secs());
            let last = self.shared.last.failure().or_else(|| counts.reason());
            Some(last.map_or_else(|| late_note.clone(), |last| format!("{last} ({late_note})")))
        } else {
            counts.reason()
        };
        Sent {
            sent: counts.sent(),
            lost: if is_late { counts.not_sent() } else { counts.lost() },
            reason: reason.map(|reason| format!("{}: {reason}", self.shared.place)),
        }
    }
}

impl Observer for Telemetry {
    fn drive_started(&self, follower: DriveFollower) {
        let Some(queue) = self.shared.queue.lock().clone() else {
            return;
        };
        let ending = self.shared.ending.subscribe();
        let mut readers = self.shared.readers.lock();
        while readers.try_join_next().is_some() {}
        readers.spawn(read::read(follower, queue, ending));
    }

    fn unreported_count(&self) -> Option<u64> {
        Some(self.shared.counts.lost())
    }
}

/// Returns the resource that sends the spans: `folio`, unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` name
/// another service.
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
