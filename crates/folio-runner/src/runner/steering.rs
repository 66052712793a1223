//! What people do to a run: a yes, a no, an answer, another plan, more of a limit, a pause, an end (E9.11).

use folio_engine::event::{Always, NewLimits, PlanDifference};
use folio_engine::run::{Asked, NodeKind, Waiting};
use folio_engine::{Event, NodeId, Run};
use folio_memory::view::is_blank;
use folio_memory::{Actor, Role, RunId};

use super::Runner;
use crate::error::RunnerError;
use crate::request::{Requested, has_ended};

/// What a person says to the command of a criterion.
const YES: &str = "yes";

impl Runner {
    /// Asks for a run, or one subtree of it, to be stopped. Durable when this returns; whoever drives the run acts on it. Of what has ended, or is
    /// being stopped already, nothing is recorded.
    ///
    /// # Errors
    ///
    /// `Store` with kind `NotFound` if there is no such run.
    pub async fn cancel(&self, run: RunId, node: Option<NodeId>, by: &Actor) -> Result<(), RunnerError> {
        self.unless_ended(run, node, by, |by| Event::CancelRequested { node, by })
            .await
    }

    /// Records what `by` wants of a run, or of one subtree of it, unless that has ended or nothing changes by it.
    async fn unless_ended(
        &self,
        run: RunId,
        node: Option<NodeId>,
        by: &Actor,
        wanted: impl Fn(String) -> Event,
    ) -> Result<(), RunnerError> {
        let request = |run: &Run| {
            let event = wanted(by.to_string());
            Ok((!has_ended(run, node) && !run.changes_nothing(&event)).then_some(event))
        };
        self.request(run, by, request).await.map(drop)
    }

    /// Answers the question that is asked there. Durable when this returns; whoever drives the run goes on with it.
    ///
    /// # Errors
    ///
    /// `NoQuestion` if nothing is asked there, or not any more, `AskedElse` if it is another question, `EmptyAnswer` if it says nothing,
    /// `NotAnOption` if it has to be one of a few and is none of them; `Store`.
    pub async fn answer(
        &self,
        run: RunId,
        asked: impl Into<Asked>,
        answer: &str,
        by: &Actor,
    ) -> Result<(), RunnerError> {
        let asked = asked.into();
        let node = asked.node;
        let request = |run: &Run| {
            let questions = run.questions();
            let Some((_, question)) = questions.iter().find(|(asking, _)| *asking == node) else {
                return Err(no_question(run, node));
            };
            if !asked.means(&question.mark()) {
                return Err(asked_else(run, node));
            }
            // What follows from that is due, whether or not somebody drives the run (E9.9).
            if let Some(at) = question.deadline.filter(|at| *at <= self.workspace().now()) {
                return Err(RunnerError::NoQuestion {
                    path: place_of(run, node),
                    over: Some(at),
                });
            }
            if is_blank(answer) {
                return Err(RunnerError::EmptyAnswer {
                    path: place_of(run, node),
                });
            }
            if !question.takes(answer) {
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

    /// Makes `text` the plan of a node, or of the run: its steps in YAML, JSON or markdown, those that stay included.
    ///
    /// `version` is the version that the edit was made of; the text may say it, too, and it is the first if nobody does. Returns the version that the plan has now
    /// and the difference, which is nothing if the text says what the plan is already. Durable when this returns; whoever
    /// drives the run goes on with it.
    ///
    /// # Errors
    ///
    /// `Edit` if it cannot become the plan, with every mistake; `NotAPerson`; `Ended`; `Store`.
    pub async fn edit_plan(
        &self,
        run: RunId,
        node: Option<NodeId>,
        text: &str,
        version: Option<u32>,
        by: &Actor,
    ) -> Result<(u32, PlanDifference), RunnerError> {
        // A plan that a person changed is one that a person said yes to, with all that the run may do.
        let who = person(by)?;
        // What is edited says of which version it was made, and so cannot be done twice.
        let unkeyed = self.without_key();
        let known = self.known();
        let root = NodeId::root(run);
        let node = node.unwrap_or(root);
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
            // A run that nobody has begun with has its plan from now on.
            unkeyed.request(run, by, expand).await?;
        }
        let edit = |run: &Run| Ok(run.edit_plan(node, text, version, &known, &who)?);
        let made = match unkeyed.request(run, by, edit).await? {
            Requested::Recorded(event) => Some(*event),
            Requested::Nothing => None,
            Requested::Ended => return Err(RunnerError::Ended),
        };
        if let Some(Event::PlanEdited {
            version, difference, ..
        }) = made
        {
            return Ok((version, *difference));
        }
        let loaded = self.load(run).await?;
        let version = loaded.node(node).map_or(1, |view| view.plan_version.max(1));
        Ok((version, PlanDifference::default()))
    }

    /// Says yes to what waits for it there: a plan, a call, or the command of a criterion. `always` is what of the run needs no other yes after
    /// a call; the others are approved as they stand, whatever it says. Durable when this returns; whoever drives the run goes on with it.
    ///
    /// # Errors
    ///
    /// `NoApproval` if nothing waits there, `AskedElse` if it is something else, `NotAPerson` if `by` is no person, `Ended`, `Store`.
    pub async fn approve(
        &self,
        run: RunId,
        asked: impl Into<Asked>,
        always: Option<Always>,
        by: &Actor,
    ) -> Result<(), RunnerError> {
        let who = person(by)?;
        let asked = asked.into();
        let node = asked.node;
        let yes = |run: &Run| match run.waiting_at(node) {
            Some(waiting) if !asked.means(&waiting.mark()) => Err(asked_else(run, node)),
            Some(Waiting::Call(_)) => Ok(Some(Event::CallApproved {
                node,
                always,
                by: who.clone(),
            })),
            Some(Waiting::Plan(version)) => Ok(Some(Event::PlanApproved {
                node,
                version,
                by: who.clone(),
            })),
            Some(Waiting::Check(_)) => Ok(Some(said_of_check(node, YES, &who))),
            None => Err(no_approval(run, node)),
        };
        self.must_go_on(run, by, yes).await
    }

    /// Says no to what waits for a yes there, as [`Runner::approve`] says yes. Durable when this returns.
    ///
    /// # Errors
    ///
    /// As [`Runner::approve`].
    pub async fn reject(
        &self,
        run: RunId,
        asked: impl Into<Asked>,
        reason: &str,
        by: &Actor,
    ) -> Result<(), RunnerError> {
        let who = person(by)?;
        let asked = asked.into();
        let node = asked.node;
        let no = |run: &Run| match run.waiting_at(node) {
            Some(waiting) if !asked.means(&waiting.mark()) => Err(asked_else(run, node)),
            Some(Waiting::Call(_)) => Ok(Some(Event::CallRejected {
                node,
                reason: reason.to_owned(),
                by: who.clone(),
            })),
            Some(Waiting::Plan(version)) => Ok(Some(Event::PlanRejected {
                node,
                version,
                reason: reason.to_owned(),
                by: who.clone(),
            })),
            Some(Waiting::Check(_)) => Ok(Some(said_of_check(node, &no_because(reason), &who))),
            None => Err(no_approval(run, node)),
        };
        self.must_go_on(run, by, no).await
    }

    /// Changes limits of a run, or of a part of it. `limits` makes of what they are what they are to be. Durable when this
    /// returns.
    ///
    /// # Errors
    ///
    /// `Limit` if they cannot be so, `NotAPerson`, `Ended`, `Store`.
    pub async fn change_limits(
        &self,
        run: RunId,
        node: Option<NodeId>,
        limits: impl Fn(&Run) -> NewLimits,
        by: &Actor,
    ) -> Result<(), RunnerError> {
        let who = person(by)?;
        self.shared.workspace.keep_up().await?;
        let now = self.shared.workspace.now();
        let change = |run: &Run| Ok(Some(run.change_limits(node, limits(run), &who, now)?));
        self.must_go_on(run, by, change).await
    }

    /// Begins no more calls of a run, or of one subtree of it; what is under way ends. Outlives the driver.
    ///
    /// # Errors
    ///
    /// As [`Runner::cancel`].
    pub async fn pause(&self, run: RunId, node: Option<NodeId>, by: &Actor) -> Result<(), RunnerError> {
        self.unless_ended(run, node, by, |by| Event::Paused { node, by }).await
    }

    /// Has a paused run, or a paused subtree of it, go on.
    ///
    /// # Errors
    ///
    /// As [`Runner::cancel`].
    pub async fn go_on(&self, run: RunId, node: Option<NodeId>, by: &Actor) -> Result<(), RunnerError> {
        self.unless_ended(run, node, by, |by| Event::Continued { node, by })
            .await
    }
}

/// The name of a person; an error if whoever it is speaks for a model or a program.
pub(crate) fn person(by: &Actor) -> Result<String, RunnerError> {
    if by.role == Role::Human {
        Ok(by.to_string())
    } else {
        Err(RunnerError::NotAPerson {
            role: by.role.to_string(),
        })
    }
}

fn no_because(reason: &str) -> String {
    if reason.trim().is_empty() {
        "no".to_owned()
    } else {
        format!("no: {reason}")
    }
}

fn said_of_check(node: NodeId, answer: &str, by: &str) -> Event {
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

fn asked_else(run: &Run, node: NodeId) -> RunnerError {
    RunnerError::AskedElse {
        path: place_of(run, node),
    }
}

/// What a node is called for people.
fn place_of(run: &Run, node: NodeId) -> String {
    match run.node(node).map_or("", |view| view.path) {
        "" => "the run".to_owned(),
        path => path.to_owned(),
    }
}
