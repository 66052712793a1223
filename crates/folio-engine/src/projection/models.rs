//! What tasks that models do write to the tree of pages: decisions, plans, actions, answers, checks (seed 000).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use folio_memory::EntryId;
use folio_memory::entry::{Owner, Status};
use folio_memory::excerpt::cut;

use super::ids::notes_block;
use super::{Block, Projection, next_attempt};
use crate::event::words::messages_offloaded;
use crate::event::{Event, LeafTests, Question};
use crate::node::NodeId;
use crate::result::{Finding, Verdict};
use crate::run::{PlanMode, call_in_words};
use crate::talk::Wanted;

impl Projection<'_> {
    /// Writes `event`, if it belongs to a task that a model does.
    pub(super) fn record_model_event(&mut self, event: &Event) {
        match event {
            Event::Briefed { node, .. } => self.briefed(*node),
            Event::Planned {
                node,
                version,
                reason,
                kept,
                tests,
                awaits,
                ..
            } => {
                let reason = format!("{reason}{}", tests_in_words(tests.as_ref()));
                self.planned(*node, *version, &reason, kept.len(), *awaits);
            }
            _ => {
                if let (Some(node), Some(block)) = (event.node(), self.block_about(event)) {
                    self.log_of(node, block);
                }
            }
        }
    }

    fn briefed(&mut self, node: NodeId) {
        let Some(view) = self.run.node(node) else { return };
        // A task that has been split up is only briefed again.
        if view.parent.is_some() && self.run.children(node).is_empty() {
            self.branch(&view);
            self.patch_step(&view, Status::InProgress, None);
        }
    }

    /// The block about `event` in the branch of its node, if it has one.
    fn block_about(&self, event: &Event) -> Option<Block> {
        // An event of which there may be several for a node.
        let repeated = |owner: Owner, title: &str| {
            let id = self.run.block_of(event).unwrap_or_default();
            Block::new(owner, id, title)
        };
        Some(match event {
            Event::Compacted { node, pieces, text, .. } => {
                // This may happen more than once between two calls; the text that replaces the messages always differs.
                let text_id = EntryId::derived(&["compacted", text]);
                let id = format!("compacted/{}/{text_id}", self.calls(*node));
                Block::new(Owner::executor(), id, messages_offloaded(*pieces)).with_body(text)
            }
            Event::RollUps { node, parts, again } => {
                // A task may have several roll-ups, one on top of the other; each creates other nodes, or has fewer
                // results than the one before in the same version of the plan.
                let mut id = format!("roll-ups/{}", self.run.children(*node).len());
                if !again.is_empty() {
                    let results: u32 = parts.iter().sum();
                    let version = self.run.node(*node).map_or(0, |view| view.plan_version);
                    let _ = write!(id, "/{version}/{results}");
                }
                Block::new(Owner::planner(), id, "Roll-ups").with_body(event.in_words())
            }
            Event::AskFailed {
                call,
                failure,
                retry_at,
                ..
            } => {
                let next = retry_at.map_or("It will not be retried.".to_owned(), next_attempt);
                Block::new(Owner::executor(), format!("ask/{call}"), "The model did not answer")
                    .with_body(format!("{}\n\n{next}", failure.message))
            }
            Event::PassedOn { reason, .. } => {
                repeated(Owner::executor(), "Switched to the next model").with_body(reason)
            }
            Event::Rejected { problems, .. } => {
                repeated(Owner::planner(), "Answer rejected").with_lines("results", &shortened(problems))
            }
            // If plans are switched off, nothing was decided.
            Event::Decided { by, .. } if by == PlanMode::Never.as_str() => return None,
            Event::Decided {
                by,
                reason,
                tests,
                executor,
                ..
            } => decision(by, reason, tests.as_ref(), executor.as_deref()),
            Event::Proposed { node, proposal } => {
                let notes = proposal.whole_notes.as_ref()?;
                Block::new(Owner::executor(), notes_block(self.calls(*node)), "Notes").with_body(notes)
            }
            Event::Wants { node, calls, refused } => {
                let id = format!("wants/{}", self.calls(*node));
                Block::new(Owner::executor(), id, "Actions").with_lines("actions", &requested(calls, refused))
            }
            Event::Checked { verdicts, .. } if !verdicts.is_empty() => {
                let lines: Vec<String> = verdicts.iter().map(verdict_line).collect();
                repeated(Owner::planner(), "Criteria").with_lines("results", &shortened(&lines))
            }
            Event::SentBack { gaps, .. } => {
                repeated(Owner::planner(), "Sent back").with_lines("remaining", &shortened(gaps))
            }
            Event::Spent { reason, .. } => repeated(Owner::planner(), &format!("Limit reached: {reason}"))
                .with_body("No more calls are started; the results so far are handed back."),
            Event::Questioned { question, .. } => {
                repeated(Owner::executor(), "Question").with_lines("questions", &question_lines(question))
            }
            Event::Answered { answer, by, .. } => repeated(Owner::user(), &format!("Answer by {by}")).with_body(answer),
            _ => return None,
        })
    }

    /// How often a model or a person was asked to do something for `node`.
    fn calls(&self, node: NodeId) -> u32 {
        self.run.times_asked(node)
    }
}

/// The block about a decision to do a task directly.
fn decision(by: &str, reason: &str, tests: Option<&LeafTests>, executor: Option<&str>) -> Block {
    let by = match executor {
        Some(executor) => format!(" (by {executor})"),
        None if by == "model" => String::new(),
        None => format!(" (rule: {by})"),
    };
    let title = format!("Decision: execute directly{by}");
    let body = format!("{reason}{}", tests_in_words(tests));
    Block::new(Owner::planner(), "decided", title).with_body(body.trim())
}

/// The calls that a model wanted, and why others were refused.
fn requested(calls: &[Wanted], refused: &BTreeMap<String, String>) -> Vec<String> {
    let calls = calls.iter().map(|call| call_in_words(&call.tool, &call.args));
    calls.chain(refused.values().cloned()).collect()
}

/// The first of `lines`, each cut to a length that a page can show.
fn shortened(lines: &[String]) -> Vec<String> {
    lines.iter().take(64).map(|line| cut(line, 400)).collect()
}

fn question_lines(question: &Question) -> Vec<String> {
    let options = question.options.iter().map(|option| format!("- {option}"));
    std::iter::once(question.text.clone()).chain(options).collect()
}

fn verdict_line(verdict: &Verdict) -> String {
    match &verdict.finding {
        Finding::Met => format!("{}: met", verdict.criterion),
        Finding::Unmet(gap) => format!("{}: unmet, {gap}", verdict.criterion),
        Finding::Unverifiable(why) => format!("{}: unverifiable, {why}", verdict.criterion),
    }
}

fn tests_in_words(tests: Option<&LeafTests>) -> String {
    let Some(tests) = tests else { return String::new() };
    let describe = |holds: bool, yes: &str, no: &str| if holds { yes.to_owned() } else { no.to_owned() };
    format!(
        "\n\nThe task is {}, its resources are {}, and its criteria are {}.",
        describe(tests.low_complexity, "well understood", "complex"),
        describe(tests.resources_available, "available", "not available"),
        describe(tests.criteria_testable, "testable here", "not testable here"),
    )
}
