//! What a model reads: rules, the task with everything around it, the conversation (E9.2, seed 000).
//!
//! The same run gives the same bytes, in whatever order things ended: results are in plan order. What changes from call
//! to call comes last, so that providers find the beginning in their caches.

use std::fmt::Write as _;

use folio_memory::canonical::canonical;
use folio_memory::excerpt::{fits, short_line};
use folio_memory::tokens::Tokens;
use folio_memory::view;
use serde_json::Value;

use super::digest::{collect_loaded, in_words, value_excerpt};
use super::offer::Offered;
use super::rules::{COMMON, rules};
use super::sizes::Sizes;
use super::{Equipment, Stage, TalkEntry, people};
use crate::event::BookView;
use crate::lines::{push_list_item, without_middle};
use crate::plan::{Budget, Check, HUMAN, Step, Task};
use crate::projection::{branch_page, workspace_page};
use crate::run::scope::BodyNeeded;
use crate::run::state::Run;
use crate::run::tree::NodeKind;
use crate::talk::{Message, ModelRole, Purpose, ToolOffer};
use crate::template::{self, RESULT_READ, References, Scope};

/// The tokens that a message costs in addition to its text.
pub(super) const MESSAGE_OVERHEAD_TOKENS: u64 = 6;
/// The percentages of a budget at which a model is warned (E9.10).
const WARNINGS: [u64; 3] = [95, 80, 50];

/// The estimated cost of `messages` in tokens, rather too high than too low.
pub(super) fn cost(messages: &[Message], tokens: &dyn Tokens) -> u64 {
    let text = |text: &str| u64::from(tokens.count(text));
    let costs = messages.iter().map(|message| {
        let calls = message
            .calls
            .iter()
            .map(|call| text(&call.tool) + text(&call.args.to_string()) + MESSAGE_OVERHEAD_TOKENS);
        text(&message.text) + calls.sum::<u64>() + MESSAGE_OVERHEAD_TOKENS
    });
    costs.sum()
}

impl Run {
    /// Everything that a model reads when it is asked for node `index` and `purpose`.
    pub(super) fn messages(&self, index: usize, purpose: Purpose) -> Result<Vec<Message>, BodyNeeded> {
        let works_alone = self.works_alone(index, purpose.role());
        let mut system = format!("{}\n\n{COMMON}", rules(purpose, works_alone));
        if let Some(equipment) = self
            .equipment
            .as_ref()
            .filter(|_| purpose == Purpose::Work && !works_alone)
        {
            let executor = self.executor_of(index).map(|(_, executor)| executor);
            system.push_str(&equipment.offered(executor).told);
        }
        let book = self.agent(index).and_then(|agent| agent.book.as_deref());
        let (system, tail) = match book.filter(|_| matches!(purpose, Purpose::Decide | Purpose::Work | Purpose::Replan))
        {
            Some(book) => place_view(system, book),
            None => (system, None),
        };
        let mut messages = vec![Message::system(system), Message::user(self.task_block(index, purpose)?)];
        let Some(agent) = self.agent(index) else {
            return Ok(messages);
        };
        let is_talking = match purpose {
            Purpose::Decide => agent.stage == Stage::Deciding,
            Purpose::Work => true,
            Purpose::Aggregate | Purpose::RollUp | Purpose::Replan => {
                matches!(agent.stage, Stage::Aggregating | Stage::Replanning)
            }
            // What a judge sees is data, and what is handed back is reported, not continued.
            Purpose::Judge | Purpose::HandBack => false,
        };
        if is_talking {
            if !agent.offloaded_summary.is_empty() {
                messages.push(Message::user(self.before_block(index)));
            }
            let talk = self.talk(index)?.into_iter();
            // A program may read answers word for word, because it is told them elsewhere.
            messages.extend(talk.map(|message| {
                if works_alone {
                    people::without_name(message)
                } else {
                    message
                }
            }));
        }
        if matches!(purpose, Purpose::Judge | Purpose::HandBack) {
            messages.extend(agent.side_talk.iter().filter_map(|entry| match entry {
                TalkEntry::Message(message) => Some(message.clone()),
                TalkEntry::Result { .. } => None,
            }));
        }
        messages.extend(tail.map(Message::user));
        let goes_on = matches!(purpose, Purpose::Decide | Purpose::Work | Purpose::Replan);
        if let Some(warning) = self.warning(index).filter(|_| goes_on) {
            messages.push(Message::user(warning));
        }
        Ok(messages)
    }

    /// The conversation in the current stage of node `index`, as a model reads it, without the offloaded part.
    pub(super) fn talk(&self, index: usize) -> Result<Vec<Message>, BodyNeeded> {
        let talk = self.agent(index).map_or(&[][..], |agent| &agent.talk);
        let is_told_elsewhere = self.works_alone(index, ModelRole::Executor);
        collect_loaded(talk.iter().map(|entry| match entry {
            TalkEntry::Message(message) if is_told_elsewhere => Ok(message.clone()),
            TalkEntry::Message(message) => Ok(self.bounded(message.clone())),
            TalkEntry::Result { id, node } => Ok(Message::tool(id, self.answer_of(*node)?)),
        }))
    }

    /// What replaces the offloaded part of the conversation: a summary, and a line for each call, the last ones if
    /// there are many. With the id of a call, its whole result can be read.
    fn before_block(&self, index: usize) -> String {
        let mut text = String::from("# Earlier conversation\n");
        let Some(agent) = self.agent(index) else { return text };
        self.push_data_block(&mut text, index, agent.offloaded_summary.trim_end());
        let mut left = self.sizes(Purpose::Work).digest * 3;
        let mut lines = Vec::new();
        for (listed, action) in agent.offloaded_calls.iter().rev().enumerate() {
            let node = &self.nodes[*action];
            let Some(result) = &node.result else { continue };
            let summary = short_line(&format!("{} -> {} {}", node.call, result.status, result.notes), 200);
            let line = format!("{summary} [tool_call {}]", node.id);
            let Some(rest) = left.checked_sub(line.chars().count()) else {
                lines.push(format!("and {} earlier calls", agent.offloaded_calls.len() - listed));
                break;
            };
            left = rest;
            lines.push(line);
        }
        if !lines.is_empty() {
            lines.reverse();
            text.push_str("# Earlier calls; read their results with result_read\n");
            self.put_data(&mut text, index, &lines);
        }
        text
    }

    /// How long texts may be for the model that is asked for `purpose`.
    pub(super) fn sizes(&self, purpose: Purpose) -> Sizes {
        let window = self
            .equipment
            .as_ref()
            .map_or(u32::MAX, |equipment| equipment.model(purpose.role()).window);
        Sizes::of(window)
    }

    /// The warning that is due, as the percentage used of the fullest budget.
    pub(super) fn warning_step(&self, index: usize) -> Option<u64> {
        let spent = self.per_cent_spent(index);
        WARNINGS.into_iter().find(|step| spent >= *step)
    }

    /// What a model is told when much of its budget is used.
    fn warning(&self, index: usize) -> Option<String> {
        let agent = self.agent(index)?;
        let step = if agent.is_repeating {
            agent.warned
        } else {
            self.warning_step(index)
        }?;
        Some(format!(
            "More than {step} per cent of the budget for this task is used. Finish before it runs out."
        ))
    }

    fn task_block(&self, index: usize, purpose: Purpose) -> Result<String, BodyNeeded> {
        let mut text = String::new();
        let Some(agent) = self.agent(index) else {
            return Ok(text);
        };
        let task = &agent.task;
        // A roll-up is a part of the task around it.
        let of = match self.nodes[index].parent {
            Some(parent) if self.nodes[index].kind == NodeKind::RollUp => parent,
            _ => index,
        };
        let chain = self.goal_chain(of)?;
        if !chain.is_empty() {
            text.push_str("# Part of\n");
            chain.iter().for_each(|line| push_list_item(&mut text, line));
        }
        let sizes = self.sizes(purpose);
        let title = self.prompt_title(of, task, Some(sizes))?;
        let description = self.excerpted(of, &task.description, sizes)?;
        let _ = write!(text, "# Task\n{title}\n");
        if !description.is_empty() && description != title {
            text.push_str(&description);
            text.push('\n');
        }
        if !task.reason.is_empty() {
            let _ = writeln!(text, "Why: {}", self.excerpted(of, &task.reason, sizes)?);
        }
        self.put_unnamed_item(&mut text, of, task);
        if self.nodes[of].parent.is_none() && self.inputs.as_object().is_some_and(|inputs| !inputs.is_empty()) {
            let _ = writeln!(text, "Inputs: {}", canonical((*self.inputs).clone()));
        }
        if !task.criteria.is_empty() {
            text.push_str("# Criteria\n");
            for criterion in &task.criteria {
                let check_note = match &criterion.check {
                    Check::Judge => String::new(),
                    check => format!(" [checked: {}]", check.describe()),
                };
                let optional = if criterion.required { "" } else { " (optional)" };
                let criterion_text = self.fill_criterion(of, &criterion.text, sizes)?;
                push_list_item(
                    &mut text,
                    &format!("{}: {criterion_text}{optional}{check_note}", criterion.id),
                );
            }
        }
        // As planned, and with the task's share as it was at its start: what is left of the limits depends on which
        // task was quicker.
        let shared = self.nodes[of].shared.as_deref().copied().unwrap_or_default();
        let budget = task.budget.within(&shared);
        if budget != Budget::default() && matches!(purpose, Purpose::Decide | Purpose::Work | Purpose::Replan) {
            let limits = canonical(serde_json::to_value(&budget).unwrap_or_default());
            let _ = writeln!(text, "Budget, including all subtasks: {limits}");
        }
        if matches!(purpose, Purpose::Replan | Purpose::Work) && !agent.rejected_plans.is_empty() {
            text.push_str("# Plans rejected by a person\n");
            agent
                .rejected_plans
                .iter()
                .for_each(|line| push_list_item(&mut text, line));
        }
        match purpose {
            Purpose::Decide | Purpose::Work => {
                let results = self.results_before(index, sizes)?;
                if !results.is_empty() {
                    text.push_str("# Earlier results\n");
                    self.put_data(&mut text, index, &results);
                }
                self.put_answers(&mut text, index, sizes);
                self.put_memory(&mut text, index);
                if purpose == Purpose::Decide && self.wants_plan(index) {
                    push_list_item(&mut text, "a plan is required: split this task into steps");
                }
                if purpose == Purpose::Decide {
                    self.put_tools(index, &mut text);
                } else {
                    self.put_place(index, &mut text);
                }
            }
            Purpose::Aggregate | Purpose::RollUp | Purpose::Replan => {
                let part = match purpose {
                    Purpose::RollUp => self.title(self.nodes[index].id),
                    _ => "Step results".to_owned(),
                };
                let _ = writeln!(text, "# {part}");
                let results = self.digests(&self.inputs_of(index), self.sizes(purpose))?;
                self.put_data(&mut text, index, &results);
                if purpose == Purpose::Replan {
                    self.put_combined(&mut text, index);
                    let gaps = self.gaps(index);
                    if !gaps.is_empty() {
                        text.push_str("# Gaps\n");
                        gaps.iter().for_each(|line| push_list_item(&mut text, line));
                    }
                    let repeated_failures = self.repeatedly_failed_steps(index);
                    if !repeated_failures.is_empty() {
                        text.push_str("# Failed repeatedly: split or give up\n");
                        repeated_failures
                            .iter()
                            .for_each(|line| push_list_item(&mut text, line));
                    }
                    self.put_answers(&mut text, index, self.sizes(purpose));
                }
                self.put_memory(&mut text, index);
                if purpose == Purpose::Replan {
                    self.put_tools(index, &mut text);
                }
            }
            Purpose::Judge => self.put_proposal(&mut text, index)?,
            Purpose::HandBack => {
                text.push_str("# Work done\n");
                self.put_data(&mut text, index, &self.done_so_far(index, self.sizes(purpose))?);
            }
        }
        Ok(text)
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
                self.words_of(at)?.0
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
        let mut around = self.self_and_ancestors(index).skip(1);
        let criteria = around.find(|at| self.nodes[*at].kind.is_task());
        let criteria = criteria.map(|at| (at, self.criteria_of(at)));
        let with_text = |id: &String| {
            let Some((at, criteria)) = &criteria else {
                return Ok(id.clone());
            };
            let Some(criterion) = criteria.iter().find(|criterion| criterion.id == *id) else {
                return Ok(id.clone());
            };
            let text = self.fill_criterion(*at, &criterion.text, self.sizes(Purpose::Work))?;
            Ok(format!("{id} ({})", short_line(&text, 300)))
        };
        ids.iter().map(with_text).collect()
    }

    /// The title and description of a node, filled in.
    pub(super) fn words_of(&self, index: usize) -> Result<(String, String), BodyNeeded> {
        let task = match self.agent(index) {
            Some(agent) => std::sync::Arc::clone(&agent.task),
            None => self.task_of_model(index),
        };
        Ok((
            self.prompt_title(index, &task, None)?,
            self.filled(index, &task.description)?,
        ))
    }

    /// The title of node `index`, whose task is `task`, for whoever does it. Unlike in lists, it is whole.
    fn prompt_title(&self, index: usize, task: &Task, sizes: Option<Sizes>) -> Result<String, BodyNeeded> {
        if self.nodes[index].parent.is_none() || !template::is_template(&task.title) {
            return Ok(task.title.clone());
        }
        let title = self.filled_in(index, &task.title, sizes)?;
        Ok(title.trim().to_owned())
    }

    /// What of the words of node `index`, which a model or a person is to do, cannot be filled in, and why.
    pub(super) fn unfillable_words(&self, index: usize) -> Result<Option<String>, BodyNeeded> {
        let Some(Step::Task(task)) = &self.nodes[index].step else {
            return Ok(None);
        };
        let words = [
            ("title", &task.title),
            ("description", &task.description),
            ("reason", &task.reason),
        ];
        for (key, text) in words.into_iter().filter(|(_, text)| template::is_template(text)) {
            let references = template::references_of_text(text).unwrap_or_default();
            let scope = self.scope(index, &references, Vec::new())?;
            if let Err(error) = self.templates.render_text(text, &scope) {
                return Ok(Some(format!("its {key} cannot be filled in: {error}")));
            }
        }
        Ok(None)
    }

    /// Adds the item of a list that node `index` is done for, if none of its own words names it: whoever does it has to
    /// know which one it is.
    pub(super) fn put_unnamed_item(&self, text: &mut String, index: usize, task: &Task) {
        if let Some(item) = self.unnamed_item(index, task) {
            let _ = writeln!(text, "Item: {}", in_words(item));
        }
    }

    fn unnamed_item(&self, index: usize, task: &Task) -> Option<&Value> {
        let node = &self.nodes[index];
        if self.nodes[node.parent?].kind != NodeKind::ForEach {
            return None;
        }
        let (name, item) = self.frames[node.frame?].variables.first()?;
        let criteria = task.criteria.iter().map(|criterion| &criterion.text);
        let mut words = [&task.title, &task.description, &task.reason]
            .into_iter()
            .chain(criteria);
        let is_named = words.any(|text| {
            let references = template::references_of_text(text).unwrap_or_default();
            references.variables.contains(name)
        });
        (!is_named).then_some(item)
    }

    /// A template of node `index`, filled in; unchanged if that is not possible.
    pub(super) fn filled(&self, index: usize, text: &str) -> Result<String, BodyNeeded> {
        self.filled_in(index, text, None)
    }

    /// Like [`Run::filled`], for a model: of long results it gets the beginning and the end, because it can read the
    /// rest (E9.2). Inputs, and what people wrote, are in no other place.
    fn excerpted(&self, index: usize, text: &str, sizes: Sizes) -> Result<String, BodyNeeded> {
        self.filled_in(index, text, Some(sizes))
    }

    fn filled_in(&self, index: usize, text: &str, sizes: Option<Sizes>) -> Result<String, BodyNeeded> {
        if !template::is_template(text) {
            return Ok(text.to_owned());
        }
        let references = template::references_of_text(text).unwrap_or_default();
        let scope = self.scope(index, &references, Vec::new())?;
        Ok(self.render_in_scope(text, &references, &scope, sizes))
    }

    /// Like [`Run::excerpted`], for a criterion of node `index`, which may also name the node's own result (E9.6).
    fn fill_criterion(&self, index: usize, text: &str, sizes: Sizes) -> Result<String, BodyNeeded> {
        if !template::is_template(text) {
            return Ok(text.to_owned());
        }
        let references = template::references_of_text(text).unwrap_or_default();
        let own = self.own_result(index, &references)?;
        let scope = self.words_scope(index, &references, own)?;
        Ok(self.render_in_scope(text, &references, &scope, Some(sizes)))
    }

    fn render_in_scope(&self, text: &str, references: &References, scope: &Scope, sizes: Option<Sizes>) -> String {
        let reads_own = references.variables.contains("result");
        let reads_results = reads_own || references.all_results || !references.results.is_empty();
        let rendered = self.templates.render_text(text, scope);
        let rendered = match (sizes.filter(|_| reads_results), rendered) {
            (Some(sizes), Ok(whole)) if !fits(&whole, sizes.digests) => {
                // What the author wrote, and the inputs, do not count against the room for results.
                let inputs = references.inputs.iter().filter_map(|name| self.inputs.get(name));
                let fixed_chars = text.len() + inputs.map(|input| input.to_string().len()).sum::<usize>();
                let max = sizes.digests + fixed_chars;
                let excerpts = self.templates.render_excerpts(text, scope, sizes.answer);
                excerpts.map(|text| without_middle(text, max, RESULT_READ))
            }
            (_, rendered) => rendered,
        };
        rendered.unwrap_or_else(|_| text.to_owned())
    }

    fn put_proposal(&self, text: &mut String, index: usize) -> Result<(), BodyNeeded> {
        let Some(proposal) = self.agent(index).and_then(|agent| agent.proposal.as_deref()) else {
            return Ok(());
        };
        let output = self.output_needed(&proposal.output)?;
        let sizes = self.sizes(Purpose::Judge);
        let mut lines = vec![format!("{}: {}", proposal.status, proposal.notes)];
        if !output.is_null() {
            lines.push(format!(
                "output: {}",
                value_excerpt(&output, sizes.answer, self.nodes[index].id)
            ));
        }
        text.push_str("# Result\n");
        self.put_data(text, index, &lines);
        text.push_str("# Work done\n");
        self.put_data(text, index, &self.done_so_far(index, sizes)?);
        Ok(())
    }

    /// Adds what came of the plan as a whole, in the words of whoever combined its results.
    fn put_combined(&self, text: &mut String, index: usize) {
        if let Some(proposal) = self.agent(index).and_then(|agent| agent.proposal.as_deref()) {
            text.push_str("# Combined result\n");
            self.put_data(text, index, &[format!("{}: {}", proposal.status, proposal.notes)]);
        }
    }

    /// Adds what node `index` is told as data, between tags that nothing inside can close, because their name is
    /// derived from the content. Whoever works on a task reads such tags, and writes what its judge reads (E9.6).
    pub(super) fn push_data_block(&self, text: &mut String, index: usize, inside: &str) {
        let tag = format!("data-{}", self.nodes[index].id.child(0, "data", inside));
        let _ = writeln!(text, "<{tag}>\n{inside}\n</{tag}>");
    }

    fn put_data(&self, text: &mut String, index: usize, lines: &[String]) {
        let mut inside = String::new();
        lines.iter().for_each(|line| push_list_item(&mut inside, line));
        self.push_data_block(text, index, inside.trim_end());
    }

    /// Adds where the executor's scratchpad is (seed 000).
    fn put_place(&self, index: usize, text: &mut String) {
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
    fn put_tools(&self, index: usize, text: &mut String) {
        let Some(equipment) = &self.equipment else { return };
        let assigned = self.executor_of(index).map(|(_, executor)| executor);
        text.push_str(&equipment.offered(assigned).listed);
        if equipment.others().next().is_some() {
            text.push_str("# Other executors: set `executor` to use one instead of the default\n");
            let descriptions = equipment
                .executors
                .iter()
                .map(|(name, executor)| (name.as_str(), &executor.about));
            for (name, about) in descriptions.chain(equipment.human.iter().map(|about| (HUMAN, about))) {
                push_list_item(text, &format!("{name}: {}", short_line(about, 200)));
            }
        }
    }
}

/// What an executor is told about its tools in addition to their definitions.
pub(super) fn tools_prompt(equipment: &Equipment, offered: &Offered) -> String {
    let mut text = String::new();
    if equipment.book.includes_tool_list() {
        text.push_str("\n\n");
        text.push_str(&offered.listed);
    }
    if !offered.left_out.is_empty() {
        let _ = write!(
            text,
            "\n\nThese tools do not fit into your context window and cannot be called: {}.",
            offered.left_out.join(", ")
        );
    }
    text
}

/// A line for each of `tools`, below a heading.
pub(super) fn list_of(tools: &[ToolOffer]) -> String {
    let mut text = "# Tools\n".to_owned();
    for tool in tools {
        let args = tool.args_schema["properties"].as_object();
        let args: Vec<&str> = args.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        let about = short_line(&tool.description, 200);
        push_list_item(&mut text, &format!("{}({}): {about}", tool.name, args.join(", ")));
    }
    text
}

/// `system` with a view of the scratchbook in it, or with the message that holds the view after all others (M7.8 V6).
fn place_view(system: String, book: &BookView) -> (String, Option<String>) {
    let request = view::Request {
        system,
        messages: Vec::new(),
    };
    let mut placed = view::place(request, &book.text, book.placement);
    (placed.system, placed.messages.pop().map(|message| message.content))
}
