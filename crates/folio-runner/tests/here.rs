//! The cases for every runner, driven in this process on a file.

mod cases;
mod models_support;

use async_trait::async_trait;
use cases::{Equipment, House, Houses};
use folio_runner::Runner;

/// Houses in this process.
struct Here;

#[async_trait]
impl Houses for Here {
    async fn house(&self, equipment: Equipment) -> House {
        let folder = tempfile::tempdir().expect("a folder");
        let store = models_support::sqlite(&folder.path().join("folio.db"));
        let workspace = models_support::workspace(store);
        House {
            runner: Runner::new(workspace, equipment.registry, equipment.options),
            effects: equipment.effects,
            keeps: Box::new(folder),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_case_comes_to_what_it_should_in_this_process() {
    for case in cases::ALL {
        println!("{}", case.name);
        (case.run)(&Here).await;
    }
}
