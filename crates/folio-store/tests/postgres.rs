//! The shared store keeps every promise of the seam.

use std::sync::Arc;

use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_store::{LiveOptions, Store};
use folio_testkit::contract::Home;
use folio_testkit::postgres::Database;

/// A database of its own, with an index of the live entries in memory from the first question on.
struct Indexed(InDatabase);

impl Home for Indexed {
    fn open(&self) -> Arc<dyn Store> {
        let options = OpenOptions {
            live: LiveOptions::at_once(),
            ..OpenOptions::at(self.0.0.url())
        };
        PostgresStore::open(&options).expect("a store")
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// A database of its own.
struct InDatabase(Database);

impl InDatabase {
    fn new() -> Self {
        Self(Database::fresh())
    }
}

impl Home for InDatabase {
    fn open(&self) -> Arc<dyn Store> {
        PostgresStore::open(&OpenOptions::at(self.0.url())).expect("a store")
    }

    fn is_shared(&self) -> bool {
        true
    }
}

mod tables {
    use super::InDatabase;

    folio_testkit::store_contract!(InDatabase::new());
}

mod indexed {
    use super::{InDatabase, Indexed};

    folio_testkit::store_contract!(Indexed(InDatabase::new()));
}
