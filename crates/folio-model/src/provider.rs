//! Models of real providers.
//!
//! Every language is put, sent and read here, with limits on all that comes. Nothing is found out by the name of a model that its address
//! says, and nothing is read from the environment. Answers are always streamed, so that limits of time can tell a model that works from
//! one that is gone. A request is made once; retries are the caller's.

mod answer;
mod body;
mod failure;
mod fetch;
mod frames;
mod names;
mod request;
mod schema;
mod wire;

use std::time::Duration;

use async_trait::async_trait;
use folio_memory::causes::innermost;
use serde::{Deserialize, Serialize};

pub use failure::pause_in;
pub use schema::SchemaForm;

use crate::address::ModelAddress;
use crate::error::ModelError;
use crate::model::{Delta, Model, Reply, Request};
use crate::secret::ModelKeys;
use failure::Failures;
pub(crate) use failure::retry_after;
use fetch::Fetched;
use wire::Target;

/// How long an answer may take, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Patience {
    /// Until there is a connection.
    pub connect_s: u32,
    /// From the request until the answer begins.
    pub first_byte_s: u32,
    /// Between two pieces of the answer.
    pub between_s: u32,
    /// For all of it.
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
    /// As people write it.
    address: String,
    target: Target,
    schema: SchemaForm,
    patience: Patience,
    http: reqwest::Client,
}

impl ProviderModel {
    /// A model at `address`; `None` if it is none of a provider.
    ///
    /// # Errors
    ///
    /// Why there can be no client.
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
        }))
    }

    async fn ask(&self, request: &Request, pieces: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        let request = &*names::addressed(request, &self.target);
        let failures = self.failures(request);
        let body = body::body(request, &self.target, self.schema);
        let fetched = Fetched::begin(&self.http, &body, self.patience, failures).await?;
        let reply = answer::read_frames(fetched, failures, pieces).await?;
        Ok(names::understood(reply, request))
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
        let whole = seconds(self.patience.whole_s);
        let asked = tokio::time::timeout(whole, Box::pin(self.ask(request, pieces))).await;
        asked.unwrap_or_else(|_| Err(self.failures(request).too_slow_to_end()))
    }
}
/// Connections that follow nobody elsewhere and go through no proxy; `is_plain`: without TLS.
fn connections(is_plain: bool) -> reqwest::ClientBuilder {
    // Who embeds this may have chosen another one already; that is fine.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _taken_meanwhile = rustls::crypto::ring::default_provider().install_default();
    }
    let builder = reqwest::Client::builder()
        .user_agent(concat!("folio/", env!("CARGO_PKG_VERSION")))
        // A key must not follow to where somebody else points.
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy();
    if is_plain {
        // Needs no certificates, of which a small machine may have none.
        builder.tls_certs_only(std::iter::empty())
    } else {
        builder
    }
}

fn built(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, String> {
    builder
        .build()
        .map_err(|error| format!("there can be no connection: {}", innermost(&error)))
}

/// Connections to `url`, each there within `connect`, through `proxy`, if there is one.
///
/// # Errors
///
/// Why there can be none.
pub(crate) fn client_for(url: &str, connect: Duration, proxy: Option<&str>) -> Result<reqwest::Client, String> {
    // A few bytes of what is compressed may be gigabytes.
    let mut builder = connections(url.starts_with("http://"))
        .connect_timeout(connect)
        .no_gzip();
    if let Some(proxy) = proxy {
        let proxy = reqwest::Proxy::all(proxy).map_err(|_| "the address of the proxy cannot be used".to_owned())?;
        builder = builder.proxy(proxy);
    }
    built(builder)
}

/// Connections as those to models, for what is no model: they take ten seconds at most. `is_plain`: without TLS.
///
/// # Errors
///
/// Why there can be none.
pub fn http_client(is_plain: bool) -> Result<reqwest::Client, String> {
    built(connections(is_plain).timeout(Duration::from_secs(10)))
}
