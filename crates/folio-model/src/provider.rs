//! Models of providers.
//!
//! Requests are built, sent and parsed here for every protocol, with limits on everything received. What the address of
//! a model says is never guessed from the name of the model, and nothing is read from the environment. Answers are
//! always streamed, so that time limits can distinguish a working model from a lost one. A request is made once; the
//! caller decides about retries. Only a temperature that the model refuses is left out in a second request: it is a
//! wish, and nobody else could tell which models take one.

mod answer;
mod answer_limit;
mod body;
mod failure;
mod fetch;
mod frames;
mod names;
mod quotes;
mod request;
mod schema;
mod wire;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use folio_memory::causes::innermost;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

pub use failure::pause_in;
pub use schema::SchemaForm;

use crate::address::ModelAddress;
use crate::error::ModelError;
use crate::model::{Delta, Model, Reply, Request};
use crate::secret::ModelKeys;
use failure::Failures;
pub(crate) use failure::retry_after;
use fetch::{Fetched, NotBegun};
use wire::Target;

/// Time limits for an answer, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Patience {
    /// Until a connection exists.
    pub connect_s: u32,
    /// From the request to the beginning of the answer.
    pub first_byte_s: u32,
    /// Between two pieces of the answer.
    pub between_s: u32,
    /// For the complete answer.
    pub whole_s: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect_s: 10,
            first_byte_s: 120,
            between_s: 120,
            whole_s: 600,
        }
    }
}

/// A model of a provider.
#[derive(Debug)]
pub(crate) struct ProviderModel {
    /// Its address.
    address: String,
    target: Target,
    schema: SchemaForm,
    patience: Patience,
    http: reqwest::Client,
    /// Whether the model has refused a temperature and answered without one.
    refuses_temperature: AtomicBool,
    /// The most tokens of an answer that the model has accepted after it refused more; the largest number until then.
    answer_tokens_max: AtomicU32,
}

impl ProviderModel {
    /// Creates the model at `address`; `None` if that is not a model of a provider.
    ///
    /// # Errors
    ///
    /// Why no client can be created.
    pub(crate) fn new(
        address: &ModelAddress,
        keys: &ModelKeys,
        schema: SchemaForm,
        patience: Patience,
        proxy: Option<&str>,
    ) -> Result<Option<Self>, String> {
        let Some(target) = Target::of(address, keys) else {
            return Ok(None);
        };
        let http = client_for(&target.url, seconds(patience.connect_s), proxy)?;
        Ok(Some(Self {
            address: address.to_string(),
            target,
            schema,
            patience,
            http,
            refuses_temperature: AtomicBool::new(false),
            answer_tokens_max: AtomicU32::new(u32::MAX),
        }))
    }

    async fn ask(
        &self,
        request: &Request,
        pieces: &mut (dyn FnMut(Delta) + Send),
        ends_at: Instant,
    ) -> Result<Reply, ModelError> {
        let request = &*names::with_accepted_ids(request, &self.target);
        let failures = self.failures(request);
        let mut body = body::body(request, &self.target, self.schema);
        if self.refuses_temperature.load(Ordering::Relaxed) {
            request::remove_temperature(&mut body);
        }
        let known = self.answer_tokens_max.load(Ordering::Relaxed);
        if known < request.tokens_max {
            answer_limit::set_limit(&mut body, known);
        }
        // Each of the two is changed once, by another request, so that the answer is not the refusal again.
        let mut key = request.idempotency_key.clone();
        let (mut without_temperature, mut limit) = (false, None);
        let fetched = loop {
            match Fetched::begin(&self.http, &body, &key, self.patience, failures).await {
                Err(refused)
                    if refused.names_temperature && !without_temperature && request::remove_temperature(&mut body) =>
                {
                    without_temperature = true;
                    key.push_str("-no-temperature");
                }
                Err(NotBegun {
                    answer_tokens_max: Some(named),
                    ..
                }) if limit.is_none() => {
                    limit = Some(named);
                    answer_limit::set_limit(&mut body, named);
                    key.push_str(&format!("-{named}-tokens"));
                }
                Err(not_begun) => return Err(not_begun.error),
                Ok(begun) => break begun,
            }
        };
        if without_temperature {
            self.refuses_temperature.store(true, Ordering::Relaxed);
        }
        if let Some(limit) = limit {
            self.answer_tokens_max.fetch_min(limit, Ordering::Relaxed);
        }
        let reply = answer::read_frames(fetched, failures, pieces, ends_at).await?;
        Ok(names::decode_tool_names(reply, request))
    }

    fn failures<'a>(&'a self, request: &'a Request) -> Failures<'a> {
        Failures {
            model: &self.address,
            target: &self.target,
            request,
            patience: self.patience,
        }
    }
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(u64::from(count))
}

#[async_trait]
impl Model for ProviderModel {
    async fn reply(&self, request: &Request, pieces: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        let ends_at = Instant::now() + seconds(self.patience.whole_s);
        let result = timeout_at(ends_at, Box::pin(self.ask(request, pieces, ends_at))).await;
        result.unwrap_or_else(|_| Err(self.failures(request).too_slow_to_end()))
    }
}
/// A client builder without redirects and proxies; `is_plain` means without TLS.
fn client_builder(is_plain: bool) -> reqwest::ClientBuilder {
    // The embedding program may have installed another one already.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _taken_meanwhile = rustls::crypto::ring::default_provider().install_default();
    }
    let builder = reqwest::Client::builder()
        .user_agent(concat!("folio/", env!("CARGO_PKG_VERSION")))
        // A key must not be sent to a host that somebody else names.
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy();
    if is_plain {
        // Needs no certificates, which may be missing on a small machine.
        builder.tls_certs_only(std::iter::empty())
    } else {
        builder
    }
}

fn build_client(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, String> {
    builder
        .build()
        .map_err(|error| format!("there can be no connection: {}", innermost(&error)))
}

/// A client for `url`, with the connection timeout `connect`, through `proxy` if one is given.
///
/// # Errors
///
/// Why no client can be created.
pub(crate) fn client_for(url: &str, connect: Duration, proxy: Option<&str>) -> Result<reqwest::Client, String> {
    // A few compressed bytes may expand to gigabytes.
    let mut builder = client_builder(url.starts_with("http://"))
        .connect_timeout(connect)
        .no_gzip();
    if let Some(proxy) = proxy {
        let proxy = reqwest::Proxy::all(proxy).map_err(|_| "the address of the proxy cannot be used".to_owned())?;
        builder = builder.proxy(proxy);
    }
    build_client(builder)
}

/// A client with the same settings for requests that do not go to models, with a timeout of ten seconds; `is_plain`
/// means without TLS.
///
/// # Errors
///
/// Why no client can be created.
pub fn http_client(is_plain: bool) -> Result<reqwest::Client, String> {
    build_client(client_builder(is_plain).timeout(Duration::from_secs(10)))
}
