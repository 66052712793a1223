//! The policy of a space, which is kept in the log like everything else.

use folio_memory::observation::Class;
use folio_memory::policy::{StrictTypes, TypePolicy};
use folio_memory::{Change, KeptPolicy, Seq, SpacePolicy};
use folio_store::{Commit, ErrorKind, Expected, Record, StoreError};

use super::Home;
use super::scene::Scene;

fn set(strict_types: StrictTypes, expected_version: Option<u32>) -> Change {
    let policy = SpacePolicy {
        strict_types,
        ..SpacePolicy::default()
    };
    Change::SetPolicy {
        policy: Box::new(policy),
        expected_version,
    }
}

fn register(name: &str, class: Class) -> Change {
    let (name, as_type) = (name.to_owned(), TypePolicy::of(class));
    Change::RegisterType { name, as_type }
}

async fn policy(scene: &Scene) -> KeptPolicy {
    scene.store.policy(&scene.space).await.expect("a policy")
}

/// This holds whether or not anybody has written to the space.
pub async fn new_space_has_the_default_policy(home: &dyn Home) {
    let scene = Scene::of(home);
    assert_eq!(policy(&scene).await, KeptPolicy::default());
    scene.commit(Vec::new()).await;
    assert_eq!(policy(&scene).await, KeptPolicy::default());
}

/// A policy equal to the previous one is not a new version.
pub async fn setting_a_policy_replaces_it_and_increments_its_version(home: &dyn Home) {
    let scene = Scene::of(home);
    scene.commit(vec![register("weather", Class::Alert)]).await;
    scene.commit(vec![set(StrictTypes::Nobody, Some(1))]).await;
    scene.commit(vec![set(StrictTypes::Nobody, Some(1))]).await;
    let found = policy(&scene).await;
    assert_eq!((found.version, found.changed_seq), (2, Seq(2)));
    assert_eq!(found.policy.strict_types, StrictTypes::Nobody);
    assert!(found.policy.types.is_empty());
    assert_eq!(
        scene.store.check().await.expect("a check").problems,
        Vec::<String>::new()
    );
}

/// Whoever knows the version in force, or a later one, is told nothing.
pub async fn policy_is_read_only_by_whoever_knows_an_older_one(home: &dyn Home) {
    let scene = Scene::of(home);
    let newer = async |known| {
        let newer = scene.store.newer_policy(&scene.space, known).await;
        newer.expect("an answer")
    };
    assert_eq!(newer(0).await, None, "nobody has written to the space");
    scene.commit(vec![set(StrictTypes::Nobody, None)]).await;
    let found = policy(&scene).await;
    assert_eq!(newer(0).await, Some(found));
    assert_eq!((newer(1).await, newer(2).await), (None, None));
    scene.commit(vec![set(StrictTypes::Everybody, None)]).await;
    assert_eq!(newer(1).await.map(|policy| policy.version), Some(2));
}

/// Nothing of the commit is applied.
pub async fn setting_a_policy_with_a_stale_version_is_refused(home: &dyn Home) {
    let scene = Scene::of(home);
    scene.commit(vec![set(StrictTypes::Nobody, Some(0))]).await;
    let refused = scene
        .try_commit(vec![set(StrictTypes::Everybody, Some(0))])
        .await
        .expect_err("stale");
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(
        matches!(refused, StoreError::StalePolicy { found: 1, expected: 0 }),
        "{refused}"
    );
    assert_eq!(policy(&scene).await.policy.strict_types, StrictTypes::Nobody);
}

/// The first registration counts.
pub async fn first_registration_of_a_type_wins_m7_3_22(home: &dyn Home) {
    let scene = Scene::of(home);
    scene
        .commit(vec![
            register("weather", Class::Alert),
            register("weather", Class::Insight),
        ])
        .await;
    scene
        .commit(vec![
            register("weather", Class::Insight),
            register("tide", Class::Insight),
        ])
        .await;
    let found = policy(&scene).await;
    assert_eq!((found.version, found.changed_seq), (2, Seq(2)));
    assert_eq!(found.policy.types.get("weather"), Some(&TypePolicy::of(Class::Alert)));
    assert!(found.policy.types.get("tide").is_some());
}

/// Other spaces are not affected.
pub async fn policy_is_scoped_to_its_space(home: &dyn Home) {
    let scene = Scene::of(home);
    let other = scene.other_space("other");
    scene.commit(vec![set(StrictTypes::Nobody, None)]).await;
    assert_eq!(policy(&other).await, KeptPolicy::default());
    other.commit(vec![set(StrictTypes::Everybody, Some(0))]).await;
    assert_eq!(policy(&scene).await.policy.strict_types, StrictTypes::Nobody);
    assert_eq!(policy(&other).await.policy.strict_types, StrictTypes::Everybody);
}

/// Nothing of it is applied; a repeated key is answered as before.
pub async fn commit_expecting_an_outdated_policy_is_refused(home: &dyn Home) {
    let scene = Scene::of(home);
    let under = |version, key: &str| Commit {
        expected: vec![Expected::Policy(version)],
        idempotency_key: Some(key.to_owned()),
        ..scene.commit_of(Record::of(Vec::new()))
    };
    scene.store.commit(under(0, "first")).await.expect("a new space");
    scene.commit(vec![set(StrictTypes::Nobody, Some(0))]).await;
    let refused = scene
        .store
        .commit(under(0, "second"))
        .await
        .expect_err("another policy");
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(
        matches!(refused, StoreError::OtherPolicy { found: 1, expected: 0 }),
        "{refused}"
    );
    let again = scene.store.commit(under(0, "first")).await.expect("a replay");
    assert!(again.replayed);
    let written = scene
        .store
        .commit(under(1, "second"))
        .await
        .expect("the policy that holds");
    assert_eq!(written.seq, Seq(3));
}
