//! What a run asks people, for its main page (E9.14). It holds only until somebody answers, so it is no entry of the
//! page, but put into words from the run each time.

use std::fmt::Write as _;

use folio_memory::Timestamp;
use folio_memory::excerpt::short_line;

use crate::run::{OpenRequest, Requested, Run};

/// The most characters of what is asked.
const ASKED_CHARS: usize = 300;

/// The section of the main page of `run` that lists what people are asked at `now`: a line for each question and each
/// approval, with the branch that waits for it. Empty if nothing is asked.
#[must_use]
pub fn waiting_section(run: &Run, now: Timestamp) -> String {
    let requests = run.open_requests(now);
    let mut text = String::new();
    if requests.is_empty() {
        return text;
    }
    text.push_str("## Waiting for people\n\n");
    for request in &requests {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- {}", in_words(run, request));
    }
    text
}

fn in_words(run: &Run, request: &OpenRequest<'_>) -> String {
    let path = run.node(request.node).map_or("", |view| view.path);
    let branch = if path.is_empty() { "the run" } else { path };
    let asked = match request.what {
        Requested::Answer(question) if question.is_task() => {
            format!("{branch} is for a person: {}", question.in_brief(ASKED_CHARS))
        }
        Requested::Answer(question) => format!("{branch} asks: {}", question.in_brief(ASKED_CHARS)),
        Requested::Approval(waiting) => {
            let what = run.approval_in_words(request.node, &waiting);
            format!("{branch} waits for approval: {}", short_line(&what, ASKED_CHARS))
        }
    };
    let options = match request.options() {
        [] => String::new(),
        options => format!(" ({})", short_line(&options.join(", "), ASKED_CHARS)),
    };
    let until = request.until.map(|until| format!(" · until {until}"));
    format!("{asked}{options}{}", until.unwrap_or_default())
}
