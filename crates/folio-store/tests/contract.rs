//! The embedded store fulfils the store contract, in a file and in memory.

use std::sync::Arc;

use folio_store::LiveOptions;
use folio_store::Store;
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_testkit::contract::Home;

/// A file in a folder of its own.
struct InFile(tempfile::TempDir);

impl InFile {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }
}

impl Home for InFile {
    fn open(&self) -> Arc<dyn Store> {
        SqliteStore::open(&OpenOptions::at(self.0.path().join("folio.db"))).expect("a store")
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// A file, with an in-memory index of the live entries from the first query on.
struct Indexed(InFile);

impl Home for Indexed {
    fn open(&self) -> Arc<dyn Store> {
        let options = OpenOptions {
            live: LiveOptions::at_once(),
            ..OpenOptions::at(self.0.0.path().join("folio.db"))
        };
        SqliteStore::open(&options).expect("a store")
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// A store in memory.
struct InMemory;

impl Home for InMemory {
    fn open(&self) -> Arc<dyn Store> {
        SqliteStore::open(&OpenOptions::in_memory()).expect("a store")
    }

    fn is_shared(&self) -> bool {
        false
    }
}

mod file {
    use super::InFile;

    folio_testkit::store_contract!(InFile::new());
}

mod indexed {
    use super::{InFile, Indexed};

    folio_testkit::store_contract!(lists of Indexed(InFile::new()));
}

mod memory {
    use super::InMemory;

    folio_testkit::store_contract!(InMemory);
}
