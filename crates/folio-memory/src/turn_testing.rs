//! Entries for tests of rules that look at many of them.

use serde_json::Value;

use crate::actor::Trust;
use crate::change::NewEntry;
use crate::entry::{Confidence, Entry, EntryFields, EntryKind, Owner, Tag};
use crate::id::{EntryHandle, EntryId, PageId, Seq, TurnId};
use crate::time::Timestamp;

/// When the tests take place.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_000_000);

/// An observation in the making.
#[derive(Debug)]
pub(crate) struct EntryBuilder {
    handle: u64,
    fields: EntryFields,
}

/// An observation with this handle, type and text.
pub(crate) fn observation(handle: u64, type_name: &str, body: &str) -> EntryBuilder {
    let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::ToolInternal);
    fields.type_name = Some(type_name.to_owned());
    fields.confidence = Some(Confidence::DEFAULT);
    body.clone_into(&mut fields.body);
    EntryBuilder { handle, fields }
}

impl EntryBuilder {
    pub(crate) fn confidence(mut self, confidence: f64) -> Self {
        self.fields.confidence = Some(Confidence::clamped(confidence).0);
        self
    }

    pub(crate) fn tags(mut self, tags: &[&str]) -> Self {
        self.fields.tags = Tag::parse_all(tags.iter().copied()).unwrap();
        self
    }

    pub(crate) fn context(mut self, context: Value) -> Self {
        self.fields.context = Some(context);
        self
    }

    pub(crate) fn turn(mut self, name: &str) -> Self {
        self.fields.source.turn = Some(TurnId::derived(&[name]));
        self
    }

    pub(crate) fn trust(mut self, trust: Trust) -> Self {
        self.fields.trust = trust;
        self
    }

    pub(crate) fn build(self) -> Entry {
        let new = NewEntry {
            id: EntryId::derived(&[&self.handle.to_string()]),
            page: PageId::derived(&["p"]),
            kind: EntryKind::Observation,
            fields: self.fields,
        };
        Entry::added(new, EntryHandle(self.handle), Seq(self.handle), NOW)
    }
}
