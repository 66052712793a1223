//! From the events of a run to spans.
//!
//! A run is a trace, a node a span, and so is each question to a model. Their ids are those of the run and its nodes, so that
//! a run which somebody else takes up goes on in the same trace, and a span is found by what Folio calls the node.
//!
//! What people, models and tools wrote is in none of them: no goals, titles, prompts, arguments, answers or notes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use folio::Timestamp;
use folio::engine::plan::{Step, Work};
use folio::engine::run::{NodeKind, NodeView};
use folio::engine::spend::{Dimension, Purse, Spend};
use folio::engine::talk::Stop;
use folio::engine::{Event, NodeId, Outcome, Run};
use folio::memory::RunId;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use sha2::{Digest as _, Sha256};

use crate::names;

/// Turns the events of one run into spans, each when it has ended.
#[derive(Debug)]
pub struct Spans {
    run: RunId,
    scope: InstrumentationScope,
    began: Option<Timestamp>,
    /// The questions that are under way, by node and number: since when, and what for.
    asked: HashMap<(NodeId, u32), (Timestamp, &'static str)>,
    /// Failed attempts of nodes that have not ended.
    failed: HashMap<NodeId, SpanEvents>,
}

impl Spans {
    /// Of `run`, of which no event was taken yet.
    #[must_use]
    pub fn of(run: RunId) -> Self {
        let scope = InstrumentationScope::builder("folio")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        Self {
            run,
            scope,
            began: None,
            asked: HashMap::new(),
            failed: HashMap::new(),
        }
    }

    /// Takes `event` of `run`, which has been applied to it, and gives the span that ends with it, if one does.
    pub fn take(&mut self, run: &Run, at: Timestamp, event: &Event) -> Option<SpanData> {
        match event {
            Event::RunStarted { .. } => {
                self.began = Some(at);
                None
            }
            Event::Asked {
                node, call, purpose, ..
            } => {
                self.asked.insert((*node, *call), (at, purpose.as_str()));
                None
            }
            Event::Replied {
                node,
                call,
                reply,
                spent,
                model,
                ..
            } => {
                let (from, purpose) = self.asked.remove(&(*node, *call))?;
                let mut span = self.chat(*node, *call, (from, at), purpose, spent);
                span.name = format!("{} {}", names::CHAT, names::model(model)).into();
                let stop = match reply.stop {
                    _ if !reply.calls.is_empty() => "tool_calls",
                    Stop::Done => "stop",
                    Stop::Length => "length",
                    Stop::Refusal => "content_filter",
                };
                let stop = opentelemetry::Value::Array(opentelemetry::Array::String(vec![stop.into()]));
                span.attributes.extend([
                    KeyValue::new(names::PROVIDER, names::provider(model).to_owned()),
                    KeyValue::new(names::REQUEST_MODEL, names::model(model).to_owned()),
                    KeyValue::new(names::FINISH_REASONS, stop),
                ]);
                Some(span)
            }
            Event::AskFailed {
                node,
                call,
                failure,
                spent,
                ..
            } => {
                let (from, purpose) = self.asked.remove(&(*node, *call))?;
                let mut span = self.chat(*node, *call, (from, at), purpose, spent);
                fail(&mut span, failure.code.clone());
                Some(span)
            }
            Event::AttemptFailed {
                node, attempt, failure, ..
            } => {
                let said = vec![
                    KeyValue::new("exception.type", failure.code.clone()),
                    KeyValue::new(names::ATTEMPTS, i64::from(*attempt)),
                ];
                let events = &mut self.failed.entry(*node).or_default().events;
                events.push(opentelemetry::trace::Event::new("exception", time(at), said, 0));
                None
            }
            Event::Finished { node, .. } => self.ended(run, *node, at),
            _ => None,
        }
    }

    /// The span of a node that has ended; none if it never began.
    fn ended(&mut self, run: &Run, node: NodeId, at: Timestamp) -> Option<SpanData> {
        let view = run.node(node)?;
        let events = self.failed.remove(&node).unwrap_or_default();
        let is_run = view.parent.is_none();
        let from = if is_run { self.began } else { view.started_at }?;
        let mut span = self.span(span_id(node), view.parent.map(span_id), (from, at));
        span.events = events;
        let (name, operation) = match view.kind {
            _ if is_run => (names::WORKFLOW.to_owned(), Some(names::WORKFLOW)),
            NodeKind::Call | NodeKind::Action => {
                let tool = tool_of(&view);
                span.attributes.extend([
                    KeyValue::new(names::TOOL_NAME, tool.clone()),
                    KeyValue::new(names::TOOL_TYPE, "function"),
                    KeyValue::new(names::TOOL_CALL_ID, node.to_string()),
                ]);
                (format!("{} {tool}", names::TOOL), Some(names::TOOL))
            }
            NodeKind::Model => {
                span.attributes.extend([
                    KeyValue::new(names::AGENT_NAME, view.slug().to_owned()),
                    KeyValue::new(names::AGENT_ID, node.to_string()),
                ]);
                (format!("{} {}", names::AGENT, view.slug()), Some(names::AGENT))
            }
            other => (format!("{} {}", other.as_str(), view.slug()), None),
        };
        span.name = name.into();
        span.attributes
            .extend(operation.map(|operation| KeyValue::new(names::OPERATION, operation)));
        span.attributes.extend([
            KeyValue::new(names::NODE, node.to_string()),
            KeyValue::new(names::PATH, view.path.to_owned()),
            KeyValue::new(names::KIND, view.kind.as_str()),
        ]);
        if view.plan_version > 0 {
            span.attributes
                .push(KeyValue::new(names::PLAN_VERSION, i64::from(view.plan_version)));
        }
        span.attributes.extend(view.purse.into_iter().flat_map(budget));
        if is_run {
            span.attributes.extend(usage(view.spent));
        }
        if let Some(result) = view.result {
            let reason = result.stop_reason.map(|reason| reason.as_str());
            span.attributes
                .push(KeyValue::new(names::OUTCOME, result.status.as_str()));
            if result.attempts > 0 {
                span.attributes
                    .push(KeyValue::new(names::ATTEMPTS, i64::from(result.attempts)));
            }
            span.attributes
                .extend(reason.map(|reason| KeyValue::new(names::STOP_REASON, reason)));
            if result.status == Outcome::Failed {
                fail(&mut span, reason.unwrap_or("failed"));
            }
        }
        Some(span)
    }

    /// The span of a question to a model, which it did not answer as far as this says.
    fn chat(
        &self,
        node: NodeId,
        call: u32,
        time: (Timestamp, Timestamp),
        purpose: &'static str,
        spent: &Spend,
    ) -> SpanData {
        let mut hash = Sha256::new();
        hash.update(node.to_string());
        hash.update(call.to_be_bytes());
        // The same question may be asked again.
        hash.update(time.0.as_nanos().to_be_bytes());
        let mut id = [0; 8];
        id.copy_from_slice(&hash.finalize()[..8]);
        let mut span = self.span(SpanId::from_bytes(id), Some(span_id(node)), time);
        span.name = Cow::Borrowed(names::CHAT);
        span.span_kind = SpanKind::Client;
        span.attributes.extend([
            KeyValue::new(names::OPERATION, names::CHAT),
            KeyValue::new(names::NODE, node.to_string()),
            KeyValue::new(names::PURPOSE, purpose),
        ]);
        span.attributes.extend(usage(spent));
        span
    }

    fn span(&self, id: SpanId, parent: Option<SpanId>, (from, to): (Timestamp, Timestamp)) -> SpanData {
        let trace = TraceId::from_bytes(self.run.to_bytes());
        SpanData {
            span_context: SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::NONE),
            parent_span_id: parent.unwrap_or(SpanId::INVALID),
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: Cow::Borrowed(""),
            start_time: time(from),
            end_time: time(to.max(from)),
            attributes: vec![KeyValue::new(names::RUN, self.run.to_string())],
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }
}

fn fail(span: &mut SpanData, code: impl Into<Cow<'static, str>>) {
    let code = code.into();
    span.attributes
        .push(KeyValue::new(names::ERROR_TYPE, code.clone().into_owned()));
    span.status = Status::Error { description: code };
}

/// What a node is called among spans.
fn span_id(node: NodeId) -> SpanId {
    SpanId::from_hex(&node.to_string()).unwrap_or(SpanId::INVALID)
}

/// The tool that a node calls: as its plan says, or, of what a model wants, as the call begins.
fn tool_of(view: &NodeView<'_>) -> String {
    if let Some(Step::Task(task)) = view.step
        && let Work::Do(call) = &task.work
    {
        return call.tool.clone();
    }
    let word = view
        .call
        .split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.')
        .next();
    word.unwrap_or_default().to_owned()
}

/// What was used up, as far as it was.
fn usage(spent: &Spend) -> impl Iterator<Item = KeyValue> + use<> {
    [
        (names::INPUT_TOKENS, spent.tokens_in),
        (names::CACHED_TOKENS, spent.tokens_cached),
        (names::OUTPUT_TOKENS, spent.tokens_out),
        (names::COST, spent.micro_usd),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(name, count)| KeyValue::new(name, i64::try_from(count).unwrap_or(i64::MAX)))
}

/// The limits of a node, as they are when it has ended: people may have raised them.
fn budget(purse: &Purse) -> impl Iterator<Item = KeyValue> + use<> {
    let limit = purse.limit;
    Dimension::ALL.into_iter().filter_map(move |dimension| {
        let most = i64::try_from(limit.of(dimension)?).unwrap_or(i64::MAX);
        Some(KeyValue::new(format!("{}{}", names::BUDGET, dimension.as_str()), most))
    })
}

fn time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(at.as_nanos()).unwrap_or_default())
}
