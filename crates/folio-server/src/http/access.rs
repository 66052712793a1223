//! Authentication: by the token sent with the request, or, without a token, as whoever can reach the address.
//!
//! A token is looked up by its hash for each request, so a token revoked by any process opens nothing from then on, and
//! streams that it opened send nothing more. While the store is away, the tokens count that it had when they were last
//! read, for an hour at most: nothing of the store can be read then, but what a tool has to say can be kept for it.
//! Requests with a token are counted per token, so a program out of control is slowed down without affecting others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use folio::runner::Runner;
use folio::store::StoreError;
use folio::store::access::{KeptToken, hash_of};
use folio::{Actor, SpaceName};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::problem::Problem;
use crate::ui;

/// The path at which everybody may ask whether the process answers.
pub(crate) const HEALTH_PATH: &str = "/healthz";

/// The size of a burst: as many requests as are allowed in this many seconds.
const BURST_SECONDS: f64 = 2.0;

/// How long the store may take to answer which tokens there are; then it counts as away. The rest of the time of a
/// request is for the request.
const TOKENS_WITHIN: Duration = Duration::from_secs(11);
/// How long tokens count that were read before the store was away.
const REMEMBERED_FOR: Duration = Duration::from_secs(3_600);

/// The caller, and the token by which it was authenticated. Every request that reaches a handler has one.
#[derive(Debug, Clone)]
pub(crate) struct Permit {
    pub(crate) actor: Actor,
    /// The only space that it opens.
    pub(crate) space: SpaceName,
    token: Option<Token>,
}

/// The token of a request, and where it is looked up.
#[derive(Debug, Clone)]
struct Token {
    id: String,
    tokens: Tokens,
}

impl Permit {
    /// Returns whether the request had a token.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Returns the id of the token that the request had.
    pub(crate) fn token_id(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.id.as_str())
    }

    /// Checks that the token is still valid. An answer may last for hours, and the token may be revoked or expire
    /// meanwhile.
    pub(crate) async fn check_still_valid(&self) -> Result<(), Problem> {
        let Some(token) = &self.token else { return Ok(()) };
        token.tokens.find_valid(|kept| kept.id == token.id).await.map(drop)
    }
}

/// The tokens of the store of `runner`, and when they were last read. Cheap to clone.
#[derive(Debug, Clone)]
struct Tokens {
    runner: Runner,
    last_read: Arc<Mutex<Option<ReadTokens>>>,
}

/// The tokens that the store had at some moment.
#[derive(Debug, Clone)]
struct ReadTokens {
    at: Instant,
    tokens: Arc<Vec<KeptToken>>,
}

impl Tokens {
    /// Returns the valid token for which `is_match` holds.
    async fn find_valid(&self, is_match: impl Fn(&KeptToken) -> bool) -> Result<KeptToken, Problem> {
        let tokens = self.read().await?;
        let now = self.runner.workspace().clock().now();
        let found = tokens.iter().find(|kept| is_match(kept) && kept.is_valid(now));
        found.cloned().ok_or_else(|| {
            Problem::new(
                StatusCode::UNAUTHORIZED,
                "token_invalid",
                "the access token is unknown, expired or revoked",
            )
            .hint("`folio token list` lists the access tokens")
        })
    }

    /// Reads the tokens, or returns those that were last read if the store is away.
    async fn read(&self) -> Result<Arc<Vec<KeptToken>>, Problem> {
        let started = Instant::now();
        let read = tokio::time::timeout(TOKENS_WITHIN, self.runner.workspace().store().tokens()).await;
        let problem = match read {
            Ok(Ok(tokens)) => {
                let tokens = Arc::new(tokens);
                *self.last_read.lock() = Some(ReadTokens {
                    at: started,
                    tokens: Arc::clone(&tokens),
                });
                return Ok(tokens);
            }
            // A store of a newer version is unavailable as well, but for good.
            Ok(Err(error @ StoreError::Unavailable { .. })) => Problem::from(error),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => {
                let detail = format!("the store did not answer for {} seconds", TOKENS_WITHIN.as_secs());
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_slow", detail)
            }
        };
        let known = self.last_read.lock().clone();
        let known = known.filter(|read| read.at.elapsed() < REMEMBERED_FOR);
        known.map(|read| read.tokens).ok_or(problem)
    }
}

/// The rules by which requests are admitted.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) runner: Runner,
    /// The actor of requests without a token; `None` if a token is required.
    pub(crate) local: Option<Actor>,
    /// The number of requests per second that one token may make.
    pub(crate) per_second: u32,
    tokens: Tokens,
    counts: Arc<Mutex<HashMap<String, TokenBucket>>>,
}

/// The requests that a token has left.
#[derive(Debug, Clone, Copy)]
struct TokenBucket {
    remaining: f64,
    updated_at: Instant,
}

impl Access {
    /// Admits requests: as `local` to the space of `runner` without a token, and to the space of the token with one, at
    /// `per_second` requests per second.
    pub(crate) fn new(runner: Runner, local: Option<Actor>, per_second: u32) -> Self {
        let tokens = Tokens {
            runner: runner.clone(),
            last_read: Arc::default(),
        };
        Self {
            runner,
            local,
            per_second,
            tokens,
            counts: Arc::default(),
        }
    }

    async fn permit(&self, headers: &HeaderMap) -> Result<Permit, Problem> {
        let Some(secret) = token_in(headers)? else {
            let local = self.local.clone().ok_or_else(|| {
                Problem::new(
                    StatusCode::UNAUTHORIZED,
                    "token_missing",
                    "this server requires an access token",
                )
                .hint("send it as `Authorization: Bearer TOKEN`; `folio token new` creates one")
            })?;
            return Ok(Permit {
                actor: local,
                space: self.runner.workspace().space().clone(),
                token: None,
            });
        };
        let hash = hash_of(secret);
        let kept = self.tokens.find_valid(|kept| kept.hash == hash).await?;
        if !self.admit_request(&kept.id) {
            let detail = format!(
                "an access token may make at most {} requests per second",
                self.per_second
            );
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", detail));
        }
        Ok(Permit {
            actor: Actor::new(kept.role, kept.name),
            space: kept.space,
            token: Some(Token {
                id: kept.id,
                tokens: self.tokens.clone(),
            }),
        })
    }

    /// Counts one more request of the token `id` and returns whether it is admitted.
    fn admit_request(&self, id: &str) -> bool {
        let max_count = f64::from(self.per_second) * BURST_SECONDS;
        let now = Instant::now();
        // The map never exceeds the number of tokens that were valid here.
        let mut counts = self.counts.lock();
        let count = counts.entry(id.to_owned()).or_insert(TokenBucket {
            remaining: max_count,
            updated_at: now,
        });
        let elapsed = now.saturating_duration_since(count.updated_at).as_secs_f64();
        count.remaining = (count.remaining + elapsed * f64::from(self.per_second)).min(max_count);
        count.updated_at = now;
        let is_fine = count.remaining >= 1.0;
        if is_fine {
            count.remaining -= 1.0;
        }
        is_fine
    }
}

/// Returns the token in the header `Authorization`.
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

/// Admits authenticated requests. `/healthz`, and the page that tells people that an address does not exist, need no
/// token: a browser cannot send one with an address.
pub(crate) async fn authorize(State(access): State<Access>, mut request: Request, next: Next) -> Response {
    if request.uri().path() == HEALTH_PATH || ui::is_unknown_page_request(&request) {
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
