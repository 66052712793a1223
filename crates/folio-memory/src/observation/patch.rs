//! Changes of an observation that is already recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{draft, read_only};
use crate::change::FieldChange;
use crate::entry::{Entry, EntryKind, Family, Owner, Status, Tag};
use crate::lifecycle::outcome_reset;
use crate::scratchbook::{ItemPatch, cannot_be_null};
use crate::warning::{Invalid, Warning};

/// The fields of an observation to change; a field that is left out stays as it is. The type and the end cannot be
/// changed: an update does not make an observation hold longer (M7.1.6).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObservationPatch {
    /// The new text. The beginning that answers show of a longer text stands for that text and changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The new title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The new confidence: a number from 0 to 1, or `low`, `medium`, `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Value>,
    /// The new tags, which replace all old ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// The new owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The new status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The new context, which replaces all of the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// The new metadata, which replaces all of the old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Read-only fields that were sent as well, as by a caller that sends a whole answer back. Their values must be the
    /// present ones.
    #[serde(skip)]
    pub said_again: Map<String, Value>,
    /// The fields to clear: those that were sent as `null`.
    #[serde(skip)]
    pub cleared: Vec<String>,
}

impl TryFrom<ItemPatch> for ObservationPatch {
    type Error = Invalid;

    /// Converts a patch of an item into one of an observation.
    fn try_from(patch: ItemPatch) -> Result<Self, Invalid> {
        let other = [("phase", patch.phase.is_some()), ("progress", patch.progress.is_some())];
        if let Some((field, _)) = other.into_iter().find(|(_, is_said)| *is_said) {
            let message = "is not a field of an observation";
            return Err(Invalid::new("field_not_of_kind", field, message));
        }
        Ok(Self {
            title: patch.title,
            content: patch.body,
            tags: patch.tags,
            status: patch.status,
            cleared: patch.cleared.into_iter().map(name_of_observation).collect(),
            ..Self::default()
        })
    }
}

/// The name that a field of an item has in an observation.
fn name_of_observation(field: String) -> String {
    match field.as_str() {
        "body" => "content".to_owned(),
        _ => field,
    }
}

/// The field changes that clear the fields `cleared` of `observation`. A field that is empty already stays so.
fn clear(observation: &Entry, cleared: &[String]) -> Result<Vec<FieldChange>, Invalid> {
    let fields = &observation.fields;
    let mut changes = Vec::new();
    for name in cleared {
        changes.extend(match name.as_str() {
            "title" => (!fields.title.is_empty()).then(|| FieldChange::Title(String::new())),
            "tags" => (!fields.tags.is_empty()).then(|| FieldChange::Tags(Vec::new())),
            "context" => fields.context.is_some().then_some(FieldChange::Context(None)),
            "metadata" => fields.metadata.is_some().then_some(FieldChange::Metadata(None)),
            "confidence" if fields.confidence.is_none() => None,
            _ => return Err(cannot_be_null(name)),
        });
    }
    Ok(changes)
}

/// Returns the field changes that `patch` means for `observation`, in a fixed order, and the warnings about corrected
/// values.
///
/// # Errors
///
/// The first field that is wrong; `field_not_cleared` for a field that cannot be empty; `field_immutable` for a
/// read-only field with a value other than the present one; `kind_invalid` if the entry is not an observation;
/// `archived` if it is archived, which is final for updates (M7.5.39).
pub fn patch(observation: &Entry, patch: ObservationPatch) -> Result<(Vec<FieldChange>, Vec<Warning>), Invalid> {
    let (handle, kind) = (observation.handle, observation.kind);
    if kind != EntryKind::Observation {
        return Err(Invalid::new(
            "kind_invalid",
            "kind",
            format!("{handle} is of kind {kind}; this is for observations"),
        ));
    }
    read_only::check_unchanged(observation, &patch.said_again)?;
    // Answers show only the beginning of a long text, and that must not replace the whole.
    let content = patch.content.filter(|text| !observation.fields.is_beginning(text));
    let is_marked = patch.said_again.contains_key("content_ref") && observation.fields.body_ref.is_some();
    if is_marked && content.is_some() {
        let message = "cannot be changed: content is only the beginning of a long text; \
                       to replace it, send the new text without content_ref";
        return Err(Invalid::new("field_immutable", "content_ref", message));
    }
    let mut changes = clear(observation, &patch.cleared)?;
    let mut warnings = Vec::new();
    if let Some(title) = patch.title {
        changes.push(FieldChange::Title(draft::title(title, &mut warnings)?));
    }
    if let Some(text) = content {
        changes.push(FieldChange::Body(draft::content(text, &mut warnings)?));
    }
    if let Some(text) = patch.status {
        let status = Status::parse_in(&text, Family::Knowledge).ok_or_else(|| {
            let message = format!("{text:?} is not active, pending_review, resolved or archived");
            Invalid::new("status_invalid", "status", message)
        })?;
        changes.push(FieldChange::Status(status));
        changes.extend(outcome_reset(observation, status));
    }
    if let Some(raw) = patch.confidence {
        changes.push(FieldChange::Confidence(draft::confidence(Some(&raw), &mut warnings)?));
    }
    if let Some(tags) = patch.tags {
        changes.push(FieldChange::Tags(Tag::parse_all(tags.iter().map(String::as_str))?));
    }
    if let Some(owner) = patch.owner {
        changes.push(FieldChange::Owner(Owner::parse(&owner)?));
    }
    if let Some(context) = patch.context {
        changes.push(FieldChange::Context(Some(draft::check_context(context)?)));
    }
    if let Some(metadata) = patch.metadata {
        changes.push(FieldChange::Metadata(Some(draft::check_metadata(metadata)?)));
    }
    // A repeated request for what already holds, such as after a lost answer, succeeds (M7.4.34).
    if observation.fields.status == Status::Archived && !observation.is_unchanged_by(&changes) {
        let message = format!("{handle} is archived, which is final; add a new observation");
        return Err(Invalid::new("archived", "status", message));
    }
    Ok((changes, warnings))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::actor::Trust;
    use crate::change::NewEntry;
    use crate::entry::{Confidence, EntryFields, Outcome};
    use crate::id::{EntryHandle, EntryId, PageId, Seq};
    use crate::time::Timestamp;

    fn entry(kind: EntryKind, status: Status) -> Entry {
        let mut fields = EntryFields::new(kind, Owner::agent(), Trust::User);
        fields.status = status;
        let new = NewEntry {
            id: EntryId::derived(&["e"]),
            page: PageId::derived(&["p"]),
            kind,
            fields,
        };
        Entry::added(new, EntryHandle(1), Seq(1), Timestamp::default())
    }

    fn patched(of: &Entry, value: Value) -> Result<(Vec<FieldChange>, Vec<Warning>), Invalid> {
        patch(of, serde_json::from_value(value).unwrap())
    }

    #[test]
    fn observation_patch_changes_only_the_named_fields() {
        let active = entry(EntryKind::Observation, Status::Active);
        let (changes, warnings) = patched(&active, json!({"confidence": 1.5, "status": "resolved"})).unwrap();
        let one = Confidence::clamped(1.0).0;
        assert_eq!(
            changes,
            [FieldChange::Status(Status::Resolved), FieldChange::Confidence(one)]
        );
        assert_eq!(warnings[0].code, "confidence_clamped");
    }

    #[test]
    fn reactivating_an_observation_clears_its_outcome_m7_11_6() {
        let mut refuted = entry(EntryKind::Observation, Status::Resolved);
        refuted.fields.outcome = Some(Outcome::Refuted);
        for (text, status) in [("active", Status::Active), ("pending_review", Status::PendingReview)] {
            let (changes, _) = patched(&refuted, json!({"status": text})).unwrap();
            assert_eq!(changes, [FieldChange::Status(status), FieldChange::Outcome(None)]);
        }
        let (changes, _) = patched(&refuted, json!({"status": "resolved", "title": "t"})).unwrap();
        assert!(!changes.contains(&FieldChange::Outcome(None)));
        refuted.fields.superseded_by = Some(EntryId::derived(&["f"]));
        let (changes, _) = patched(&refuted, json!({"status": "active"})).unwrap();
        assert_eq!(
            changes,
            [FieldChange::Status(Status::Active)],
            "it says what became of the old"
        );
    }

    #[test]
    fn patch_of_an_archived_entry_or_non_observation_is_refused_m7_5_39() {
        let archived = entry(EntryKind::Observation, Status::Archived);
        assert_eq!(
            patched(&archived, json!({"status": "active"})).unwrap_err().code,
            "archived"
        );
        let note = entry(EntryKind::Note, Status::Active);
        assert_eq!(
            patched(&note, json!({"content": "x"})).unwrap_err().code,
            "kind_invalid"
        );
    }

    #[test]
    fn patched_title_over_512_bytes_is_refused() {
        let active = entry(EntryKind::Observation, Status::Active);
        assert!(patched(&active, json!({"title": "x".repeat(512)})).is_ok());
        let long = patched(&active, json!({"title": "x".repeat(513)})).unwrap_err();
        assert_eq!(long.code, "title_too_long");
    }

    #[test]
    fn null_in_an_observation_patch_clears_only_optional_fields() {
        let mut full = entry(EntryKind::Observation, Status::Active);
        full.fields.title = "t".to_owned();
        full.fields.tags = vec![Tag::parse("a").unwrap()];
        full.fields.context = Some(json!({"goal_id": "g"}));
        full.fields.confidence = Some(Confidence::clamped(0.5).0);
        let said = |of: &Entry, value| patch(of, ObservationPatch::from_json(&value)?).map(|(changes, _)| changes);
        let cleared = json!({"title": null, "tags": null, "context": null, "metadata": null, "status": "resolved"});
        let changes = [
            FieldChange::Context(None),
            FieldChange::Tags(Vec::new()),
            FieldChange::Title(String::new()),
            FieldChange::Status(Status::Resolved),
        ];
        assert_eq!(said(&full, cleared), Ok(changes.to_vec()));
        for name in ["content", "confidence", "owner", "status"] {
            let refused = said(&full, json!({"title": "u", name: null})).unwrap_err();
            assert_eq!(
                (refused.code.as_str(), refused.field.as_str()),
                ("field_not_cleared", name)
            );
        }
        // A whole answer that is sent back repeats what is so already.
        let bare = entry(EntryKind::Observation, Status::Active);
        let again = json!({"title": null, "context": null, "metadata": null, "confidence": null});
        assert_eq!(said(&bare, again), Ok(Vec::new()));
    }

    #[test]
    fn observation_patch_does_not_accept_ttl_minutes_m7_1_6() {
        let refused = serde_json::from_value::<ObservationPatch>(json!({"ttl_minutes": 5})).unwrap_err();
        assert!(
            refused.to_string().starts_with("unknown field `ttl_minutes`"),
            "{refused}"
        );
    }
}
