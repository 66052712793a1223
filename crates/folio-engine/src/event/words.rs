//! What happened, in one line for people: the same in a terminal, a trace and a page.

use std::fmt::Write as _;

use folio_memory::counted::counted;
use folio_memory::excerpt::short_line;
use folio_memory::view::is_hidden;

use super::{Always, Event, Question};
use crate::result::{Finding, Verdict};
use crate::run::call_in_words;
use crate::spend::Spend;
use crate::talk::Reply;

/// The most characters of a line.
const LINE_CHARS: usize = 200;

/// `text`, mostly JSON, in which characters that are hidden or change the direction of the text are written as their
/// code point.
pub(crate) fn escape_invisible(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if !is_hidden(c) {
            escaped.push(c);
        } else if c <= '\u{ffff}' {
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            let _ = write!(escaped, "\\u{{{:x}}}", u32::from(c));
        }
    }
    escaped
}

/// `1 message was offloaded`, `2 messages were offloaded`.
pub(crate) fn messages_offloaded(count: u32) -> String {
    let were = if count == 1 { "was" } else { "were" };
    format!("{} {were} offloaded", counted(count.into(), "message"))
}

impl Event {
    /// What the event says beyond its name and node, in one line of at most 200 characters; empty if the name says
    /// everything.
    ///
    /// Calls of tools and results are not described here: they have formats of their own.
    #[must_use]
    pub fn in_words(&self) -> String {
        let text = match self {
            Self::SessionBegan { program, .. } => format!("{program} has a session that it can continue"),
            Self::Asked { purpose, .. } => format!("to {}", purpose.as_str().replace('_', " ")),
            Self::Replied {
                spent,
                model,
                mended,
                reply,
                ..
            } => reply_in_words(reply, spent, model, *mended),
            Self::AskFailed { failure, .. } => failure.message.clone(),
            Self::PassedOn { reason, .. } => format!("the next model is asked: {reason}"),
            Self::Rejected { problems: lines, .. } | Self::SentBack { gaps: lines, .. } => lines.join("; "),
            Self::Decided {
                reason,
                executor: Some(executor),
                ..
            } => format!("assigned to {executor}: {reason}"),
            Self::Decided { by, reason, .. } if by == "model" => format!("execute directly: {reason}"),
            Self::Decided { by, reason, .. } => format!("execute directly ({by}): {reason}"),
            Self::Planned {
                version,
                steps,
                reason,
                awaits,
                ..
            } => {
                let steps = counted(steps.as_array().map_or(0, Vec::len) as u64, "step");
                let approval_note = if *awaits { ", waits for approval" } else { "" };
                format!("plan {version}, {steps}{approval_note}: {reason}")
            }
            Self::PlanApproved { version, by, .. } => format!("plan {version}, approved by {by}"),
            Self::PlanRejected {
                version, reason, by, ..
            } => format!("plan {version}, rejected by {by}: {reason}"),
            Self::ApprovalAsked { approval, .. } if approval.again => approval.in_words(),
            Self::ApprovalAsked { approval, .. } => escape_invisible(&call_in_words(&approval.tool, &approval.args)),
            Self::CallApproved { always, by, .. } => match always {
                None => by.clone(),
                Some(Always::Tool) => format!("{by}, for every call of the tool"),
                Some(Always::Arguments) => format!("{by}, for every call with these arguments"),
            },
            Self::CallRejected { reason, by, .. } => format!("{by}: {reason}"),
            Self::LimitsChanged { limits, by, .. } => format!("{by}: {}", limits.in_words()),
            Self::PlanEdited {
                version,
                difference,
                by,
                ..
            } => format!("plan {version}, edited by {by}: {}", difference.in_words()),
            Self::Wants { calls, refused, .. } => {
                let calls = calls.iter().map(|call| call_in_words(&call.tool, &call.args));
                calls.chain(refused.values().cloned()).collect::<Vec<_>>().join("; ")
            }
            Self::Proposed { proposal, .. } => format!("{}: {}", proposal.status, proposal.notes),
            Self::Checked {
                begins: Some(begins), ..
            } => match begins.commands {
                1 => "a command checks it".to_owned(),
                count => format!("{count} commands check it"),
            },
            Self::Checked { verdicts, .. } => verdicts.iter().map(verdict_in_words).collect::<Vec<_>>().join("; "),
            Self::RollUps { parts, again, .. } => {
                let results: u32 = parts.iter().sum();
                let parts = counted(parts.len() as u64, "part");
                let known = match again.len() {
                    0 => String::new(),
                    known => format!(", {known} of them as before"),
                };
                format!("{results} results are first combined in {parts}{known}")
            }
            Self::Compacted { pieces, .. } => messages_offloaded(*pieces),
            Self::Spent { reason, .. } => format!("{reason}: hands back what it has"),
            Self::Questioned { question, .. } => question_in_words(question),
            Self::Answered { answer, by, .. } => format!("{by}: {answer}"),
            Self::Paused { by, .. } | Self::Continued { by, .. } | Self::CancelRequested { by, .. } => by.clone(),
            Self::RunStarted { .. }
            | Self::Expanded { .. }
            | Self::Started { .. }
            | Self::AttemptFailed { .. }
            | Self::Finished { .. }
            | Self::Briefed { .. }
            | Self::Compacting { .. }
            | Self::Resumed { .. } => String::new(),
            Self::FormatRaised { format } => format!("a newer version continues the run and writes format {format}"),
        };
        short_line(&text, LINE_CHARS)
    }
}

fn reply_in_words(reply: &Reply, spent: &Spend, model: &str, is_mended: bool) -> String {
    let repair_note = if is_mended { "; the answer was repaired" } else { "" };
    let permissions = match reply.permissions.as_slice() {
        [] => String::new(),
        lines => format!("; it asked for permission: {}", lines.join("; ")),
    };
    format!(
        "{} tokens read, {} written ({model}){repair_note}{permissions}",
        spent.tokens_in, spent.tokens_out
    )
}

fn verdict_in_words(verdict: &Verdict) -> String {
    match &verdict.finding {
        Finding::Met => format!("{} met", verdict.criterion),
        Finding::Unmet(gap) => format!("{} unmet: {gap}", verdict.criterion),
        Finding::Unverifiable(why) => format!("{} unverifiable: {why}", verdict.criterion),
    }
}

fn question_in_words(question: &Question) -> String {
    if question.is_task() {
        return format!("a task for a person: {}", question.in_brief(LINE_CHARS));
    }
    if question.options.is_empty() {
        return question.text.clone();
    }
    let options = format!(" [{}]", question.options.join(" | "));
    let room = LINE_CHARS.saturating_sub(options.chars().count());
    format!("{}{options}", question.in_brief(room))
}
