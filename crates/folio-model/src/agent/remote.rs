//! An agent on another machine that is asked like a model: sends the task, waits for it and cancels it (E9.17).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Client;
use reqwest::header::HeaderValue;
use serde_json::json;
use tokio::sync::oneshot;

use super::a2a::{Failed, Heard, Progress, Remote, short_message, with_detail};
use super::prompt;
use super::settings::AgentSettings;
use crate::error::{ModelError, ModelErrorKind};
use crate::model::{ASK_PERSON, Delta, Model, NewSession, Place, Reply, Request, Speaker, StopCause, ToolCall, Worker};
use crate::provider::client_for;
use crate::secret::Secret;

/// Time limit for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause before the first poll; each further pause is twice as long.
const POLL_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause between polls.
const POLL_PAUSE_MAX: Duration = Duration::from_secs(5);
/// How many nonsensical poll answers in a row are tolerated. A proxy in front of the agent may give such answers for a
/// moment.
const ODD_ANSWERS_MAX: u32 = 5;

/// An agent that is reached by the Agent2Agent protocol. Nothing is sent to it before it is asked.
#[derive(Debug, Clone)]
pub struct RemoteAgent {
    name: String,
    settings: AgentSettings,
    url: String,
    token: Option<Secret>,
    authorisation: Option<HeaderValue>,
    client: Client,
}

impl RemoteAgent {
    /// Creates the agent `name` at the `url` of `settings`, authenticated by `token` and reached through `proxy`, if
    /// these are given.
    ///
    /// # Errors
    ///
    /// Why it cannot be asked.
    pub fn new(
        name: &str,
        settings: AgentSettings,
        token: Option<Secret>,
        proxy: Option<&str>,
    ) -> Result<Self, String> {
        let url = settings.url.clone().ok_or("it has no `url`")?;
        let client = client_for(&url, CONNECT_TIMEOUT, proxy)?;
        let authorisation = token.as_ref().map(|token| {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
                .map_err(|_| "its token cannot be sent: it has characters that are not allowed in a header")?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        });
        Ok(Self {
            name: format!("agent:{name}"),
            settings,
            url,
            token,
            authorisation: authorisation.transpose()?,
            client,
        })
    }

    fn error(&self, failed: Failed) -> ModelError {
        // The agent's message may contain the token.
        let message = match &self.token {
            Some(token) => token.redact(&failed.message),
            None => failed.message,
        };
        ModelError {
            retry_after: failed.retry_after,
            ..ModelError::new(self.name.as_str(), failed.kind, message)
        }
    }
}

#[async_trait]
impl Model for RemoteAgent {
    async fn reply(&self, request: &Request, pieces: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        self.reply_in(request, &Place::default(), pieces).await
    }

    fn worker(&self) -> Option<Worker<'_>> {
        Some(Worker::Remote(&self.url))
    }

    async fn reply_in(
        &self,
        request: &Request,
        place: &Place,
        pieces: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Reply, ModelError> {
        let time = self.settings.limits().time;
        let mut work = Work {
            agent: self,
            remote: None,
            stage: match &place.session {
                Some(task) => Stage::Working(task.clone()),
                None => Stage::Beginning,
            },
        };
        let reason = tokio::select! {
            biased;
            heard = work.run_task(request, place) => {
                return Ok(match heard.map_err(|failed| self.error(failed))? {
                    Heard::Done(text) => {
                        pieces(Delta::Text(text.clone()));
                        Reply {
                            text,
                            tool_calls: Vec::new(),
                            stop: StopCause::Done,
                            usage: None,
                            permissions: Vec::new(),
                        }
                    }
                    Heard::Asking { task, words } => Reply {
                        text: String::new(),
                        tool_calls: vec![question_of(&task, &words, request)],
                        stop: StopCause::ToolCalls,
                        usage: None,
                        permissions: Vec::new(),
                    },
                });
            }
            () = place.stop.cancelled() => "it was told to stop".to_owned(),
            () = tokio::time::sleep(time) => {
                format!("it took longer than {} s and was told to stop", time.as_secs())
            }
        };
        let failed = work.cancel_after_stop(reason).await;
        Err(self.error(failed))
    }

    async fn call_off(&self, question: &str) {
        let Some(task) = task_of(question) else { return };
        let mut work = Work {
            agent: self,
            remote: None,
            stage: Stage::Working(task.to_owned()),
        };
        let _told = work.cancel_task(task).await;
    }
}

/// A question of the agent, and the answer to it.
struct AnsweredQuestion<'r> {
    task: &'r str,
    question: &'r str,
    answer: &'r str,
}

impl<'r> AnsweredQuestion<'r> {
    /// The question, if it was the last thing that the agent said.
    fn last_of(request: &'r Request) -> Option<Self> {
        let messages = &request.messages;
        let last_message = messages.iter().rfind(|message| message.speaker == Speaker::Assistant)?;
        let call = last_message.tool_calls.iter().find(|call| call.tool == ASK_PERSON)?;
        let answer = messages
            .iter()
            .rfind(|message| message.answers.as_ref() == Some(&call.id))?;
        Some(Self {
            task: task_of(&call.id)?,
            question: call.args.get("question")?.as_str()?,
            answer: &answer.text,
        })
    }
}

/// The question to a person that `task` asks in `text`. Its id contains the task and the number of the question.
fn question_of(task: &str, text: &str, request: &Request) -> ToolCall {
    let calls = request.messages.iter().flat_map(|message| &message.tool_calls);
    let before = calls.filter(|call| call.tool == ASK_PERSON).count();
    ToolCall {
        id: format!("{task}/{}", before + 1),
        tool: ASK_PERSON.to_owned(),
        args: json!({"question": question_in(text)}),
    }
}

/// The text of the question for a person.
fn question_in(text: &str) -> &str {
    match text.trim() {
        "" => "It asks for something, and does not say what.",
        text => text,
    }
}

/// The task that asked `question`, the id of a call.
fn task_of(question: &str) -> Option<&str> {
    question.rsplit_once('/').map(|(task, _number)| task)
}

/// The known progress of a task.
#[derive(Debug)]
enum Stage {
    /// The agent was told nothing.
    Beginning,
    /// The task was sent, and its id is unknown.
    Told,
    /// The agent is working on the task with this id.
    Working(String),
}

/// One task.
#[derive(Debug)]
struct Work<'a> {
    agent: &'a RemoteAgent,
    remote: Option<Arc<Remote>>,
    stage: Stage,
}

impl Work<'_> {
    async fn run_task(&mut self, request: &Request, place: &Place) -> Result<Heard, Failed> {
        // The caller gives up when the time is over.
        let time = self.agent.settings.limits().time;
        let answered = AnsweredQuestion::last_of(request);
        let key = &request.idempotency_key;
        let task = match &self.stage {
            Stage::Working(task) => Some(task.clone()),
            Stage::Beginning | Stage::Told => None,
        };
        let heard = match (task, &answered) {
            (Some(task), answered) => match (self.poll_until_done(&task).await?, answered) {
                // It still asks what was answered: the driver died before it sent the answer. The answer is sent as the
                // same message.
                (Heard::Asking { words, .. }, Some(answered)) if question_in(&words) == answered.question => {
                    self.send_answer(answered, key, time).await?
                }
                (heard, _) => heard,
            },
            (None, Some(answered)) => {
                self.record_task_id(answered.task.to_owned(), place).await?;
                self.send_answer(answered, key, time).await?
            }
            (None, None) => {
                let remote = self.find_remote().await?;
                // From here on the agent may be working.
                self.stage = Stage::Told;
                match remote.send(prompt::of(request), None, key, time).await? {
                    Progress::Working(task) => {
                        let task = self.record_task_id(task, place).await?;
                        self.poll_until_done(&task).await?
                    }
                    other => self.task_result(other).await?,
                }
            }
        };
        match heard {
            Heard::Asking { task, words } if !place.has_person => Err(self.cancel_unanswered(&task, &words).await),
            heard => Ok(heard),
        }
    }

    /// Sends the answer to a question, and returns the result of the task.
    async fn send_answer(
        &mut self,
        answered: &AnsweredQuestion<'_>,
        key: &str,
        time: Duration,
    ) -> Result<Heard, Failed> {
        let remote = self.find_remote().await?;
        let answer = answered.answer.to_owned();
        match remote.send(answer, Some(answered.task), key, time).await? {
            Progress::Working(task) => self.poll_until_done(&task).await,
            other => self.task_result(other).await,
        }
    }

    /// The result of a task that is no longer worked on.
    async fn task_result(&mut self, progress: Progress) -> Result<Heard, Failed> {
        match progress {
            Progress::Heard(heard) => Ok(heard),
            Progress::Failed(failed) => Err(failed),
            Progress::WantsLogin { task, words } => {
                // Nobody can log in here, so it need not wait.
                let _told = self.cancel_task(&task).await;
                let message = with_detail("it requires a login", &words);
                Err(Failed::new(ModelErrorKind::Unauthorised, message))
            }
            Progress::Working(task) => Err(Failed::new(ModelErrorKind::Unknown, format!("it is working on {task}"))),
        }
    }

    async fn find_remote(&mut self) -> Result<Arc<Remote>, Failed> {
        if let Some(remote) = &self.remote {
            return Ok(Arc::clone(remote));
        }
        let agent = self.agent;
        let found = Remote::find(
            agent.client.clone(),
            &agent.url,
            agent.authorisation.clone(),
            agent.settings.output_bytes(),
        );
        let found = Arc::new(found.await?);
        self.remote = Some(Arc::clone(&found));
        Ok(found)
    }

    /// The agent is working: has the id of the task recorded, so that the driver of the run can poll it even after a
    /// crash.
    async fn record_task_id(&mut self, task: String, place: &Place) -> Result<String, Failed> {
        self.stage = Stage::Working(task.clone());
        let Some(sessions) = &place.sessions else {
            return Ok(task);
        };
        let (kept, is_kept) = oneshot::channel();
        let id = task.clone();
        let is_sent = sessions.send(NewSession { id, kept }).await.is_ok();
        if is_sent && is_kept.await.is_ok() {
            return Ok(task);
        }
        Err(Failed::new(ModelErrorKind::Unknown, "nobody waits for it any more"))
    }

    /// Polls `task` until it is done or asks something. An agent that is temporarily unavailable is waited for.
    async fn poll_until_done(&mut self, task: &str) -> Result<Heard, Failed> {
        let (mut pause, mut odd) = (POLL_PAUSE, 0);
        loop {
            let progress = match self.find_remote().await {
                Ok(remote) => remote.poll_task(task).await,
                Err(failed) => Err(failed),
            };
            let retry_after = match progress {
                Ok(Progress::Working(_)) => {
                    odd = 0;
                    None
                }
                Ok(other) => return self.task_result(other).await,
                Err(failed) => match failed.kind {
                    ModelErrorKind::Unreached | ModelErrorKind::RateLimited => failed.retry_after,
                    // It does not know the task, or denies access: waiting does not help.
                    ModelErrorKind::Unknown | ModelErrorKind::Unauthorised => {
                        return Err(self.cancel_lost_task(task, failed).await);
                    }
                    _ if odd + 1 == ODD_ANSWERS_MAX => return Err(self.cancel_lost_task(task, failed).await),
                    _ => {
                        odd += 1;
                        None
                    }
                },
            };
            tokio::time::sleep(retry_after.unwrap_or_default().max(pause)).await;
            pause = (pause * 2).min(POLL_PAUSE_MAX);
        }
    }

    /// The task can no longer be polled, so its outcome is unknown, and it is cancelled.
    async fn cancel_lost_task(&mut self, task: &str, failed: Failed) -> Failed {
        let status = format!("it is working on {task}, and its progress cannot be queried");
        let reason = with_detail(&status, &failed.message);
        let message = match self.cancel_task(task).await {
            Ok(()) => format!("{reason}; it was told to stop"),
            Err(_) => reason,
        };
        Failed::new(ModelErrorKind::Unknown, message)
    }

    /// It asks something and nobody can answer, so the task is cancelled.
    async fn cancel_unanswered(&mut self, task: &str, text: &str) -> Failed {
        let _told = self.cancel_task(task).await;
        let problem = "it asks a question, and nobody is there to answer it";
        Failed::new(ModelErrorKind::Failed, with_detail(problem, &short_message(text)))
    }

    /// Cancels the task; the error says why the agent could not be told.
    async fn cancel_task(&mut self, task: &str) -> Result<(), String> {
        let grace = self.agent.settings.limits().grace;
        let cancelling = async { self.find_remote().await?.cancel(task).await };
        match tokio::time::timeout(grace, cancelling).await {
            Ok(result) => result.map_err(|failed| failed.message),
            Err(_) => Err("it does not answer".to_owned()),
        }
    }

    /// Cancels the task after the caller has given up, and returns what is known then.
    async fn cancel_after_stop(mut self, reason: String) -> Failed {
        let unheard = match &self.stage {
            Stage::Beginning => {
                let message = format!("{reason}, before it was given the task");
                return Failed::new(ModelErrorKind::Unreached, message);
            }
            Stage::Told => Err("the id that it gave the task is not known".to_owned()),
            Stage::Working(task) => {
                let task = task.clone();
                self.cancel_task(&task).await
            }
        };
        let message = match unheard {
            Ok(()) => reason,
            Err(unheard) => format!("{reason}, and may still be at work: {unheard}"),
        };
        Failed::new(ModelErrorKind::Unknown, message)
    }
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
