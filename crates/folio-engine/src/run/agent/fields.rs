//! What single fields of an answer say (E9.13).

use folio_memory::excerpt::cut;
use serde_json::Value;

use super::schema::FINISH;
use crate::result::{Finding, Outcome, Severity};

/// What is missing, as an answer says of a criterion; `other` if it says nothing.
pub(super) fn gap_of(said: &Value, other: &str) -> String {
    match text_of(said, "gap") {
        gap if gap.is_empty() => other.to_owned(),
        gap => gap,
    }
}

/// What a judge says of one criterion; `None` if that is none of what there is to say.
pub(super) fn finding_of(said: &Value) -> Option<Finding> {
    match word_of(said, "finding")?.as_str() {
        "met" => Some(Finding::Met),
        "unmet" => Some(Finding::Unmet(gap_of(said, "the judge does not say what is missing"))),
        "unverifiable" => Some(Finding::Unverifiable(gap_of(said, "the judge does not say why"))),
        _ => None,
    }
}

/// The word that stands under `key`, however it is written.
pub(super) fn word_of(answer: &Value, key: &str) -> Option<String> {
    let said = answer.get(key).and_then(Value::as_str)?;
    Some(said.trim().to_lowercase())
}

/// How bad a failure is, as whoever failed says.
pub(super) fn severity_of(answer: &Value) -> Option<Severity> {
    match word_of(answer, "severity")?.as_str() {
        "hard" => Some(Severity::Hard),
        "soft" => Some(Severity::Soft),
        _ => None,
    }
}

/// What an answer says of how it went: well, if it says nothing of that. A word that is none of those that there are is no success, but
/// a mistake to be put right (E9.13).
pub(super) fn status_of(answer: &Value) -> Result<Outcome, String> {
    let said = match answer.get("status") {
        None | Some(Value::Null) => return Ok(Outcome::Ok),
        Some(said) => said,
    };
    match said.as_str().map(str::to_lowercase).as_deref().map(str::trim) {
        Some("ok" | "done" | "success") => Ok(Outcome::Ok),
        Some("partial" | "incomplete") => Ok(Outcome::Partial),
        Some("failed" | "fail" | "failure") => Ok(Outcome::Failed),
        _ => Err(format!(
            "status is {}; it is \"ok\", \"partial\" or \"failed\"",
            cut(&said.to_string(), 100)
        )),
    }
}

/// How a task went, as the arguments of `finish` say, with what else was said as its notes; or what is wrong with them.
pub(super) fn finished(args: &Value, notes: &str) -> Result<Outcome, Vec<String>> {
    if !args.is_object() {
        return Err(vec![format!("the arguments of {FINISH} are not a JSON object")]);
    }
    if notes.is_empty() && args.get("output").is_none_or(Value::is_null) {
        return Err(vec!["`notes` is missing: say what came out".to_owned()]);
    }
    status_of(args).map_err(|problem| vec![problem])
}

pub(super) fn text_of(answer: &Value, key: &str) -> String {
    match answer.get(key) {
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}
