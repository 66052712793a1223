//! The cases for every runner, driven in this process on a file.

mod cases;
mod models_support;

use std::future::Future;
use std::pin::Pin;

use cases::{Equipment, House, Houses};
use folio_runner::Runner;

/// Houses in this process.
struct Here;

impl Houses for Here {
    fn house(&self, equipment: Equipment) -> Pin<Box<dyn Future<Output = House> + Send + '_>> {
        Box::pin(async move {
            let folder = tempfile::tempdir().expect("a folder");
            let store = models_support::sqlite(&folder.path().join("folio.db"));
            let workspace = models_support::workspace(store);
            House {
                runner: Runner::new(workspace, equipment.registry, equipment.options),
                effects: equipment.effects,
                keeps: Box::new(folder),
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_case_comes_to_what_it_should_in_this_process() {
    for case in cases::ALL {
        println!("{}", case.name);
        (case.run)(&Here).await;
    }
}
