//! Stored rows, as far as they can be read.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;

use super::findings::Findings;

/// Rows by id. For a row that cannot be read it has the reason, so that it does not hide the others.
#[derive(Debug)]
pub(crate) struct Rows<I, T> {
    by_id: HashMap<I, Result<T, String>>,
}

impl<I, T> Default for Rows<I, T> {
    fn default() -> Self {
        Self { by_id: HashMap::new() }
    }
}

impl<I: Eq + Hash, T> Rows<I, T> {
    /// Adds the result of reading the row with the id `id`.
    pub(crate) fn insert(&mut self, id: I, read: Result<T, String>) {
        self.by_id.insert(id, read);
    }

    /// The row with the id `id`, if it exists and can be read.
    pub(crate) fn get(&self, id: &I) -> Option<&T> {
        self.by_id.get(id)?.as_ref().ok()
    }
}

impl<I: Eq + Hash, T: PartialEq> Rows<I, T> {
    /// Whether the row with the id `id` is the one that the log has, `expected`.
    pub(crate) fn has(&self, id: &I, expected: &T) -> bool {
        self.get(id) == Some(expected)
    }

    /// Checks whether the row with the id `id` is the one that the log has, `expected`. If not, adds a problem that
    /// calls it `name`.
    pub(crate) fn compare(&self, id: &I, expected: &T, name: impl Display, findings: &mut Findings) {
        match self.by_id.get(id) {
            Some(Ok(found)) if found == expected => {}
            Some(Ok(_)) => findings.add(|| format!("{name} does not match the log")),
            Some(Err(reason)) => findings.add(|| reason.clone()),
            None => findings.add(|| format!("{name} is missing")),
        }
    }
}
