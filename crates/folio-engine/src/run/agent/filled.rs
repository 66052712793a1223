//! The words of a task, filled in: whole, or for a model, which can read the rest of long results.

use std::fmt::Write as _;
use std::sync::Arc;

use folio_memory::canonical::canonical;
use folio_memory::excerpt::{fits, one_line};
use serde_json::Value;

use super::digest::in_words;
use super::sizes::Sizes;
use crate::lines::{ends_line, indented, without_middle};
use crate::plan::{Step, Task};
use crate::run::scope::BodyNeeded;
use crate::run::state::Run;
use crate::template::{self, Breaks, References, Scope, TemplateError, Told};

/// How often what is shown of each expression is halved to fit fenced texts into their room.
const HALVINGS_MAX: u32 = 5;
/// What messages say about the parts of results that were left out: how to read them.
const RESULT_READ: &str = "result_read returns full results";

impl Run {
    /// The title and description of a node, filled in, the latter with the `breaks` of others.
    pub(super) fn words_of(&self, index: usize, breaks: Breaks) -> Result<(String, String), BodyNeeded> {
        let task = match self.agent(index) {
            Some(agent) => Arc::clone(&agent.task),
            None => self.task_of_model(index),
        };
        Ok((
            self.prompt_title(index, &task, None)?,
            self.filled_in(index, &task.description, None, breaks)?,
        ))
    }

    /// The title of node `index`, whose task is `task`, for whoever does it. Unlike in lists, it is whole; but
    /// what others wrote has no lines.
    pub(super) fn prompt_title(&self, index: usize, task: &Task, sizes: Option<Sizes>) -> Result<String, BodyNeeded> {
        if self.nodes[index].parent.is_none() || !template::is_template(&task.title) {
            return Ok(task.title.clone());
        }
        let title = self.filled_in(index, &task.title, sizes, Breaks::OneLine)?;
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
            // Only as JSON a text of several lines is on one line.
            let words = match in_words(item) {
                words if words.contains(ends_line) => one_line(&canonical(item.clone()).to_string()),
                words => words,
            };
            let _ = writeln!(text, "Item: {words}");
        }
    }

    fn unnamed_item(&self, index: usize, task: &Task) -> Option<&Value> {
        // Only the frame of a list's body has variables: that of a plan inside it has none.
        let (name, item) = self.frames[self.nodes[index].frame?].variables.first()?;
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

    /// A template of node `index`, filled in, with what others wrote on one line; unchanged if that is not possible.
    pub(super) fn filled_line(&self, index: usize, text: &str) -> Result<String, BodyNeeded> {
        self.filled_in(index, text, None, Breaks::OneLine)
    }

    /// Like [`Run::filled_line`], for a model: of long results it gets the beginning and the end, because it can read
    /// the rest (E9.2). Inputs, and what people wrote, are in no other place.
    pub(super) fn excerpted_line(&self, index: usize, text: &str, sizes: Sizes) -> Result<String, BodyNeeded> {
        self.filled_in(index, text, Some(sizes), Breaks::OneLine)
    }

    /// Like [`Run::excerpted_line`], but what others wrote in several lines is fenced as data.
    pub(super) fn excerpted_block(&self, index: usize, text: &str, sizes: Sizes) -> Result<String, BodyNeeded> {
        self.filled_in(index, text, Some(sizes), Breaks::Fenced(self.nodes[index].id))
    }

    fn filled_in(&self, index: usize, text: &str, sizes: Option<Sizes>, breaks: Breaks) -> Result<String, BodyNeeded> {
        if !template::is_template(text) {
            return Ok(text.to_owned());
        }
        let references = template::references_of_text(text).unwrap_or_default();
        let scope = self.scope(index, &references, Vec::new())?;
        Ok(self.render_in_scope(text, &references, &scope, sizes, breaks))
    }

    /// Like [`Run::excerpted_line`], for a criterion of node `index`, which may also name the node's own result (E9.6).
    pub(super) fn fill_criterion(&self, index: usize, text: &str, sizes: Sizes) -> Result<String, BodyNeeded> {
        if !template::is_template(text) {
            return Ok(text.to_owned());
        }
        let references = template::references_of_text(text).unwrap_or_default();
        let own = self.own_result(index, &references)?;
        let scope = self.scope_of_criteria(index, &references, own)?;
        Ok(self.render_in_scope(text, &references, &scope, Some(sizes), Breaks::OneLine))
    }

    fn render_in_scope(
        &self,
        text: &str,
        references: &References,
        scope: &Scope,
        sizes: Option<Sizes>,
        breaks: Breaks,
    ) -> String {
        let reads_own = references.variables.contains("result");
        let reads_results = reads_own || references.all_results || !references.results.is_empty();
        let Ok(whole) = self.templates.render_text(text, scope) else {
            return text.to_owned();
        };
        let breaks = match references.include_others() && whole.contains(ends_line) {
            true => breaks,
            false => Breaks::Kept,
        };
        let sizes = sizes.filter(|_| reads_results);
        let rendered = match sizes.filter(|sizes| !fits(&whole, sizes.digests)) {
            None if breaks == Breaks::Kept => Ok(whole),
            None => self.templates.render_told(text, scope, Told::whole(breaks)),
            Some(sizes) => {
                // What the author wrote, and the inputs, do not count against the room for results.
                let inputs = references.inputs.iter().filter_map(|name| self.inputs.get(name));
                let fixed_chars = text.len() + inputs.map(|input| input.to_string().len()).sum::<usize>();
                self.render_within(text, scope, sizes, sizes.digests + fixed_chars, breaks)
            }
        };
        let rendered = rendered.unwrap_or_else(|_| text.to_owned());
        match sizes {
            Some(sizes) => sizes.without_hints(rendered),
            None => rendered,
        }
    }

    /// `text` filled in with excerpts, in at most about `max` characters.
    fn render_within(
        &self,
        text: &str,
        scope: &Scope,
        sizes: Sizes,
        max: usize,
        breaks: Breaks,
    ) -> Result<String, TemplateError> {
        let rest = sizes.hint(RESULT_READ);
        let render = |max: usize, breaks: Breaks| self.templates.render_told(text, scope, Told { max, rest, breaks });
        if let Breaks::Fenced(_) = breaks {
            // A text that is cut between two tags has no fence: more is cut of each expression instead.
            for halvings in 0..HALVINGS_MAX {
                let rendered = render(sizes.answer >> halvings, breaks)?;
                if fits(&rendered, max) {
                    return Ok(rendered);
                }
            }
        }
        let on_lines = if breaks == Breaks::Kept {
            breaks
        } else {
            Breaks::OneLine
        };
        Ok(without_middle(render(sizes.answer, on_lines)?, max, rest))
    }
}

/// What `template` was `filled` in with, to stand among lines with headings: no line of it that others may have written
/// begins as such a line does.
pub(super) fn beside_headings(template: &str, filled: &str) -> String {
    let references = template::references_of_text(template).unwrap_or_default();
    if !references.include_others() {
        return filled.to_owned();
    }
    let is_heading = template.starts_with('{') && filled.starts_with(|c: char| !c.is_alphanumeric());
    format!("{}{}", if is_heading { "  " } else { "" }, indented(filled))
}
