//! What a model reads about its task: the goals around it, its words, criteria and limits, and what is known already
//! (E9.2, seed 000).

use std::fmt::Write as _;

use folio_memory::canonical::canonical;
use folio_memory::counted::counted;
use folio_memory::excerpt::{cut, one_line, short_line};

use super::detail::Detail;
use super::digest::{evidence_in_words, in_words, value_excerpt};
use super::filled::beside_headings;
use super::object::without_beginning_of;
use super::sizes::Sizes;
use crate::lines::{data_block, push_list_item, without_middle};
use crate::plan::reads::inputs_named;
use crate::plan::{Budget, Check, HERE, HUMAN, Step, Task};
use crate::projection::{branch_page, workspace_page};
use crate::result::Evidence;
use crate::run::scope::BodyNeeded;
use crate::run::state::Run;
use crate::run::tree::NodeKind;
use crate::talk::Purpose;
use crate::template::Breaks;

/// The tool that reads files: without it, a model needs no names of folders.
const READ: &str = "read";
/// What stands for the work of a task that called nothing.
const NO_WORK: &str = "nothing: no tool was called";
/// The most steps of a plan whose names a model that plans anew is told.
const STEPS_NAMED: usize = 60;
/// The most references of a result that a judge sees.
const EVIDENCE_JUDGED: usize = 20;
/// The part of the room for results, as its divisor, that the last call of a task uses at most for those that the task
/// was given.
const GIVEN_LAST: usize = 6;

impl Run {
    /// The task, with everything around it that a model needs for `purpose`, in as much `detail` as there is room for.
    pub(super) fn task_block(&self, index: usize, purpose: Purpose, detail: Detail) -> Result<String, BodyNeeded> {
        let mut text = String::new();
        let Some(agent) = self.agent(index) else {
            return Ok(text);
        };
        // What is the same for every task comes first, so that providers find it in their caches.
        if matches!(purpose, Purpose::Decide | Purpose::Replan) {
            self.put_tools(&mut text, index);
        }
        let sizes = detail.of(self.full_sizes(index, purpose, detail));
        // A roll-up is a part of the task around it.
        let of = match self.nodes[index].parent {
            Some(parent) if self.nodes[index].kind == NodeKind::RollUp => parent,
            _ => index,
        };
        push_list(&mut text, "Part of", &self.goal_chain(of)?);
        self.put_task(&mut text, of, &agent.task, sizes)?;
        self.put_criteria(&mut text, of, &agent.task, sizes)?;
        if matches!(
            purpose,
            Purpose::Decide | Purpose::Work | Purpose::Aggregate | Purpose::HandBack
        ) {
            self.put_readers(&mut text, of);
        }
        if matches!(purpose, Purpose::Decide | Purpose::Work | Purpose::Replan) {
            self.put_limits(&mut text, of, &agent.task);
            self.put_folders(&mut text, of, purpose);
        }
        if matches!(purpose, Purpose::Replan | Purpose::Work) {
            push_list(&mut text, "Plans rejected by a person", &agent.rejected_plans);
        }
        match purpose {
            Purpose::Decide | Purpose::Work => self.put_before_work(&mut text, index, purpose, detail, sizes)?,
            Purpose::Aggregate | Purpose::RollUp | Purpose::Replan => {
                self.put_step_results(&mut text, index, purpose, detail, sizes)?;
            }
            Purpose::Judge => self.put_proposal(&mut text, index, detail, sizes)?,
            Purpose::HandBack => self.put_unfinished_work(&mut text, index, detail, sizes)?,
        }
        Ok(text)
    }

    /// Adds the words of `task`, which node `index` does.
    fn put_task(&self, text: &mut String, index: usize, task: &Task, sizes: Sizes) -> Result<(), BodyNeeded> {
        let title = self.prompt_title(index, task, Some(sizes))?;
        let description = self.excerpted_block(index, &task.description, sizes)?;
        // A title that was cut off says nothing that the description does not.
        let is_beginning = |of: &str| one_line(&description).starts_with(one_line(of).trim_end());
        let (template, title) = match title.strip_suffix('…').filter(|beginning| is_beginning(beginning)) {
            Some(_) => (&task.description, &description),
            None => (&task.title, &title),
        };
        let _ = writeln!(text, "# Task\n{}", beside_headings(template, title));
        if !description.is_empty() && description != *title {
            text.push_str(&beside_headings(&task.description, &description));
            text.push('\n');
        }
        if !task.reason.is_empty() {
            let reason = self.excerpted_line(index, &task.reason, sizes)?;
            let _ = writeln!(text, "Why: {}", beside_headings(&task.reason, &reason));
        }
        self.put_unnamed_item(text, index, task);
        self.put_inputs(text, index, sizes);
        Ok(())
    }

    /// Adds the inputs of the run for its goal; for a step of a written plan, those that its templates name. The words
    /// of a step of a model's plan say what it needs.
    fn put_inputs(&self, text: &mut String, index: usize, sizes: Sizes) {
        let Some(all) = self.inputs.as_object().filter(|inputs| !inputs.is_empty()) else {
            return;
        };
        let node = &self.nodes[index];
        let Some(step) = node.step.as_ref().filter(|_| node.parent.is_some()) else {
            let _ = writeln!(text, "Inputs: {}", self.inputs_in_words());
            return;
        };
        if self.is_step_of_model(index) {
            return;
        }
        let inputs = match inputs_named(step) {
            None => cut(self.inputs_in_words(), sizes.answer),
            Some(names) => {
                let named = names
                    .iter()
                    .filter_map(|name| Some((name.clone(), all.get(name)?.clone())));
                let named: serde_json::Map<_, _> = named.collect();
                if named.is_empty() {
                    return;
                }
                cut(&canonical(named.into()).to_string(), sizes.answer)
            }
        };
        let _ = writeln!(text, "Inputs: {inputs}");
    }

    fn put_criteria(&self, text: &mut String, index: usize, task: &Task, sizes: Sizes) -> Result<(), BodyNeeded> {
        let lines = task.criteria.iter().map(|criterion| {
            let check_note = match &criterion.check {
                Check::Judge => String::new(),
                check => format!(" [checked: {}]", check.describe()),
            };
            let optional = if criterion.required { "" } else { " (optional)" };
            let words = self.fill_criterion(index, &criterion.text, sizes)?;
            let words = beside_headings(&criterion.text, &words);
            Ok(format!("{}: {words}{optional}{check_note}", criterion.id))
        });
        let lines: Vec<String> = lines.collect::<Result<_, BodyNeeded>>()?;
        push_list(text, "Criteria", &lines);
        Ok(())
    }

    /// Adds the limits of `task` as planned, those of the run for its goal, and with the task's share as it was at its
    /// start: what is left of them depends on which task was quicker.
    fn put_limits(&self, text: &mut String, index: usize, task: &Task) {
        let shared = self.nodes[index].shared.as_deref().copied().unwrap_or_default();
        let is_goal = self.nodes[index].parent.is_none();
        let budget = if is_goal { &self.plan.budget } else { &task.budget }.within(&shared);
        if budget != Budget::default() {
            let limits = canonical(serde_json::to_value(&budget).unwrap_or_default());
            let limits = limits.as_object().into_iter().flatten();
            let limits = limits.map(|(name, limit)| format!("{} {}", name.replace('_', " "), in_words(limit)));
            let limits = limits.collect::<Vec<_>>().join(", ");
            let _ = writeln!(text, "Budget, including all subtasks: {limits}");
        }
    }

    /// Adds the folders that tools reach, by the names under which they reach them: those of the inputs that are paths,
    /// or the one in which the run was started.
    fn put_folders(&self, text: &mut String, index: usize, purpose: Purpose) {
        let has_files = self
            .equipment
            .as_ref()
            .is_some_and(|equipment| equipment.tool(READ).is_some());
        if !has_files || !self.has_tools_at(index) || self.works_alone(index, purpose.role()) {
            return;
        }
        let paths = self.plan.paths_in(&self.inputs);
        let mut names: Vec<String> = paths.map(|(name, _)| format!("`{name}:`")).collect();
        // A run that is submitted without a folder reaches none but its own.
        if names.is_empty() && self.run_variable["folder"].is_string() {
            names.push(format!("`{HERE}:`"));
        }
        if names.is_empty() {
            text.push_str("Folders: read and write in `run:`, the folder of this run; there is no other\n");
            return;
        }
        let default = if names.len() > 1 {
            " (the first unless a path names another)"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "Folders: read in {}{default}; write in `run:`, the folder of this run",
            names.join(", ")
        );
    }

    /// Adds what a plan of a model may have at most.
    fn put_plan_limits(&self, text: &mut String, index: usize) {
        let limits = self.limits_of_plan(index);
        let (steps, all) = (counted(u64::from(limits.children), "step"), limits.steps);
        let deeper = match limits.depth.saturating_sub(1) {
            0 => "its steps cannot be split again".to_owned(),
            1 => "its steps may be split once more".to_owned(),
            levels => format!("its steps may be split again, {levels} levels deep"),
        };
        let _ = writeln!(
            text,
            "A plan has at most {steps} in one list, and {all} in all; {deeper}."
        );
    }

    /// Adds what was done of a task that a limit stops, what it was given, what became of the offloaded part of its
    /// conversation, and what its model wrote since.
    fn put_unfinished_work(
        &self,
        text: &mut String,
        index: usize,
        detail: Detail,
        sizes: Sizes,
    ) -> Result<(), BodyNeeded> {
        let Some(agent) = self.agent(index) else { return Ok(()) };
        if let Some(reason) = agent.spent {
            let why = self.why_stopped(index, reason);
            let why = why.map_or_else(String::new, |why| format!(" ({why})"));
            let _ = writeln!(text, "Limit reached: {reason}{why}");
        }
        // What is kept of a limit for this call is not much, and what was done matters most.
        let (given, mut done) = self.given_and_done(index, sizes, detail, sizes.digests / GIVEN_LAST)?;
        self.put_given(text, index, &given);
        self.put_answers(text, index, Purpose::HandBack, sizes);
        text.push_str("# Work done\n");
        if done.is_empty() {
            done.push(NO_WORK.to_owned());
        }
        self.put_data(text, index, &done);
        if !agent.offloaded_summary.is_empty() {
            text.push_str("# Earlier conversation\n");
            let summary = without_middle(agent.offloaded_summary.trim_end().to_owned(), sizes.digests, "");
            self.push_data_block(text, index, &summary);
        }
        for (heading, lines) in [
            ("Calls that were not made", agent.refused_calls(sizes.digest)),
            ("What you wrote meanwhile", agent.remarks(sizes.digest)),
        ] {
            if !lines.is_empty() {
                let _ = writeln!(text, "# {heading}");
                self.put_data(text, index, &lines);
            }
        }
        Ok(())
    }

    /// The results that node `index` may build on, and what was done of it. Both share the room for results: what was
    /// given gets what the work leaves, but no more than `given_max`, and a third of that in any case.
    fn given_and_done(
        &self,
        index: usize,
        sizes: Sizes,
        detail: Detail,
        given_max: usize,
    ) -> Result<(Vec<String>, Vec<String>), BodyNeeded> {
        let all_done = self.done_so_far(index, sizes)?;
        if !detail.has_given {
            return Ok((Vec::new(), all_done));
        }
        let left = sizes.digests.saturating_sub(chars_in(&all_done));
        let given = Sizes {
            digests: left.clamp(given_max / 3, given_max),
            ..sizes
        };
        let given = self.results_before(index, given)?;
        let given_chars = chars_in(&given);
        if given_chars <= left {
            return Ok((given, all_done));
        }
        let done = Sizes {
            digests: sizes.digests.saturating_sub(given_chars),
            ..sizes
        };
        Ok((given, self.done_so_far(index, done)?))
    }

    /// Adds the results that node `index` may build on.
    fn put_given(&self, text: &mut String, index: usize, results: &[String]) {
        if !results.is_empty() {
            text.push_str("# Earlier results\n");
            self.put_data(text, index, results);
        }
    }

    /// Adds what is known before node `index` is done or split up.
    fn put_before_work(
        &self,
        text: &mut String,
        index: usize,
        purpose: Purpose,
        detail: Detail,
        sizes: Sizes,
    ) -> Result<(), BodyNeeded> {
        self.put_given(text, index, &self.results_before(index, sizes)?);
        self.put_answers(text, index, purpose, sizes);
        self.put_memory(text, index, detail.memory);
        if purpose == Purpose::Decide {
            if self.wants_plan(index) {
                push_list_item(text, "a plan is required: split this task into steps");
            }
            self.put_plan_limits(text, index);
        } else {
            self.put_place(text, index);
        }
        Ok(())
    }

    /// Adds the results of the steps of node `index`, for combining them or for another plan.
    fn put_step_results(
        &self,
        text: &mut String,
        index: usize,
        purpose: Purpose,
        detail: Detail,
        sizes: Sizes,
    ) -> Result<(), BodyNeeded> {
        let heading = match purpose {
            Purpose::RollUp => self.title(self.nodes[index].id),
            _ => {
                // What the first planner knew, the next one and whoever combines the results have to know, too.
                if detail.has_given {
                    self.put_given(text, index, &self.results_before(index, sizes)?);
                }
                self.put_answers(text, index, purpose, sizes);
                "Step results".to_owned()
            }
        };
        // What is left out of what is combined is lost.
        let sizes = if purpose == Purpose::Replan || !detail.has_given {
            sizes
        } else {
            self.full_sizes(index, purpose, detail)
        };
        let _ = writeln!(text, "# {heading}");
        self.put_data(text, index, &self.digests(&self.inputs_of(index), sizes)?);
        if purpose != Purpose::Replan {
            self.put_memory(text, index, detail.memory);
            return Ok(());
        }
        self.put_plan_so_far(text, index);
        self.put_combined(text, index, sizes);
        push_list(text, "Gaps", &self.gaps_and_doubts(index));
        push_list(
            text,
            "Failed repeatedly: split or give up",
            &self.repeatedly_failed_steps(index),
        );
        self.put_memory(text, index, detail.memory);
        self.put_plan_limits(text, index);
        Ok(())
    }

    /// Adds the names of the steps, where their results are shown only in parts that combine several of them: another
    /// plan may name only the steps.
    fn put_plan_so_far(&self, text: &mut String, index: usize) {
        let inputs = self.inputs_of(index);
        if !inputs.iter().any(|input| self.nodes[*input].kind == NodeKind::RollUp) {
            return;
        }
        let steps = self.with_members(&self.steps_shown(index).collect::<Vec<_>>());
        let line = |at: &usize| {
            let node = &self.nodes[*at];
            let status = node.result.as_ref().map(|result| result.status);
            let status = status.map_or_else(|| "not done".to_owned(), |status| status.to_string());
            format!("{} ({status})", self.view(*at).slug())
        };
        let mut lines: Vec<String> = steps.iter().take(STEPS_NAMED).map(line).collect();
        let more = steps.len().saturating_sub(STEPS_NAMED);
        lines.extend((more > 0).then(|| format!("and {more} more")));
        push_list(text, "Steps of the plan, by the names for needs and drop", &lines);
    }

    /// Adds what came of the plan as a whole, in the words of whoever combined its results.
    fn put_combined(&self, text: &mut String, index: usize, sizes: Sizes) {
        if let Some(proposal) = self.agent(index).and_then(|agent| agent.proposal.as_deref()) {
            text.push_str("# Combined result\n");
            let notes = sizes.without_hints(proposal.notes.clone());
            self.put_data(text, index, &[format!("{}: {notes}", proposal.status)]);
        }
    }

    /// One line for each task around node `index`, from the goal down (E9.2).
    fn goal_chain(&self, index: usize) -> Result<Vec<String>, BodyNeeded> {
        let mut ancestors: Vec<usize> = self
            .self_and_ancestors(index)
            .skip(1)
            .filter(|at| self.nodes[*at].kind.is_task())
            .collect();
        ancestors.reverse();
        let mut lines = Vec::with_capacity(ancestors.len());
        for at in ancestors {
            let goal = if self.nodes[at].parent.is_none() {
                self.goal.clone()
            } else {
                self.words_of(at, Breaks::Kept)?.0
            };
            let criteria = self.criteria_of(at);
            let ids: Vec<&str> = criteria.iter().map(|c| c.id.as_str()).collect();
            let ids = if ids.is_empty() {
                String::new()
            } else {
                format!(" [{}]", ids.join(", "))
            };
            lines.push(format!("{}{ids}", short_line(&goal, 300)));
        }
        if let Some(Step::Task(task)) = &self.nodes[index].step
            && !task.satisfies.is_empty()
        {
            let wanted = self.criteria_wanted(index, &task.satisfies)?;
            lines.push(format!("this task is there to meet {}", wanted.join("; ")));
        }
        Ok(lines)
    }

    /// The criteria `ids` of the task around node `index`, each with its text.
    fn criteria_wanted(&self, index: usize, ids: &[String]) -> Result<Vec<String>, BodyNeeded> {
        let around = self
            .self_and_ancestors(index)
            .skip(1)
            .find(|at| self.nodes[*at].kind.is_task());
        let criteria = around.map(|at| self.criteria_of(at)).unwrap_or_default();
        let with_text = |id: &String| {
            let known = criteria.iter().find(|criterion| criterion.id == *id);
            let Some((at, criterion)) = around.zip(known) else {
                return Ok(id.clone());
            };
            let text = self.fill_criterion(at, &criterion.text, self.sizes(index, Purpose::Work))?;
            Ok(format!("{id} ({})", short_line(&text, 300)))
        };
        ids.iter().map(with_text).collect()
    }

    /// Adds the result that is judged, with what it rests on: what the task was given, what was done, and what the
    /// result names as evidence (E9.6).
    fn put_proposal(&self, text: &mut String, index: usize, detail: Detail, sizes: Sizes) -> Result<(), BodyNeeded> {
        let Some(proposal) = self.agent(index).and_then(|agent| agent.proposal.as_deref()) else {
            return Ok(());
        };
        let output = self.output_needed(&proposal.output)?;
        let notes = sizes.without_hints(without_beginning_of(&proposal.notes, &output));
        let mut lines = vec![format!("{}: {notes}", proposal.status)];
        if !output.is_null() {
            lines.push(format!(
                "output: {}",
                value_excerpt(&output, sizes.answer, &sizes.rest_of(self.nodes[index].id))
            ));
        }
        let evidence = proposal.evidence.iter().take(EVIDENCE_JUDGED);
        let named = |evidence: &Evidence| {
            let at = evidence.id.parse().ok().and_then(|id| self.index(id).ok());
            let path = at.map_or_else(String::new, |at| format!(" ({})", self.nodes[at].path));
            short_line(&format!("evidence: {}{path}", evidence_in_words(evidence)), 200)
        };
        lines.extend(evidence.map(named));
        let (given, mut done) = self.given_and_done(index, sizes, detail, sizes.digests)?;
        self.put_given(text, index, &given);
        self.put_answers(text, index, Purpose::Judge, sizes);
        text.push_str("# Result\n");
        self.put_data(text, index, &lines);
        text.push_str("# Work done\n");
        if done.is_empty() {
            done.push(NO_WORK.to_owned());
        }
        self.put_data(text, index, &done);
        Ok(())
    }

    /// Adds what node `index` is told as data, between tags that nothing inside can close, because their name is
    /// derived from the content. Whoever works on a task reads such tags, and writes what its judge reads (E9.6).
    pub(super) fn push_data_block(&self, text: &mut String, index: usize, inside: &str) {
        text.push_str(&data_block(self.nodes[index].id, inside));
        text.push('\n');
    }

    pub(super) fn put_data(&self, text: &mut String, index: usize, lines: &[String]) {
        let mut inside = String::new();
        lines.iter().for_each(|line| push_list_item(&mut inside, line));
        self.push_data_block(text, index, inside.trim_end());
    }

    /// Adds where the executor's scratchpad is (seed 000).
    fn put_place(&self, text: &mut String, index: usize) {
        let node = self.nodes[index].id;
        let (branch, workspace) = (branch_page(self, node), workspace_page(self.id));
        let _ = writeln!(text, "# Scratchpad");
        let _ = writeln!(
            text,
            "Your executor scratchpad: {branch}. Workspace: {workspace}, of run {}.",
            self.id
        );
    }

    /// Adds a short list of the tools, for a model that decides which one is called first.
    fn put_tools(&self, text: &mut String, index: usize) {
        let Some(equipment) = &self.equipment else { return };
        text.push_str(&self.offered_at(index, equipment).listed);
        let others: Vec<&str> = equipment.others(&self.tool_scope(index)).collect();
        if !others.is_empty() {
            text.push_str("# Other executors: set `executor` to use one instead of the default\n");
            for name in others {
                let of_executor = equipment.executors.get(name).map(|executor| &executor.about);
                let about = if name == HUMAN {
                    equipment.human.as_ref()
                } else {
                    of_executor
                };
                let about = about.map_or("", String::as_str);
                push_list_item(text, &format!("{name}: {}", short_line(about, 200)));
            }
        }
    }
}

/// The number of characters in all `lines`.
fn chars_in(lines: &[String]) -> usize {
    lines.iter().map(|line| line.chars().count()).sum()
}

/// Adds `lines` below a heading, if there are any.
fn push_list(text: &mut String, heading: &str, lines: &[String]) {
    if !lines.is_empty() {
        let _ = writeln!(text, "# {heading}");
        lines.iter().for_each(|line| push_list_item(text, line));
    }
}
