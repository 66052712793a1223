//! What the author of an unusable answer reads when it is asked again (E9.13). Whatever was written, there has to be
//! room for that.

use folio_memory::excerpt::cut;

use super::schema;
use crate::talk::Purpose;

/// The most characters of such an answer that are shown.
const ANSWER_CHARS: usize = 16_000;
/// The most problems that are reported.
const PROBLEMS_TOLD: usize = 60;
/// The most characters of one problem.
const PROBLEM_CHARS: usize = 600;

/// What a program that has worked on its task is told before that: it is started anew, and would do everything again
/// (E9.12, E9.17).
pub(super) const WORK_STAYS_DONE: &str = "You have worked on this task already, and what you did stays done: do none of it again. Only report: look at what \
                                          is there if you have to, and answer with what you did.\n";

/// The part of the answer `text` that is shown.
pub(super) fn shorten_answer(text: &str) -> String {
    cut(text, ANSWER_CHARS)
}

/// The request to correct the `problems` of an answer to `purpose`, with the part of its form that they are about; of a
/// person's answer, which has no form, `None`.
pub(super) fn correction_request(purpose: Option<Purpose>, problems: &[String]) -> String {
    let mut lines: Vec<String> = problems
        .iter()
        .take(PROBLEMS_TOLD)
        .map(|problem| cut(problem, PROBLEM_CHARS))
        .collect();
    if problems.len() > PROBLEMS_TOLD {
        lines.push(format!("and {} more", problems.len() - PROBLEMS_TOLD));
    }
    let list = markdown_list(&lines);
    let form = purpose
        .and_then(|purpose| schema::fragment(purpose, problems))
        .map(|form| format!("The required form, as JSON Schema: {form}\n"))
        .unwrap_or_default();
    format!("This answer cannot be used:\n{list}\n{form}Answer again with every problem fixed.")
}

/// Lines as a markdown list.
pub(super) fn markdown_list(lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| format!("- {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
