//! The tools for observations, which hold for everybody who works in the space.

use folio::memory::entry::Family;
use folio::memory::entry::Outcome;
use folio::memory::id::EntryRef;
use folio::memory::query::DEFAULT_LIMIT;
use folio::memory::scratchbook::tools::ANSWER_TOKENS;
use folio::memory::tool_exchange::{ContextQuery, ReadScope, context_query};
use folio::memory::view::{candidate, is_blank};
use folio::memory::{EntryKind, Invalid, State, Status};
use folio::store::Written;
use folio::store::workspace::Guard;
use folio::{EntryQuery, ObservationInput, ObservationPatch};
use rmcp::model::Tool;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Call, Does, invalid_argument, item_limit, list, read, tool};
use crate::http::problem::Problem;
use crate::mcp::answer::Answer;
use crate::wire::observation::Observation;

pub(super) fn tools() -> Vec<Tool> {
    let tags = || json!({"type": "array", "items": {"type": "string"}});
    // One or several, as a filter takes them (M7.2.12).
    let texts = || json!({"type": ["string", "array"]});
    let add = json!({
        "type": "object",
        "properties": {
            "content": {"type": "string"},
            "type": {"type": "string", "description": "e.g. risk_alert, learning"},
            "title": {"type": "string"},
            "confidence": {"type": "number", "description": "0 to 1"},
            "tags": tags(),
            "ttl_minutes": {"type": ["number", "string", "null"], "description": "null: no expiry"},
            "expires_at": {"type": "string"},
            "owner": {"type": "string", "description": "agent, user, tool:NAME"},
            "status": {"type": "string", "enum": ["active", "pending_review", "resolved"]},
            "context": {"type": "object", "description": "what it is about, e.g. goal_id"},
            "metadata": {"type": "object"},
            "source": {"type": "object"},
        },
        "required": ["content"],
    });
    let list = json!({
        "type": "object",
        "properties": {
            "type": texts(),
            "tags": tags(),
            "tags_any": tags(),
            "tags_none": tags(),
            "status": texts(),
            "owner": texts(),
            "context": {"type": "object"},
            "text": {"type": "string"},
            "match": {"type": "string", "enum": ["all", "any"]},
            "min_confidence": {"type": ["number", "string"]},
            "order": {"type": "string", "enum": ["relevance", "newest", "oldest", "priority"]},
            "include_expired": {"type": "boolean"},
            "include_superseded": {"type": "boolean"},
            "since": {"type": "integer", "description": "an `as_of`"},
            "as_of": {"type": "integer"},
            "limit": {"type": "integer"},
            "cursor": {"type": "string"},
        },
    });
    let update = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "e42"},
            "content": {"type": "string"},
            "title": {"type": "string"},
            "confidence": {"type": "number"},
            "tags": tags(),
            "status": {"type": "string", "enum": ["active", "pending_review", "resolved", "archived"]},
            "owner": {"type": "string"},
            "context": {"type": "object"},
            "metadata": {"type": "object"},
            "confirm": {"type": "boolean", "description": "still holds; alone"},
            "outcome": {"type": "string", "enum": ["confirmed", "refuted"], "description": "resolves; alone"},
            "superseded_by": {"type": "string"},
            "expected_version": {"type": "integer"},
        },
        "required": ["id"],
    });
    vec![
        tool(
            "observe_add",
            "Record an observation for everyone in the space.",
            add,
            Does::Add,
        ),
        tool(
            "observe_list",
            "List observations, best match or newest first.",
            list,
            Does::Read,
        ),
        tool(
            "observe_update",
            "Change an observation; omitted fields stay.",
            update,
            Does::Settle,
        ),
    ]
}

pub(super) async fn call(call: Call<'_>) -> Result<Answer, Problem> {
    match call.name {
        "observe_add" => add(call).await,
        "observe_list" => list_observations(call).await,
        _ => update(call).await,
    }
}

async fn add(call: Call<'_>) -> Result<Answer, Problem> {
    let input = ObservationInput::from_json(&call.arguments)?;
    let caller = &call.caller;
    let added = caller
        .workspace
        .add_observation(&caller.actor, input, call.idempotency_key());
    Ok(written_answer(&added.await?, &call).without_echo(&call.caller.tokens))
}

async fn update(call: Call<'_>) -> Result<Answer, Problem> {
    let mut arguments = call.arguments.clone();
    // A model that has to give every argument passes null for those that it leaves out.
    if let Some(fields) = arguments.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    let mut take = |name: &str| arguments.as_object_mut().and_then(|fields| fields.remove(name));
    let id = take("id").unwrap_or_default();
    let expected = match take("expected_version") {
        None => None,
        Some(version) => {
            let version = version.as_u64().and_then(|version| u32::try_from(version).ok());
            Some(version.ok_or_else(|| invalid_argument("expected_version", "must be the number of a version"))?)
        }
    };
    let id: EntryRef = id
        .as_str()
        .and_then(|id| id.trim().parse().ok())
        .ok_or_else(|| invalid_argument("id", format!("{id} is not the handle of an observation, such as e42")))?;
    let (workspace, actor) = (&call.caller.workspace, &call.caller.actor);
    let guard = Guard {
        expected_version: expected,
        idempotency_key: call.idempotency_key(),
        ..Guard::default()
    };
    let changed = match operation_in(&mut arguments)? {
        None => {
            let patch = ObservationPatch::from_json(&arguments)?;
            let changed = workspace.update_observation_under(actor, id, patch, guard).await;
            changed.map_err(|error| with_way(error.into()))?
        }
        Some(operation) => {
            let entry = workspace.entry(id).await?;
            if entry.kind != EntryKind::Observation {
                let message = format!("{} is a {}, not an observation", entry.handle, entry.kind);
                return Err(invalid_argument("id", message).into());
            }
            match operation {
                Operation::Confirm => workspace.confirm(actor, id, guard).await?,
                Operation::SupersedeBy(new) => workspace.supersede(actor, id, new, guard).await?,
                Operation::Resolve(outcome) => workspace.resolve_as(actor, id, outcome, guard).await?,
            }
        }
    };
    Ok(written_answer(&changed, &call).without_echo(&call.caller.tokens))
}

/// What else `observe_update` does to an observation than change its fields.
enum Operation {
    Confirm,
    SupersedeBy(EntryRef),
    Resolve(Outcome),
}

/// Adds to a refusal to change a field how this client changes it.
fn with_way(problem: Problem) -> Problem {
    if problem.code() != "field_immutable" {
        return problem;
    }
    let way = match problem.detail().split(':').next() {
        Some("superseded_by") => "observe_update with `id` and `superseded_by`, and nothing else, replaces it",
        Some("outcome") => "observe_update with `id` and `outcome`, and nothing else, says whether it came true",
        Some("pinned" | "pin") => "scratch_pin and scratch_unpin change it",
        Some("ttl_minutes" | "expires_at" | "lifetime" | "validated_at") => {
            "observe_update with `id` and `confirm`, and nothing else, begins the lifetime anew"
        }
        _ => return problem,
    };
    problem.hint(way)
}

/// Takes the operation out of the arguments that are left beside the observation and its version. A `superseded_by`
/// beside other fields is one of those that a caller sends back as it has read them.
fn operation_in(arguments: &mut Value) -> Result<Option<Operation>, Invalid> {
    let Some(fields) = arguments.as_object_mut() else {
        return Ok(None);
    };
    match fields.remove("confirm") {
        None | Some(Value::Bool(false)) => {}
        Some(Value::Bool(true)) if fields.is_empty() => return Ok(Some(Operation::Confirm)),
        Some(Value::Bool(true)) => {
            let message = "goes with `id` and `expected_version` only; change other fields in a call of their own";
            return Err(invalid_argument("confirm", message));
        }
        Some(_) => return Err(invalid_argument("confirm", "must be true or false")),
    }
    // Whoever says that it came true may say as well that it is resolved, which it is then.
    let is_resolved = |value: &Value| {
        value
            .as_str()
            .and_then(|name| Status::parse_in(name, Family::Knowledge))
            == Some(Status::Resolved)
    };
    let only_outcome = fields
        .iter()
        .all(|(name, value)| name == "outcome" || name == "status" && is_resolved(value));
    if let Some(outcome) = fields.get("outcome").filter(|_| only_outcome) {
        let outcome = Outcome::deserialize(outcome);
        let outcome = outcome.map_err(|_| invalid_argument("outcome", "must be one of confirmed, refuted"))?;
        return Ok(Some(Operation::Resolve(outcome)));
    }
    if fields.len() != 1 {
        return Ok(None);
    }
    let Some(new) = fields.remove("superseded_by") else {
        return Ok(None);
    };
    let new = new.as_str().and_then(|new| new.trim().parse().ok());
    let wrong = || invalid_argument("superseded_by", "must be the handle of an observation, such as e43");
    Ok(Some(Operation::SupersedeBy(new.ok_or_else(wrong)?)))
}

/// Returns the answer to a write: its line, its warnings, and the whole observation.
fn written_answer(written: &Written, call: &Call<'_>) -> Answer {
    let mut text = candidate(&written.entry).lengths[1].clone();
    for warning in &written.warnings {
        text.push_str(&format!("\nwarning: {}", warning.display_line()));
    }
    // For an `expires_at` in the past, a warning says so already.
    let is_told = written.warnings.iter().any(|warning| warning.code == "expires_at_past");
    if !is_told && written.entry.state(call.caller.workspace.now()) == State::Expired {
        text.push_str(
            "\nit has expired already: it is kept, but no list shows it (ttl_minutes 0 expires at once, null never)",
        );
    }
    let mut structured = json!(Observation::of(&written.entry, call.caller.workspace.now()));
    if let Value::Object(fields) = &mut structured {
        fields.insert("warnings".to_owned(), json!(written.warnings));
        fields.insert("replayed".to_owned(), json!(written.replayed));
    }
    Answer::new(text, structured)
}

/// The arguments of `observe_list`: those named here, and the filters, which are the same as for tools.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    limit: Option<i64>,
    cursor: Option<String>,
    text: Option<String>,
    #[serde(flatten)]
    filters: Map<String, Value>,
}

async fn list_observations(call: Call<'_>) -> Result<Answer, Problem> {
    let Asked {
        limit,
        cursor,
        text,
        mut filters,
    } = read(&call)?;
    if let Some(text) = text {
        // Left out, it would not filter, and a caller who narrows its question takes the answer for narrowed.
        if is_blank(&text) {
            return Err(invalid_argument("text", "is empty; leave it out to list by other filters alone").into());
        }
        filters.insert("text".to_owned(), text.into());
    }
    let limit = item_limit(limit, DEFAULT_LIMIT, list::MAX_LINES)?;
    let parsed = context_query(&json!({ "filters": filters }), &ReadScope::default());
    let refused = |invalid: Invalid| match invalid.code.as_str() {
        "filter_unknown" => invalid_argument(&invalid.field, format!("is not an argument of {}", call.name)),
        _ => invalid_argument(&invalid.field, invalid.message),
    };
    let ContextQuery::Asks(query) = parsed.map_err(refused)? else {
        // No observation can match such a filter (M7.2.13).
        let (workspace, tokens) = (&call.caller.workspace, &call.caller.tokens);
        return Ok(list::empty_list_answer(
            workspace.head().await?,
            workspace.now(),
            tokens,
        ));
    };
    let mut query = EntryQuery {
        limit,
        cursor,
        ..*query
    };
    let (workspace, tokens) = (&call.caller.workspace, &call.caller.tokens);
    let mut answer = workspace.observations(query.clone()).await?;
    let fitting = list::count_fitting(&answer.items, ANSWER_TOKENS, tokens);
    if fitting < answer.items.len() {
        // Asked again with a smaller limit, so that the cursor continues after the last line that is shown.
        query.limit = u32::try_from(fitting).unwrap_or(list::MAX_LINES);
        answer = workspace.observations(query).await?;
    }
    Ok(list::answer(&answer, "", workspace.now(), tokens))
}
