//! Prompts that a person picks to continue work or to hand it over. They are made from memory alone, so the same state
//! gives the same text.

use std::collections::HashSet;

use folio::memory::entry::Status;
use folio::memory::view::{Audience, candidate};
use folio::memory::{Entry, EntryKind};
use folio::store::workspace::{BookFilter, ViewRequest};
use rmcp::model::{GetPromptResult, Prompt, PromptArgument, PromptMessage, Role};

use super::{Caller, tools};
use crate::http::problem::Problem;

/// Stands for the words that tell to pin a note, for those who may.
const AND_PIN_IT: &str = "{and pin it}";
/// The most lines that a section has.
const MAX_SECTION_LINES: usize = 40;

pub(super) fn all(is_bound: bool) -> Vec<Prompt> {
    let arguments = || {
        let thread = PromptArgument::new("thread").with_description("the thread; default: this one");
        (!is_bound).then(|| vec![thread.with_required(false)])
    };
    let prompt = |name: &str, title: &str, description: &str| {
        Prompt::new(name, Some(description), arguments()).with_title(title)
    };
    vec![
        prompt(
            "resume",
            "Continue the work",
            "What is remembered of a thread, and how to continue its work",
        ),
        prompt(
            "handover",
            "Hand over the work",
            "What is remembered of a thread, and how to hand its work over",
        ),
    ]
}

/// Whether there is a prompt called `name`.
pub(super) fn has_prompt(name: &str) -> bool {
    all(true).iter().any(|prompt| prompt.name == name)
}

/// Returns the prompt called `name`, or `None` if there is none.
pub(super) async fn render_prompt(caller: &Caller, name: &str) -> Result<Option<GetPromptResult>, Problem> {
    let (description, before, after) = match name {
        "resume" => (
            "Continue the work",
            "Continue the work of this thread. This is what is remembered of it.",
            "Look up what you need with scratch_read. Then continue with the items that are in progress, or with the first open item, \
             and keep the scratchbook up to date while you work. Ask the user before you do anything that is blocked or needs \
             confirmation.",
        ),
        "handover" => (
            "Hand over the work",
            "Hand over the work of this thread. This is what is remembered of it.",
            "Bring the scratchbook up to date: complete the items that are done and add what is still open, each with what the next \
             worker needs to know. Then add one note with the title \"Handover\"{and pin it}. It says what was wanted, what is done \
             and how that is known, what is open and in which order to do it, what was decided and why, and what went wrong. Name \
             entries by their handles. Write only what you know.",
        ),
        _ => return Ok(None),
    };
    let mut text = format!("{before}\n");
    let request = ViewRequest {
        audience: Some(Audience::Message),
        ..ViewRequest::of(caller.thread.clone())
    };
    let view = caller.workspace.view(request, &caller.tokens).await?;
    let has_scratchbook = caller.workspace.policy().await?.scratchbook.enabled;
    if !has_scratchbook {
        text.push_str("\nScratchbooks are switched off by the policy of the space.\n");
    } else if view.rendered.text.is_empty() {
        text.push_str("\nThe scratchbook is empty.\n");
    } else {
        text.push_str(&format!("\n{}", view.rendered.text));
    }
    // What the view has is not listed again.
    let shown: HashSet<String> = view.rendered.receipt.shown().map(str::to_owned).collect();
    let limit = u32::try_from(MAX_SECTION_LINES).unwrap_or(u32::MAX);
    let goals = caller
        .workspace
        .goals_part(Some(&caller.thread), false, limit, None)
        .await?;
    let total = usize::try_from(goals.total).unwrap_or(usize::MAX);
    let goals: Vec<String> = goals
        .items
        .iter()
        .map(|goal| {
            let (open, closed) = (goal.progress.open, goal.progress.closed);
            format!("{} ({closed} of {} closed)", line(&goal.entry), open + closed)
        })
        .collect();
    section(&mut text, "Goals", &goals, total);
    let open = vec![Status::InProgress, Status::Open, Status::Blocked];
    for (heading, status) in [("Open", open), ("Done", vec![Status::Done])] {
        // To continue the work takes what is left to do, not what is done.
        if heading == "Done" && name == "resume" {
            continue;
        }
        let filter = BookFilter {
            kinds: vec![EntryKind::Task, EntryKind::Todo],
            status,
            limit: MAX_SECTION_LINES + shown.len(),
            ..BookFilter::default()
        };
        let items = caller.workspace.book_items(&caller.thread, filter).await?;
        let read = items.items.len();
        let mut others = items.items;
        others.retain(|entry| !shown.contains(&entry.handle.to_string()));
        let listed_above = read - others.len();
        let total = usize::try_from(items.total).unwrap_or(usize::MAX) - listed_above;
        others.truncate(MAX_SECTION_LINES);
        let lines: Vec<String> = others.iter().map(line).collect();
        let heading = match heading {
            "Open" if listed_above > 0 => "Also open",
            heading => heading,
        };
        section(&mut text, heading, &lines, total);
    }
    let pins = match tools::is_for(caller.actor.role, "scratch_pin") {
        true => " and pin it",
        false => "",
    };
    let after = after.replace(AND_PIN_IT, pins);
    let after = match name {
        _ if has_scratchbook => &*after,
        "resume" => {
            "Continue with what is remembered, and ask the user for what is not. Ask the user before you do anything that needs \
             confirmation."
        }
        _ => {
            "Say in your answer what was wanted, what is done and how that is known, what is open and in which order to do it, what \
             was decided and why, and what went wrong. Say only what you know."
        }
    };
    text.push_str(&format!("\n{after}\n"));
    let message = PromptMessage::new_text(Role::User, text);
    Ok(Some(GetPromptResult::new(vec![message]).with_description(description)))
}

fn line(entry: &Entry) -> String {
    candidate(entry).lengths[1].clone()
}

/// Appends `lines` below a heading, and how many of `total` are left out.
fn section(text: &mut String, heading: &str, lines: &[String], total: usize) {
    if lines.is_empty() {
        return;
    }
    text.push_str(&format!("\n{heading}:\n"));
    for line in lines.iter().take(MAX_SECTION_LINES) {
        text.push_str(&format!("{line}\n"));
    }
    let left = total.saturating_sub(lines.len().min(MAX_SECTION_LINES));
    if left > 0 {
        text.push_str(&format!("+{left} more\n"));
    }
}
