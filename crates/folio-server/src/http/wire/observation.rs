//! An observation as seed 002 writes it, with what became of it since.

use folio::Timestamp;
use folio::memory::entry::BodyRef;
use folio::memory::{Entry, State, Trust};
use serde::Serialize;
use serde_json::Value;

/// An observation.
#[derive(Debug, Serialize)]
pub(crate) struct ObservationShape {
    observation_id: String,
    handle: String,
    #[serde(rename = "type")]
    type_name: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    title: String,
    content: String,
    /// Where the whole is of a long text, of which `content` is the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_ref: Option<BodyRef>,
    confidence: Option<f64>,
    tags: Vec<String>,
    source: SourceShape,
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_source: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Value>,
    ttl_minutes: Option<f64>,
    expires_at: Option<Timestamp>,
    status: &'static str,
    state: &'static str,
    owner: String,
    trust: &'static str,
    version: u32,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pinned: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    superseded_by: Option<String>,
}

/// Where it came from.
#[derive(Debug, Serialize)]
struct SourceShape {
    tool: Option<String>,
    turn_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    timestamp: Timestamp,
}

impl ObservationShape {
    /// `entry` as it stands at `now`.
    pub(crate) fn of(entry: &Entry, now: Timestamp) -> Self {
        let fields = &entry.fields;
        let expires_at = fields.lifetime.expires_at();
        let source = &fields.source;
        // To a thousandth: the store moves an instant by less than that to keep those of a space in order.
        let minutes = |end: Timestamp| (end.since(entry.created_at).as_secs_f64() / 60.0 * 1_000.0).round() / 1_000.0;
        Self {
            observation_id: entry.id.to_string(),
            handle: entry.handle.to_string(),
            type_name: fields.type_name.clone(),
            title: fields.title.clone(),
            content: fields.body.clone(),
            content_ref: fields.body_ref.clone(),
            confidence: fields.confidence.map(|confidence| confidence.value()),
            tags: fields.tags.iter().map(ToString::to_string).collect(),
            source: SourceShape {
                tool: source.tool.clone(),
                turn_id: source.turn.map(|turn| turn.to_string()),
                run_id: source.run.map(|run| run.to_string()),
                node_id: source.node.clone(),
                channel: source.channel.clone(),
                timestamp: entry.created_at,
            },
            claimed_source: fields.claimed_source.clone(),
            context: fields.context.clone(),
            metadata: fields.metadata.clone(),
            ttl_minutes: expires_at.map(minutes),
            expires_at,
            status: fields.status.as_str(),
            state: state_name(entry.state(now)),
            owner: fields.owner.to_string(),
            trust: trust_name(fields.trust),
            version: entry.version,
            created_at: entry.created_at,
            updated_at: entry.updated_at,
            pinned: fields.pin_rank,
            superseded_by: fields.superseded_by.map(|by| by.to_string()),
        }
    }
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Live => "live",
        State::Settled => "settled",
        State::Archived => "archived",
        State::Expired => "expired",
    }
}

fn trust_name(trust: Trust) -> &'static str {
    match trust {
        Trust::User => "user",
        Trust::Model => "model",
        Trust::ToolInternal => "tool_internal",
        Trust::ToolExternal => "tool_external",
        Trust::Imported => "imported",
    }
}
