//! The tools for all of memory: search it, get what belongs in a prompt, read pages.

use folio::memory::context::DEFAULT_BUDGET;
use folio::memory::id::PageRef;
use folio::memory::scratchbook::tools::{ANSWER_TOKENS, MAX_ANSWER_TOKENS};
use folio::memory::tokens::Tokens;
use folio::memory::view::is_blank;
use folio::memory::{EntryKind, Tag, TextMatch};
use folio::store::workspace::ContextRequest;
use folio::{EntryQuery, memory};
use rmcp::model::Tool;
use serde::Deserialize;
use serde_json::json;

use super::{Call, Does, invalid_argument, item_limit, list, read, tool, with_thread};
use crate::http::problem::Problem;
use crate::mcp::McpOptions;
use crate::mcp::answer::Answer;
use crate::mcp::parts::{Part, start_after};
use crate::one_or_more::one_or_more;
use crate::wire::PageShape;

/// The lines of a search without `limit`.
const LINES_DEFAULT: u32 = 20;
/// Tokens set aside for what surrounds a text in an answer.
const FRAME_TOKENS: u32 = 100;
/// The smallest budget for a page; smaller ones are raised to it.
const MIN_PAGE_TOKENS: u32 = 600;

pub(super) fn tools(options: &McpOptions) -> Vec<Tool> {
    let search = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "kind": {"type": "string", "enum": ["observation", "note", "todo", "task", "goal", "pending_action", "summary"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "limit": {"type": "integer"},
            "cursor": {"type": "string"},
        },
        "required": ["query"],
    });
    let context = json!({
        "type": "object",
        "properties": {
            "prompt": {"type": "string", "description": "prompt to find memory for"},
            "budget": {"type": "integer", "description": "tokens"},
        },
    });
    let page = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "p7"},
            "cursor": {"type": "string"},
            "budget": {"type": "integer", "description": "tokens"},
        },
        "required": ["id"],
    });
    vec![
        tool(
            "memory_search",
            "Search all memory by words, best match first.",
            search,
            Does::Read,
        ),
        tool(
            "memory_context",
            "Get the memory relevant to a prompt: observations, scratchbook, pages, earlier turns, facts.",
            with_thread(context, options),
            Does::Read,
        ),
        tool("memory_page", "Read a page as markdown.", page, Does::Read),
    ]
}

pub(super) async fn call(call: Call<'_>) -> Result<Answer, Problem> {
    match call.name {
        "memory_search" => search(call).await,
        "memory_context" => context(call).await,
        _ => page(call).await,
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    kind: Option<String>,
    #[serde(default, deserialize_with = "one_or_more")]
    tags: Vec<String>,
    limit: Option<i64>,
    cursor: Option<String>,
}

async fn search(call: Call<'_>) -> Result<Answer, Problem> {
    let input: Search = read(&call)?;
    if is_blank(&input.query) {
        return Err(invalid_argument("query", "is empty; give words to find").into());
    }
    let kinds = match input.kind.as_deref() {
        None => Vec::new(),
        Some(name) => {
            vec![
                EntryKind::parse(name)
                    .ok_or_else(|| invalid_argument("kind", format!("{name:?} is not a kind of entry")))?,
            ]
        }
    };
    let Some(tags) = Tag::parse_query_tags(&input.tags) else {
        let (workspace, tokens) = (&call.caller.workspace, &call.caller.tokens);
        return Ok(list::empty_list_answer(
            workspace.head().await?,
            workspace.now(),
            tokens,
        ));
    };
    let mut query = EntryQuery {
        kinds,
        tags,
        text: Some(input.query),
        limit: item_limit(input.limit, LINES_DEFAULT, list::MAX_LINES)?,
        cursor: input.cursor,
        ..EntryQuery::default()
    };
    let (workspace, tokens) = (&call.caller.workspace, &call.caller.tokens);
    let (mut answer, mut used) = workspace.search(&query).await?;
    let fitting = list::count_fitting(&answer.items, ANSWER_TOKENS, tokens);
    if fitting < answer.items.len() {
        query.limit = u32::try_from(fitting).unwrap_or(list::MAX_LINES);
        (answer, used) = workspace.search(&query).await?;
    }
    let remark = match used {
        TextMatch::Any => "nothing contains all of the words; these contain some of them: ",
        TextMatch::All => "",
    };
    Ok(list::answer(&answer, remark, workspace.now(), tokens))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Context {
    prompt: String,
    budget: Option<u32>,
}

async fn context(call: Call<'_>) -> Result<Answer, Problem> {
    let input: Context = read(&call)?;
    let caller = &call.caller;
    let request = ContextRequest {
        thread: caller.thread.clone(),
        turn: caller.actor.turn.map(memory::id::Ref::Id),
        prompt: input.prompt,
        budget: budget_or(input.budget, DEFAULT_BUDGET.min(ANSWER_TOKENS - FRAME_TOKENS))?,
        sections: Vec::new(),
    };
    let assembled = caller.workspace.assemble_context(request, &caller.tokens).await?;
    let receipt = &assembled.receipt;
    let structured = json!({"tokens": receipt.tokens, "omitted": receipt.omitted(), "hash": receipt.hash});
    let text = match assembled.text.as_str() {
        "" => "memory has nothing that fits".to_owned(),
        text => text.to_owned(),
    };
    Ok(Answer {
        limit: MAX_ANSWER_TOKENS + FRAME_TOKENS,
        ..Answer::new(text, structured)
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    id: String,
    cursor: Option<String>,
    budget: Option<u32>,
}

async fn page(call: Call<'_>) -> Result<Answer, Problem> {
    let input: Page = read(&call)?;
    let id: PageRef = input
        .id
        .trim()
        .parse()
        .map_err(|_| invalid_argument("id", format!("{:?} is not the handle of a page, such as p7", input.id)))?;
    let (workspace, tokens) = (&call.caller.workspace, &call.caller.tokens);
    let (heading, markdown) = workspace.page_for_models(id).await?;
    let page = PageShape::of(&workspace.page(id).await?);
    let name = page.handle.clone();
    let from = start_after(&markdown, input.cursor.as_deref(), &name)?;
    let limit = budget_or(input.budget, ANSWER_TOKENS)?.max(MIN_PAGE_TOKENS);
    let mut structured = match from {
        0 => json!(page),
        // The answer with the first part has the rest.
        _ => json!({"page_id": page.page_id, "handle": page.handle, "version": page.version}),
    };
    structured["page"] = input.id.trim().into();
    // If both are long, fields of the structured part are left out rather than text.
    let shape = tokens.count(&structured.to_string()).min(limit / 3);
    let room = (limit - shape - FRAME_TOKENS).saturating_sub(tokens.count(&heading));
    let part = Part::of(&markdown, from, room, tokens);
    let text = format!("{heading}{}{}", part.text, part.go_on());
    structured["next"] = json!(part.next);
    structured["tokens"] = tokens.count(&text).into();
    Ok(Answer {
        limit: limit.max(ANSWER_TOKENS),
        ..Answer::new(text, structured)
    })
}

/// Returns the budget that was asked for, or `default`.
fn budget_or(requested: Option<u32>, default: u32) -> Result<u32, Problem> {
    match requested {
        None => Ok(default),
        Some(budget) if budget <= MAX_ANSWER_TOKENS => Ok(budget),
        Some(budget) => Err(invalid_argument(
            "budget",
            format!("{budget} exceeds the limit of {MAX_ANSWER_TOKENS} tokens"),
        )
        .into()),
    }
}
