//! Records new runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use folio_engine::event::FORMAT;
use folio_engine::plan::{self, Plan};
use folio_engine::run::Needs;
use folio_engine::template::Scope;
use folio_engine::{Event, Limits, Run, projection};
use folio_memory::id::RunHandle;
use folio_memory::{Actor, Change, RunId, Timestamp, roles};
use folio_store::{Commit, Committed, Record, RunAppend};
use serde_json::{Value, json};

use super::{Runner, Submitted};
use crate::attendance::Attendance;
use crate::error::RunnerError;
use crate::new_run::NewRun;
use crate::pages::RunPages;
use crate::paths;
use crate::run_variable::RunVariable;
use crate::submitted::Opened;

impl Runner {
    /// Records a new run; durable when this returns. Nobody drives it yet.
    ///
    /// # Errors
    ///
    /// `Plan` if the plan has mistakes; `Inputs`, `NeedsModel` or `NotEquipped` if it cannot be run like this; `Folder` if a folder of the run
    /// cannot be opened; `ToolName` if a tool was registered under a name that cannot be used; `Store`.
    pub async fn submit(&self, new: NewRun) -> Result<(RunId, RunHandle), RunnerError> {
        let submitted = self.submit_once(new).await?;
        Ok((submitted.id, submitted.handle))
    }

    /// Like [`Runner::submit`], and returns whether the run existed already: a repeated request under the key of
    /// [`Runner::asked_under`] returns the run that was recorded then.
    ///
    /// # Errors
    ///
    /// As [`Runner::submit`].
    pub async fn submit_once(&self, new: NewRun) -> Result<Submitted, RunnerError> {
        self.shared.registry.check_names().map_err(RunnerError::ToolName)?;
        if let Err(error) = check_plan(&new.plan).and_then(|()| self.can_drive(&new.plan))
            // Whether the same request was made under this key before is checked where it is recorded.
            && !self.is_request_recorded(&new.actor).await?
        {
            return Err(error);
        }
        let (inputs, folder) = self.resolve_inputs(&new).await?;
        let workspace = &self.shared.workspace;
        workspace.keep_up().await?;
        let now = workspace.now();
        let id = RunId::draw(&**workspace.ids(), now);
        let (plan, goal) = self.with_title(new.plan, new.goal, &inputs);
        let (actor, turn, turn_change) = self.turn_of(new.actor, new.thread, &goal, id).await?;
        let attendance = if new.is_unattended {
            Attendance::Nobody
        } else if self.shared.options.has_person && !self.has_dispatcher() {
            Attendance::Person
        } else {
            // For runs that others drive, the other process has the person.
            Attendance::Driver
        };
        let variable = RunVariable {
            id,
            folder,
            started_at: now,
            turn,
            shell: new.shell,
            plan_mode: new.plan_mode,
            plan_gate: new.plan_gate,
            allow_unpriced: new.allow_unpriced,
            attendance,
            judging: new.judging,
            hosts: &new.hosts,
            usual_hosts: &self.shared.options.hosts,
            allow_tools: new.allow_tools,
        };
        let title = plan.title.clone();
        let deadline = now.plus(Limits::of(&plan).deadline);
        let stored = json!(plan);
        // A plan that is written out in full is large, and the run reads its own from what is stored.
        drop(plan);
        let started = Event::RunStarted {
            format: FORMAT,
            goal,
            plan: stored,
            inputs,
            deadline: Some(deadline),
            run: variable.to_json(),
        };
        self.record_new(id, now, started, (title, actor, turn_change)).await
    }

    /// The inputs of a new run, checked, with its paths resolved; and the folder that it is submitted from.
    async fn resolve_inputs(&self, new: &NewRun) -> Result<(BTreeMap<String, Value>, Option<String>), RunnerError> {
        let inputs = plan::check_inputs(&new.plan, &new.inputs).map_err(|errors| RunnerError::Inputs {
            problems: errors.iter().map(ToString::to_string).collect(),
        })?;
        let mut inputs: BTreeMap<String, Value> = inputs.into_iter().collect();
        let is_here = !self.has_dispatcher();
        let folder = match paths::resolve_paths(&new.plan, &mut inputs, new.folder.as_deref(), is_here) {
            Ok(folder) => folder,
            // A folder that is gone by now does not change what was recorded.
            Err(_) if self.is_request_recorded(&new.actor).await? => None,
            Err(error) => return Err(error),
        };
        Ok((inputs, folder))
    }

    /// The plan of a new run with a title, and the goal of the run; the inputs are filled into both.
    fn with_title(&self, mut plan: Plan, goal: Option<String>, inputs: &BTreeMap<String, Value>) -> (Plan, String) {
        let scope = Scope {
            inputs: Arc::new(json!(inputs)),
            ..Scope::default()
        };
        let templates = &self.shared.templates;
        let filled = |text: &str| templates.render_text(text, &scope).unwrap_or_else(|_| text.to_owned());
        let title = filled(&plan.title);
        let goal = match goal {
            Some(goal) => goal,
            None if plan.goal.is_empty() => title.clone(),
            None => filled(&plan.goal),
        };
        plan.title = [title, goal.clone()]
            .into_iter()
            .find(|text| !text.trim().is_empty())
            .unwrap_or_else(|| "Untitled".to_owned());
        (plan, goal)
    }

    /// Records run `id`, which begins `now` with the event `started`.
    async fn record_new(
        &self,
        id: RunId,
        now: Timestamp,
        mut started: Event,
        (title, actor, turn_change): (String, Actor, Option<Change>),
    ) -> Result<Submitted, RunnerError> {
        let workspace = &self.shared.workspace;
        // The form that will be in the journal.
        workspace.clean_event(&mut started);
        let mut run = Run::new(id, Arc::clone(&self.shared.templates));
        run.apply(now, &started)
            .map_err(|source| RunnerError::Journal { run: id, source })?;
        let changes = projection::changes(&run, &started);
        let pages = RunPages::of_new(workspace, &run, &changes).await;
        let begin = (vec![started], turn_change.into_iter().chain(changes).collect());
        let committed = self.begin(&run, now, begin, title, actor).await?;
        let (recorded, handle) = committed.run.unwrap_or((id, RunHandle(0)));
        if committed.replayed {
            return Ok(Submitted {
                id: recorded,
                handle,
                replayed: true,
            });
        }
        // A store keeps instants from running backwards; in that case the run began at another instant than assumed.
        // Runs that others drive are not opened here.
        if committed.at == now && self.shared.options.dispatch.is_none() {
            let pages = pages.map(|pages| pages.named(&committed.pages));
            let (head, at) = (committed.seq, Some(committed.at));
            self.shared.submitted.keep(Opened { run, head, at, pages });
        }
        Ok(Submitted {
            id,
            handle,
            replayed: false,
        })
    }

    /// Writes the first events and changes of a new run; `run` is the result of them.
    async fn begin(
        &self,
        run: &Run,
        now: Timestamp,
        (events, changes): (Vec<Event>, Vec<Change>),
        title: String,
        actor: Actor,
    ) -> Result<Committed, RunnerError> {
        roles::may_steer(&actor)?;
        let workspace = &*self.workspace_for_write();
        let append = RunAppend {
            run: run.id(),
            events,
            status: Some(Run::RUNNING.to_owned()),
            title: Some(title),
            so_far: Some(run.summary()),
        };
        let commit = Commit {
            space: workspace.space().clone(),
            at: now,
            actor: actor.in_run(run.id()),
            idempotency_key: self.key(),
            expected: Vec::new(),
            record: Record {
                run: Some(append),
                ..Record::of(changes)
            },
            blobs: Vec::new(),
        };
        Ok(workspace.commit(commit).await?)
    }

    /// Refuses a plan for which whoever drives the runs has no model, or this process not the tools and executors.
    fn can_drive(&self, plan: &Plan) -> Result<(), RunnerError> {
        if self.has_dispatcher() {
            return Ok(());
        }
        self.shared.check_needs(&Needs::of_plan(plan))
    }
}

/// Checks the structure of a plan, which may have been made in code. Whoever drives the run knows which tools and
/// executors there are; whoever read or made the plan decided how large it may be.
fn check_plan(plan: &Plan) -> Result<(), RunnerError> {
    let document = json!(plan);
    let checked = if plan.steps.is_empty() {
        // A goal, which a model plans or does itself; a written plan has steps.
        plan::from_stored(&document)
    } else {
        let limits = plan::Limits {
            depth: u32::MAX,
            children: u32::MAX,
            items: u32::MAX,
            steps: u32::MAX,
        };
        let known = plan::Known {
            limits,
            ..plan::Known::default()
        };
        plan::from_value(&document, &known)
    };
    checked.map(drop).map_err(RunnerError::Plan)
}
