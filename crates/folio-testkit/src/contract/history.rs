//! The history of entries and the links between them.

use folio_memory::keeping::ErasedFor;
use folio_memory::{Change, EntryId, EntryQuery, FieldChange, Link, NewEntry, Order, Relation, Seq};
use folio_store::{ErrorKind, Record};

use super::Home;
use super::scene::{Scene, patch};

fn add(new: NewEntry) -> Change {
    Change::AddEntry(Box::new(new))
}

fn title(text: &str) -> FieldChange {
    FieldChange::Title(text.to_owned())
}

/// Each revision has its author, instant, reason and changes.
pub async fn history_lists_every_revision_in_order(home: &dyn Home) {
    let scene = Scene::of(home);
    let id = scene.a_note("one").await;
    let bystander = scene.a_note("bystander").await;
    let two = Record {
        reason: Some("better".to_owned()),
        ..Record::of(vec![patch(id, vec![title("two")])])
    };
    scene.store.commit(scene.commit_of(two)).await.expect("a patch");
    scene.commit(vec![patch(bystander, vec![title("other")])]).await;
    scene
        .commit(vec![
            patch(id, vec![title("three")]),
            patch(bystander, vec![title("third")]),
            patch(id, vec![title("four")]),
            patch(id, vec![title("four")]),
        ])
        .await;
    let history = scene.store.history(&scene.space, id).await.expect("a history");
    let revisions: Vec<_> = history
        .iter()
        .map(|r| (r.seq.0, r.version, r.reason.as_deref()))
        .collect();
    assert_eq!(
        revisions,
        [(2, 1, None), (5, 2, Some("better")), (7, 3, None), (7, 4, None)]
    );
    assert!(matches!(&history[0].change, Change::AddEntry(new) if new.fields.title == "one"));
    assert!(matches!(&history[3].change, Change::PatchEntry { fields, .. } if fields[..] == [title("four")]));
    assert_eq!(history[0].actor.to_string(), "human:ada");
    assert_eq!(scene.read(id).await.version, 4);
}

/// Entries as of a commit are as they were then, whatever happened to them since; those that did not exist are missing.
pub async fn entries_as_of_a_commit_are_as_they_were_then(home: &dyn Home) {
    let scene = Scene::of(home);
    let same = scene.a_note("same").await;
    let changed = scene.a_note("one").await;
    let erased = scene.a_note("erased").await;
    scene.commit(vec![patch(changed, vec![title("two")])]).await;
    let then = scene.head().await;
    let ids = vec![same, changed, erased];
    let mut before = Vec::new();
    for id in &ids {
        before.push(scene.read(*id).await);
    }
    let later = scene.a_note("later").await;
    scene.commit(vec![patch(changed, vec![title("three")])]).await;
    let nowhere = EntryId::derived(&["nowhere"]);
    let read = async |as_of| {
        let ids = ids.iter().copied().chain([later, nowhere]).collect();
        let found = scene.store.entries_as_of(&scene.space, ids, as_of).await;
        let mut found = found.expect("entries");
        found.sort_by_key(|entry| entry.handle);
        found
    };
    assert_eq!(read(then).await, before);
    let erase = Change::EraseEntry {
        entry: erased,
        why: ErasedFor::Forgotten,
        expected_version: None,
    };
    scene.commit(vec![erase]).await;
    let left = read(then).await.into_iter().map(|entry| entry.fields);
    let left: Vec<_> = left.map(|fields| (fields.title, fields.erased)).collect();
    let expected = [("same", None), ("two", None), ("", Some(ErasedFor::Forgotten))];
    assert_eq!(left, expected.map(|(title, why)| (title.to_owned(), why)));
    let query = EntryQuery {
        as_of: Some(then),
        order: Order::Oldest,
        ..EntryQuery::default()
    };
    let listed = scene.list(&query).await.expect("a list").items;
    let listed: Vec<_> = listed.into_iter().map(|entry| entry.fields.erased).collect();
    assert_eq!(
        listed,
        [None, None, Some(ErasedFor::Forgotten)],
        "a list says so as well"
    );
    let now: Vec<_> = read(scene.head().await)
        .await
        .into_iter()
        .map(|entry| entry.handle.0)
        .collect();
    assert_eq!(now, [1, 2, 3, 4]);
    assert_eq!(read(Seq(1)).await, []);
}

/// A replayed commit answers with the versions of that time, not with the current ones.
pub async fn replayed_commit_returns_its_original_versions(home: &dyn Home) {
    let scene = Scene::of(home);
    let id = scene.a_note("v1").await;
    let page = scene.read(id).await.page;
    let added = scene.note(page, "added");
    let added_id = added.id;
    let changes = vec![add(added), patch(id, vec![title("v2")]), patch(id, vec![title("v2")])];
    let first = scene.commit_as("key", changes.clone()).await.expect("a commit");
    scene
        .commit(vec![
            patch(id, vec![title("v3")]),
            patch(added_id, vec![title("changed")]),
        ])
        .await;
    let again = scene.commit_as("key", changes).await.expect("the same commit");
    assert_eq!(again.entries, first.entries);
    assert_eq!(
        again.entries.iter().map(|e| (e.version, e.changed)).collect::<Vec<_>>(),
        [(1, true), (2, true), (2, false)]
    );
    assert_eq!(scene.read(id).await.fields.title, "v3");
}

/// A link that is added several times is stored once.
pub async fn links_are_found_from_both_ends_and_stored_once(home: &dyn Home) {
    let scene = Scene::of(home);
    let (a, b) = (scene.a_note("a").await, scene.a_note("b").await);
    let page = scene.read(a).await.page;
    let link = |rel, src: &dyn ToString, dst: &dyn ToString| Link {
        src: src.to_string(),
        rel,
        dst: dst.to_string(),
    };
    let first = link(Relation::DerivedFrom, &a, &b);
    let second = link(Relation::References, &a, &page);
    let to_itself = link(Relation::Blocks, &b, &b);
    for link in [&second, &first, &first, &to_itself] {
        scene.commit(vec![Change::AddLink(link.clone())]).await;
    }
    let of = async |end: String| scene.store.links(&scene.space, &end).await.expect("links");
    let mut expected = vec![first.clone(), second.clone()];
    expected.sort();
    assert_eq!(of(a.to_string()).await, expected);
    assert_eq!(of(page.to_string()).await, [second]);
    assert_eq!(of(b.to_string()).await.len(), 2);
    assert!(of("nothing".to_owned()).await.is_empty());
    assert!(
        scene
            .store
            .links(&scene.other_space("other").space, &a.to_string())
            .await
            .expect("links")
            .is_empty()
    );
}

/// Links are matched by all of their parts, within the space.
pub async fn kept_links_returns_exactly_the_existing_links(home: &dyn Home) {
    let scene = Scene::of(home);
    let (a, b) = (scene.a_note("a").await, scene.a_note("b").await);
    let link = |rel, src: &dyn ToString, dst: &dyn ToString| Link {
        src: src.to_string(),
        rel,
        dst: dst.to_string(),
    };
    let existing_links = [
        link(Relation::Blocks, &a, &b),
        link(Relation::References, &a, &b),
        link(Relation::References, &b, &b),
    ];
    let queried_links: Vec<_> = existing_links
        .iter()
        .cloned()
        .chain([
            link(Relation::Blocks, &b, &a),
            link(Relation::Supersedes, &a, &b),
            link(Relation::Blocks, &a, &"nothing\0"),
        ])
        .collect();
    let kept = async |of: &Scene, links: &[Link]| of.store.kept_links(&of.space, links.to_vec()).await.expect("links");
    assert!(kept(&scene, &queried_links).await.is_empty());
    scene
        .commit(existing_links.iter().cloned().map(Change::AddLink).collect())
        .await;
    assert_eq!(
        kept(&scene, &queried_links).await,
        existing_links.iter().cloned().collect()
    );
    assert!(kept(&scene, &[]).await.is_empty());
    assert!(kept(&scene.other_space("other"), &queried_links).await.is_empty());
}

/// Both ends of a link must exist in the same space.
pub async fn link_target_must_be_an_id_in_the_same_space(home: &dyn Home) {
    let scene = Scene::of(home);
    let other = scene.other_space("other");
    let (mine, theirs) = (scene.a_note("mine").await, other.a_note("theirs").await);
    let to = |dst: String| {
        vec![Change::AddLink(Link {
            src: mine.to_string(),
            rel: Relation::References,
            dst,
        })]
    };
    assert_eq!(
        scene
            .try_commit(to(theirs.to_string()))
            .await
            .expect_err("elsewhere")
            .kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        scene
            .try_commit(to("e1".to_owned()))
            .await
            .expect_err("a handle")
            .kind(),
        ErrorKind::Invalid
    );
}
