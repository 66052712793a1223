//! What the plan wants observed of calls whose results a judge or a person checked.

use folio_engine::{Event, Output};

use super::Drive;
use crate::error::RunnerError;
use crate::memory::ruled;
use crate::perform::Writes;

impl Drive {
    /// Writes what the plan wants observed of calls whose results were judged before they were theirs (E9.6): with their ends, as of other calls.
    pub(super) async fn observe_judged(&mut self) -> Result<(), RunnerError> {
        let events = &self.ahead.batch.events;
        let ended = events[self.ahead.batch.looked_at..]
            .iter()
            .filter_map(|event| match event {
                Event::Finished { node, result } if self.run.is_judged_call(*node) => Some((*node, result.clone())),
                _ => None,
            });
        let ended: Vec<_> = ended.collect();
        self.ahead.batch.looked_at = events.len();
        for (node, mut result) in ended {
            if let Output::Blob { hash, .. } = &result.output {
                let brought = self.ahead.batch.blobs.iter().find(|blob| blob.hash().0 == *hash);
                let value = match brought {
                    Some(blob) => self.value_of(hash, blob.bytes())?,
                    None => self.body(&hash.clone()).await?,
                };
                result.output = Output::of(value);
            }
            let (ruled, problems) = ruled(&self.run, node, &result);
            let call = self.run.node(node).map_or("", |view| view.call);
            let writes = Writes {
                tool: call.split(' ').next().unwrap_or_default().to_owned(),
                ..Writes::default()
            };
            let taken = self.memory.take_in(&self.run, node, writes, ruled, problems);
            self.ahead.batch.writes_memory |= !taken.changes.is_empty();
            self.ahead.batch.changes.extend(taken.changes);
            self.ahead.batch.notes.extend(taken.notes);
        }
        Ok(())
    }
}
