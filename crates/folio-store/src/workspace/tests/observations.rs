use std::sync::atomic::Ordering;

use folio_memory::keeping::ArchivedFor;
use folio_memory::{EntryId, NewEntry};

use super::*;

#[tokio::test]
async fn only_the_first_observation_adds_the_scratch_page() {
    let f = fixture();
    let first = f.add("one").await;
    let second = f.add("two").await;
    assert_eq!(first.page, second.page);
    assert_eq!(
        f.store
            .log()
            .iter()
            .map(|row| row.record.changes.len())
            .collect::<Vec<_>>(),
        [2, 1]
    );
    assert_eq!(
        f.workspace.page(Ref::Id(first.page)).await.unwrap().fields.role,
        PageRole::ScratchPage
    );

    let stranger = Workspace::new(
        f.workspace.store().clone(),
        f.workspace.clock().clone(),
        f.workspace.ids().clone(),
        SpaceName::main(),
    );
    stranger
        .add_observation(&person(), saying("three"), None)
        .await
        .unwrap();
    assert_eq!(
        f.store.log()[2].record.changes.len(),
        1,
        "another process looks before it adds the page"
    );
}

#[tokio::test]
async fn returned_entry_equals_the_stored_entry() {
    let f = fixture();
    let written = f.add("one").await;
    assert_eq!(f.workspace.entry(Ref::Id(written.id)).await.unwrap(), written);
}

#[tokio::test]
async fn source_and_trust_are_stamped_from_the_actor_m7_3_31() {
    let f = fixture();
    let tool = Actor::new(Role::Tool, "wine_search");
    let written = f
        .workspace
        .add_observation(&tool, saying("x"), None)
        .await
        .unwrap()
        .entry;
    assert_eq!(written.fields.source.tool.as_deref(), Some("wine_search"));
    assert_eq!(written.fields.trust, Trust::ToolInternal);
    let by_person = f.add("y").await;
    assert_eq!(
        (by_person.fields.source.tool, by_person.fields.trust),
        (None, Trust::User)
    );
}

#[tokio::test]
async fn repeated_idempotency_key_adds_once_and_reports_a_replay() {
    let f = fixture();
    let key = || Some("k".to_owned());
    let first = f
        .workspace
        .add_observation(&person(), saying("x"), key())
        .await
        .unwrap();
    let second = f
        .workspace
        .add_observation(&person(), saying("x"), key())
        .await
        .unwrap();
    assert!(!first.replayed && second.replayed);
    assert_eq!(first.entry, second.entry);
    assert_eq!(f.store.log().len(), 1);
}

#[tokio::test]
async fn secret_in_an_observation_is_redacted_with_a_warning() {
    let f = fixture();
    let token = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let written = f
        .workspace
        .add_observation(&person(), saying(&format!("use {token}")), None)
        .await
        .unwrap();
    assert_eq!(written.entry.fields.body, "use [redacted:github_token]");
    assert_eq!(written.warnings[0].code, "secret_redacted");
    assert!(!format!("{:?}", f.store.log()).contains(&token));

    let patch = ObservationPatch {
        content: Some(token.clone()),
        ..ObservationPatch::default()
    };
    let patched = f
        .workspace
        .update_observation(&person(), Ref::Id(written.entry.id), patch, None)
        .await
        .unwrap();
    assert_eq!(patched.entry.fields.body, "[redacted:github_token]");
    assert!(!format!("{:?}", f.store.log()).contains(&token));
}

#[tokio::test]
async fn request_is_stored_with_its_commit_unless_secrets_were_redacted() {
    let f = fixture();
    let token = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
    for (key, content, is_kept) in [("a", "open", true), ("b", token.as_str(), false)] {
        let asked = RequestKey::new(key, key, &[content.as_bytes()]);
        let workspace = f.workspace.asked_under(asked);
        workspace
            .add_observation(&person(), saying(content), Some(key.to_owned()))
            .await
            .unwrap();
        let log = f.store.log();
        assert_eq!(log.last().unwrap().record.request.is_some(), is_kept, "{key}");
    }
}

#[tokio::test]
async fn observation_with_zero_lifetime_is_stored_but_never_listed_m7_1_3() {
    let f = fixture();
    let gone = f
        .workspace
        .add_observation(&person(), input(json!({"content": "x", "ttl_minutes": 0})), None)
        .await;
    assert_eq!(gone.unwrap().entry.state(f.workspace.now()), State::Expired);
    assert_eq!(f.workspace.observations(EntryQuery::default()).await.unwrap().items, []);
}

#[tokio::test]
async fn patch_without_expected_version_merges_with_a_concurrent_patch_m7_4_33() {
    let f = fixture();
    let entry = f.add("x").await;
    let rival = Change::PatchEntry {
        entry: entry.id,
        fields: vec![FieldChange::Title("from the rival".to_owned())],
        expected_version: None,
        base_version: None,
    };
    f.store.rivals.lock().unwrap().push(Commit {
        space: SpaceName::main(),
        at: f.workspace.now(),
        actor: person(),
        idempotency_key: None,
        expected: Vec::new(),
        record: Record::of(vec![rival]),
        blobs: Vec::new(),
    });
    let patch = ObservationPatch {
        status: Some("resolved".to_owned()),
        ..ObservationPatch::default()
    };
    let written = f
        .workspace
        .update_observation(&person(), Ref::Id(entry.id), patch, None)
        .await
        .unwrap()
        .entry;
    assert_eq!((written.version, written.fields.title.as_str()), (3, "from the rival"));
    assert_eq!(written.fields.status, Status::Resolved);
}

#[tokio::test]
async fn tidying_archives_due_entries_behind_many_that_are_not_due_m7_6_49() {
    let f = fixture();
    let quota = serde_json::from_value(json!({"quota": {"live_observations": 100_000}})).unwrap();
    f.workspace.set_policy(&person(), quota, None, None).await.unwrap();
    let advance = |days: u64| {
        let mut now = f.clock.0.lock().unwrap();
        *now = now.plus(Duration::from_hours(24 * days));
    };
    let long_ago = f.workspace.now();
    advance(1);
    let own = f.add("mail ada@example.org").await;
    advance(20);
    // More than is put away at a time was made before that, and came here after it.
    let mut fields = own.fields.clone();
    fields.lifetime = folio_memory::Lifetime::Unlimited;
    fields.brought = Some(folio_memory::entry::ImportedTimes {
        created_at: long_ago,
        updated_at: long_ago,
    });
    let brought = (0..20_001).map(|number: u32| {
        Change::AddEntry(Box::new(NewEntry {
            id: EntryId::derived(&["brought", &number.to_string()]),
            page: own.page,
            kind: own.kind,
            fields: fields.clone(),
        }))
    });
    let commit = Commit {
        space: SpaceName::main(),
        at: f.workspace.now(),
        actor: person(),
        idempotency_key: None,
        expected: Vec::new(),
        record: Record::of(brought.collect()),
        blobs: Vec::new(),
    };
    f.store.commit(commit).await.unwrap();
    advance(10);
    let tidied = f.workspace.tidy(f.workspace.now()).await.unwrap();
    assert_eq!((tidied.archived[&ArchivedFor::Pii], tidied.more), (1, false));
}

#[tokio::test]
async fn live_observations_are_counted_by_one_writer_at_a_time_m7_6_46() {
    let f = fixture();
    let quota = serde_json::from_value(json!({"quota": {"live_observations": 1}})).unwrap();
    f.workspace.set_policy(&person(), quota, None, None).await.unwrap();
    let now = f.workspace.now();
    let adds = (0..1_000).map(|_| f.workspace.note_added(1, now));
    futures_util::future::join_all(adds).await;
    let (counting, most) = &f.store.counting;
    assert_eq!((counting.load(Ordering::Relaxed), most.load(Ordering::Relaxed)), (0, 1));
}

#[tokio::test]
async fn entry_pinned_during_quota_tidying_is_not_archived_m7_6_46() {
    let f = fixture();
    let (pinned, other) = (f.add("older").await, f.add("newer").await);
    let quota = serde_json::from_value(json!({"quota": {"live_observations": 1}})).unwrap();
    f.workspace.set_policy(&person(), quota, None, None).await.unwrap();
    let pin = Change::PatchEntry {
        entry: pinned.id,
        fields: vec![FieldChange::PinRank(Some(1))],
        expected_version: None,
        base_version: None,
    };
    f.store.rivals.lock().unwrap().push(Commit {
        space: SpaceName::main(),
        at: f.workspace.now(),
        actor: person(),
        idempotency_key: None,
        expected: Vec::new(),
        record: Record::of(vec![pin]),
        blobs: Vec::new(),
    });
    f.workspace.tidy(f.workspace.now()).await.unwrap();
    let kept = f.workspace.entry(Ref::Id(pinned.id)).await.unwrap();
    assert_eq!((kept.fields.pin_rank, kept.fields.status), (Some(1), Status::Active));
    // The next one who looks puts away what may go.
    f.workspace.tidy(f.workspace.now()).await.unwrap();
    let put_away = f.workspace.entry(Ref::Id(other.id)).await.unwrap();
    assert_eq!(put_away.fields.status, Status::Archived);
}

#[tokio::test]
async fn update_with_a_stale_version_fails_unless_already_applied_m7_4_34() {
    let f = fixture();
    let entry = Ref::Id(f.add("x").await.id);
    let patch = |status: &str| ObservationPatch {
        status: Some(status.to_owned()),
        ..ObservationPatch::default()
    };
    f.workspace
        .update_observation(&person(), entry, patch("resolved"), Some(1))
        .await
        .unwrap();
    let again = f
        .workspace
        .update_observation(&person(), entry, patch("resolved"), Some(1))
        .await
        .unwrap();
    assert_eq!(again.entry.version, 2);
    let stale = f
        .workspace
        .update_observation(&person(), entry, patch("active"), Some(1))
        .await
        .unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn archived_observation_is_final_and_archiving_is_idempotent_m7_5_39() {
    let f = fixture();
    let entry = Ref::Id(f.add("x").await.id);
    let reason = Some("done with it".to_owned());
    assert_eq!(
        f.workspace
            .archive(&person(), entry, reason)
            .await
            .unwrap()
            .entry
            .version,
        2
    );
    assert_eq!(
        f.workspace.archive(&person(), entry, None).await.unwrap().entry.version,
        2
    );
    assert_eq!(f.store.log()[1].record.reason.as_deref(), Some("done with it"));
    let patch = ObservationPatch {
        status: Some("active".to_owned()),
        ..ObservationPatch::default()
    };
    let error = f
        .workspace
        .update_observation(&person(), entry, patch, None)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(f.workspace.observations(EntryQuery::default()).await.unwrap().total, 0);
}

#[tokio::test]
async fn tool_may_resolve_only_its_own_observations_and_archive_none() {
    let f = fixture();
    let (mine, other) = (Actor::new(Role::Tool, "mine"), Actor::new(Role::Tool, "other"));
    let entry = Ref::Id(
        f.workspace
            .add_observation(&mine, saying("x"), None)
            .await
            .unwrap()
            .entry
            .id,
    );
    let resolve = async |actor: &Actor| f.workspace.complete(actor, entry, Guard::default()).await;
    assert_eq!(resolve(&other).await.unwrap_err().kind(), ErrorKind::Conflict);
    resolve(&mine).await.unwrap();
    let archived = f.workspace.archive(&mine, entry, None).await.unwrap_err();
    assert_eq!(
        archived.to_string(),
        "a tool may not archive e1; reflector, cleaner, human may"
    );
}

#[tokio::test]
async fn active_observations_are_ordered_by_class_and_omit_settled_m7_2_14() {
    let f = fixture();
    for (content, kind, confidence) in [
        ("note", "observation", 0.9),
        ("own", "weather", 1.0),
        ("alert", "risk_alert", 0.2),
        ("ask", "pending_confirmation", 0.5),
    ] {
        let input = input(json!({"content": content, "type": kind, "confidence": confidence}));
        f.workspace.add_observation(&person(), input, None).await.unwrap();
    }
    let settled = f.add("settled").await;
    f.workspace
        .complete(&person(), Ref::Id(settled.id), Guard::default())
        .await
        .unwrap();
    let texts = async |limit| -> Vec<String> {
        let answer = f.workspace.active_observations(limit).await.unwrap();
        assert_eq!(answer.total, 4);
        answer.items.into_iter().map(|entry| entry.fields.body).collect()
    };
    assert_eq!(texts(100).await, ["alert", "ask", "own", "note"]);
    assert_eq!(texts(2).await, ["alert", "ask"]);
    assert_eq!(texts(0).await, [""; 0]);
}

#[tokio::test]
async fn alert_stays_first_among_many_newer_active_observations() {
    let f = fixture();
    f.workspace
        .add_observation(&person(), input(json!({"content": "alert", "type": "alert"})), None)
        .await
        .unwrap();
    for _ in 0..1_100 {
        f.add("noise").await;
    }
    let answer = f.workspace.active_observations(1_000).await.unwrap();
    assert_eq!(answer.items.len(), MAX_ACTIVE);
    assert_eq!(answer.items[0].fields.body, "alert");
}

#[tokio::test]
async fn workspace_refuses_a_commit_for_another_space() {
    let f = fixture();
    let commit = Commit {
        space: SpaceName::parse("other").unwrap(),
        at: f.workspace.now(),
        actor: person(),
        idempotency_key: None,
        expected: Vec::new(),
        record: Record::of(Vec::new()),
        blobs: Vec::new(),
    };
    assert_eq!(f.workspace.commit(commit).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn unlimited_lifetime_from_a_tool_is_replaced_with_a_warning_m7_1_5() {
    let f = fixture();
    let for_ever = || input(json!({"content": "x", "ttl_minutes": null}));
    let tool = Actor::new(Role::Tool, "wine_search");
    let bounded = f.workspace.add_observation(&tool, for_ever(), None).await.unwrap();
    let week = Duration::from_secs(7 * 24 * 60 * 60);
    let end = bounded.entry.fields.lifetime.expires_at();
    assert_eq!(end, Some(bounded.entry.created_at.plus(week)));
    assert_eq!(bounded.warnings[0].code, "ttl_never");
    let kept = f.workspace.add_observation(&person(), for_ever(), None).await.unwrap();
    assert_eq!(kept.entry.fields.lifetime.expires_at(), None);
    assert_eq!(kept.warnings, []);
}
