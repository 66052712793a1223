//! What whoever wrote an answer that cannot be used reads when it is asked for again (E9.13). Whatever was written, there has to be room for that.

use folio_memory::excerpt::cut;

use super::schema;
use crate::talk::Purpose;

/// Characters that are shown of such an answer.
const ANSWER_CHARS: usize = 16_000;
/// Problems that are told of it.
const PROBLEMS_TOLD: usize = 60;
/// Characters of one of them.
const PROBLEM_CHARS: usize = 600;

/// What is shown of the answer `text`.
pub(super) fn shown(text: &str) -> String {
    cut(text, ANSWER_CHARS)
}

/// That the `problems` of what was answered to `purpose` are to be put right, and the part of its form that they are about.
pub(super) fn put_right(purpose: Purpose, problems: &[String]) -> String {
    let mut told: Vec<String> = problems
        .iter()
        .take(PROBLEMS_TOLD)
        .map(|problem| cut(problem, PROBLEM_CHARS))
        .collect();
    if problems.len() > PROBLEMS_TOLD {
        told.push(format!("and {} more", problems.len() - PROBLEMS_TOLD));
    }
    let listed = listed(&told);
    let form = schema::fragment(purpose, problems)
        .map(|form| format!("Its form, as JSON Schema: {form}\n"))
        .unwrap_or_default();
    format!("That cannot be used:\n{listed}\n{form}Answer again, with all of it put right.")
}

/// Lines as a list of markdown.
pub(super) fn listed(lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| format!("- {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
