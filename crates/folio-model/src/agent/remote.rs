//! An agent on another machine that is asked as a model is: what is sent, waited for and stopped (E9.17).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Client;
use reqwest::header::HeaderValue;
use serde_json::json;
use tokio::sync::oneshot;

use super::a2a::{Failed, Heard, Progress, Remote, because, brief};
use super::prompt;
use super::settings::AgentSettings;
use crate::error::{ModelError, ModelErrorKind};
use crate::model::{ASK_PERSON, Delta, Model, NewSession, Place, Reply, Request, Speaker, StopCause, ToolCall, Worker};
use crate::provider::client_for;
use crate::secret::Secret;

/// Until a connection is there.
const CONNECT: Duration = Duration::from_secs(10);
/// Until it is asked the first time how far it is; each further pause is twice as long.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Answers in a row, of whoever is asked how far it is, that make no sense. What stands before it may say such a thing for a moment.
const ODD_MAX: u32 = 5;

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
    /// The agent `name` at the `url` of `settings`, which is shown `token`, if there is one; reached through `proxy`, if there is one.
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
        let client = client_for(&url, CONNECT, proxy)?;
        let authorisation = token.as_ref().map(|token| {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
                .map_err(|_| "its token cannot be sent: it has signs that no header may have")?;
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
        // What it says may have in it what it was shown.
        let message = match &self.token {
            Some(token) => token.taken_out_of(&failed.message),
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
        let why = tokio::select! {
            biased;
            heard = work.heard(request, place) => {
                return Ok(match heard.map_err(|failed| self.error(failed))? {
                    Heard::Done(text) => {
                        pieces(Delta::Text(text.clone()));
                        Reply {
                            text,
                            tool_calls: Vec::new(),
                            stop: StopCause::Done,
                            usage: None,
                        }
                    }
                    Heard::Asking { task, words } => Reply {
                        text: String::new(),
                        tool_calls: vec![question_of(&task, &words, request)],
                        stop: StopCause::ToolCalls,
                        usage: None,
                    },
                });
            }
            () = place.stop.cancelled() => "it was told to stop".to_owned(),
            () = tokio::time::sleep(time) => {
                format!("it took longer than {} s and was told to stop", time.as_secs())
            }
        };
        let failed = work.stopped(why).await;
        Err(self.error(failed))
    }

    async fn call_off(&self, question: &str) {
        let Some(task) = task_of(question) else { return };
        let mut work = Work {
            agent: self,
            remote: None,
            stage: Stage::Working(task.to_owned()),
        };
        let _told = work.called_off(task).await;
    }
}

/// A question that its task asked, and what was answered.
struct Answered<'r> {
    task: &'r str,
    question: &'r str,
    answer: &'r str,
}

impl<'r> Answered<'r> {
    /// The one that was the last that was heard of it.
    fn last_of(request: &'r Request) -> Option<Self> {
        let messages = &request.messages;
        let said = messages.iter().rfind(|said| said.speaker == Speaker::Assistant)?;
        let call = said.tool_calls.iter().find(|call| call.tool == ASK_PERSON)?;
        let answer = messages.iter().rfind(|said| said.answers.as_ref() == Some(&call.id))?;
        Some(Self {
            task: task_of(&call.id)?,
            question: call.args.get("question")?.as_str()?,
            answer: &answer.text,
        })
    }
}

/// The question of a person that `task` asks in `words`. Its id names the task, and which of its questions it is.
fn question_of(task: &str, words: &str, request: &Request) -> ToolCall {
    let calls = request.messages.iter().flat_map(|message| &message.tool_calls);
    let before = calls.filter(|call| call.tool == ASK_PERSON).count();
    ToolCall {
        id: format!("{task}/{}", before + 1),
        tool: ASK_PERSON.to_owned(),
        args: json!({"question": question_in(words)}),
    }
}

/// What a person is asked.
fn question_in(words: &str) -> &str {
    match words.trim() {
        "" => "It asks for something, and does not say what.",
        words => words,
    }
}

/// The task of which `question`, the id of a call, is a question.
fn task_of(question: &str) -> Option<&str> {
    question.rsplit_once('/').map(|(task, _number)| task)
}

/// How far it is known to have come.
#[derive(Debug)]
enum Stage {
    /// It was told nothing.
    Beginning,
    /// It was told, and what it calls the task was not heard.
    Told,
    /// It is at work on the task of this name.
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
    async fn heard(&mut self, request: &Request, place: &Place) -> Result<Heard, Failed> {
        // Whoever waits for this gives up when its time is over.
        let time = self.agent.settings.limits().time;
        let answered = Answered::last_of(request);
        let key = &request.idempotency_key;
        let task = match &self.stage {
            Stage::Working(task) => Some(task.clone()),
            Stage::Beginning | Stage::Told => None,
        };
        let heard = match (task, &answered) {
            (Some(task), answered) => match (self.awaited(&task).await?, answered) {
                // It still asks what was answered: whoever drove this died before it was told. It is told so as the same message.
                (Heard::Asking { words, .. }, Some(answered)) if question_in(&words) == answered.question => {
                    self.told(answered, key, time).await?
                }
                (heard, _) => heard,
            },
            (None, Some(answered)) => {
                self.working(answered.task.to_owned(), place).await?;
                self.told(answered, key, time).await?
            }
            (None, None) => {
                let remote = self.found().await?;
                // From here on it may be at work.
                self.stage = Stage::Told;
                match remote.send(prompt::of(request), None, key, time).await? {
                    Progress::Working(task) => {
                        let task = self.working(task, place).await?;
                        self.awaited(&task).await?
                    }
                    other => self.ended(other).await?,
                }
            }
        };
        match heard {
            Heard::Asking { task, words } if !place.has_person => Err(self.unanswered(&task, &words).await),
            heard => Ok(heard),
        }
    }

    /// What comes of its task when it is told what was answered.
    async fn told(&mut self, answered: &Answered<'_>, key: &str, time: Duration) -> Result<Heard, Failed> {
        let remote = self.found().await?;
        let answer = answered.answer.to_owned();
        match remote.send(answer, Some(answered.task), key, time).await? {
            Progress::Working(task) => self.awaited(&task).await,
            other => self.ended(other).await,
        }
    }

    /// What comes of a task that is not at work any more.
    async fn ended(&mut self, progress: Progress) -> Result<Heard, Failed> {
        match progress {
            Progress::Heard(heard) => Ok(heard),
            Progress::Failed(failed) => Err(failed),
            Progress::WantsLogin { task, words } => {
                // Nobody can log in here, so it need not wait.
                let _told = self.called_off(&task).await;
                let message = because("it wants somebody to log in", &words);
                Err(Failed::new(ModelErrorKind::Unauthorised, message))
            }
            Progress::Working(task) => Err(Failed::new(ModelErrorKind::Unknown, format!("it is at work on {task}"))),
        }
    }

    async fn found(&mut self) -> Result<Arc<Remote>, Failed> {
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

    /// It is at work: from now on whoever drives the run can ask for what becomes of it, also after a crash.
    async fn working(&mut self, task: String, place: &Place) -> Result<String, Failed> {
        self.stage = Stage::Working(task.clone());
        let Some(sessions) = &place.sessions else {
            return Ok(task);
        };
        let (kept, is_kept) = oneshot::channel();
        let id = task.clone();
        let told = sessions.send(NewSession { id, kept }).await.is_ok();
        if told && is_kept.await.is_ok() {
            return Ok(task);
        }
        Err(Failed::new(ModelErrorKind::Unknown, "nobody waits for it any more"))
    }

    /// What comes of `task`: it is done, or asks. An agent that is away for a while is waited for.
    async fn awaited(&mut self, task: &str) -> Result<Heard, Failed> {
        let (mut pause, mut odd) = (PAUSE, 0);
        loop {
            let looked = match self.found().await {
                Ok(remote) => remote.look(task).await,
                Err(failed) => Err(failed),
            };
            let wanted = match looked {
                Ok(Progress::Working(_)) => {
                    odd = 0;
                    None
                }
                Ok(other) => return self.ended(other).await,
                Err(failed) => match failed.kind {
                    ModelErrorKind::Unreached | ModelErrorKind::RateLimited => failed.retry_after,
                    // It knows nothing of the task, or lets nobody in: it will not tomorrow.
                    ModelErrorKind::Unknown | ModelErrorKind::Unauthorised => {
                        return Err(self.unheard(task, failed).await);
                    }
                    _ if odd + 1 == ODD_MAX => return Err(self.unheard(task, failed).await),
                    _ => {
                        odd += 1;
                        None
                    }
                },
            };
            tokio::time::sleep(wanted.unwrap_or_default().max(pause)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Nothing more is heard of its task, which is no word on what it does. So it is told to stop.
    async fn unheard(&mut self, task: &str, failed: Failed) -> Failed {
        let what = format!("it is at work on {task}, and cannot be asked how far it is");
        let why = because(&what, &failed.message);
        let message = match self.called_off(task).await {
            Ok(()) => format!("{why}; it was told to stop"),
            Err(_) => why,
        };
        Failed::new(ModelErrorKind::Unknown, message)
    }

    /// It asks for something, and nobody is there who could answer: it need not wait.
    async fn unanswered(&mut self, task: &str, words: &str) -> Failed {
        let _told = self.called_off(task).await;
        let what = "it asks for something, and there is nobody who could answer it";
        Failed::new(ModelErrorKind::Failed, because(what, &brief(words)))
    }

    /// Tells it to stop; why it was not heard to, if it was not.
    async fn called_off(&mut self, task: &str) -> Result<(), String> {
        let grace = self.agent.settings.limits().grace;
        let telling = async { self.found().await?.cancel(task).await };
        match tokio::time::timeout(grace, telling).await {
            Ok(told) => told.map_err(|failed| failed.message),
            Err(_) => Err("it does not answer".to_owned()),
        }
    }

    /// Tells it that nobody wants to know any more, and says what is known then.
    async fn stopped(mut self, why: String) -> Failed {
        let unheard = match &self.stage {
            Stage::Beginning => {
                let message = format!("{why}, before it was given the task");
                return Failed::new(ModelErrorKind::Unreached, message);
            }
            Stage::Told => Err("what it calls the task is not known".to_owned()),
            Stage::Working(task) => {
                let task = task.clone();
                self.called_off(&task).await
            }
        };
        let message = match unheard {
            Ok(()) => why,
            Err(unheard) => format!("{why}, and may still be at work: {unheard}"),
        };
        Failed::new(ModelErrorKind::Unknown, message)
    }
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
