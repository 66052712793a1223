//! The format of the tables: how old they are, and how they are migrated to the newest format.

use tokio::time::Instant;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::at_work::{Activity, Backend, in_a_moment, unless_idle};
use super::error::{Failure, damaged, not_found};
use super::open::Target;
use super::reach::{Call, Reach};
use crate::error::{StoreError, refuse_newer};

/// All steps, in order. Tables have format n once the first n steps are done; a published step never changes.
const MIGRATIONS: [&str; 6] = [
    include_str!("migrations/0001_start.sql"),
    include_str!("migrations/0002_pages.sql"),
    include_str!("migrations/0003_written.sql"),
    include_str!("migrations/0004_lists.sql"),
    include_str!("migrations/0005_open_turns.sql"),
    include_str!("migrations/0006_trace_at.sql"),
];

/// The advisory lock under which steps are taken: "folio" in five bytes.
const LOCK: i64 = 0x66_6f6c_696f;

/// Takes all missing steps, or none, while no other process can.
///
/// # Errors
///
/// `TooNew` if a newer version of this program has migrated the tables; `NotFound` if there are none, and they must not
/// be created; `Invalid` if the database cannot store every text.
pub(super) async fn bring_up_to_date(client: &Client, target: &Target, reach: &Reach) -> Result<(), Failure> {
    let location = &target.location;
    in_a_moment(keeps_any_text(client)).await?;
    let found = in_a_moment(found(client, location)).await?;
    // Usually there is nothing to do, and the process need not wait or be the owner.
    if found == MIGRATIONS.len() {
        return Ok(());
    }
    if found == 0 && !target.make {
        return Err(not_found("store", location).into());
    }
    // A step may take as long as the server works on it.
    let backend = Backend::behind(client).await?;
    let ask = || async {
        match backend {
            Some(backend) => activity(target, backend, reach).await,
            None => Activity::Unknown,
        }
    };
    let migrating = async {
        client.batch_execute("BEGIN").await?;
        let migrated = take_steps(client, location).await;
        let end = if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = client.batch_execute(end).await;
        migrated?;
        Ok::<_, Failure>(ended?)
    };
    unless_idle(reach.unless_gone(migrating), ask).await
}

/// What the server does in `backend`, as it says over a new connection. Notes in `reach` whether there is one: nobody
/// else looks for the server while the store is being opened.
async fn activity(target: &Target, backend: Backend, reach: &Reach) -> Activity {
    match target.connect().await {
        Ok((client, connection)) => {
            reach.note_answer(Call::Reads);
            let driver = tokio::spawn(connection);
            let activity = backend.activity(&client).await;
            driver.abort();
            activity
        }
        Err(failure) => {
            reach.note_failure(&failure, Instant::now());
            Activity::Unknown
        }
    }
}

/// Refuses a database that cannot store every character: otherwise texts would be refused later, one at a time.
async fn keeps_any_text(client: &Client) -> Result<(), Failure> {
    let row = client.query_one("SHOW server_encoding", &[]).await?;
    let encoding: String = row.try_get(0)?;
    if encoding == "UTF8" {
        return Ok(());
    }
    let reason = format!(
        "the database stores texts as {encoding}, which lacks some characters; create one with createdb --encoding=UTF8 \
         --template=template0"
    );
    Err(StoreError::Invalid(reason).into())
}

async fn take_steps(client: &Client, location: &str) -> Result<(), Failure> {
    let locked = client
        .batch_execute(&format!(
            "SET LOCAL lock_timeout = '60s'; SELECT pg_advisory_xact_lock({LOCK})"
        ))
        .await;
    locked.map_err(|error| match error.code() {
        Some(&SqlState::LOCK_NOT_AVAILABLE) => StoreError::Unavailable {
            doing: "open",
            location: location.to_owned(),
            reason: "another process has been migrating the tables for a minute; try again".to_owned(),
            source: Some(Box::new(error)),
        }
        .into(),
        _ => Failure::from(error),
    })?;
    // Checked again now that no other process can: another one may have been faster.
    let found = found(client, location).await?;
    if found == MIGRATIONS.len() {
        return Ok(());
    }
    client
        .batch_execute(
            "CREATE SCHEMA IF NOT EXISTS folio; CREATE TABLE IF NOT EXISTS folio.format (version bigint NOT NULL)",
        )
        .await?;
    for step in &MIGRATIONS[found..] {
        client.batch_execute(step).await?;
    }
    let sql = format!(
        "DELETE FROM folio.format; INSERT INTO folio.format VALUES ({})",
        MIGRATIONS.len()
    );
    Ok(client.batch_execute(&sql).await?)
}

/// How many steps have been taken.
async fn found(client: &Client, location: &str) -> Result<usize, Failure> {
    let is_there = client
        .query_one("SELECT to_regclass('folio.format') IS NOT NULL", &[])
        .await?;
    if !is_there.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    let rows = client.query("SELECT version FROM folio.format", &[]).await?;
    let found: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    let found = u32::try_from(found).map_err(|_| damaged("the format number", found))?;
    refuse_newer(found, MIGRATIONS.len(), location)?;
    Ok(usize::try_from(found).unwrap_or(usize::MAX))
}
