//! The cases for every runner, driven in this process on a file.

use std::sync::Arc;

use crate::cases::{Equipment, House, Houses};
use async_trait::async_trait;
use folio_engine::Run;
use folio_memory::{RunId, Seq};
use folio_runner::{Runner, RunnerOptions};

/// Houses in this process, whose runs may keep this much of large outputs in memory.
struct Here {
    outputs_at_hand: Option<usize>,
    items: usize,
}

#[async_trait]
impl Houses for Here {
    async fn house(&self, equipment: Equipment) -> House {
        let folder = tempfile::tempdir().expect("a folder");
        let store = crate::models_support::sqlite(&folder.path().join("folio.db"));
        let workspace = crate::models_support::workspace(store);
        House {
            runner: Runner::new(
                workspace,
                equipment.registry,
                RunnerOptions {
                    outputs_at_hand: self.outputs_at_hand,
                    ..equipment.options
                },
            ),
            effects: equipment.effects,
            keeps: Box::new(folder),
        }
    }

    fn items(&self) -> usize {
        self.items
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_runner_case_passes_in_this_process() {
    let here = Here {
        outputs_at_hand: None,
        items: 10_000,
    };
    assert_case_results(here).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_runner_case_passes_without_large_outputs_in_memory() {
    let here = Here {
        outputs_at_hand: Some(0),
        items: 1_000,
    };
    assert_case_results(here).await;
}

#[expect(clippy::print_stdout, reason = "a failure shows in which case")]
async fn assert_case_results(here: Here) {
    for case in crate::cases::ALL {
        println!("{}", case.name);
        let (house, run) = (case.run)(&here).await;
        assert_commit_progress(&house, run).await;
    }
}

/// The state that a commit records for lists is that of the journal up to it, whoever wrote it.
async fn assert_commit_progress(house: &House, run: RunId) {
    let workspace = house.runner.workspace();
    let (mut folded, mut since) = (Run::new(run, Arc::default()), Seq(0));
    loop {
        let rows = workspace.store().changes(workspace.space(), since, 500).await;
        let rows = rows.expect("commits");
        let Some(last) = rows.last() else { break };
        since = last.seq;
        for row in rows {
            let Some(append) = row.record.run.filter(|append| append.run == run) else {
                continue;
            };
            for event in &append.events {
                folded.apply(row.at, event).expect("an event of its journal");
            }
            assert_eq!(append.so_far, Some(folded.summary()), "commit {}", row.seq);
        }
    }
    let told = workspace.store().runs_so_far(workspace.space(), vec![run]).await;
    assert_eq!(told.expect("what lists tell"), [(run, folded.summary())]);
    assert!(folded.result().is_some());
}
