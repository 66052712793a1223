//! The tools for work that several agents share: list what is ready, claim it, delegate it, report on it.

use std::time::Duration;

use folio::memory::id::EntryRef;
use folio::memory::lifecycle::Report;
use folio::memory::scratchbook::tools::ANSWER_TOKENS;
use folio::memory::scratchbook::{ItemInput, ScratchItem};
use folio::memory::{Entry, EntryKind, Invalid, Owner};
use folio::store::workspace::{Delegated, Delegation, WorkReport};
use rmcp::model::Tool;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Does, invalid_argument, item_limit, list, read, tool, with_thread};
use crate::http::problem::Problem;
use crate::mcp::McpOptions;
use crate::mcp::answer::{Answer, truncate_to_tokens};

/// The number of items that `plan_ready` lists by default, and the most that it lists.
const DEFAULT_READY: u32 = 10;
const MAX_READY: u32 = 50;
/// The most items that earlier answers may have listed.
const MAX_SKIPPED: usize = 10_000;
/// The most waiting items that one answer lists.
const MAX_LISTED_WAITING: usize = 10;
/// Tokens set aside for them.
const WAITING_TOKENS: u32 = 500;
/// The most items that are listed as what one of them waits for.
const MAX_LISTED_BLOCKERS: usize = 5;
/// The default lease in minutes: whoever does not come back by then loses the item.
const LEASE_MINUTES: u32 = 60;
/// The longest lease: a week.
const MAX_LEASE_MINUTES: u32 = 7 * 24 * 60;
/// The most tokens that are shown of a claimed item's body.
const TEXT_TOKENS: u32 = 800;

pub(super) fn tools(options: &McpOptions) -> Vec<Tool> {
    let text = || json!({"type": "string"});
    let handles =
        || json!({"type": "array", "items": {"type": "string"}, "description": "items that must be done first"});
    let agent = text;
    let schema = |properties: Value, required: Value| {
        let mut schema = json!({"type": "object", "properties": properties});
        // A model gets this with each request, so an empty list is left out.
        if required != json!([]) {
            schema["required"] = required;
        }
        with_thread(schema, options)
    };
    let ready = schema(
        json!({"agent": agent(), "limit": {"type": "integer"}, "budget": {"type": "integer"}, "cursor": {"type": "string"}}),
        json!([]),
    );
    let claim = schema(
        json!({
            "id": {"type": "string", "description": "default: the next ready one"},
            "agent": agent(),
            "lease_minutes": {"type": "integer"},
        }),
        json!([]),
    );
    let delegate = schema(
        json!({
            "title": text(),
            "body": text(),
            "id": {"type": "string", "description": "existing item instead of title"},
            "to": {"type": "string", "description": "default: anybody"},
            "after": handles(),
            "part_of": {"type": "string", "description": "item that waits for this one"},
            "agent": agent(),
        }),
        json!([]),
    );
    let report = schema(
        json!({
            "id": text(),
            "status": {"type": "string", "enum": ["done", "in_progress", "blocked", "open"], "description": "open: give it back"},
            "result": {"type": "string", "description": "what came of it, with evidence"},
            "progress": {"type": "number"},
            "after": handles(),
            "agent": agent(),
        }),
        json!(["id", "status"]),
    );
    vec![
        tool(
            "plan_ready",
            "List todos and tasks you can start now, and what others wait for. `agent`: your name, if several agents of your kind work here.",
            ready,
            Does::Read,
        ),
        tool(
            "plan_claim",
            "Claim an item before you start it, so nobody else does; again to keep it longer.",
            claim,
            Does::Settle,
        ),
        tool("plan_delegate", "Delegate a task to other agents.", delegate, Does::Add),
        tool(
            "plan_report",
            "Report progress on an item you claimed.",
            report,
            Does::Settle,
        ),
    ]
}

pub(super) async fn call(call: Call<'_>) -> Result<Answer, Problem> {
    call.caller.workspace.check_scratchbooks_are_on().await?;
    match call.name {
        "plan_ready" => ready(call).await,
        "plan_claim" => claim(call).await,
        "plan_delegate" => delegate(call).await,
        _ => report(call).await,
    }
}

/// Returns the worker, by the name that they give themselves, or by that of their program.
fn worker(call: &Call<'_>, agent: Option<&str>) -> Result<Owner, Invalid> {
    Owner::parse(agent.unwrap_or_else(|| call.caller.actor.source_name()))
}

fn parse_entry_ref(field: &str, handle: &str) -> Result<EntryRef, Invalid> {
    let to_error = |_| invalid_argument(field, format!("{handle:?} is not the handle of an entry, such as e7"));
    handle.trim().parse().map_err(to_error)
}

fn parse_entry_refs(field: &str, handles: &[String]) -> Result<Vec<EntryRef>, Invalid> {
    handles.iter().map(|handle| parse_entry_ref(field, handle)).collect()
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Ready {
    agent: Option<String>,
    limit: Option<i64>,
    /// The most tokens of the answer.
    budget: Option<u32>,
    /// The last item that the earlier answer listed, and how many items had been listed up to it: `e7.10`.
    cursor: Option<String>,
}

/// Returns how many of `items` earlier answers have listed, the last of which ended with `cursor`: those up to the item
/// that it names or, if that item is not ready any more, the number that it gives.
fn count_already_listed(items: &[Entry], cursor: Option<&str>) -> Result<usize, Invalid> {
    let Some(cursor) = cursor else { return Ok(0) };
    let parts = cursor.split_once('.');
    let parts = parts.and_then(|(last, count)| Some((last, count.parse::<usize>().ok()?)));
    let (last, count) = parts.ok_or_else(|| invalid_argument("cursor", "is not a cursor that plan_ready returned"))?;
    let place = items.iter().position(|entry| entry.handle.to_string() == last);
    Ok(place.map_or(count.min(items.len()), |place| place + 1))
}

/// Returns how many items have to be loaded to reach the place after `cursor`.
fn count_to_cursor(cursor: Option<&str>) -> usize {
    let count = cursor.and_then(|cursor| cursor.split_once('.')?.1.parse().ok());
    count.unwrap_or(0).min(MAX_SKIPPED)
}

async fn ready(call: Call<'_>) -> Result<Answer, Problem> {
    let input: Ready = read(&call)?;
    let worker = worker(&call, input.agent.as_deref())?;
    let limit = item_limit(input.limit, DEFAULT_READY, MAX_READY)?;
    let caller = &call.caller;
    let (max_items, budget) = (limit as usize, input.budget.unwrap_or_default().max(ANSWER_TOKENS));
    let cursor = input.cursor.as_deref();
    let lookahead = count_to_cursor(cursor) + max_items + 1;
    let mut ready = caller.workspace.ready_work(&caller.thread, &worker, lookahead).await?;
    let skipped = count_already_listed(&ready.items, cursor)?;
    ready.items.drain(..skipped);
    let found = ready.items.len();
    ready.items.truncate(max_items);
    // Part of the answer is set aside for the waiting items.
    let room = budget - WAITING_TOKENS;
    let fitting = list::count_fitting(&ready.items, room, &caller.tokens);
    ready.items.truncate(fitting);
    let mut text: String = ready.items.iter().map(|entry| line(entry) + "\n").collect();
    let describe = |(entry, before): &(Entry, Vec<_>)| {
        let blockers: Vec<_> = before
            .iter()
            .take(MAX_LISTED_BLOCKERS)
            .map(ToString::to_string)
            .collect();
        let more = match before.len().saturating_sub(MAX_LISTED_BLOCKERS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{} for {}{more}", entry.handle, blockers.join(", "))
    };
    let waiting: Vec<String> = ready.waiting.iter().take(MAX_LISTED_WAITING).map(describe).collect();
    let shown_count = ready.items.len();
    let last = ready.items.last().filter(|_| shown_count < found);
    let next = last.map(|entry| format!("{}.{}", entry.handle, skipped + shown_count));
    let more = next
        .as_ref()
        .map(|next| format!(", and more: go on with cursor {next:?}"));
    let more = more.unwrap_or_default();
    text.push_str(&format!("{shown_count} ready{more}"));
    if !waiting.is_empty() {
        let more = ready.waiting.len() - waiting.len();
        let more = if more > 0 {
            format!("; and {more} more")
        } else {
            String::new()
        };
        text.push_str(&format!("; waiting: {}{more}", waiting.join("; ")));
    }
    let as_of = caller.workspace.head().await?;
    let total = skipped + found;
    let mut structured = list::frame(&shown_count, &total, as_of, &text, &caller.tokens);
    structured["waiting"] = json!(waiting);
    structured["next"] = json!(next);
    if found > max_items {
        structured["at_least"] = true.into();
    }
    let mut answer = Answer::new(text, structured);
    answer.limit = budget;
    let full = ready.items.iter().map(shape).collect();
    let brief = ready.items.iter().map(brief).collect();
    answer.put_items(full, brief, &caller.tokens);
    Ok(answer)
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Claim {
    id: Option<String>,
    agent: Option<String>,
    lease_minutes: Option<u32>,
}

async fn claim(call: Call<'_>) -> Result<Answer, Problem> {
    let input: Claim = read(&call)?;
    let worker = worker(&call, input.agent.as_deref())?;
    let item = input.id.as_deref().map(|id| parse_entry_ref("id", id)).transpose()?;
    let minutes = input.lease_minutes.unwrap_or(LEASE_MINUTES);
    if !(1..=MAX_LEASE_MINUTES).contains(&minutes) {
        let message = format!("{minutes} minutes are not between 1 and {MAX_LEASE_MINUTES}");
        return Err(invalid_argument("lease_minutes", message).into());
    }
    let lease = Duration::from_secs(u64::from(minutes) * 60);
    let caller = &call.caller;
    let claimed = caller
        .workspace
        .claim_work(&caller.actor, &caller.thread, item, &worker, Some(lease))
        .await?;
    let Some(claimed) = claimed else {
        let text = "nothing is ready; plan_ready says what waits for what".to_owned();
        return Ok(Answer::new(text, json!({"claimed": null})));
    };
    let entry = &claimed.entry;
    let body = truncate_to_tokens(&entry.fields.body, TEXT_TOKENS, &caller.tokens);
    let mut text = line(entry);
    if !body.is_empty() {
        text.push_str(&format!("\n{body}"));
    }
    if body.len() < entry.fields.body.len() || entry.fields.body_ref.is_some() {
        let rest = if call.mcp.has_scratchbook().await {
            format!("the rest: scratch_read id {:?}", entry.handle.to_string())
        } else {
            "the rest is left out".to_owned()
        };
        text.push_str(&format!("\n({rest})"));
    }
    if let Some(until) = entry.fields.lease_until {
        text.push_str(&format!("\nyours until {until}"));
    }
    Ok(Answer::new(text, json!({"claimed": shape(entry)})))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Delegate {
    title: Option<String>,
    body: Option<String>,
    id: Option<String>,
    to: Option<String>,
    after: Vec<String>,
    part_of: Option<String>,
    agent: Option<String>,
}

async fn delegate(call: Call<'_>) -> Result<Answer, Problem> {
    let input: Delegate = read(&call)?;
    let worker = worker(&call, input.agent.as_deref())?;
    let target = match (input.id, input.title) {
        (Some(id), None) if input.body.is_none() => Delegated::There(parse_entry_ref("id", &id)?),
        (None, Some(title)) => Delegated::New(Box::new(ItemInput {
            kind: EntryKind::Task,
            title: Some(title),
            body: input.body.unwrap_or_default(),
            tags: Vec::new(),
            phase: None,
            progress: None,
        })),
        _ => {
            return Err(invalid_argument(
                "title",
                "give either a title, with or without a body, or the id of an existing item",
            )
            .into());
        }
    };
    let delegation = Delegation {
        what: target,
        to: input.to.as_deref().map(Owner::parse).transpose()?,
        after: parse_entry_refs("after", &input.after)?,
        part_of: input
            .part_of
            .as_deref()
            .map(|id| parse_entry_ref("part_of", id))
            .transpose()?,
    };
    let caller = &call.caller;
    let written = caller
        .workspace
        .delegate_work(
            &caller.actor,
            &caller.thread,
            &worker,
            delegation,
            call.idempotency_key(),
        )
        .await?;
    let mut structured = shape(&written.entry);
    structured["replayed"] = written.replayed.into();
    Ok(Answer::new(line(&written.entry), structured).without_echo(&caller.tokens))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reported {
    id: String,
    status: String,
    #[serde(default)]
    result: String,
    progress: Option<f64>,
    #[serde(default)]
    after: Vec<String>,
    agent: Option<String>,
}

async fn report(call: Call<'_>) -> Result<Answer, Problem> {
    let input: Reported = read(&call)?;
    let worker = worker(&call, input.agent.as_deref())?;
    let status_report = match input.status.as_str() {
        "done" => Report::Done,
        "in_progress" => Report::Underway(input.progress),
        "blocked" => Report::Blocked,
        "open" => Report::HandedTo(Owner::agent()),
        other => {
            let message = format!("{other:?} is not done, in_progress, blocked or open");
            return Err(invalid_argument("status", message).into());
        }
    };
    if input.progress.is_some() && input.status != "in_progress" {
        return Err(invalid_argument("progress", "is only for the status in_progress").into());
    }
    let report = WorkReport {
        item: parse_entry_ref("id", &input.id)?,
        said: status_report,
        result: input.result,
        after: parse_entry_refs("after", &input.after)?,
    };
    let caller = &call.caller;
    let key = call.idempotency_key();
    let (written, note) = caller
        .workspace
        .report_work(&caller.actor, &caller.thread, &worker, report, key)
        .await?;
    let mut text = line(&written.entry);
    let mut structured = shape(&written.entry);
    structured["replayed"] = written.replayed.into();
    if let Some(note) = note {
        text.push_str(&format!("\nkept as {}", note.handle));
        structured["result"] = json!(note.handle);
    }
    Ok(Answer::new(text, structured).without_echo(&caller.tokens))
}

/// Returns the line of an item, with its owner.
fn line(entry: &Entry) -> String {
    let line = list::line(entry);
    let owner = &entry.fields.owner;
    if owner.is_anybody() {
        line
    } else {
        format!("{line} @{}", owner.as_str())
    }
}

fn brief(entry: &Entry) -> Value {
    let mut brief = list::brief(entry);
    brief["owner"] = json!(entry.fields.owner);
    brief
}

/// Returns the item in the shape that programs get, with its owner and lease.
fn shape(entry: &Entry) -> Value {
    let mut shape = json!(ScratchItem::of(entry));
    if let Value::Object(fields) = &mut shape {
        fields.insert("owner".to_owned(), json!(entry.fields.owner));
        fields.insert("lease_until".to_owned(), json!(entry.fields.lease_until));
    }
    shape
}
