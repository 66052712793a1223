//! The bodies that a commit brings and names.

use std::collections::{BTreeSet, HashSet};

use folio_memory::entry::BodyRef;
use folio_memory::{Change, FieldChange};

use super::{Facts, Plan};
use crate::body::parse_hash;
use crate::error::StoreError;
use crate::prepare::Prepared;

/// Whether `commit` does nothing but bring bodies, which something later is going to name.
pub(crate) fn brings_only(commit: &Prepared) -> bool {
    commit.record.changes.is_empty() && commit.record.run.is_none()
}

/// The hashes by which `commit` names bodies as texts of entries.
pub(crate) fn named(commit: &Prepared) -> impl Iterator<Item = &String> {
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

/// Names of bodies that are looked for in the records of commits, one after the other, until all are found.
#[derive(Debug)]
pub(crate) struct Bodies {
    missed: BTreeSet<String>,
}

/// Characters of a name.
const NAME: usize = 64;

impl Bodies {
    /// All of `names`; nothing if there are none.
    pub(crate) fn of(names: BTreeSet<String>) -> Option<Self> {
        (!names.is_empty()).then_some(Self { missed: names })
    }

    /// Looks into `text`. Whether all of them were found by now.
    pub(crate) fn all_are_in(&mut self, text: &str) -> bool {
        let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let mut start = 0;
        while let Some(window) = text.as_bytes().get(start..start + NAME) {
            start += match window.iter().rposition(|byte| !is_hex(byte)) {
                // No name can begin before what is no part of one.
                Some(other) => other + 1,
                None => {
                    self.missed.remove(&text[start..start + NAME]);
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
    /// Says no to a commit that names a text which is not kept and does not come with it.
    pub(super) fn expect_bodies(&mut self, commit: &Prepared) -> Result<(), F::Failure> {
        let come: HashSet<[u8; 32]> = commit.blobs.iter().map(|body| body.hash).collect();
        for hash in named(commit) {
            let comes = parse_hash(hash).is_some_and(|hash| come.contains(&hash));
            if !comes && !self.facts.is_kept(hash)? {
                let message = format!("the text {hash} is not kept, or not any more: put it away again");
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
    fn names_are_found_wherever_they_stand_and_only_whole() {
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
