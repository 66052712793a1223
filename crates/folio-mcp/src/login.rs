//! Logs people in to a server that requires it (OAuth 2.1): in a browser, once; from then on tokens are renewed without
//! them.
//!
//! The library finds out, as the protocol specifies, which server issues tokens and how Folio registers there. This
//! module gives it what it needs, and stores the tokens.

mod tokens;

use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;

use folio_memory::causes::causes;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationRequest, AuthorizationSession, CredentialStore as _,
    OAuthClientConfig,
};
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::connection::ready_for_tls;
use crate::error::McpError;
use crate::servers::ToStart;
use crate::words::{in_words, login_failure_message};
use tokens::TokenFile;

/// The time limit for finding out where to log in, and for getting tokens.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// A redirect address, which has to be given and is not used when tokens are renewed.
const UNUSED_REDIRECT: &str = "http://127.0.0.1/callback";

/// A login that has begun: the user opens [`address`](Self::address) in a browser.
#[expect(missing_debug_implementations, reason = "it holds what nobody may read")]
pub struct Login {
    server: String,
    session: AuthorizationSession,
}

impl Login {
    /// Finds out where people log in to `server`, and registers Folio there. `redirect` is the address to which the
    /// browser returns.
    ///
    /// # Errors
    ///
    /// `Login`: the settings provide no login for this server, or the server does not say where to log in, or not at an
    /// encrypted page or one of this machine.
    pub async fn begin(server: &ToStart, redirect: &str) -> Result<Self, McpError> {
        let started = tokio::time::timeout(REQUEST_TIMEOUT, Self::begin_in_time(server, redirect)).await;
        let session = started
            .unwrap_or_else(|_| Err(too_long()))
            .map_err(|reason| failed(&server.name, reason))?;
        Ok(Self {
            server: server.name.clone(),
            session,
        })
    }

    async fn begin_in_time(server: &ToStart, redirect: &str) -> Result<AuthorizationSession, String> {
        let mut manager = manager_of(server).await?;
        let found = manager.resolve_metadata().await;
        let found = found.map_err(|error| login_failure_message(&error, server))?;
        manager.set_metadata(found.metadata);
        let mut request = AuthorizationRequest::new(redirect)
            .with_client_name("Folio")
            .with_initial_scope_selection();
        if let Some(settings) = &server.settings.oauth {
            request = request.with_scopes(settings.scopes.iter().cloned());
            if let Some(id) = &settings.client_id {
                request = request.with_preregistered_client(id);
            }
        }
        if let Some(secret) = server.login.as_ref().and_then(|login| login.client_secret.as_ref()) {
            request = request.with_client_secret(secret.reveal());
        }
        let session = AuthorizationSession::new(manager, request).await;
        let session = session.map_err(|(_, error)| login_failure_message(&error, server))?;
        check_safe_to_open(session.get_authorization_url())?;
        Ok(session)
    }

    /// Returns the address to open in a browser.
    #[must_use]
    pub fn address(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// Completes the login with the address that the browser returned to, stores the tokens, and returns their scopes
    /// as far as they are known.
    ///
    /// # Errors
    ///
    /// `Login`: the login was refused, or the address belongs to another login, or no tokens were issued, or they
    /// cannot be stored.
    pub async fn end(self, callback_url: &str) -> Result<Vec<String>, McpError> {
        let exchange = async {
            if let Some(refusal) = refusal(callback_url) {
                return Err(refusal);
            }
            let ended = self.session.handle_callback_url(callback_url).await;
            ended.map_err(|error| in_words(&error))?;
            Ok(self.session.auth_manager.get_current_scopes().await)
        };
        let exchange = tokio::time::timeout(REQUEST_TIMEOUT, exchange).await;
        exchange
            .unwrap_or_else(|_| Err(too_long()))
            .map_err(|reason| failed(&self.server, reason))
    }
}

/// Deletes the tokens of `server`, and returns whether there were some.
///
/// # Errors
///
/// `Login` if they cannot be deleted, or the settings provide no login for this server.
pub async fn log_out(server: &ToStart) -> Result<bool, McpError> {
    let logout = async {
        let tokens = token_file_of(server)?;
        let had_some = tokens.load().await.map_err(|error| in_words(&error))?.is_some();
        tokens.clear().await.map_err(|error| in_words(&error))?;
        Ok(had_some)
    };
    logout.await.map_err(|reason| failed(&server.name, reason))
}

/// Returns the manager that adds tokens to requests to `server`.
///
/// # Errors
///
/// Why there are no tokens, in words.
pub(crate) async fn logged_in(server: &ToStart) -> Result<AuthorizationManager, String> {
    let mut manager = manager_of(server).await?;
    if !manager
        .initialize_from_store()
        .await
        .map_err(|error| in_words(&error))?
    {
        return Err(format!("nobody is logged in to it: {}", login_command(&server.name)));
    }
    let secret = server.login.as_ref().and_then(|login| login.client_secret.as_ref());
    let id = server
        .settings
        .oauth
        .as_ref()
        .and_then(|oauth| oauth.client_id.as_ref());
    if let (Some(id), Some(secret)) = (id, secret) {
        let config = OAuthClientConfig::new(id, UNUSED_REDIRECT).with_client_secret(secret.reveal());
        manager.configure_client(config).map_err(|error| in_words(&error))?;
    }
    Ok(manager)
}

/// Returns the command that logs in to the server `name`.
fn login_command(name: &str) -> String {
    format!("`folio tool login {name}`")
}

/// Returns that the server refuses access and what helps, if `error` is caused by that.
pub(crate) fn access_refused_message(error: &(dyn Error + 'static), server: &ToStart) -> Option<String> {
    let name = &server.name;
    causes(error).find_map(
        |cause| match cause.downcast_ref::<StreamableHttpError<reqwest::Error>>()? {
            StreamableHttpError::AuthRequired(_) if server.login.is_some() => {
                Some(format!("it no longer accepts the login (401): {}", login_command(name)))
            }
            StreamableHttpError::AuthRequired(_) => Some(format!(
                "it denies access (401): it needs another token, or `oauth = {{}}` in [mcp.{name}] and {}",
                login_command(name)
            )),
            StreamableHttpError::InsufficientScope(_) => Some(format!(
                "the scopes of the login are not sufficient (403): `scopes` in [mcp.{name}.oauth], and {}",
                login_command(name)
            )),
            _ => None,
        },
    )
}

async fn manager_of(server: &ToStart) -> Result<AuthorizationManager, String> {
    if let Some(reason) = &server.unusable {
        return Err(reason.clone());
    }
    let tokens = token_file_of(server)?;
    ready_for_tls();
    let url = server.settings.url.as_deref().unwrap_or_default();
    let manager = AuthorizationManager::new(url).await;
    let mut manager = manager.map_err(|error: AuthError| in_words(&error))?;
    manager.set_credential_store(tokens);
    Ok(manager)
}

fn token_file_of(server: &ToStart) -> Result<TokenFile, String> {
    match (&server.login, &server.settings.url) {
        (Some(login), Some(url)) => Ok(TokenFile::new(login.tokens.clone(), url.clone())),
        _ => Err(format!(
            "its settings have no login; put `oauth = {{}}` in [mcp.{}]",
            server.name
        )),
    }
}

/// Refuses an address that nobody should open because a server says so: a file, a program of this machine, or a page to
/// which a password would be sent unencrypted, unless that page is on this machine.
fn check_safe_to_open(address: &str) -> Result<(), String> {
    let url = reqwest::Url::parse(address).map_err(|error| format!("its login address is not valid: {error}"))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_here => Ok(()),
        scheme => Err(format!(
            "its login address begins with {scheme}:, and only https: is opened, or http: on this machine"
        )),
    }
}

/// Returns the refusal that a returned address contains, if any.
fn refusal(callback_url: &str) -> Option<String> {
    let url = reqwest::Url::parse(callback_url).ok()?;
    let value = |key: &str| {
        let mut pairs = url.query_pairs();
        let found = pairs.find(|(name, _)| name == key)?;
        Some(
            found
                .1
                .chars()
                .filter(|c| !c.is_control())
                .take(200)
                .collect::<String>(),
        )
    };
    let error = value("error")?;
    let description = value("error_description").map_or_else(String::new, |text| format!(" ({text})"));
    Some(format!("the login was refused: {error}{description}"))
}

fn too_long() -> String {
    format!("there was no answer within {} s", REQUEST_TIMEOUT.as_secs())
}

fn failed(server: &str, reason: String) -> McpError {
    McpError::Login {
        server: server.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_and_loopback_login_addresses_may_be_opened() {
        for fit in [
            "https://login.example/authorize?x=1",
            "http://127.0.0.1:7/a",
            "http://localhost/a",
            "http://[::1]:7/a",
        ] {
            assert_eq!(check_safe_to_open(fit), Ok(()), "{fit}");
        }
        for (unfit, scheme) in [
            ("file:///etc/passwd?response_type=code", "file"),
            ("http://login.example/authorize", "http"),
            ("http://localhost.login.example/", "http"),
            ("http://127.0.0.1@login.example/", "http"),
            ("javascript:alert(1)", "javascript"),
            ("vscode://x", "vscode"),
        ] {
            let refused = check_safe_to_open(unfit).unwrap_err();
            let begins = format!("its login address begins with {scheme}:, and only https: is opened");
            assert!(refused.starts_with(&begins), "{unfit}: {refused}");
        }
        let refused = check_safe_to_open("what").unwrap_err();
        assert!(refused.starts_with("its login address is not valid: "), "{refused}");
    }
}
