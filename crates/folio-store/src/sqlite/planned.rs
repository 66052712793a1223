//! Writes what was decided for a commit.

use folio_memory::entry::ImportedTimes;
use folio_memory::keeping::{watched, watched_of};
use folio_memory::{Page, PageHandle, Seq, Timestamp};
use rusqlite::Connection;

use super::entry::EntryRow;
use super::error::Failure;
use super::place::Touched;
use super::{entry, journal, page, run, watch};
use crate::commit::RunAppend;
use crate::plan::{PlannedEntry, PlannedPage, PlannedRun};
use crate::prepare::{entry_fields_json, page_fields_json};

/// Writes a page.
pub(super) fn write_page(planned: &PlannedPage<'_>, conn: &Connection, seq: Seq, at: Timestamp) -> Result<(), Failure> {
    match (planned.new, &planned.page) {
        (Some((new, fields_json, parent)), None) => {
            let page = Page::added(new.clone(), PageHandle(planned.place.number()), seq, at);
            page::insert(conn, planned.place, parent, &page, fields_json)
        }
        (Some((.., parent)), Some(page)) => {
            page::insert(conn, planned.place, parent, page, &page_fields_json(&page.fields)?)
        }
        (None, Some(page)) if planned.is_changed => {
            page::update(conn, planned.place.space(), page, &page_fields_json(&page.fields)?)
        }
        (None, _) => Ok(()),
    }
}

/// Writes an entry.
pub(super) fn write_entry(
    planned: &PlannedEntry<'_>,
    conn: &Connection,
    seq: Seq,
    at: Timestamp,
) -> Result<(), Failure> {
    match (planned.new, &planned.entry) {
        (Some((new, fields_json, page)), None) => {
            let (created_at, updated_at) = ImportedTimes::times(new.fields.brought, at);
            let row = EntryRow {
                place: planned.place,
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
            watch::update(conn, planned.place, &[], &watched)
        }
        (Some((.., page)), Some(entry)) => {
            let fields_json = entry_fields_json(&entry.fields)?;
            entry::insert(conn, &EntryRow::of(entry, planned.place, page, &fields_json))?;
            watch::update(conn, planned.place, &[], &watched(entry))
        }
        (None, Some(entry)) if planned.is_changed => {
            // An entry never moves to another page, so the row keeps its page.
            let fields_json = entry_fields_json(&entry.fields)?;
            let row = EntryRow::of(entry, planned.place, planned.place, &fields_json);
            entry::update(conn, &row, &planned.old_terms)?;
            watch::update(conn, planned.place, &planned.old_watched, &watched(entry))?;
            journal::touch(conn, Touched::Entry, planned.place, seq)
        }
        // The record contains the request, and erasing must find it.
        (None, Some(_)) => journal::touch(conn, Touched::Entry, planned.place, seq),
        (None, None) => Ok(()),
    }
}

/// Writes what a commit says of a run.
pub(super) fn write_run(planned: &PlannedRun<'_>, conn: &Connection, seq: Seq, at: Timestamp) -> Result<(), Failure> {
    let RunAppend { run, status, title, .. } = planned.append;
    if planned.is_new {
        let title = title.as_deref().unwrap_or_default();
        run::insert(conn, planned.place, *run, title, status.as_deref(), seq, at)?;
    } else if let Some(status) = status {
        run::set_status(conn, planned.place, status)?;
    }
    journal::touch(conn, Touched::Run, planned.place, seq)
}
