//! What the plan wants observed of calls whose results a judge or a person checked.

use std::sync::Arc;

use folio_engine::{Event, Output, Run};

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
                let value = self
                    .bodies
                    .at_hand(&self.run, |run| run.value_of(&result.output))
                    .await?;
                result.output = Output::of(match value {
                    Some(value) => value,
                    None => Arc::new(self.bodies.read(hash).await?),
                });
            }
            let ruled = |run: &Run| ruled(run, node, &result);
            let (ruled, problems) = self.bodies.at_hand(&self.run, ruled).await?;
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
