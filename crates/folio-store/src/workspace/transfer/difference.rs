//! Compares two entries with the same id.

use folio_memory::EntryFields;

/// The names of the fields in which `there` differs from `given`. The source, the moment at which an expiry was noted,
/// and the rank of a pin do not count.
pub(super) fn between(given: &EntryFields, there: &EntryFields) -> Vec<&'static str> {
    let body = |fields: &EntryFields| match &fields.body_ref {
        Some(body) => Err(body.hash.clone()),
        None => Ok(fields.body.clone()),
    };
    let pairs = [
        ("title", given.title == there.title),
        ("body", body(given) == body(there)),
        ("type", given.type_name == there.type_name),
        ("parts", given.parts == there.parts),
        ("status", given.status == there.status),
        ("confidence", given.confidence == there.confidence),
        ("tags", given.tags == there.tags),
        ("owner", given.owner == there.owner),
        ("context", given.context == there.context),
        ("metadata", given.metadata == there.metadata),
        ("phase", given.phase == there.phase),
        ("progress", given.progress == there.progress),
        ("pin", given.pin_rank.is_some() == there.pin_rank.is_some()),
        ("lifetime", given.lifetime == there.lifetime),
        ("superseded_by", given.superseded_by == there.superseded_by),
        ("outcome", given.outcome == there.outcome),
    ];
    pairs
        .into_iter()
        .filter_map(|(name, is_same)| (!is_same).then_some(name))
        .collect()
}
