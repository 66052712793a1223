//! What a run asks of people: questions to be answered, and what waits for approval (E9.14).

use folio_memory::Timestamp;
use folio_memory::counted::counted;

use super::approval::PendingApproval;
use super::request_ref::RequestRef;
use super::state::Run;
use crate::event::words::escape_invisible;
use crate::event::{Approval, Question};
use crate::node::NodeId;

/// Something that a run asks of a person.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenRequest<'r> {
    /// The node that asks.
    pub node: NodeId,
    /// What it asks.
    pub what: Requested<'r>,
    /// The time until which it waits; `None` if no deadline ends that.
    pub until: Option<Timestamp>,
}

/// What a person is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Requested<'r> {
    /// An answer to a question.
    Answer(&'r Question),
    /// An approval.
    Approval(PendingApproval<'r>),
}

impl<'r> OpenRequest<'r> {
    /// What an answer or an approval refers to: exactly this request, and no later one of the same node.
    #[must_use]
    pub fn reference(&self) -> RequestRef {
        RequestRef {
            node: self.node,
            mark: Some(match self.what {
                Requested::Answer(question) => question.mark(),
                Requested::Approval(waiting) => waiting.mark(),
            }),
        }
    }

    /// `question`; or `call`, `plan` or `check` (the command of a criterion), which wait for approval.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.what {
            Requested::Answer(_) => "question",
            Requested::Approval(PendingApproval::Call(_)) => "call",
            Requested::Approval(PendingApproval::Plan(_)) => "plan",
            Requested::Approval(PendingApproval::Check(_)) => "check",
        }
    }

    /// The answers to choose from; if there are none, any answer is accepted.
    #[must_use]
    pub fn options(&self) -> &'r [String] {
        match self.what {
            Requested::Answer(question) => &question.options,
            Requested::Approval(_) => &[],
        }
    }

    /// The answer that applies if nobody answers.
    #[must_use]
    pub fn default_answer(&self) -> Option<&'r str> {
        match self.what {
            Requested::Answer(question) => question.default.as_deref(),
            Requested::Approval(_) => None,
        }
    }

    /// The call that waits for approval, if it is one.
    #[must_use]
    pub fn call(&self) -> Option<&'r Approval> {
        match self.what {
            Requested::Approval(PendingApproval::Call(approval)) => Some(approval),
            _ => None,
        }
    }

    /// The version of the plan that waits for approval, if it is one.
    #[must_use]
    pub fn plan_version(&self) -> Option<u32> {
        match self.what {
            Requested::Approval(PendingApproval::Plan(version)) => Some(version),
            _ => None,
        }
    }
}

impl Run {
    /// What the run asks of people at `now`: its questions in the order of the tree, then what waits for approval in
    /// the order in which it was created. A question whose deadline has passed is left out: nobody has to answer it any
    /// more.
    #[must_use]
    pub fn open_requests(&self, now: Timestamp) -> Vec<OpenRequest<'_>> {
        let request = |node: NodeId, what| OpenRequest {
            node,
            what,
            until: self.may_wait_until(node),
        };
        let questions = self.questions().into_iter();
        let questions = questions
            .map(|(node, question)| request(node, Requested::Answer(question)))
            .filter(|request| request.until.is_none_or(|until| until > now));
        let approvals = self.pending_approvals().into_iter();
        let approvals = approvals.map(|(node, waiting)| request(node, Requested::Approval(waiting)));
        questions.chain(approvals).collect()
    }

    /// How many questions and approvals the run waits for.
    #[must_use]
    pub fn count_requests(&self) -> usize {
        self.questions().len() + self.pending_approvals().len()
    }

    /// What `waiting`, at `node`, asks a person to approve, in words: the call, the command, or the steps of the plan.
    #[must_use]
    pub fn approval_in_words(&self, node: NodeId, waiting: &PendingApproval<'_>) -> String {
        match waiting {
            PendingApproval::Check(question) => question.text.clone(),
            PendingApproval::Call(approval) => approval.in_words(),
            PendingApproval::Plan(_) => {
                let steps = counted(self.steps(node).len() as u64, "step");
                let titles = escape_invisible(&self.titles_of_steps(node));
                format!("a plan of {steps}: {titles}")
            }
        }
    }

    /// The titles of the steps of the plan of `node`, in one line.
    #[must_use]
    pub fn titles_of_steps(&self, node: NodeId) -> String {
        let titles: Vec<String> = self.steps(node).iter().map(|step| self.title(step.id)).collect();
        titles.join(", ")
    }
}
