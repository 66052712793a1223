//! Another run that begins at a moment of one: the journal up to there, told anew with the ids of the new run.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use folio_memory::{RunId, Timestamp};

use super::state::{JournalError, Run};
use crate::event::Event;
use crate::node::NodeId;
use crate::result::StopReason;
use crate::template::Templates;

/// The moment of a run at which another begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkAt {
    /// Before this node began.
    Node(NodeId),
    /// Before a limit stopped anything: whoever raises it goes on from there (E9.10).
    Limit,
}

/// The node of the run `source` that `event` ends, or has come to an end, because of a limit.
fn stopped_by_limit(source: RunId, event: &Event) -> Option<NodeId> {
    match event {
        Event::CancelRequested { node, by } if by == Run::DEADLINE => Some(node.unwrap_or(NodeId::root(source))),
        Event::Spent { node, reason } if reason.is_limit() => Some(*node),
        Event::Proposed { node, proposal } if proposal.stop_reason.is_some_and(StopReason::is_limit) => Some(*node),
        Event::Checked {
            node,
            limit: Some(reason),
            ..
        } if reason.is_limit() => Some(*node),
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

/// Goes through the journal of a run, event by event, for the moment at which another one is to begin. Has no more of it in memory than
/// the run as it was then.
#[derive(Debug)]
pub struct Search {
    at: ForkAt,
    /// The run before the next event, or, once that is behind the moment, at the moment.
    run: Run,
    /// Events that were gone through, and how many of them the run has.
    passed: usize,
    folded: usize,
    found: Option<Found>,
    /// Where something was asked to stop, and what; the run as a whole if nothing is said.
    stops: Vec<(usize, Option<NodeId>)>,
    /// The events by which what has not ended was last begun.
    begun: HashMap<NodeId, Vec<usize>>,
}

/// Where the moment is.
#[derive(Debug)]
struct Found {
    /// The first event that the other run does not have.
    cut: usize,
    path: String,
}

/// What came of going through a journal.
#[derive(Debug)]
pub enum Searched {
    /// There is such a moment.
    Found(Box<Moment>),
    /// It is earlier than what led to it: the journal is to be gone through once more, with this.
    Earlier(Box<Search>),
}

/// A moment of a run, and what another one that begins there has to know.
#[derive(Debug)]
pub struct Moment {
    /// The run as it was then.
    pub run: Run,
    /// The path of the node that is done anew.
    pub path: String,
    /// How many events it has.
    cut: usize,
    /// Which of them began what was under way.
    unfinished: HashSet<usize>,
}

impl Search {
    /// Looks for `at` in the journal of `source`, of which nothing has been read yet.
    #[must_use]
    pub fn new(source: RunId, at: ForkAt, templates: &Arc<Templates>) -> Self {
        let is_root = at == ForkAt::Node(NodeId::root(source));
        let found = is_root.then(|| Found {
            cut: 1,
            path: String::new(),
        });
        Self::with(Run::new(source, Arc::clone(templates)), at, found)
    }

    fn with(run: Run, at: ForkAt, found: Option<Found>) -> Self {
        Self {
            at,
            run,
            passed: 0,
            folded: 0,
            found,
            stops: Vec::new(),
            begun: HashMap::new(),
        }
    }

    /// Takes in the next event of the journal; whether the moment was before it.
    ///
    /// # Errors
    ///
    /// The journal cannot be folded.
    pub fn take(&mut self, at: Timestamp, event: &Event) -> Result<bool, JournalError> {
        let position = self.passed;
        self.passed += 1;
        if self.found.is_none() {
            self.found = self.looked_at(position, event);
        }
        if self.found.as_ref().is_some_and(|found| found.cut <= position) {
            Run::expect_known(event)?;
            return Ok(true);
        }
        self.run.apply(at, event)?;
        self.folded = self.passed;
        match event {
            Event::CancelRequested { node, .. } => self.stops.push((position, *node)),
            Event::Started { node, .. }
            | Event::Asked { node, .. }
            | Event::Compacting { node, .. }
            | Event::Checked {
                node, begins: Some(_), ..
            } => {
                self.begun.insert(*node, vec![position]);
            }
            Event::SessionBegan { node, .. } => {
                if let Some(begun) = self.begun.get_mut(node).filter(|begun| begun.len() == 1) {
                    begun.push(position);
                }
            }
            Event::Finished { node, .. } => drop(self.begun.remove(node)),
            _ => {}
        }
        Ok(false)
    }

    /// Where the moment is, if `event`, the one at `position`, tells.
    fn looked_at(&self, position: usize, event: &Event) -> Option<Found> {
        let (cut, node) = match self.at {
            ForkAt::Node(node) if event.node() != Some(node) => return None,
            // It was stopped before it began: whoever does it has to come before that.
            ForkAt::Node(node) if matches!(event, Event::Finished { .. }) => {
                (self.stopping(node).unwrap_or(position), node)
            }
            ForkAt::Node(node) => (position, node),
            ForkAt::Limit => (position, stopped_by_limit(self.run.id(), event)?),
        };
        let path = self.path_of(node).unwrap_or_default();
        Some(Found { cut, path })
    }

    /// Where it was asked to stop `node`, or something around it.
    fn stopping(&self, node: NodeId) -> Option<usize> {
        let around = |inner: &NodeId| self.run.node(*inner).and_then(|view| view.parent);
        let inside: Vec<NodeId> = std::iter::successors(Some(node), around).collect();
        let stops = |stopped: &Option<NodeId>| stopped.is_none_or(|stopped| inside.contains(&stopped));
        self.stops
            .iter()
            .find(|(_, stopped)| stops(stopped))
            .map(|(position, _)| *position)
    }

    fn path_of(&self, node: NodeId) -> Option<String> {
        self.run.node(node).map(|view| view.path.to_owned())
    }

    /// Whether the moment turned out to be earlier than what was gone through: the rest of the journal need not be.
    #[must_use]
    pub fn is_too_far(&self) -> bool {
        self.found.as_ref().is_some_and(|found| found.cut < self.folded)
    }

    /// What came of it, when all of the journal was taken in, or it is too far.
    ///
    /// # Errors
    ///
    /// That there is no such moment, or no journal.
    pub fn end(self) -> Result<Searched, ForkError> {
        if self.passed == 0 {
            return Err(JournalError::Start.into());
        }
        let is_too_far = self.is_too_far();
        let Some(found) = self.found else {
            return Err(match self.at {
                ForkAt::Node(node) => ForkError::NotBegun {
                    part: self.path_of(node).unwrap_or_else(|| node.to_string()),
                },
                ForkAt::Limit => ForkError::Unlimited,
            });
        };
        let run = self.run;
        if is_too_far {
            let again = Self::with(Run::new(run.id(), Arc::clone(&run.templates)), self.at, Some(found));
            return Ok(Searched::Earlier(Box::new(again)));
        }
        // Whoever goes on begins it anew.
        let mut begun = self.begun;
        let under_way = run.in_flight().into_iter();
        let unfinished = under_way.filter_map(|node| begun.remove(&node)).flatten().collect();
        Ok(Searched::Found(Box::new(Moment {
            run,
            path: found.path,
            cut: found.cut,
            unfinished,
        })))
    }
}

/// A run that begins at a moment of another one, while that one's journal up to there is told anew, event by event.
///
/// What was under way at that moment has not begun in it. Node ids follow from the run, so those of the source are replaced by those of
/// the new run wherever they stand, and so is its own id, as in the path of its folder; nodes are made in the same order in both.
#[derive(Debug)]
pub struct Forking {
    run: Run,
    first: Option<Event>,
    now: Timestamp,
    names: Names,
    passed: usize,
    cut: usize,
    unfinished: HashSet<usize>,
}

impl Forking {
    /// The run `id` that begins at `moment`, now; `first` is its first event.
    #[must_use]
    pub fn new(moment: Moment, id: RunId, first: Event, now: Timestamp) -> Self {
        let source = moment.run;
        Self {
            names: Names::of(&source, id),
            run: Run::new(id, Arc::clone(&source.templates)),
            first: Some(first),
            now,
            passed: 0,
            cut: moment.cut,
            unfinished: moment.unfinished,
        }
    }

    /// The new run as far as it was told.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The new run, of which all was told.
    #[must_use]
    pub fn into_run(self) -> Run {
        self.run
    }

    /// Whether all of it was told.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.passed >= self.cut
    }

    /// Takes in the next event of the source, from the first one, which happened at `at`: the event that the new run has for it. What that
    /// writes into its pages is to be asked of the new run before it takes in more.
    ///
    /// # Errors
    ///
    /// The journal cannot be folded.
    pub fn tell(&mut self, at: Timestamp, event: &Event) -> Result<Option<Event>, JournalError> {
        if self.is_over() {
            return Ok(None);
        }
        let position = self.passed;
        self.passed += 1;
        if self.unfinished.contains(&position) {
            return Ok(None);
        }
        let told = match self.first.take() {
            Some(first) => first,
            None => self.names.told(event, self.now.since(at))?,
        };
        self.add(&told)?;
        Ok(Some(told))
    }

    /// Adds an event of its own, behind those of the source.
    ///
    /// # Errors
    ///
    /// It cannot happen then.
    pub fn add(&mut self, event: &Event) -> Result<(), JournalError> {
        self.run.apply(self.now, event)?;
        self.names.learn(&self.run);
        Ok(())
    }
}

/// Which node of the new run each of the old one is.
#[derive(Debug)]
struct Names {
    runs: [String; 2],
    /// Those of the old run, in the order in which they were made.
    old: std::vec::IntoIter<NodeId>,
    known: HashMap<NodeId, NodeId>,
}

impl Names {
    fn of(old: &Run, new: RunId) -> Self {
        let nodes: Vec<NodeId> = old.nodes.iter().map(|node| node.id).collect();
        Self {
            runs: [old.id().to_string(), new.to_string()],
            old: nodes.into_iter(),
            known: HashMap::new(),
        }
    }

    /// Takes in the nodes that `new` has got.
    fn learn(&mut self, new: &Run) {
        let made = new.nodes.iter().skip(self.known.len());
        self.known
            .extend(self.old.by_ref().take(made.len()).zip(made.map(|node| node.id)));
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

    /// The name in the new run of the node whose id is written `word` in the old one.
    fn new_name(&self, word: &str) -> Option<String> {
        if word.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        self.known.get(&word.parse().ok()?).map(NodeId::to_string)
    }

    fn renamed(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(begin) = rest.find(|c: char| c.is_ascii_hexdigit()) {
            let (before, word) = rest.split_at(begin);
            out.push_str(before);
            let end = word.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(word.len());
            let (word, after) = word.split_at(end);
            match self.new_name(word) {
                Some(new) => out.push_str(&new),
                None => out.push_str(word),
            }
            rest = after;
        }
        out.push_str(rest);
        let [old, new] = &self.runs;
        if out.contains(old) { out.replace(old, new) } else { out }
    }
}
