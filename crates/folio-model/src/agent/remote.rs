//! An agent on another machine that is asked as a model is: what is sent, waited for and stopped (E9.17).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Client;
use reqwest::header::HeaderValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::a2a::{Failed, Progress, Remote};
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
        let limits = self.settings.limits();
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
            ended = work.done(request, place, limits.time) => {
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
            () = tokio::time::sleep(limits.time) => {
                format!("it took longer than {} s and was told to stop", limits.time.as_secs())
            }
        };
        let failed = work.stopped(why, limits.grace).await;
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
    async fn done(&mut self, request: &Request, place: &Place, time: Duration) -> Result<String, Failed> {
        let until = Instant::now() + time;
        if matches!(self.stage, Stage::Beginning) {
            let remote = self.found().await?;
            // From here on it may be at work.
            self.stage = Stage::Told;
            let time = until.saturating_duration_since(Instant::now());
            let sent = remote.send(prompt::of(request), &request.idempotency_key, time).await;
            match sent? {
                Progress::Done(text) => return Ok(text),
                Progress::Working(task) => self.working(task, place).await?,
                Progress::Asking(task, words) => return Err(self.unanswered(task, &words).await),
            }
        }
        self.awaited().await
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
    async fn working(&mut self, task: String, place: &Place) -> Result<(), Failed> {
        self.stage = Stage::Working(task.clone());
        let Some(sessions) = &place.sessions else { return Ok(()) };
        let (kept, is_kept) = oneshot::channel();
        let told = sessions.send(NewSession { id: task, kept }).await.is_ok();
        if told && is_kept.await.is_ok() {
            return Ok(());
        }
        Err(Failed::new(ModelErrorKind::Unknown, "nobody waits for it any more"))
    }

    /// What comes of what it works on. One that is away for a while is waited for.
    async fn awaited(&mut self) -> Result<String, Failed> {
        let mut pause = PAUSE;
        loop {
            let Stage::Working(task) = &self.stage else {
                return Err(Failed::new(
                    ModelErrorKind::Unknown,
                    "what it calls the task is not known",
                ));
            };
            let task = task.clone();
            let looked = match self.found().await {
                Ok(remote) => remote.look(&task).await,
                Err(failed) => Err(failed),
            };
            let wanted = match looked {
                Ok(Progress::Done(text)) => return Ok(text),
                Ok(Progress::Working(_)) => None,
                Ok(Progress::Asking(task, words)) => return Err(self.unanswered(task, &words).await),
                Err(failed) => match failed.kind {
                    ModelErrorKind::Unavailable | ModelErrorKind::RateLimited => failed.retry_after,
                    // What it says of its work is so; that nothing can be heard of it is no word on what it does.
                    ModelErrorKind::Failed => return Err(failed),
                    _ => {
                        let message = format!(
                            "it is at work on {task}, and cannot be asked how far it is: {}",
                            failed.message
                        );
                        return Err(Failed::new(ModelErrorKind::Unknown, message));
                    }
                },
            };
            tokio::time::sleep(wanted.unwrap_or_default().max(pause)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// It asks for something, and nobody is there who could answer: it need not wait.
    async fn unanswered(&mut self, task: String, words: &str) -> Failed {
        self.stage = Stage::Working(task);
        let _told = self.called_off(self.agent.settings.limits().grace).await;
        let colon = if words.is_empty() { "" } else { ": " };
        let message = format!("it asks for something, and there is nobody who could answer it{colon}{words}");
        Failed::new(ModelErrorKind::Failed, message)
    }

    /// Tells it to stop; why it was not heard to, if it was not.
    async fn called_off(&mut self, grace: Duration) -> Result<(), String> {
        let Stage::Working(task) = &self.stage else {
            return Err("what it calls the task is not known".to_owned());
        };
        let task = task.clone();
        let telling = async { self.found().await?.cancel(&task).await };
        match tokio::time::timeout(grace, telling).await {
            Ok(told) => told.map_err(|failed| failed.message),
            Err(_) => Err("it does not answer".to_owned()),
        }
    }

    /// Tells it that nobody wants to know any more, and says what is known then.
    async fn stopped(mut self, why: String, grace: Duration) -> Failed {
        if let Stage::Beginning = self.stage {
            let message = format!("{why}, before it was given the task");
            return Failed::new(ModelErrorKind::Unavailable, message);
        }
        let message = match self.called_off(grace).await {
            Ok(()) => why,
            Err(unheard) => format!("{why}, and may still be at work: {unheard}"),
        };
        Failed::new(ModelErrorKind::Unknown, message)
    }
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
