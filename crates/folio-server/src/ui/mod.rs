//! The pages for people: runs as they happen, the scratch page, scratchbooks, turns, search, and what can be asked for.
//!
//! Files for the browser, embedded as they are, without a build step. They are the same for everybody; what is kept,
//! their scripts ask for over the interface that all programs use.

use std::sync::LazyLock;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

/// The addresses of the page. The document is the same for all of them: its script looks at the address.
const PAGES: [&str; 10] = [
    "/",
    "/runs/{run}",
    "/observations",
    "/observations/{observation}",
    "/threads",
    "/threads/{thread}",
    "/turns",
    "/turns/{turn}",
    "/pages/{page}",
    "/search",
];

macro_rules! files {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!($name))),*] };
}

/// What the page loads, from below `/ui/`.
const FILES: [(&str, &str); 30] = files![
    "app.js",
    "ask.js",
    "branches.js",
    "clock.js",
    "diff.js",
    "docs.js",
    "dom.js",
    "filters.js",
    "format.js",
    "happened.js",
    "icon.svg",
    "limits.js",
    "markdown.js",
    "node.js",
    "observation.js",
    "observations.js",
    "page.js",
    "plan.js",
    "questions.js",
    "run.js",
    "runs.js",
    "search.js",
    "standing.js",
    "style.css",
    "threads.js",
    "tree.js",
    "turn.js",
    "turns.js",
    "uses.js",
    "values.js",
];

const INDEX: &str = include_str!("index.html");
const DOCS: &str = include_str!("docs.html");
const NOT_FOUND_PAGE: &str = include_str!("lost.html");

/// The pages, what they load, and the description of the interface.
pub(crate) fn routes() -> Router {
    let mut router = Router::new()
        .route(
            "/docs",
            File::of("docs.html", Bytes::from_static(DOCS.as_bytes())).route(),
        )
        .route(
            "/openapi.json",
            get(async |headers: HeaderMap| {
                static DESCRIPTION: LazyLock<File> =
                    LazyLock::new(|| File::of("openapi.json", format!("{:#}\n", crate::http::document()).into()));
                DESCRIPTION.answer(&headers)
            }),
        );
    let index = File::of("index.html", Bytes::from_static(INDEX.as_bytes()));
    for path in PAGES {
        router = router.route(path, index.clone().route());
    }
    for (name, text) in FILES {
        let file = File::of(name, Bytes::from_static(text.as_bytes()));
        router = router.route(&format!("/ui/{name}"), file.route());
    }
    router
}

/// Whether somebody with a browser asks for an address that nothing has.
pub(crate) fn is_unknown_page_request(request: &Request) -> bool {
    let has_route = request.extensions().get::<MatchedPath>().is_some();
    !has_route && accepts_html(request.method(), request.headers())
}

/// Whether a page is wanted and not JSON, as browsers say it.
pub(crate) fn accepts_html(method: &Method, headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let kinds = accept.unwrap_or_default().split(',').map(|kind| {
        let kind = kind.split(';').next().unwrap_or_default();
        kind.trim().to_ascii_lowercase()
    });
    let (mut html, mut json) = (false, false);
    for kind in kinds {
        html |= kind == "text/html";
        json |= kind.ends_with("json");
    }
    matches!(*method, Method::GET | Method::HEAD) && html && !json
}

/// Says to people that there is nothing at an address, and leads them back.
pub(crate) fn not_found_page() -> Response {
    let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (StatusCode::NOT_FOUND, kind, NOT_FOUND_PAGE).into_response()
}

/// A file as it is sent.
#[derive(Debug, Clone)]
struct File {
    kind: HeaderValue,
    body: Bytes,
    /// Names the content, so that a browser that has it need not load it.
    tag: HeaderValue,
}

impl File {
    fn of(name: &str, body: Bytes) -> Self {
        let kind = match name.rsplit('.').next() {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("json") => "application/json",
            _ => "text/html; charset=utf-8",
        };
        let hash = HEXLOWER.encode(&Sha256::digest(&body)[..16]);
        let tag = HeaderValue::from_str(&format!("\"{hash}\"")).unwrap_or(HeaderValue::from_static("\"\""));
        Self {
            kind: HeaderValue::from_static(kind),
            body,
            tag,
        }
    }

    fn route<S: Clone + Send + Sync + 'static>(self) -> axum::routing::MethodRouter<S> {
        get(async move |headers: HeaderMap| self.answer(&headers))
    }

    fn answer(&self, headers: &HeaderMap) -> Response {
        let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
        let own_tag = self.tag.to_str().unwrap_or_default();
        let has_it = known.is_some_and(|tags| {
            let mut tags = tags.split(',').map(|tag| tag.trim().trim_start_matches("W/"));
            tags.any(|tag| tag == own_tag)
        });
        let head = [
            (header::ETAG, self.tag.clone()),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        ];
        if has_it {
            return (StatusCode::NOT_MODIFIED, head).into_response();
        }
        (head, [(header::CONTENT_TYPE, self.kind.clone())], self.body.clone()).into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_ui_file_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ui");
        let there: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.ends_with(".rs") && !name.ends_with(".html"))
            .collect();
        assert_eq!(there, FILES.iter().map(|(name, _)| (*name).to_owned()).collect());
    }

    #[test]
    fn html_page_is_served_only_when_html_is_accepted_first() {
        let asks = |method: Method, accepted: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accepted));
            accepts_html(&method, &headers)
        };
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        assert!(asks(Method::GET, browser) && asks(Method::HEAD, "TEXT/HTML ; q=0.5"));
        assert!(!asks(Method::POST, browser));
        for program in [
            "*/*",
            "application/json",
            "application/problem+json, text/html",
            "text/plain",
            "",
        ] {
            assert!(!asks(Method::GET, program), "{program}");
        }
        assert!(!accepts_html(&Method::GET, &HeaderMap::new()));
    }

    #[test]
    fn matching_if_none_match_returns_not_modified() {
        let file = File::of("a.js", Bytes::from_static(b"1"));
        let mut headers = HeaderMap::new();
        assert_eq!(file.answer(&headers).status(), 200);
        headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("\"other\""));
        assert_eq!(file.answer(&headers).status(), 200);
        let both = format!("\"other\", W/{}", file.tag.to_str().unwrap());
        headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(&both).unwrap());
        assert_eq!(file.answer(&headers).status(), 304);
    }
}
