//! The history of an entry: its versions, what each of them changed, and what was overwritten (M7.4.33).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actor::Actor;
use crate::change::{Change, FieldChange};
use crate::entry::{Entry, EntryFields, Status};
use crate::id::{EntryHandle, Seq};
use crate::keeping::ErasedFor;
use crate::time::Timestamp;

/// One field before and after a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FieldDiff {
    /// The name of the field.
    pub field: String,
    /// The value before; `null` if there was none.
    pub before: Value,
    /// The value after.
    pub after: Value,
}

/// A field that two writers changed without knowing of each other. The later write wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldConflict {
    /// The name of the field.
    pub field: String,
    /// The version that the later writer had read.
    pub base_version: u32,
    /// The version that was overwritten.
    pub overwrote_version: u32,
    /// The value that was lost.
    pub theirs: Value,
    /// The value that was kept.
    pub ours: Value,
}

/// One version of an entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// The entry as of this version.
    pub entry: Entry,
    /// The commit that made the version.
    pub seq: Seq,
    /// When the version was made.
    pub at: Timestamp,
    /// Who made the version.
    pub actor: Actor,
    /// The operation, in one word.
    pub operation: &'static str,
    /// The writer's reason.
    pub reason: Option<String>,
    /// The fields that differ from the version before; for the first version, all of them.
    pub changes: Vec<FieldDiff>,
    /// The values that this version overwrote.
    pub conflicts: Vec<FieldConflict>,
}

/// A change of an entry, as recorded in the log.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The commit that made the change.
    pub seq: Seq,
    /// When the change was made.
    pub at: Timestamp,
    /// Who made the change.
    pub actor: Actor,
    /// The change itself.
    pub change: Change,
    /// The writer's reason.
    pub reason: Option<String>,
}

/// Computes the versions of the entry `handle` from its changes, oldest first.
#[must_use]
pub fn versions(handle: EntryHandle, changes: impl IntoIterator<Item = Recorded>) -> Vec<Version> {
    let mut versions: Vec<Version> = Vec::new();
    // The names of the fields that each version set.
    let mut set: Vec<Vec<&'static str>> = Vec::new();
    for Recorded {
        seq,
        at,
        actor,
        change,
        reason,
    } in changes
    {
        let before = versions.last().map(|last| &last.entry);
        let (entry, operation, conflicts) = match (&change, before) {
            (Change::AddEntry(new), None) => {
                set.push(Vec::new());
                (Entry::added((**new).clone(), handle, seq, at), "add", Vec::new())
            }
            (
                Change::PatchEntry {
                    fields, base_version, ..
                },
                Some(before),
            ) if !before.is_unchanged_by(fields) => {
                let earlier = |field: &str| {
                    let since = usize::try_from((*base_version)?).unwrap_or(usize::MAX);
                    let found = set.iter().enumerate().skip(since).rev();
                    let found = found
                        .filter(|(_, fields)| fields.contains(&field))
                        .map(|(index, _)| index + 1);
                    found.map(|version| u32::try_from(version).unwrap_or(u32::MAX)).next()
                };
                let conflicts = conflicts(before, fields, base_version.unwrap_or(0), earlier);
                set.push(fields.iter().map(FieldChange::field).collect());
                let mut entry = before.clone();
                entry.patch(fields, seq, at);
                (entry, operation_of(Some(before), fields), conflicts)
            }
            (Change::EraseEntry { why, .. }, Some(before)) => {
                let mut entry = before.clone();
                if !entry.erase(*why, seq, at) {
                    continue;
                }
                set.push(Vec::new());
                (entry, erasure_of(*why), Vec::new())
            }
            _ => continue,
        };
        let changes = diff(before.map(|before| &before.fields), &entry.fields);
        versions.push(Version {
            entry,
            seq,
            at,
            actor,
            operation,
            reason,
            changes,
            conflicts,
        });
    }
    versions
}

/// What `changes` overwrite if their writer had read version `base`: the fields that, according to `changed_in`, were
/// changed since then, and whose value `changes` alter.
pub fn conflicts(
    before: &Entry,
    changes: &[FieldChange],
    base: u32,
    changed_in: impl Fn(&str) -> Option<u32>,
) -> Vec<FieldConflict> {
    let mut found = Vec::new();
    for change in changes {
        let field = change.field();
        let Some(overwrote_version) = changed_in(field) else {
            continue;
        };
        let mut after = before.fields.clone();
        change.apply(&mut after);
        let (theirs, ours) = (value_of(&before.fields, field), value_of(&after, field));
        if theirs != ours {
            found.push(FieldConflict {
                field: field.to_owned(),
                base_version: base,
                overwrote_version,
                theirs,
                ours,
            });
        }
    }
    found
}

/// The fields that differ in `after`, by name.
#[must_use]
pub fn diff(before: Option<&EntryFields>, after: &EntryFields) -> Vec<FieldDiff> {
    let object = |fields: Option<&EntryFields>| match fields.map(serde_json::to_value) {
        Some(Ok(Value::Object(object))) => object,
        _ => serde_json::Map::new(),
    };
    let (mut before, after) = (object(before), object(Some(after)));
    let mut changes: Vec<_> = after
        .into_iter()
        .map(|(field, after)| FieldDiff {
            before: before.remove(&field).unwrap_or(Value::Null),
            field,
            after,
        })
        .collect();
    changes.extend(before.into_iter().map(|(field, before)| FieldDiff {
        field,
        before,
        after: Value::Null,
    }));
    changes.retain(|change| change.before != change.after);
    changes.sort_by(|a, b| a.field.cmp(&b.field));
    changes
}

/// The operation that a patch amounts to, in one word. If the entry `before` is not known, the word for a change of
/// status is less specific.
#[must_use]
pub fn operation_of(before: Option<&Entry>, changes: &[FieldChange]) -> &'static str {
    let was_settled = before.is_some_and(|before| matches!(before.fields.status, Status::Resolved | Status::Done));
    let claims = changes
        .iter()
        .any(|change| matches!(change, FieldChange::LeaseUntil(_)));
    let found = changes.iter().find_map(|change| match change {
        FieldChange::Restored(_) => Some("restore"),
        FieldChange::Status(Status::Archived) => Some("archive"),
        FieldChange::Status(Status::Done) => Some("complete"),
        FieldChange::Status(Status::Resolved) => Some("resolve"),
        FieldChange::Status(Status::InProgress) if claims => Some("claim"),
        FieldChange::Status(Status::Open) if claims && !was_settled => Some("give_up"),
        FieldChange::Status(_) if was_settled => Some("reopen"),
        FieldChange::PinRank(Some(_)) => Some("pin"),
        FieldChange::PinRank(None) => Some("unpin"),
        FieldChange::SupersededBy(Some(_)) => Some("supersede"),
        FieldChange::ValidatedAt(_) => Some("confirm"),
        FieldChange::Ended(_) | FieldChange::Expired(_) => Some("expire"),
        _ => None,
    });
    found.unwrap_or("update")
}

/// The operation that an erasure amounts to, in one word.
fn erasure_of(why: ErasedFor) -> &'static str {
    match why {
        ErasedFor::Forgotten => "forget",
        _ => "erase",
    }
}

fn value_of(fields: &EntryFields, field: &str) -> Value {
    let mut value = serde_json::to_value(fields).unwrap_or(Value::Null);
    value.get_mut(field).map(Value::take).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::actor::{Role, Trust};
    use crate::change::NewEntry;
    use crate::entry::{EntryKind, Owner};
    use crate::id::{EntryId, PageId};

    fn add() -> Change {
        let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::User);
        fields.body = "x".to_owned();
        let (id, page) = (EntryId::derived(&["e"]), PageId::derived(&["p"]));
        let kind = EntryKind::Observation;
        Change::AddEntry(Box::new(NewEntry { id, page, kind, fields }))
    }

    fn patch(base_version: Option<u32>, fields: Vec<FieldChange>) -> Change {
        Change::PatchEntry {
            entry: EntryId::derived(&["e"]),
            fields,
            expected_version: None,
            base_version,
        }
    }

    fn versions_of(changes: Vec<Change>) -> Vec<Version> {
        let recorded = changes.into_iter().zip(1..).map(|(change, seq)| Recorded {
            seq: Seq(seq),
            at: Timestamp::default(),
            actor: Actor::new(Role::Human, "ada"),
            change,
            reason: None,
        });
        versions(EntryHandle(1), recorded)
    }

    fn title(text: &str) -> FieldChange {
        FieldChange::Title(text.to_owned())
    }

    #[test]
    fn history_lists_the_changed_fields_of_each_version() {
        let resolved = vec![FieldChange::Status(Status::Resolved), title("t")];
        let versions = versions_of(vec![add(), patch(None, resolved.clone()), patch(None, resolved)]);
        let told: Vec<_> = versions.iter().map(|v| (v.entry.version, v.operation)).collect();
        assert_eq!(told, [(1, "add"), (2, "resolve")], "what changes nothing is no version");
        assert_eq!(
            serde_json::to_value(&versions[1].changes).unwrap(),
            json!([
                {"field": "status", "before": "active", "after": "resolved"},
                {"field": "title", "before": null, "after": "t"},
            ])
        );
    }

    #[test]
    fn erasure_adds_a_version_to_the_history_m7_6_50() {
        let erase = |why| Change::EraseEntry {
            entry: EntryId::derived(&["e"]),
            why,
            expected_version: None,
        };
        let versions = versions_of(vec![
            add(),
            erase(ErasedFor::Expired),
            erase(ErasedFor::Expired),
            erase(ErasedFor::Forgotten),
        ]);
        let told: Vec<_> = versions.iter().map(|v| (v.entry.version, v.operation)).collect();
        assert_eq!(told, [(1, "add"), (2, "erase"), (3, "forget")]);
        assert!(versions[1].changes.iter().any(|diff| diff.field == "erased"));
    }

    #[test]
    fn field_overwritten_from_an_old_version_is_a_conflict_m7_4_33() {
        let versions = versions_of(vec![
            add(),
            patch(Some(1), vec![title("first")]),
            patch(Some(1), vec![title("second"), FieldChange::Status(Status::Resolved)]),
            patch(Some(3), vec![title("third")]),
            patch(Some(1), vec![title("third"), FieldChange::Body("y".to_owned())]),
        ]);
        let conflicts: Vec<_> = versions.iter().map(|version| version.conflicts.len()).collect();
        assert_eq!(conflicts, [0, 0, 1, 0, 0]);
        assert_eq!(
            serde_json::to_value(&versions[2].conflicts[0]).unwrap(),
            json!({"field": "title", "base_version": 1, "overwrote_version": 2, "theirs": "first", "ours": "second"})
        );
    }
}
