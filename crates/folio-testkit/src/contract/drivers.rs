//! Drivers of runs.

use std::time::Duration;

use folio_memory::id::Ref;
use folio_memory::{RunId, Seq};
use folio_store::{ErrorKind, Expected, OwnerId, StoreError};
use futures_util::FutureExt as _;

use super::Home;
use super::scene::{Scene, asked_by};

fn owner(name: &str) -> OwnerId {
    OwnerId(name.to_owned())
}

fn fenced(run: RunId, head: Seq, fence: u64) -> Vec<Expected> {
    vec![Expected::RunHead {
        run,
        head,
        fence: Some(fence),
    }]
}

/// Others are told who drives the run.
pub async fn claimed_run_cannot_be_claimed_by_another_driver(home: &dyn Home) {
    let scene = Scene::of(home);
    let run = scene.a_run("run").await;
    let fence = scene
        .store
        .claim_run(&scene.space, run, &owner("first"))
        .await
        .expect("a claim");
    let error = scene
        .store
        .claim_run(&scene.space, run, &owner("second"))
        .await
        .expect_err("taken");
    assert!(matches!(error, StoreError::RunTaken { .. }), "{error}");
    assert!(scene.store.run(&scene.space, Ref::Id(run)).await.expect("a run").driven);
    scene
        .append(run, vec![asked_by("first")], None, fenced(run, Seq(1), fence))
        .await
        .expect("an event");
    scene
        .store
        .release_run(&scene.space, run, fence)
        .await
        .expect("a release");
    assert!(!scene.store.run(&scene.space, Ref::Id(run)).await.expect("a run").driven);
    let next = scene
        .store
        .claim_run(&scene.space, run, &owner("second"))
        .await
        .expect("a claim");
    assert!(next > fence);
    let unknown = scene
        .store
        .claim_run(&scene.space, RunId::derived(&["?"]), &owner("second"))
        .await;
    assert_eq!(unknown.expect_err("no such run").kind(), ErrorKind::NotFound);
}

/// A write of the earlier claim may still have been on its way when the run was claimed again; it is refused.
pub async fn claiming_again_invalidates_the_fence_of_the_same_driver(home: &dyn Home) {
    let scene = Scene::of(home);
    let run = scene.a_run("run").await;
    let claim = || async {
        let claimed = scene.store.claim_run(&scene.space, run, &owner("me")).await;
        claimed.expect("a claim")
    };
    let (first, second) = (claim().await, claim().await);
    assert!(second > first);
    let error = scene
        .append(run, vec![asked_by("me")], None, fenced(run, Seq(1), first))
        .await
        .expect_err("of the claim before");
    assert!(matches!(error, StoreError::RunTaken { .. }), "{error}");
    let released = scene.store.release_run(&scene.space, run, first).await;
    released.expect("a release of nothing");
    scene
        .append(run, vec![asked_by("me")], None, fenced(run, Seq(1), second))
        .await
        .expect("an event");
}

/// A driver that gave up a run must claim it again before it can write.
pub async fn driver_cannot_write_after_releasing_its_run(home: &dyn Home) {
    let scene = Scene::of(home);
    let run = scene.a_run("run").await;
    let fence = scene
        .store
        .claim_run(&scene.space, run, &owner("me"))
        .await
        .expect("a claim");
    scene
        .store
        .release_run(&scene.space, run, fence)
        .await
        .expect("a release");
    let error = scene
        .append(run, vec![asked_by("me")], None, fenced(run, Seq(1), fence))
        .await
        .expect_err("given up");
    assert!(matches!(error, StoreError::RunTaken { .. }), "{error}");
    let again = scene
        .store
        .claim_run(&scene.space, run, &owner("me"))
        .await
        .expect("a claim");
    scene
        .append(run, vec![asked_by("me")], None, fenced(run, Seq(1), again))
        .await
        .expect("an event");
}

/// A release with an old fence has no effect: somebody else may drive the run by now.
pub async fn release_with_an_old_fence_has_no_effect(home: &dyn Home) {
    let scene = Scene::of(home);
    let run = scene.a_run("run").await;
    let old = scene
        .store
        .claim_run(&scene.space, run, &owner("a"))
        .await
        .expect("a claim");
    scene
        .store
        .release_run(&scene.space, run, old)
        .await
        .expect("a release");
    let new = scene
        .store
        .claim_run(&scene.space, run, &owner("b"))
        .await
        .expect("a claim");
    scene
        .store
        .release_run(&scene.space, run, old)
        .await
        .expect("a release of nothing");
    scene
        .append(run, vec![asked_by("b")], None, fenced(run, Seq(1), new))
        .await
        .expect("an event");
    scene
        .store
        .release_run(&scene.other_space("other").space, run, new)
        .await
        .expect("a release of nothing");
}

/// A closed store drives nothing, so another driver can claim its runs at once.
pub async fn run_of_a_closed_store_can_be_claimed_at_once(home: &dyn Home) {
    if !home.is_shared() {
        return;
    }
    let dying = Scene::of(home);
    let living = Scene::of(home);
    let run = dying.a_run("run").await;
    let old = dying
        .store
        .claim_run(&dying.space, run, &owner("dying"))
        .await
        .expect("a claim");
    let error = living
        .store
        .claim_run(&living.space, run, &owner("living"))
        .await
        .expect_err("driven");
    assert!(matches!(error, StoreError::RunTaken { .. }), "{error}");
    assert!(
        living
            .store
            .run(&living.space, Ref::Id(run))
            .await
            .expect("a run")
            .driven
    );
    drop(dying);
    assert!(
        !living
            .store
            .run(&living.space, Ref::Id(run))
            .await
            .expect("a run")
            .driven
    );
    let new = living
        .store
        .claim_run(&living.space, run, &owner("living"))
        .await
        .expect("a claim");
    assert!(new > old);
}

/// The process goes on, and so do the other owners in it.
pub async fn run_of_a_released_owner_can_be_claimed_at_once(home: &dyn Home) {
    if !home.is_shared() {
        return;
    }
    let (here, other) = (Scene::of(home), Scene::of(home));
    let run = here.a_run("run").await;
    let old = here.store.claim_run(&here.space, run, &owner("gone")).await;
    here.store.release_owner(&owner("gone"));
    let new = claimed_soon(&other, run).await;
    assert!(new > old.expect("a claim"));
    let error = here.store.claim_run(&here.space, run, &owner("gone")).await;
    error.expect_err("it claims nothing any more");
}

/// Its runtime may end while the store is at it. The owner goes on, so nobody else could ever drive the run.
pub async fn claim_for_which_nobody_waits_any_more_is_given_up(home: &dyn Home) {
    let scene = Scene::of(home);
    let other = if home.is_shared() { Some(Scene::of(home)) } else { None };
    let mine = owner("mine");
    // Another claim, so that the owner is there in any case.
    let kept = scene.a_run("kept").await;
    let fence = scene.store.claim_run(&scene.space, kept, &mine).await.expect("a claim");
    let run = scene.a_run("run").await;
    let mut claiming = scene.store.claim_run(&scene.space, run, &mine);
    if let Some(claimed) = (&mut claiming).now_or_never() {
        // The store was faster than its caller could be gone.
        claimed.expect("a claim");
        return;
    }
    soon(async {
        while !scene.store.run(&scene.space, Ref::Id(run)).await.expect("a run").driven {
            tokio::time::sleep(MOMENT).await;
        }
    })
    .await;
    drop(claiming);
    claimed_soon(other.as_ref().unwrap_or(&scene), run).await;
    scene
        .append(kept, vec![asked_by("mine")], None, fenced(kept, Seq(1), fence))
        .await
        .expect("an event");
}

/// How long a store may take for what it does behind its caller's back.
const MOMENT: Duration = Duration::from_millis(5);

/// The fence with which another owner claims `run`, as soon as it can.
async fn claimed_soon(scene: &Scene, run: RunId) -> u64 {
    soon(async {
        loop {
            match scene.store.claim_run(&scene.space, run, &owner("next")).await {
                Err(StoreError::RunTaken { .. }) => tokio::time::sleep(MOMENT).await,
                claimed => break claimed.expect("a claim"),
            }
        }
    })
    .await
}

/// The result of `work`, which takes no lease to end.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(Duration::from_secs(5), work).await;
    done.expect("it takes too long")
}

/// The error says that the run was taken, and not that its journal should be read again.
pub async fn write_of_a_replaced_driver_fails_with_run_taken(home: &dyn Home) {
    let scene = Scene::of(home);
    let run = scene.a_run("run").await;
    let old = scene
        .store
        .claim_run(&scene.space, run, &owner("a"))
        .await
        .expect("a claim");
    scene
        .store
        .release_run(&scene.space, run, old)
        .await
        .expect("a release");
    let new = scene
        .store
        .claim_run(&scene.space, run, &owner("b"))
        .await
        .expect("a claim");
    scene
        .append(run, vec![asked_by("b")], None, fenced(run, Seq(1), new))
        .await
        .expect("an event");
    let error = scene
        .append(run, vec![asked_by("a")], None, fenced(run, Seq(1), old))
        .await
        .expect_err("replaced");
    assert!(matches!(error, StoreError::RunTaken { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

/// Requests to a run need no fence.
pub async fn requests_to_a_driven_run_need_no_fence(home: &dyn Home) {
    let scene = Scene::of(home);
    let run = scene.a_run("run").await;
    let fence = scene
        .store
        .claim_run(&scene.space, run, &owner("driver"))
        .await
        .expect("a claim");
    scene
        .append(run, vec![asked_by("anybody")], None, Vec::new())
        .await
        .expect("a question");
    let error = scene
        .append(run, vec![asked_by("driver")], None, fenced(run, Seq(1), fence))
        .await
        .expect_err("stale");
    assert!(matches!(error, StoreError::StaleRun { found: Seq(2), .. }), "{error}");
    scene
        .append(run, vec![asked_by("driver")], None, fenced(run, Seq(2), fence))
        .await
        .expect("an event");
}
