//! Tokens of servers: several processes know them, and none knows more of them than their hashes.

use std::time::Duration;

use folio_memory::{Role, SpaceName, Timestamp};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::{AccessToken, Store as _};

#[tokio::test]
async fn a_token_that_one_process_keeps_another_finds_and_can_take_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("folio.db");
    let open = || SqliteStore::open(&OpenOptions::at(&file)).unwrap();
    let (one, other) = (open(), open());
    let token = AccessToken::draw();
    let now = Timestamp::from_millis(7);
    let mut kept = token.kept(
        SpaceName::main(),
        Role::Client,
        "ci".to_owned(),
        now,
        Some(Duration::from_secs(60)),
    );
    one.keep_token(kept.clone()).await.unwrap();
    assert_eq!(other.tokens().await.unwrap(), [kept.clone()]);
    kept.revoked_at = Some(now);
    other.keep_token(kept.clone()).await.unwrap();
    assert_eq!(one.tokens().await.unwrap(), [kept]);
    drop((one, other));
    let bytes = std::fs::read(&file).unwrap();
    let secret = token.reveal().as_bytes();
    assert!(!bytes.windows(secret.len()).any(|window| window == secret));
}
