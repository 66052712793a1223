//! An agent on another machine that is asked as a model is: what is sent, waited for and stopped (E9.17).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Client;
use reqwest::header::HeaderValue;
use tokio::sync::oneshot;

use super::a2a::{Failed, Progress, Remote, because};
use super::prompt;
use super::settings::AgentSettings;
use crate::error::{ModelError, ModelErrorKind};
use crate::model::{Delta, Model, NewSession, Place, Reply, Request, StopCause, Worker};
use crate::provider::client_for;
use crate::secret::Secret;

/// Until a connection is there.
const CONNECT: Duration = Duration::from_secs(10);
/// Until it is asked the first time how far it is; each further pause is twice as long.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);

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
            model: self.name.clone(),
            kind: failed.kind,
            message,
            retry_after: failed.retry_after,
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
            ended = work.done(request, place) => {
                let text = ended.map_err(|failed| self.error(failed))?;
                pieces(Delta::Text(text.clone()));
                return Ok(Reply {
                    text,
                    tool_calls: Vec::new(),
                    stop: StopCause::Done,
                    usage: None,
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
    async fn done(&mut self, request: &Request, place: &Place) -> Result<String, Failed> {
        let task = match &self.stage {
            Stage::Working(task) => task.clone(),
            Stage::Beginning | Stage::Told => {
                let remote = self.found().await?;
                // From here on it may be at work.
                self.stage = Stage::Told;
                // Whoever waits for this gives up when its time is over.
                let time = self.agent.settings.limits().time;
                let sent = remote.send(prompt::of(request), &request.idempotency_key, time).await;
                match sent? {
                    Progress::Done(text) => return Ok(text),
                    Progress::Asking(task, words) => return Err(self.unanswered(&task, &words).await),
                    Progress::Working(task) => self.working(task, place).await?,
                }
            }
        };
        self.awaited(&task).await
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

    /// What comes of `task`. An agent that is away for a while is waited for.
    async fn awaited(&mut self, task: &str) -> Result<String, Failed> {
        let mut pause = PAUSE;
        loop {
            let looked = match self.found().await {
                Ok(remote) => remote.look(task).await,
                Err(failed) => Err(failed),
            };
            let wanted = match looked {
                Ok(Progress::Done(text)) => return Ok(text),
                Ok(Progress::Asking(task, words)) => return Err(self.unanswered(&task, &words).await),
                Ok(Progress::Working(_)) => None,
                Err(failed) => match failed.kind {
                    ModelErrorKind::Unavailable | ModelErrorKind::RateLimited => failed.retry_after,
                    // What it says of its work is so; that nothing can be heard of it is no word on what it does.
                    ModelErrorKind::Failed => return Err(failed),
                    _ => {
                        let what = format!("it is at work on {task}, and cannot be asked how far it is");
                        return Err(Failed::new(ModelErrorKind::Unknown, because(&what, &failed.message)));
                    }
                },
            };
            tokio::time::sleep(wanted.unwrap_or_default().max(pause)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// It asks for something, and nobody is there who could answer: it need not wait.
    async fn unanswered(&mut self, task: &str, words: &str) -> Failed {
        let _told = self.called_off(task).await;
        let what = "it asks for something, and there is nobody who could answer it";
        Failed::new(ModelErrorKind::Failed, because(what, words))
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
                return Failed::new(ModelErrorKind::Unavailable, message);
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
