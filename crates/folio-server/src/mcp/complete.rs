//! Completes what a person types: threads, handles of pages, handles of runs.

use folio::memory::{PageQuery, PageRole};
use folio::store::RunQuery;
use rmcp::model::{CompleteRequestParams, CompletionInfo, Reference};

use super::{Caller, prompts, resources};
use crate::http::problem::Problem;

/// How many pages and runs are searched, the newest.
const MAX_SEARCHED: u32 = 1_000;

/// Returns values of an argument that begin with what was typed so far, the newest first, and how many there are if all
/// were searched; none for an argument that cannot be completed. If the connection `is_bound` to a thread, a prompt's `thread` completes to that one only.
pub(super) async fn values(
    caller: &Caller,
    request: &CompleteRequestParams,
    is_bound: bool,
) -> Result<CompletionInfo, Problem> {
    let subject = match (&request.r#ref, request.argument.name.as_str()) {
        (Reference::Prompt(prompt), "thread") if prompts::has_prompt(&prompt.name) => "thread",
        (Reference::Resource(template), argument) => {
            resources::completed_kind(&template.uri, argument).unwrap_or_default()
        }
        _ => "",
    };
    let workspace = &caller.workspace;
    let is_prompt = matches!(request.r#ref, Reference::Prompt(_));
    let all: Vec<String> = match subject {
        "thread" if is_bound && is_prompt => vec![caller.thread.0.clone()],
        "thread" => {
            let books = PageQuery {
                roles: vec![PageRole::Scratchbook],
                newest_first: true,
                limit: MAX_SEARCHED,
                ..PageQuery::default()
            };
            let books = workspace.pages(&books).await?;
            books
                .into_iter()
                .filter_map(|book| Some(book.fields.thread?.0))
                .collect()
        }
        "page" => {
            let newest = PageQuery {
                newest_first: true,
                limit: MAX_SEARCHED,
                ..PageQuery::default()
            };
            let pages = workspace.pages(&newest).await?;
            pages.into_iter().map(|page| page.handle.to_string()).collect()
        }
        "run" => {
            let newest = RunQuery {
                limit: MAX_SEARCHED,
                ..RunQuery::default()
            };
            let runs = workspace.runs(&newest).await?;
            runs.into_iter().map(|run| run.handle.to_string()).collect()
        }
        _ => Vec::new(),
    };
    // Whoever is told a total takes it for the total of all.
    let is_all = all.len() < MAX_SEARCHED as usize;
    let prefix = &request.argument.value;
    let mut matching: Vec<String> = all.into_iter().filter(|value| value.starts_with(prefix)).collect();
    let total = matching.len();
    matching.truncate(CompletionInfo::MAX_VALUES);
    let has_more = matching.len() < total || !is_all;
    let total = u32::try_from(total).ok().filter(|_| is_all);
    Ok(CompletionInfo::with_pagination(matching, total, has_more).unwrap_or_default())
}
