//! A script in a JSON file.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use folio_memory::readable::read_unrounded;
use serde::Deserialize;
use serde_json::Value;

use super::cue::{Answer, Cue, Uses, When};
use crate::error::ModelErrorKind;
use crate::model::{Role, StopCause, ToolCall, Usage};

/// The version of the file format.
const VERSION: u32 = 1;
/// The maximum size of a script in bytes.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the script {path} cannot be used: {reason}")]
pub struct ScriptError {
    path: PathBuf,
    reason: String,
    is_missing: bool,
}

impl ScriptError {
    /// Whether the file does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.is_missing
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    cues: Vec<WrittenCue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCue {
    role: Option<Role>,
    #[serde(default)]
    contains: Parts,
    text: Option<String>,
    json: Option<Value>,
    calls: Option<Vec<WrittenCall>>,
    error: Option<WrittenError>,
    stop: Option<StopCause>,
    usage: Option<Usage>,
    #[serde(default)]
    latency_ms: u64,
    #[serde(default)]
    times: Times,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a text or a list of texts")]
enum Parts {
    One(String),
    Many(Vec<String>),
}

impl Default for Parts {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall {
    id: Option<String>,
    tool: String,
    #[serde(default)]
    args: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenError {
    kind: ModelErrorKind,
    message: Option<String>,
    retry_after_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a number or `always`")]
enum Times {
    Number(u32),
    Word(Always),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Always {
    Always,
}

impl Default for Times {
    fn default() -> Self {
        Self::Number(1)
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<Cue>, ScriptError> {
    let error = |reason: String| ScriptError {
        path: path.to_owned(),
        reason,
        is_missing: false,
    };
    let file = std::fs::File::open(path).map_err(|e| ScriptError {
        is_missing: e.kind() == std::io::ErrorKind::NotFound,
        ..error(e.to_string())
    })?;
    let mut text = String::new();
    file.take(BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|e| error(e.to_string()))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(error(format!("it has more than {BYTES_MAX} bytes")));
    }
    parsed(&text).map_err(error)
}

pub(super) fn parsed(text: &str) -> Result<Vec<Cue>, String> {
    let written: Written = read_unrounded(text.as_bytes()).map_err(|e| e.to_string())?;
    if written.version != VERSION {
        return Err(format!(
            "its version is {}, and only version {VERSION} is supported",
            written.version
        ));
    }
    let numbered = written.cues.into_iter().zip(1_usize..);
    numbered
        .map(|(cue, number)| cue.read().map_err(|reason| format!("cue {number}: {reason}")))
        .collect()
}

impl WrittenCue {
    fn read(self) -> Result<Cue, &'static str> {
        let when = When {
            role: self.role,
            contains: match self.contains {
                Parts::One(part) => vec![part],
                Parts::Many(parts) => parts,
            },
        };
        let calls = self.calls.map(|calls| {
            let numbered = calls.into_iter().zip(1_usize..);
            let calls = numbered.map(|(call, number)| ToolCall {
                id: call.id.unwrap_or_else(|| format!("call_{number}")),
                tool: call.tool,
                args: if call.args.is_null() {
                    Value::Object(serde_json::Map::new())
                } else {
                    call.args
                },
            });
            calls.collect()
        });
        let answer = match (self.text, self.json, calls, self.error) {
            (None, None, None, Some(error)) => Answer::Error {
                kind: error.kind,
                message: error.message.unwrap_or_else(|| "its script says so".to_owned()),
                retry_after: error.retry_after_ms.map(Duration::from_millis),
            },
            (None, Some(json), None, None) => Answer::Reply {
                text: json.to_string(),
                tool_calls: Vec::new(),
            },
            (text @ Some(_), None, calls, None) | (text, None, calls @ Some(_), None) => Answer::Reply {
                text: text.unwrap_or_default(),
                tool_calls: calls.unwrap_or_default(),
            },
            _ => return Err("it has to have one of text, json, calls (or text and calls), error"),
        };
        let mut cue = when.answers(answer);
        cue.stop = self.stop.unwrap_or(cue.stop);
        cue.usage = self.usage;
        cue.latency = Duration::from_millis(self.latency_ms);
        cue.uses = match self.times {
            Times::Number(times) => Uses::Times(times),
            Times::Word(Always::Always) => Uses::Always,
        };
        Ok(cue)
    }
}
