use folio_memory::policy::{PolicyEdit, StrictTypes};
use folio_memory::{Invalid, SpacePolicy};

use super::*;

fn policy(value: serde_json::Value) -> SpacePolicy {
    serde_json::from_value(value).unwrap()
}

impl Fixture {
    async fn set(&self, value: serde_json::Value) -> Result<u32, WorkspaceError> {
        let set = self.workspace.set_policy(&person(), policy(value), None, None).await?;
        Ok(set.0.version())
    }

    /// Another process on the same space.
    fn another(&self) -> Workspace {
        let (store, clock, ids) = (self.workspace.store(), self.workspace.clock(), self.workspace.ids());
        Workspace::new(store.clone(), clock.clone(), ids.clone(), SpaceName::main())
    }
}

#[tokio::test]
async fn new_policy_applies_at_once_in_other_workspaces() {
    let f = fixture();
    let another = f.another();
    assert_eq!(another.policy().await.unwrap().strict_types, StrictTypes::Tools);
    assert_eq!(f.set(json!({"strict_types": "nobody"})).await.unwrap(), 1);
    assert_eq!(another.policy().await.unwrap().strict_types, StrictTypes::Nobody);
    assert_eq!(f.workspace.policy().await.unwrap().version(), 1);
}

#[tokio::test]
async fn policy_must_be_valid_and_set_by_a_human() {
    let f = fixture();
    let planner = Actor::new(Role::Planner, "p");
    let by_planner = f
        .workspace
        .set_policy(&planner, SpacePolicy::default(), None, None)
        .await;
    assert_eq!(by_planner.unwrap_err().kind(), ErrorKind::Conflict);
    let error = f.set(json!({"types": {"No Such": {}}})).await.unwrap_err();
    assert!(matches!(error, WorkspaceError::Invalid(Invalid { code, .. }) if code == "policy_invalid"));
    assert_eq!(f.store.log(), []);
}

#[tokio::test]
async fn change_of_single_keys_is_made_to_what_is_in_force_unless_a_version_is_expected() {
    let f = fixture();
    let edit = |key: &str, value: serde_json::Value| PolicyEdit {
        set: vec![(key.to_owned(), value)],
        unset: Vec::new(),
    };
    let change = async |edit: &PolicyEdit, guard: Guard| f.workspace.change_policy(&person(), edit, guard).await;
    let nobody = edit("strict_types", json!("nobody"));
    assert_eq!(change(&nobody, Guard::default()).await.unwrap().in_force.version(), 1);
    let quota = edit("quota.live_observations", json!(9));
    let stale = change(&quota, Guard::from(Some(0))).await.unwrap_err();
    assert_eq!(stale.code(), "stale_policy");
    let now = change(&quota, Guard::from(Some(1))).await.unwrap().in_force;
    assert_eq!(
        (now.version(), now.strict_types, now.quota.live_observations),
        (2, StrictTypes::Nobody, 9)
    );
    // It is as wanted already.
    assert_eq!(
        change(&quota, Guard::from(Some(1))).await.unwrap().in_force.version(),
        2
    );
    let planner = Actor::new(Role::Planner, "p");
    let refused = f
        .workspace
        .change_policy(&planner, &edit("x", json!(1)), Guard::default())
        .await;
    assert_eq!(refused.unwrap_err().code(), "role_denied");
}

#[tokio::test]
async fn document_of_the_policy_is_read_once_for_each_version() {
    let f = fixture();
    f.set(json!({"types": {"tide": {"class": "alert"}}})).await.unwrap();
    let read = || f.store.policies_read.load(Ordering::SeqCst);
    let before = read();
    for _ in 0..20 {
        assert!(
            f.workspace
                .policy()
                .await
                .unwrap()
                .document()
                .types
                .get("tide")
                .is_some()
        );
    }
    assert_eq!(read(), before, "nobody has changed it");
    f.set(json!({})).await.unwrap();
    f.workspace.policy().await.unwrap();
    assert_eq!(read(), before + 1);
}

#[tokio::test]
async fn change_of_the_policy_under_a_key_is_made_once() {
    let f = fixture();
    let guard = || Guard {
        idempotency_key: Some("k".to_owned()),
        ..Guard::default()
    };
    let edit = PolicyEdit {
        set: vec![("types.tide.class".to_owned(), json!("alert"))],
        unset: Vec::new(),
    };
    let first = f.workspace.change_policy(&person(), &edit, guard()).await.unwrap();
    f.set(json!({})).await.unwrap();
    let again = f.workspace.change_policy(&person(), &edit, guard()).await.unwrap();
    assert_eq!((first.replayed, again.replayed), (false, true));
    assert_eq!(
        *again.in_force.document(),
        SpacePolicy::default(),
        "what came later stays"
    );
}

#[tokio::test]
async fn secret_in_a_policy_is_redacted() {
    let f = fixture();
    let token = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let mut document = SpacePolicy::default();
    document.types.register(
        &token,
        folio_memory::policy::TypePolicy::of(folio_memory::observation::Class::Alert),
    );
    let change = Change::SetPolicy {
        policy: Box::new(document),
        expected_version: None,
    };
    let recorded = f.workspace.record(&person(), Write::of(vec![change])).await.unwrap();
    assert_eq!(recorded.warnings[0].code, "secret_redacted");
    assert!(!format!("{:?}", f.store.log()).contains(&token));
}

#[tokio::test]
async fn first_use_of_an_unknown_type_registers_and_warns_m7_3_22() {
    let f = fixture();
    let weather = || input(json!({"content": "x", "type": "weather"}));
    let first = f.workspace.add_observation(&person(), weather(), None).await.unwrap();
    assert_eq!(first.warnings[0].code, "type_unknown");
    let second = f.another().add_observation(&person(), weather(), None).await.unwrap();
    assert_eq!(second.warnings, []);
    let tool = Actor::new(Role::Tool, "t");
    f.workspace.add_observation(&tool, weather(), None).await.unwrap();
}

#[tokio::test]
async fn type_too_many_is_refused_so_that_the_policy_can_still_be_set_m7_3_22() {
    let f = fixture();
    let types: serde_json::Map<_, _> = (0..999).map(|n| (format!("t{n}"), json!({}))).collect();
    f.set(json!({"types": types})).await.unwrap();
    let of_type = |name: &str| input(json!({"content": "x", "type": name}));
    f.workspace
        .add_observation(&person(), of_type("weather"), None)
        .await
        .unwrap();
    let refused = f.workspace.add_observation(&person(), of_type("tide"), None).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, WorkspaceError::Invalid(Invalid { code, .. }) if code == "type_unknown"));
    let mut document = f.workspace.policy().await.unwrap().document().clone();
    document.strict_types = StrictTypes::Everybody;
    f.workspace.set_policy(&person(), document, None, None).await.unwrap();
}

#[tokio::test]
async fn strict_types_refuse_unregistered_and_honor_registered_types_m7_3_22() {
    let f = fixture();
    let tool = Actor::new(Role::Tool, "t");
    let weather = || input(json!({"content": "x", "type": "weather"}));
    let refused = f.workspace.add_observation(&tool, weather(), None).await.unwrap_err();
    assert!(matches!(refused, WorkspaceError::Invalid(Invalid { code, .. }) if code == "type_unknown"));
    f.set(json!({"types": {"weather": {"class": "alert", "default_ttl_minutes": 1}}}))
        .await
        .unwrap();
    let known = f.workspace.add_observation(&tool, weather(), None).await.unwrap();
    assert_eq!(
        known.entry.fields.lifetime.expires_at(),
        Some(Timestamp::from_millis(61_000))
    );
    f.set(json!({"strict_types": "everybody"})).await.unwrap();
    f.workspace
        .add_observation(&person(), weather(), None)
        .await
        .unwrap_err();
}

#[tokio::test]
async fn write_follows_a_policy_set_by_another_process_m7_3_22() {
    let f = fixture();
    let tool = Actor::new(Role::Tool, "t");
    let weather = || input(json!({"content": "x", "type": "weather"}));
    let another = f.another();
    // Both know what holds.
    another.policy().await.unwrap();
    f.workspace.policy().await.unwrap();
    f.set(json!({"types": {"weather": {"class": "alert", "default_ttl_minutes": 1}}}))
        .await
        .unwrap();
    let known = another.add_observation(&tool, weather(), None).await.unwrap();
    let ends = Some(Timestamp::from_millis(61_000));
    assert_eq!(known.entry.fields.lifetime.expires_at(), ends);
    f.set(json!({"types": {"weather": {"class": "alert", "default_ttl_minutes": 2}}}))
        .await
        .unwrap();
    let longer = another.add_observation(&tool, weather(), None).await.unwrap();
    let ends = Some(Timestamp::from_millis(121_000));
    assert_eq!(longer.entry.fields.lifetime.expires_at(), ends);
    f.set(json!({"strict_types": "everybody"})).await.unwrap();
    another.add_observation(&person(), weather(), None).await.unwrap_err();
}

#[tokio::test]
async fn permission_check_follows_a_policy_set_by_another_process() {
    let f = fixture();
    let another = f.another();
    another.policy().await.unwrap();
    let clarifier = Actor::new(Role::Clarifier, "c");
    let question = || input(json!({"content": "which?", "type": "question"}));
    f.set(json!({"types": {"question": {"class": "pending_confirmation"}}}))
        .await
        .unwrap();
    another.add_observation(&clarifier, question(), None).await.unwrap();
    f.set(json!({"types": {"question": {"class": "insight"}}}))
        .await
        .unwrap();
    another.add_observation(&clarifier, question(), None).await.unwrap_err();
}
