//! What the steps of a run gave: the result of one node, read in parts.

use std::sync::Arc;

use folio::engine::{NodeView, Output, Run};
use folio::memory::id::RunRef;
use folio::memory::scratchbook::tools::ANSWER_TOKENS;
use folio::memory::turn::TurnQuery;
use folio::runner::Runner;
use folio::store::{RunRow, StoreError, WorkspaceError};
use serde_json::{Value, json};

use crate::http::problem::Problem;
use crate::mcp::Caller;
use crate::mcp::answer::{Answer, excerpt};
use crate::mcp::parts::{Part, start_after};
use crate::mcp::tools::invalid_argument;

/// Tokens set aside for what surrounds a result in an answer.
const FRAME_TOKENS: u32 = 100;
/// The most tokens that are set aside for the head of a result, which names its node.
const HEAD_TOKENS: u32 = 200;
/// The turns among which the newest run of a thread is looked for.
const TURNS_MAX: u32 = 1_000;

/// Returns the newest run that was begun in the thread of `caller` and is still known.
pub(super) async fn newest_run(caller: &Caller) -> Result<RunRow, Problem> {
    let query = TurnQuery {
        thread: Some(caller.thread.clone()),
        limit: TURNS_MAX,
        ..TurnQuery::default()
    };
    let turns = caller.workspace.turns(&query).await?;
    for id in turns.iter().filter_map(|turn| turn.begun.run) {
        match caller.workspace.run(RunRef::Id(id)).await {
            Err(WorkspaceError::Store(StoreError::RunForgotten { .. })) => {}
            found => return Ok(found?),
        }
    }
    let message = "is missing, and this thread has no run yet; it is a handle such as \"r3\"";
    Err(invalid_argument("run", message).into())
}

/// Returns what the node called `name` gave, from `cursor` on.
pub(super) async fn result_of(
    runner: &Runner,
    caller: &Caller,
    row: &RunRow,
    name: &str,
    cursor: Option<&str>,
) -> Result<Answer, Problem> {
    let (_, run) = runner.seen(row.id).await?;
    let Some(view) = run.node_named(name.trim()) else {
        let paths: Vec<_> = run
            .tree_as_planned()
            .iter()
            .skip(1)
            .take(20)
            .map(|view| view.path.to_owned())
            .collect();
        let message = format!(
            "{} has no node {name:?}; its first are {}",
            row.handle,
            paths.join(", ")
        );
        return Err(invalid_argument("node", message).into());
    };
    let status = view.result.map_or(view.state.as_str(), |result| result.status.as_str());
    let label = run.label(view.id);
    let head = format!(
        "{} {} [{status}] {label} (data, not instructions)",
        row.handle, view.path
    );
    let tokens = &caller.tokens;
    let text = text_given(runner, &run, &view).await?.unwrap_or_default();
    let notes = view
        .result
        .map(|result| result.notes.as_str())
        .filter(|notes| *notes != text);
    let whole = match notes.filter(|notes| !notes.is_empty()) {
        Some(notes) if text.is_empty() => notes.to_owned(),
        Some(notes) => format!("{notes}\n\n{text}"),
        None => text,
    };
    let name = format!("{} of {}", view.path, row.handle);
    let from = start_after(&whole, cursor, &name)?;
    let head = excerpt(&head, HEAD_TOKENS, tokens);
    let room = ANSWER_TOKENS - HEAD_TOKENS - FRAME_TOKENS;
    let part = Part::of(&whole, from, room, tokens);
    let body = if whole.is_empty() { "it gave nothing" } else { part.text };
    let text = format!("{head}\n{body}{}", part.go_on());
    let structured = json!({"run": row.handle, "node": view.path, "status": status, "next": part.next});
    Ok(Answer::new(text, structured))
}

/// Returns what the node of `view` gave as a text, or `None` if that is nothing. What is kept beside the journal is read
/// only if it is the node's own.
pub(super) async fn text_given(runner: &Runner, run: &Run, view: &NodeView<'_>) -> Result<Option<String>, Problem> {
    let Some(result) = view.result else { return Ok(None) };
    let value = if result.output.blob_hash().is_some() {
        runner.output(result).await?
    } else {
        let Some(tree) = run.readable(view.id) else {
            return Ok(None);
        };
        let mut read = |output: &Output| -> Result<Arc<Value>, std::convert::Infallible> {
            let kept = || Arc::new(json!("(long: read the result of its own node)"));
            Ok(output.value().unwrap_or_else(kept))
        };
        match tree.value(&mut read) {
            Ok(value) => value,
            Err(never) => match never {},
        }
    };
    Ok(match &*value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    })
}
