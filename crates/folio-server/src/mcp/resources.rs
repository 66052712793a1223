//! Resources, which a host can read besides calling tools: views, pages and runs as markdown, each under an address.

use std::borrow::Cow;
use std::fmt;

use folio::memory::PageQuery;
use folio::memory::id::{PageRef, RunHandle, RunRef};
use folio::memory::view::Audience;
use folio::store::RunQuery;
use folio::store::workspace::ViewRequest;
use folio::{ThreadKey, Workspace};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::ErrorData;
use rmcp::model::{ListResourcesResult, Resource, ResourceTemplate};
use serde_json::json;

use super::run_text::run_markdown;
use super::{Caller, Mcp, ToolSet, notices};
use crate::http::problem::Problem;

/// The media type of every resource.
pub(super) const MARKDOWN: &str = "text/markdown";
/// Pages in one list.
const PAGES_PER_LIST: u32 = 50;
/// The newest runs, in the first list.
const NEWEST_RUNS: u32 = 20;
/// Runs in one of the lists after the pages.
const RUNS_PER_LIST: u32 = 50;
/// The most bytes of a text that are sent; the rest is read in parts, with tools.
const MAX_BYTES: usize = 256 * 1024;

/// The address of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    /// The view of the scratchbook of the thread with this name.
    View(String),
    Page(PageRef),
    Run(RunRef),
}

impl Address {
    /// Parses an address as [`fmt::Display`] writes it.
    pub(super) fn parse(uri: &str) -> Option<Self> {
        let (kind, name) = uri.strip_prefix("folio://")?.split_once('/')?;
        let name: Cow<'_, str> = percent_decode_str(name).decode_utf8().ok()?;
        match kind {
            "view" if !name.is_empty() => Some(Self::View(name.into_owned())),
            "page" => name.parse().ok().map(Self::Page),
            "run" => name.parse().ok().map(Self::Run),
            _ => None,
        }
    }
}

/// Where a list of resources continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Continuation {
    /// With the page after this number.
    Pages(u64),
    /// With the runs before this one, when there are no more pages.
    Runs(RunHandle),
}

impl Continuation {
    fn parse(cursor: &str) -> Option<Self> {
        let page = cursor.parse().ok().map(Self::Pages);
        page.or_else(|| cursor.parse().ok().map(Self::Runs))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::View(thread) => write!(f, "folio://view/{}", utf8_percent_encode(thread, NON_ALPHANUMERIC)),
            Self::Page(page) => write!(f, "folio://page/{page}"),
            Self::Run(run) => write!(f, "folio://run/{run}"),
        }
    }
}

/// Returns the templates of the addresses.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template = |form: &str, name: &str, description: &str| {
        ResourceTemplate::new(form, name)
            .with_description(description)
            .with_mime_type(MARKDOWN)
    };
    vec![
        template(
            "folio://view/{thread}",
            "view",
            "The scratchbook of a thread, as a model reads it",
        ),
        template("folio://page/{handle}", "page", "A page with everything on it, e.g. p7"),
        template(
            "folio://run/{run}",
            "run",
            "A run: its state, its steps and its results, e.g. r3",
        ),
    ]
}

/// Returns what the argument of an address template names: `thread`, `page` or `run`.
pub(super) fn completed_kind(form: &str, argument: &str) -> Option<&'static str> {
    match (form, argument) {
        ("folio://view/{thread}", "thread") => Some("thread"),
        ("folio://page/{handle}", "handle") => Some("page"),
        ("folio://run/{run}", "run") => Some("run"),
        _ => None,
    }
}

/// Returns the error that no resource has this address.
pub(super) fn unknown(uri: &str) -> ErrorData {
    let message = format!(
        "there is no resource {uri:?}; there are folio://view/{{thread}}, folio://page/{{handle}} and folio://run/{{run}}"
    );
    ErrorData::resource_not_found(message, Some(json!({"uri": uri})))
}

/// Converts a failure to read the resource `uri` into an error of the protocol.
pub(super) fn failed(problem: &Problem, uri: &str) -> ErrorData {
    let data = Some(json!({"uri": uri, "code": problem.code()}));
    match problem.status() {
        404 => ErrorData::resource_not_found(problem.text(), data),
        status if status < 500 => ErrorData::invalid_params(problem.text(), data),
        _ => ErrorData::internal_error(problem.text(), data),
    }
}

impl Mcp {
    /// Returns the text of the resource at `address`.
    pub(super) async fn text_of(&self, caller: &Caller, address: &Address) -> Result<String, Problem> {
        let workspace = &caller.workspace;
        let text = match address {
            Address::View(thread) => {
                let thread = self.shared.options.thread_of(Some(thread))?;
                let request = ViewRequest {
                    audience: Some(Audience::Message),
                    ..ViewRequest::of(thread)
                };
                let view = workspace.view(request, &caller.tokens).await?;
                match view.instead() {
                    Some(why) => format!("{why}\n"),
                    None => view.rendered.text.clone(),
                }
            }
            Address::Page(page) => {
                let (heading, markdown) = workspace.page_for_models(*page).await?;
                heading + &markdown
            }
            Address::Run(run) => {
                let row = workspace.run(*run).await?;
                let (row, run) = self.shared.runner.seen(row.id).await?;
                run_markdown(&row, &run, self.has_runs())
            }
        };
        let reader = match address {
            Address::View(_) | Address::Page(_) => self.page_reader().await,
            Address::Run(_) => self.has_runs().then_some("run_status"),
        };
        let text = notices::for_clients(&text, self.has_scratchbook().await).into_owned();
        Ok(truncate_text(text, reader))
    }

    /// Returns the tool that reads pages, and views of scratchbooks, if one is offered.
    pub(super) async fn page_reader(&self) -> Option<&'static str> {
        if self.has_scratchbook().await {
            return Some("scratch_read");
        }
        let sets = &self.shared.options.sets;
        sets.contains(&ToolSet::Memory).then_some("memory_page")
    }

    /// Lists the resources: the view, the newest runs, the pages in their order, and then the older runs.
    pub(super) async fn resources(
        &self,
        caller: &Caller,
        cursor: Option<&str>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let invalid_cursor =
            |cursor| ErrorData::invalid_params(format!("{cursor:?} is not a cursor of this list"), None);
        let from = match cursor {
            None => None,
            Some(cursor) => Some(Continuation::parse(cursor).ok_or_else(|| invalid_cursor(cursor))?),
        };
        self.list(caller, from)
            .await
            .map_err(|problem| failed(&problem, "folio://"))
    }

    async fn list(&self, caller: &Caller, from: Option<Continuation>) -> Result<ListResourcesResult, Problem> {
        let workspace = &caller.workspace;
        let mut resources = Vec::new();
        let after = match from {
            None => None,
            Some(Continuation::Pages(after)) => Some(after),
            Some(Continuation::Runs(before)) => {
                let older = some_runs(workspace, Some(before), RUNS_PER_LIST, &mut resources).await?;
                return Ok(list_of(resources, older.map(|run| run.to_string())));
            }
        };
        if after.is_none() {
            let ThreadKey(thread) = caller.thread.clone();
            resources.push(listed(Address::View(thread), "view".to_owned(), "Scratchbook"));
            some_runs(workspace, None, NEWEST_RUNS, &mut resources).await?;
        }
        let query = PageQuery {
            after,
            limit: PAGES_PER_LIST + 1,
            ..PageQuery::default()
        };
        let mut pages = workspace.pages(&query).await?;
        let has_more = pages.len() > PAGES_PER_LIST as usize;
        pages.truncate(PAGES_PER_LIST as usize);
        for page in &pages {
            let address = Address::Page(PageRef::Handle(page.handle));
            resources.push(listed(address, page.handle.to_string(), &page.fields.title));
        }
        let next = match pages.last().filter(|_| has_more) {
            Some(page) => Some(page.handle.0.to_string()),
            // Runs that have begun meanwhile move the first ones down; those are listed twice then.
            None => {
                let older = some_runs(workspace, None, NEWEST_RUNS, &mut Vec::new()).await?;
                older.map(|run| run.to_string())
            }
        };
        Ok(list_of(resources, next))
    }
}

/// Adds the `most` newest runs `before` one of them to `resources`; returns the last one if there are older ones.
async fn some_runs(
    workspace: &Workspace,
    before: Option<RunHandle>,
    most: u32,
    resources: &mut Vec<Resource>,
) -> Result<Option<RunHandle>, Problem> {
    let query = RunQuery {
        before: before.map(|run| run.0),
        limit: most + 1,
        ..RunQuery::default()
    };
    let mut runs = workspace.runs_in_sight(&query).await?;
    let has_more = runs.len() > most as usize;
    runs.truncate(most as usize);
    for run in &runs {
        let address = Address::Run(RunRef::Handle(run.handle));
        let title = if run.is_forgotten() { &run.status } else { &run.title };
        resources.push(listed(address, run.handle.to_string(), title));
    }
    Ok(runs.last().filter(|_| has_more).map(|run| run.handle))
}

fn listed(address: Address, name: String, title: &str) -> Resource {
    let title = if title.is_empty() { &name } else { title }.to_owned();
    Resource::new(address.to_string(), name)
        .with_title(title)
        .with_mime_type(MARKDOWN)
}

fn list_of(resources: Vec<Resource>, next: Option<String>) -> ListResourcesResult {
    let mut list = ListResourcesResult::with_all_items(resources);
    list.next_cursor = next;
    list
}

/// Returns `text`, or its beginning with a line that says how much is left, and that the tool `reader`
/// shows it, if there is one.
fn truncate_text(mut text: String, reader: Option<&str>) -> String {
    if text.len() > MAX_BYTES {
        let end = text.floor_char_boundary(MAX_BYTES);
        let end = text[..end].rfind('\n').map_or(end, |at| at + 1);
        let left = text.len() - end;
        text.truncate(end);
        let reader = reader.map(|tool| format!("; read on with {tool}")).unwrap_or_default();
        text.push_str(&format!("(+{left} bytes{reader})\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_address_round_trips_and_invalid_uris_are_refused() {
        for address in [
            Address::View("/home/ada/füllen 100%".to_owned()),
            Address::View("main".to_owned()),
            Address::Page("p7".parse().expect("a handle")),
            Address::Run("r3".parse().expect("a handle")),
        ] {
            assert_eq!(Address::parse(&address.to_string()), Some(address));
        }
        for uri in [
            "folio://view/",
            "folio://page/e7",
            "folio://run/",
            "folio://other/x",
            "file:///etc/passwd",
            "folio://view/%FF",
        ] {
            assert_eq!(Address::parse(uri), None, "{uri}");
        }
    }

    #[test]
    fn oversized_resource_text_is_cut_and_states_the_omitted_bytes() {
        let text = truncate_text("a line of it\n".repeat(40_000), Some("run_status"));
        let (shown, last) = text.rsplit_once("(+").expect("it goes on");
        assert!(shown.len() <= MAX_BYTES && shown.ends_with("of it\n"));
        let left = "a line of it\n".len() * 40_000 - shown.len();
        assert_eq!(last, format!("{left} bytes; read on with run_status)\n"));
    }
}
