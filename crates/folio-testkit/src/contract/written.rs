//! What the calls of different runs write is kept apart (E9.15).

use folio_memory::{RunId, Seq};
use folio_store::{Committed, ErrorKind, Expected, OwnerId, StoreError};

use super::Home;
use super::scene::{Scene, asked_by};

/// A run that is driven.
struct Driven<'s> {
    scene: &'s Scene,
    run: RunId,
    fence: u64,
    head: Seq,
}

impl<'s> Driven<'s> {
    async fn begin(scene: &'s Scene, title: &str, owner: &str) -> Self {
        let run = scene.a_run(title).await;
        let head = scene.head().await;
        let owner = OwnerId(owner.to_owned());
        let fence = scene.store.claim_run(&scene.space, run, &owner).await.expect("a claim");
        Self {
            scene,
            run,
            fence,
            head,
        }
    }

    /// Commits the names of what its calls write.
    async fn writes(&mut self, names: &[&str]) -> Result<Committed, StoreError> {
        let (run, head, fence) = (self.run, self.head, Some(self.fence));
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let expected = vec![Expected::RunHead { run, head, fence }, Expected::Writes { run, names }];
        let written = self.scene.append(run, vec![asked_by("driver")], None, expected).await;
        if let Ok(committed) = &written {
            self.head = committed.seq;
        }
        written
    }

    /// The names for which others are refused, sorted.
    async fn names(&self) -> Vec<String> {
        let names = self.scene.store.written_names(&self.scene.space, self.run);
        let mut names = names.await.expect("names");
        names.sort();
        names
    }

    async fn is_refused(&mut self, names: &[&str], by: RunId) {
        let before = self.scene.head().await;
        let error = self.writes(names).await.expect_err("written elsewhere");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        match error {
            StoreError::WrittenElsewhere { run, head, .. } => assert_eq!((run, head), (by, before), "{names:?}"),
            error => panic!("{names:?}: {error}"),
        }
        assert_eq!(self.scene.head().await, before, "nothing is written");
    }
}

/// The same name is refused, as is one that contains it, or one inside it.
pub async fn overlapping_written_name_of_another_run_is_refused_e9_15(home: &dyn Home) {
    let scene = Scene::of(home);
    let mut one = Driven::begin(&scene, "one", "driver").await;
    let mut other = Driven::begin(&scene, "other", "driver").await;
    one.writes(&["/repo/src", "desk"]).await.expect("names");
    for names in [
        &["/repo/src"][..],
        &["/repo"],
        &[""],
        &["/repo/src/a/b"],
        &["x", "desk/1"],
    ] {
        other.is_refused(names, one.run).await;
    }
    other.writes(&["/repo/src2", "/repo/sr", "x"]).await.expect("others");
    // Its own names do not conflict; names that it no longer lists are released.
    one.writes(&["/repo/src/a", "desk"]).await.expect("its own");
    other.is_refused(&["/repo/src2", "/repo/src"], one.run).await;
    one.is_refused(&["x"], other.run).await;
    other.writes(&["/repo/src/b"]).await.expect("what was given back");
    one.writes(&[]).await.expect("nothing");
    assert_eq!(one.names().await, [""; 0]);
    other.writes(&["/repo", "desk"]).await.expect("all of it");
    assert_eq!(other.names().await, ["/repo", "desk"]);
    // Names are separate per space.
    let elsewhere = scene.other_space("elsewhere");
    let mut third = Driven::begin(&elsewhere, "third", "driver").await;
    third.writes(&["/repo"]).await.expect("a name of its own");
}

/// The next driver of the run has another fence, and takes the names that are free for its calls.
pub async fn released_run_no_longer_blocks_its_written_names_e9_15(home: &dyn Home) {
    let scene = Scene::of(home);
    let mut one = Driven::begin(&scene, "one", "first").await;
    let mut other = Driven::begin(&scene, "other", "driver").await;
    one.writes(&["desk"]).await.expect("a name");
    assert_eq!(one.names().await, ["desk"]);
    scene
        .store
        .release_run(&scene.space, one.run, one.fence)
        .await
        .expect("a release");
    assert_eq!(one.names().await, [""; 0]);
    other.writes(&["desk"]).await.expect("a name that nobody has");
    let second = OwnerId("second".to_owned());
    one.fence = scene
        .store
        .claim_run(&scene.space, one.run, &second)
        .await
        .expect("a claim");
    one.is_refused(&["desk"], other.run).await;
    other.writes(&[]).await.expect("an end");
    one.writes(&["desk"]).await.expect("its name again");
    other.is_refused(&["desk"], one.run).await;
}

/// The run of the dead driver is given up, so that what that driver writes when it returns is refused.
pub async fn taking_a_name_of_a_dead_driver_releases_its_run_e9_15(home: &dyn Home) {
    if !home.is_shared() {
        return;
    }
    let dying = Scene::of(home);
    let mut living = Scene::of(home);
    living.ids = crate::SeededIds::new(7);
    let mut one = Driven::begin(&dying, "one", "dying").await;
    one.writes(&["desk"]).await.expect("a name");
    let mut other = Driven::begin(&living, "other", "living").await;
    other.is_refused(&["desk/1"], one.run).await;
    let names = living.store.written_names(&living.space, one.run).await;
    assert_eq!(names.expect("names"), ["desk"]);
    let (run, fence, head) = (one.run, one.fence, one.head);
    drop(dying);
    let names = living.store.written_names(&living.space, run).await;
    assert_eq!(names.expect("names"), [""; 0]);
    other.writes(&["desk/1"]).await.expect("what a dead driver had");
    let mut back = Driven {
        scene: &living,
        run,
        fence,
        head,
    };
    let error = back.writes(&[]).await.expect_err("given up");
    assert!(matches!(error, StoreError::RunTaken { .. }), "{error}");
}
