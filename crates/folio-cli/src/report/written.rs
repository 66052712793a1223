//! What came of a write: the thing itself, and what was put right on the way.

use std::fmt;

use folio::memory::Warning;
use folio::memory::history::FieldConflict;
use serde::Serialize;

use crate::output::{Report, Style};

/// Something that was written.
#[derive(Debug, Serialize)]
pub(crate) struct Written<T> {
    /// As it stands now.
    #[serde(flatten)]
    item: T,
    /// What was put right.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Correction>,
    /// What it wrote over that somebody else had changed meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conflicts: Vec<FieldConflict>,
    /// Whether an earlier call with the same key wrote it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replayed: bool,
}

/// A value that was put right.
#[derive(Debug, Serialize)]
struct Correction {
    code: String,
    message: String,
    given: String,
    used: String,
}

impl<T> Written<T> {
    /// `item` with what was put right on the way to it.
    pub(crate) fn of(item: T, warnings: &[Warning], replayed: bool) -> Self {
        let warnings = warnings.iter().cloned().map(
            |Warning {
                 code,
                 message,
                 given,
                 used,
             }| Correction {
                code,
                message,
                given,
                used,
            },
        );
        Self {
            item,
            warnings: warnings.collect(),
            conflicts: Vec::new(),
            replayed,
        }
    }

    /// The same, which wrote over `conflicts`.
    pub(crate) fn over(self, conflicts: &[FieldConflict]) -> Self {
        Self {
            conflicts: conflicts.to_vec(),
            ..self
        }
    }
}

impl<T: Report> Report for Written<T> {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        self.item.text(out, style)
    }
}

/// Several things, one after the other; one JSON document.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum OneOrMore<T> {
    /// One was named, so one is answered.
    One(T),
    /// Several were named.
    More(Vec<T>),
}

impl<T> OneOrMore<T> {
    /// As many as were named.
    pub(crate) fn of(mut items: Vec<T>) -> Self {
        match (items.len(), items.pop()) {
            (1, Some(item)) => Self::One(item),
            (_, Some(last)) => {
                items.push(last);
                Self::More(items)
            }
            (_, None) => Self::More(items),
        }
    }
}

impl<T: Report> Report for OneOrMore<T> {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        match self {
            Self::One(item) => item.text(out, style),
            Self::More(items) => items.iter().try_for_each(|item| item.text(out, style)),
        }
    }
}
