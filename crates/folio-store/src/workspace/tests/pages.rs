use super::*;

#[tokio::test]
async fn pages_form_a_tree_and_render_as_markdown() {
    let f = fixture();
    let page = async |title: &str, parent: Option<&folio_memory::Page>| {
        let parent = parent.map(|parent| Ref::Handle(parent.handle));
        let input = PageInput {
            title: title.to_owned(),
            parent,
            ..PageInput::default()
        };
        f.workspace.new_page(&person(), input).await.unwrap()
    };
    let root = page("Root", None).await;
    let left = page("Left", Some(&root)).await;
    page("Alone", None).await;
    page("Right", Some(&root)).await;
    page("Inner", Some(&left)).await;
    let tree = async |root| -> Vec<String> {
        let tree = f.workspace.tree(root).await.unwrap();
        tree.iter()
            .map(|node| format!("{}{}", " ".repeat(node.depth), node.page.fields.title))
            .collect()
    };
    assert_eq!(tree(None).await, ["Root", " Left", "  Inner", " Right", "Alone"]);
    assert_eq!(tree(Some(Ref::Id(left.id))).await, ["Left", " Inner"]);

    for n in 1..=3 {
        f.workspace
            .append(
                &person(),
                Ref::Id(left.id),
                &format!("Block {n}"),
                format!("text {n}"),
                &[],
                None,
            )
            .await
            .unwrap();
    }
    let tail = f.workspace.tail(Ref::Id(left.id), 2).await.unwrap();
    assert_eq!(
        tail.iter().map(|entry| entry.fields.body.as_str()).collect::<Vec<_>>(),
        ["text 2", "text 3"]
    );
    let markdown = f.workspace.page_markdown(Ref::Id(left.id)).await.unwrap();
    assert!(
        markdown.starts_with("# Left\n") && markdown.contains("text 1") && markdown.contains("Inner"),
        "{markdown}"
    );
}

#[tokio::test]
async fn expired_entries_are_not_shown_on_pages_m7_1_1() {
    let f = fixture();
    let observed = |content: &str, minutes: u32| input(json!({"content": content, "ttl_minutes": minutes}));
    for (content, minutes) in [("gone", 0), ("stays", 1)] {
        f.workspace
            .add_observation(&person(), observed(content, minutes), None)
            .await
            .unwrap();
    }
    let page = Ref::Id(f.workspace.scratch_page().await.unwrap().0);
    let seen = async || -> Vec<String> {
        let entries = f.workspace.page_entries(page).await.unwrap();
        let markdown = f.workspace.page_markdown(page).await.unwrap();
        assert_eq!(f.workspace.tail(page, 9).await.unwrap(), entries);
        assert_eq!(markdown.matches("[observation/").count(), entries.len(), "{markdown}");
        entries.into_iter().map(|entry| entry.fields.body).collect()
    };
    assert_eq!(seen().await, ["stays"]);
    *f.clock.0.lock().unwrap() = f.workspace.now().plus(Duration::from_secs(60));
    assert_eq!(seen().await, [""; 0]);
}

#[tokio::test]
async fn appending_needs_text_of_allowed_length_and_an_existing_page() {
    let f = fixture();
    let page = f
        .workspace
        .new_page(
            &person(),
            PageInput {
                title: "P".to_owned(),
                ..PageInput::default()
            },
        )
        .await
        .unwrap();
    let append = async |page, body: &str| {
        f.workspace
            .append(&person(), page, "", body.to_owned(), &[], None)
            .await
    };
    assert_eq!(
        append(Ref::Id(page.id), "  ").await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
    assert_eq!(
        append(Ref::Id(page.id), &"x".repeat(folio_memory::entry::MAX_TEXT_BYTES + 1))
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::Invalid
    );
    assert_eq!(
        append(Ref::Handle(folio_memory::PageHandle(9)), "x")
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
}
