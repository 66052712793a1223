//! An observation as seed 002 writes it, with what became of it since.

use std::fmt::{self, Write as _};
use std::time::Duration;

use folio::Timestamp;
use folio::memory::entry::BodyRef;
use folio::memory::{Entry, State, Trust};
use folio::store::workspace::Consolidated;
use serde::Serialize;
use serde_json::Value;

use super::{beginning_only, first_line, instant, printable};
use crate::output::{Report, Style};

/// Characters of its text that a line shows.
const LINE_CHARS: usize = 160;

/// An observation.
#[derive(Debug, Serialize)]
pub(crate) struct Observation {
    observation_id: String,
    handle: String,
    #[serde(rename = "type")]
    type_name: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    title: String,
    content: String,
    /// Of a long text, `content` is the beginning, or all of it if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_ref: Option<BodyRef>,
    confidence: Option<f64>,
    tags: Vec<String>,
    source: Source,
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pii: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    archived_for: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    erased: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    /// How well it fits the text that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
}

/// Where it came from.
#[derive(Debug, Serialize)]
struct Source {
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

impl Observation {
    /// `entry` as it stands at `now`.
    pub(crate) fn of(entry: &Entry, now: Timestamp) -> Self {
        let fields = &entry.fields;
        let expires_at = fields.lifetime.expires_at();
        let source = &fields.source;
        Self {
            observation_id: entry.id.to_string(),
            handle: entry.handle.to_string(),
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
            ttl_minutes: expires_at.map(|end| minutes(end.since(entry.created_at))),
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
    pub(crate) fn with_score(self, score: Option<f64>) -> Self {
        Self { score, ..self }
    }
}

impl Report for Observation {
    /// One line.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let type_name = self.type_name.as_deref().unwrap_or("observation");
        let kind = if type_name.contains("alert") {
            style.bad(type_name)
        } else {
            type_name.to_owned()
        };
        write!(out, "{} [{kind}/{}", style.strong(&self.handle), self.status)?;
        if self.state == state_name(State::Expired) {
            out.push_str(", expired");
        }
        if let Some(confidence) = self.confidence {
            write!(out, " {confidence}")?;
        }
        out.push_str("] ");
        if !self.title.is_empty() {
            write!(out, "{} — ", printable(&self.title))?;
        }
        out.push_str(&first_line(&self.content, LINE_CHARS));
        for tag in &self.tags {
            write!(out, " {}", style.faint(format_args!("#{tag}")))?;
        }
        out.push('\n');
        Ok(())
    }
}

/// Everything about one observation.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct InFull(pub(crate) Observation);

impl Report for InFull {
    /// Its fields, then its text.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let seen = &self.0;
        let mut line = |name: &str, value: String| writeln!(out, "{} {value}", style.faint(format_args!("{name:<11}")));
        line(
            "handle",
            format!("{} {}", style.strong(&seen.handle), seen.observation_id),
        )?;
        line("type", seen.type_name.clone().unwrap_or_default())?;
        line("status", format!("{} ({})", seen.status, seen.state))?;
        if let Some(confidence) = seen.confidence {
            line("confidence", confidence.to_string())?;
        }
        line("owner", seen.owner.clone())?;
        if !seen.tags.is_empty() {
            line("tags", seen.tags.join(" "))?;
        }
        line("expires", seen.expires_at.map_or_else(|| "never".to_owned(), instant))?;
        line("created", instant(seen.created_at))?;
        line(
            "updated",
            format!("{} (version {})", instant(seen.updated_at), seen.version),
        )?;
        let by = seen
            .source
            .tool
            .as_ref()
            .map_or_else(String::new, |tool| format!(", tool {tool}"));
        let run = seen
            .source
            .run_id
            .as_ref()
            .map_or_else(String::new, |run| format!(", {run}"));
        line("source", format!("{}{by}{run}", seen.trust))?;
        let values = [
            ("claimed", &seen.claimed_source),
            ("context", &seen.context),
            ("metadata", &seen.metadata),
        ];
        for (name, value) in values {
            if let Some(value) = value {
                line(name, value.to_string())?;
            }
        }
        if let Some(outcome) = seen.outcome {
            line("outcome", outcome.to_owned())?;
        }
        if let Some(by) = &seen.superseded_by {
            line("replaced by", by.clone())?;
        }
        if !seen.title.is_empty() {
            write!(out, "\n{}\n", style.strong(printable(&seen.title)))?;
        }
        writeln!(out, "\n{}", printable(seen.content.trim_end()))?;
        if let Some(notice) = beginning_only(seen.content_ref.as_ref(), &seen.content) {
            writeln!(out, "\n{}", style.faint(format_args!("{notice}; --whole shows all")))?;
        }
        Ok(())
    }
}

/// What came of putting one observation in the place of several.
#[derive(Debug, Serialize)]
pub(crate) struct Superseded {
    superseded: Vec<Observation>,
    /// Those that somebody changed meanwhile, as they are.
    left: Vec<Observation>,
}

impl Superseded {
    /// What came of it, at `now`.
    pub(crate) fn of(done: &Consolidated, now: Timestamp) -> Self {
        let shapes = |entries: &[Entry]| entries.iter().map(|entry| Observation::of(entry, now)).collect();
        Self {
            superseded: shapes(&done.superseded),
            left: shapes(&done.left),
        }
    }
}

impl Report for Superseded {
    /// A line for each that was superseded.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        self.superseded.iter().try_for_each(|one| one.text(out, style))
    }
}

/// To a thousandth. The store moves an instant by less than that to keep those of a space in order.
fn minutes(time: Duration) -> f64 {
    (time.as_secs_f64() / 60.0 * 1_000.0).round() / 1_000.0
}

/// The name of `state` as programs read it.
pub(crate) fn state_name(state: State) -> &'static str {
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
