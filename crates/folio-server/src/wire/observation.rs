//! An observation as seed 002 writes it, with what became of it since.

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
    /// For ever.
    pub observation_id: String,
    /// For people and models: `e42`, `p7`, `r3`, `t5`.
    pub handle: String,
    /// What sort of content it holds, for people: of what is archived or brought back it may be another than an observation.
    #[serde(skip)]
    #[schemars(skip)]
    pub kind: &'static str,
    /// The registered type.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// One line above it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// What was noticed; of a long text the beginning.
    pub content: String,
    /// Of a long text, `content` is the beginning, or all of it if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_ref: Option<BodyRef>,
    /// How sure its writer was, from 0 to 1.
    pub confidence: Option<f64>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Where it came from: stamped, never taken from what was sent.
    pub source: Source,
    /// Where its writer says that it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_source: Option<Value>,
    /// What it is about; null if nothing is said.
    pub context: Option<Value>,
    /// Anything else; null if nothing is said.
    pub metadata: Option<Value>,
    /// How long it was to hold, in minutes; null for ever.
    pub ttl_minutes: Option<f64>,
    /// When it stops to hold; null never.
    pub expires_at: Option<Timestamp>,
    /// Where it stands, as its writers say.
    pub status: &'static str,
    /// Where it stands as a reader cares: `live`, `settled`, `archived`, `expired`.
    pub state: &'static str,
    /// Who should act.
    pub owner: String,
    /// How far its content may be believed.
    pub trust: &'static str,
    /// Counts its revisions, from 1; what `If-Match` takes.
    pub version: u32,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Its place among the pins of its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<u32>,
    /// What took its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    /// What was found in it that concerns persons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pii: Vec<&'static str>,
    /// The rule that put it away, if nobody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived_for: Option<&'static str>,
    /// Why its content is gone, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erased: Option<&'static str>,
    /// Whether what it says came true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<&'static str>,
    /// How well it fits the text that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// Where it came from.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Source {
    /// The tool; null for people and roles.
    pub tool: Option<String>,
    /// In which turn.
    pub turn_id: Option<String>,
    /// In which run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The node of that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The part of an answer that it stood in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// When.
    pub timestamp: Timestamp,
}

impl Observation {
    /// `entry` as it stands at `now`.
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
            pinned: fields.pin_rank,
            superseded_by: fields.superseded_by.map(|by| by.to_string()),
            pii: fields.pii.iter().map(|kind| kind.as_str()).collect(),
            archived_for: fields.archived_for.map(|why| why.as_str()),
            erased: fields.erased.map(|why| why.as_str()),
            outcome: fields.outcome.map(|outcome| outcome.as_str()),
            score: None,
        }
    }

    /// The same with how well it fits the text that was asked for.
    pub fn with_score(self, score: Option<f64>) -> Self {
        Self { score, ..self }
    }
}

/// The name of `state` as programs read it.
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
