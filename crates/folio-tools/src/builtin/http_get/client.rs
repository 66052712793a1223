//! Connections, each kind of which leads only where a list of hosts allows.

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

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// Kinds of connections that are kept.
const KEPT: usize = 8;

/// Connections by what they may lead to, the latest kind last.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<Vec<(Kind, Client)>>);

#[derive(Debug, PartialEq, Eq)]
struct Kind {
    hosts: HostList,
    is_plain: bool,
}

impl Clients {
    /// One to `url`, within `hosts`.
    pub(super) fn of(&self, url: &Url, hosts: &HostList) -> Result<Client, ToolError> {
        let kind = Kind {
            hosts: hosts.clone(),
            is_plain: url.scheme() == "http",
        };
        let mut kept = self.0.lock();
        if let Some((_, client)) = kept.iter().find(|(known, _)| *known == kind) {
            return Ok(client.clone());
        }
        let client = kind.client()?;
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push((kind, client.clone()));
        Ok(client)
    }
}

impl Kind {
    fn client(&self) -> Result<Client, ToolError> {
        // Who embeds this may have chosen another one already; that is fine.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            let _taken_meanwhile = rustls::crypto::ring::default_provider().install_default();
        }
        let mut builder = Client::builder()
            .user_agent(concat!("folio/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            // Each address has to be allowed before it is asked.
            .redirect(reqwest::redirect::Policy::none())
            // One on the way would look up names by itself.
            .no_proxy()
            .dns_resolver(Arc::new(Within(Arc::new(self.hosts.clone()))));
        if self.is_plain {
            // Needs no certificates, of which a small machine may have none.
            builder = builder.tls_certs_only(std::iter::empty());
        }
        builder.build().map_err(|error| {
            let message = format!("http_get: there can be no connection: {}", innermost(&error));
            ToolError::new(FailureKind::Unavailable, "http_failed", message)
        })
    }
}

/// Looks up names, and answers with the addresses that may be reached.
struct Within(Arc<HostList>);

impl Resolve for Within {
    fn resolve(&self, name: Name) -> Resolving {
        let hosts = Arc::clone(&self.0);
        Box::pin(async move {
            let name = name.as_str().trim_end_matches('.');
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name, 0)).await?.collect();
            let (reached, refused): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|found| hosts.reaches(name, found.ip()));
            if let (true, Some(refused)) = (reached.is_empty(), refused.first()) {
                let not_public = NotPublic {
                    name: name.to_owned(),
                    address: refused.ip().to_string(),
                };
                return Err(not_public.into());
            }
            Ok(Box::new(reached.into_iter()) as Addrs)
        })
    }
}

/// A name led to where no name may lead.
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
