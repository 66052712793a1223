//! What runs ask, put to the person before the client: in forms, where the client has them (E9.14).
//!
//! With sessions the server sends a form while a request waits; without, the answer to the request is the form, and the client asks again with
//! what was filled in. Only questions are put this way: a yes to a call or a plan is said to Folio itself.

use std::collections::BTreeMap;

use folio::engine::event::Question;
use folio::engine::run::Asked;
use folio::engine::{NodeId, Run};
use folio::memory::RunId;
use folio::runner::RunnerError;
use rmcp::model::{
    ClientCapabilities, ElicitRequest, ElicitRequestParams, ElicitationSchema, EnumSchema, InputRequest, InputRequests,
    InputRequiredResult, InputResponses, ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

use super::{Caller, Mcp};
use crate::http::problem::Problem;

/// Forms that are put at once, and that one call puts at most.
pub(super) const FORMS: usize = 8;
/// The field of a form.
const ANSWER: &str = "answer";

/// Whether the client shows forms to a person.
pub(super) fn shows_forms(client: Option<&ClientCapabilities>) -> bool {
    let Some(forms) = client.and_then(|client| client.elicitation.as_ref()) else {
        return false;
    };
    // Who says neither means forms: that is how it began.
    forms.form.is_some() || forms.url.is_none()
}

/// Whether the server may ask the client while a request waits, and not only with its answer.
pub(super) fn has_session(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.as_ref().is_none_or(ProtocolVersion::has_initialize)
}

/// The questions of `run` that are open, each under a name of its own, without those that were `put_off`.
pub(super) fn forms(run: &Run, put_off: &[String]) -> BTreeMap<String, ElicitRequestParams> {
    let named =
        |(node, question): (NodeId, &Question)| (asked(node, question).to_string(), form_of(run, node, question));
    let open = run.questions().into_iter().map(named);
    open.filter(|(name, _)| !put_off.contains(name)).take(FORMS).collect()
}

/// The same as the protocol puts them into answers.
pub(super) fn requests(forms: BTreeMap<String, ElicitRequestParams>) -> InputRequests {
    let request = |(name, form)| (name, InputRequest::Elicitation(ElicitRequest::new(form)));
    forms.into_iter().map(request).collect()
}

/// What a question is called: the same as long as it is the same question of the same node.
fn asked(node: NodeId, question: &Question) -> Asked {
    Asked {
        node,
        mark: Some(question.mark()),
    }
}

fn form_of(run: &Run, node: NodeId, question: &Question) -> ElicitRequestParams {
    let schema = match question.options.as_slice() {
        [] => ElicitationSchema::builder().required_string(ANSWER),
        options => {
            let choice = EnumSchema::builder(options.to_vec()).untitled().build();
            ElicitationSchema::builder().required_enum_schema(ANSWER, choice)
        }
    };
    let path = run.node(node).map_or("", |view| view.path);
    let message = match &question.default {
        None => format!("{path} asks: {}", question.text),
        Some(default) => format!("{path} asks: {} (nobody answers in time: {default})", question.text),
    };
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: schema.build_unchecked(),
    }
}

/// What was filled in, if the person sent the form.
pub(super) fn filled_in(result: &Value) -> Option<&str> {
    if result.get("action").and_then(Value::as_str) != Some("accept") {
        return None;
    }
    result.get("content")?.get(ANSWER)?.as_str()
}

/// The round that an answer begins which is forms: which run it is about, and what was put off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) run: RunId,
    pub(super) put_off: Vec<String>,
}

impl Round {
    /// Reads what was sent with the forms. It comes from the client: whoever may ask for the run may say this, too.
    pub(super) fn parse(state: &str) -> Option<Self> {
        let mut words = state.split(' ');
        let run = words.next()?.parse().ok()?;
        Some(Self {
            run,
            put_off: words.map(str::to_owned).take(FORMS * FORMS).collect(),
        })
    }

    /// The answer that is `forms`.
    pub(super) fn asks(&self, forms: BTreeMap<String, ElicitRequestParams>) -> InputRequiredResult {
        let state = [vec![self.run.to_string()], self.put_off.clone()].concat().join(" ");
        InputRequiredResult::new(Some(requests(forms)), Some(state))
    }
}

impl Mcp {
    /// Answers the questions of `run` that `responses` answer, by their names. Gives the names of those that nobody wanted to answer. What was
    /// answered elsewhere meanwhile stays as it is.
    pub(super) async fn take_answers(
        &self,
        caller: &Caller,
        run: RunId,
        responses: &InputResponses,
    ) -> Result<Vec<String>, Problem> {
        let runner = &self.shared.runner;
        let loaded = runner.load(run).await?;
        let mut put_off = Vec::new();
        for (node, question) in loaded.questions() {
            let asked = asked(node, question);
            let name = asked.to_string();
            let Some(response) = responses.get(&name) else { continue };
            let Some(answer) = filled_in(response) else {
                put_off.push(name);
                continue;
            };
            match runner.answer(run, asked, answer, &caller.actor).await {
                Ok(()) | Err(RunnerError::NoQuestion { .. } | RunnerError::AskedElse { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(put_off)
    }
}
