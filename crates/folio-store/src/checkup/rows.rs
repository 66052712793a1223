//! Rows that are there, as far as they can be read.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;

use super::findings::Findings;

/// Rows by their ids. One that cannot be read says why; it hides none of the others.
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
    /// Adds what was read of the row called `id`.
    pub(crate) fn insert(&mut self, id: I, read: Result<T, String>) {
        self.by_id.insert(id, read);
    }

    /// The row called `id`, if it is there and can be read.
    pub(crate) fn get(&self, id: &I) -> Option<&T> {
        self.by_id.get(id)?.as_ref().ok()
    }
}

impl<I: Eq + Hash, T: PartialEq> Rows<I, T> {
    /// Whether the row called `id` is there as the log has `made` it. If not, says so; it is called `name`.
    pub(crate) fn compare(&self, id: &I, made: &T, name: impl Display, findings: &mut Findings) {
        match self.by_id.get(id) {
            Some(Ok(found)) if found == made => {}
            Some(Ok(_)) => findings.add(|| format!("{name} is not what the log makes of it")),
            Some(Err(reason)) => findings.add(|| reason.clone()),
            None => findings.add(|| format!("{name} is missing")),
        }
    }
}
