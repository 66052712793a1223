//! What a built-in tool answered, as a model reads it: plain text with a form for each tool. What is recorded stays
//! JSON.
//!
//! - `fields`: takes the values out of an answer; `page`: the lines that are shown, and how they are cut
//! - `files`: `list`, `grep`, `read`, `write`; `programs`: `shell`, `git`, `http_get`, `text`; `results`:
//!   `result_read`; `memory`: tools of the scratchbook
//!
//! Words of others are told apart from the engine's own by their form: each of their lines begins with a number or a
//! path, or all of them are between two fences that are longer than any in them.

mod fields;
mod files;
mod memory;
mod page;
mod programs;
mod results;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::fields::Fields;
use self::page::Page;
use crate::plan::Call;

/// What a model reads of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ToolText {
    pub(super) text: String,
    /// Whether the text says what the notes of the result say.
    pub(super) says_notes: bool,
}

/// The `output` of a `call` as a model reads it below its `notes`, cut to about `max` characters at ends of lines.
/// `rest` says how the rest of a result is read; it is empty if the reader has no tools. `None` if there is no form for
/// it: it is from another tool, or not what the tool of that name answers.
pub(super) fn tool_text(call: &Call, notes: &str, output: &Value, max: usize, rest: &str) -> Option<ToolText> {
    let form = form_of(&call.tool)?;
    let mut fields = Fields::new(output.as_object()?);
    let mut page = Page::new(notes);
    form(&mut fields, &mut page, &call.args)?;
    // What no form knows is told as it is.
    fields.rest().for_each(|line| page.line(line));
    Some(ToolText {
        says_notes: page.says_notes(),
        text: page.cut_to(max, rest),
    })
}

type Form = fn(&mut Fields<'_>, &mut Page, &Value) -> Option<()>;

fn form_of(tool: &str) -> Option<Form> {
    Some(match tool {
        "list" => files::list,
        "grep" => files::grep,
        "read" => files::read,
        "write" => files::write,
        "shell" => programs::shell,
        "git" => programs::git,
        "http_get" => programs::http_get,
        "text" => programs::text,
        "result_read" => results::result_read,
        "scratch_read" | "scratch_add" | "scratch_update" | "scratch_complete" | "scratch_pin" | "scratch_unpin" => {
            memory::scratch
        }
        "observe" => memory::observe,
        "page_append" => memory::page_append,
        _ => return None,
    })
}
