//! `page_append`: an entry for a page.

use async_trait::async_trait;
use folio_memory::excerpt::one_line;
use folio_memory::id::PageRef;
use serde::Deserialize;
use serde_json::json;

use super::Texts;
use crate::arguments::parse;
use crate::context::ToolContext;
use crate::response::{PageAppend as Append, PageTarget, ToolError, ToolResponse};
use crate::tool::{ArgKind, Effect, Need, Tool, ToolRequest, ToolSpec};

/// Proposes an entry. The caller commits it together with the outcome of the call.
#[derive(Debug)]
pub(super) struct PageAppend {
    spec: ToolSpec,
}

impl Default for PageAppend {
    fn default() -> Self {
        Self {
            spec: ToolSpec::new(
                "page_append",
                Effect::Pure,
                "Appends an entry to a page.",
            )
            .returns("Returns nothing but the number of `bytes`.")
            .needed(Need::Seldom)
            .writing()
            .required("body", ArgKind::Text, "Markdown.")
            .optional("title", ArgKind::Text, "One line.")
            .optional(
                "page",
                ArgKind::Text,
                "`own` (of this branch, the default), `main`, `p7`, an id, or a title; a page is made if none has it.",
            )
            .optional("tags", ArgKind::Texts, "To find it by."),
        }
    }
}

#[derive(Deserialize)]
struct Args {
    body: String,
    title: Option<String>,
    page: Option<String>,
    tags: Option<Texts>,
}

#[async_trait]
impl Tool for PageAppend {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: &ToolRequest, _context: &ToolContext) -> ToolResponse {
        match append(request) {
            Ok(append) => ToolResponse {
                page_appends: vec![append.clone()],
                ..ToolResponse::ok(
                    request,
                    json!({"bytes": append.body.len()}),
                    format!("{} bytes for {}", append.body.len(), named(&append.page)),
                )
            },
            Err(error) => ToolResponse::failed(request, error),
        }
    }
}

fn append(request: &ToolRequest) -> Result<Append, ToolError> {
    let args: Args = parse(request)?;
    let title = args.title.unwrap_or_default();
    if args.body.trim().is_empty() && title.trim().is_empty() {
        return Err(ToolError::invalid("page_append: there is nothing to append"));
    }
    let page = match args.page.as_deref().map(str::trim) {
        None | Some("" | "own") => PageTarget::OwnBranch,
        Some("main") => PageTarget::Main,
        Some(page) if is_reference(page) => PageTarget::Handle(page.trim_start_matches('#').to_owned()),
        Some(title) => PageTarget::Titled(title.to_owned()),
    };
    Ok(Append {
        page,
        title: one_line(&title),
        body: args.body,
        tags: args.tags.unwrap_or_default().0,
    })
}

fn named(page: &PageTarget) -> String {
    match page {
        PageTarget::OwnBranch => "the page of this branch".to_owned(),
        PageTarget::Main => "the main page".to_owned(),
        PageTarget::Handle(handle) => format!("page {handle}"),
        PageTarget::Titled(title) => format!("page “{title}”"),
    }
}

/// Whether `page` is a handle such as `p7` or `#p7`, or an id as prompts name a branch and the workspace.
fn is_reference(page: &str) -> bool {
    page.trim_start_matches('#').parse::<PageRef>().is_ok()
}
