//! What can be wrong with the rows of a space, in words.

use std::fmt;

use data_encoding::HEXLOWER;
use folio_memory::id::TurnHandle;
use folio_memory::keeping::Watch;
use folio_memory::{EntryHandle, Seq};

/// A row that does not follow from the log, or that an index does not find.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Problem<'a> {
    /// The policy is not the one of the log.
    Policy,
    /// A link that a commit added is missing.
    Link(Seq),
    /// A commit is missing among those that changed the entry or run with this letter and number.
    Touch(&'a str, u64, Seq),
    /// The columns by which a row is found do not match what it contains.
    Columns(fmt::Arguments<'a>),
    /// An entry is not found by one of its terms.
    Term(EntryHandle, &'a str),
    /// An entry has no watch for a state that it will reach.
    Watch(EntryHandle, Watch),
    /// A body of an entry is missing.
    Text(EntryHandle),
    /// The index of words has other words for an entry.
    Words(EntryHandle),
    /// The export of a turn is missing.
    Export(TurnHandle),
    /// A part of the export of a turn is missing.
    ExportPart(TurnHandle),
    /// A note of the trace cannot be read.
    Note(u64, &'a serde_json::Error),
    /// What is wrong with the body that has this hash.
    Body(&'a [u8], &'a str),
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy => f.write_str("the policy does not match the log"),
            Self::Link(seq) => write!(f, "the link of commit {seq} is missing"),
            Self::Touch(letter, number, seq) => {
                write!(f, "the list of changes to {letter}{number} lacks commit {seq}")
            }
            Self::Columns(name) => write!(f, "{name} has columns that do not match it"),
            Self::Term(entry, term) => {
                let printable = term.replace(char::is_control, " ");
                write!(f, "entry {entry} cannot be found by its word {:?}", printable.trim())
            }
            Self::Watch(entry, watch) => write!(f, "entry {entry} is not watched for being {}", watch.as_str()),
            Self::Text(entry) => write!(f, "the whole text of entry {entry} is missing"),
            Self::Words(entry) => write!(f, "the index of words does not match entry {entry}"),
            Self::Export(turn) => write!(f, "the export of turn {turn} is missing"),
            Self::ExportPart(turn) => write!(
                f,
                "a part of the export of turn {turn} is missing; the next turn that ends makes a whole one"
            ),
            Self::Note(number, error) => write!(f, "note {number} of the trace cannot be read: {error}"),
            Self::Body(hash, reason) => write!(f, "body {} {reason}", HEXLOWER.encode(hash)),
        }
    }
}
