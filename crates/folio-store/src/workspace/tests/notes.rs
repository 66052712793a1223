use folio_memory::trace::{DENIED, SUCCESS, WARNING};
use folio_memory::{RunId, TraceNote, TurnId};

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
async fn a_query_is_noted_with_its_filters_and_what_it_found_m7_10() {
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
async fn what_was_put_right_is_noted_with_the_given_and_the_used_value_m7_1_4() {
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
        Some(json!([
            {"code": "confidence_clamped", "given": 7, "used": 1},
            {"code": "ttl_invalid", "given": -5, "used": 10_080},
        ]))
    );
}

#[tokio::test]
async fn a_denial_is_noted() {
    let f = fixture();
    let entry = f.add("x").await;
    let tool = Actor::new(Role::Tool, "wine_search");
    f.workspace.archive(&tool, Ref::Id(entry.id), None).await.unwrap_err();
    let lines = f.noted().await;
    assert_eq!(
        (lines[0].status.as_str(), lines[0].source.as_str(), lines[0].entry),
        (DENIED, "wine_search", Some(entry.id))
    );
}

#[tokio::test]
async fn a_model_does_not_read_the_trace_m7_10() {
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
async fn secrets_do_not_reach_the_trace() {
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
async fn the_trace_is_filtered_by_turn_entry_and_component_from_both_sources() {
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
async fn notes_are_written_after_a_second_or_when_there_are_many_and_nobody_waits() {
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
