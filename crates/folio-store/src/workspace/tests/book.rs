use super::*;

#[tokio::test]
async fn scratchbook_lists_pins_first_and_only_its_own_thread() {
    let f = fixture();
    let first = f.todo("first").await;
    f.todo("second").await;
    let third = f.todo("third").await;
    f.workspace.pin_item(&person(), Ref::Id(third.id)).await.unwrap();
    f.workspace.pin_item(&person(), Ref::Id(first.id)).await.unwrap();
    let titles = async |thread: &str| -> Vec<String> {
        let book = f
            .workspace
            .book_items(&ThreadKey(thread.to_owned()), BookFilter::default())
            .await
            .unwrap();
        book.items.into_iter().map(|item| item.fields.title).collect()
    };
    assert_eq!(titles("main").await, ["third", "first", "second"]);
    assert_eq!(titles("other").await, [""; 0]);
    f.workspace.unpin_item(&person(), Ref::Id(third.id)).await.unwrap();
    assert_eq!(titles("main").await, ["first", "second", "third"]);
}

#[tokio::test]
async fn completing_an_item_twice_makes_one_revision_m7_5_41() {
    let f = fixture();
    let item = Ref::Id(f.todo("x").await.id);
    let done = f
        .workspace
        .complete(&person(), item, Guard::default())
        .await
        .unwrap()
        .entry;
    assert_eq!(
        (done.fields.status, done.fields.progress, done.version),
        (Status::Done, Some(1.0), 2)
    );
    assert_eq!(
        f.workspace
            .complete(&person(), item, Guard::default())
            .await
            .unwrap()
            .entry
            .version,
        2
    );
}

#[tokio::test]
async fn log_entry_cannot_be_completed_m7_5_41() {
    let f = fixture();
    let page = PageInput {
        title: "Notes".to_owned(),
        ..PageInput::default()
    };
    let page = f.workspace.new_page(&person(), page).await.unwrap();
    let block = f
        .workspace
        .append(&person(), Ref::Id(page.id), "", "what was found".to_owned(), &[], None)
        .await
        .unwrap();
    let error = f
        .workspace
        .complete(&person(), Ref::Id(block.entry.id), Guard::default())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "kind: e1 is of kind log; this is for observations, notes, todos, tasks, goals and pending actions"
    );
}

#[tokio::test]
async fn update_item_refuses_an_observation() {
    let f = fixture();
    let entry = Ref::Id(f.add("x").await.id);
    let patch = ItemPatch {
        title: Some("t".to_owned()),
        ..ItemPatch::default()
    };
    let error = f
        .workspace
        .update_item(&person(), entry, patch, None)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "kind: e1 is of kind observation; this is for notes, todos and tasks"
    );
}

#[tokio::test]
async fn pinned_observation_outlives_its_lifetime_until_unpinned_m7_1_7() {
    let f = fixture();
    let entry = f
        .workspace
        .add_observation(&person(), input(json!({"content": "x", "ttl_minutes": 1})), None)
        .await;
    let entry = Ref::Id(entry.unwrap().entry.id);
    f.workspace.pin_item(&person(), entry).await.unwrap();
    *f.clock.0.lock().unwrap() = f.workspace.now().plus(Duration::from_secs(3_600));
    assert_eq!(f.workspace.observations(EntryQuery::default()).await.unwrap().total, 1);
    f.workspace.unpin_item(&person(), entry).await.unwrap();
    assert_eq!(f.workspace.observations(EntryQuery::default()).await.unwrap().total, 0);
}
