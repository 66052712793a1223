//! What the plan wants observed of tasks that do not end with the answer of a call.

use std::sync::Arc;

use folio_engine::run::NodeKind;
use folio_engine::{Event, Output, Run};

use super::Drive;
use crate::error::RunnerError;
use crate::memory::observations_from_rules;
use crate::perform::Writes;

impl Drive {
    /// Writes the observations that the plan wants of calls that were judged before their results were recorded (E9.6),
    /// and of tasks that have a plan or are done by a model or a person: in the commit of their ends, as for other
    /// calls.
    pub(super) async fn observe_ended(&mut self) -> Result<(), RunnerError> {
        let events = &self.pending_writes.batch.events;
        let ended = events[self.pending_writes.batch.searched_event_count..]
            .iter()
            .filter_map(|event| match event {
                Event::Finished { node, result } if self.run.is_observed_at_end(*node) => Some((*node, result.clone())),
                _ => None,
            });
        let ended: Vec<_> = ended.collect();
        self.pending_writes.batch.searched_event_count = events.len();
        for (node, mut result) in ended {
            if let Output::Blob { hash, .. } = &result.output {
                let value = self
                    .bodies
                    .with_outputs_loaded(&self.run, |run| run.value_of(&result.output))
                    .await?;
                result.output = Output::of(match value {
                    Some(value) => value,
                    None => Arc::new(self.bodies.read(hash).await?),
                });
            }
            let check_rules = |run: &Run| observations_from_rules(run, node, &result);
            let (rule_observations, problems) = self.bodies.with_outputs_loaded(&self.run, check_rules).await?;
            let call = self.run.node(node).filter(|view| view.kind == NodeKind::Call);
            let tool = call.and_then(|view| view.call.split(' ').next());
            let writes = Writes {
                tool: tool.unwrap_or_default().to_owned(),
                ..Writes::default()
            };
            let intake = self
                .memory
                .ingest_items(&self.run, node, writes, rule_observations, problems);
            self.pending_writes.batch.writes_memory |= !intake.changes.is_empty();
            self.pending_writes.batch.changes.extend(intake.changes);
            self.pending_writes.batch.notes.extend(intake.notes);
        }
        Ok(())
    }
}
