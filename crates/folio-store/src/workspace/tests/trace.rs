use super::*;

#[tokio::test]
async fn trace_line_names_component_operation_entry_type_and_actor() {
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
    f.workspace
        .complete(&person(), Ref::Id(item.id), Guard::default())
        .await
        .unwrap();

    let line = |entry: &TraceEntry| {
        let kind = entry.entry_type.as_deref().unwrap_or("-");
        let detail = json!(entry.detail);
        format!(
            "{} {} {kind} {} {detail}",
            entry.component, entry.operation, entry.source
        )
    };
    let all = f.workspace.trace(TraceQuery::default()).await.unwrap();
    let lines: Vec<_> = all.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "page add_page - wine_recommender {\"text\":\"scratch_page \\\"Scratch page\\\"\"}",
            "scratch_page add_observation contextual_insight wine_recommender {\"text\":\"likes Burgundy\",\"confidence\":0.5}",
            "scratch_page archive_observation contextual_insight ada {\"fields\":[\"status\"],\"reason\":\"old\"}",
            "page add_page - ada {\"text\":\"scratchbook \\\"Scratchbook of main\\\"\"}",
            "scratchbook add_item todo ada {\"text\":\"call\"}",
            "scratchbook pin_item todo ada {\"fields\":[\"pin\"]}",
            "scratchbook complete_item todo ada {\"fields\":[\"status\",\"progress\"]}",
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

#[tokio::test]
async fn trace_shows_confidence_context_and_reason_of_an_update() {
    let f = fixture();
    let insight = input(json!({"content": "likes Burgundy", "confidence": 0.4, "context": {"user": "u1"}}));
    let entry = f
        .workspace
        .add_observation(&person(), insight, None)
        .await
        .unwrap()
        .entry;
    let patch = ObservationPatch::from_json(&json!({"confidence": 0.9, "context": {"user": "u2"}, "tags": ["wine"]}));
    let guard = Guard {
        reason: Some("said so twice".to_owned()),
        ..Guard::default()
    };
    f.workspace
        .update_observation_under(&person(), Ref::Id(entry.id), patch.unwrap(), guard)
        .await
        .unwrap();
    let all = f.workspace.trace(TraceQuery::default()).await.unwrap();
    let details: Vec<_> = all.iter().map(|line| line.detail.clone().unwrap()).collect();
    assert_eq!(
        details[1..],
        [
            json!({"text": "likes Burgundy", "confidence": 0.4, "context": {"user": "u1"}}),
            json!({
                "fields": ["confidence", "tags", "context"], "confidence": 0.9, "context": {"user": "u2"}, "reason": "said so twice"
            }),
        ]
    );
}
