//! Ids of the calls in one reply of a model.

use std::collections::HashSet;

/// Gives each of `ids` that is empty, or equal to an earlier one, a unique id `call_N`: results refer to their calls by
/// id only.
pub fn make_ids_unique<'i>(ids: impl IntoIterator<Item = &'i mut String>) {
    let ids: Vec<&mut String> = ids.into_iter().collect();
    let mut used_ids: HashSet<String> = ids.iter().map(|id| (**id).clone()).collect();
    let mut assigned_ids = HashSet::with_capacity(ids.len());
    for (id, first) in ids.into_iter().zip(1_usize..) {
        if id.is_empty() || !assigned_ids.insert(id.clone()) {
            let mut candidates = (first..).map(|number| format!("call_{number}"));
            if let Some(new_id) = candidates.find(|new_id| used_ids.insert(new_id.clone())) {
                assigned_ids.insert(new_id.clone());
                *id = new_id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_or_duplicate_call_ids_are_made_unique() {
        // Gemini sends no ids, some servers send the same id for each call, and a generated id may equal that of
        // another call.
        for (ids, named) in [
            (["", "", ""], ["call_1", "call_2", "call_3"]),
            (["a", "a", "a-2"], ["a", "call_2", "a-2"]),
            (["a", "a", "call_2"], ["a", "call_3", "call_2"]),
        ] {
            let mut ids = ids.map(str::to_owned);
            make_ids_unique(&mut ids);
            assert_eq!(ids, named);
        }
    }
}
