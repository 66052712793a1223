//! Waiting for commits.

use std::sync::Arc;
use std::time::Duration;

use folio_memory::Seq;

use super::Home;
use super::scene::Scene;

/// Waiting does not end earlier.
pub async fn wait_ends_when_the_next_commit_is_made(home: &dyn Home) {
    let scene = Arc::new(Scene::of(home));
    scene.commit(Vec::new()).await;
    let waiting = {
        let scene = Arc::clone(&scene);
        tokio::spawn(async move { scene.store.wait(&scene.space, Seq(1)).await })
    };
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(!waiting.is_finished());
    scene.commit(Vec::new()).await;
    let head = soon(waiting).await.expect("a waiter").expect("the head");
    assert_eq!(head, Seq(2));
}

/// Any number of commits may have been made already.
pub async fn wait_ends_at_once_if_newer_commits_exist(home: &dyn Home) {
    let scene = Scene::of(home);
    for _ in 0..3 {
        scene.commit(Vec::new()).await;
    }
    assert_eq!(
        soon(scene.store.wait(&scene.space, Seq(1))).await.expect("the head"),
        Seq(3)
    );
}

/// Commits in other spaces do not end it.
pub async fn wait_ignores_commits_in_other_spaces(home: &dyn Home) {
    let scene = Arc::new(Scene::of(home));
    let other = scene.other_space("other");
    let waiting = {
        let scene = Arc::clone(&scene);
        tokio::spawn(async move { scene.store.wait(&scene.space, Seq(0)).await })
    };
    tokio::time::sleep(Duration::from_millis(20)).await;
    other.commit(Vec::new()).await;
    tokio::time::sleep(Duration::from_millis(40)).await;
    assert!(!waiting.is_finished());
    scene.commit(Vec::new()).await;
    assert_eq!(soon(waiting).await.expect("a waiter").expect("the head"), Seq(1));
}

/// This is the case of two processes.
pub async fn commit_wakes_waiters_of_another_store_on_the_same_data(home: &dyn Home) {
    if !home.is_shared() {
        return;
    }
    let here = Scene::of(home);
    let other_scene = Scene {
        ids: crate::SeededIds::new(2),
        ..Scene::of(home)
    };
    for number in 0..20 {
        let waiting = {
            let (store, space) = (Arc::clone(&other_scene.store), other_scene.space.clone());
            tokio::spawn(async move { store.wait(&space, Seq(number)).await })
        };
        here.commit(Vec::new()).await;
        assert_eq!(
            soon(waiting).await.expect("a waiter").expect("the head"),
            Seq(number + 1)
        );
    }
    let page = here.a_page().await;
    let id = other_scene.add(other_scene.note(page, "from there")).await;
    assert_eq!(here.read(id).await.fields.title, "from there");
    assert_eq!(here.commit(Vec::new()).await.seq, Seq(23));
}

/// Awaits what should happen within milliseconds, however busy the machine is.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future)
        .await
        .expect("it should have happened long ago")
}
