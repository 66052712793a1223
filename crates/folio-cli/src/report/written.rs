//! The outcome of a write: the thing itself, and what was corrected.

use std::fmt;

pub(crate) use folio_server::wire::{AnyEntry, Written};
use serde::Serialize;

use crate::output::{Report, Style};

impl<T: Report> Report for Written<T> {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        self.item.text(out, style)
    }
}

impl Report for AnyEntry {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        match self {
            Self::Observation(observation) => observation.text(out, style),
            Self::Item(item) => item.text(out, style),
        }
    }
}

/// One or several things, as one JSON document.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum OneOrMore<T> {
    /// One was named, so one is returned.
    One(T),
    /// Several were named.
    More(Vec<T>),
}

impl<T> OneOrMore<T> {
    /// Returns as many as were named.
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
