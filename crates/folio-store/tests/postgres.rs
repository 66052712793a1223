//! The shared store keeps every promise of the seam.

use std::sync::Arc;

use folio_store::Store;
use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_testkit::contract::Home;
use folio_testkit::postgres::Database;

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

folio_testkit::store_contract!(InDatabase::new());
