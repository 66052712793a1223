//! Compares two entries with the same id.

use folio_memory::EntryFields;

/// The names of the fields in which `existing` differs from `imported`. The source, the moment at which an expiry was
/// noted, and the rank of a pin do not count.
pub(super) fn between(imported: &EntryFields, existing: &EntryFields) -> Vec<&'static str> {
    let body = |fields: &EntryFields| match &fields.body_ref {
        Some(body) => Err(body.hash.clone()),
        None => Ok(fields.body.clone()),
    };
    let pairs = [
        ("title", imported.title == existing.title),
        ("body", body(imported) == body(existing)),
        ("type", imported.type_name == existing.type_name),
        ("parts", imported.parts == existing.parts),
        ("status", imported.status == existing.status),
        ("confidence", imported.confidence == existing.confidence),
        ("tags", imported.tags == existing.tags),
        ("owner", imported.owner == existing.owner),
        ("context", imported.context == existing.context),
        ("metadata", imported.metadata == existing.metadata),
        ("phase", imported.phase == existing.phase),
        ("progress", imported.progress == existing.progress),
        ("pin", imported.pin_rank.is_some() == existing.pin_rank.is_some()),
        ("lifetime", imported.lifetime == existing.lifetime),
        ("superseded_by", imported.superseded_by == existing.superseded_by),
        ("outcome", imported.outcome == existing.outcome),
    ];
    pairs
        .into_iter()
        .filter_map(|(name, is_same)| (!is_same).then_some(name))
        .collect()
}
