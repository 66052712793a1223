//! What a run asks of people.

use folio::Timestamp;
use folio::engine::Run;
use folio::engine::run::{OpenRequest, Requested};
use folio::store::RunRow;
use schemars::JsonSchema;
use serde::Serialize;

/// A question of a run, or a plan, call or check that waits for approval.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct QuestionShape {
    /// The name of the question, made of the run, the node and the question itself. An answer under this name never
    /// applies to a later question of the same node.
    pub id: String,
    /// The handle of the run, such as `r3`.
    pub run: String,
    /// The permanent id of the run.
    pub run_id: String,
    /// The id of the node that asks.
    pub node_id: String,
    /// The path of the node's step names; empty for the run itself.
    pub path: String,
    /// The title of the node.
    pub title: String,
    /// The question, or what waits for approval, in words.
    pub question: String,
    /// The answers to choose from; if there are none, any answer is accepted.
    pub options: Vec<String>,
    /// The answer that applies if nobody answers.
    pub default: Option<String>,
    /// The time until which it waits; null if no deadline ends that.
    pub until: Option<Timestamp>,
    /// `question`, or one of `call`, `plan` and `check` (the command of a criterion), which wait for approval at
    /// `/approvals/{id}`.
    pub kind: &'static str,
    /// For a call: the tool, its arguments, and the hash that identifies both.
    #[schemars(with = "Option<serde_json::Value>")]
    pub call: Option<folio::engine::event::Approval>,
    /// For a plan: its version.
    pub plan_version: Option<u32>,
}

impl QuestionShape {
    /// Returns what `run` asks at `now`, without questions whose deadline has passed.
    #[must_use]
    pub fn all_of(row: &RunRow, run: &Run, now: Timestamp) -> Vec<Self> {
        let shape = |request: OpenRequest<'_>| Self {
            id: format!("{}.{}", row.id, request.reference()),
            run: row.handle.to_string(),
            run_id: row.id.to_string(),
            node_id: request.node.to_string(),
            path: run
                .node(request.node)
                .map_or_else(String::new, |view| view.path.to_owned()),
            title: run.title(request.node),
            question: match request.what {
                Requested::Answer(question) => question.text.clone(),
                Requested::Approval(waiting) => run.approval_in_words(request.node, &waiting),
            },
            options: request.options().to_vec(),
            default: request.default_answer().map(str::to_owned),
            until: request.until,
            kind: request.kind(),
            call: request.call().cloned(),
            plan_version: request.plan_version(),
        };
        run.open_requests(now).into_iter().map(shape).collect()
    }
}
