use std::time::Duration;

use folio_memory::id::Ref;
use folio_memory::observation::ObservationInput;
use folio_memory::{Actor, Role};

use super::*;
use crate::Workspace;
use crate::store::Store;
use crate::system::{RandomIds, SystemClock};
use crate::workspace::ForgetFilter;

#[test]
fn store_can_be_reopened_after_its_threads_failed_to_start() {
    let folder = tempfile::tempdir().unwrap();
    let options = OpenOptions::at(folder.path().join("folio.db"));
    for allowed in 0..2 {
        let mut started = 0;
        let refused = SqliteStore::open_with(&options, &mut |_, work| {
            started += 1;
            if started > allowed {
                return Err(std::io::Error::from_raw_os_error(11));
            }
            std::thread::Builder::new().spawn(work)
        });
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("no thread can be started"), "{refused}");
    }
    SqliteStore::open(&options).unwrap();
}

/// Until the reader is done, the file still has what the writer has erased, however often it is asked to.
#[tokio::test]
async fn forgetting_again_reports_a_file_that_somebody_still_reads_m7_6_50() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let store = SqliteStore::open(&OpenOptions::at(&path)).unwrap();
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds::default()));
    let memory = Workspace::new(Arc::clone(&store) as Arc<dyn Store>, clock, ids, SpaceName::main());
    let person = Actor::new(Role::Human, "ada");
    let input = ObservationInput {
        content: "the wedding is in the old mill by the river".to_owned(),
        ..ObservationInput::default()
    };
    let entry = memory.add_observation(&person, input, None).await.unwrap().entry;
    let forget = async || {
        let filter = ForgetFilter {
            entries: vec![Ref::Id(entry.id)],
            ..ForgetFilter::default()
        };
        memory
            .forget(&person, &filter, "she asked for it")
            .await
            .unwrap()
            .residue
    };
    store.writer.set_patience(Duration::ZERO);
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM log").unwrap();
    let first = forget().await;
    assert_eq!(first.found, [format!("free space of {}-wal", path.display())]);
    let second = forget().await;
    assert_eq!(second.no_longer_known, 1);
    let left = format!("free space of {}: another process is reading it", store.location());
    assert_eq!(second.found, [left]);

    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(forget().await.found, Vec::<String>::new());
}
