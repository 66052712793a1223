//! Compares the index with the rules: its answers must be those of `EntryQuery::matches` and `EntryQuery::compare`.

use folio_memory::id::{EntryHandle, EntryId, PageId, Seq};
use folio_memory::terms::terms_of;
use folio_memory::{
    Confidence, Entry, EntryFields, EntryKind, EntryQuery, Lifetime, NewEntry, Order, Owner, Status, Tag, Timestamp,
    Trust, TypeRanks,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use serde_json::json;

use super::*;

/// Few values for each field, so that queries find something.
fn entry(number: u64) -> impl Strategy<Value = Entry> {
    let parts = (
        0..3usize,
        0..3usize,
        0..3usize,
        0..4u8,
        0..5u8,
        0..4i64,
        any::<bool>(),
        0..3u64,
    );
    parts.prop_map(move |(kind, status, owner, tags, sure, end, pinned, goal)| {
        let kind = [EntryKind::Observation, EntryKind::Note, EntryKind::Todo][kind];
        let mut fields = EntryFields::new(
            kind,
            Owner::parse(["agent", "user", "tool:x"][owner]).unwrap(),
            Trust::User,
        );
        if kind == EntryKind::Observation {
            fields.type_name = Some(["alert", "observation", "never_registered"][status].to_owned());
            fields.confidence = (sure > 0).then(|| Confidence::clamped(f64::from(sure) / 4.0).0);
        }
        fields.tags = ["a", "b"]
            .iter()
            .enumerate()
            .filter(|(n, _)| tags & (1 << n) != 0)
            .map(|(_, tag)| Tag::parse(tag).unwrap())
            .collect();
        fields.status = match (kind, status) {
            (_, 2) => Status::Archived,
            (EntryKind::Todo, 1) => Status::Done,
            (EntryKind::Todo, _) => Status::Open,
            (_, 1) => Status::Resolved,
            _ => Status::Active,
        };
        fields.lifetime = if end == 0 {
            Lifetime::Unlimited
        } else {
            Lifetime::Until(Timestamp::from_millis(end * 2_000_000))
        };
        fields.pin_rank = pinned.then_some(1);
        fields.context = (goal > 0).then(|| json!({"goal": {"id": goal}}));
        let new = NewEntry {
            id: EntryId::derived(&[&number.to_string()]),
            page: PageId::derived(&["p"]),
            kind,
            fields,
        };
        Entry::added(new, EntryHandle(number), Seq(number), Timestamp::from_millis(0))
    })
}

fn query() -> impl Strategy<Value = EntryQuery> {
    let parts = (
        0..4usize,
        0..3usize,
        0..3usize,
        0..8u8,
        0..3u8,
        0..3u64,
        0..3usize,
        0..5u8,
    );
    parts.prop_map(|(kind, status, owner, tags, sure, goal, order, pinned)| EntryQuery {
        pinned: match pinned {
            0 => Some(true),
            1 => Some(false),
            _ => None,
        },
        kinds: match kind {
            3 => vec![EntryKind::Note, EntryKind::Todo],
            kind => vec![[EntryKind::Observation, EntryKind::Note, EntryKind::Todo][kind]],
        },
        types: if status == 2 {
            vec!["alert".into(), "observation".into()]
        } else {
            Vec::new()
        },
        status: match status {
            0 => Vec::new(),
            1 => vec![Status::Active],
            _ => vec![Status::Active, Status::Resolved, Status::Open],
        },
        owner: if owner == 0 {
            Vec::new()
        } else {
            vec![Owner::parse(["agent", "user"][owner - 1]).unwrap()]
        },
        tags: if tags & 1 == 1 {
            vec![Tag::parse("a").unwrap()]
        } else {
            Vec::new()
        },
        tags_any: if tags & 2 == 2 {
            vec![Tag::parse("a").unwrap(), Tag::parse("b").unwrap()]
        } else {
            Vec::new()
        },
        tags_none: if tags & 4 == 4 {
            vec![Tag::parse("b").unwrap()]
        } else {
            Vec::new()
        },
        context: if goal == 0 {
            Vec::new()
        } else {
            vec![("goal.id".to_owned(), json!(goal))]
        },
        min_confidence: (sure > 0).then(|| f64::from(sure) / 4.0),
        order: [Order::Newest, Order::Oldest, Order::Priority][order],
        ranks: TypeRanks {
            known: [("alert".to_owned(), 0), ("observation".to_owned(), 2)].into(),
            other: 1,
        },
        ..EntryQuery::default()
    })
}

fn take_in(index: &mut LiveIndex, entry: &Entry) {
    let terms = terms_of(&entry.fields);
    match Facts::of(entry, 1, &terms) {
        Some(facts) => index.put(&facts),
        None => index.remove(entry.handle.0),
    }
}

fn wanted<'q>(query: &'q EntryQuery, after: Option<(u32, f64, u64)>, limit: usize) -> IndexQuery<'q> {
    IndexQuery {
        context: query
            .context
            .iter()
            .map(|(path, value)| folio_memory::terms::context_term(path, value).unwrap())
            .collect(),
        page: None,
        last: None,
        since: None,
        without: Vec::new(),
        query,
        after,
        limit,
    }
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    (1..40u64).prop_flat_map(|count| (1..=count).map(entry).collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn live_index_matches_and_orders_entries_like_the_query_rules(
        first in entries(),
        patched in entries(),
        query in query(),
        now in 0..8i64,
        limit in 1..12usize,
    ) {
        let now = Timestamp::from_millis(now * 1_000_000);
        let mut index = LiveIndex::default();
        first.iter().for_each(|entry| take_in(&mut index, entry));
        prop_assert!(index.advance(Timestamp::from_millis(0)));
        // Some of them change later; kind, page and type of an entry never do.
        let mut all = first;
        for changed in patched {
            if let Some(entry) = all.iter_mut().find(|entry| entry.handle == changed.handle && entry.kind == changed.kind) {
                let type_name = entry.fields.type_name.clone();
                entry.fields = EntryFields { type_name, ..changed.fields };
                take_in(&mut index, entry);
            }
        }
        if index.is_spent() {
            index = LiveIndex::default();
            all.iter().for_each(|entry| take_in(&mut index, entry));
        }
        prop_assert!(index.is_at(now) || index.advance(now));

        let mut expected: Vec<&Entry> = all.iter().filter(|entry| query.matches(entry, now)).collect();
        expected.sort_by(|a, b| query.compare(a, b));
        let (mut got, mut after) = (Vec::new(), None);
        // Page by page.
        loop {
            let found = index.find(&wanted(&query, after, limit));
            prop_assert_eq!(found.total, expected.len() as u64);
            let Some(last) = found.numbers.last() else { break };
            let last = all.iter().find(|entry| entry.handle.0 == *last).unwrap();
            let sureness = last.fields.confidence.map_or(0.0, Confidence::value);
            after = Some((query.ranks.of(last.fields.type_name.as_deref()), sureness, last.handle.0));
            prop_assert!(found.numbers.len() <= limit);
            got.extend(found.numbers);
        }
        let expected: Vec<u64> = expected.iter().map(|entry| entry.handle.0).collect();
        prop_assert_eq!(got, expected);
    }
}

#[test]
fn live_index_is_spent_when_an_earlier_entry_turns_live() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut index = LiveIndex::default();
    let mut of = |number| {
        let mut entry = entry(number).new_tree(&mut runner).unwrap().current();
        entry.fields.status = Status::Active;
        entry.fields.superseded_by = None;
        entry
    };
    take_in(&mut index, &of(2));
    assert!(!index.is_spent());
    take_in(&mut index, &of(1));
    assert!(index.is_spent());
}
