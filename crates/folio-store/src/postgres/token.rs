//! Access tokens of servers. They belong to no space, so they are stored and listed by separate functions of the
//! database.

use deadpool_postgres::Object;
use folio_memory::{Role, SpaceName, Timestamp};
use tokio_postgres::Row;

use super::column::{decode_text, encode_text, get, instant};
use super::error::{Failure, damaged};
use crate::access::KeptToken;
use crate::error::StoreError;

/// The most tokens in a store, including those that are no longer valid.
const MAX_TOKENS: i64 = 10_000;

/// Stores `token`. If its id is known, only sets when that token expires and whether it is revoked.
pub(super) async fn keep(client: &Object, token: &KeptToken) -> Result<(), Failure> {
    let sql = "SELECT keep_token(ROW($1::text, $2::text, $3::text, $4::text, $5::text, $6::bigint, $7::bigint, $8::bigint)::token, $9)";
    let statement = client.prepare_cached(sql).await?;
    let nanos = |at: Option<Timestamp>| at.map(Timestamp::as_nanos);
    let row = client
        .query_one(
            &statement,
            &[
                &token.id,
                &token.space.as_str(),
                &token.role.as_str(),
                &encode_text(&token.name).as_ref(),
                &token.hash,
                &token.created_at.as_nanos(),
                &nanos(token.expires_at),
                &nanos(token.revoked_at),
                &MAX_TOKENS,
            ],
        )
        .await?;
    if !row.try_get::<_, bool>(0)? {
        let reason = format!("there are {MAX_TOKENS} access tokens already, the most that a store can keep");
        return Err(StoreError::Invalid(reason).into());
    }
    Ok(())
}

/// All tokens, oldest first.
pub(super) async fn list(client: &Object) -> Result<Vec<KeptToken>, Failure> {
    let sql = "SELECT id, space, role, name, hash, created_at, expires_at, revoked_at FROM all_tokens()";
    let statement = client.prepare_cached(sql).await?;
    client.query(&statement, &[]).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<KeptToken, Failure> {
    let role: &str = get(row, 2)?;
    let at = |column| -> Result<_, Failure> { Ok(get::<Option<i64>>(row, column)?.map(Timestamp::from_nanos)) };
    Ok(KeptToken {
        id: get(row, 0)?,
        space: SpaceName::parse(get(row, 1)?).map_err(|error| damaged("the space of a token", error))?,
        role: Role::parse(role).ok_or_else(|| damaged("the role of a token", role))?,
        name: decode_text(get(row, 3)?),
        hash: get(row, 4)?,
        created_at: instant(row, 5)?,
        expires_at: at(6)?,
        revoked_at: at(7)?,
    })
}
