//! The guard before every route: refuses requests of strangers, limits the time of an answer, and sets security
//! headers.
//!
//! If no token is required, everything that can reach the loopback address can make requests. That includes web pages
//! of strangers in the browser of the person who runs the server: by a host name of their own that points at this
//! machine (the header `Host` then has that name), by sending a form here (`Origin` then names their site), or by
//! loading something from here as part of themselves (`Sec-Fetch-Site` says so). All are refused.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::problem::Problem;

/// How long an answer may take to begin after its request has arrived, unless its route declares another time. Streams
/// continue after that.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// The same for operations that read the whole space or a whole run.
pub(crate) const LONG_RESPONSE_TIMEOUT: Duration = Duration::from_secs(600);

/// How long the answer to a request may take to begin. The guard puts it into the request; a route with another time
/// changes it by [`declare_response_time`].
#[derive(Debug, Clone)]
struct ResponseTime(Arc<Mutex<Duration>>);

/// Declares that answers of a route may take `time` to begin. A layer of the route.
pub(crate) async fn declare_response_time(State(time): State<Duration>, request: Request, next: Next) -> Response {
    if let Some(ResponseTime(limit)) = request.extensions().get() {
        *limit.lock() = time;
    }
    next.run(request).await
}

/// The headers of every response, for browsers: load nothing from other sites, run only our own scripts, allow no
/// frames.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Refuses requests of strangers, stops answers that take too long, and sets the headers.
///
/// `any_host`: whether any host name is accepted, because a token is required in any case.
pub(crate) async fn guard(State(any_host): State<bool>, request: Request, next: Next) -> Response {
    let mut response = match refusal(request.method(), request.uri(), request.headers(), any_host) {
        Some(problem) => problem.into_response(),
        None => answer_in_time(request, |request| next.run(request)).await,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // The content changes at any time.
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Returns the answer to `request`, or an error if there is none within the time of its route after the last part of
/// the body arrived: a body may take long to arrive, but at most [`LONG_RESPONSE_TIMEOUT`].
async fn answer_in_time<A: Future<Output = Response>>(request: Request, answer: impl FnOnce(Request) -> A) -> Response {
    let began = Instant::now();
    let last = Arc::new(Mutex::new(began));
    let (mut parts, body) = request.into_parts();
    let limit = Arc::new(Mutex::new(RESPONSE_TIMEOUT));
    parts.extensions.insert(ResponseTime(Arc::clone(&limit)));
    let body = if body.is_end_stream() {
        body
    } else {
        let last_arrival = Arc::clone(&last);
        Body::from_stream(body.into_data_stream().inspect(move |_| {
            *last_arrival.lock() = Instant::now();
        }))
    };
    let mut answer = pin!(answer(Request::from_parts(parts, body)));
    let mut until = began + RESPONSE_TIMEOUT;
    loop {
        if let Ok(response) = tokio::time::timeout_at(until, answer.as_mut()).await {
            return response;
        }
        let (time, last) = (*limit.lock(), *last.lock());
        let extended = last.min(began + LONG_RESPONSE_TIMEOUT) + time;
        if extended <= until {
            return timeout_problem(time).into_response();
        }
        until = extended;
    }
}

fn timeout_problem(time: Duration) -> Problem {
    let detail = format!("there was no answer after {} seconds", time.as_secs());
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_slow", detail).hint("ask for less at a time, or try again")
}

/// Returns why a request is refused before any handler sees it.
fn refusal(method: &Method, uri: &Uri, headers: &HeaderMap, any_host: bool) -> Option<Problem> {
    // With two names, a proxy in front of this server may have checked the other one (RFC 9112, 3.2).
    if headers.get_all(header::HOST).iter().nth(1).is_some() {
        let detail = "the request has more than one header Host";
        return Some(Problem::new(StatusCode::BAD_REQUEST, "header_invalid", detail));
    }
    // A host in the request line takes precedence over the header.
    let host = uri
        .authority()
        .map(|authority| authority.as_str())
        .or_else(|| header_text(headers, &header::HOST));
    let Some(host) = host.filter(|host| any_host || is_loopback(host)) else {
        let detail = match host {
            Some(host) => format!("{host:?} is not a name of this machine's loopback address"),
            None => "the request does not say which host it is for".to_owned(),
        };
        return Some(
            Problem::new(StatusCode::MISDIRECTED_REQUEST, "host_refused", detail)
                .hint("use localhost, 127.0.0.1 or [::1] in the address"),
        );
    };
    // Pages of other ports of this machine are strange as well, although of the same site.
    let is_of_other_page = header_text(headers, &HeaderName::from_static("sec-fetch-site"))
        .is_some_and(|site| !matches!(site, "same-origin" | "none"));
    if method.is_safe() {
        // Whoever follows a link sees the page. The answers to other requests cannot be read by the page that makes
        // them, but a request alone tells whether something is here, and takes its place.
        let is_navigation =
            header_text(headers, &HeaderName::from_static("sec-fetch-mode")).is_some_and(|mode| mode == "navigate");
        return (is_of_other_page && !is_navigation)
            .then(|| origin_refused("a page of another site may not load anything from here"));
    }
    let is_own = |origin: &[u8]| {
        let without_scheme = origin
            .strip_prefix(b"http://")
            .or_else(|| origin.strip_prefix(b"https://").filter(|_| any_host));
        without_scheme == Some(host.as_bytes())
    };
    let is_strange = headers
        .get(header::ORIGIN)
        .is_some_and(|origin| !is_own(origin.as_bytes()));
    (is_strange || is_of_other_page).then(|| origin_refused("a page of another site may not change anything here"))
}

fn origin_refused(detail: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "origin_refused", detail)
}

fn header_text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Returns whether `host`, with or without a port, is a name of the loopback address.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, after)) if after.is_empty() || after.starts_with(':') => name,
            _ => return false,
        },
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use futures_util::stream;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use tokio::sync::watch;

    use super::*;
    use crate::driving::Driving;
    use crate::http::{App, Metrics, Transfers, routers};
    use crate::server::TransferLimits;
    use crate::spaces::Spaces;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns the status of an answer that comes `after` so many seconds to a body of several parts, sent `every` so
    /// many seconds.
    async fn status(parts: u32, every: u32, after: u32) -> StatusCode {
        let parts = stream::unfold(0, move |sent| async move {
            tokio::time::sleep(SECOND * every).await;
            (sent < parts).then(|| (Ok::<_, std::io::Error>("part"), sent + 1))
        });
        let request = Request::new(Body::from_stream(parts));
        let answer = async |request: Request| {
            let body = to_bytes(request.into_body(), usize::MAX).await;
            tokio::time::sleep(SECOND * after).await;
            body.map_or(StatusCode::BAD_REQUEST, |_| StatusCode::OK).into_response()
        };
        answer_in_time(request, answer).await.status()
    }

    #[tokio::test(start_paused = true)]
    async fn response_timeout_starts_when_the_request_body_has_arrived() {
        let (ok, too_slow) = (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE);
        for (parts, every, after, wanted) in [
            (0, 0, 29, ok),
            (0, 0, 31, too_slow),
            (5, 20, 0, ok),
            (5, 2, 25, ok),
            (5, 20, 31, too_slow),
            (2, 31, 0, too_slow),
            (29, 20, 0, ok),
            (60, 20, 0, too_slow),
        ] {
            assert_eq!(status(parts, every, after).await, wanted, "{parts} {every} {after}");
        }
    }

    #[tokio::test]
    async fn each_route_declares_its_response_time_m7_8() {
        let spaces = Spaces::for_tests().await;
        let (_stop, stopping) = watch::channel(false);
        let app = App {
            driving: Driving::of(spaces.clone()),
            spaces,
            folder: None,
            feeds: Arc::default(),
            transfers: Transfers::with_limits(TransferLimits::default()),
            metrics: Metrics::new(false, false),
            stopping,
        };
        let (router, _) = routers(app);
        let router = TowerToHyperService::new(router);
        for (method, path, seconds) in [
            (Method::POST, "/turns", 60),
            (Method::POST, "/turns/t1/end", 60),
            (Method::GET, "/turns", 30),
            (Method::GET, "/turns/t1", 30),
            (Method::GET, "/turns/t1/export", 600),
            (Method::POST, "/threads/a/history", 150),
            (Method::GET, "/threads/a/history", 30),
            (Method::POST, "/threads/export/evict", 30),
            (Method::GET, "/export", 600),
            (Method::POST, "/import", 600),
            (Method::POST, "/forget", 600),
            (Method::POST, "/runs/r1/fork", 600),
            (Method::GET, "/runs/r1", 30),
            (Method::GET, "/runs/r1/diff/r2", 600),
            (Method::GET, "/runs/r1/replay", 600),
            (Method::POST, "/observations", 30),
        ] {
            let limit = Arc::new(Mutex::new(RESPONSE_TIMEOUT));
            let request = axum::http::Request::builder()
                .method(&method)
                .uri(format!("/v1/spaces/main{path}"))
                .extension(ResponseTime(Arc::clone(&limit)))
                .body(Body::empty())
                .expect("a request");
            // Without a permit nothing is carried out.
            let status = router.call(request).await.expect("an answer").status();
            assert!(
                !status.is_success() && status != StatusCode::NOT_FOUND,
                "{path}: {status}"
            );
            assert_eq!(*limit.lock(), SECOND * seconds, "{method} {path}");
        }
    }

    #[test]
    fn request_with_two_host_headers_is_refused_in_any_order() {
        for hosts in [
            ["localhost", "evil.example"],
            ["evil.example", "localhost"],
            ["localhost"; 2],
        ] {
            let named = hosts.map(|host| (header::HOST, HeaderValue::from_static(host)));
            for any_host in [false, true] {
                let refused = refusal(
                    &Method::GET,
                    &Uri::from_static("/"),
                    &named.clone().into_iter().collect(),
                    any_host,
                );
                let status = refused.map(|problem| problem.into_response().status());
                assert_eq!(status, Some(StatusCode::BAD_REQUEST), "{hosts:?}");
            }
        }
    }

    #[test]
    fn page_of_another_site_may_link_here_and_load_nothing() {
        let refused = |method: &Method, headers: &[(&'static str, &'static str)]| {
            let host = [("host", "localhost:7717")];
            let headers = host
                .iter()
                .chain(headers)
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            refusal(method, &Uri::from_static("/"), &headers.collect(), false).map(|problem| problem.code().to_owned())
        };
        let of = |site, mode| [("sec-fetch-site", site), ("sec-fetch-mode", mode)];
        let refusal = Some("origin_refused".to_owned());
        for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
            assert_eq!(refused(&method, &[]), None, "no browser");
            for mode in ["navigate", "no-cors", "cors", "same-origin"] {
                for site in ["same-origin", "none"] {
                    assert_eq!(refused(&method, &of(site, mode)), None, "{method} {site} {mode}");
                }
                for site in ["cross-site", "same-site"] {
                    let wanted = refusal.clone().filter(|_| mode != "navigate");
                    assert_eq!(refused(&method, &of(site, mode)), wanted, "{method} {site} {mode}");
                }
            }
            // Older browsers say only the site.
            assert_eq!(refused(&method, &[("sec-fetch-site", "cross-site")]), refusal);
        }
        // A form is sent by a navigation.
        assert_eq!(refused(&Method::POST, &of("cross-site", "navigate")), refusal);
        assert_eq!(refused(&Method::POST, &of("same-origin", "cors")), None);
    }

    #[test]
    fn only_loopback_host_names_are_accepted() {
        for good in [
            "localhost",
            "LocalHost:7717",
            "127.0.0.1:80",
            "127.0.0.9",
            "[::1]",
            "[::1]:7717",
        ] {
            assert!(is_loopback(good), "{good} was refused");
        }
        for bad in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "10.0.0.1",
            "[::2]",
            "[::1]x",
            "0.0.0.0",
        ] {
            assert!(!is_loopback(bad), "{bad} was taken");
        }
    }
}
