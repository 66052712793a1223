//! A list that may go on.

use folio::memory::ListAnswer;
use serde::Serialize;

/// The shape of every list.
#[derive(Debug, Serialize)]
pub(crate) struct List<T> {
    items: Vec<T>,
    returned: usize,
    /// How many match altogether; null where that is not counted.
    total: Option<u64>,
    /// What to ask with, as `cursor`, to go on.
    next: Option<String>,
    /// The commit up to which the answer knows.
    as_of: u64,
    /// What the items cost a model; not counted by this version.
    tokens: Option<u64>,
}

impl<T> List<T> {
    /// `answer` with its items in their wire form.
    pub(crate) fn of<E>(answer: &ListAnswer<E>, item: impl Fn(&E) -> T) -> Self {
        Self {
            items: answer.items.iter().map(item).collect(),
            returned: answer.returned,
            total: Some(answer.total),
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
            total: Some(returned as u64),
            next: None,
            as_of,
            tokens: None,
        }
    }

    /// The first `limit` of `items`; if there are more, `name` gives what the next question goes on after.
    pub(crate) fn part(mut items: Vec<T>, limit: u32, as_of: u64, name: impl Fn(&T) -> String) -> Self {
        let limit = limit as usize;
        let goes_on = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| goes_on).map(name);
        Self {
            returned: items.len(),
            items,
            total: None,
            next,
            as_of,
            tokens: None,
        }
    }
}
