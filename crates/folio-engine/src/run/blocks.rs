//! The blocks in the log of a task, and their names: events that can happen to a task repeatedly are counted, so that
//! no two blocks have the same name.

use super::Run;
use crate::event::Event;
use crate::node::NodeId;

impl Run {
    /// How often a model or a person was asked to do something for `node`.
    pub(crate) fn times_asked(&self, node: NodeId) -> u32 {
        self.node(node).map_or(0, |view| view.model_calls) + self.times_handed(node)
    }

    /// The name of the block about `event`, which was just applied; `None` if it has no block, or one that cannot occur
    /// twice.
    pub(crate) fn block_of(&self, event: &Event) -> Option<String> {
        let (node, name) = self.kind_of_block(event)?;
        let count = self.blocks_called(node, &name)?;
        Some(numbered(name, count))
    }

    /// The name for the block about an answer to the question of `node` that is about to be applied.
    pub(super) fn next_answer(&self, node: NodeId) -> String {
        let name = self.answer_to(node);
        let count = self.blocks_called(node, &name).unwrap_or_default();
        numbered(name, count + 1)
    }

    fn blocks_called(&self, node: NodeId, name: &str) -> Option<usize> {
        let index = self.index(node).ok()?;
        let names = self.blocks.get(&index).into_iter().flatten();
        Some(names.filter(|block| *block == name).count())
    }

    /// The common part of the names of blocks about answers to questions of `node`. If a person checks several
    /// criteria, each one has an answer.
    fn answer_to(&self, node: NodeId) -> String {
        let ask_count = self.times_asked(node);
        match self.verdicts_on(node) {
            0 => format!("answered/{ask_count}"),
            verdicts => format!("answered/{ask_count}/{verdicts}"),
        }
    }

    /// Counts the block about `event`, which was just applied. For nodes that have ended, no more blocks are written.
    pub(super) fn count_block(&mut self, event: &Event) {
        if let Event::Finished { node, .. } = event {
            if let Ok(index) = self.index(*node) {
                self.blocks.remove(&index);
            }
        } else if let Some((node, name)) = self.kind_of_block(event)
            && let Ok(index) = self.index(node)
        {
            self.blocks.entry(index).or_default().push(name);
        }
    }

    /// The common part of the names of blocks that only a number tells apart. Between two calls of a model there may be
    /// several answers of people and several rounds of verdicts, and a limit that was raised may be reached again.
    fn kind_of_block(&self, event: &Event) -> Option<(NodeId, String)> {
        let node = event.node()?;
        let ask_count = || self.times_asked(node);
        let name = match event {
            Event::PassedOn { .. } => format!("passed-on/{}", ask_count()),
            Event::Rejected { problems, .. } => format!("rejected/{}/{}", ask_count(), problems.len()),
            Event::Checked { verdicts, .. } => format!("checked/{}/{}", ask_count(), verdicts.len()),
            Event::SentBack { .. } => format!("sent-back/{}", ask_count()),
            Event::Spent { reason, .. } => format!("spent/{reason}"),
            Event::Questioned { question, .. } => match question.criterion() {
                None => format!("question/{}", ask_count()),
                Some(criterion) => format!("question/{}/{criterion}", ask_count()),
            },
            Event::Answered { .. } => self.answer_to(node),
            _ => return None,
        };
        Some((node, name))
    }
}

/// `name` with the number of the block, if it is not the first with that name.
fn numbered(name: String, count: usize) -> String {
    match count {
        0 | 1 => name,
        times => format!("{name}/again/{times}"),
    }
}
