//! The cases for every runner, driven by a worker with Restate, with everything in PostgreSQL: they have the same
//! results, and write the same journals as in one process.

use crate::cases::{Equipment, House, Houses};
use crate::support::journals::{by_node, in_order};
use crate::support::{Shared, Working};
use async_trait::async_trait;
use folio_runner::{Runner, RunnerOptions};
use folio_store::SqliteStore;
use folio_store::sqlite::OpenOptions;
use folio_testkit::restate::Restate;
use serde_json::Value;

/// Houses with runs in this process, in memory: all stores behave alike (the contract), and only the journals are
/// compared.
struct InProcess;

#[async_trait]
impl Houses for InProcess {
    async fn house(&self, equipment: Equipment) -> House {
        let store = SqliteStore::open(&OpenOptions::in_memory()).expect("a store");
        let workspace = crate::models_support::workspace(store);
        House {
            runner: Runner::new(workspace, equipment.registry, equipment.options),
            effects: equipment.effects,
            keeps: Box::new(()),
        }
    }
}

/// Houses whose runs Restate assigns to a worker.
struct ViaRestate<'r> {
    restate: &'r Restate,
}

#[async_trait]
impl Houses for ViaRestate<'_> {
    async fn house(&self, equipment: Equipment) -> House {
        let shared = Shared::new(self.restate).await;
        let worker = shared.worker(equipment.registry.clone(), equipment.options).await;
        House {
            runner: shared.runner(
                equipment.registry,
                RunnerOptions {
                    has_person: true,
                    ..RunnerOptions::default()
                },
            ),
            effects: equipment.effects,
            keeps: Box::new((worker, shared)),
        }
    }

    async fn another(&self, house: &mut House, equipment: Equipment) {
        let kept = std::mem::replace(&mut house.keeps, Box::new(()));
        let (worker, shared) = *kept.downcast::<(Working, Shared)>().expect("a worker");
        drop(worker);
        let next = shared.worker(equipment.registry, equipment.options).await;
        house.keeps = Box::new((next, shared));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restate_worker_writes_the_same_journals_as_one_process() {
    let restate = Restate::start();
    let there = ViaRestate { restate: &restate };
    for case in crate::cases::ALL {
        println!("{}", case.name);
        let (shared, run) = (case.run)(&there).await;
        let (alone, same) = (case.run)(&InProcess).await;
        if case.same_order {
            let [shared, alone] = [in_order(&shared.runner, run).await, in_order(&alone.runner, same).await];
            assert_same_events(case.name, &shared, &alone);
        } else {
            let [shared, alone] = [by_node(&shared.runner, run).await, by_node(&alone.runner, same).await];
            assert!(shared.keys().eq(alone.keys()), "{}: other nodes", case.name);
            for (path, events) in &shared {
                assert_same_events(&format!("{} at {path:?}", case.name), events, &alone[path]);
            }
        }
    }
}

fn assert_same_events(what: &str, shared: &[Value], alone: &[Value]) {
    let differs = shared.iter().zip(alone).position(|(shared, alone)| shared != alone);
    if let Some(at) = differs {
        panic!("{what}: event {at} differs:\n{}\n{}", shared[at], alone[at]);
    }
    assert_eq!(shared.len(), alone.len(), "{what}");
    assert!(!shared.is_empty());
}
