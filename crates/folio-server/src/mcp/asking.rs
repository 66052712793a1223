//! What runs ask, put to the person before the client: in forms, where the client has them (E9.14).
//!
//! With sessions the server sends a form while a request waits; without, the answer to the request is the form, and the client asks again with
//! what was filled in. Only questions are put this way: a yes to a call or a plan is said to Folio itself.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use folio::engine::event::Question;
use folio::engine::run::Asked;
use folio::engine::{NodeId, Run};
use folio::memory::RunId;
use folio::runner::{RunnerError, Watch};
use parking_lot::Mutex;
use rmcp::model::{
    ClientCapabilities, ClientResult, ElicitRequest, ElicitRequestParams, ElicitationSchema, EnumSchema, InputRequest,
    InputRequests, InputRequiredResult, InputResponses, ProtocolVersion, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, RoleServer};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

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

/// Whether the question `name` of `run` is still open.
fn is_open(run: &Run, name: &str) -> bool {
    let mut open = run.questions().into_iter();
    open.any(|(node, question)| asked(node, question).to_string() == name)
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

/// What was filled in, if the person sent the form with something in it.
pub(super) fn filled_in(result: &Value) -> Option<&str> {
    if result.get("action").and_then(Value::as_str) != Some("accept") {
        return None;
    }
    let answer = result.get("content")?.get(ANSWER)?.as_str()?;
    (!answer.trim().is_empty()).then_some(answer)
}

/// The forms that are before the person of one conversation, by the names of their questions.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenForms(Arc<Mutex<HashSet<String>>>);

/// One of them, until this is dropped.
#[derive(Debug)]
struct OpenForm {
    all: OpenForms,
    name: String,
}

impl OpenForms {
    /// Notes that the form `name` is open; nothing if it is already.
    fn open(&self, name: &str) -> Option<OpenForm> {
        let is_new = self.0.lock().insert(name.to_owned());
        is_new.then(|| OpenForm {
            all: self.clone(),
            name: name.to_owned(),
        })
    }
}

impl Drop for OpenForm {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.name);
    }
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
    /// Puts the form `name` of `run` to the person before the client, and takes what they answer, however long that takes; it is taken
    /// away from them when the question is answered elsewhere. Nothing if it is before them already, or cannot be shown.
    pub(super) async fn put(
        &self,
        peer: &Peer<RoleServer>,
        caller: &Caller,
        run: RunId,
        name: String,
        form: ElicitRequestParams,
    ) -> Option<JoinHandle<Result<(), Problem>>> {
        let open = self.open_forms.open(&name)?;
        // Sent from here, so that it belongs to the request that waits.
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options());
        let mut shown = sent.await.ok()?;
        // Without what the conversation follows, which is gone when the conversation is.
        let (server, caller) = (self.another(), caller.clone());
        Some(tokio::spawn(async move {
            let workspace = &caller.workspace;
            let mut watch = Watch::new(Arc::clone(workspace.store()), workspace.space().clone(), run);
            let is_over = async {
                // Whoever cannot read how it goes on waits for the person.
                let mut goes_on = watch.catch_up().await.map(|()| true);
                while let Ok(true) = goes_on {
                    if !is_open(watch.run(), &name) {
                        return;
                    }
                    goes_on = watch.next().await.map(|news| news.is_some());
                }
                if goes_on.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let response = tokio::select! {
                response = &mut shown.rx => response,
                () = is_over => {
                    // Who cannot be told finds nothing open when they have filled it in.
                    let _unheard = shown.cancel(Some("it was answered elsewhere".to_owned())).await;
                    return Ok(());
                }
            };
            drop(open);
            let Ok(Ok(ClientResult::ElicitResult(response))) = response else {
                return Ok(());
            };
            let response = InputResponses::from([(name, json!(response))]);
            server.take_answers(&caller, run, &response).await.map(drop)
        }))
    }

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
