//! What people do to a run: approve, reject, answer, edit its plan, change limits, pause, continue and cancel it
//! (E9.11).

use folio_engine::event::{Always, FORMAT, NewLimits, PlanDifference};
use folio_engine::run::{NodeKind, PendingApproval, RequestRef};
use folio_engine::{Event, NodeId, Run};
use folio_memory::id::Ref;
use folio_memory::{Actor, Role, RunId};

use super::Runner;
use crate::error::RunnerError;
use crate::request::{Requested, has_ended};

/// The answer that approves the command of a criterion.
const YES: &str = "yes";

impl Runner {
    /// Requests that a run, or one subtree of it, is cancelled. Durable when this returns; the driver of the run acts
    /// on it. Nothing is recorded for what has ended or is being cancelled already.
    ///
    /// # Errors
    ///
    /// `Store` with kind `NotFound` if there is no such run.
    pub async fn cancel(&self, run: RunId, node: Option<NodeId>, by: &Actor) -> Result<(), RunnerError> {
        self.record_unless_ended(run, node, by, |by, node| Event::CancelRequested { node, by })
            .await
    }

    /// Records what `by` wants of a run, or of one subtree of it, unless that has ended or it changes nothing.
    async fn record_unless_ended(
        &self,
        run: RunId,
        node: Option<NodeId>,
        by: &Actor,
        make_event: impl Fn(String, Option<NodeId>) -> Event,
    ) -> Result<(), RunnerError> {
        // Whoever names the root means the whole run.
        let node = node.filter(|node| *node != NodeId::root(run));
        let request = |run: &Run| {
            let event = make_event(by.to_string(), node);
            Ok((!has_ended(run, node) && !run.changes_nothing(&event)).then_some(event))
        };
        self.request(run, by, request).await.map(drop)
    }

    /// Answers an open question. Durable when this returns; the driver of the run continues with it.
    ///
    /// # Errors
    ///
    /// `NoQuestion` if no question is open there, or no longer; `AskedElse` if it is another question; `TimeIsUp` if
    /// the run, or a task around the question, has no time left; `EmptyAnswer` if the answer is empty; `NotAnOption` if
    /// the question has options and the answer is none of them; `Store`.
    pub async fn answer(
        &self,
        run: RunId,
        reference: impl Into<RequestRef>,
        answer: &str,
        by: &Actor,
    ) -> Result<(), RunnerError> {
        let reference = reference.into();
        let node = reference.node;
        let request = |run: &Run| {
            let mut questions = run.open_questions();
            let Some((_, question)) = questions.find(|(asked_node, _)| *asked_node == node) else {
                return Err(no_question(run, node));
            };
            if !reference.matches_mark(&question.mark()) {
                return Err(question_changed_error(run, node));
            }
            self.check_time_left(run, node)?;
            // What follows from the deadline is due, whether or not somebody drives the run (E9.9).
            if let Some(at) = question.deadline.filter(|at| *at <= self.workspace().now()) {
                return Err(RunnerError::NoQuestion {
                    path: place_of(run, node),
                    over: Some(at),
                });
            }
            if question.is_empty_answer(answer) {
                return Err(RunnerError::EmptyAnswer {
                    path: place_of(run, node),
                });
            }
            let answer = question.option_meant(answer).unwrap_or(answer);
            if !question.accepts(answer) {
                return Err(RunnerError::NotAnOption {
                    answer: answer.to_owned(),
                    options: question.options.clone(),
                });
            }
            Ok(Some(Event::Answered {
                node,
                answer: answer.to_owned(),
                by: by.to_string(),
            }))
        };
        match self.request(run, by, request).await? {
            Requested::Recorded(_) | Requested::Nothing => Ok(()),
            Requested::Ended => Err(no_question(&*self.load(run).await?, node)),
        }
    }

    /// Replaces the plan of a node, or of the run, by `text`: its steps in YAML, JSON or markdown, including those that
    /// stay.
    ///
    /// `version` is the version that the edit is based on; the text may state it instead, and the default is the first.
    /// Returns the plan's version afterwards and the difference, which is empty if the text matches the current plan.
    /// Durable when this returns; the driver of the run continues with it.
    ///
    /// # Errors
    ///
    /// `Edit` if it cannot become the plan, with every mistake; `OlderDriver`; `TimeIsUp`; `NotAPerson`; `Ended`; `Store`.
    pub async fn edit_plan(
        &self,
        run: RunId,
        node: Option<NodeId>,
        text: &str,
        version: Option<u32>,
        by: &Actor,
    ) -> Result<(u32, PlanDifference), RunnerError> {
        // A plan that a person edited is approved by that person, with everything that the run may do.
        let human = person(by)?;
        // An edit states the version that it is based on, so it cannot be applied twice.
        let unkeyed = self.without_key();
        let known = self.known();
        let root = NodeId::root(run);
        let node = node.unwrap_or(root);
        self.check_driver_understands_plans(run).await?;
        let expand = |run: &Run| {
            let is_new = run
                .node(root)
                .is_some_and(|view| view.kind == NodeKind::Plan && view.plan_version == 0);
            Ok(is_new.then(|| Event::Expanded {
                node: root,
                items: Vec::new(),
                set_aside: None,
                limits: None,
            }))
        };
        if node == root {
            // A run that nobody has begun yet gets its plan now.
            unkeyed.request(run, by, expand).await?;
        }
        let edit = |run: &Run| {
            self.check_time_left(run, node)?;
            Ok(run.edit_plan(node, text, version, &known, &human)?)
        };
        let recorded = match unkeyed.request(run, by, edit).await? {
            Requested::Recorded(event) => Some(*event),
            Requested::Nothing => None,
            Requested::Ended => return Err(RunnerError::Ended),
        };
        if let Some(Event::PlanEdited {
            version, difference, ..
        }) = recorded
        {
            return Ok((version, *difference));
        }
        let loaded = self.load(run).await?;
        let version = loaded.node(node).map_or(1, |view| view.plan_version.max(1));
        Ok((version, PlanDifference::default()))
    }

    /// Refuses an edit while an older version drives the run: it would pass over what it does not know of a plan, or
    /// end with the calls that are under way. Whoever drives a run has raised the format of its journal to its own.
    async fn check_driver_understands_plans(&self, run: RunId) -> Result<(), RunnerError> {
        if self.load(run).await?.format() >= FORMAT {
            return Ok(());
        }
        let row = self.shared.workspace.run(Ref::Id(run)).await?;
        match row.driven {
            true => Err(RunnerError::OlderDriver { run: row.handle }),
            false => Ok(()),
        }
    }

    /// Approves what waits for approval there: a plan, a call, or the command of a criterion. After the approval of a
    /// call, `always` is what needs no further approval in the run; for plans and criteria it is ignored. Durable when
    /// this returns; the driver of the run continues with it.
    ///
    /// # Errors
    ///
    /// `NoApproval` if nothing waits there, `AskedElse` if it is something else, `TimeIsUp` if the run, or a task
    /// around it, has no time left, `NotAPerson` if `by` is not a person, `Ended`, `Store`.
    pub async fn approve(
        &self,
        run: RunId,
        reference: impl Into<RequestRef>,
        always: Option<Always>,
        by: &Actor,
    ) -> Result<(), RunnerError> {
        let human = person(by)?;
        let reference = reference.into();
        let node = reference.node;
        let approval_event = |run: &Run| match self.awaiting(run, &reference)? {
            PendingApproval::Call(_) => Ok(Some(Event::CallApproved {
                node,
                always,
                by: human.clone(),
            })),
            PendingApproval::Plan(version) => Ok(Some(Event::PlanApproved {
                node,
                version,
                by: human.clone(),
            })),
            PendingApproval::Check(_) => Ok(Some(check_answered_event(node, YES, &human))),
        };
        self.request_unless_ended(run, by, approval_event).await
    }

    /// Rejects what waits for approval there, the counterpart of [`Runner::approve`]. Durable when this returns.
    ///
    /// # Errors
    ///
    /// As [`Runner::approve`].
    pub async fn reject(
        &self,
        run: RunId,
        reference: impl Into<RequestRef>,
        reason: &str,
        by: &Actor,
    ) -> Result<(), RunnerError> {
        let human = person(by)?;
        let reference = reference.into();
        let node = reference.node;
        let rejection_event = |run: &Run| match self.awaiting(run, &reference)? {
            PendingApproval::Call(_) => Ok(Some(Event::CallRejected {
                node,
                reason: reason.to_owned(),
                by: human.clone(),
            })),
            PendingApproval::Plan(version) => Ok(Some(Event::PlanRejected {
                node,
                version,
                reason: reason.to_owned(),
                by: human.clone(),
            })),
            PendingApproval::Check(_) => Ok(Some(check_answered_event(node, &refusal_answer(reason), &human))),
        };
        self.request_unless_ended(run, by, rejection_event).await
    }

    /// What waits for approval at `reference`, if it may still be decided.
    fn awaiting<'r>(&self, run: &'r Run, reference: &RequestRef) -> Result<PendingApproval<'r>, RunnerError> {
        let node = reference.node;
        match run.pending_approval_at(node) {
            Some(waiting) if !reference.matches_mark(&waiting.mark()) => Err(question_changed_error(run, node)),
            Some(waiting) => self.check_time_left(run, node).map(|()| waiting),
            None => Err(no_approval(run, node)),
        }
    }

    /// An error if a deadline around `node` has passed: what a person decides would be lost when the run goes on.
    fn check_time_left(&self, run: &Run, node: NodeId) -> Result<(), RunnerError> {
        match run.passed_deadline(node, self.workspace().now()) {
            None => Ok(()),
            Some((whose, at)) => Err(RunnerError::TimeIsUp {
                path: place_of(run, whose),
                at,
            }),
        }
    }

    /// Changes limits of a run, or of a part of it. `limits` computes the new limits from the run. Durable when this
    /// returns.
    ///
    /// # Errors
    ///
    /// `Limit` if these limits are not possible, `NotAPerson`, `Ended`, `Store`.
    pub async fn change_limits(
        &self,
        run: RunId,
        node: Option<NodeId>,
        limits: impl Fn(&Run) -> NewLimits,
        by: &Actor,
    ) -> Result<(), RunnerError> {
        let human = person(by)?;
        self.shared.workspace.keep_up().await?;
        let now = self.shared.workspace.now();
        let change = |run: &Run| Ok(Some(run.change_limits(node, limits(run), &human, now)?));
        self.request_unless_ended(run, by, change).await
    }

    /// Pauses a run, or one subtree of it: no more calls begin, and those under way end. The pause outlives the driver.
    ///
    /// # Errors
    ///
    /// As [`Runner::cancel`].
    pub async fn pause(&self, run: RunId, node: Option<NodeId>, by: &Actor) -> Result<(), RunnerError> {
        self.record_unless_ended(run, node, by, |by, node| Event::Paused { node, by })
            .await
    }

    /// Continues a paused run, or a paused subtree of it.
    ///
    /// # Errors
    ///
    /// As [`Runner::cancel`].
    pub async fn go_on(&self, run: RunId, node: Option<NodeId>, by: &Actor) -> Result<(), RunnerError> {
        self.record_unless_ended(run, node, by, |by, node| Event::Continued { node, by })
            .await
    }
}

/// The name of a person; an error if the actor is a model or a program.
pub(crate) fn person(by: &Actor) -> Result<String, RunnerError> {
    if by.role == Role::Human {
        Ok(by.to_string())
    } else {
        Err(RunnerError::NotAPerson {
            role: by.role.to_string(),
        })
    }
}

fn refusal_answer(reason: &str) -> String {
    if reason.trim().is_empty() {
        "no".to_owned()
    } else {
        format!("no: {reason}")
    }
}

fn check_answered_event(node: NodeId, answer: &str, by: &str) -> Event {
    Event::Answered {
        node,
        answer: answer.to_owned(),
        by: by.to_owned(),
    }
}

fn no_question(run: &Run, node: NodeId) -> RunnerError {
    RunnerError::NoQuestion {
        path: place_of(run, node),
        over: None,
    }
}

fn no_approval(run: &Run, node: NodeId) -> RunnerError {
    RunnerError::NoApproval {
        path: place_of(run, node),
    }
}

fn question_changed_error(run: &Run, node: NodeId) -> RunnerError {
    RunnerError::AskedElse {
        path: place_of(run, node),
    }
}

/// The name of a node for people.
fn place_of(run: &Run, node: NodeId) -> String {
    match run.node(node).map_or("", |view| view.path) {
        "" => "the run".to_owned(),
        path => path.to_owned(),
    }
}
