//! A fork: a run that begins at a moment of another one, with its journal up to there rewritten for the ids of the new
//! run.

mod copies;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use folio_memory::{RunId, Timestamp};

use self::copies::PageMap;
use super::limit_met::{LimitKind, limit_of_rule};
use super::state::{JournalError, Run};
use super::tree::{Cancel, NodeKind};
use crate::event::Event;
use crate::node::NodeId;
use crate::result::{Outcome, StopReason};
use crate::template::Templates;

/// The moment of a run at which a fork begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForkAt {
    /// Before this node began.
    Node(NodeId),
    /// Before a limit that can be raised stopped anything, or took a plan away: a fork with a higher limit continues from there (E9.10).
    Limit,
    /// The same, before a limit of one of these kinds: the fork keeps what was done after the others.
    LimitOf(Vec<LimitKind>),
}

/// The node of the run `source` that `event` ends, or starts to end, or does without a plan, because of a limit.
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
        Event::Decided { node, by, .. } if limit_of_rule(by).is_some() => Some(*node),
        _ => None,
    }
}

/// Why a run cannot be forked there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The node has not begun, so there is no such moment.
    #[error("{part} has not begun in that run")]
    NotBegun {
        /// The path of the node, or its id if the path is not known.
        part: String,
    },
    /// The node was not done anew, so a fork would not do it either: it has the result of a node of an earlier version
    /// of the plan.
    #[error("{part} was not done anew: node {earlier} did it for an earlier version of the plan")]
    TakenOver {
        /// The path of the node.
        part: String,
        /// The node that did it.
        earlier: NodeId,
    },
    /// No limit was reached, so there is no such moment.
    #[error("no limit stopped anything in that run")]
    Unlimited,
    /// The journal cannot be folded.
    #[error("the journal cannot be read")]
    Journal(#[from] JournalError),
}

impl ForkError {
    /// A stable code, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotBegun { .. } | Self::TakenOver { .. } | Self::Unlimited => "fork_unusable",
            Self::Journal(error) => error.code(),
        }
    }
}

/// Searches the journal of a run, event by event, for the moment at which a fork begins. Holds no more of it in memory
/// than the run as it was at that moment.
#[derive(Debug)]
pub struct ForkSearch {
    at: ForkAt,
    /// The run before the next event, or at the moment, once the search has passed it.
    run: Run,
    /// The number of events that were read, and how many of them were folded into the run.
    passed: usize,
    folded: usize,
    found: Option<Found>,
    /// The first limit that stopped something and that the fork does not raise: the moment, if there is no other.
    found_otherwise: Option<Found>,
    /// The positions of requests to stop, each with the node; `None` for the whole run.
    stops: Vec<(usize, Option<NodeId>)>,
    /// The position at which each node began: see [`Self::note_beginning`].
    first: HashMap<NodeId, usize>,
    /// The positions of the events that only opened nodes.
    opened: HashMap<NodeId, usize>,
    /// The position of the last event that did more than open or begin something.
    last_work: usize,
    /// For each node that began no more of its children after one of them failed, the first event of that one.
    failed: HashMap<NodeId, usize>,
    /// The events with which nodes that have not ended last began.
    begun: HashMap<NodeId, Vec<usize>>,
}

/// The position of the moment.
#[derive(Debug)]
struct Found {
    /// The first event that the fork does not have.
    cut: usize,
    path: String,
}

/// The outcome of searching a journal.
#[derive(Debug)]
pub enum ForkSearchOutcome {
    /// The moment was found.
    Found(Box<Moment>),
    /// The moment is earlier than the events already folded: search the journal once more with this.
    Earlier(Box<ForkSearch>),
}

/// A moment of a run, and what a fork that begins there needs to know.
#[derive(Debug)]
pub struct Moment {
    /// The run as it was at that moment.
    pub run: Run,
    /// The path of the node that is done anew.
    pub path: String,
    /// The number of its events.
    cut: usize,
    /// The positions of the events that began what was under way.
    unfinished: HashSet<usize>,
}

impl ForkSearch {
    /// Begins a search for `at` in the journal of `source`, before its first event.
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
            found_otherwise: None,
            stops: Vec::new(),
            first: HashMap::new(),
            opened: HashMap::new(),
            last_work: 0,
            failed: HashMap::new(),
            begun: HashMap::new(),
        }
    }

    /// Takes in the next event of the journal. Returns whether the moment was before it.
    ///
    /// # Errors
    ///
    /// If the journal cannot be folded.
    pub fn take(&mut self, at: Timestamp, event: &Event) -> Result<bool, JournalError> {
        let position = self.passed;
        self.passed += 1;
        self.note_beginning(position, event);
        if self.found.is_none() {
            self.found = self.find_moment(position, event);
        }
        if self.found.as_ref().is_some_and(|found| found.cut <= position) {
            Run::expect_known(event)?;
            return Ok(true);
        }
        self.run.apply(at, event)?;
        self.folded = self.passed;
        self.note_failure(event);
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
                if let Some(positions) = self.begun.get_mut(node).filter(|positions| positions.len() == 1) {
                    positions.push(position);
                }
            }
            Event::Finished { node, .. } => drop(self.begun.remove(node)),
            _ => {}
        }
        Ok(false)
    }

    /// Notes where the node of `event`, the one at `position`, and the nodes around it began: with their first event, or
    /// the first one of something in them. Many parts may be opened at once, such as all items of a list, long before
    /// there is room for them; the event that opened one counts only if nothing was done before the part began.
    fn note_beginning(&mut self, position: usize, event: &Event) {
        let Some(node) = event.node() else {
            self.last_work = position;
            return;
        };
        let is_expanded = matches!(event, Event::Expanded { .. });
        let mut at = self.run.index(node).ok();
        // A list is made when it is opened.
        if is_expanded && at.is_some_and(|index| self.run.nodes[index].kind != NodeKind::ForEach) {
            self.opened.entry(node).or_insert(position);
            return;
        }
        while let Some(index) = at {
            let around = &self.run.nodes[index];
            if self.first.contains_key(&around.id) {
                break;
            }
            self.first
                .insert(around.id, self.position_of_beginning(around.id, position));
            at = around.parent;
        }
        if !is_expanded && !matches!(event, Event::Started { .. }) {
            self.last_work = position;
        }
    }

    /// Where `node` began, in which nothing happened before the event at `position`.
    fn position_of_beginning(&self, node: NodeId, position: usize) -> usize {
        let opened = self.opened.get(&node).copied();
        opened.filter(|opened| self.last_work < *opened).unwrap_or(position)
    }

    /// The position of the moment, if `event`, the one at `position`, reveals it.
    fn find_moment(&mut self, position: usize, event: &Event) -> Option<Found> {
        match &self.at {
            ForkAt::Node(node) => {
                let began = *self.first.get(node)?;
                // It was stopped or skipped before anything in it began: to do it, the fork has to begin before the
                // stop, or before the step that failed.
                let ended = event.node().filter(|_| matches!(event, Event::Finished { .. }));
                let stopped = ended.and_then(|ended| {
                    self.stop_position(ended)
                        .or_else(|| self.failure_position(ended, event))
                });
                Some(self.moment_at(stopped.unwrap_or(began), *node))
            }
            ForkAt::Limit | ForkAt::LimitOf(_) => {
                let node = stopped_by_limit(self.run.id(), event)?;
                let met = self.run.limits_of(event).map_or(Vec::new(), |(_, met)| met);
                let found = self.moment_at(position, node);
                if met.iter().any(|(_, kind)| self.is_raised(*kind)) {
                    return Some(found);
                }
                self.found_otherwise.get_or_insert(found);
                None
            }
        }
    }

    /// Whether the fork raises limits of `kind`.
    fn is_raised(&self, kind: LimitKind) -> bool {
        match &self.at {
            ForkAt::LimitOf(kinds) => kinds.contains(&kind),
            ForkAt::Limit | ForkAt::Node(_) => true,
        }
    }

    fn moment_at(&self, cut: usize, node: NodeId) -> Found {
        let path = self.path_of(node).unwrap_or_default();
        Found { cut, path }
    }

    /// The position of the request to stop `node` or something around it.
    fn stop_position(&self, node: NodeId) -> Option<usize> {
        let parent_of = |inner: &NodeId| self.run.node(*inner).and_then(|view| view.parent);
        let inside: Vec<NodeId> = std::iter::successors(Some(node), parent_of).collect();
        let stops_node = |stopped: &Option<NodeId>| stopped.is_none_or(|stopped| inside.contains(&stopped));
        self.stops
            .iter()
            .find(|(_, stopped)| stops_node(stopped))
            .map(|(position, _)| *position)
    }

    /// Notes which failure kept the steps beside it from beginning.
    fn note_failure(&mut self, event: &Event) {
        let (node, result) = match event {
            Event::Finished { node, result } if result.status == Outcome::Failed => (node, result),
            // What failed in the version before holds back nothing in this one.
            Event::Planned { node, .. } | Event::PlanEdited { node, .. } => {
                self.failed.remove(node);
                return;
            }
            _ => return,
        };
        let Ok(failed) = self.run.index(*node) else { return };
        let parent = self.run.nodes[failed].parent;
        let holds = |container: usize| {
            let at = &self.run.nodes[container];
            at.halted
                || at
                    .children
                    .iter()
                    .any(|child| self.run.nodes[*child].cancel == Some(Cancel::ByParent))
        };
        // A group that failed as a whole may have members that never began.
        let is_group = !self.run.nodes[failed].children.is_empty();
        let containers = [
            is_group.then_some(failed),
            parent.filter(|parent| result.is_hard() && holds(*parent)),
        ];
        let failing = parent.filter(|parent| result.is_hard() && self.run.failing.contains(parent));
        let around = failing.map(|group| self.run.held_around(group)).unwrap_or_default();
        let first = self.first.get(node).copied().unwrap_or_default();
        for container in containers.into_iter().flatten().chain(around) {
            let id = self.run.nodes[container].id;
            self.failed.entry(id).or_insert(first);
        }
    }

    /// The position before the failure because of which `node` ended with `event` before it began.
    fn failure_position(&self, node: NodeId, event: &Event) -> Option<usize> {
        let Event::Finished { result, .. } = event else {
            return None;
        };
        let index = self.run.index(node).ok()?;
        let failure_in = |at: usize| self.failed.get(&self.run.nodes[at].id).copied();
        let is_stopped = |at: &usize| self.run.nodes[*at].cancel == Some(Cancel::ByParent);
        let around = self.run.self_and_ancestors(index);
        if result.stop_reason == Some(StopReason::UpstreamFailed) {
            return around.skip(1).find_map(failure_in);
        }
        // The losers of a race are stopped in the same way, without a failure.
        let outermost = is_stopped(&index).then(|| around.take_while(is_stopped).last());
        failure_in(self.run.nodes[outermost.flatten()?].parent?)
    }

    fn path_of(&self, node: NodeId) -> Option<String> {
        self.run.node(node).map(|view| view.path.to_owned())
    }

    /// Whether the moment turned out to be earlier than the events folded so far: the rest of the journal need not be
    /// read.
    #[must_use]
    pub fn is_too_far(&self) -> bool {
        self.found.as_ref().is_some_and(|found| found.cut < self.folded)
    }

    /// The moment if no event revealed it: the first limit of any kind; or the end, if the node was only opened.
    fn moment_of_rest(&mut self) -> Option<Found> {
        match self.at {
            ForkAt::Limit | ForkAt::LimitOf(_) => self.found_otherwise.take(),
            ForkAt::Node(node) => {
                let is_opened = self.opened.contains_key(&node);
                is_opened.then(|| self.moment_at(self.position_of_beginning(node, self.passed), node))
            }
        }
    }

    /// The outcome, once the whole journal was taken in or the search went too far.
    ///
    /// # Errors
    ///
    /// If there is no such moment, or the journal is empty.
    pub fn end(mut self) -> Result<ForkSearchOutcome, ForkError> {
        if self.passed == 0 {
            return Err(JournalError::Start.into());
        }
        if self.found.is_none() {
            self.found = self.moment_of_rest();
        }
        let is_too_far = self.is_too_far();
        let Some(found) = self.found else {
            return Err(match self.at {
                ForkAt::Node(node) => ForkError::NotBegun {
                    part: self.path_of(node).unwrap_or_else(|| node.to_string()),
                },
                ForkAt::Limit | ForkAt::LimitOf(_) => ForkError::Unlimited,
            });
        };
        let run = self.run;
        if is_too_far {
            let again = Self::with(Run::new(run.id(), Arc::clone(&run.templates)), self.at, Some(found));
            return Ok(ForkSearchOutcome::Earlier(Box::new(again)));
        }
        if let ForkAt::Node(node) = self.at
            && let Some(earlier) = run.took_over(node)
        {
            let part = found.path;
            return Err(ForkError::TakenOver { part, earlier });
        }
        // A fork begins what was under way anew.
        let mut positions = self.begun;
        let under_way = run.in_flight().into_iter();
        let unfinished = under_way.filter_map(|node| positions.remove(&node)).flatten().collect();
        Ok(ForkSearchOutcome::Found(Box::new(Moment {
            run,
            path: found.path,
            cut: found.cut,
            unfinished,
        })))
    }
}

/// Builds a fork while the journal of its source, up to the moment, is rewritten event by event.
///
/// What was under way at that moment has not begun in the fork. Node ids derive from the run, so those of the source
/// are replaced by those of the new run wherever they occur, and so is the run's own id, such as in the path of its
/// folder. Nodes are created in the same order in both.
#[derive(Debug)]
pub struct ForkBuilder {
    source: RunId,
    run: Run,
    first: Option<Event>,
    now: Timestamp,
    names: NodeIdMap,
    pages: PageMap,
    passed: usize,
    cut: usize,
    unfinished: HashSet<usize>,
}

impl ForkBuilder {
    /// The run `id` that begins at `moment`, now; `first` is its first event.
    #[must_use]
    pub fn new(moment: Moment, id: RunId, first: Event, now: Timestamp) -> Self {
        let source = moment.run;
        Self {
            source: source.id(),
            names: NodeIdMap::of(&source, id),
            pages: PageMap::of(source.id(), id),
            run: Run::new(id, Arc::clone(&source.templates)),
            first: Some(first),
            now,
            passed: 0,
            cut: moment.cut,
            unfinished: moment.unfinished,
        }
    }

    /// The new run, as far as it was rebuilt.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The new run, once it is complete.
    #[must_use]
    pub fn into_run(self) -> Run {
        self.run
    }

    /// Whether nothing of the source was taken in yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.passed == 0
    }

    /// Whether the new run is complete.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.passed >= self.cut
    }

    /// Takes in the next event of the source, starting with the first, which happened at `at`, and returns the new
    /// run's event for it. Query what that event writes on the run's pages before taking in more.
    ///
    /// # Errors
    ///
    /// If the journal cannot be folded.
    pub fn rewrite_event(&mut self, at: Timestamp, event: &Event) -> Result<Option<Event>, JournalError> {
        if self.is_over() {
            return Ok(None);
        }
        let position = self.passed;
        self.passed += 1;
        if self.unfinished.contains(&position) {
            return Ok(None);
        }
        let rewritten = match self.first.take() {
            Some(first) => first,
            None => self.names.with_new_ids(event, self.now.since(at))?,
        };
        self.add(&rewritten)?;
        Ok(Some(rewritten))
    }

    /// Adds an event of the fork itself, after those of the source.
    ///
    /// # Errors
    ///
    /// If the event is not allowed then.
    pub fn add(&mut self, event: &Event) -> Result<(), JournalError> {
        self.run.apply(self.now, event)?;
        self.names.learn(&self.run);
        Ok(())
    }
}

/// Maps the nodes of the old run to those of the new one.
#[derive(Debug)]
struct NodeIdMap {
    runs: [String; 2],
    /// The nodes of the old run, in the order in which they were created, which is that of the new one.
    old: Vec<NodeId>,
    known: HashMap<NodeId, NodeId>,
}

impl NodeIdMap {
    fn of(old: &Run, new: RunId) -> Self {
        Self {
            runs: [old.id().to_string(), new.to_string()],
            old: old.nodes.iter().map(|node| node.id).collect(),
            known: HashMap::new(),
        }
    }

    /// Takes in the nodes that `new` has created.
    fn learn(&mut self, new: &Run) {
        let learnt = self.known.len();
        let created = self.old.iter().copied().zip(new.nodes.iter().map(|node| node.id));
        self.known.extend(created.skip(learnt));
    }

    /// `event`, which happens `delay` later than in the source, with the new ids wherever an old one occurs: in its
    /// fields, in evidence, in what a model said.
    fn with_new_ids(&self, event: &Event, delay: Duration) -> Result<Event, JournalError> {
        let unreadable = |error: serde_json::Error| JournalError::Plan(error.to_string());
        let text = serde_json::to_string(event).map_err(unreadable)?;
        let mut rewritten: Event = serde_json::from_str(&self.renamed(&text)).map_err(unreadable)?;
        // The time of a fork counts from its own beginning.
        if let Event::Resumed { uncounted_us, .. } = &mut rewritten {
            *uncounted_us = 0;
        }
        // The new run has its own deadline.
        if let Event::LimitsChanged { limits, .. } = &mut rewritten {
            limits.deadline = None;
        }
        // Whoever is asked has as much time as in the source.
        if let Event::Questioned { question, .. } = &mut rewritten {
            question.deadline = question.deadline.map(|deadline| deadline.plus(delay));
        }
        if let Event::SessionBegan { session, .. } = &mut rewritten {
            session.clear();
        }
        Ok(rewritten)
    }

    /// The id in the new run of the node whose id in the old run is `word`.
    fn new_name(&self, word: &str) -> Option<String> {
        if word.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        self.known.get(&word.parse().ok()?).map(NodeId::to_string)
    }

    fn renamed(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(|c: char| c.is_ascii_hexdigit()) {
            let (before, word) = rest.split_at(start);
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
