//! An agent program that is started with its task, and whose output is its answer.

use folio_process::{Ended, Finished, Program, Tail, Whole};

use super::answer::{AgentAnswer, Failed, FailedPrompt, not_started};
use super::events::ParsedOutput;
use super::printed::{last_line, printed_at_the_end};
use super::settings::AgentSettings;
use crate::error::ModelErrorKind;
use crate::model::{Place, StopCause};

/// How many bytes of its standard error are kept, from the end.
const ERROR_BYTES: usize = 16 * 1024;

/// Runs `program` with `input` to its end, and reads its answer.
pub(super) async fn run(
    program: &Program,
    input: String,
    settings: &AgentSettings,
    place: &Place,
) -> Result<AgentAnswer, FailedPrompt> {
    if place.session.is_some() {
        let message = "it was at work when its driver stopped, and only one with the form acp can continue a session";
        return Err((ModelErrorKind::Unknown, message.to_owned()).into());
    }
    let (mut output, mut errors) = (Whole::new(settings.output_bytes()), Tail::new(ERROR_BYTES));
    let input = Some(input.into_bytes());
    let limits = settings.limits();
    let finished = folio_process::run(program, input, limits, &place.stop, &mut output, &mut errors)
        .await
        .map_err(|error| not_started(&error))?;
    let parsed = settings.form.read(&output.bytes);
    let quotes = Quotes::of(&output.bytes, errors.bytes(), &parsed);
    // What it reported before it was ended was used up.
    let usage = parsed.usage();
    let code = exit_code(&finished, settings, &quotes).map_err(|failed| FailedPrompt { failed, usage })?;
    answer_of(parsed, code, settings, &quotes)
}

/// What the program said last. It is often all that anybody learns of what it did (E9.4).
struct Quotes {
    /// The end of what it printed: in its own words, not in the form that they came in, if they can be told apart.
    printed: String,
    /// The same after its last line.
    last_output: String,
}

impl Quotes {
    fn of(output: &[u8], errors: &[u8], parsed: &ParsedOutput) -> Self {
        let last = last_line(errors).or_else(|| last_line(output));
        let printed = printed_at_the_end(parsed.text.as_deref().map_or(output, str::as_bytes), errors);
        let last_output = format!("{}{printed}", folio_process::printed(None, last.as_deref()));
        Self { printed, last_output }
    }
}

/// The exit code of a program that ended by itself.
///
/// # Errors
///
/// Why it was ended.
fn exit_code(finished: &Finished, settings: &AgentSettings, quotes: &Quotes) -> Result<i32, Failed> {
    let Quotes { printed, last_output } = quotes;
    let unknown = |message: String| Err((ModelErrorKind::Unknown, message));
    match finished.ended {
        Ended::ByItself => {}
        Ended::Cancelled => return unknown(format!("it was stopped{printed}")),
        Ended::TimedOut => {
            let seconds = settings.limits().time.as_secs();
            return unknown(format!("it took longer than {seconds} s and was ended{last_output}"));
        }
        Ended::Stopped => {
            let bytes = settings.output_bytes();
            return unknown(format!("it printed more than {bytes} bytes and was ended{printed}"));
        }
    }
    let Some(code) = finished.exit_code() else {
        let signal = finished.signal().unwrap_or_default();
        return unknown(format!("it was ended by signal {signal}{last_output}"));
    };
    Ok(code)
}

/// The answer of a program that ended by itself.
fn answer_of(
    parsed: ParsedOutput,
    code: i32,
    settings: &AgentSettings,
    quotes: &Quotes,
) -> Result<AgentAnswer, FailedPrompt> {
    let Quotes { printed, last_output } = quotes;
    let usage = parsed.usage();
    let ended = (code != 0).then(|| format!("it ended with exit code {code}{last_output}"));
    // Its own error message is more useful than the exit code.
    if let Some(problem) = parsed.problem.map(|problem| format!("{problem}{printed}")).or(ended) {
        let failed = (settings.form.kind_of(code, parsed.is_unauthorised), problem);
        return Err(FailedPrompt { failed, usage });
    }
    match parsed.text {
        Some(text) => Ok(AgentAnswer {
            text,
            stop: StopCause::Done,
            usage,
            permissions: Vec::new(),
        }),
        None => {
            let form = settings.form.as_str();
            let message = format!("its output contains no answer in the form {form}{last_output}");
            Err(FailedPrompt {
                failed: (ModelErrorKind::Failed, message),
                usage,
            })
        }
    }
}
