//! What later steps read of the output of a task: whoever does the task is told it, and asked again if a list is
//! missing that a step is done for (E9.1).

use std::fmt::Write as _;

use serde_json::Value;

use crate::plan::{OutputReads, not_lists, output_reads};
use crate::run::state::Run;
use crate::run::tree::NodeKind;

/// The most paths that are told.
const READS_TOLD: usize = 20;

impl Run {
    /// What the steps of the plan around node `index`, which a model does, read of its output.
    fn output_reads(&self, index: usize) -> OutputReads {
        let node = &self.nodes[index];
        let Some(frame) = node.frame.filter(|_| node.kind == NodeKind::Model) else {
            return OutputReads::new();
        };
        let frame = &self.frames[frame];
        let at = frame.nodes.iter().position(|node| *node == index);
        // Most outputs are read by no template, and a plan may have a thousand steps.
        let Some(read) = at.map(|at| &frame.graph.nodes[at]).filter(|node| node.needed) else {
            return OutputReads::new();
        };
        // Steps inside others have frames of their own, and groups contain no templates.
        output_reads(frame.graph.nodes.iter().map(|node| &node.step), &read.slug)
    }

    /// Adds what later steps read of the output of node `index`.
    pub(super) fn put_readers(&self, text: &mut String, index: usize) {
        let reads = self.output_reads(index);
        if reads.is_empty() {
            return;
        }
        let told = reads.iter().take(READS_TOLD).map(|(path, is_list)| match is_list {
            true => format!("{path} (a list)"),
            false => path.clone(),
        });
        let _ = writeln!(text, "Later steps read: {}", told.collect::<Vec<_>>().join(", "));
    }

    /// The mistakes of an `output` of node `index` that lacks lists that later steps are done for. A person answers in
    /// plain words.
    pub(super) fn unread_lists(&self, index: usize, output: &Value) -> Vec<String> {
        if self.is_for_person_at(index) {
            return Vec::new();
        }
        let mistake = |path: &str| format!("{path} must be a list: a later step is done for each of its items");
        let reads = self.output_reads(index);
        not_lists(&reads, output).into_iter().map(mistake).collect()
    }
}
