//! Observations: what holds for everybody who works in the space.

use folio::memory::entry::Status;
use folio::memory::id::EntryRef;
use folio::memory::scratchbook::tools::ANSWER_TOKENS;
use folio::memory::view::candidate;
use folio::memory::{EntryKind, State, Tag};
use folio::store::Written;
use folio::{EntryQuery, ObservationInput, ObservationPatch};
use rmcp::model::Tool;
use serde::Deserialize;
use serde_json::{Value, json};

use super::list::Several;
use super::{Call, Does, how_many, list, read, tool, wrong};
use crate::http::problem::Problem;
use crate::mcp::answer::Answer;
use crate::wire::observation::Observation;

/// Observations that a list gives when nothing is said.
const LINES_DEFAULT: u32 = 20;

pub(super) fn tools() -> Vec<Tool> {
    let tags = || json!({"type": "array", "items": {"type": "string"}});
    let add = json!({
        "type": "object",
        "properties": {
            "content": {"type": "string"},
            "type": {"type": "string", "description": "e.g. risk_alert, fact"},
            "title": {"type": "string"},
            "confidence": {"type": "number", "description": "0 to 1"},
            "tags": tags(),
            "ttl_minutes": {"type": "number"},
            "context": {"type": "object", "description": "what it is about, e.g. goal_id"},
        },
        "required": ["content"],
    });
    let list = json!({
        "type": "object",
        "properties": {
            "type": {"type": "string"},
            "tags": tags(),
            "status": {"type": "string", "enum": ["active", "pending_review", "resolved", "archived"]},
            "text": {"type": "string", "description": "words to find"},
            "min_confidence": {"type": "number"},
            "since": {"type": "integer", "description": "`as_of` of an earlier answer: only what is new"},
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
            "context": {"type": "object"},
            "expected_version": {"type": "integer"},
        },
        "required": ["id"],
    });
    vec![
        tool(
            "observe_add",
            "Record an observation for the whole space.",
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
            "Change an observation; what is left out stays.",
            update,
            Does::Settle,
        ),
    ]
}

pub(super) async fn call(call: Call<'_>) -> Result<Answer, Problem> {
    match call.name {
        "observe_add" => add(call).await,
        "observe_list" => listed(call).await,
        _ => update(call).await,
    }
}

async fn add(call: Call<'_>) -> Result<Answer, Problem> {
    let input = ObservationInput::from_json(&call.arguments)?;
    let caller = &call.caller;
    let added = caller
        .workspace
        .add_observation(&caller.actor, input, call.idempotency_key.clone());
    Ok(written(&added.await?, &call))
}

async fn update(call: Call<'_>) -> Result<Answer, Problem> {
    let mut arguments = call.arguments.clone();
    let mut taken = |name: &str| arguments.as_object_mut().and_then(|fields| fields.remove(name));
    let id = taken("id").unwrap_or_default();
    let expected = match taken("expected_version") {
        None | Some(Value::Null) => None,
        Some(version) => {
            let version = version.as_u64().and_then(|version| u32::try_from(version).ok());
            Some(version.ok_or_else(|| wrong("expected_version", "is the number of a version"))?)
        }
    };
    let id: EntryRef = id
        .as_str()
        .and_then(|id| id.trim().parse().ok())
        .ok_or_else(|| wrong("id", format!("{id} is no handle of an observation, such as e42")))?;
    let patch = ObservationPatch::from_json(&arguments)?;
    let caller = &call.caller;
    let changed = caller.workspace.update_observation(&caller.actor, id, patch, expected);
    Ok(written(&changed.await?, &call))
}

/// What came of a write: the line, what was put right, and the whole.
fn written(written: &Written, call: &Call<'_>) -> Answer {
    let mut text = candidate(&written.entry).lengths[1].clone();
    for warning in &written.warnings {
        text.push_str(&format!("\nwarning: {}", warning.told()));
    }
    if written.entry.state(call.caller.workspace.now()) == State::Expired {
        text.push_str(
            "\nits time is over: it is kept, and no list shows it (ttl_minutes 0 ends at once; null lasts for ever)",
        );
    }
    let mut structured = json!(Observation::of(&written.entry, call.caller.workspace.now()));
    if let Value::Object(fields) = &mut structured {
        fields.insert("warnings".to_owned(), json!(written.warnings));
        fields.insert("replayed".to_owned(), json!(written.replayed));
    }
    Answer::new(text, structured)
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Asked {
    #[serde(rename = "type")]
    types: Several,
    tags: Several,
    status: Several,
    text: Option<String>,
    min_confidence: Option<f64>,
    since: Option<u64>,
    limit: Option<i64>,
    cursor: Option<String>,
}

async fn listed(call: Call<'_>) -> Result<Answer, Problem> {
    let asked: Asked = read(&call.arguments)?;
    let of_status = asked.status.texts();
    let known = |name: &String| Status::parse_in(name, EntryKind::Observation.family());
    let status: Vec<Status> = of_status.iter().filter_map(known).collect();
    let is_impossible = status.is_empty() && !of_status.is_empty();
    let (Some(tags), false) = (Tag::asked_for(&asked.tags.texts()), is_impossible) else {
        // What no observation can have none has (M7.2.13).
        let (workspace, tokens) = (&call.caller.workspace, &call.caller.tokens);
        return Ok(list::nothing(workspace.head().await?, workspace.now(), tokens));
    };
    let mut query = EntryQuery {
        types: asked.types.texts(),
        tags,
        status,
        text: asked.text.filter(|text| !text.trim().is_empty()),
        min_confidence: asked.min_confidence,
        since: asked.since.map(folio::memory::Seq),
        limit: how_many(asked.limit, LINES_DEFAULT, list::LINES)?,
        cursor: asked.cursor,
        ..EntryQuery::default()
    };
    let (workspace, tokens) = (&call.caller.workspace, &call.caller.tokens);
    let mut answer = workspace.observations(query.clone()).await?;
    let fitting = list::fitting(&answer.items, ANSWER_TOKENS, tokens);
    if fitting < answer.items.len() {
        // The cursor stands behind the last line that is shown.
        query.limit = u32::try_from(fitting).unwrap_or(list::LINES);
        answer = workspace.observations(query).await?;
    }
    Ok(list::answer(&answer, "", workspace.now(), tokens))
}
