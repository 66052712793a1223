//! Bodies, stored under the hash of their content.

use folio_store::{Blob, BlobHash, Commit, ErrorKind, Record, StoreError};

use super::Home;
use super::scene::Scene;

async fn put(scene: &Scene, blob: Blob) -> Result<(), StoreError> {
    let commit = Commit {
        blobs: vec![blob],
        ..scene.commit_of(Record::of(Vec::new()))
    };
    scene.store.commit(commit).await.map(drop)
}

/// A body of any content and length reads back unchanged.
pub async fn stored_body_reads_back_unchanged(home: &dyn Home) {
    let scene = Scene::of(home);
    let mixed: Vec<u8> = (0..300_000_u32)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    for bytes in [Vec::new(), b"short".to_vec(), vec![0; 2_000_000], mixed] {
        let blob = Blob::new(bytes.clone());
        let hash = blob.hash().clone();
        put(&scene, blob).await.expect("a commit");
        assert_eq!(scene.store.blob(&scene.space, &hash).await.expect("a body"), bytes);
    }
    for name in ["", "xyz", &"0".repeat(64), &"F".repeat(64)] {
        let error = scene
            .store
            .blob(&scene.space, &BlobHash(name.to_owned()))
            .await
            .expect_err("no such body");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}

/// A body that is written several times is stored once.
pub async fn body_written_repeatedly_passes_the_store_check(home: &dyn Home) {
    let scene = Scene::of(home);
    let blob = Blob::new(b"again and again".to_vec());
    for _ in 0..3 {
        put(&scene, blob.clone()).await.expect("a commit");
    }
    assert_eq!(
        scene.store.blob(&scene.space, blob.hash()).await.expect("a body"),
        blob.bytes()
    );
    let checkup = scene.store.check().await.expect("a check-up");
    assert_eq!(checkup.problems, Vec::<String>::new());
    let counted = "1 body, each against its hash";
    assert!(checkup.checked.iter().any(|what| what == counted), "{checkup:?}");
}

/// Knowing a hash gives no access from another space (M7.6.51).
pub async fn body_is_readable_only_in_its_space(home: &dyn Home) {
    let scene = Scene::of(home);
    let other = scene.other_space("other");
    let blob = Blob::new(b"mine".to_vec());
    put(&scene, blob.clone()).await.expect("a commit");
    assert_eq!(
        other
            .store
            .blob(&other.space, blob.hash())
            .await
            .expect_err("elsewhere")
            .kind(),
        ErrorKind::NotFound
    );
    put(&other, blob.clone()).await.expect("a commit");
    assert_eq!(
        other.store.blob(&other.space, blob.hash()).await.expect("a body"),
        b"mine"
    );
}
