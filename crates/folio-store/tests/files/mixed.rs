//! Eight processes each do a thousand different operations on one file, without a server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::id::Ref;
use folio_memory::observation::{ObservationInput, ObservationPatch};
use folio_memory::{Actor, Entry, EntryHandle, Owner, Role, Seq, SpaceName, ThreadKey};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::Guard;
use folio_store::{SystemClock, Workspace};
use folio_testkit::SeededIds;
use folio_testkit::process::{Process, orders, say};
use serde_json::{Value, json};
use tokio::time::Instant;

const PROCESSES: u16 = 8;
const OPERATIONS: u32 = 1_000;

/// The observation that everybody changes.
const SHARED: EntryHandle = EntryHandle(1);

fn memory(path: &std::path::Path, number: u16) -> Workspace {
    let store = SqliteStore::open(&OpenOptions::at(path)).unwrap();
    Workspace::new(
        store,
        Arc::new(SystemClock),
        Arc::new(SeededIds::new(number)),
        SpaceName::main(),
    )
}

fn actor(number: u16) -> Actor {
    Actor::new(Role::Human, format!("p{number}"))
}

fn input(content: &str) -> ObservationInput {
    serde_json::from_value(json!({"content": content, "tags": ["mixed"]})).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_of_eight_processes_are_stored_once_and_none_refused_m7_4_32() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let memory = memory(&path, 99);
    let shared = memory
        .add_observation(&actor(99), input("shared"), None)
        .await
        .unwrap()
        .entry;
    assert_eq!(shared.handle, SHARED);
    let mut processes: Vec<_> = (1..=PROCESSES)
        .map(|n| Process::start("mixed::child_does_its_share", &path, n))
        .collect();
    let (mut worst, mut acknowledged) = (Duration::ZERO, 0);
    for process in &mut processes {
        while let Some(said) = process.next_line() {
            let (count, p99) = said.split_once(' ').unwrap();
            acknowledged += count.parse::<u64>().unwrap();
            worst = worst.max(Duration::from_micros(p99.parse().unwrap()));
        }
        assert!(process.wait_for_success(), "an operation was refused");
    }
    assert_eq!(acknowledged, u64::from(PROCESSES) * u64::from(OPERATIONS));
    println!("p99 of the slowest of {PROCESSES} processes: {worst:?}");
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut since = Seq(0);
    loop {
        let rows = memory.changes(since, 1_000).await.unwrap();
        let Some(last) = rows.last() else { break };
        since = last.seq;
        for key in rows.into_iter().filter_map(|row| row.idempotency_key) {
            *seen.entry(key).or_default() += 1;
        }
    }
    for number in 1..=PROCESSES {
        for operation in 0..OPERATIONS {
            assert_eq!(
                seen.get(&format!("{number}/{operation}")),
                Some(&1),
                "{number}/{operation}"
            );
        }
    }
    let versions = memory.versions(Ref::Handle(SHARED)).await.unwrap();
    assert_eq!(
        u32::try_from(versions.len()),
        Ok(1 + u32::from(PROCESSES) * OPERATIONS / 5)
    );
    assert_eq!(memory.store().check().await.unwrap().problems, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs in a process of its own, started by the test above"]
async fn child_does_its_share() {
    let Some(orders) = orders() else { return };
    let (memory, actor) = (memory(&orders.path, orders.number), actor(orders.number));
    let mut took = Vec::new();
    let mut own: Option<Entry> = None;
    for operation in 0..OPERATIONS {
        let guard = Guard {
            idempotency_key: Some(format!("{}/{operation}", orders.number)),
            ..Guard::default()
        };
        let began = Instant::now();
        one(&memory, &actor, operation, guard, &mut own).await;
        took.push(began.elapsed());
    }
    took.sort();
    let p99 = took[took.len() * 99 / 100];
    say(format_args!("{} {}", took.len(), p99.as_micros()));
}

/// Operation number `operation`: five kinds, in turn.
async fn one(memory: &Workspace, actor: &Actor, operation: u32, guard: Guard, own: &mut Option<Entry>) {
    let text = format!("{} {operation}", actor.name);
    let patch = |value: Value| -> ObservationPatch { serde_json::from_value(value).unwrap() };
    let key = guard.idempotency_key.clone();
    match (operation % 5, own.as_ref().map(|own| Ref::Id(own.id))) {
        (1, Some(mine)) => {
            let patch = patch(json!({"title": text, "confidence": 0.9}));
            memory
                .update_observation_under(actor, mine, patch, guard)
                .await
                .unwrap();
        }
        (2, _) => {
            let patch = patch(json!({"title": text}));
            memory
                .update_observation_under(actor, Ref::Handle(SHARED), patch, guard)
                .await
                .unwrap();
        }
        (3, Some(mine)) => {
            let old = format!("{} {}", actor.name, operation - 3);
            memory
                .str_replace(actor, mine, &old, &format!("{old}, again"), guard)
                .await
                .unwrap();
        }
        (4, Some(mine)) => {
            memory.complete(actor, mine, guard).await.unwrap();
        }
        _ => {
            *own = Some(memory.add_observation(actor, input(&text), key).await.unwrap().entry);
        }
    }
}

/// Sixteen claimants of the same piece of work at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_one_of_many_concurrent_claims_succeeds_m7_4_35() {
    let folder = tempfile::tempdir().unwrap();
    let memory = memory(&folder.path().join("folio.db"), 1);
    let item = serde_json::from_value(json!({"kind": "task", "title": "do it"})).unwrap();
    let task = memory
        .add_item(&actor(1), &ThreadKey::main(), item, None)
        .await
        .unwrap()
        .entry;
    let claims = (0..16).map(|number| {
        let (memory, task) = (memory.clone(), Ref::Id(task.id));
        tokio::spawn(async move {
            let owner = Owner::parse(&format!("o{number}")).unwrap();
            memory
                .claim(&actor(1), task, &owner, None, Guard::default())
                .await
                .is_ok()
        })
    });
    let mut won = 0;
    for claim in claims.collect::<Vec<_>>() {
        won += u32::from(claim.await.unwrap());
    }
    assert_eq!(won, 1);
}
