//! Entries: adding, patching, versions, history and links.

use folio_memory::id::Ref;
use folio_memory::{
    Change, Confidence, Entry, EntryHandle, EntryId, EntryKind, FieldChange, Lifetime, Link, NewEntry, Owner, PageId,
    PageRole, Relation, Seq, Status,
};
use folio_store::{ErrorKind, StoreError};
use serde_json::json;

use super::Home;
use super::scene::{Scene, patch, tag};

fn add(new: NewEntry) -> Change {
    Change::AddEntry(Box::new(new))
}

fn title(text: &str) -> FieldChange {
    FieldChange::Title(text.to_owned())
}

/// An entry is found by id and by handle, with every field.
pub async fn added_entry_reads_back_with_every_field(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let mut new = scene.entry(page, EntryKind::Observation, "A title");
    let now = scene.now();
    new.fields.type_name = Some("risk_alert".to_owned());
    "a body".repeat(20_000).clone_into(&mut new.fields.body);
    new.fields.parts = Some(json!({"actions": ["a"]}));
    new.fields.confidence = Some(Confidence::clamped(0.7).0);
    new.fields.tags = vec![tag("z"), tag("a/b:c")];
    new.fields.owner = Owner::parse("tool:grep").expect("an owner");
    new.fields.context = Some(json!({"goal_id": "g1"}));
    new.fields.metadata = Some(json!([1, {"x": null}]));
    new.fields.pin_rank = Some(3);
    new.fields.lifetime = Lifetime::Until(now.plus(std::time::Duration::from_millis(1)));
    new.fields.iteration = Some(2);
    new.fields.source.tool = Some("grep".to_owned());
    let expected = Entry::added(new.clone(), EntryHandle(1), Seq(2), now);
    let id = scene.add(new).await;
    assert_eq!(scene.read(id).await, expected);
    assert_eq!(
        scene
            .store
            .entry(&scene.space, Ref::Handle(EntryHandle(1)))
            .await
            .expect("an entry"),
        expected
    );
}

/// Handles follow the order of the commits, and of the changes within a commit.
pub async fn entry_handles_count_up_and_resolve_to_their_entries(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let committed = scene
        .commit(vec![add(scene.note(page, "1")), add(scene.note(page, "2"))])
        .await;
    assert_eq!(committed.entries.iter().map(|e| e.handle.0).collect::<Vec<_>>(), [1, 2]);
    let third = scene.commit(vec![add(scene.note(page, "3"))]).await;
    assert_eq!(third.entries[0].handle, EntryHandle(3));
    for number in 1..=3 {
        let entry = scene
            .store
            .entry(&scene.space, Ref::Handle(EntryHandle(number)))
            .await
            .expect("an entry");
        assert_eq!(entry.fields.title, number.to_string());
    }
    for number in [0, 4, u64::MAX] {
        let error = scene
            .store
            .entry(&scene.space, Ref::Handle(EntryHandle(number)))
            .await
            .expect_err("no such entry");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
}

/// Handles are separate per space: the boundary between tenants (M7.6.51).
pub async fn entry_ids_and_handles_are_scoped_to_their_space(home: &dyn Home) {
    let main = Scene::of(home);
    let other = main.other_space("other");
    let empty = main.other_space("empty");
    let mine = main.a_note("mine").await;
    other.a_note("theirs").await;
    main.a_note("mine, too").await;
    let first = other
        .store
        .entry(&other.space, Ref::Handle(EntryHandle(1)))
        .await
        .expect("an entry");
    assert_eq!(first.fields.title, "theirs");
    for scene in [&other, &empty] {
        assert!(scene.store.entry(&scene.space, Ref::Id(mine)).await.is_err());
        assert!(
            scene
                .store
                .entry(&scene.space, Ref::Handle(EntryHandle(2)))
                .await
                .is_err()
        );
        assert!(scene.store.history(&scene.space, mine).await.is_err());
        let error = scene
            .try_commit(vec![patch(mine, vec![title("stolen")])])
            .await
            .expect_err("not theirs");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
    assert_eq!(other.titles(&folio_memory::EntryQuery::default()).await, ["theirs"]);
    assert_eq!(
        empty
            .list(&folio_memory::EntryQuery::default())
            .await
            .expect("a list")
            .total,
        0
    );
}

/// A patch also updates the instant and the commit of the last change.
pub async fn patch_sets_fields_and_increments_the_version(home: &dyn Home) {
    let scene = Scene::of(home);
    let id = scene.a_note("old").await;
    scene.clock.advance(std::time::Duration::from_secs(1));
    let committed = scene
        .commit(vec![patch(id, vec![title("new"), FieldChange::PinRank(Some(1))])])
        .await;
    assert_eq!((committed.entries[0].version, committed.entries[0].changed), (2, true));
    let entry = scene.read(id).await;
    assert_eq!(
        (entry.version, entry.fields.title.as_str(), entry.fields.pin_rank),
        (2, "new", Some(1))
    );
    assert_eq!(
        (entry.created_seq, entry.updated_seq, entry.updated_at),
        (Seq(2), Seq(3), scene.now())
    );
    assert!(entry.created_at < entry.updated_at);
}

/// Neither of two patches of different fields undoes the other (M7.4.33).
pub async fn concurrent_patches_of_different_fields_both_apply(home: &dyn Home) {
    let scene = Scene::of(home);
    let id = scene.a_note("a note").await;
    let (left, right) = tokio::join!(
        scene.try_commit(vec![patch(id, vec![title("left")])]),
        scene.try_commit(vec![patch(id, vec![FieldChange::Body("right".to_owned())])]),
    );
    left.expect("a patch");
    right.expect("a patch");
    let entry = scene.read(id).await;
    assert_eq!(
        (entry.fields.title.as_str(), entry.fields.body.as_str(), entry.version),
        ("left", "right", 3)
    );
}

/// A stale version is refused, and the error names the current one (M7.4.34).
pub async fn stale_patch_is_refused_with_the_current_version(home: &dyn Home) {
    let scene = Scene::of(home);
    let id = scene.a_note("v1").await;
    let expecting = |text, version| Change::PatchEntry {
        entry: id,
        fields: vec![title(text)],
        expected_version: Some(version),
        base_version: None,
    };
    scene.commit(vec![expecting("v2", 1)]).await;
    match scene.try_commit(vec![expecting("v3", 1)]).await {
        Err(
            error @ StoreError::StaleVersion {
                found: 2, expected: 1, ..
            },
        ) => {
            assert_eq!(error.to_string(), "cannot change e1: it is at version 2, not 1");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(scene.read(id).await.fields.title, "v2");
}

/// A patch with a stale version succeeds if the entry already has the wanted values, so that a retry is safe (M7.4.34).
pub async fn patch_with_a_stale_version_succeeds_if_already_applied(home: &dyn Home) {
    let scene = Scene::of(home);
    let id = scene.a_note("v1").await;
    let wish = Change::PatchEntry {
        entry: id,
        fields: vec![title("v2")],
        expected_version: Some(1),
        base_version: None,
    };
    scene.commit(vec![wish.clone()]).await;
    let again = scene.commit(vec![wish]).await;
    assert_eq!((again.entries[0].version, again.entries[0].changed), (2, false));
}

/// It is a commit all the same.
pub async fn patch_without_effect_makes_no_revision(home: &dyn Home) {
    let scene = Scene::of(home);
    let id = scene.a_note("same").await;
    let before = scene.read(id).await;
    let committed = scene.commit(vec![patch(id, vec![title("same")])]).await;
    assert_eq!(
        (
            committed.seq,
            committed.entries[0].changed,
            committed.entries[0].version
        ),
        (Seq(3), false, 1)
    );
    assert_eq!(scene.read(id).await, before);
    assert_eq!(scene.store.history(&scene.space, id).await.expect("a history").len(), 1);
}

/// An ordinary patch cannot change an archived entry back (M7.5.39).
pub async fn archived_entry_cannot_be_patched_back(home: &dyn Home) {
    let scene = Scene::of(home);
    let id = scene.a_note("done with").await;
    let to = |status| vec![patch(id, vec![FieldChange::Status(status)])];
    scene.commit(to(Status::Resolved)).await;
    scene.commit(to(Status::Active)).await;
    scene.commit(to(Status::Archived)).await;
    let error = scene
        .try_commit(to(Status::Active))
        .await
        .expect_err("archived is final");
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Invalid, "e1 is archived, which is final")
    );
    assert!(!scene.commit(to(Status::Archived)).await.entries[0].changed);
}

/// The error names the missing entry or page.
pub async fn changing_a_missing_entry_or_page_is_not_found(home: &dyn Home) {
    let scene = Scene::of(home);
    let nowhere = PageId::derived(&["nowhere"]);
    let cases = [
        vec![patch(EntryId::derived(&["nobody"]), vec![title("x")])],
        vec![add(scene.note(nowhere, "x"))],
        vec![Change::SetPageStatus {
            page: nowhere,
            status: "ok".to_owned(),
        }],
    ];
    for changes in cases {
        let error = scene.try_commit(changes).await.expect_err("not there");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
    assert!(
        scene
            .store
            .history(&scene.space, EntryId::derived(&["nobody"]))
            .await
            .is_err()
    );
    assert_eq!(scene.head().await, Seq(0));
}

/// An id is never used for a second entry.
pub async fn adding_an_entry_with_a_used_id_is_refused(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    let new = scene.note(page, "first");
    scene.commit(vec![add(new.clone())]).await;
    let error = scene.try_commit(vec![add(new)]).await.expect_err("the id is taken");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let twice = scene.note(page, "twice");
    let error = scene
        .try_commit(vec![add(twice.clone()), add(twice)])
        .await
        .expect_err("twice in one commit");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// One commit may add a page, an entry on it, a patch of that entry, and a link to it.
pub async fn changes_can_refer_to_earlier_additions_in_the_same_commit(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.page(PageRole::Note);
    let (first, second) = (scene.note(page.id, "first"), scene.note(page.id, "second"));
    let (id, page_id) = (first.id, page.id);
    let link = Link {
        src: first.id.to_string(),
        rel: Relation::References,
        dst: second.id.to_string(),
    };
    let committed = scene
        .commit(vec![
            Change::EnsurePage(Box::new(page)),
            add(first),
            patch(id, vec![title("patched"), FieldChange::Tags(vec![tag("t")])]),
            add(second),
            Change::AddLink(link),
            Change::SetPageStatus {
                page: page_id,
                status: "ok".to_owned(),
            },
        ])
        .await;
    assert_eq!(
        committed
            .entries
            .iter()
            .map(|e| (e.handle.0, e.version))
            .collect::<Vec<_>>(),
        [(1, 2), (1, 2), (2, 1)]
    );
    let entry = scene.read(id).await;
    assert_eq!(
        (entry.version, entry.fields.title.as_str(), entry.updated_seq),
        (2, "patched", Seq(1))
    );
    assert_eq!(
        scene
            .store
            .page(&scene.space, Ref::Id(page_id))
            .await
            .expect("a page")
            .fields
            .status,
        "ok"
    );
    let tagged = folio_memory::EntryQuery {
        tags: vec![tag("t")],
        ..Default::default()
    };
    assert_eq!(scene.titles(&tagged).await, ["patched"]);
    assert_eq!(
        scene.store.check().await.expect("a check-up").problems,
        Vec::<String>::new()
    );
}

/// A change that changes nothing is logged like any other, and rebuilding from the log gives the same state.
pub async fn patches_without_effect_pass_the_store_check(home: &dyn Home) {
    let scene = Scene::of(home);
    let id = scene.a_note("a").await;
    scene.commit(vec![patch(id, vec![title("a")])]).await;
    scene.commit(vec![patch(id, vec![title("b")])]).await;
    scene.commit(vec![patch(id, vec![title("b")])]).await;
    scene.commit(vec![patch(id, vec![title("a")])]).await;
    assert_eq!(scene.read(id).await.version, 3);
    assert_eq!(
        scene.store.check().await.expect("a check-up").problems,
        Vec::<String>::new()
    );
}

/// Texts of people and tools read back byte by byte.
pub async fn unusual_texts_read_back_unchanged(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    for text in [
        "",
        "\u{0}",
        "a\u{0}b",
        "'; DROP TABLE log; --",
        "\u{202e}rtl\u{feff}",
        "👩‍👩‍👧 é e\u{301}",
        "\r\n\t\\\"",
        "{\"json\": [1]}",
    ] {
        let mut note = scene.note(page, text);
        text.clone_into(&mut note.fields.body);
        note.fields.context = Some(json!({ text: text }));
        let id = scene.add(note.clone()).await;
        assert_eq!(scene.read(id).await.fields, note.fields, "{text:?}");
    }
}
