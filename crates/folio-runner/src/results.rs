//! Earlier results of a run, for `result_read`: whoever drives the run knows them, so that nobody folds its journal for each call.

use std::sync::Arc;

use async_trait::async_trait;
use folio_engine::{Output, Run};
use folio_memory::passage::{self, Part, PartRead};
use folio_store::{BlobHash, ErrorKind, Workspace};
use folio_tools::ResultSource;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::ahead::Ahead;

/// Questions that wait until the driver looks; whoever has one more waits.
const QUESTIONS: usize = 64;

/// Which result somebody asks for, and who is told.
#[derive(Debug)]
pub(crate) struct Question {
    node: String,
    answer: oneshot::Sender<Result<Output, String>>,
}

impl Question {
    /// Answers from `run` what is durable of it: a result that is still on its way to the disk may yet be another.
    pub(crate) fn answer<O>(self, run: &Run, ahead: &Ahead<O>) {
        let Self { node, answer } = self;
        let found = match run.node_named(&node) {
            None => Err(format!("there is no node {node:?} in this run")),
            Some(view) => match view.result.filter(|_| !ahead.has_ended(view.id)) {
                None => Err(format!("{node} has no result yet")),
                Some(result) => Ok(result.output.clone()),
            },
        };
        // Whoever asked may have been stopped meanwhile.
        drop(answer.send(found));
    }
}

/// The results of a run that is driven here, and bodies that are kept.
#[derive(Debug)]
pub(crate) struct RunResults {
    workspace: Workspace,
    questions: mpsc::Sender<Question>,
}

impl RunResults {
    /// What calls ask, and where the driver hears it.
    pub(crate) fn new(workspace: &Workspace) -> (Arc<Self>, mpsc::Receiver<Question>) {
        let (questions, asked) = mpsc::channel(QUESTIONS);
        let workspace = workspace.clone();
        (Arc::new(Self { workspace, questions }), asked)
    }

    async fn output(&self, node: &str) -> Result<Output, String> {
        let gone = || "the run is not driven here any more".to_owned();
        let (answer, answered) = oneshot::channel();
        let node = node.to_owned();
        let asked = self.questions.send(Question { node, answer }).await;
        asked.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    async fn blob(&self, hash: &str) -> Result<Vec<u8>, String> {
        let (store, space) = (self.workspace.store(), self.workspace.space());
        let bytes = store
            .blob(space, &BlobHash(hash.to_owned()))
            .await
            .map_err(|error| error.to_string())?;
        // An output that is a text reads as that text, not as its JSON form.
        Ok(match serde_json::from_slice::<Value>(&bytes) {
            Ok(value) => as_text(&value).into_bytes(),
            Err(_) => bytes,
        })
    }
}

#[async_trait]
impl ResultSource for RunResults {
    async fn read(&self, node: &str) -> Result<Vec<u8>, String> {
        if let Some(hash) = node.strip_prefix("blob:") {
            return self.blob(hash).await;
        }
        match self.output(node).await? {
            Output::Inline(inline) => Ok(as_text(&inline.value()).into_bytes()),
            Output::Blob { hash, .. } => self.blob(&hash).await,
        }
    }

    async fn read_part(&self, node: &str, part: &Part, max_bytes: usize) -> Result<PartRead, String> {
        let why = match self.read(node).await {
            Ok(bytes) => return Ok(passage::read(&bytes, part, max_bytes)),
            Err(why) => why,
        };
        // What is no result of the run may be one that was put away.
        match self.workspace.read_body(node, part, max_bytes).await {
            Ok(read) => Ok(read),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(why),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// A text as it is, anything else as indented JSON.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
    }
}
