//! Checks whether imported content could have been written here: the rules are those of ordinary writes.

use std::time::Duration;

use crate::change::{NewEntry, NewPage};
use crate::entry::{Confidence, EntryFields, EntryKind, ImportedTimes, Lifetime, Owner, Tag, check_text, without_nul};
use crate::observation::TypeRegistry;
use crate::policy::MAX_TTL_MINUTES;
use crate::time::Timestamp;
use crate::warning::{Invalid, Warning};
use crate::{observation, scratchbook};

/// Brings an imported entry into the form that writing it at `now` would have produced, and returns warnings about
/// corrected values.
///
/// # Errors
///
/// The first field that a write would have refused. An erased entry needs no content.
pub fn check_entry(new: &mut NewEntry, types: &TypeRegistry, now: Timestamp) -> Result<Vec<Warning>, Invalid> {
    let (id, kind) = (new.id, new.kind);
    let fields = &mut new.fields;
    let mut warnings: Vec<_> = later_than_now(fields.brought, now).into_iter().collect();
    if !fields.status.is_of(kind.family()) {
        let message = format!("a {kind} cannot be {}", fields.status);
        return Err(Invalid::new("status_invalid", "status", message));
    }
    check_text(&fields.body, "body")?;
    if fields.type_name.is_some() && kind != EntryKind::Observation {
        let message = format!("only an observation has a type; this is a {kind}");
        return Err(Invalid::new("field_not_of_kind", "type", message));
    }
    if fields.erased.is_none() {
        match kind {
            EntryKind::Observation => observation::check_stored(fields, &mut warnings)?,
            kind if kind.is_item() => {
                for text in [&mut fields.title, &mut fields.body]
                    .into_iter()
                    .chain(&mut fields.phase)
                {
                    *text = without_nul(std::mem::take(text), &mut warnings);
                }
                fields.title = scratchbook::stored_title(&fields.title, &fields.body)?;
            }
            _ => {}
        }
    }
    fields.tags = Tag::parse_all(fields.tags.iter().map(Tag::as_str))?;
    fields.owner = Owner::parse(fields.owner.as_str())?;
    fields.confidence = fields.confidence.map(|given| {
        let (confidence, warning) = Confidence::clamped(given.value());
        warnings.extend(warning);
        confidence
    });
    fields.phase = fields.phase.take().map(scratchbook::checked_phase).transpose()?;
    fields.progress = fields.progress.map(scratchbook::checked_progress).transpose()?;
    fields.context = fields.context.take().map(observation::check_context).transpose()?;
    fields.metadata = fields.metadata.take().map(observation::check_metadata).transpose()?;
    // No confirmation is later than now.
    if let Some(at) = fields.validated_at.filter(|at| *at > now) {
        fields.validated_at = Some(now);
        warnings.push(became_now("validated_at", at));
    }
    warnings.extend(bound_lifetime(fields, types, now));
    if fields.superseded_by == Some(id) {
        let message = "cannot supersede itself";
        return Err(Invalid::new("supersede_cycle", "superseded_by", message));
    }
    Ok(warnings)
}

/// Brings an imported page into the form that writing it at `now` would have produced, and returns warnings about
/// corrected values.
///
/// # Errors
///
/// The first field that a write would have refused.
pub fn check_page(new: &mut NewPage, now: Timestamp) -> Result<Vec<Warning>, Invalid> {
    let fields = &mut new.fields;
    fields.tags = Tag::parse_all(fields.tags.iter().map(Tag::as_str))?;
    fields.owner = Owner::parse(fields.owner.as_str())?;
    Ok(later_than_now(fields.brought, now).into_iter().collect())
}

/// The warning that something was made or changed later than now, which adding it corrects.
fn later_than_now(times: Option<ImportedTimes>, now: Timestamp) -> Option<Warning> {
    let times = times?;
    let all = [("created_at", times.created_at), ("updated_at", times.updated_at)];
    let (field, at) = all.into_iter().find(|(_, at)| *at > now)?;
    Some(became_now(field, at))
}

fn became_now(field: &str, at: Timestamp) -> Warning {
    let message = format!("{field} is later than now");
    Warning::new("later_than_now", message, at.to_string(), "now")
}

/// Replaces a lifetime that is longer than any write allows by the default of the type (M7.1.4). It counts from when
/// the entry was made, last changed or last confirmed, whichever was last.
fn bound_lifetime(fields: &mut EntryFields, types: &TypeRegistry, now: Timestamp) -> Option<Warning> {
    let Lifetime::Until(end) = fields.lifetime else {
        return None;
    };
    let written_at = fields
        .brought
        .map_or(now, |times| times.created_at.max(times.updated_at).min(now));
    let from = fields.validated_at.map_or(written_at, |at| at.max(written_at));
    if end <= from.plus(Duration::from_secs(u64::from(MAX_TTL_MINUTES) * 60)) {
        return None;
    }
    let of_type = fields.type_name.as_deref().and_then(|name| types.get(name));
    let default_ttl = of_type.and_then(|known| known.default_ttl);
    fields.lifetime = default_ttl.map_or(Lifetime::Unlimited, |ttl| Lifetime::Until(from.plus(ttl)));
    let used = fields
        .lifetime
        .expires_at()
        .map_or_else(|| "never".to_owned(), |end| end.to_string());
    let message = "the lifetime is longer than 525600 minutes; the default of the type is used";
    Some(Warning::new("ttl_invalid", message, end.to_string(), used))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Trust;
    use crate::id::{EntryId, PageId};

    #[test]
    fn import_removes_nul_from_items_and_observations_m7_3_29() {
        for kind in [EntryKind::Observation, EntryKind::Task] {
            let mut fields = EntryFields::new(kind, Owner::agent(), Trust::User);
            (fields.title, fields.body) = ("t\0t".to_owned(), "b\0b".to_owned());
            let mut new = NewEntry {
                id: EntryId::derived(&["e"]),
                page: PageId::derived(&["p"]),
                kind,
                fields,
            };
            let warnings = check_entry(&mut new, &TypeRegistry::default(), Timestamp::default()).unwrap();
            assert_eq!((new.fields.title.as_str(), new.fields.body.as_str()), ("tt", "bb"));
            assert_eq!(warnings.len(), 1, "{kind}");
        }
    }
}
