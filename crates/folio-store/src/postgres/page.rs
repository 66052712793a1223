//! Rows of pages.

use folio_memory::id::PageRef;
use folio_memory::page_tree::ParentOf;
use folio_memory::{Page, PageHandle, PageId, PageQuery, RunId, Seq};
use tokio_postgres::Row;

use super::column::{Statement, Value, count, encode_text, get, id, instant, seq, version};
use super::error::{Failure, damaged, not_found};
use super::lookup::looked_up;
use super::session::Session;
use crate::place::{from_column, to_column};
use crate::prepare::page_fields_json;

const SELECT: &str = "SELECT number, id, version, created_at, updated_at, created_seq, fields FROM page WHERE";

/// Pages by their ids.
pub(super) const BY_IDS: &str = looked_up!(
    "number, id, version, created_at, updated_at, created_seq, fields",
    "page",
    "id",
    "bytea"
);

/// The pages with `ids`, in no order.
pub(super) async fn by_ids(session: &Session, ids: &[PageId]) -> Result<Vec<Page>, Failure> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Vec<u8>> = ids.iter().map(|id| id.to_bytes().to_vec()).collect();
    let rows = session.query(BY_IDS, &[&session.space.0, &ids]).await?;
    rows.iter().map(from_row).collect()
}

/// The number of the page with the id `id`.
pub(super) async fn number_of(session: &Session, id: PageId) -> Result<Option<u64>, Failure> {
    let sql = "SELECT number FROM page WHERE space = $1 AND id = $2";
    let row = session.one(sql, &[&session.space.0, &id.to_bytes().as_slice()]).await?;
    row.map(|row| count(&row, 0)).transpose()
}

/// The page to which `page` refers.
pub(super) async fn read(session: Option<&Session>, page: PageRef) -> Result<Page, Failure> {
    let missing = || not_found("page", page);
    let session = session.ok_or_else(missing)?;
    let found = match page {
        PageRef::Id(id) => by_ids(session, &[id]).await?.pop(),
        PageRef::Handle(handle) => {
            let sql = format!("{SELECT} space = $1 AND number = $2");
            let row = session.one(&sql, &[&session.space.0, &to_column(handle.0)]).await?;
            row.as_ref().map(from_row).transpose()?
        }
    };
    Ok(found.ok_or_else(missing)?)
}

/// The pages that match `query`.
pub(super) async fn list(session: &Session, query: &PageQuery) -> Result<Vec<Page>, Failure> {
    let Some(mut statement) = wanted(SELECT, session, query).await? else {
        return Ok(Vec::new());
    };
    let (comparison, order) = if query.newest_first {
        ("<", "DESC")
    } else {
        (">", "ASC")
    };
    if let Some(number) = query.after {
        statement.push(&format!(" AND number {comparison} ?"), [Value::count(number)]);
    }
    let limit = Value::Int(i64::from(query.limit()));
    statement.push(&format!(" ORDER BY number {order} LIMIT ?"), [limit]);
    session.ask(&statement).await?.iter().map(from_row).collect()
}

/// The number of pages that match `query`.
pub(super) async fn count_of(session: &Session, query: &PageQuery) -> Result<u64, Failure> {
    let Some(statement) = wanted("SELECT count(*) FROM page WHERE", session, query).await? else {
        return Ok(0);
    };
    match session.ask(&statement).await?.first() {
        Some(row) => count(row, 0),
        None => Ok(0),
    }
}

/// Which page contains each page: of `root` and all pages below it or, without a root, of all pages.
pub(super) async fn parents(session: &Session, root: Option<PageHandle>) -> Result<Vec<ParentOf>, Failure> {
    let space = session.space.0;
    let rows = match root {
        Some(root) => {
            let sql = "WITH RECURSIVE below (number, parent) AS (
                           SELECT number, parent FROM page WHERE space = $1 AND number = $2
                           UNION SELECT page.number, page.parent FROM below JOIN page
                               ON page.space = $1 AND page.parent = below.number)
                       SELECT number, parent FROM below";
            session.query(sql, &[&space, &to_column(root.0)]).await?
        }
        None => {
            let sql = "SELECT number, parent FROM page WHERE space = $1";
            session.query(sql, &[&space]).await?
        }
    };
    let parent_of = |row: &Row| {
        let parent: Option<i64> = get(row, 1)?;
        Ok(ParentOf {
            page: PageHandle(count(row, 0)?),
            parent: parent.map(|parent| PageHandle(from_column(parent))),
        })
    };
    rows.iter().map(parent_of).collect()
}

/// `select` with the filters of `query`; `None` if it refers to a page that does not exist.
async fn wanted(select: &str, session: &Session, query: &PageQuery) -> Result<Option<Statement>, Failure> {
    let mut statement = Statement::default();
    statement.push(&format!("{select} space = ?"), [Value::Int(session.space.0)]);
    if let Some(parent) = query.parent {
        let Some(parent) = number_of(session, parent).await? else {
            return Ok(None);
        };
        statement.push(" AND parent = ?", [Value::count(parent)]);
    }
    if let Some(run) = query.run {
        statement.push(" AND run = ?", [Value::Bytes(run.to_bytes().to_vec())]);
    }
    if let Some(thread) = &query.thread {
        let name = || Value::Text(encode_text(&thread.0).into_owned());
        statement.push(
            " AND thread_hash = hashtextextended(?, 0) AND thread = ?",
            [name(), name()],
        );
    }
    if !query.roles.is_empty() {
        let roles = query.roles.iter().map(|role| role.as_str().to_owned()).collect();
        statement.push(" AND role = ANY(?)", [Value::Texts(roles)]);
    }
    Ok(Some(statement))
}

/// Erases what the pages of the run with the id `id` that commits after `after`, up to `last`, added are about.
pub(super) async fn erase_of_run(session: &Session, id: RunId, after: Seq, last: Seq) -> Result<(), Failure> {
    let sql = format!("{SELECT} space = $1 AND run = $2 AND created_seq > $3 AND created_seq <= $4");
    let (after, last) = (to_column(after.0), to_column(last.0));
    let rows = session
        .query(&sql, &[&session.space.0, &id.to_bytes().as_slice(), &after, &last])
        .await?;
    for row in &rows {
        let mut page = from_row(row)?;
        if page.erase() {
            let sql = "UPDATE page SET fields = $3 WHERE space = $1 AND number = $2";
            let (number, fields) = (to_column(page.handle.0), page_fields_json(&page.fields)?);
            session.execute(sql, &[&session.space.0, &number, &fields]).await?;
        }
    }
    Ok(())
}

/// Reads the columns of [`SELECT`].
pub(super) fn from_row(row: &Row) -> Result<Page, Failure> {
    let handle = PageHandle(count(row, 0)?);
    let fields = serde_json::from_str(get(row, 6)?).map_err(|error| damaged(&format!("page {handle}"), error))?;
    Ok(Page {
        id: PageId::from_bytes(id(row, 1, "a page")?),
        handle,
        version: version(row, 2)?,
        created_at: instant(row, 3)?,
        updated_at: instant(row, 4)?,
        created_seq: seq(row, 5)?,
        fields,
    })
}
