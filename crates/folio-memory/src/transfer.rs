//! A space as lines of JSON that another store can read: `folio export`, `folio import --from folio`.
//!
//! The first line names the format and the space. Then come the policy, the pages, the entries in their current form,
//! each followed by its long text if it has one, the links, and at the end the counts. Pages and entries come in the
//! order of their handles, so that an empty store assigns the same handles. Revisions of entries, runs and turns are
//! not included.

mod check;
pub mod markdown;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::change::{NewEntry, NewPage};
use crate::entry::{Entry, EntryFields, EntryKind, ImportedTimes};
use crate::id::{EntryHandle, EntryId, PageHandle, PageId, Seq};
use crate::link::Link;
use crate::page::{Page, PageFields};
use crate::policy::SpacePolicy;
use crate::space::SpaceName;
use crate::time::Timestamp;
use crate::warning::Invalid;

pub use check::{check_entry, check_page};

/// The version of the format that this build writes, and the latest that it reads.
pub const FORMAT: u32 = 1;

/// One line of an export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Line {
    /// The first line.
    Space {
        /// The version of the format.
        format: u32,
        /// The name of the exported space.
        space: SpaceName,
        /// The last commit at the time of the export.
        as_of: Seq,
    },
    /// The policy of the space, if one was set.
    Policy {
        /// The whole document.
        policy: Box<SpacePolicy>,
    },
    /// A page. It comes after its parent.
    Page(Box<PageLine>),
    /// An entry. It comes after its page. If it has a `body_ref`, the pieces of its text follow.
    Entry(Box<EntryLine>),
    /// A piece of the text that is kept beside the preceding entry.
    Piece(PieceLine),
    /// A link. It comes after both of its ends.
    Link(Link),
    /// The last line. Without it the file is incomplete.
    End {
        /// The number of pages.
        pages: u64,
        /// The number of entries.
        entries: u64,
        /// The number of links.
        links: u64,
    },
}

/// A page in its exported form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageLine {
    /// The page's id.
    pub id: PageId,
    /// The page's handle in the exported space.
    pub handle: PageHandle,
    /// When the page was made.
    pub created_at: Timestamp,
    /// When the page last changed.
    pub updated_at: Timestamp,
    /// What the page carries.
    #[serde(flatten)]
    pub fields: PageFields,
}

/// An entry in its exported form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntryLine {
    /// The entry's id.
    pub id: EntryId,
    /// The entry's handle in the exported space.
    pub handle: EntryHandle,
    /// The page that it stands on.
    pub page: PageId,
    /// The kind of content that the entry holds.
    pub kind: EntryKind,
    /// The number of the entry's revisions.
    pub version: u32,
    /// When the entry was made.
    pub created_at: Timestamp,
    /// When the entry last changed.
    pub updated_at: Timestamp,
    /// What the entry carries.
    #[serde(flatten)]
    pub fields: EntryFields,
}

/// A piece of a long text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceLine {
    /// The entry that the text belongs to.
    pub of: EntryId,
    /// The number of the piece, from 1.
    pub number: u64,
    /// The content, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The content in base 64, if it is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl Line {
    /// Parses one line.
    ///
    /// # Errors
    ///
    /// `line_malformed` with the reason; `transfer_unknown` for the first line of a newer format.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let malformed = |reason: String| Invalid::new("line_malformed", "line", reason);
        // A line that could not be read is passed on as a JSON string with the reason.
        if let Ok(reason) = serde_json::from_str::<String>(text) {
            return Err(malformed(reason));
        }
        let line = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        match line {
            Self::Space { format, .. } if format > FORMAT => {
                let message = format!("has format {format}, and this program reads up to {FORMAT}");
                Err(Invalid::new("transfer_unknown", "format", message))
            }
            line => Ok(line),
        }
    }

    /// The keys of `text` that the format does not know, in their order.
    #[must_use]
    pub fn unknown_keys(&self, text: &str) -> Vec<String> {
        let known: &[&str] = match self {
            Self::Space { .. } => &["format", "space", "as_of"],
            Self::Policy { .. } => &["policy"],
            Self::Page(_) => &PAGE_KEYS,
            Self::Entry(_) => &ENTRY_KEYS,
            Self::Piece(_) => &["of", "number", "text", "base64"],
            Self::Link(_) => &["src", "rel", "dst"],
            Self::End { .. } => &["pages", "entries", "links"],
        };
        let keys: BTreeMap<Cow<'_, str>, IgnoredAny> = serde_json::from_str(text).unwrap_or_default();
        let unknown = keys
            .into_keys()
            .filter(|key| *key != "record" && !known.contains(&&**key));
        unknown.map(Cow::into_owned).collect()
    }

    /// The line as JSON, without a line ending.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl PageLine {
    /// The line for `page`.
    #[must_use]
    pub fn of(page: Page) -> Self {
        Self {
            id: page.id,
            handle: page.handle,
            created_at: page.created_at,
            updated_at: page.updated_at,
            fields: PageFields {
                brought: None,
                ..page.fields
            },
        }
    }

    /// Converts the line to a page to be added.
    #[must_use]
    pub fn into_new(self) -> NewPage {
        let brought = Some(ImportedTimes {
            created_at: self.created_at,
            updated_at: self.updated_at,
        });
        NewPage {
            id: self.id,
            fields: PageFields { brought, ..self.fields },
        }
    }
}

impl EntryLine {
    /// The line for `entry`.
    #[must_use]
    pub fn of(entry: Entry) -> Self {
        Self {
            id: entry.id,
            handle: entry.handle,
            page: entry.page,
            kind: entry.kind,
            version: entry.version,
            created_at: entry.created_at,
            updated_at: entry.updated_at,
            fields: EntryFields {
                brought: None,
                ..entry.fields
            },
        }
    }

    /// The number of lines with pieces of the entry's text that follow.
    #[must_use]
    pub fn pieces(&self) -> u64 {
        let body = self.fields.body_ref.as_ref();
        body.map_or(0, |body| body.pieces.len().max(1) as u64)
    }

    /// Converts the line to an entry to be added to `page`.
    #[must_use]
    pub fn into_new(self, page: PageId) -> NewEntry {
        let brought = Some(ImportedTimes {
            created_at: self.created_at,
            updated_at: self.updated_at,
        });
        NewEntry {
            id: self.id,
            page,
            kind: self.kind,
            fields: EntryFields { brought, ..self.fields },
        }
    }
}

/// Returns `text` without the byte order mark that some editors put at the beginning.
#[must_use]
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The keys of a page line.
const PAGE_KEYS: [&str; 15] = [
    "id",
    "handle",
    "created_at",
    "updated_at",
    "role",
    "title",
    "parent",
    "thread",
    "run",
    "branch_id",
    "iteration",
    "owner",
    "tags",
    "status",
    "props",
];

/// The keys of an entry line.
const ENTRY_KEYS: [&str; 34] = [
    "id",
    "handle",
    "page",
    "kind",
    "version",
    "created_at",
    "updated_at",
    "type",
    "title",
    "body",
    "body_ref",
    "parts",
    "status",
    "confidence",
    "tags",
    "owner",
    "context",
    "metadata",
    "phase",
    "progress",
    "pin",
    "lease_until",
    "lifetime",
    "expired_at",
    "validated_at",
    "trust",
    "source",
    "claimed_source",
    "iteration",
    "superseded_by",
    "outcome",
    "pii",
    "archived_for",
    "erased",
];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::actor::Trust;
    use crate::entry::Owner;

    /// The keys of a line with everything in it.
    fn keys(line: &Line) -> Vec<String> {
        let Ok(Value::Object(fields)) = serde_json::to_value(line) else {
            panic!("an object")
        };
        fields.into_iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn transfer_line_knows_every_written_key_and_reports_others() {
        let id = EntryId::derived(&["e"]);
        let entry = json!({
            "record": "entry", "id": id, "handle": "e1", "page": PageId::derived(&["p"]), "kind": "note", "version": 1,
            "created_at": "2023-11-14T22:13:20Z", "updated_at": "2023-11-14T22:13:20Z", "type": "t", "title": "t", "body": "b",
            "body_ref": {"hash": "h", "bytes": 1}, "parts": {}, "status": "active", "confidence": 0.5, "tags": ["x"],
            "owner": "user", "context": {}, "metadata": {}, "phase": "p", "progress": 0.5, "pin": 1,
            "lease_until": "2023-11-14T22:13:20Z", "lifetime": {"until": "2023-11-14T22:13:20Z"},
            "expired_at": "2023-11-14T22:13:20Z", "validated_at": "2023-11-14T22:13:20Z", "trust": "user",
            "source": {"tool": "t"}, "claimed_source": {}, "iteration": 1, "superseded_by": id, "outcome": "confirmed",
            "pii": ["email"], "archived_for": "quota", "erased": "forgotten",
        });
        let page = json!({
            "record": "page", "id": PageId::derived(&["p"]), "handle": "p1", "created_at": "2023-11-14T22:13:20Z",
            "updated_at": "2023-11-14T22:13:20Z", "role": "note", "title": "t", "parent": PageId::derived(&["p"]), "thread": "t",
            "run": crate::RunId::derived(&["r"]), "branch_id": "b", "iteration": 1, "owner": "user", "tags": ["x"],
            "status": "open", "props": {},
        });
        for (given, known) in [(entry, &ENTRY_KEYS[..]), (page, &PAGE_KEYS[..])] {
            let line = Line::parse(&given.to_string()).unwrap();
            assert_eq!(line.unknown_keys(&given.to_string()), [""; 0]);
            let mut written = keys(&line);
            written.retain(|key| key != "record");
            let mut known = known.to_vec();
            written.sort();
            known.sort_unstable();
            assert_eq!(written, known);
            let mut more = given.clone();
            (more["titel"], more["Body"]) = (json!("x"), json!([1]));
            assert_eq!(line.unknown_keys(&more.to_string()), ["Body", "titel"]);
        }
        let end = Line::parse(r#"{"record":"end","pages":0,"entries":0,"links":0,"more":1}"#).unwrap();
        assert_eq!(
            end.unknown_keys(r#"{"record":"end","pages":0,"entries":0,"links":0,"more":1}"#),
            ["more"]
        );
    }

    #[test]
    fn transfer_line_round_trips_and_a_newer_format_is_refused() {
        let mut fields = EntryFields::new(EntryKind::Note, Owner::user(), Trust::User);
        fields.title = "one".to_owned();
        let new = NewEntry {
            id: EntryId::derived(&["e"]),
            page: PageId::derived(&["p"]),
            kind: EntryKind::Note,
            fields,
        };
        let entry = Entry::added(new, EntryHandle(7), Seq(9), Timestamp::from_millis(1_700_000_000_000));
        let line = Line::Entry(Box::new(EntryLine::of(entry)));
        insta::assert_snapshot!(line.to_json(), @r#"{"record":"entry","id":"obs_7Q70XZ187WJ474EBCEZ9VMYKTM","handle":"e7","page":"page_5TP4YSA1T2Y75YWAQ768W18JQ4","kind":"note","version":1,"created_at":"2023-11-14T22:13:20Z","updated_at":"2023-11-14T22:13:20Z","title":"one","status":"active","owner":"user","trust":"user"}"#);
        assert_eq!(Line::parse(&line.to_json()), Ok(line));
        let newer = Line::Space {
            format: FORMAT + 1,
            space: SpaceName::main(),
            as_of: Seq(1),
        };
        assert_eq!(Line::parse(&newer.to_json()).unwrap_err().code, "transfer_unknown");
        assert_eq!(Line::parse("{}").unwrap_err().code, "line_malformed");
    }
}
