//! What a turn leaves behind (M7.6.47): which entries it touched, and a manifest of all that are memory of their own.
//!
//! An export holds no text: an entry in it is its id, its version and the hash of what it was. Who reads an export gets the
//! texts from the revisions, so that what is forgotten there is forgotten here, and nothing is kept twice. The manifest is cut into
//! parts of [`PART`] handles; a part in which nothing changed has the hash that it had, and is not written again.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::canonical::canonical;
use crate::entry::{Entry, EntryKind};
use crate::id::{EntryHandle, EntryId, Seq, TurnId};
use crate::time::Timestamp;

/// The version of the form.
pub const FORMAT: u32 = 1;
/// How many handles one part of a manifest covers.
pub const PART: u64 = 512;

/// One entry in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its handle.
    pub handle: EntryHandle,
    /// Its id.
    #[serde(rename = "observation_id")]
    pub id: EntryId,
    /// Its version.
    pub version: u32,
    /// The SHA-256 of what it was, as [`hash_of`] computes it.
    pub hash: String,
}

impl Listed {
    /// `entry` as a manifest lists it.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        Self {
            handle: entry.handle,
            id: entry.id,
            version: entry.version,
            hash: hash_of(entry),
        }
    }
}

/// One entry that a turn added or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    /// What it is.
    pub kind: EntryKind,
    /// The version that the turn found; none if it added it.
    pub old_version: Option<u32>,
    /// What it was at the end.
    #[serde(flatten)]
    pub listed: Listed,
}

/// One part of a manifest, by the number of its first handle divided by [`PART`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRef {
    /// Which part.
    pub part: u64,
    /// How many entries it lists.
    pub entries: u64,
    /// The hash of the body that holds it.
    pub body: String,
}

/// What one line of an export says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Line {
    /// The first line.
    Turn {
        /// The version of the form.
        format: u32,
        /// Which turn.
        turn_id: TurnId,
        /// When the export was made.
        at: Timestamp,
        /// The commit that it describes.
        as_of: Seq,
        /// How many entries the manifest lists.
        entries: u64,
    },
    /// An entry that the turn touched.
    Touched(Touched),
    /// A part of the manifest.
    Part(PartRef),
}

/// The export of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Which turn.
    pub turn: TurnId,
    /// When it was made.
    pub at: Timestamp,
    /// The commit that it describes.
    pub as_of: Seq,
    /// What the turn touched, by handle.
    pub touched: Vec<Touched>,
    /// The parts of the manifest, in order.
    pub parts: Vec<PartRef>,
}

impl Export {
    /// How many entries the manifest lists.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.parts.iter().map(|part| part.entries).sum()
    }

    /// As JSON, one record a line.
    #[must_use]
    pub fn to_jsonl(&self) -> String {
        let first = Line::Turn {
            format: FORMAT,
            turn_id: self.turn,
            at: self.at,
            as_of: self.as_of,
            entries: self.entries(),
        };
        let touched = self.touched.iter().cloned().map(Line::Touched);
        let parts = self.parts.iter().cloned().map(Line::Part);
        jsonl(std::iter::once(first).chain(touched).chain(parts))
    }

    /// Reads what [`Self::to_jsonl`] gave.
    ///
    /// # Errors
    ///
    /// The reason in words if it is no export, or one of a newer form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let first = lines.next().ok_or("it is empty")?;
        let (turn, at, as_of) = match serde_json::from_str(first).map_err(|error| error.to_string())? {
            Line::Turn { format, .. } if format > FORMAT => {
                return Err(format!("its form {format} is newer than {FORMAT}"));
            }
            Line::Turn { turn_id, at, as_of, .. } => (turn_id, at, as_of),
            Line::Touched(_) | Line::Part(_) => return Err("its first line does not name the turn".to_owned()),
        };
        let mut export = Self {
            turn,
            at,
            as_of,
            touched: Vec::new(),
            parts: Vec::new(),
        };
        for line in lines {
            match serde_json::from_str(line).map_err(|error| error.to_string())? {
                Line::Touched(touched) => export.touched.push(touched),
                Line::Part(part) => export.parts.push(part),
                Line::Turn { .. } => return Err("it names a turn twice".to_owned()),
            }
        }
        Ok(export)
    }
}

/// The part of a manifest that `handle` stands in.
#[must_use]
pub fn part_of(handle: EntryHandle) -> u64 {
    handle.0 / PART
}

/// The handles of a part, the last one included.
#[must_use]
pub fn handles_of(part: u64) -> (EntryHandle, EntryHandle) {
    let first = part.saturating_mul(PART);
    (EntryHandle(first), EntryHandle(first.saturating_add(PART - 1)))
}

/// A part of a manifest as JSON, one entry a line.
#[must_use]
pub fn part_to_jsonl(listed: &[Listed]) -> String {
    jsonl(listed)
}

/// Reads what [`part_to_jsonl`] gave.
///
/// # Errors
///
/// The reason in words.
pub fn parse_part(text: &str) -> Result<Vec<Listed>, String> {
    text.lines()
        .map(|line| serde_json::from_str(line).map_err(|error| error.to_string()))
        .collect()
}

/// The SHA-256 over all that an entry is, as 64 hexadecimal digits.
#[must_use]
pub fn hash_of(entry: &Entry) -> String {
    let content = serde_json::json!({
        "id": entry.id,
        "page": entry.page,
        "kind": entry.kind,
        "version": entry.version,
        "created_at": entry.created_at,
        "fields": entry.fields,
    });
    HEXLOWER.encode(&Sha256::digest(canonical(content).to_string().as_bytes()))
}

fn jsonl<T: Serialize>(lines: impl IntoIterator<Item = T>) -> String {
    let mut text = String::new();
    for line in lines {
        // Ids, numbers and names: there is nothing in a line that could not be written.
        text.push_str(&serde_json::to_string(&line).unwrap_or_default());
        text.push('\n');
    }
    text
}
