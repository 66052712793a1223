//! Checks whether imported content could have been written here: the rules are those of ordinary writes.

use crate::change::{NewEntry, NewPage};
use crate::entry::{Confidence, EntryKind, Owner, Tag, check_text, without_nul};
use crate::time::Timestamp;
use crate::warning::{Invalid, Warning};
use crate::{observation, scratchbook};

/// Brings an imported entry into the form that writing it at `now` would have produced, and returns warnings about
/// corrected values.
///
/// # Errors
///
/// The first field that a write would have refused. An erased entry needs no content.
pub fn check_entry(new: &mut NewEntry, now: Timestamp) -> Result<Vec<Warning>, Invalid> {
    let (id, kind) = (new.id, new.kind);
    let fields = &mut new.fields;
    let mut warnings = Vec::new();
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
    fields.validated_at = fields.validated_at.map(|at| at.min(now));
    if fields.superseded_by == Some(id) {
        let message = "cannot supersede itself";
        return Err(Invalid::new("supersede_cycle", "superseded_by", message));
    }
    Ok(warnings)
}

/// Brings an imported page into the form that writing it would have produced.
///
/// # Errors
///
/// The first field that a write would have refused.
pub fn check_page(new: &mut NewPage) -> Result<(), Invalid> {
    let fields = &mut new.fields;
    fields.tags = Tag::parse_all(fields.tags.iter().map(Tag::as_str))?;
    fields.owner = Owner::parse(fields.owner.as_str())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Trust;
    use crate::entry::EntryFields;
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
            let warnings = check_entry(&mut new, Timestamp::default()).unwrap();
            assert_eq!((new.fields.title.as_str(), new.fields.body.as_str()), ("tt", "bb"));
            assert_eq!(warnings.len(), 1, "{kind}");
        }
    }
}
