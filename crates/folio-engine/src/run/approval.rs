//! What waits for a person's approval: plans and calls (E9.14), and which calls do. Approving and rejecting are events
//! that no call by a model can cause.

use std::fmt;
use std::sync::Arc;

use folio_memory::canonical::canonical;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::action::CallAction;
use super::agent::AskAction;
use super::state::{JournalError, Run};
use super::tree::Node;
use crate::event::{Always, Approval, Event, Question};
use crate::node::{Move, NodeId, NodeState};
use crate::result::{NodeResult, StopReason};
use crate::talk::Purpose;

/// Which approval a call has to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredApproval {
    /// None: the call needs no approval.
    Nothing,
    /// An approval of this call, or of all calls of its tool.
    AnyYes,
    /// An approval of this very call: whoever approved its tool has not seen what the call names.
    ItsOwn,
}

impl From<bool> for RequiredApproval {
    fn from(is_required: bool) -> Self {
        if is_required { Self::AnyYes } else { Self::Nothing }
    }
}

/// Which approval a call waits for, by its tool and its arguments. Provided by the driver of the run.
pub type ApprovalPolicy = Arc<dyn Fn(&str, &Value) -> RequiredApproval + Send + Sync>;

/// What a person has approved for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantedApproval {
    /// Nothing: nobody approved anything.
    Nothing,
    /// All calls of its tool, without having seen the arguments.
    Tool,
    /// This very call, with its arguments.
    Call,
}

/// The answer to a call that waited.
#[derive(Debug, Clone)]
pub(super) enum ApprovalAnswer {
    /// The call was approved, or its tool, if it waited beside another call of that tool.
    Yes(GrantedApproval),
    /// The call was rejected: by whom, and why.
    No(String, String),
}

/// A call that a person was asked to approve.
#[derive(Debug)]
pub(super) struct ApprovalRequest {
    pub(super) approval: Approval,
    pub(super) answer: Option<ApprovalAnswer>,
}

/// The name that an answer or a rejection carries where nobody is there.
pub(super) const NOBODY: &str = "nobody";

/// Calls of the run that need no further approval.
#[derive(Debug)]
pub(super) struct Rule {
    tool: String,
    hash: Option<String>,
}

impl Rule {
    fn covers(&self, approval: &Approval) -> bool {
        self.tool == approval.tool && self.hash.as_ref().is_none_or(|hash| *hash == approval.hash)
    }

    fn granted_approval(&self) -> GrantedApproval {
        match self.hash {
            Some(_) => GrantedApproval::Call,
            None => GrantedApproval::Tool,
        }
    }
}

/// Whether the approval `granted` suffices for a call that needs `required`.
fn is_enough(granted: GrantedApproval, required: RequiredApproval) -> bool {
    granted == GrantedApproval::Call || required != RequiredApproval::ItsOwn
}

/// Something that waits for a person's approval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PendingApproval<'r> {
    /// A call.
    Call(&'r Approval),
    /// A plan, by its version.
    Plan(u32),
    /// The command of a criterion, as the question about it (E9.6).
    Check(&'r Question),
}

/// The approval that is requested for a call.
pub(super) fn approval_of(tool: &str, args: &Value) -> Approval {
    let args = canonical(args.clone());
    let mut first = [0; 8];
    first.copy_from_slice(&Sha256::digest(format!("{tool} {args}").as_bytes())[..8]);
    Approval {
        tool: tool.to_owned(),
        args,
        hash: format!("{:016x}", u64::from_be_bytes(first)),
        again: false,
    }
}

/// The reason of a rejection, to be appended to the words for it; empty if there is none.
fn because(reason: &str) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(": {reason}")
    }
}

impl Run {
    /// Sets which calls wait for a person's approval. Without it, no call waits: nobody is there to approve it.
    pub fn set_approval_policy(&mut self, policy: Option<ApprovalPolicy>) {
        self.asks_first = policy.map(AskFirst);
    }

    /// Everything that waits for a person's approval, in the order in which it was created.
    #[must_use]
    pub fn pending_approvals(&self) -> Vec<(NodeId, PendingApproval<'_>)> {
        let plans = self.gated.iter().map(|index| {
            let version = self.nodes[*index].plan.as_ref().map_or(0, |plan| plan.version);
            (*index, PendingApproval::Plan(version))
        });
        let calls = self.asked_about.iter().filter_map(|(index, request)| {
            let is_waiting = request.answer.is_none() && self.nodes[*index].state == NodeState::WaitingInput;
            // What does not begin any more asks nothing, even if its end is not recorded yet.
            let is_waiting = is_waiting && !self.skipped.contains(index);
            is_waiting.then_some((*index, PendingApproval::Call(&request.approval)))
        });
        let checks = self
            .permissions()
            .map(|(index, question)| (index, PendingApproval::Check(question)));
        let mut all: Vec<_> = plans.chain(calls).chain(checks).collect();
        all.sort_by_key(|(index, _)| *index);
        all.into_iter()
            .map(|(index, approval)| (self.nodes[index].id, approval))
            .collect()
    }

    /// What waits for approval at `node`.
    #[must_use]
    pub fn pending_approval_at(&self, node: NodeId) -> Option<PendingApproval<'_>> {
        self.pending_approvals()
            .into_iter()
            .find_map(|(at, approval)| (at == node).then_some(approval))
    }

    /// Decides about a call that is due: returns it with its permission, or the event that requests approval or records
    /// a rejection.
    pub(super) fn check_call_permission(&self, index: usize, call: CallAction) -> Result<CallAction, Box<Event>> {
        let leave = self.permission(index, &call.tool, &call.args, !call.again)?;
        Ok(CallAction { granted: leave, ..call })
    }

    /// The same for a program that does a task by itself: it may do whatever a command may, so it needs the same
    /// approval (E9.17). Only a task that is to be worked on waits for it; for other purposes nobody is asked, and the
    /// program runs only if it was approved before, or a rule covers it.
    pub(super) fn check_program_permission(&self, index: usize, action: AskAction) -> Result<AskAction, Box<Event>> {
        let model = self.model_for(index, action.purpose.role());
        let program = model.and_then(|(model, _)| model.program.as_ref());
        let Some(program) = program else { return Ok(action) };
        let can_wait = matches!(self.nodes[index].state, NodeState::Executing | NodeState::WaitingInput);
        let may_ask = action.purpose == Purpose::Work && can_wait;
        let granted = self.permission(index, &program.name, &program.shown, may_ask)?;
        let allowed = granted != GrantedApproval::Nothing;
        Ok(AskAction { allowed, ..action })
    }

    /// Whether a person rejected what node `index` was about to do: it ends without being done, and waits for nothing.
    pub(super) fn is_rejected_call(&self, index: usize) -> bool {
        let answer = self.asked_about.get(&index).and_then(|request| request.answer.as_ref());
        matches!(answer, Some(ApprovalAnswer::No(..)))
    }

    /// Whether a person allowed the call of node `index` to be made once more, which had begun when its driver died: it
    /// is counted already (E9.12).
    pub(super) fn is_repetition_allowed(&self, index: usize) -> bool {
        // An attempt after that one is counted.
        let is_to_begin = self.nodes[index].state == NodeState::WaitingInput;
        let request = self.asked_about.get(&index).filter(|_| is_to_begin);
        request.is_some_and(|request| request.approval.again && matches!(request.answer, Some(ApprovalAnswer::Yes(_))))
    }

    /// The event that ends node `index`, if a person rejected what it was about to do.
    pub(super) fn rejection_of_call(&self, index: usize) -> Option<Event> {
        match self.asked_about.get(&index)?.answer.as_ref()? {
            ApprovalAnswer::No(by, reason) => Some(self.rejected_call_event(index, by, reason)),
            ApprovalAnswer::Yes(_) => None,
        }
    }

    /// The permission for what node `index` is about to do, or the event that requests approval or records a rejection.
    fn permission(&self, index: usize, tool: &str, args: &Value, may_ask: bool) -> Result<GrantedApproval, Box<Event>> {
        // The journal decides first: what was approved once stays approved, whoever drives the run. The command line of
        // a program comes from settings that may have changed since; a changed one was not approved.
        let request = self.asked_about.get(&index);
        match request.and_then(|request| Some((&request.approval, request.answer.as_ref()?))) {
            Some((asked_approval, ApprovalAnswer::Yes(granted)))
                if asked_approval.hash == approval_of(tool, args).hash
                    && is_enough(*granted, self.required_approval(tool, args)) =>
            {
                return Ok(*granted);
            }
            Some(_) | None => {}
        }
        if let Some(event) = self.rejection_of_call(index) {
            return Err(Box::new(event));
        }
        match self.permission_by_rules(tool, args) {
            Ok(granted) => Ok(granted),
            Err(_) if !may_ask => Ok(GrantedApproval::Nothing),
            Err(approval) => Err(Box::new(Event::ApprovalAsked {
                node: self.nodes[index].id,
                approval,
            })),
        }
    }

    /// The permission that a call has before anybody is asked, or the approval to ask for.
    fn permission_by_rules(&self, tool: &str, args: &Value) -> Result<GrantedApproval, Box<Approval>> {
        let required = self.required_approval(tool, args);
        if required == RequiredApproval::Nothing && self.rules.is_empty() {
            return Ok(GrantedApproval::Nothing);
        }
        let approval = approval_of(tool, args);
        let covering_rules = || self.rules.iter().filter(|rule| rule.covers(&approval));
        if covering_rules().any(|rule| rule.granted_approval() == GrantedApproval::Call) {
            return Ok(GrantedApproval::Call);
        }
        if covering_rules().next().is_some() && is_enough(GrantedApproval::Tool, required) {
            return Ok(GrantedApproval::Tool);
        }
        match required {
            RequiredApproval::Nothing => Ok(GrantedApproval::Nothing),
            RequiredApproval::AnyYes | RequiredApproval::ItsOwn => Err(Box::new(approval)),
        }
    }

    /// Who rejected the same call of the task `index` before, and why, if they would be asked again: a person is asked
    /// once, and other arguments make another call.
    pub(super) fn earlier_rejection(&self, index: usize, tool: &str, args: &Value) -> Option<&str> {
        let rejected = &self.agent(index)?.rejected_calls;
        if rejected.is_empty() {
            return None;
        }
        let approval = self.permission_by_rules(tool, args).err()?;
        rejected.get(&approval.hash).map(String::as_str)
    }

    /// Whether a person is asked before a call that no plan names: the command of a criterion (E9.6).
    pub(super) fn needs_approval(&self, tool: &str, args: &Value) -> bool {
        self.required_approval(tool, args) != RequiredApproval::Nothing
    }

    fn required_approval(&self, tool: &str, args: &Value) -> RequiredApproval {
        let required = self.asks_first.as_ref().map(|AskFirst(policy)| policy(tool, args));
        required.unwrap_or(RequiredApproval::Nothing)
    }

    /// Whether a person has approved something that is still to be done, or a rule for such calls: a fork that
    /// continues from here would do it without asking.
    #[must_use]
    pub fn has_outstanding_approval(&self) -> bool {
        let is_allowed = |request: &ApprovalRequest| matches!(request.answer, Some(ApprovalAnswer::Yes(_)));
        let has_commands = |node: &Node| {
            node.agent
                .as_ref()
                .is_some_and(|agent| !agent.allowed_commands.is_empty())
        };
        !self.rules.is_empty()
            || self.asked_about.values().any(is_allowed)
            || self
                .nodes
                .iter()
                .any(|node| node.result.is_none() && has_commands(node))
    }

    /// Whether a rule allows all such calls of the run.
    pub(super) fn is_always_allowed(&self, tool: &str, args: &Value) -> bool {
        let is_covered = |approval| self.rules.iter().any(|rule| rule.covers(&approval));
        !self.rules.is_empty() && is_covered(approval_of(tool, args))
    }

    fn rejected_call_event(&self, index: usize, by: &str, reason: &str) -> Event {
        let is_again = self
            .asked_about
            .get(&index)
            .is_some_and(|request| request.approval.again);
        if is_again {
            let why = format!(", as {by} said{}", because(reason));
            return self.outcome_unknown(self.nodes[index].id, &why);
        }
        let why = because(reason);
        let severity = self.severity_of(index, StopReason::PolicyDenied);
        let result = NodeResult::failed(
            severity,
            StopReason::PolicyDenied,
            match by {
                NOBODY => format!("it was not approved{why}"),
                by => format!("{by} rejected it{why}"),
            },
        );
        Event::Finished {
            node: self.nodes[index].id,
            result: Box::new(result),
        }
    }

    /// The events that reject everything that waits for approval if nobody is there to give it.
    pub(super) fn pending_rejection_events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        if self.has_nobody() {
            let rejection_of = |index: &usize| Event::PlanRejected {
                node: self.nodes[*index].id,
                version: self.nodes[*index].plan.as_ref().map_or(1, |plan| plan.version),
                reason: "nobody is available to approve".to_owned(),
                by: NOBODY.to_owned(),
            };
            events.extend(self.gated.iter().map(rejection_of));
        }
        if self.asks_first.is_none() {
            let calls = self.asked_about.iter().filter(|(index, request)| {
                request.answer.is_none() && self.nodes[**index].state == NodeState::WaitingInput
            });
            events.extend(
                calls.map(|(index, _)| self.rejected_call_event(*index, NOBODY, "nobody is available to approve")),
            );
        }
        events
    }

    /// Whether it is known that no person is there: before a driver has said what there is, nobody knows.
    pub(super) fn has_nobody(&self) -> bool {
        self.equipment.is_some() && !self.has_person()
    }

    /// Folds in one of the events about approvals.
    pub(super) fn apply_approval(&mut self, event: &Event) -> Result<(), JournalError> {
        match event {
            Event::ApprovalAsked { node, approval } => {
                let index = self.step_to(*node, Move::Wait)?;
                self.ready.remove(&index);
                // A call that was lost is not under way any more, so it blocks nobody, and there is nothing to stop.
                self.executing.remove(&index);
                self.stopping.remove(&index);
                self.give_back_resources(index);
                let request = ApprovalRequest {
                    approval: (**approval).clone(),
                    answer: None,
                };
                self.asked_about.insert(index, request);
                Ok(())
            }
            Event::CallApproved { node, always, .. } => self.call_approved(*node, *always),
            Event::CallRejected { node, reason, by } => self.call_rejected(*node, reason, by),
            Event::PlanApproved { node, .. } => self.plan_approved(*node),
            Event::PlanRejected {
                node,
                version,
                reason,
                by,
                ..
            } => self.plan_rejected(*node, *version, (reason, by)),
            _ => Ok(()),
        }
    }

    fn call_approved(&mut self, node: NodeId, always: Option<Always>) -> Result<(), JournalError> {
        let approval = self.record_approval_answer(node, ApprovalAnswer::Yes(GrantedApproval::Call))?;
        let Some(always) = always else { return Ok(()) };
        let rule = Rule {
            hash: (always == Always::Arguments).then_some(approval.hash),
            tool: approval.tool,
        };
        // Other waiting calls that the new rule covers are approved too.
        let covered: Vec<usize> = self
            .asked_about
            .iter()
            .filter(|(_, request)| {
                request.answer.is_none() && !request.approval.again && rule.covers(&request.approval)
            })
            .map(|(index, _)| *index)
            // A call that was stopped meanwhile does not wait.
            .filter(|index| self.nodes[*index].state == NodeState::WaitingInput)
            .collect();
        for index in covered {
            let node = self.nodes[index].id;
            self.record_approval_answer(node, ApprovalAnswer::Yes(rule.granted_approval()))?;
        }
        self.rules.push(rule);
        Ok(())
    }

    fn call_rejected(&mut self, node: NodeId, reason: &str, by: &str) -> Result<(), JournalError> {
        let approval = self.record_approval_answer(node, ApprovalAnswer::No(by.to_owned(), reason.to_owned()))?;
        let parent = self.nodes[self.index(node)?].parent;
        let agent = parent.and_then(|parent| self.nodes[parent].agent.as_deref_mut());
        // Whoever does not want a lost call to be repeated has not said that it must not be made.
        if let Some(agent) = agent.filter(|_| !approval.again) {
            let said = format!("{by} rejected this call{}", because(reason));
            agent.rejected_calls.insert(approval.hash, said);
        }
        Ok(())
    }

    fn record_approval_answer(&mut self, node: NodeId, answer: ApprovalAnswer) -> Result<Approval, JournalError> {
        let index = self.index(node)?;
        let state = self.nodes[index].state;
        let request = self
            .asked_about
            .get_mut(&index)
            .filter(|request| request.answer.is_none());
        match request.filter(|_| state == NodeState::WaitingInput) {
            Some(request) => {
                request.answer = Some(answer);
                let approval = request.approval.clone();
                self.make_ready(index);
                Ok(approval)
            }
            None => Err(JournalError::Transition {
                node,
                state: state.as_str(),
                event: "answered with yes or no",
            }),
        }
    }
}

/// Wraps [`ApprovalPolicy`] so that the state can be printed.
#[derive(Clone)]
pub(super) struct AskFirst(ApprovalPolicy);

impl fmt::Debug for AskFirst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AskFirst")
    }
}
