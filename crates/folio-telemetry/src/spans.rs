//! Turns the events of a run into spans.
//!
//! A run is a trace, and each node and each question to a model is a span. Their ids are those of the run and its
//! nodes, so that a run which another process resumes continues the same trace, and a span can be found by the id that
//! Folio uses for the node.
//!
//! Nothing that people, models or tools wrote is in them: no goals, titles, prompts, arguments, answers or notes. Names
//! of steps are, except those that were made of a title.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use folio::Timestamp;
use folio::engine::run::NodeView;
use folio::engine::spend::Spend;
use folio::engine::talk::Stop;
use folio::engine::{Event, NodeId, NodeResult, Run};
use folio::memory::RunId;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use sha2::{Digest as _, Sha256};

use crate::{names, node};

/// Turns the events of one run into spans, each when it has ended.
#[derive(Debug)]
pub struct Spans {
    run: RunId,
    scope: InstrumentationScope,
    began: Option<Timestamp>,
    /// The questions to models that are under way, by node and number.
    asked: HashMap<(NodeId, u32), Question>,
    /// Failed attempts of nodes that have not ended.
    failed: HashMap<NodeId, SpanEvents>,
    /// The paths of nodes below which something was named, until those nodes end.
    paths: HashMap<NodeId, Arc<str>>,
}

/// A question to a model that is under way.
#[derive(Debug)]
struct Question {
    since: Timestamp,
    purpose: &'static str,
    /// The address of the model, if it is known.
    model: Option<String>,
    /// The budget that was set aside for it.
    reserved: Spend,
}

impl Spans {
    /// Creates the spans of `run`, before any event was taken.
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
            paths: HashMap::new(),
        }
    }

    /// Takes `event` of `run`, which has been applied to it already, and returns the spans that end with it. For a
    /// question, `model` is the address of the model, if it is known.
    pub fn take(&mut self, run: &Run, at: Timestamp, event: &Event, model: Option<&str>) -> Vec<SpanData> {
        match event {
            Event::RunStarted { .. } => self.began = Some(at),
            Event::Asked {
                node,
                call,
                purpose,
                reserved,
                ..
            } => {
                let question = Question {
                    since: at,
                    purpose: purpose.as_str(),
                    model: model.map(str::to_owned),
                    reserved: *reserved,
                };
                self.asked.insert((*node, *call), question);
            }
            Event::Replied {
                node,
                call,
                reply,
                spent,
                model,
                ..
            } => {
                let Some(mut question) = self.asked.remove(&(*node, *call)) else {
                    return Vec::new();
                };
                if !model.is_empty() {
                    question.model = Some(model.clone());
                }
                let mut span = self.chat(*node, *call, &question, at, spent);
                let stop = match reply.stop {
                    _ if !reply.calls.is_empty() => "tool_calls",
                    Stop::Done => "stop",
                    Stop::Length => "length",
                    Stop::Refusal => "content_filter",
                };
                let stop = opentelemetry::Value::Array(opentelemetry::Array::String(vec![stop.into()]));
                span.attributes.push(KeyValue::new(names::FINISH_REASONS, stop));
                return vec![span];
            }
            Event::AskFailed {
                node,
                call,
                failure,
                spent,
                ..
            } => {
                let Some(question) = self.asked.remove(&(*node, *call)) else {
                    return Vec::new();
                };
                let mut span = self.chat(*node, *call, &question, at, spent);
                fail(&mut span, failure.code.clone());
                return vec![span];
            }
            Event::AttemptFailed {
                node, attempt, failure, ..
            } => self.attempt_failed(*node, *attempt, &failure.code, at),
            Event::Finished { node, result } => {
                let mut ended = self.unanswered(*node, result, at);
                if let Some(code) = &result.code {
                    self.attempt_failed(*node, result.attempts, code, at);
                }
                ended.extend(self.ended(run, *node, at));
                return ended;
            }
            _ => {}
        }
        Vec::new()
    }

    fn attempt_failed(&mut self, node: NodeId, attempt: u32, code: &str, at: Timestamp) {
        let attributes = vec![
            KeyValue::new("exception.type", code.to_owned()),
            KeyValue::new(names::ATTEMPTS, i64::from(attempt)),
        ];
        let events = &mut self.failed.entry(node).or_default().events;
        events.push(opentelemetry::trace::Event::new("exception", time(at), attributes, 0));
    }

    /// Returns the spans of questions that were still under way for a node that has ended: nobody waits for their
    /// answers.
    fn unanswered(&mut self, node: NodeId, result: &NodeResult, at: Timestamp) -> Vec<SpanData> {
        let open = self.asked.keys().filter(|(of, _)| *of == node);
        let mut open: Vec<u32> = open.map(|(_, call)| *call).collect();
        open.sort_unstable();
        let reason = result.stop_reason.map_or("unanswered", |reason| reason.as_str());
        let mut spans = Vec::new();
        for call in open {
            if let Some(question) = self.asked.remove(&(node, call)) {
                let mut span = self.chat(node, call, &question, at, &Spend::default());
                fail(&mut span, reason);
                spans.push(span);
            }
        }
        spans
    }

    /// Returns the span of a node that has ended; `None` if it never began.
    fn ended(&mut self, run: &Run, node: NodeId, at: Timestamp) -> Option<SpanData> {
        let view = run.node(node)?;
        let events = self.failed.remove(&node).unwrap_or_default();
        let path = self.path(run, &view);
        self.paths.remove(&node);
        let from = match view.parent {
            None => self.began,
            Some(_) => view.started_at,
        }?;
        let mut span = self.span(span_id(node), view.parent.map(span_id), (from, at));
        span.events = events;
        node::describe(&mut span, run, &view, &path);
        Some(span)
    }

    /// Returns the path of a node from the root, without titles that were written for people.
    fn path(&mut self, run: &Run, view: &NodeView<'_>) -> Arc<str> {
        let Some(parent) = view.parent.and_then(|parent| run.node(parent)) else {
            return Arc::from("");
        };
        if let Some(known) = self.paths.get(&view.id) {
            return Arc::clone(known);
        }
        let above = match self.paths.get(&parent.id) {
            Some(known) => Arc::clone(known),
            None => {
                let path = self.path(run, &parent);
                self.paths.insert(parent.id, Arc::clone(&path));
                path
            }
        };
        let name = node::name(run, view);
        if above.is_empty() {
            Arc::from(name)
        } else {
            Arc::from(format!("{above}/{name}"))
        }
    }

    /// Returns the span of a question to a model, so far without an answer.
    fn chat(&self, node: NodeId, call: u32, question: &Question, at: Timestamp, spent: &Spend) -> SpanData {
        let mut hash = Sha256::new();
        hash.update(node.to_string());
        hash.update(call.to_be_bytes());
        // The same question may be asked again, so its time is part of the id.
        hash.update(question.since.as_nanos().to_be_bytes());
        let mut id = [0; 8];
        id.copy_from_slice(&hash.finalize()[..8]);
        let mut span = self.span(SpanId::from_bytes(id), Some(span_id(node)), (question.since, at));
        span.name = Cow::Borrowed(names::CHAT);
        span.span_kind = SpanKind::Client;
        span.attributes.extend([
            KeyValue::new(names::OPERATION, names::CHAT),
            KeyValue::new(names::NODE, node.to_string()),
            KeyValue::new(names::PURPOSE, question.purpose),
        ]);
        if let Some(model) = &question.model {
            span.name = format!("{} {}", names::CHAT, names::model(model)).into();
            span.attributes.extend([
                KeyValue::new(names::PROVIDER, names::provider(model).to_owned()),
                KeyValue::new(names::REQUEST_MODEL, names::model(model).to_owned()),
            ]);
        }
        // If a provider does not report usage, what was set aside counts as spent. That serves the limits and is not a
        // measurement, so it is left out here.
        if *spent != question.reserved {
            span.attributes.extend(usage(spent));
        }
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

pub(crate) fn fail(span: &mut SpanData, code: impl Into<Cow<'static, str>>) {
    let code = code.into();
    span.attributes
        .push(KeyValue::new(names::ERROR_TYPE, code.clone().into_owned()));
    span.status = Status::Error { description: code };
}

/// Returns the id of a node's span.
fn span_id(node: NodeId) -> SpanId {
    SpanId::from_hex(&node.to_string()).unwrap_or(SpanId::INVALID)
}

/// Returns attributes for what was used up, without zeros.
pub(crate) fn usage(spent: &Spend) -> impl Iterator<Item = KeyValue> + use<> {
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

fn time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(at.as_nanos()).unwrap_or_default())
}
