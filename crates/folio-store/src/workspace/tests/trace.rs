use super::*;

#[tokio::test]
async fn the_trace_names_what_was_done_to_what_by_whom() {
    let f = fixture();
    let tool = Actor::new(Role::Tool, "wine_recommender");
    let insight = input(json!({"content": "likes Burgundy", "type": "contextual_insight"}));
    let entry = f.workspace.add_observation(&tool, insight, None).await.unwrap().entry;
    f.workspace
        .archive(&person(), Ref::Id(entry.id), Some("old".to_owned()))
        .await
        .unwrap();
    let item = f.todo("call").await;
    f.workspace.pin_item(&person(), Ref::Id(item.id)).await.unwrap();
    f.workspace.complete_item(&person(), Ref::Id(item.id)).await.unwrap();

    let line = |entry: &TraceEntry| {
        let kind = entry.entry_type.as_deref().unwrap_or("-");
        format!(
            "{} {} {kind} {} {}",
            entry.component,
            entry.operation,
            entry.source,
            entry.detail.as_ref().and_then(|detail| detail.as_str()).unwrap_or("-")
        )
    };
    let all = f.workspace.trace(TraceQuery::default()).await.unwrap();
    let lines: Vec<_> = all.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "page add_page - wine_recommender scratch_page \"Scratch page\"",
            "scratch_page add_observation contextual_insight wine_recommender likes Burgundy",
            "scratch_page archive_observation contextual_insight ada old",
            "page add_page - ada scratchbook \"Scratchbook of main\"",
            "scratchbook add_item todo ada call",
            "scratchbook pin_item todo ada pin",
            "scratchbook complete_item todo ada status, progress",
        ]
    );
    let last = f
        .workspace
        .trace(TraceQuery {
            limit: 2,
            ..TraceQuery::default()
        })
        .await
        .unwrap();
    assert_eq!(last.iter().map(line).collect::<Vec<_>>(), lines[5..]);
    let since = TraceQuery {
        since: Some(Seq(1)),
        limit: 2,
        ..TraceQuery::default()
    };
    assert_eq!(
        f.workspace
            .trace(since)
            .await
            .unwrap()
            .iter()
            .map(line)
            .collect::<Vec<_>>(),
        lines[2..4]
    );
}
