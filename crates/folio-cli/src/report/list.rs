//! A list that may go on.

use std::fmt;

use folio::memory::ListAnswer;
use serde::Serialize;

use crate::output::{Report, Style};

/// The shape of every list.
#[derive(Debug, Serialize)]
pub(crate) struct List<T> {
    items: Vec<T>,
    returned: usize,
    total: u64,
    /// Whether more than `total` match.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    at_least: bool,
    next: Option<String>,
    as_of: u64,
    /// What the items cost a model; not counted by this version.
    tokens: Option<u64>,
}

impl<T> List<T> {
    /// `answer` with its items in their wire form.
    pub(crate) fn of<E>(answer: &ListAnswer<E>, item: impl Fn(&E) -> T) -> Self {
        Self::scored(answer, |entry, _| item(entry))
    }

    /// The same where an item says how well it fits what was asked for, if a text was.
    pub(crate) fn scored<E>(answer: &ListAnswer<E>, item: impl Fn(&E, Option<f64>) -> T) -> Self {
        let scores = answer.scores.iter().copied().map(Some).chain(std::iter::repeat(None));
        Self {
            items: answer
                .items
                .iter()
                .zip(scores)
                .map(|(entry, score)| item(entry, score))
                .collect(),
            returned: answer.returned,
            total: answer.total,
            at_least: answer.at_least,
            next: answer.next.clone(),
            as_of: answer.as_of.0,
            tokens: None,
        }
    }

    /// All there is.
    pub(crate) fn whole(items: Vec<T>, as_of: u64) -> Self {
        let returned = items.len();
        Self {
            items,
            returned,
            total: returned as u64,
            at_least: false,
            next: None,
            as_of,
            tokens: None,
        }
    }

    /// What people are told below the list: how much more there is, or that there is nothing.
    pub(crate) fn remark(&self, nothing: &str) -> Option<String> {
        let of = if self.at_least { "more than " } else { "" };
        let total = self.total;
        match (&self.next, self.returned) {
            (_, 0) => Some(nothing.to_owned()),
            (Some(next), shown) => Some(format!("{shown} of {of}{total}; go on with --cursor {next}")),
            (None, shown) if (shown as u64) < total => Some(format!("{shown} of {of}{total}; --limit shows more")),
            (None, _) => None,
        }
    }
}

impl<T: Report> Report for List<T> {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        self.items.iter().try_for_each(|item| item.text(out, style))
    }
}
