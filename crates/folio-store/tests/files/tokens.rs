//! Access tokens: several processes know them, and each knows only their hashes.

use std::time::Duration;

use folio_memory::{Role, SpaceName, Timestamp};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::{AccessToken, Store as _};
use folio_testkit::contract::scene::Scene;

#[tokio::test]
async fn access_token_is_shared_and_revocable_across_open_stores() {
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

#[tokio::test]
async fn scrub_reports_residue_but_no_token_names_of_other_spaces() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
    let scene = Scene::on(store);
    let note = scene.a_note("the windmill").await;
    let other = scene.other_space("other");
    other.a_note("elsewhere").await;
    for (space, name) in [(scene.space.clone(), "mine"), (other.space.clone(), "of the other")] {
        let kept = AccessToken::draw().kept(space, Role::Client, name.to_owned(), Timestamp::from_millis(7), None);
        scene.store.keep_token(kept).await.unwrap();
    }
    let found = |texts: &[&str]| {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        scene.store.scrub(&scene.space, texts)
    };
    let handle = scene.read(note).await.handle.to_string();
    assert!(found(&["windmill"]).await.unwrap().found.contains(&handle));
    // What a token of another space is called is not told.
    assert_eq!(found(&["of the other"]).await.unwrap().found, Vec::<String>::new());
}
