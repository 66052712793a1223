//! The lines of a turn's export.

use folio::Timestamp;
use folio::store::workspace::Exported;
use serde_json::{Value, json};

use super::observation::Observation;

/// Returns the line of an entry that the turn touched, with its texts and the version that the turn found.
pub fn touched_line(exported: &Exported, now: Timestamp) -> Value {
    let mut line = line(exported, "touched", true, now);
    if let Some(old) = exported.touched {
        line["old_version"] = json!(old);
    }
    line
}

/// Returns the manifest line of an entry: its version and hash (M7.6.47), with its texts only if `full`.
pub fn manifest_line(exported: &Exported, full: bool, now: Timestamp) -> Value {
    line(exported, "entry", full, now)
}

fn line(exported: &Exported, record: &str, with_text: bool, now: Timestamp) -> Value {
    let mut line = json!({
        "record": record,
        "observation_id": exported.listed.id,
        "handle": exported.listed.handle,
        "version": exported.listed.version,
        "hash": exported.listed.hash,
    });
    if with_text {
        line["entry"] = json!(exported.entry.as_ref().map(|entry| Observation::of(entry, now)));
        if let Some(entry) = &exported.entry {
            line["kind"] = json!(entry.kind);
        }
    }
    line
}
