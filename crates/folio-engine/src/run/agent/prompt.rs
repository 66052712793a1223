//! What a model reads: rules, the task with everything around it, the conversation (E9.2, seed 000).
//!
//! The same run gives the same bytes, in whatever order things ended: results are in plan order. What changes from call
//! to call comes last, so that providers find the beginning in their caches.

use folio_memory::excerpt::short_line;
use folio_memory::tokens::Tokens;
use folio_memory::view;

use super::detail::Detail;
use super::digest::collect_loaded;
use super::offer::{Offered, first_sentence};
use super::rules::{COMMON, rules};
use super::sizes::Sizes;
use super::{Equipment, Stage, TalkEntry, people};
use crate::event::BookView;
use crate::lines::push_list_item;
use crate::run::scope::BodyNeeded;
use crate::run::state::Run;
use crate::talk::{Message, ModelRole, Purpose, ToolOffer};

/// The tokens that a message costs in addition to its text.
pub(super) const MESSAGE_OVERHEAD_TOKENS: u64 = 6;
/// The most characters about a tool in the list that an executor reads beside the definitions.
const ABOUT_CHARS: usize = 60;
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
    /// Everything that a model reads when it is asked for node `index` and `purpose`, in as much `detail` as there is
    /// room for.
    pub(super) fn messages(&self, index: usize, purpose: Purpose, detail: Detail) -> Result<Vec<Message>, BodyNeeded> {
        let works_alone = self.works_alone(index, purpose.role());
        let goes_on = matches!(purpose, Purpose::Decide | Purpose::Work | Purpose::Replan);
        let system = self.system_prompt(index, purpose, works_alone, detail);
        let book = self.agent(index).and_then(|agent| agent.book.as_deref());
        let (system, book_message) = match book.filter(|_| goes_on && detail.has_book) {
            Some(book) => place_view(system, book),
            None => (system, None),
        };
        let task = self.task_block(index, purpose, detail)?;
        let mut messages = vec![Message::system(system), Message::user(task)];
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
        messages.extend(book_message.map(Message::user));
        if let Some(warning) = self.warning(index).filter(|_| goes_on) {
            messages.push(Message::user(warning));
        }
        Ok(messages)
    }

    /// The rules for `purpose`, and what an executor that calls tools is told about them.
    fn system_prompt(&self, index: usize, purpose: Purpose, works_alone: bool, detail: Detail) -> String {
        let mut system = rules_for(purpose, works_alone);
        if let Some(equipment) = self
            .equipment
            .as_ref()
            .filter(|_| purpose == Purpose::Work && !works_alone)
        {
            let offered = self.offered_at(index, equipment);
            if detail.has_tool_list {
                system.push_str(&offered.told);
            } else {
                system.push_str(&left_out_of(&offered));
            }
        }
        system
    }

    /// The conversation in the current stage of node `index`, as a model reads it, without the offloaded part.
    pub(super) fn talk(&self, index: usize) -> Result<Vec<Message>, BodyNeeded> {
        let talk = self.agent(index).map_or(&[][..], |agent| &agent.talk);
        let is_told_elsewhere = self.works_alone(index, ModelRole::Executor);
        collect_loaded(talk.iter().map(|entry| match entry {
            TalkEntry::Message(message) if is_told_elsewhere => Ok(message.clone()),
            TalkEntry::Message(message) => Ok(self.bounded(index, message.clone())),
            TalkEntry::Result { id, node } => Ok(Message::tool(id, self.answer_of(*node, index)?)),
        }))
    }

    /// What replaces the offloaded part of the conversation: a summary, and a line for each call, the last ones if
    /// there are many. With the id of a call, its whole result can be read.
    fn before_block(&self, index: usize) -> String {
        let mut text = String::from("# Earlier conversation\n");
        let Some(agent) = self.agent(index) else { return text };
        self.push_data_block(&mut text, index, agent.offloaded_summary.trim_end());
        let mut left = self.sizes(index, Purpose::Work).digest * 3;
        let mut lines = Vec::new();
        for (listed, action) in agent.offloaded_calls.iter().rev().enumerate() {
            let node = &self.nodes[*action];
            let Some(result) = &node.result else { continue };
            let summary = short_line(
                &format!("{} -> {} {}", self.wanted_call(*action), result.status, result.notes),
                200,
            );
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

    /// How long texts may be for whoever is asked for node `index` and `purpose`, if there is room for all of them.
    pub(super) fn full_sizes(&self, index: usize, purpose: Purpose, detail: Detail) -> Sizes {
        match purpose {
            Purpose::Decide | Purpose::Work => self.sizes(index, purpose),
            Purpose::Aggregate | Purpose::RollUp | Purpose::Judge | Purpose::Replan | Purpose::HandBack => {
                self.sizes(index, purpose).without_tools(detail.is_long)
            }
        }
    }

    /// How long texts may be for whoever is asked for node `index` and `purpose`, with tools: each has a window of its
    /// own, also an executor that the task names and a model that stands in for another.
    pub(super) fn sizes(&self, index: usize, purpose: Purpose) -> Sizes {
        let asked = self.model_for(index, purpose.role());
        Sizes {
            can_read: self.has_tools_at(index),
            ..Sizes::of(asked.map_or(u32::MAX, |(model, _)| model.window))
        }
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
}

/// The rules for `purpose`.
pub(super) fn rules_for(purpose: Purpose, works_alone: bool) -> String {
    format!("{}\n\n{COMMON}", rules(purpose, works_alone))
}

/// What an executor is told about its tools in addition to their definitions, which say everything else about them: a
/// line for each.
pub(super) fn tools_prompt(equipment: &Equipment, offered: &Offered) -> String {
    let mut text = String::new();
    if equipment.book.includes_tool_list() {
        text.push_str("\n\n# Tools\n");
        for tool in &*offered.tools {
            let about = short_line(first_sentence(&tool.description), ABOUT_CHARS);
            push_list_item(&mut text, &format!("{}: {about}", tool.name));
        }
    }
    text + &left_out_of(offered)
}

/// Which tools an executor cannot call because they are not offered; empty if all are.
fn left_out_of(offered: &Offered) -> String {
    if offered.left_out.is_empty() {
        return String::new();
    }
    format!(
        "\n\nThese tools do not fit into your context window and cannot be called: {}.",
        offered.left_out.join(", ")
    )
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
