use super::*;

/// The numbers of the commits that come next, or where the log ends after what was read was lost.
async fn next(follower: &mut LogFollower) -> (&'static str, Vec<u64>) {
    match follower.next(2).await.unwrap() {
        LogNews::Commits(rows) => ("commits", rows.iter().map(|row| row.seq.0).collect()),
        LogNews::Lost { head } => ("lost", vec![head.0]),
    }
}

#[tokio::test(start_paused = true)]
async fn follower_gets_every_commit_once_and_in_order() {
    let f = fixture();
    f.add("one").await;
    let (mut from_start, mut from_here) = (f.workspace.follow(Seq(0)), f.workspace.follow(Seq(1)));
    f.add("two").await;
    f.add("three").await;
    assert_eq!(next(&mut from_start).await, ("commits", vec![1, 2]));
    assert_eq!(next(&mut from_start).await, ("commits", vec![3]));
    assert_eq!(next(&mut from_here).await, ("commits", vec![2, 3]));
    let (told, _) = tokio::join!(next(&mut from_start), f.add("four"));
    assert_eq!(told, ("commits", vec![4]));
}

#[tokio::test(start_paused = true)]
async fn follower_is_told_of_a_failover_that_lost_what_it_has_read() {
    let f = fixture();
    for content in ["one", "two", "three"] {
        f.add(content).await;
    }
    let mut follower = f.workspace.follow(Seq(3));
    let waiting = tokio::time::timeout(Duration::from_secs(5), follower.next(2)).await;
    waiting.expect_err("nothing is new");
    f.store.fail_over(1);
    assert_eq!(next(&mut follower).await, ("lost", vec![1]));
    f.add("other").await;
    assert_eq!(next(&mut follower).await, ("commits", vec![2]));
}

#[tokio::test(start_paused = true)]
async fn follower_notices_lost_commits_although_their_numbers_are_assigned_again() {
    let f = fixture();
    for content in ["one", "two", "three"] {
        f.add(content).await;
    }
    let mut follower = f.workspace.follow(Seq(0));
    assert_eq!(next(&mut follower).await, ("commits", vec![1, 2]));
    assert_eq!(next(&mut follower).await, ("commits", vec![3]));
    f.store.fail_over(1);
    *f.clock.0.lock().unwrap() = Timestamp::from_millis(9_000);
    for content in ["b", "c", "d", "e"] {
        f.add(content).await;
    }
    assert_eq!(next(&mut follower).await, ("lost", vec![5]));
}

#[tokio::test(start_paused = true)]
async fn follower_goes_on_after_a_failover_that_lost_nothing() {
    let f = fixture();
    f.add("one").await;
    let mut follower = f.workspace.follow(Seq(1));
    f.store.fail_over(1);
    f.add("two").await;
    assert_eq!(next(&mut follower).await, ("commits", vec![2]));
}
