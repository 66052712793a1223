//! An authorization server that issues tokens for another server, as OAuth 2.1 and MCP specify: it registers clients,
//! lets people log in, verifies PKCE, and accepts each refresh token once.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use axum::http::{HeaderName, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use data_encoding::BASE64URL_NOPAD;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The server. Clones share their state.
#[derive(Debug, Clone)]
pub struct OAuthServer {
    base: String,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug)]
struct Known {
    /// The counter for everything that is issued.
    count: u32,
    /// Lifetime of tokens in seconds.
    expires_in: u64,
    /// Whether the user denies access.
    is_denied: bool,
    /// Whether no tokens are issued at the moment.
    is_away: bool,
    /// Authorization codes that were issued, each with its challenge.
    codes: HashMap<String, String>,
    /// The valid access tokens.
    tokens: Vec<String>,
    /// The unused refresh tokens.
    renewing: Vec<String>,
    /// Requests to the token endpoint, by the kind of grant.
    asked: Vec<String>,
}

impl OAuthServer {
    /// Creates a server that is reached at `base`, such as `http://127.0.0.1:5000`, with tokens that are valid for an
    /// hour.
    #[must_use]
    pub fn new(base: impl Into<String>) -> Self {
        let known = Known {
            count: 0,
            expires_in: 3600,
            is_denied: false,
            is_away: false,
            codes: HashMap::new(),
            tokens: Vec::new(),
            renewing: Vec::new(),
            asked: Vec::new(),
        };
        Self {
            base: base.into(),
            known: Arc::new(Mutex::new(known)),
        }
    }

    /// Its own routes, and `guarded` for requests with a token.
    pub fn routes(&self, guarded: Router) -> Router {
        let guarded = guarded.layer(from_fn_with_state(self.clone(), with_token));
        Router::new()
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(self.clone())
            .merge(guarded)
    }

    /// Sets the lifetime of tokens that are issued from now on.
    pub fn expire_in(&self, seconds: u64) {
        self.known().expires_in = seconds;
    }

    /// From now on, the user denies access.
    pub fn deny(&self) {
        self.known().is_denied = true;
    }

    /// Sets whether it answers that it issues no tokens at the moment (503).
    pub fn set_away(&self, is_away: bool) {
        self.known().is_away = is_away;
    }

    /// Revokes everything that was issued.
    pub fn revoke(&self) {
        let mut known = self.known();
        known.tokens.clear();
        known.renewing.clear();
    }

    /// How many tokens were requested with `grant`: `authorization_code` or `refresh_token`.
    #[must_use]
    pub fn asked(&self, grant: &str) -> usize {
        self.known().asked.iter().filter(|asked| *asked == grant).count()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}

impl Known {
    fn draw(&mut self, prefix: &str) -> String {
        self.count += 1;
        format!("{prefix}-{}", self.count)
    }

    fn give_out(&mut self) -> Value {
        let (token, renewing) = (self.draw("token"), self.draw("renewing"));
        self.tokens.push(token.clone());
        self.renewing.push(renewing.clone());
        json!({"access_token": token, "token_type": "Bearer", "expires_in": self.expires_in, "refresh_token": renewing, "scope": "desk"})
    }
}

async fn with_token(State(server): State<OAuthServer>, request: Request, next: Next) -> Response {
    let head = request.headers().get(AUTHORIZATION).and_then(|head| head.to_str().ok());
    let token = head.and_then(|head| head.strip_prefix("Bearer ")).unwrap_or_default();
    let is_let_in = server.known().tokens.iter().any(|good| good == token);
    if is_let_in {
        return next.run(request).await;
    }
    let at = format!("{}/.well-known/oauth-protected-resource/mcp", server.base);
    let challenge = format!("Bearer resource_metadata=\"{at}\", scope=\"desk\"");
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, challenge)]).into_response()
}

async fn resource(State(server): State<OAuthServer>) -> Json<Value> {
    let base = &server.base;
    Json(json!({"resource": format!("{base}/mcp"), "authorization_servers": [base], "scopes_supported": ["desk"]}))
}

async fn metadata(State(server): State<OAuthServer>) -> Json<Value> {
    let base = &server.base;
    Json(json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
    }))
}

async fn register(State(server): State<OAuthServer>, Json(asked): Json<Value>) -> (StatusCode, Json<Value>) {
    let id = server.known().draw("client");
    let answer = json!({"client_id": id, "client_name": asked["client_name"], "redirect_uris": asked["redirect_uris"]});
    (StatusCode::CREATED, Json(answer))
}

async fn authorize(State(server): State<OAuthServer>, Query(asked): Query<HashMap<String, String>>) -> Response {
    let value = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let mut known = server.known();
    let (redirect, state) = (value("redirect_uri"), value("state"));
    let location = if known.is_denied {
        format!("{redirect}?error=access_denied&error_description=not%20today&state={state}")
    } else if value("code_challenge_method") == "S256" && value("resource") == format!("{}/mcp", server.base) {
        let code = known.draw("code");
        known.codes.insert(code.clone(), value("code_challenge"));
        format!("{redirect}?code={code}&state={state}")
    } else {
        format!("{redirect}?error=invalid_request&state={state}")
    };
    (StatusCode::FOUND, [(LOCATION, location)]).into_response()
}

async fn token(State(server): State<OAuthServer>, body: String) -> Response {
    const JSON: [(HeaderName, &str); 1] = [(CONTENT_TYPE, "application/json")];
    // A form body has the syntax of a query string.
    let form = format!("/?{body}").parse::<Uri>().ok();
    let form = form.and_then(|form| Query::<HashMap<String, String>>::try_from_uri(&form).ok());
    let Query(fields) = form.unwrap_or_default();
    let value = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let mut known = server.known();
    known.asked.push(value("grant_type"));
    if known.is_away {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let is_right = match value("grant_type").as_str() {
        "authorization_code" => {
            let proof = BASE64URL_NOPAD.encode(&Sha256::digest(value("code_verifier")));
            known
                .codes
                .remove(&value("code"))
                .is_some_and(|challenge| challenge == proof)
        }
        "refresh_token" => {
            let used = value("refresh_token");
            let at = known.renewing.iter().position(|good| *good == used);
            at.map(|at| known.renewing.remove(at)).is_some()
        }
        _ => false,
    };
    if is_right {
        (JSON, known.give_out().to_string()).into_response()
    } else {
        (
            StatusCode::BAD_REQUEST,
            JSON,
            json!({"error": "invalid_grant"}).to_string(),
        )
            .into_response()
    }
}
