//! The indexes of live entries in memory, one for each space that is queried often, and how they are kept exact.
//!
//! An index is built from one state of the database, and updated to every later one by what has changed in between,
//! whichever process changed it. So its answer is the same as that of the database at the commit that the asking
//! transaction sees.

use std::sync::Arc;

use folio_memory::terms::MORE;
use folio_memory::{Entry, EntryKind, Seq, SpaceName, Status, Timestamp};
use tokio_postgres::Row;

use super::column::{count, decode_text, get};
use super::error::{Failure, damaged};
use super::patience::Wait;
use super::session::Session;
use super::{Inner, commit, entry};
use crate::live::{Builder, Facts, Found, IndexQuery, LiveIndex, Missing, NEWS_MAX, Ready, Space, Spaces, State};
use crate::place::to_column;
use crate::plan::Ends;

/// How many rows are read at a time to build an index.
const AT_A_TIME: i64 = 32_768;
/// How often an index is updated for one query while others update it, too.
const ATTEMPTS: u32 = 4;

/// Changes that an index does not have yet.
struct News {
    since: Seq,
    /// With the numbers of their pages; those that existed before, then the new ones in order.
    entries: Vec<(Entry, u64)>,
}

/// One state of a space, as a transaction sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) session: &'a Session,
    pub(super) name: &'a SpaceName,
    /// The last numbers of the space in that state.
    pub(super) ends: &'a Ends,
    pub(super) now: Timestamp,
}

/// What the index of a space finds in the state to which it was brought; `None` if others have brought it further
/// meanwhile, or it cannot answer.
pub(super) fn find(spaces: &Spaces, seen: Seen<'_>, index_query: &IndexQuery<'_>) -> Option<Found> {
    let space = spaces.space(seen.name)?;
    let state = space.state.read();
    let index = state.index_for(seen.ends.head, seen.now)?;
    let is_told = index_query.context.is_empty() || !index.knows(MORE);
    is_told.then(|| index.find(index_query))
}

/// Brings the index of a space to the state that is `seen`. False if that is impossible: there is no index, or it is
/// further ahead.
pub(super) async fn catch_up_to(inner: &Arc<Inner>, seen: Seen<'_>) -> Result<bool, Failure> {
    let options = &inner.living.options;
    if options.bytes_max == 0 {
        return Ok(false);
    }
    let space = inner.living.space_for_query(seen.name);
    for _ in 0..ATTEMPTS {
        let missing = {
            let state = space.state.read();
            if state.index_for(seen.ends.head, seen.now).is_some() {
                return Ok(true);
            }
            state.missing(seen.ends.head)
        };
        let news = match missing {
            Missing::Index => {
                if !begin(inner, seen, &space).await? {
                    return Ok(false);
                }
                continue;
            }
            Missing::News { since, last } => match news_since(seen.session, since, last).await? {
                Some(news) => Some(news),
                None => {
                    // This query is answered without the index, as all are until it has been built anew.
                    drop_if_only_at(since, &space, options.after);
                    begin(inner, seen, &space).await?;
                    return Ok(false);
                }
            },
            Missing::Time => None,
            Missing::Unattainable => return Ok(false),
        };
        if let Some(is_there) = take_in(news, seen, &space, options.bytes_max) {
            if space.state.read().is_size_check_due() {
                inner.living.make_room();
            }
            return Ok(is_there);
        }
    }
    Ok(false)
}

/// Takes in `news`, if they are still new, and sets the time to that of the query; returns whether the index remains.
/// `None` if others were faster.
fn take_in(news: Option<News>, seen: Seen<'_>, space: &Space, bytes_max: usize) -> Option<bool> {
    let mut state = space.state.write();
    let State::Ready(ready) = &mut *state else {
        return Some(false);
    };
    match news {
        Some(news) if news.since == ready.seq => {
            let entries = news.entries.iter();
            entries.for_each(|(entry, page)| ready.index.take_in(entry, *page));
            (ready.seq, ready.last) = (seen.ends.head, seen.ends.entries);
        }
        None if ready.seq == seen.ends.head => {}
        _ => return None,
    }
    Some(space.advanced(&mut state, seen.now, bytes_max).is_some())
}

/// Drops an index that has only reached commit `since`, to be built anew with the next query.
fn drop_if_only_at(since: Seq, space: &Space, after: u32) {
    let mut state = space.state.write();
    if matches!(&*state, State::Ready(ready) if ready.seq == since) {
        space.drop_outdated(&mut state, after);
    }
}

/// Starts to build an index if the space is worth one. Returns true if there is one already.
async fn begin(inner: &Arc<Inner>, seen: Seen<'_>, space: &Arc<Space>) -> Result<bool, Failure> {
    let options = &inner.living.options;
    if !space.is_asked_beyond(options.after) || seen.ends.entries < options.from {
        return Ok(false);
    }
    match space.begin_making() {
        Builder::Caller => {}
        Builder::Other => return Ok(false),
        Builder::Done => return Ok(true),
    }
    if options.after == 0 {
        let is_ready = space.settle_built(build_index(seen.session, options.bytes_max).await);
        inner.living.make_room();
        return is_ready;
    }
    let (inner, name, space) = (Arc::clone(inner), seen.name.clone(), Arc::clone(space));
    tokio::spawn(async move {
        let built = match inner.begin_read(&name, Wait::begin()).await {
            Ok(Some(session)) => build_index(&session, inner.living.options.bytes_max).await,
            Ok(None) => Ok(State::None),
            Err(failure) => Err(failure),
        };
        // Read errors are reported to whoever queries the data; the index is tried again later.
        space.settle(built.unwrap_or_default());
        inner.living.make_room();
    });
    Ok(false)
}

/// Builds an index of the space of `session`, as the session sees it.
async fn build_index(session: &Session, bytes_max: usize) -> Result<State, Failure> {
    let ends = commit::ends(session).await?;
    let mut index = LiveIndex::default();
    let sql = format!(
        "SELECT number, page, kind, type, status, owner, pinned, expires_at, confidence FROM entry
         WHERE space = $1 AND number > $2 AND {} AND status <> 'archived' AND NOT superseded ORDER BY number LIMIT $3",
        entry::IS_MEMORY_SQL
    );
    let mut last = 0;
    loop {
        let rows = session
            .query(&sql, &[&session.space.0, &to_column(last), &AT_A_TIME])
            .await?;
        for row in &rows {
            last = put(&mut index, row)?;
        }
        if index.bytes() > bytes_max {
            return Ok(State::TooLarge);
        }
        if is_the_last(&rows) {
            break;
        }
    }
    let sql = "SELECT term, number FROM entry_term WHERE space = $1 AND (term, number) > ($2, $3) ORDER BY term, number LIMIT $4";
    let mut words = index.words();
    let mut from = (String::new(), 0_i64);
    loop {
        let rows = session
            .query(sql, &[&session.space.0, &from.0, &from.1, &AT_A_TIME])
            .await?;
        let mut term = (String::new(), String::new());
        for row in &rows {
            let kept: &str = get(row, 0)?;
            if term.0 != kept {
                term = (kept.to_owned(), decode_text(kept.to_owned()));
            }
            words.add(&term.1, count(row, 1)?);
        }
        if is_the_last(&rows) {
            break;
        }
        if let Some(row) = rows.last() {
            from = (get(row, 0)?, get(row, 1)?);
        }
    }
    words.finish();
    if index.bytes() > bytes_max {
        return Ok(State::TooLarge);
    }
    Ok(State::Ready(Box::new(Ready {
        index,
        seq: ends.head,
        last: ends.entries,
    })))
}

fn is_the_last(rows: &[Row]) -> bool {
    i64::try_from(rows.len()).unwrap_or(i64::MAX) < AT_A_TIME
}

/// Adds a row of a live entry; its words come later.
fn put(index: &mut LiveIndex, row: &Row) -> Result<u64, Failure> {
    let number = count(row, 0)?;
    let name = || format!("entry {number}");
    let type_name: Option<String> = get::<Option<String>>(row, 3)?.map(decode_text);
    let is_pinned: bool = get(row, 6)?;
    let expires_at: Option<i64> = get(row, 7)?;
    index.put(&Facts {
        number,
        page: count(row, 1)?,
        kind: EntryKind::parse(get(row, 2)?).ok_or_else(|| damaged(&name(), "its kind is unknown"))?,
        type_name: type_name.as_deref(),
        status: Status::parse(get(row, 4)?).ok_or_else(|| damaged(&name(), "its status is unknown"))?,
        owner: &decode_text(get(row, 5)?),
        confidence: get(row, 8)?,
        is_pinned,
        expires_at: expires_at.filter(|_| !is_pinned).map(Timestamp::from_nanos),
        terms: &[],
    });
    Ok(number)
}

/// What has changed after commit `since`, when the last entry had the number `last`; `None` if that is so much that the
/// index should be built anew in the background.
async fn news_since(session: &Session, since: Seq, last: u64) -> Result<Option<News>, Failure> {
    let (columns, of_memory, space) = (entry::COLUMNS, entry::IS_MEMORY_SQL, &session.space.0);
    let changed = format!(
        "SELECT {columns}, page FROM entry WHERE space = $1 AND updated_seq > $2 AND version > 1 AND {of_memory} AND number <= $3 LIMIT $4"
    );
    let added = format!(
        "SELECT {columns}, page FROM entry WHERE space = $1 AND number > $2 AND {of_memory} ORDER BY number LIMIT $3"
    );
    let (seq, last) = (to_column(since.0), to_column(last));
    let row_limit = i64::try_from(NEWS_MAX + 1).unwrap_or(i64::MAX);
    let (changed, added) = futures_util::future::try_join(
        session.query(&changed, &[space, &seq, &last, &row_limit]),
        session.query(&added, &[space, &last, &row_limit]),
    )
    .await?;
    if changed.len() + added.len() > NEWS_MAX {
        return Ok(None);
    }
    let rows = changed.iter().chain(&added);
    let entries = rows.map(|row| Ok((entry::from_row(row)?, count(row, 11)?)));
    Ok(Some(News {
        since,
        entries: entries.collect::<Result<_, Failure>>()?,
    }))
}
