//! The structured parts of log blocks, read without their texts.

use folio_memory::{EntryHandle, EntryId, PageId, Timestamp};

use super::column::{count, get, id};
use super::error::{Failure, damaged};
use super::page;
use super::session::Session;
use crate::place::to_column;
use crate::store::LogParts;

/// The parts of the live blocks on `page`, oldest first, with the length of the list called `without` in its place.
pub(super) async fn list(
    session: &Session,
    page: PageId,
    without: &str,
    now: Timestamp,
) -> Result<Vec<LogParts>, Failure> {
    let Some(page) = page::number_of(session, page).await? else {
        return Ok(Vec::new());
    };
    // JSON may hold a character that no text of PostgreSQL can, so that is replaced by another.
    let sql = "SELECT number, id, (CASE jsonb_typeof(parts -> $3::text)
                   WHEN 'array' THEN jsonb_set(parts, ARRAY[$3::text], to_jsonb(jsonb_array_length(parts -> $3::text)))
                   ELSE parts END)::text
               FROM (SELECT number, id, (replace(fields, '\\u0000', '\\u0001')::json -> 'parts')::jsonb AS parts FROM entry
                   WHERE space = $1 AND page = $2 AND kind IN ('log', 'step', 'summary') AND kind = 'log'
                   AND status <> 'archived' AND NOT superseded
                   AND (expires_at IS NULL OR expires_at > $4 OR pinned) OFFSET 0) AS blocks
               ORDER BY number";
    let now = now.as_nanos();
    let rows = session
        .query(sql, &[&session.space.0, &to_column(page), &without, &now])
        .await?;
    let mut all = Vec::with_capacity(rows.len());
    for row in &rows {
        let parts: Option<&str> = get(row, 2)?;
        let parts = serde_json::from_str(parts.unwrap_or("null"));
        all.push(LogParts {
            id: EntryId::from_bytes(id(row, 1, "a block of a log")?),
            handle: EntryHandle(count(row, 0)?),
            parts: parts.map_err(|error| damaged("a block of a log", error))?,
        });
    }
    Ok(all)
}
