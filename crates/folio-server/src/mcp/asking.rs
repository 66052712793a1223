//! Puts the questions of runs to the person at the client, in forms if the client supports them (E9.14).
//!
//! With sessions, the server sends a form while a request waits. Without, the form is the answer to the request, and
//! the client repeats the request with what was filled in. Only questions are asked this way: calls and plans are
//! approved in Folio itself.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use folio::engine::event::Question;
use folio::engine::run::RequestRef;
use folio::engine::{NodeId, Run};
use folio::memory::RunId;
use folio::memory::tokens::Tokens;
use folio::runner::{RunnerError, Watch};
use parking_lot::Mutex;
use rmcp::model::{
    ClientCapabilities, ClientResult, ElicitRequest, ElicitRequestParams, ElicitationSchema, EnumSchema, InputRequest,
    InputRequests, InputRequiredResult, InputResponses, ProtocolVersion, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, RoleServer};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::answer::excerpt;
use super::{Caller, Mcp};
use crate::http::problem::Problem;

/// The most forms that are open at once, and that one call shows.
pub(super) const MAX_OPEN_FORMS: usize = 8;
/// The most tokens that an answer shows of a question that was declined.
const DECLINED_TOKENS: u32 = 30;
/// The name of a form's only field.
const ANSWER: &str = "answer";

/// Returns whether the client shows forms to a person.
pub(super) fn shows_forms(client: Option<&ClientCapabilities>) -> bool {
    let Some(elicitation) = client.and_then(|client| client.elicitation.as_ref()) else {
        return false;
    };
    // A client that declares neither supports forms: that was the original meaning of the capability.
    elicitation.form.is_some() || elicitation.url.is_none()
}

/// Returns whether the server may send requests to the client while a request waits, and not only with its answer.
pub(super) fn has_session(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.as_ref().is_none_or(ProtocolVersion::has_initialize)
}

/// Returns the open questions of `run`, each under a name of its own, without those that were `put_off`.
pub(super) fn forms(run: &Run, put_off: &[String]) -> BTreeMap<String, ElicitRequestParams> {
    let to_form = |(node, question): (NodeId, &Question)| {
        (question_ref(node, question).to_string(), form_of(run, node, question))
    };
    let open = run.questions().into_iter().map(to_form);
    open.filter(|(name, _)| !put_off.contains(name))
        .take(MAX_OPEN_FORMS)
        .collect()
}

/// Returns the open questions of `run` that the person `declined` to answer, each as its node and the beginning of its
/// text.
pub(super) fn declined_questions(run: &Run, declined: &[String], tokens: &dyn Tokens) -> Vec<String> {
    let line = |(node, question): (NodeId, &Question)| {
        let path = run.node(node).map_or("", |view| view.path);
        format!("{path}: {}", excerpt(&question.text, DECLINED_TOKENS, tokens))
    };
    let questions = run.questions().into_iter();
    let those = questions.filter(|(node, question)| declined.contains(&question_ref(*node, question).to_string()));
    those.map(line).collect()
}

/// Returns whether the question `name` of `run` is still open.
fn is_open(run: &Run, name: &str) -> bool {
    let mut open = run.open_questions();
    open.any(|(node, question)| question_ref(node, question).to_string() == name)
}

/// Converts forms into the requests for input that an answer carries.
pub(super) fn requests(forms: BTreeMap<String, ElicitRequestParams>) -> InputRequests {
    let request = |(name, form)| (name, InputRequest::Elicitation(ElicitRequest::new(form)));
    forms.into_iter().map(request).collect()
}

/// Returns the name of a question, which stays the same as long as the same node asks the same question.
fn question_ref(node: NodeId, question: &Question) -> RequestRef {
    RequestRef {
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
        Some(default) => format!("{path} asks: {} (if nobody answers in time: {default})", question.text),
    };
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: schema.build_unchecked(),
    }
}

/// Returns what was filled in, if the person accepted the form and did not leave it empty.
pub(super) fn answer_in(result: &Value) -> Option<&str> {
    if result.get("action").and_then(Value::as_str) != Some("accept") {
        return None;
    }
    let answer = result.get("content")?.get(ANSWER)?.as_str()?;
    (!answer.trim().is_empty()).then_some(answer)
}

/// What came of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// The person answered, or the question was answered elsewhere.
    Answered,
    /// The person did not answer, or the client could not show the form.
    Declined,
}

/// The forms that are open in one conversation, by the names of their questions.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenForms(Arc<Mutex<HashSet<String>>>);

/// One open form, until this is dropped.
#[derive(Debug)]
struct OpenForm {
    open_forms: OpenForms,
    name: String,
}

impl OpenForms {
    /// Records that the form `name` is open, or returns `None` if it already is.
    fn open(&self, name: &str) -> Option<OpenForm> {
        let is_new = self.0.lock().insert(name.to_owned());
        is_new.then(|| OpenForm {
            open_forms: self.clone(),
            name: name.to_owned(),
        })
    }
}

impl Drop for OpenForm {
    fn drop(&mut self) {
        self.open_forms.0.lock().remove(&self.name);
    }
}

/// What an answer with forms sends along as its state: which run it is about, and which questions were put off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) run: RunId,
    pub(super) put_off: Vec<String>,
}

impl Round {
    /// Parses the state that was sent with the forms. It comes back from the client, so it grants nothing: whoever may
    /// ask about the run may write it, too.
    pub(super) fn parse(state: &str) -> Option<Self> {
        let mut words = state.split(' ');
        let run = words.next()?.parse().ok()?;
        Some(Self {
            run,
            put_off: words.map(str::to_owned).take(MAX_OPEN_FORMS * MAX_OPEN_FORMS).collect(),
        })
    }

    /// Returns the answer that shows `forms`.
    pub(super) fn input_required(&self, forms: BTreeMap<String, ElicitRequestParams>) -> InputRequiredResult {
        let state = [vec![self.run.to_string()], self.put_off.clone()].concat().join(" ");
        InputRequiredResult::new(Some(requests(forms)), Some(state))
    }
}

impl Mcp {
    /// Shows the form `name` of `run` to the person at the client and records their answer, however long that takes.
    /// The form is withdrawn when the question is answered elsewhere. Returns `None` if the form is open already.
    pub(super) async fn show_form(
        &self,
        peer: &Peer<RoleServer>,
        caller: &Caller,
        run: RunId,
        name: String,
        form: ElicitRequestParams,
    ) -> Option<JoinHandle<Result<Filled, Problem>>> {
        let open = self.open_forms.open(&name)?;
        // Sent before the task is spawned, so that it belongs to the request that waits.
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options());
        let Ok(mut request_handle) = sent.await else {
            // The question is in the answer.
            return Some(tokio::spawn(std::future::ready(Ok(Filled::Declined))));
        };
        // A server without the resources that the conversation follows: those must be dropped with the conversation.
        let (server, caller) = (self.for_new_conversation(), caller.clone());
        Some(tokio::spawn(async move {
            let workspace = &caller.workspace;
            let mut watch = Watch::new(Arc::clone(workspace.store()), workspace.space().clone(), run);
            let is_over = async {
                // If the run cannot be read any more, the form stays open.
                let mut goes_on = watch.catch_up().await.map(|()| true);
                while let Ok(true) = goes_on {
                    if !is_open(watch.run(), &name) {
                        return;
                    }
                    goes_on = watch.next().await.map(|events| events.is_some());
                }
                if goes_on.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let response = tokio::select! {
                response = &mut request_handle.rx => response,
                () = is_over => {
                    // If the cancellation is not delivered, an answer finds no open question.
                    let _unheard = request_handle.cancel(Some("it was answered elsewhere".to_owned())).await;
                    return Ok(Filled::Answered);
                }
            };
            drop(open);
            let Ok(Ok(ClientResult::ElicitResult(response))) = response else {
                return Ok(Filled::Declined);
            };
            let response = InputResponses::from([(name, json!(response))]);
            let declined = server.take_answers(&caller, run, &response).await?;
            Ok(if declined.is_empty() {
                Filled::Answered
            } else {
                Filled::Declined
            })
        }))
    }

    /// Answers the questions of `run` that `responses` answer, by their names. Returns the names of those that the
    /// person declined to answer. Questions that were answered elsewhere meanwhile keep that answer.
    pub(super) async fn take_answers(
        &self,
        caller: &Caller,
        run: RunId,
        responses: &InputResponses,
    ) -> Result<Vec<String>, Problem> {
        let runner = &self.shared.runner;
        let loaded = runner.load(run).await?;
        let mut postponed = Vec::new();
        for (node, question) in loaded.open_questions() {
            let reference = question_ref(node, question);
            let name = reference.to_string();
            let Some(response) = responses.get(&name) else { continue };
            let Some(answer) = answer_in(response) else {
                postponed.push(name);
                continue;
            };
            match runner.answer(run, reference, answer, &caller.actor).await {
                Ok(())
                | Err(RunnerError::NoQuestion { .. } | RunnerError::AskedElse { .. } | RunnerError::TimeIsUp { .. }) => {
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(postponed)
    }
}
