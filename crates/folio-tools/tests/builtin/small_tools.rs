//! `observe`, `page_append`, `result_read` and `wait`.

use std::sync::Arc;
use std::time::Duration;

use crate::support::World;
use async_trait::async_trait;
use folio_memory::PageId;
use folio_tools::{FailureKind, PageTarget, ResultSource};
use serde_json::json;

#[tokio::test]
async fn observe_proposes_a_single_observation_with_its_fields() {
    let world = World::new();
    let response = world
        .call(
            "observe",
            json!({"content": "it rains", "tags": "weather", "confidence": "0.9", "ttl_minutes": 5}),
        )
        .await;
    assert_eq!(
        response.observations,
        [
            json!({"type": "contextual_insight", "content": "it rains", "tags": ["weather"], "confidence": 0.9, "ttl_minutes": 5})
        ]
    );
    assert_eq!(response.outputs, json!({"count": 1}));
}

#[tokio::test]
async fn observe_items_inherit_shared_fields() {
    let world = World::new();
    let response = world
        .call(
            "observe",
            json!({"type": "alert", "tags": ["a"], "items": ["one", {"content": "two", "tags": ["b"], "confidence": null}]}),
        )
        .await;
    assert_eq!(
        response.observations,
        [
            json!({"type": "alert", "tags": ["a"], "content": "one"}),
            json!({"type": "alert", "tags": ["b"], "content": "two"}),
        ]
    );
    assert_eq!(world.outputs("observe", json!({"items": []})).await["count"], 0);
}

#[tokio::test]
async fn observe_refuses_items_without_content() {
    let world = World::new();
    for (args, message) in [
        (json!({}), "observe: one of `content` or `items` has to be given"),
        (
            json!({"items": ["x", {"content": " "}]}),
            "observe: item 2 has no `content`",
        ),
        (
            json!({"items": [3]}),
            "observe: item 1 is an object or a string, not a number",
        ),
        (
            json!({"content": "x", "items": []}),
            "observe: only one of `content` or `items` can be given",
        ),
    ] {
        assert_eq!(world.error("observe", args).await.message, message);
    }
}

#[tokio::test]
async fn page_append_resolves_its_target_page() {
    let world = World::new();
    let id = PageId::derived(&["one"]).to_string();
    for (page, target) in [
        (json!(null), PageTarget::OwnBranch),
        (json!("own"), PageTarget::OwnBranch),
        (json!("main"), PageTarget::Main),
        (json!("p7"), PageTarget::Handle("p7".to_owned())),
        (json!("#p7"), PageTarget::Handle("p7".to_owned())),
        (json!(id), PageTarget::Handle(id.clone())),
        (
            json!("page_of_contents"),
            PageTarget::Titled("page_of_contents".to_owned()),
        ),
        (json!("Risks"), PageTarget::Titled("Risks".to_owned())),
        (json!("plan"), PageTarget::Titled("plan".to_owned())),
    ] {
        let response = world
            .call(
                "page_append",
                json!({"page": page, "title": "a\n b", "body": "text", "tags": ["x"]}),
            )
            .await;
        let append = &response.page_appends[0];
        assert_eq!(
            (&append.page, append.title.as_str(), append.body.as_str()),
            (&target, "a b", "text")
        );
    }
    assert_eq!(
        world.error("page_append", json!({"body": " "})).await.kind,
        FailureKind::InvalidArgs
    );
}

#[derive(Debug)]
struct Results(Vec<u8>);

#[async_trait]
impl ResultSource for Results {
    async fn read(&self, node: &str) -> Result<Vec<u8>, String> {
        match node {
            "scan" => Ok(self.0.clone()),
            other => Err(format!("there is no result of {other}: there is one of scan")),
        }
    }
}

fn world_with(result: impl Into<Vec<u8>>) -> World {
    let mut world = World::new();
    world.context.results = Arc::new(Results(result.into()));
    world
}

#[tokio::test]
async fn result_read_selects_by_bytes_lines_or_search() {
    let world = world_with("one\ntwo ä\nthree\nfour");
    let text = async |args: serde_json::Value| {
        let mut all = json!({"node": "scan"});
        all.as_object_mut().unwrap().extend(args.as_object().unwrap().clone());
        world.outputs("result_read", all).await
    };
    assert_eq!(text(json!({})).await["text"], "one\ntwo ä\nthree\nfour");
    assert_eq!(text(json!({"from": 4, "to": 7})).await["text"], "two");
    assert_eq!(text(json!({"from": 9, "to": 11})).await["text"], "\n");
    assert_eq!(text(json!({"from": 99})).await["text"], "");
    assert_eq!(text(json!({"lines": "2-3"})).await["text"], "two ä\nthree\n");
    assert_eq!(text(json!({"lines": "3-"})).await["text"], "three\nfour");
    assert_eq!(text(json!({"lines": "2"})).await["from_line"], 2);
    assert_eq!(text(json!({"lines": "9"})).await["text"], "");
    let found = text(json!({"search": "T"})).await;
    assert_eq!(
        found["matches"],
        json!([{"line": 2, "text": "two ä"}, {"line": 3, "text": "three"}])
    );
    assert_eq!(text(json!({})).await["total_lines"], 4);
}

#[tokio::test]
async fn result_read_next_arguments_page_through_a_large_result_completely() {
    let mut content = String::new();
    for line in 0..500 {
        content.push_str(&format!("line {line} ünïcödé\n"));
    }
    content.push_str(&"日本語".repeat(2_000));
    let world = world_with(content.clone());
    for first in [
        json!({}),
        json!({"lines": "1-"}),
        json!({"from": 0, "to": content.len()}),
    ] {
        let mut args = first;
        args["node"] = json!("scan");
        let mut text = String::new();
        loop {
            args["max_bytes"] = json!(700);
            let response = world.call("result_read", args.clone()).await;
            let part = response.outputs["text"].as_str().unwrap();
            assert!(part.len() <= 700 && !part.is_empty());
            assert_eq!(response.outputs["encoding_lossy"], false);
            text.push_str(part);
            if response.outputs["truncated"] == false {
                break;
            }
            assert!(response.truncated.is_some());
            args = response.outputs["next"].clone();
        }
        assert!(text == content);
    }
}

#[tokio::test]
async fn result_read_counts_lines_within_the_selected_field() {
    let lines: String = (1..=300).map(|line| format!("line {line}\n")).collect();
    let world = world_with(json!({"exit_code": 0, "stdout": lines, "files": [{"path": "a.rs"}]}).to_string());
    let of_stdout = json!({"node": "scan", "field": "stdout", "lines": "100-", "max_bytes": 700});
    let read = world.outputs("result_read", of_stdout).await;
    assert!(read["text"].as_str().unwrap().starts_with("line 100\nline 101\n"));
    assert_eq!(
        (&read["total_lines"], &read["next"]["field"]),
        (&json!(300), &json!("stdout"))
    );
    let more = world.outputs("result_read", read["next"].clone()).await;
    assert_eq!(more["from"], read["to"]);
    let found = world
        .outputs(
            "result_read",
            json!({"node": "scan", "field": "stdout", "search": "line 300"}),
        )
        .await;
    assert_eq!(found["matches"], json!([{"line": 300, "text": "line 300"}]));
    let path = json!({"node": "scan", "field": "files[0].path"});
    assert_eq!(world.outputs("result_read", path).await["text"], "a.rs");
    let error = world
        .error("result_read", json!({"node": "scan", "field": "stdot"}))
        .await;
    insta::assert_snapshot!(error.message, @"there is no field `stdot` in the result: there is `exit_code`, `stdout`, `files`");
}

#[tokio::test]
async fn result_read_explains_unknown_nodes_and_invalid_ranges() {
    let world = world_with("x");
    let error = world.error("result_read", json!({"node": "scam"})).await;
    assert_eq!(
        (error.kind, error.message.as_str()),
        (
            FailureKind::NotFound,
            "there is no result of scam: there is one of scan"
        )
    );
    for wrong in [
        json!({"lines": "b"}),
        json!({"lines": "0"}),
        json!({"lines": "3-2"}),
        json!({"from": 2, "to": 1}),
        json!({"to": 1, "search": "x"}),
        json!({"search": ""}),
    ] {
        let mut args = wrong.clone();
        args["node"] = json!("scan");
        assert_eq!(
            world.error("result_read", args).await.kind,
            FailureKind::InvalidArgs,
            "{wrong}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn wait_sleeps_for_the_given_time_and_can_be_cancelled() {
    let world = World::new();
    let start = tokio::time::Instant::now();
    assert_eq!(world.outputs("wait", json!({"ms": 60_000})).await["waited_ms"], 60_000);
    assert_eq!(start.elapsed(), Duration::from_secs(60));
    assert_eq!(
        world.error("wait", json!({"ms": 60_001})).await.kind,
        FailureKind::InvalidArgs
    );
    let cancel = world.context.cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    });
    assert_eq!(
        world.error("wait", json!({"ms": 50_000})).await.kind,
        FailureKind::Cancelled
    );
    assert_eq!(start.elapsed(), Duration::from_secs(61));
}

#[tokio::test]
async fn observe_refuses_unknown_fields_and_invalid_ttl() {
    let world = World::new();
    for (args, message) in [
        (
            json!({"items": ["good", {"content": "a", "tpye": "risk_alert"}]}),
            "observe: item 2 cannot be read: unknown field `tpye`",
        ),
        (
            json!({"items": [{"content": "a", "ttl_minutes": -5}]}),
            "observe: item 1 `ttl_minutes` is a number from 0 to 525600, not -5",
        ),
        (
            json!({"content": "a", "ttl_minutes": 1_000_000}),
            "observe: `ttl_minutes` is a number from 0 to 525600, not 1000000",
        ),
    ] {
        assert_eq!(world.error("observe", args).await.message, message);
    }
    let taken = json!({"items": [{"content": "a", "ttl_minutes": "never"}, {"content": "b", "title": "B"}]});
    assert_eq!(world.outputs("observe", taken).await["count"], 2);
}
