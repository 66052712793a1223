//! Who asks: by the token that is sent with the request, or whoever can reach the address.
//!
//! A token is looked up by its hash each time, so that one that was taken back, by whatever process, opens nothing from then
//! on; nor is more told on what it had opened. Requests that come with a token are counted: a program that runs away is slowed down, and nobody else is.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use folio::Actor;
use folio::runner::Runner;
use folio::store::access::{KeptToken, hash_of};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::problem::Problem;
use crate::ui;

/// Requests that may come at once, in seconds of what is allowed.
const BURST_SECONDS: f64 = 2.0;

/// Who asks, and by what right. Every request that is answered has one.
#[derive(Debug, Clone)]
pub(crate) struct Permit {
    pub(crate) actor: Actor,
    token: Option<Token>,
}

/// The token that was shown, and where it is kept.
#[derive(Debug, Clone)]
struct Token {
    id: String,
    runner: Runner,
}

impl Permit {
    /// Whether a token was shown.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Which token was shown.
    pub(crate) fn token_id(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.id.as_str())
    }

    /// That it still holds. An answer may go on for hours, and a token may be taken back meanwhile, or run out.
    pub(crate) async fn still_holds(&self) -> Result<(), Problem> {
        let Some(token) = &self.token else { return Ok(()) };
        valid_token(&token.runner, |kept| kept.id == token.id).await.map(drop)
    }
}

/// The token that `is_it`, if it opens something.
async fn valid_token(runner: &Runner, is_it: impl Fn(&KeptToken) -> bool) -> Result<KeptToken, Problem> {
    let workspace = runner.workspace();
    let tokens = workspace.store().tokens().await?;
    let now = workspace.clock().now();
    let found = tokens.into_iter().find(|kept| is_it(kept) && kept.is_valid(now));
    found.ok_or_else(|| {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "token_invalid",
            "the access token opens nothing, or nothing any more",
        )
        .hint("`folio token list` shows which there are")
    })
}

/// By what right requests are answered.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) runner: Runner,
    /// Who asks without a token; none if one is demanded.
    pub(crate) local: Option<Actor>,
    /// Requests that one token may make in a second.
    pub(crate) per_second: u32,
    counts: Arc<Mutex<HashMap<String, Count>>>,
}

/// What is left to a token.
#[derive(Debug, Clone, Copy)]
struct Count {
    left: f64,
    at: Instant,
}

impl Access {
    /// The right to ask what `runner` works in: as `local` without a token, and `per_second` times with one.
    pub(crate) fn new(runner: Runner, local: Option<Actor>, per_second: u32) -> Self {
        Self {
            runner,
            local,
            per_second,
            counts: Arc::default(),
        }
    }

    async fn permit(&self, headers: &HeaderMap) -> Result<Permit, Problem> {
        let Some(secret) = token_in(headers)? else {
            let local = self.local.clone().ok_or_else(|| {
                Problem::new(
                    StatusCode::UNAUTHORIZED,
                    "token_missing",
                    "this server answers those only who show an access token",
                )
                .hint("send it as `Authorization: Bearer TOKEN`; `folio token new` makes one")
            })?;
            return Ok(Permit {
                actor: local,
                token: None,
            });
        };
        let hash = hash_of(secret);
        let kept = valid_token(&self.runner, |kept| kept.hash == hash).await?;
        if kept.space != *self.runner.workspace().space() {
            let detail = format!("the access token opens the space {}, and no other", kept.space);
            return Err(Problem::new(StatusCode::FORBIDDEN, "token_of_another_space", detail));
        }
        if !self.counts_as_one(&kept.id) {
            let detail = format!("an access token makes {} requests in a second at most", self.per_second);
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", detail));
        }
        Ok(Permit {
            actor: Actor::new(kept.role, kept.name),
            token: Some(Token {
                id: kept.id,
                runner: self.runner.clone(),
            }),
        })
    }

    /// Whether one more request of the token `id` is answered.
    fn counts_as_one(&self, id: &str) -> bool {
        let most = f64::from(self.per_second) * BURST_SECONDS;
        let now = Instant::now();
        // As many as there are tokens that opened something.
        let mut counts = self.counts.lock();
        let count = counts.entry(id.to_owned()).or_insert(Count { left: most, at: now });
        let since = now.saturating_duration_since(count.at).as_secs_f64();
        count.left = (count.left + since * f64::from(self.per_second)).min(most);
        count.at = now;
        let is_fine = count.left >= 1.0;
        if is_fine {
            count.left -= 1.0;
        }
        is_fine
    }
}

/// The token in `Authorization`.
fn token_in(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Ok(None);
    };
    let token = value.to_str().ok().and_then(|text| text.split_once(' '));
    let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    token.map(|(_, token)| Some(token.trim())).ok_or_else(|| {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "token_invalid",
            "the header Authorization has no access token",
        )
        .hint("write `Bearer TOKEN`")
    })
}

/// Answers those who may ask. That the process is there, everybody is told, and people that they are lost: a browser has no token to
/// send with an address.
pub(crate) async fn permitted(State(access): State<Access>, mut request: Request, next: Next) -> Response {
    if request.uri().path() == "/healthz" || ui::is_lost(&request) {
        return next.run(request).await;
    }
    match access.permit(request.headers()).await {
        Ok(permit) => {
            request.extensions_mut().insert(permit);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}
