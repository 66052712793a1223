//! The export of a turn (M7.6.47): the entries that it touched, and a manifest of all entries that are memory in their
//! own right.
//!
//! An export contains no texts: it lists an entry by its id, its version and a hash of its content. Readers of an
//! export take the texts from the revisions, so that what is forgotten there is forgotten here, and nothing is stored
//! twice. The manifest is cut into parts of [`PART`] handles. A part in which nothing changed keeps its hash and is not
//! written again.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::canonical::canonical;
use crate::entry::{Entry, EntryKind};
use crate::id::{EntryHandle, EntryId, Seq, TurnId};
use crate::time::Timestamp;

/// The version of the format.
pub const FORMAT: u32 = 1;
/// The number of handles that one part of a manifest covers.
pub const PART: u64 = 512;

/// One entry in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The entry's handle.
    pub handle: EntryHandle,
    /// The entry's id.
    #[serde(rename = "observation_id")]
    pub id: EntryId,
    /// The entry's version.
    pub version: u32,
    /// The SHA-256 of the entry, as [`hash_of`] computes it.
    pub hash: String,
}

impl Listed {
    /// The line for `entry` in a manifest.
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
    /// The kind of the entry.
    pub kind: EntryKind,
    /// The version before the turn; `None` if the turn added the entry.
    pub old_version: Option<u32>,
    /// The entry at the end of the turn.
    #[serde(flatten)]
    pub listed: Listed,
}

/// One part of a manifest, by the number of its first handle divided by [`PART`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRef {
    /// The number of the part.
    pub part: u64,
    /// The number of entries in the part.
    pub entries: u64,
    /// The hash of the body that contains the part.
    pub body: String,
}

/// One line of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Line {
    /// The first line.
    Turn {
        /// The version of the format.
        format: u32,
        /// The id of the turn.
        turn_id: TurnId,
        /// When the export was made.
        at: Timestamp,
        /// The commit that it describes.
        as_of: Seq,
        /// The number of entries in the manifest.
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
    /// The id of the turn.
    pub turn: TurnId,
    /// When the export was made.
    pub at: Timestamp,
    /// The commit that it describes.
    pub as_of: Seq,
    /// The entries that the turn touched, by handle.
    pub touched: Vec<Touched>,
    /// The parts of the manifest, in order.
    pub parts: Vec<PartRef>,
}

impl Export {
    /// The number of entries in the manifest.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.parts.iter().map(|part| part.entries).sum()
    }

    /// The export as JSON, one record per line.
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

    /// Parses what [`Self::to_jsonl`] returns.
    ///
    /// # Errors
    ///
    /// The reason in words if `text` is not an export, or has a newer format.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let first = lines.next().ok_or("it is empty")?;
        let (turn, at, as_of) = match serde_json::from_str(first).map_err(|error| error.to_string())? {
            Line::Turn { format, .. } if format > FORMAT => {
                return Err(format!("its format {format} is newer than {FORMAT}"));
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

/// The hashes of the parts that the export in `body` names; none if it is not an export.
#[must_use]
pub fn part_bodies(body: &[u8]) -> Vec<String> {
    let export = std::str::from_utf8(body).ok().and_then(|text| Export::parse(text).ok());
    let parts = export.into_iter().flat_map(|export| export.parts);
    parts.map(|part| part.body).collect()
}

/// The part of the manifest that contains `handle`.
#[must_use]
pub fn part_of(handle: EntryHandle) -> u64 {
    handle.0 / PART
}

/// A part of a manifest as JSON, one entry per line.
#[must_use]
pub fn part_to_jsonl(listed: &[Listed]) -> String {
    jsonl(listed)
}

/// Parses what [`part_to_jsonl`] returns.
///
/// # Errors
///
/// The reason in words.
pub fn parse_part(text: &str) -> Result<Vec<Listed>, String> {
    text.lines()
        .map(|line| serde_json::from_str(line).map_err(|error| error.to_string()))
        .collect()
}

/// The SHA-256 over everything in an entry, as 64 hexadecimal digits.
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
        // A line contains only ids, numbers and names, so serializing it cannot fail.
        text.push_str(&serde_json::to_string(&line).unwrap_or_default());
        text.push('\n');
    }
    text
}
