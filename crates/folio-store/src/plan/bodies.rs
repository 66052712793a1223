//! The bodies that a commit brings and names.

use std::collections::HashSet;

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
