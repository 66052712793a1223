//! Answers and queries of tools, through the program.

use serde_json::{Value, json};

use crate::support::Folio;
use crate::support::served::Served;

const ANSWER: &str = r#"{"request_id": "req_1", "status": "ok", "outputs": {"found": 3}, "unknown": {"is": "left alone"},
    "observations": [{"type": "contextual_insight", "content": "likes Burgundy", "tags": "wine", "confidence": 7},
                     {"type": "risk_alert", "content": "undeclared"}, {"content": ""}]}"#;
const TURN: &str = "turn_01JBEXAMP1E0000000000000T1";

#[test]
fn tool_answer_is_ingested_item_by_item() {
    let folio = Folio::new();
    folio.file("answer.json", ANSWER);
    let call = ["tool", "ingest", "answer.json", "--tool", "wine_search", "--turn", TURN];
    let answer = folio.json(&call);
    assert_eq!(answer["stored"][0]["content"], "likes Burgundy");
    assert_eq!(answer["stored"][0]["source"]["tool"], "wine_search");
    assert_eq!(answer["stored"][0]["source"]["channel"], "observations");
    let rejected: Vec<_> = answer["rejected"].as_array().unwrap().iter().collect();
    assert_eq!(
        (&rejected[0]["index"], &rejected[0]["code"]),
        (&json!(1), &json!("type_undeclared"))
    );
    // The command names the tool, so that it can be used as it is.
    let message = rejected[0]["message"].as_str().unwrap();
    assert!(
        message.contains("`folio policy set manifests.wine_search.observes='["),
        "{message}"
    );
    assert_eq!(
        (&rejected[1]["channel"], &rejected[1]["code"]),
        (&json!("observations"), &json!("content_empty"))
    );
    let warning = &answer["warnings"][0];
    assert_eq!(
        (&warning["index"], &warning["code"]),
        (&json!(0), &json!("confidence_clamped"))
    );
    assert_eq!((&warning["given"], &warning["used"]), (&json!(7), &json!(1)));
    assert_eq!(folio.json(&call)["replayed"], 1, "the same answer is stored once");
    assert_eq!(folio.json(&["observe", "list"])["total"], 1);
}

#[test]
fn tool_answer_in_an_ended_turn_is_told_that_it_is_not_in_the_export_m7_6_47() {
    let folio = Folio::new();
    folio.file("answer.json", ANSWER);
    let turn = folio.json(&["turn", "begin", "--input", "look"]);
    let ingest = |turn: &str| folio.call(&["tool", "ingest", "answer.json", "--tool", "wine_search", "--turn", turn]);
    assert!(!ingest("t1").stderr.contains("has ended"));
    folio.ok(&["turn", "end", "t1"]);
    for name in ["t1", turn["turn_id"].as_str().unwrap()] {
        let told = ingest(name).stderr;
        assert!(
            told.contains("t1 has ended; its export will not include this command"),
            "{told}"
        );
    }
}

#[test]
fn tool_answer_waits_in_the_outbox_while_the_store_cannot_be_opened_m7_3_26() {
    let folio = Folio::new();
    folio.file("answer.json", ANSWER);
    // A folder stands where the file should be.
    let store = folio.path().join("shared.db");
    std::fs::create_dir(&store).unwrap();
    let url = format!("sqlite:{}", store.display());
    let ingest = |file: &str| {
        folio.call(&[
            "--store",
            &url,
            "--json",
            "tool",
            "ingest",
            file,
            "--tool",
            "wine_search",
        ])
    };
    let kept = ingest("answer.json");
    assert_eq!(kept.code, 0, "{}", kept.stderr);
    let told: Value = serde_json::from_str(&kept.stdout).unwrap();
    assert_eq!((&told["spooled"], &told["stored"]), (&json!(1), &json!([])), "{told}");
    std::fs::remove_dir(&store).unwrap();
    folio.file(
        "next.json",
        r#"{"request_id": "req_2", "status": "ok", "observations": [{"content": "later"}]}"#,
    );
    assert_eq!(ingest("next.json").code, 0);
    let list = folio.json(&["--store", &url, "observe", "list"]);
    assert_eq!(list["total"], 2, "{list}");
}

#[test]
fn server_delivers_what_waits_in_the_outbox_without_another_answer_m7_3_26() {
    let folio = Folio::new();
    folio.file("answer.json", ANSWER);
    // A folder stands where the file should be.
    let store = folio.path().join("shared.db");
    std::fs::create_dir(&store).unwrap();
    let url = format!("sqlite:{}", store.display());
    let ingest = ["tool", "ingest", "answer.json", "--tool", "wine_search"];
    folio.ok(&[&["--store", &url], &ingest[..]].concat());
    std::fs::remove_dir(&store).unwrap();
    let _server = Served::of(folio.process(&["--store", &url, "serve", "--listen", "127.0.0.1:0"]));
    let list = folio.until(&["--store", &url, "observe", "list"], |list| list["total"] == 1);
    assert_eq!(list["items"][0]["content"], "likes Burgundy", "{list}");
}

#[test]
fn tool_context_returns_matches_and_refuses_unknown_filters() {
    let folio = Folio::new();
    folio.ok(&[
        "observe",
        "add",
        "User prefers Burgundy wines",
        "--tag",
        "wine",
        "--confidence",
        "0.9",
    ]);
    let ask = |query: Value| {
        let request =
            json!({"request_id": "r", "tool_id": "wine_recommender", "inputs": {}, "scratch_page_query": query});
        folio.file("request.json", request.to_string());
        folio.call(&["tool", "context", "request.json", "--json"])
    };
    let answer: Value =
        serde_json::from_str(&ask(json!({"filters": {"tags": ["wine"], "owner": "agent"}})).stdout).unwrap();
    assert_eq!(
        answer["scratch_page_context"][0]["content"],
        "User prefers Burgundy wines"
    );
    assert_eq!(answer["scratch_page_context"][0]["confidence"], 0.9);
    let wrong = ask(json!({"filters": {"tgas": ["wine"]}}));
    assert_eq!((wrong.code, wrong.stdout.as_str()), (2, ""));
    assert!(wrong.stderr.contains("filter_unknown"), "{}", wrong.stderr);
    folio.file("request.json", "not json");
    assert_eq!(folio.call(&["tool", "context", "request.json"]).code, 2);
    assert_eq!(folio.call(&["tool", "ingest", "nowhere.json"]).code, 3);
}

#[test]
fn trace_of_a_turn_includes_rejected_observations() {
    let folio = Folio::new();
    folio.file("answer.json", ANSWER);
    folio.ok(&["tool", "ingest", "answer.json", "--tool", "wine_search", "--turn", TURN]);
    let lines = folio.json(&["trace", "--turn", TURN]);
    let lines = lines["items"].as_array().unwrap();
    let of = |status: &str| lines.iter().filter(|line| line["status"] == status).count();
    assert_eq!((of("rejected"), of("warning")), (2, 1));
    let added = lines
        .iter()
        .find(|line| line["operation"] == "add_observation")
        .unwrap();
    for name in [
        "timestamp",
        "component",
        "operation",
        "observation_id",
        "observation_type",
        "source",
        "status",
        "turn_id",
        "run_id",
        "node_id",
        "seq",
        "duration_us",
        "detail",
    ] {
        assert!(added.get(name).is_some(), "{name}");
    }
    let text = folio.ok(&["trace", "--turn", TURN]);
    assert!(text.lines().next().unwrap().starts_with(TURN), "{text}");
    assert!(
        text.contains("scratch_page add_observation contextual_insight by wine_search"),
        "{text}"
    );
    assert!(text.contains("rejected") && text.contains("type_undeclared"), "{text}");
    assert!(
        folio
            .ok(&["trace", "--turn", "turn_01JBEXAMP1E0000000000000T2"])
            .starts_with("nothing is known")
    );
}

/// The lines of the trace for people, without times.
fn trace_lines(folio: &Folio, component: &str) -> Vec<String> {
    let text = folio.ok(&["trace", "--component", component]);
    let lines = text.lines().filter(|line| line.contains(" ms"));
    lines
        .map(|line| {
            let (begins, _) = line.split_once("  ").unwrap();
            let (_, ends) = line.split_once(" ms").unwrap();
            format!("{begins}{ends}")
        })
        .collect()
}

#[test]
fn trace_summarizes_queries_and_views_with_their_commit() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "likes Burgundy", "--tag", "wine"]);
    folio.ok(&["book", "add", "note", "Open the door", "--body", &"long ".repeat(200)]);
    folio.ok(&["observe", "list", "--tag", "wine", "--limit", "7"]);
    folio.ok(&["book", "view", "--budget", "90"]);
    assert_eq!(
        trace_lines(&folio, "scratch_page"),
        ["#2: 1 of 1, where kinds=observation limit=7 tags=wine"]
    );
    let views = trace_lines(&folio, "scratchbook");
    let view = &views[0];
    assert!(view.starts_with("#2 using e1: "), "{view}");
    assert!(view.contains(" of 90 tokens: observations "), "{view}");
    assert!(view.ends_with("; 1 left out"), "{view}");
}

#[test]
fn list_query_is_recorded_in_the_trace() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "likes Burgundy", "--tag", "wine"]);
    folio.ok(&["observe", "list", "--tag", "wine"]);
    let lines = folio.json(&["trace", "--component", "scratch_page"]);
    let last = lines["items"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["operation"], &last["detail"]["returned"]),
        (&json!("list_observations"), &json!(1))
    );
    assert!(last["duration_us"].as_u64().unwrap() > 0);
}

/// Calls the program with a limit of 36 KiB per file, which looks like a full disk to it.
#[cfg(unix)]
fn on_a_full_disk(folio: &Folio, arguments: &[&str]) -> crate::support::Called {
    let mut command = std::process::Command::new("bash");
    command.args(["-c", "trap '' XFSZ; ulimit -f 36; exec \"$0\" \"$@\""]);
    command.arg(assert_cmd::cargo::cargo_bin!("folio")).args(arguments);
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", folio.path().join("home"))
        .current_dir(folio.path());
    crate::support::Called::of(command.output().unwrap())
}

#[cfg(unix)]
#[test]
fn tool_answer_during_a_full_disk_is_delivered_once() {
    let folio = Folio::new();
    let call = |request: &str, content: &str| {
        let observations = if content.is_empty() {
            json!([])
        } else {
            json!([{"content": content}])
        };
        let name = format!("{request}.json");
        folio.file(
            &name,
            json!({"request_id": request, "observations": observations}).to_string(),
        );
        name
    };
    folio.ok(&["observe", "add", "before", "--store", "sqlite:f.db"]);
    let kept = call("r1", &"kept ".repeat(5_000));
    let ingest = [
        "tool",
        "ingest",
        &kept,
        "--tool",
        "t",
        "--turn",
        TURN,
        "--store",
        "sqlite:f.db",
        "--json",
    ];
    let called = on_a_full_disk(&folio, &ingest);
    assert_eq!(called.code, 0, "{}", called.stderr);
    let answer: Value = serde_json::from_str(&called.stdout).unwrap();
    assert_eq!(
        (&answer["spooled"], &answer["stored"]),
        (&json!(1), &json!([])),
        "{answer}"
    );
    let outbox = folio.path().join("f.db-outbox.jsonl");
    assert!(std::fs::metadata(&outbox).unwrap().len() > 0);
    for request in ["r2", "r3"] {
        let nothing = call(request, "");
        folio.ok(&[
            "tool",
            "ingest",
            &nothing,
            "--tool",
            "t",
            "--turn",
            TURN,
            "--store",
            "sqlite:f.db",
        ]);
        assert_eq!(folio.json(&["observe", "list", "--store", "sqlite:f.db"])["total"], 2);
    }
    assert_eq!(std::fs::metadata(&outbox).unwrap().len(), 0);
    assert_eq!(folio.json(&["doctor", "--store", "sqlite:f.db"])["problems"], json!([]));
}

#[cfg(unix)]
#[test]
fn forget_counts_and_removes_matching_outbox_items_m7_6_50() {
    let folio = Folio::new();
    let observations = json!([{"content": "kept ".repeat(3_000)}, {"content": "the old mill ".repeat(1_200)}]);
    let answer = json!({"request_id": "r1", "observations": observations});
    folio.file("r1.json", answer.to_string());
    folio.ok(&["observe", "add", "before", "--store", "sqlite:f.db"]);
    let ingest = [
        "tool",
        "ingest",
        "r1.json",
        "--tool",
        "t",
        "--turn",
        TURN,
        "--store",
        "sqlite:f.db",
    ];
    assert_eq!(on_a_full_disk(&folio, &ingest).code, 0);
    let forget = |how: &str| {
        let answer = folio.json(&["forget", "--text", "old mill", how, "--store", "sqlite:f.db"]);
        (answer["waiting"].clone(), answer["forgotten"].clone())
    };
    assert_eq!(forget("--dry-run"), (json!(1), json!([])));
    assert_eq!(forget("--yes"), (json!(1), json!([])));
    assert_eq!(forget("--yes"), (json!(0), json!([])));
    let outbox = std::fs::read_to_string(folio.path().join("f.db-outbox.jsonl")).unwrap();
    assert!(outbox.contains("kept") && !outbox.contains("mill"));
}
