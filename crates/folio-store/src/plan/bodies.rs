//! The bodies that a commit brings or refers to.

use std::collections::{BTreeSet, HashSet};

use folio_memory::entry::BodyRef;
use folio_memory::{Change, FieldChange};

use super::{Facts, Plan};
use crate::body::parse_hash;
use crate::error::StoreError;
use crate::prepare::Prepared;

/// Whether `commit` only brings bodies, to which a later commit is going to refer.
pub(crate) fn brings_only(commit: &Prepared) -> bool {
    commit.record.changes.is_empty() && commit.record.run.is_none()
}

/// The hashes of the bodies that `commit` uses as texts of entries.
pub(crate) fn body_hashes(commit: &Prepared) -> impl Iterator<Item = &String> {
    let texts = commit.record.changes.iter().flat_map(|change| -> Vec<&BodyRef> {
        match change {
            Change::AddEntry(new) => new.fields.body_ref.iter().collect(),
            Change::PatchEntry { fields, .. } => fields
                .iter()
                .filter_map(|field| match field {
                    FieldChange::BodyRef(body) => body.as_ref(),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        }
    });
    texts.flat_map(BodyRef::hashes)
}

/// Hashes of bodies that are searched for in the records of commits, one after the other, until all are found.
#[derive(Debug)]
pub(crate) struct Bodies {
    missed: BTreeSet<String>,
}

/// The length of a hash.
const HASH_LENGTH: usize = 64;

impl Bodies {
    /// Searches for all of `names`; `None` if there are none.
    pub(crate) fn of(names: BTreeSet<String>) -> Option<Self> {
        (!names.is_empty()).then_some(Self { missed: names })
    }

    /// Searches `text`. Returns whether all have been found by now.
    pub(crate) fn all_are_in(&mut self, text: &str) -> bool {
        let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let mut start = 0;
        while let Some(window) = text.as_bytes().get(start..start + HASH_LENGTH) {
            start += match window.iter().rposition(|byte| !is_hex(byte)) {
                // A hash cannot begin before a character that is not part of one.
                Some(other) => other + 1,
                None => {
                    self.missed.remove(&text[start..start + HASH_LENGTH]);
                    1
                }
            };
        }
        self.missed.is_empty()
    }

    /// Those that were not found.
    pub(crate) fn missed(self) -> BTreeSet<String> {
        self.missed
    }
}

impl<F: Facts> Plan<'_, '_, F> {
    /// Refuses a commit that refers to a text which is neither stored nor brought by it.
    pub(super) fn expect_bodies(&mut self, commit: &Prepared) -> Result<(), F::Failure> {
        let come: HashSet<[u8; 32]> = commit.blobs.iter().map(|body| body.hash).collect();
        for hash in body_hashes(commit) {
            let comes = parse_hash(hash).is_some_and(|hash| come.contains(&hash));
            if !comes && !self.facts.is_kept(hash)? {
                let message = format!("the text {hash} is not stored, or no longer: put it away again");
                return Err(StoreError::Invalid(message).into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_hashes_are_found_anywhere_in_text_but_only_whole() {
        let [one, other, third] = ["0a", "1b", "2c"].map(|pair| pair.repeat(32));
        let mut sought = Bodies::of([&one, &other, &third].into_iter().cloned().collect()).unwrap();
        assert!(!sought.all_are_in(&format!("é{one}é{}", &third[1..])));
        assert!(!sought.all_are_in(&third[..63]));
        assert!(!sought.all_are_in(&format!("0123456789abcdef{other}ff")));
        assert_eq!(sought.missed, BTreeSet::from([third.clone()]));
        assert!(sought.all_are_in(&third));
        assert_eq!(sought.missed(), BTreeSet::new());
        assert!(Bodies::of(BTreeSet::new()).is_none());
    }
}
