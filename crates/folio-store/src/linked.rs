//! How many entries are linked to goals and pending actions, and what stores share to count them.

use std::collections::HashSet;

use folio_memory::entry::{Outcome, Status};
use folio_memory::goals::{GoalNames, Linked, LinkedCounts};
use folio_memory::id::Ref;
use folio_memory::keeping::ArchivedFor;
use folio_memory::patterns::CHANNEL;
use folio_memory::terms::context_term;
use folio_memory::{EntryId, EntryKind, Relation, SpaceName, Timestamp};
use serde_json::Value;

use crate::error::StoreError;
use crate::store::Store;

/// Counts the entries that are linked to `goal` by reading each of them: a store that can count does so only for names
/// that have no term.
async fn count_by_reading<S: Store + ?Sized>(
    store: &S,
    space: &SpaceName,
    goal: &GoalNames,
    now: Timestamp,
) -> Result<LinkedCounts, StoreError> {
    let (mut counts, mut counted) = (LinkedCounts::default(), HashSet::new());
    for mut query in goal.queries() {
        loop {
            let answer = store.entries(space, &query, now).await?;
            for entry in answer.items.iter().filter(|entry| entry.kind != goal.kind) {
                if counted.insert(entry.id) {
                    counts.add(Linked::of(entry, now), 1);
                }
            }
            query.cursor = answer.next;
            if query.cursor.is_none() {
                break;
            }
        }
    }
    let id = goal.id.to_string();
    // The evidence for a goal also counts as linked to it.
    for link in store.links(space, &id).await? {
        if link.rel == Relation::EvidenceFor
            && link.dst == id
            && let Ok(source) = link.src.parse::<EntryId>()
            && counted.insert(source)
        {
            match store.entry(space, Ref::Id(source)).await {
                Ok(entry) => counts.add(Linked::of(&entry, now), 1),
                // A link may name what has been removed since.
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(counts)
}

/// The same for each of `goals`.
pub(crate) async fn linked_counts_by_reading<S: Store + ?Sized>(
    store: &S,
    space: &SpaceName,
    goals: &[GoalNames],
    now: Timestamp,
) -> Result<Vec<LinkedCounts>, StoreError> {
    let mut counts = Vec::with_capacity(goals.len());
    for goal in goals {
        counts.push(count_by_reading(store, space, goal, now).await?);
    }
    Ok(counts)
}

/// A goal, and the terms of its names.
pub(crate) type WithTerms = (GoalNames, Vec<String>);

/// A goal, and its place among all that are asked for.
pub(crate) type WithPlace = (usize, GoalNames);

/// Those of `goals` of which each name has a term, with the terms of the entries that have a name of it in their context;
/// and the others, each with its place among all.
pub(crate) fn with_terms(goals: Vec<GoalNames>) -> (Vec<WithTerms>, Vec<WithPlace>) {
    let (mut with_terms, mut others) = (Vec::new(), Vec::new());
    for (place, goal) in goals.into_iter().enumerate() {
        let terms: Option<Vec<String>> = goal.keys.iter().map(|key| context_term(goal.path, key)).collect();
        match terms {
            Some(terms) => with_terms.push((goal, terms)),
            None => others.push((place, goal)),
        }
    }
    (with_terms, others)
}

/// `counts` of the goals whose names have terms, with those of the `others` in their places.
pub(crate) async fn with_counts_by_reading<S: Store + ?Sized>(
    store: &S,
    space: &SpaceName,
    mut counts: Vec<LinkedCounts>,
    others: Vec<WithPlace>,
    now: Timestamp,
) -> Result<Vec<LinkedCounts>, StoreError> {
    for (place, goal) in others {
        counts.insert(place, count_by_reading(store, space, &goal, now).await?);
    }
    Ok(counts)
}

/// A row of a count, as its columns have it.
#[derive(Debug)]
pub(crate) struct Counted<'r> {
    pub(crate) kind: &'r str,
    pub(crate) type_name: Option<String>,
    pub(crate) status: &'r str,
    pub(crate) is_over: bool,
    pub(crate) is_superseded: bool,
    /// What the columns before the fields do not have: which rule archived it, its outcome, why it was erased, and the
    /// channel of its source.
    pub(crate) archived_for: Option<ArchivedFor>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) is_erased: bool,
    pub(crate) channel: Option<&'r str>,
}

impl Counted<'_> {
    /// What counts of such entries; `None` if the kind or the status is unknown.
    pub(crate) fn linked(self) -> Option<Linked> {
        Some(Linked {
            kind: EntryKind::parse(self.kind)?,
            type_name: self.type_name,
            status: Status::parse(self.status)?,
            is_over: self.is_over,
            is_superseded: self.is_superseded,
            archived_for: self.archived_for,
            outcome: self.outcome,
            is_erased: self.is_erased,
            is_reflection: self.channel == Some(CHANNEL),
        })
    }
}

/// The same part of the fields as JSON: a list of four.
pub(crate) type Rest = (Option<ArchivedFor>, Option<Outcome>, Option<Value>, Option<String>);

#[cfg(test)]
mod tests {
    use folio_memory::goals::GOAL_PATH;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_goals_whose_names_have_no_term_are_read_m7_11_3() {
        let named = |name: Value| GoalNames {
            id: EntryId::derived(&[&name.to_string()]),
            kind: EntryKind::Goal,
            path: GOAL_PATH,
            keys: vec![name],
        };
        let goals = [json!("shop"), json!(["a", "list"]), json!(7)].map(named).to_vec();
        let (with_terms, others) = with_terms(goals.clone());
        let counted: Vec<&GoalNames> = with_terms.iter().map(|(goal, _)| goal).collect();
        assert_eq!(counted, [&goals[0], &goals[2]]);
        assert_eq!(others, [(1, goals[1].clone())]);
    }
}
