//! Earlier results of a run, for `result_read`: the driver of the run knows them, so that nobody folds its journal for
//! each call.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use folio_engine::{Output, OutputTree, Run};
use folio_memory::passage::{self, Part, PartRead, Reading};
use folio_store::{BlobHash, ErrorKind, Workspace};
use folio_tools::{ResultSource, as_text, field_of};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::pending_writes::PendingWrites;

/// How many requests are queued for the driver; further callers wait.
const MAX_QUEUED_QUESTIONS: usize = 64;
/// The total size of large results of a group's members, or of a `for_each`'s items, that may be combined for a call:
/// each call combines them anew, and has all of it in memory. Each single result can be read by its own name.
const MAX_COMBINED_BYTES: u64 = 64 * 1024 * 1024;

/// A request for a result, and the channel for the answer.
#[derive(Debug)]
pub(crate) struct Question {
    node: String,
    answer: oneshot::Sender<Result<OutputTree, String>>,
}

impl Question {
    /// Answers from the durable part of `run`: a result that is still being written may yet change.
    pub(crate) fn answer<O>(self, run: &Run, pending_writes: &PendingWrites<O>) {
        let Self { node, answer } = self;
        let found = match run.node_named(&node) {
            None => Err(format!("there is no node {node:?} in this run")),
            Some(view) => match view.result.filter(|_| !pending_writes.has_ended(view.id)) {
                None => Err(format!("{node} has no result yet")),
                // The result of a group says only how it ended.
                Some(_) => run.readable(view.id).ok_or_else(|| format!("{node} gives nothing")),
            },
        };
        // The caller may have been stopped meanwhile.
        drop(answer.send(found));
    }
}

/// The results of a run that is driven here, and the bodies that are kept.
#[derive(Debug)]
pub(crate) struct RunResults {
    workspace: Workspace,
    questions: mpsc::Sender<Question>,
}

impl RunResults {
    /// The side of the calls, and the receiver for the driver.
    pub(crate) fn new(workspace: &Workspace) -> (Arc<Self>, mpsc::Receiver<Question>) {
        let (questions, receiver) = mpsc::channel(MAX_QUEUED_QUESTIONS);
        let workspace = workspace.clone();
        (Arc::new(Self { workspace, questions }), receiver)
    }

    async fn request_output(&self, node: &str) -> Result<OutputTree, String> {
        let not_driven = || "the run is not driven here any more".to_owned();
        let (answer, answer_receiver) = oneshot::channel();
        let node = node.to_owned();
        let sent = self.questions.send(Question { node, answer }).await;
        sent.map_err(|_| not_driven())?;
        answer_receiver.await.map_err(|_| not_driven())?
    }

    async fn blob(&self, hash: &str) -> Result<Vec<u8>, String> {
        let (store, space) = (self.workspace.store(), self.workspace.space());
        let bytes = store.blob(space, &BlobHash(hash.to_owned())).await;
        bytes.map_err(|error| error.to_string())
    }

    /// The whole body that was put away under the name `node`. If it is no such body either, fails with `reason`, which
    /// says why it is not a result of the run.
    async fn read_offloaded_body(&self, node: &str, reason: String) -> Result<Vec<u8>, String> {
        let all = Part::Bytes { from: 0, to: u64::MAX };
        let max_bytes = usize::try_from(MAX_COMBINED_BYTES).unwrap_or(usize::MAX);
        match self
            .workspace
            .read_body(node, &all, max_bytes)
            .await
            .map(|read| read.reading)
        {
            Ok(Reading::Passage(passage)) if passage.next.is_none() => Ok(passage.bytes),
            Ok(_) => Err(format!(
                "{node} has too many bytes to look for a field in it; leave `field` out"
            )),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(reason),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The value of `node`, which gives `tree`. Parts that are kept beside the journal are read first.
    async fn combined_value(&self, node: &str, tree: &OutputTree) -> Result<Arc<Value>, String> {
        let outputs = tree.outputs().into_iter();
        let kept: Vec<(&str, u64)> = outputs
            .filter_map(|output| match output {
                Output::Inline(_) => None,
                Output::Blob { hash, bytes } => Some((hash.as_str(), *bytes)),
            })
            .collect();
        let bytes: u64 = kept.iter().map(|(_, bytes)| bytes).sum();
        if kept.len() > 1 && bytes > MAX_COMBINED_BYTES {
            return Err(format!(
                "the results in {node} have {bytes} bytes in all, which is too much at once; read them one by one"
            ));
        }
        let mut values = BTreeMap::new();
        for (hash, _) in kept {
            if !values.contains_key(hash) {
                let value = serde_json::from_slice::<Value>(&self.blob(hash).await?);
                values.insert(hash, Arc::new(value.map_err(|error| error.to_string())?));
            }
        }
        tree.value(&mut |output| match output {
            Output::Inline(inline) => Ok(inline.value()),
            Output::Blob { hash, .. } => values
                .get(hash.as_str())
                .cloned()
                .ok_or_else(|| format!("{hash} was not read")),
        })
    }
}

#[async_trait]
impl ResultSource for RunResults {
    async fn read(&self, node: &str) -> Result<Vec<u8>, String> {
        if let Some(hash) = node.strip_prefix("blob:") {
            let bytes = self.blob(hash).await?;
            // An output that is a text is read as that text, not as its JSON form.
            return Ok(match serde_json::from_slice::<Value>(&bytes) {
                Ok(value) => as_text(&value).into_bytes(),
                Err(_) => bytes,
            });
        }
        let tree = self.request_output(node).await?;
        Ok(as_text(&*self.combined_value(node, &tree).await?).into_bytes())
    }

    async fn read_field(&self, node: &str, field: &str) -> Result<Vec<u8>, String> {
        let value = if let Some(hash) = node.strip_prefix("blob:") {
            Arc::new(json_in(node, &self.blob(hash).await?)?)
        } else {
            match self.request_output(node).await {
                Ok(tree) => self.combined_value(node, &tree).await?,
                Err(reason) => Arc::new(json_in(node, &self.read_offloaded_body(node, reason).await?)?),
            }
        };
        Ok(as_text(field_of(&value, field)?).into_bytes())
    }

    async fn read_part(&self, node: &str, part: &Part, max_bytes: usize) -> Result<PartRead, String> {
        let reason = match self.read(node).await {
            Ok(bytes) => return Ok(passage::read(&bytes, part, max_bytes)),
            Err(reason) => reason,
        };
        // What is not a result of the run may be one that was put away.
        match self.workspace.read_body(node, part, max_bytes).await {
            Ok(read) => Ok(read),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(reason),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The JSON value in `bytes`, the content of `node`.
fn json_in(node: &str, bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|_| format!("the result of {node} is a text, which has no fields"))
}
