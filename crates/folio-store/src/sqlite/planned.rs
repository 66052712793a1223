//! What a commit will write, once all of it is decided.

use std::collections::HashMap;

use folio_memory::entry::Brought;
use folio_memory::keeping::{Watched, watched, watched_of};
use folio_memory::{Entry, NewEntry, NewPage, Page, PageHandle, Seq, Timestamp};
use rusqlite::Connection;

use super::entry::EntryRow;
use super::error::Failure;
use super::journal::{self, Touched};
use super::place::Place;
use super::prepare::{entry_fields_json, page_fields_json};
use super::{entry, page, run, watch};
use crate::commit::RunAppend;

/// Things that a commit names, in the order in which it does, each once.
pub(super) struct Planned<K, V> {
    pub(super) items: Vec<V>,
    pub(super) by_id: HashMap<K, usize>,
}

/// A page that a commit names.
pub(super) struct PlannedPage<'c> {
    pub(super) place: Place,
    /// If the commit adds it: as what.
    pub(super) new: Option<(&'c NewPage, &'c str, Option<Place>)>,
    /// As it will be, once somebody had to look.
    pub(super) page: Option<Page>,
    pub(super) is_changed: bool,
}

/// An entry that a commit names.
pub(super) struct PlannedEntry<'c> {
    pub(super) place: Place,
    /// If the commit adds it: as what, and onto which page.
    pub(super) new: Option<(&'c NewEntry, &'c str, Place)>,
    /// As it will be; none as long as it is what `new` says.
    pub(super) entry: Option<Entry>,
    pub(super) old_terms: Vec<String>,
    pub(super) old_watched: Vec<Watched>,
    pub(super) is_changed: bool,
}

/// The run that a commit writes to.
pub(super) struct PlannedRun<'c> {
    pub(super) append: &'c RunAppend,
    pub(super) place: Place,
    pub(super) is_new: bool,
}

impl<K: std::hash::Hash + Eq, V> Planned<K, V> {
    /// Notes `item`; its index.
    pub(super) fn add(&mut self, id: K, item: V) -> usize {
        let index = self.items.len();
        self.items.push(item);
        self.by_id.insert(id, index);
        index
    }
}

impl<K, V> Default for Planned<K, V> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            by_id: HashMap::new(),
        }
    }
}

impl PlannedPage<'_> {
    /// Writes it.
    pub(super) fn write(&self, conn: &Connection, seq: Seq, at: Timestamp) -> Result<(), Failure> {
        match (self.new, &self.page) {
            (Some((new, fields_json, parent)), None) => {
                let page = Page::added(new.clone(), PageHandle(self.place.number()), seq, at);
                page::insert(conn, self.place, parent, &page, fields_json)
            }
            (Some((.., parent)), Some(page)) => {
                page::insert(conn, self.place, parent, page, &page_fields_json(&page.fields)?)
            }
            (None, Some(page)) if self.is_changed => {
                page::update(conn, self.place.space(), page, &page_fields_json(&page.fields)?)
            }
            (None, _) => Ok(()),
        }
    }
}

impl PlannedEntry<'_> {
    /// Writes it.
    pub(super) fn write(&self, conn: &Connection, seq: Seq, at: Timestamp) -> Result<(), Failure> {
        match (self.new, &self.entry) {
            (Some((new, fields_json, page)), None) => {
                let (created_at, updated_at) = Brought::times(new.fields.brought, at);
                let row = EntryRow {
                    place: self.place,
                    id: new.id,
                    page,
                    kind: new.kind,
                    version: 1,
                    created_at,
                    updated_at,
                    created_seq: seq,
                    updated_seq: seq,
                    fields: &new.fields,
                    fields_json,
                };
                entry::insert(conn, &row)?;
                let watched = watched_of(new.kind, &new.fields, created_at, updated_at);
                watch::update(conn, self.place, &[], &watched)
            }
            (Some((.., page)), Some(entry)) => {
                let fields_json = entry_fields_json(&entry.fields)?;
                entry::insert(conn, &EntryRow::of(entry, self.place, page, &fields_json))?;
                watch::update(conn, self.place, &[], &watched(entry))
            }
            (None, Some(entry)) if self.is_changed => {
                // Its page does not change, so the row keeps what it has.
                let fields_json = entry_fields_json(&entry.fields)?;
                let row = EntryRow::of(entry, self.place, self.place, &fields_json);
                entry::update(conn, &row, &self.old_terms)?;
                watch::update(conn, self.place, &self.old_watched, &watched(entry))?;
                journal::touch(conn, Touched::Entry, self.place, seq)
            }
            // The record has what was asked for, and erasing has to find it.
            (None, Some(_)) => journal::touch(conn, Touched::Entry, self.place, seq),
            (None, None) => Ok(()),
        }
    }
}

impl PlannedRun<'_> {
    /// Writes it.
    pub(super) fn write(&self, conn: &Connection, seq: Seq, at: Timestamp) -> Result<(), Failure> {
        let RunAppend { run, status, title, .. } = self.append;
        if self.is_new {
            let title = title.as_deref().unwrap_or_default();
            run::insert(conn, self.place, *run, title, status.as_deref(), seq, at)?;
        } else if let Some(status) = status {
            run::set_status(conn, self.place, status)?;
        }
        journal::touch(conn, Touched::Run, self.place, seq)
    }
}
