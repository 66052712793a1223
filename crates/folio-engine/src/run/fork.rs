//! Another run that begins at a moment of one: the journal up to there, told anew with the ids of the new run.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::{Change, RunId, Timestamp};
use serde_json::Value;

use super::state::{JournalError, Run};
use crate::event::Event;
use crate::node::NodeId;
use crate::projection;
use crate::result::StopReason;
use crate::template::Templates;

/// A run that begins at a moment of another.
#[derive(Debug)]
pub struct Fork {
    /// It, as it stands.
    pub run: Run,
    /// Its journal so far.
    pub events: Vec<Event>,
    /// What its journal writes into its pages.
    pub changes: Vec<Change>,
}

/// The moment of a run at which another begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkAt {
    /// Before this node began.
    Node(NodeId),
    /// Before a limit stopped anything: whoever raises it goes on from there (E9.10).
    Limit,
}

impl ForkAt {
    /// The first event of `journal`, that of the run `source`, that the other run does not have, and the node that it is of.
    ///
    /// # Errors
    ///
    /// That there is no such moment.
    pub fn moment(self, source: RunId, journal: &[(Timestamp, Event)]) -> Result<(usize, NodeId), ForkError> {
        let found = match self {
            Self::Node(node) if node == NodeId::root(source) => Some((1, node)),
            Self::Node(node) => {
                let begins = journal.iter().position(|(_, event)| event.node() == Some(node));
                match begins {
                    // It was stopped before it began: whoever does it has to come before that.
                    Some(at) if matches!(journal[at].1, Event::Finished { .. }) => {
                        let stopped = stopping(source, &journal[..at], node)?;
                        Some((stopped.unwrap_or(at), node))
                    }
                    _ => begins.map(|at| (at, node)),
                }
            }
            Self::Limit => {
                let mut stopped = journal.iter().enumerate();
                stopped.find_map(|(at, (_, event))| Some((at, stopped_by_limit(source, event)?)))
            }
        };
        found.ok_or(match self {
            Self::Node(node) => ForkError::NotBegun { part: node.to_string() },
            Self::Limit => ForkError::Unlimited,
        })
    }
}

/// Where in `journal`, that of the run `source`, it was asked to stop `node`, or something around it.
fn stopping(source: RunId, journal: &[(Timestamp, Event)], node: NodeId) -> Result<Option<usize>, JournalError> {
    let mut run = Run::new(source, Arc::default());
    for (at, event) in journal {
        run.apply(*at, event)?;
    }
    let around = |inner: &NodeId| run.node(*inner).and_then(|view| view.parent);
    let stops: Vec<NodeId> = std::iter::successors(Some(node), around).collect();
    Ok(journal.iter().position(|(_, event)| {
        let Event::CancelRequested { node, .. } = event else {
            return false;
        };
        node.is_none_or(|stopped| stops.contains(&stopped))
    }))
}

/// The node of the run `source` that `event` ends, or has come to an end, because of a limit.
fn stopped_by_limit(source: RunId, event: &Event) -> Option<NodeId> {
    match event {
        Event::CancelRequested { node, by } if by == Run::DEADLINE => Some(node.unwrap_or(NodeId::root(source))),
        Event::Spent { node, reason } if reason.is_limit() => Some(*node),
        Event::Proposed { node, proposal } if proposal.stop_reason.is_some_and(StopReason::is_limit) => Some(*node),
        Event::Checked {
            node, limit: Some(_), ..
        } => Some(*node),
        Event::Finished { node, result } if result.stop_reason.is_some_and(StopReason::is_limit) => Some(*node),
        _ => None,
    }
}

/// Why a run cannot begin at a moment of another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// The node has not begun, so there is no such moment.
    #[error("{part} has not begun in that run")]
    NotBegun {
        /// Which node: its path, or its id where that is not known.
        part: String,
    },
    /// No limit was reached, so there is no such moment.
    #[error("no limit stopped anything in that run")]
    Unlimited,
    /// The journal cannot be folded.
    #[error("the journal cannot be read")]
    Journal(#[from] JournalError),
}

impl ForkError {
    /// A stable name, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotBegun { .. } | Self::Unlimited => "fork_unusable",
            Self::Journal(error) => error.code(),
        }
    }
}

/// The run `id` that is what `source` was at the moment `at`.
///
/// `first` is its first event; `with` are what fills in templates, and the outputs that are kept beside the journal. What was under way at that moment has not begun in it. Node ids follow from the run, so those of
/// the source are replaced by those of the new run wherever they stand, and so is its own id, as in the path of its folder; nodes are made
/// in the same order in both.
///
/// # Errors
///
/// `NotBegun`, `Unlimited`, or a journal that cannot be folded.
pub fn forked(
    source: (RunId, &[(Timestamp, Event)]),
    at: ForkAt,
    id: RunId,
    first: Event,
    now: Timestamp,
    with: (&Arc<Templates>, &[(String, Arc<Value>)]),
) -> Result<Fork, ForkError> {
    let (templates, bodies) = with;
    let (source_id, journal) = source;
    let (cut, _) = at.moment(source_id, journal)?;
    let journal = &journal[..cut.min(journal.len())];
    let mut old = Run::new(source_id, Arc::clone(templates));
    for (at, event) in journal {
        old.apply(*at, event)?;
    }
    let unfinished = begun_and_not_ended(&old, journal);
    let mut old = Run::new(source_id, Arc::clone(templates));
    let mut run = Run::new(id, Arc::clone(templates));
    for (hash, value) in bodies {
        old.supply(hash, Arc::clone(value));
        run.supply(hash, Arc::clone(value));
    }
    let mut names = Names::of(source_id, id);
    let (mut events, mut changes) = (Vec::with_capacity(journal.len()), Vec::new());
    for (position, (at, event)) in journal.iter().enumerate() {
        if unfinished.contains(&position) {
            continue;
        }
        let told = if position == 0 {
            first.clone()
        } else {
            names.told(event, now.since(*at))?
        };
        old.apply(*at, event)?;
        run.apply(now, &told)?;
        names.learn(&old, &run);
        changes.extend(projection::changes(&run, &told));
        events.push(told);
    }
    Ok(Fork { run, events, changes })
}

/// The events by which what is under way at the end began: whoever goes on begins it anew.
fn begun_and_not_ended(run: &Run, journal: &[(Timestamp, Event)]) -> Vec<usize> {
    let begins = |event: &Event, node: NodeId| {
        let is_begin = matches!(
            event,
            Event::Started { .. } | Event::Asked { .. } | Event::Compacting { .. }
        );
        is_begin && event.node() == Some(node)
    };
    let last = |node: NodeId| {
        let begun = journal.iter().rposition(|(_, event)| begins(event, node))?;
        let is_session =
            |(_, event): &(Timestamp, Event)| matches!(event, Event::SessionBegan { .. }) && event.node() == Some(node);
        let session = journal[begun..].iter().position(is_session).map(|after| begun + after);
        Some(std::iter::once(begun).chain(session))
    };
    run.in_flight().into_iter().filter_map(last).flatten().collect()
}

/// Which node of the new run each of the old one is, by their ids as they are written.
#[derive(Debug)]
struct Names {
    runs: [String; 2],
    known: HashMap<String, String>,
    learned: usize,
}

impl Names {
    fn of(old: RunId, new: RunId) -> Self {
        Self {
            runs: [old.to_string(), new.to_string()],
            known: HashMap::new(),
            learned: 0,
        }
    }

    fn learn(&mut self, old: &Run, new: &Run) {
        for (one, other) in old.nodes.iter().zip(&new.nodes).skip(self.learned) {
            self.known.insert(one.id.to_string(), other.id.to_string());
            self.learned += 1;
        }
    }

    /// `event`, which happens `later` now, with the new ids, wherever an old one stands: in its fields, in evidence, in what a model said.
    fn told(&self, event: &Event, later: Duration) -> Result<Event, JournalError> {
        let unreadable = |error: serde_json::Error| JournalError::Plan(error.to_string());
        let text = serde_json::to_string(event).map_err(unreadable)?;
        let mut told: Event = serde_json::from_str(&self.renamed(&text)).map_err(unreadable)?;
        // The new run has a time of its own.
        if let Event::LimitsChanged { limits, .. } = &mut told {
            limits.deadline = None;
        }
        // Who is asked has as long as at first.
        if let Event::Questioned { question, .. } = &mut told {
            question.deadline = question.deadline.map(|deadline| deadline.plus(later));
        }
        if let Event::SessionBegan { session, .. } = &mut told {
            session.clear();
        }
        Ok(told)
    }

    fn renamed(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(begin) = rest.find(|c: char| c.is_ascii_hexdigit()) {
            let (before, word) = rest.split_at(begin);
            out.push_str(before);
            let end = word.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(word.len());
            let (word, after) = word.split_at(end);
            out.push_str(self.known.get(word).map_or(word, String::as_str));
            rest = after;
        }
        out.push_str(rest);
        let [old, new] = &self.runs;
        if out.contains(old) { out.replace(old, new) } else { out }
    }
}
