use folio_memory::trace::{DENIED, FAILED, SUCCESS, WARNING};
use folio_memory::{EntryId, RunId, TraceNote, TurnId};

use super::*;

fn brief(line: &TraceEntry) -> String {
    let detail = line.detail.as_ref().map(ToString::to_string).unwrap_or_default();
    format!("{} {} {} {detail}", line.source, line.operation, line.status)
}

impl Fixture {
    async fn noted(&self) -> Vec<TraceEntry> {
        let mut lines = self.workspace.trace(TraceQuery::default()).await.unwrap();
        lines.retain(|line| !line.is_logged);
        lines
    }
}

#[tokio::test]
async fn query_note_records_filters_and_result_counts_m7_10() {
    let f = fixture();
    f.add("likes Burgundy").await;
    let turn = TurnId::derived(&["t"]);
    let router = Actor {
        turn: Some(turn),
        ..Actor::new(Role::Router, "")
    };
    let asking = f.workspace.asked_by(&router);
    let query = EntryQuery {
        tags: vec![folio_memory::Tag::parse("wine").unwrap()],
        ..EntryQuery::default()
    };
    asking.observations(query).await.unwrap();
    asking.active_observations(5).await.unwrap();
    let lines = f.noted().await;
    assert_eq!(
        lines.iter().map(brief).collect::<Vec<_>>(),
        [
            "router list_observations success {\"filters\":{\"kinds\":[\"observation\"],\"tags\":[\"wine\"]},\
             \"returned\":0,\"total\":0}",
            "router get_active_observations success {\"filters\":{\"kinds\":[\"observation\"],\"limit\":5},\
             \"returned\":1,\"total\":1}",
        ]
    );
    assert!(lines.iter().all(|line| line.turn == Some(turn)
        && line.component == "scratch_page"
        && line.duration_us.is_some()
        && line.seq == Seq(1)));
}

#[tokio::test]
async fn warning_note_records_the_given_and_the_used_value_m7_1_4() {
    let f = fixture();
    let odd = input(json!({"content": "x", "ttl_minutes": -5, "confidence": 7}));
    let written = f.workspace.add_observation(&person(), odd, None).await.unwrap();
    let lines = f.noted().await;
    assert_eq!(lines.len(), 1);
    assert_eq!(
        (lines[0].status.as_str(), lines[0].entry),
        (WARNING, Some(written.entry.id))
    );
    assert_eq!(
        lines[0].detail,
        Some(json!({"warnings": [
            {"code": "confidence_clamped", "given": 7, "used": 1},
            {"code": "ttl_invalid", "given": -5, "used": 10_080},
        ]}))
    );
}

#[tokio::test]
async fn trace_note_truncates_and_redacts_a_long_text_m7_10() {
    let f = fixture();
    // Put together at run time, so that no scanner takes this file for a leak.
    let token = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let long = format!("{} {token} {}", "y ".repeat(500), "z".repeat(900_000));
    let note = |detail| f.workspace.noted("memory", "search").with_detail(detail);
    f.workspace
        .note(note(json!({"query": long, long.as_str(): [1, {"x": long}]})));
    f.workspace.note(note(json!({"query": "y".repeat(1_024)})));
    for _ in 0..2 {
        let lines = f.noted().await;
        let said = lines[0].detail.as_ref().unwrap();
        let query = said["query"].as_str().unwrap();
        assert!(said.to_string().len() < 4_000, "{}", said.to_string().len());
        assert!(
            query.starts_with("y y") && query.ends_with(&format!("… ({} bytes)", long.len())),
            "{query}"
        );
        assert!(!said.to_string().contains("ghp_"), "{said}");
        assert_eq!(lines[1].detail, Some(json!({"query": "y".repeat(1_024)})));
        f.workspace.flush_trace().await.unwrap();
    }
}

#[tokio::test]
async fn denied_operation_leaves_a_trace_note() {
    let f = fixture();
    let entry = f.add("x").await;
    let tool = Actor::new(Role::Tool, "wine_search");
    f.workspace.archive(&tool, Ref::Id(entry.id), None).await.unwrap_err();
    let lines = f.noted().await;
    assert_eq!(
        (lines[0].status.as_str(), lines[0].source.as_str(), lines[0].entry),
        (DENIED, "wine_search", Some(entry.id))
    );
    assert_eq!(lines[0].operation, "archive_observation", "it is called what was tried");
    let clarifier = Actor::new(Role::Clarifier, "");
    drop(
        f.workspace
            .add_observation(&clarifier, saying("y"), None)
            .await
            .unwrap_err(),
    );
    assert_eq!(
        brief(&f.noted().await[1]).split(" {").next(),
        Some("clarifier add_observation denied")
    );
}

#[tokio::test]
async fn failed_operation_leaves_a_trace_note_with_its_error_code() {
    let f = fixture();
    let (memory, ada) = (&f.workspace, person());
    let entry = Ref::Id(f.add("x").await.id);
    let patch = |content: &str| ObservationPatch {
        content: Some(content.to_owned()),
        ..ObservationPatch::default()
    };
    let known = |version| Guard {
        expected_version: Some(version),
        ..Guard::default()
    };
    memory.update_observation(&ada, entry, patch("y"), None).await.unwrap();
    drop(
        memory
            .update_observation_under(&ada, entry, patch("z"), known(1))
            .await
            .unwrap_err(),
    );
    drop(
        memory
            .update_observation(&ada, entry, patch(" "), None)
            .await
            .unwrap_err(),
    );
    drop(memory.add_observation(&ada, saying(""), None).await.unwrap_err());
    let odd = input(json!({"content": "x", "type": "No such"}));
    drop(memory.add_observation(&ada, odd, None).await.unwrap_err());
    memory.archive(&ada, entry, None).await.unwrap();
    drop(
        memory
            .update_observation(&ada, entry, patch("z"), None)
            .await
            .unwrap_err(),
    );
    drop(memory.confirm(&ada, entry, Guard::default()).await.unwrap_err());
    drop(
        memory
            .complete(&ada, Ref::Id(EntryId::derived(&["no"])), Guard::default())
            .await
            .unwrap_err(),
    );
    let lines = f.noted().await;
    let told = |line: &TraceEntry| {
        let code = line.detail.as_ref().unwrap()["code"].as_str().unwrap().to_owned();
        assert_eq!(line.status, FAILED);
        (line.operation.clone(), line.entry.is_some(), code)
    };
    let of = |operation: &str, is_there, code: &str| (operation.to_owned(), is_there, code.to_owned());
    assert_eq!(
        lines.iter().map(told).collect::<Vec<_>>(),
        [
            of("update_observation", true, "stale_version"),
            of("update_observation", true, "content_empty"),
            of("add_observation", false, "content_empty"),
            of("add_observation", false, "type_invalid"),
            of("update_observation", true, "archived"),
            of("confirm_observation", true, "archived"),
            of("complete_entry", false, "not_found"),
        ]
    );
}

#[tokio::test]
async fn trace_normalizes_custom_status_and_detail_of_a_note() {
    let f = fixture();
    for (status, detail) in [
        ("waiting", json!("for the store")),
        ("warning", json!([{"code": "odd"}])),
    ] {
        let note = f.workspace.noted("scratch_page", "spool_observations");
        f.workspace.note(note.with_status(status).with_detail(detail));
    }
    let told: Vec<_> = f
        .noted()
        .await
        .into_iter()
        .map(|line| (line.status, line.detail.unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            (
                SUCCESS.to_owned(),
                json!({"text": "for the store", "outcome": "waiting"})
            ),
            (WARNING.to_owned(), json!({"warnings": [{"code": "odd"}]})),
        ]
    );
}

#[tokio::test]
async fn client_may_not_read_the_trace_m7_10() {
    let f = fixture();
    f.add("x").await;
    let model = f.workspace.asked_by(&Actor::new(Role::Client, "a_model"));
    let refused = model.trace(TraceQuery::default()).await.unwrap_err();
    assert_eq!(refused.to_string(), "a client may not read the trace; human may");
    let lines = f.noted().await;
    assert_eq!(
        (lines[0].operation.as_str(), lines[0].status.as_str()),
        ("read_trace", DENIED)
    );
}

#[tokio::test]
async fn secrets_in_trace_notes_are_redacted() {
    let f = fixture();
    let secret = "ghp_012345678901234567890123456789012345";
    let query = EntryQuery {
        types: vec![secret.to_owned()],
        ..EntryQuery::default()
    };
    f.workspace.observations(query).await.unwrap();
    f.workspace
        .note(f.workspace.noted("router", "route").with_detail(secret));
    let said = f.noted().await.iter().map(brief).collect::<String>();
    assert!(!said.contains(secret) && said.contains("[redacted:"), "{said}");
}

#[tokio::test]
async fn trace_filters_apply_to_both_log_and_notes() {
    let f = fixture();
    let turn = TurnId::derived(&["t"]);
    let tool = Actor {
        turn: Some(turn),
        run: Some(RunId::derived(&["r"])),
        ..Actor::new(Role::Tool, "wine_search")
    };
    let entry = f
        .workspace
        .add_observation(&tool, saying("a"), None)
        .await
        .unwrap()
        .entry;
    f.add("b").await;
    f.workspace.entry(Ref::Id(entry.id)).await.unwrap();
    let decision = TraceNote::new(f.workspace.now(), &tool, "router", "route").using([entry.handle]);
    f.workspace.note(decision);
    let of = async |query: TraceQuery| -> Vec<String> {
        let lines = f.workspace.trace(query).await.unwrap();
        lines.into_iter().map(|line| line.operation).collect()
    };
    let turns = TraceQuery {
        turn: Some(turn),
        ..TraceQuery::default()
    };
    assert_eq!(of(turns).await, ["add_page", "add_observation", "route"]);
    let about = TraceQuery {
        entry: Some(Ref::Handle(entry.handle)),
        ..TraceQuery::default()
    };
    assert_eq!(of(about).await, ["add_observation", "get_observation"]);
    let router = TraceQuery {
        component: Some("router".to_owned()),
        ..TraceQuery::default()
    };
    let lines = f.workspace.trace(router).await.unwrap();
    assert_eq!((lines.len(), &lines[0].used), (1, &vec![entry.handle]));
    assert_eq!(lines[0].status, SUCCESS);
}

#[tokio::test(start_paused = true)]
async fn trace_notes_are_flushed_after_a_second_or_when_many() {
    let f = fixture();
    let note = || f.workspace.note(f.workspace.noted("router", "route"));
    note();
    assert_eq!(f.workspace.notes_state().waiting, 1);
    tokio::time::sleep(Duration::from_millis(1_001)).await;
    assert_eq!(f.workspace.notes_state().waiting, 0);
    (0..600).for_each(|_| note());
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(f.workspace.notes_state().waiting, 0, "many do not wait for a second");
}

#[test]
fn notes_whose_runtime_has_ended_are_written_on_the_next_one() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap()
    };
    let f = fixture();
    let note = || f.workspace.note(f.workspace.noted("router", "route"));
    runtime().block_on(async { note() });
    assert_eq!(f.workspace.notes_state().waiting, 1);
    runtime().block_on(async {
        note();
        tokio::time::sleep(Duration::from_millis(1_001)).await;
        assert_eq!(f.workspace.notes_state().waiting, 0);
    });
}
