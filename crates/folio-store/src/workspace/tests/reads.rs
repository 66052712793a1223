use folio_memory::NewEntry;
use folio_memory::text::TextMatch;
use folio_memory::tokens::Estimate;

use super::*;

#[tokio::test]
async fn query_for_too_many_words_is_refused_unless_matching_any_m7_2_12() {
    let f = fixture();
    let words: Vec<String> = (0..64).map(|n| format!("word{n}")).collect();
    let (most, more) = (words.join(" "), format!("{} nowhere", words.join(" ")));
    f.workspace
        .add_observation(&person(), saying(&most), None)
        .await
        .unwrap();
    let asking = |text: &str, text_match| EntryQuery {
        text: Some(text.to_owned()),
        text_match,
        ..EntryQuery::default()
    };
    let total = async |query| f.workspace.observations(query).await.map(|answer| answer.total);
    assert_eq!(total(asking(&most, TextMatch::All)).await.unwrap(), 1);
    let refused = total(asking(&more, TextMatch::All)).await.unwrap_err();
    assert!(
        matches!(&refused, WorkspaceError::Invalid(invalid) if invalid.code == "text_too_long"),
        "{refused}"
    );
    assert_eq!(total(asking(&more, TextMatch::Any)).await.unwrap(), 1);
    // Who searches in many words is told that not all of them are there.
    let (found, how) = f.workspace.search(&asking(&more, TextMatch::All)).await.unwrap();
    assert_eq!((found.total, how), (1, TextMatch::Any));
}

#[tokio::test]
async fn scratch_read_lines_match_its_items_during_concurrent_writes_m7_2_15() {
    let f = fixture();
    for number in 0..10 {
        f.add(&format!("number {number}: {}", "something was seen ".repeat(6)))
            .await;
    }
    let newest = f.add("the newest").await;
    let mut new = NewEntry {
        id: folio_memory::EntryId::derived(&["meanwhile"]),
        page: newest.page,
        kind: newest.kind,
        fields: newest.fields,
    };
    new.fields.body = "added meanwhile".to_owned();
    f.store.meanwhile.lock().unwrap().push(Commit {
        space: SpaceName::main(),
        at: f.workspace.now(),
        actor: person(),
        idempotency_key: None,
        expected: Vec::new(),
        record: Record::of(vec![Change::AddEntry(Box::new(new))]),
        blobs: Vec::new(),
    });
    let (actor, thread, tokens) = (person(), ThreadKey::main(), Estimate);
    let caller = ScratchCaller {
        actor: &actor,
        thread: &thread,
        tokens: &tokens,
        idempotency_key: None,
    };
    let asked = json!({"page": "observations", "budget": 500});
    let answer = f
        .workspace
        .call_scratch_tool(&caller, "scratch_read", &asked)
        .await
        .unwrap();
    let items = answer.structured["items"].as_array().unwrap();
    assert!(
        f.store.meanwhile.lock().unwrap().is_empty() && items.len() < 10,
        "{}",
        answer.text
    );
    let lines: Vec<_> = answer.text.lines().take(items.len()).collect();
    for (line, item) in lines.into_iter().zip(items) {
        let handle = item["handle"].as_str().unwrap();
        assert!(line.contains(&format!("{handle} ")), "{handle}: {}", answer.text);
    }
}
