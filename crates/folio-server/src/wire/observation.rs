//! Observations in the form of seed 002, with what happened to them since.

use folio::Timestamp;
use folio::memory::entry::BodyRef;
use folio::memory::observation::ttl_minutes;
use folio::memory::{Entry, State, Trust};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// An observation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Observation {
    /// The observation's permanent id.
    pub observation_id: String,
    /// The observation's handle, such as `e42`.
    pub handle: String,
    /// The entry's kind, for people: an entry that is archived or restored need not be an observation.
    #[serde(skip)]
    #[schemars(skip)]
    pub kind: &'static str,
    /// The registered type of the observation.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// The observation's title.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The text of the observation; only the beginning if it is long.
    pub content: String,
    /// Where a long text is kept. `content` is then its beginning, or the whole text if that was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_ref: Option<BodyRef>,
    /// The writer's confidence, from 0 to 1.
    pub confidence: Option<f64>,
    /// The observation's tags.
    pub tags: Vec<String>,
    /// Where it came from. Folio stamps the source and never takes it from the request.
    pub source: Source,
    /// The source that its writer stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_source: Option<Value>,
    /// What it is about, as JSON; null if not given.
    pub context: Option<Value>,
    /// Any other data; null if not given.
    pub metadata: Option<Value>,
    /// Its lifetime in minutes; null if it has no end.
    pub ttl_minutes: Option<f64>,
    /// When its lifetime ends; null for never.
    pub expires_at: Option<Timestamp>,
    /// The status that its writers gave it.
    pub status: &'static str,
    /// The state that Folio computes for readers: `live`, `settled`, `archived` or `expired`.
    pub state: &'static str,
    /// Who should act.
    pub owner: String,
    /// How far to trust its content: `user`, `model`, `tool_internal`, `tool_external` or `imported`.
    pub trust: &'static str,
    /// The number of its latest revision, counted from 1. Use it in the header `If-Match`.
    pub version: u32,
    /// When the observation was added.
    pub created_at: Timestamp,
    /// When the observation last changed.
    pub updated_at: Timestamp,
    /// When it was last confirmed, if it was. Its lifetime counts from then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validated_at: Option<Timestamp>,
    /// Its position among the pinned entries of its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<u32>,
    /// The entry that superseded it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    /// The kinds of personal data that were detected in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pii: Vec<&'static str>,
    /// The rule by which it was archived, if no actor did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived_for: Option<&'static str>,
    /// Why its content was erased, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erased: Option<&'static str>,
    /// Whether it was confirmed or refuted later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<&'static str>,
    /// How well it matches the text searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// The source of an observation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Source {
    /// The tool that added it; null for people and roles.
    pub tool: Option<String>,
    /// The turn in which it was added.
    pub turn_id: Option<String>,
    /// The run in which it was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The node of that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The part of the tool's answer that contained it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// When it was added.
    pub timestamp: Timestamp,
}

impl Observation {
    /// Returns the wire form of `entry` with its state at `now`.
    pub fn of(entry: &Entry, now: Timestamp) -> Self {
        let fields = &entry.fields;
        let expires_at = fields.lifetime.expires_at();
        let source = &fields.source;
        Self {
            observation_id: entry.id.to_string(),
            handle: entry.handle.to_string(),
            kind: entry.kind.as_str(),
            type_name: fields.type_name.clone(),
            title: fields.title.clone(),
            content: fields.body.clone(),
            content_ref: fields.body_ref.clone(),
            confidence: fields.confidence.map(|confidence| confidence.value()),
            tags: fields.tags.iter().map(ToString::to_string).collect(),
            source: Source {
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
            ttl_minutes: ttl_minutes(entry),
            expires_at,
            status: fields.status.as_str(),
            state: state_name(entry.state(now)),
            owner: fields.owner.to_string(),
            trust: trust_name(fields.trust),
            version: entry.version,
            created_at: entry.created_at,
            updated_at: entry.updated_at,
            validated_at: fields.validated_at,
            pinned: fields.pin_rank,
            superseded_by: fields.superseded_by.map(|by| by.to_string()),
            pii: fields.pii.iter().map(|kind| kind.as_str()).collect(),
            archived_for: fields.archived_for.map(|why| why.as_str()),
            erased: fields.erased.map(|why| why.as_str()),
            outcome: fields.outcome.map(|outcome| outcome.as_str()),
            score: None,
        }
    }

    /// Sets how well it matches the text searched for.
    pub fn with_score(self, score: Option<f64>) -> Self {
        Self { score, ..self }
    }
}

/// Returns the name of `state` in JSON.
pub fn state_name(state: State) -> &'static str {
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
