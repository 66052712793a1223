//! HTTP clients, each of which reaches only what a list of hosts allows.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::causes::innermost;
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Url};

use crate::hosts::HostList;
use crate::response::{FailureKind, ToolError};

/// How long it may take to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How many clients are kept.
const CACHED_CLIENTS_MAX: usize = 8;

/// Clients by what they may reach, the latest last.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<Vec<(ClientKey, Client)>>);

#[derive(Debug, PartialEq, Eq)]
struct ClientKey {
    hosts: HostList,
    is_plain: bool,
}

impl Clients {
    /// A client for `url`, restricted to `hosts`.
    pub(super) fn of(&self, url: &Url, hosts: &HostList) -> Result<Client, ToolError> {
        let kind = ClientKey {
            hosts: hosts.clone(),
            is_plain: url.scheme() == "http",
        };
        let mut kept = self.0.lock();
        if let Some((_, client)) = kept.iter().find(|(known, _)| *known == kind) {
            return Ok(client.clone());
        }
        let client = kind.client()?;
        if kept.len() >= CACHED_CLIENTS_MAX {
            kept.remove(0);
        }
        kept.push((kind, client.clone()));
        Ok(client)
    }
}

impl ClientKey {
    fn client(&self) -> Result<Client, ToolError> {
        // A program that embeds this crate may have installed one already; that is fine.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            let _taken_meanwhile = rustls::crypto::ring::default_provider().install_default();
        }
        let mut builder = Client::builder()
            .user_agent(concat!("folio/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            // Each redirect has to be allowed before it is followed.
            .redirect(reqwest::redirect::Policy::none())
            // A proxy would resolve names by itself.
            .no_proxy()
            .dns_resolver(Arc::new(FilteringResolver(Arc::new(self.hosts.clone()))));
        if self.is_plain {
            // Plain HTTP needs no certificates, and a small machine may have none.
            builder = builder.tls_certs_only(std::iter::empty());
        }
        builder.build().map_err(|error| {
            let message = format!("http_get: cannot set up a connection: {}", innermost(&error));
            ToolError::new(FailureKind::Unavailable, "http_failed", message)
        })
    }
}

/// Resolves names, and returns only addresses that may be reached.
struct FilteringResolver(Arc<HostList>);

impl Resolve for FilteringResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let hosts = Arc::clone(&self.0);
        Box::pin(async move {
            let name = name.as_str().trim_end_matches('.');
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name, 0)).await?.collect();
            let (allowed, refused): (Vec<_>, Vec<_>) = found
                .into_iter()
                .partition(|found| hosts.allows_address(name, found.ip()));
            if let (true, Some(refused)) = (allowed.is_empty(), refused.first()) {
                let not_public = NotPublic {
                    name: name.to_owned(),
                    address: refused.ip().to_string(),
                };
                return Err(not_public.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// A name resolved to an address that it may not lead to.
#[derive(Debug)]
pub(super) struct NotPublic {
    pub(super) name: String,
    pub(super) address: String,
}

impl fmt::Display for NotPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} leads to {}, which is not public", self.name, self.address)
    }
}

impl Error for NotPublic {}
