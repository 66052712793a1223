//! What individual fields of an answer say (E9.13).

use folio_memory::excerpt::cut;
use serde_json::Value;

use super::schema::FINISH;
use crate::result::{Finding, Outcome, Severity};

/// What is missing according to what an answer says of a criterion; `other` if it does not say.
fn gap_of(item: &Value, other: &str) -> String {
    match text_of(item, "gap") {
        gap if gap.is_empty() => other.to_owned(),
        gap => gap,
    }
}

/// A judge's finding on one criterion; `None` if it is not one of the possible findings.
pub(super) fn finding_of(item: &Value) -> Option<Finding> {
    match word_of(item, "finding")?.as_str() {
        "met" => Some(Finding::Met),
        "unmet" => Some(Finding::Unmet(gap_of(item, "the judge did not name the gap"))),
        "unverifiable" => Some(Finding::Unverifiable(gap_of(item, "the judge gave no reason"))),
        _ => None,
    }
}

/// The word under `key`, in lower case and without white space around it.
pub(super) fn word_of(answer: &Value, key: &str) -> Option<String> {
    let word = answer.get(key).and_then(Value::as_str)?;
    Some(word.trim().to_lowercase())
}

/// The severity of a failure, as reported by whoever failed.
pub(super) fn severity_of(answer: &Value) -> Option<Severity> {
    match word_of(answer, "severity")?.as_str() {
        "hard" => Some(Severity::Hard),
        "soft" => Some(Severity::Soft),
        _ => None,
    }
}

/// The status that an answer reports; `ok` if it reports none. An unknown word is not success, but a mistake to be
/// corrected (E9.13).
pub(super) fn status_of(answer: &Value) -> Result<Outcome, String> {
    let status = match answer.get("status") {
        None | Some(Value::Null) => return Ok(Outcome::Ok),
        Some(status) => status,
    };
    match status.as_str().map(str::to_lowercase).as_deref().map(str::trim) {
        Some("ok" | "done" | "success") => Ok(Outcome::Ok),
        Some("partial" | "incomplete") => Ok(Outcome::Partial),
        Some("failed" | "fail" | "failure") => Ok(Outcome::Failed),
        _ => Err(format!(
            "status is {}; it must be \"ok\", \"partial\" or \"failed\"",
            cut(&status.to_string(), 100)
        )),
    }
}

/// The status of a task by the arguments of `finish` and the text beside them; or everything that is wrong with them.
pub(super) fn finished(args: &Value, reply_text: &str) -> Result<Outcome, Vec<String>> {
    if !args.is_object() {
        return Err(vec![format!("the arguments of {FINISH} must be a JSON object")]);
    }
    let mut problems = Vec::new();
    let is_missing = |key: &str| args.get(key).is_none_or(Value::is_null);
    let says_nothing = || text_of(args, "notes").is_empty() && is_missing("output");
    if reply_text.is_empty() && (is_missing("notes") || says_nothing()) {
        problems.push("`notes` is missing: state the outcome".to_owned());
    }
    problems.extend(mistakes_in(args));
    match status_of(args) {
        Ok(status) if problems.is_empty() => Ok(status),
        Ok(_) => Err(problems),
        Err(problem) => {
            problems.insert(0, problem);
            Err(problems)
        }
    }
}

/// What in a result, apart from its status, does not follow the form that its author was told. Optional fields may be
/// null, and unknown keys do no harm; whether references are valid is found out when they are looked up (E9.7).
pub(super) fn mistakes_in(result: &Value) -> Vec<String> {
    let field = |key: &str| result.get(key).filter(|value| !value.is_null());
    let shorten = |value: &Value| cut(&value.to_string(), 100);
    let mut problems = Vec::new();
    if let Some(notes) = field("notes").filter(|notes| !notes.is_string()) {
        problems.push(format!("notes is {}; it must be a string", shorten(notes)));
    }
    if let Some(severity) = field("severity").filter(|_| severity_of(result).is_none()) {
        problems.push(format!(
            "severity is {}; it must be \"soft\" or \"hard\"",
            shorten(severity)
        ));
    }
    for key in ["evidence", "criteria"] {
        if let Some(other) = field(key).filter(|other| !other.is_array()) {
            problems.push(format!("{key} is {}; it must be a list of objects", shorten(other)));
        }
    }
    let is_claim = |item: &Value| criterion_in(item).is_some() && claim_of(item, "").is_some();
    let claims = field("criteria").and_then(Value::as_array).into_iter().flatten();
    let bad_claims = claims.enumerate().filter(|(_, claim)| !is_claim(claim));
    problems.extend(bad_claims.map(|(at, claim)| {
        let claim_text = shorten(claim);
        format!("criteria[{at}] is {claim_text}; it must be an object with the string `id` and the boolean `met`")
    }));
    problems
}

/// The id of the criterion that is meant, which a judge writes under another key than whoever did the task.
pub(super) fn criterion_in(item: &Value) -> Option<&str> {
    ["id", "criterion"].iter().find_map(|key| item.get(*key)?.as_str())
}

/// What whoever did the task claims about one criterion, in the form that it was told or in that of a judge; `None` if
/// it is neither. What it wrote in the `notes` on the whole result is the gap if it names none.
pub(super) fn claim_of(item: &Value, notes: &str) -> Option<Finding> {
    let or_notes = |other: &str| gap_of(item, if notes.is_empty() { other } else { notes });
    let unmet = || Finding::Unmet(or_notes("the executor did not name the gap"));
    match item.get("met").and_then(Value::as_bool) {
        Some(true) => Some(Finding::Met),
        Some(false) => Some(unmet()),
        None => match finding_of(item)? {
            Finding::Unmet(_) => Some(unmet()),
            Finding::Unverifiable(_) => Some(Finding::Unverifiable(or_notes(
                "the executor could not verify it and gave no reason",
            ))),
            Finding::Met => Some(Finding::Met),
        },
    }
}

pub(super) fn text_of(answer: &Value, key: &str) -> String {
    match answer.get(key) {
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}
