//! Where outputs are kept: in the journal if they are small, beside it if they are not.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use folio_engine::{Event, Output, Run};
use folio_memory::RunId;
use folio_memory::passage::{self, Part, PartRead};
use folio_store::{Blob, BlobHash, ErrorKind, Workspace};
use folio_tools::ResultSource;
use serde_json::Value;

use crate::watch::Watch;

/// Bytes of JSON text that an output may have to stand in the journal itself (the limit of inline content).
pub(crate) const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Moves a large output of `event` out of it: it is then in `blobs`, and `run` is given its value, so that later steps
/// need not read it back.
pub(crate) fn move_large_output(run: &mut Run, event: &mut Event, blobs: &mut Vec<Blob>) {
    let output = match event {
        Event::Finished { result, .. } => &mut result.output,
        Event::Proposed { proposal, .. } => &mut proposal.output,
        _ => return,
    };
    let Some(value) = output.value() else { return };
    if fits(&value, INLINE_BYTES_MAX) {
        return;
    }
    let blob = Blob::new(value.to_string().into_bytes());
    run.supply(&blob.hash().0, value);
    *output = Output::Blob {
        hash: blob.hash().0.clone(),
        bytes: blob.bytes().len() as u64,
    };
    blobs.push(blob);
}

/// Whether the JSON text of `value` has at most `max` bytes. Stops counting there.
fn fits(value: &Value, max: usize) -> bool {
    struct Counter {
        left: usize,
    }
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.left = self
                .left
                .checked_sub(bytes.len())
                .ok_or_else(|| io::Error::other("too large"))?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        other => serde_json::to_writer(&mut Counter { left: max }, other).is_ok(),
    }
}

/// Earlier results of a run, for `result_read`: read from the journal, so that it sees what is durable.
#[derive(Debug)]
pub(crate) struct JournalResults {
    pub(crate) workspace: Workspace,
    pub(crate) run: RunId,
    pub(crate) templates: Arc<folio_engine::template::Templates>,
}

#[async_trait]
impl ResultSource for JournalResults {
    async fn read(&self, node: &str) -> Result<Vec<u8>, String> {
        if let Some(hash) = node.strip_prefix("blob:") {
            return self.blob(hash).await;
        }
        let (store, space) = (Arc::clone(self.workspace.store()), self.workspace.space().clone());
        let mut watch = Watch::with_templates(store, space, self.run, Arc::clone(&self.templates));
        watch.catch_up().await.map_err(|error| error.to_string())?;
        let run = watch.run();
        let view = run.node_named(node);
        let view = view.ok_or_else(|| format!("there is no node {node:?} in this run"))?;
        let result = view.result.ok_or_else(|| format!("{node} has no result yet"))?;
        match &result.output {
            Output::Inline(inline) => Ok(as_text(&inline.value()).into_bytes()),
            Output::Blob { hash, .. } => self.blob(hash).await,
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

impl JournalResults {
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

/// A text as it is, anything else as indented JSON.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
    }
}
