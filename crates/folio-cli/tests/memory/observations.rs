//! Observations, spaces and the trace, as a person and as a program see them.

use crate::support::{Folio, session};
use insta::assert_snapshot;
use serde_json::{Value, json};

#[test]
fn observation_is_added_shown_updated_and_archived() {
    let seen = session(
        &Folio::new(),
        &[
            "observe add 'likes Burgundy' --type contextual_insight --tag wine --confidence high --context goal_id=g1",
            "observe get e1",
            "observe update e1 --status resolved --confidence 0.5",
            "observe update e1 --title x --expected-version 1",
            "observe archive e1 --reason 'old news'",
            "observe list",
            "observe list --status archived",
            "observe update e1 --status active",
            "observe get e2",
        ],
    );
    assert_snapshot!(seen, @r#"
    $ folio observe add 'likes Burgundy' --type contextual_insight --tag wine --confidence high --context goal_id=g1
    e1 [contextual_insight/active 0.9] likes Burgundy #wine
    $ folio observe get e1
    handle      e1 obs_ID
    type        contextual_insight
    status      active (live)
    confidence  0.9
    owner       agent
    tags        wine
    expires     TIME
    created     TIME
    updated     TIME (version 1)
    source      user
    context     {"goal_id":"g1"}

    likes Burgundy
    $ folio observe update e1 --status resolved --confidence 0.5
    e1 [contextual_insight/resolved 0.5] likes Burgundy #wine
    $ folio observe update e1 --title x --expected-version 1
    ! error[stale_version]: cannot change e1: it is at version 2, not 1
    !   hint: read its current state, then decide again
    = 4
    $ folio observe archive e1 --reason 'old news'
    e1 [contextual_insight/archived 0.5] likes Burgundy #wine
    $ folio observe list
    ! no observation matches
    $ folio observe list --status archived
    e1 [contextual_insight/archived 0.5] likes Burgundy #wine
    $ folio observe update e1 --status active
    ! error[archived]: status: e1 is archived, which is final; add a new observation
    = 4
    $ folio observe get e2
    ! error[not_found]: there is no entry e2 in this space
    = 3
    "#);
}

#[test]
fn invalid_observation_values_are_corrected_with_a_warning_or_refused() {
    let seen = session(
        &Folio::new(),
        &[
            "observe add x --confidence 1.4 --ttl-minutes -3",
            "observe add x --type weather",
            "observe add x --ttl-minutes 0",
            "observe add x --confidence perhaps",
            "observe add x --type 'No Such'",
            "observe add x --tag sys:mine",
            "observe add ''",
            "observe list",
        ],
    );
    assert_snapshot!(seen, @r#"
    $ folio observe add x --confidence 1.4 --ttl-minutes -3
    e1 [observation/active 1] x
    ! warning: confidence must be a number from 0 to 1; write 1.4 percent as 0.014 (given 1.4, used 1) [confidence_clamped]
    ! warning: ttl_minutes must be a number from 0 to 525600; the default of the type is used (given -3, used 10080) [ttl_invalid]
    $ folio observe add x --type weather
    e2 [weather/active 0.5] x
    ! warning: the type was not registered; it is now, as an observation (given weather, used observation) [type_unknown]
    $ folio observe add x --ttl-minutes 0
    e3 [observation/active, expired 0.5] x
    $ folio observe add x --confidence perhaps
    ! error[confidence_invalid]: confidence: "perhaps" is not a number from 0 to 1, low, medium or high
    = 2
    $ folio observe add x --type 'No Such'
    ! error[type_invalid]: type: "No Such" is not a type name: a-z, 0-9 and _, beginning with a letter
    = 2
    $ folio observe add x --tag sys:mine
    ! error[tag_invalid]: tags: the tag "sys:mine" begins with the reserved sys:
    = 2
    $ folio observe add ''
    ! error[content_empty]: content: is empty
    = 2
    $ folio observe list
    e2 [weather/active 0.5] x
    e1 [observation/active 1] x
    "#);
}

#[test]
fn observation_lists_are_filtered_and_paged() {
    let folio = Folio::new();
    for (n, kind) in ["observation", "risk_alert", "observation", "pending_confirmation"]
        .iter()
        .enumerate()
    {
        folio.ok(&[
            "observe",
            "add",
            &format!("n{n}"),
            "--type",
            kind,
            "--tag",
            if n % 2 == 0 { "even" } else { "odd" },
        ]);
    }
    let seen = session(
        &folio,
        &[
            "observe list --tag even",
            "observe list --tag even --tag odd",
            "observe list --tag-any even --tag-any odd --type risk_alert",
            "observe list --tag-none even --order oldest",
            "observe list --status nonsense",
            "observe active --limit 3",
        ],
    );
    assert_snapshot!(seen, @r#"
    $ folio observe list --tag even
    e3 [observation/active 0.5] n2 #even
    e1 [observation/active 0.5] n0 #even
    $ folio observe list --tag even --tag odd
    ! no observation matches
    $ folio observe list --tag-any even --tag-any odd --type risk_alert
    e2 [risk_alert/active 0.5] n1 #odd
    $ folio observe list --tag-none even --order oldest
    e2 [risk_alert/active 0.5] n1 #odd
    e4 [pending_confirmation/active 0.5] n3 #odd
    $ folio observe list --status nonsense
    ! no observation can have the status "nonsense"
    ! no observation matches
    $ folio observe active --limit 3
    e2 [risk_alert/active 0.5] n1 #odd
    e4 [pending_confirmation/active 0.5] n3 #odd
    e3 [observation/active 0.5] n2 #even
    ! 3 of 4; --limit shows more
    "#);
    let first = folio.json(&["observe", "list", "--limit", "3"]);
    assert_eq!(
        (first["returned"].as_u64(), first["total"].as_u64()),
        (Some(3), Some(4))
    );
    let rest = folio.json(&[
        "observe",
        "list",
        "--limit",
        "3",
        "--cursor",
        first["next"].as_str().unwrap(),
    ]);
    assert_eq!(handles(&rest), ["e1"]);
    assert_eq!(rest["next"], Value::Null);
}

fn handles(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["handle"].as_str().unwrap())
        .collect()
}

#[test]
fn observation_json_has_the_shape_of_seed_002() {
    let folio = Folio::new();
    folio.ok(&[
        "observe",
        "add",
        "x",
        "--ttl-minutes",
        "1440",
        "--metadata",
        "n=1",
        "--context",
        "goal_id=g1",
    ]);
    let mut seen = folio.json(&["observe", "get", "e1"]);
    for accident in ["observation_id", "created_at", "updated_at", "expires_at"] {
        assert!(seen[accident].is_string(), "{accident}");
        seen.as_object_mut().unwrap().remove(accident);
    }
    seen["source"].as_object_mut().unwrap().remove("timestamp");
    let wanted = json!({
        "handle": "e1", "type": "observation", "content": "x", "confidence": 0.5, "tags": [],
        "source": {"tool": null, "turn_id": null}, "context": {"goal_id": "g1"}, "metadata": {"n": 1},
        "ttl_minutes": 1440.0, "status": "active", "state": "live", "owner": "agent", "trust": "user", "version": 1,
    });
    assert_eq!(seen, wanted);
}

#[test]
fn observation_is_found_by_id_with_or_without_its_prefix() {
    let folio = Folio::new();
    let id = folio.json(&["observe", "add", "x"])["observation_id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(folio.json(&["observe", "get", &id])["handle"], "e1");
    assert_eq!(folio.json(&["observe", "get", &id["obs_".len()..]])["handle"], "e1");
}

#[test]
fn same_idempotency_key_adds_an_observation_once() {
    let folio = Folio::new();
    let add = ["observe", "add", "x", "--idempotency-key", "k"];
    assert_eq!(folio.json(&add)["replayed"], Value::Null);
    assert_eq!(folio.json(&add)["replayed"], true);
    assert_eq!(folio.json(&["observe", "list"])["total"], 1);
}

#[test]
fn idempotency_key_is_scoped_by_caller_and_not_stored_m7_6_48() {
    let folio = Folio::new();
    let key = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let of = |more: &[&str], command: &[&str]| {
        let keyed = ["--idempotency-key", key.as_str()];
        folio.json(&[&["--store", "sqlite:f.db"], more, command, &keyed].concat())
    };
    let add = ["observe", "add", "x"];
    let others: [(&[&str], &[&str]); 4] = [
        (&[], &add),
        (&["--thread", "b"], &add),
        (&["--role", "client"], &add),
        (&[], &["book", "add", "note", "x"]),
    ];
    for (more, command) in others {
        assert_eq!(of(more, command)["replayed"], Value::Null, "{more:?} {command:?}");
        assert_eq!(of(more, command)["replayed"], true, "{more:?} {command:?}");
    }
    let mut kept = Vec::new();
    for file in ["f.db", "f.db-wal"] {
        kept.extend(std::fs::read(folio.path().join(file)).unwrap_or_default());
    }
    let is_there = |text: &str| kept.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(is_there("cli:") && !is_there(&key));
    let empty = folio.call(&["--store", "sqlite:f.db", "observe", "add", "x", "--idempotency-key", ""]);
    assert_eq!(empty.code, 2, "{}", empty.stderr);
    assert!(empty.stderr.contains("'--idempotency-key <KEY>'"), "{}", empty.stderr);
}

#[test]
fn observation_text_is_read_from_stdin_byte_for_byte() {
    let folio = Folio::new();
    let text = "  two\n\nlines \u{1f600}\n";
    folio
        .command(&["observe", "add", "-"])
        .write_stdin(text)
        .assert()
        .success();
    assert_eq!(folio.json(&["observe", "get", "e1"])["content"], text);
    let output = folio
        .command(&["observe", "add", "-"])
        .write_stdin(b"\xff".as_slice())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("is not valid UTF-8 (byte 0)"), "{told}");
    assert_eq!(folio.json(&["observe", "list"])["total"], 1);
}

#[test]
fn secret_in_an_observation_is_redacted_in_the_store() {
    let folio = Folio::new();
    let token = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let called = folio.call(&["observe", "add", &format!("use {token}")]);
    assert!(
        called.stdout.contains("use [redacted:github_token]"),
        "{}",
        called.stdout
    );
    assert!(called.stderr.contains("[secret_redacted]"), "{}", called.stderr);
    let mut kept = Vec::new();
    for file in std::fs::read_dir(folio.path().join("home/.local/share/folio")).unwrap() {
        kept.extend(std::fs::read(file.unwrap().path()).unwrap());
    }
    assert!(!kept.is_empty());
    assert!(!kept.windows(token.len()).any(|window| window == token.as_bytes()));
}

#[test]
fn empty_filter_value_is_refused_m7_2_12() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "x", "--tag", "a"]);
    for (list, option) in [
        (&["observe", "list"][..], "--tag"),
        (&["observe", "list"], "--tag-any"),
        (&["observe", "list"], "--tag-none"),
        (&["observe", "list"], "--type"),
        (&["observe", "list"], "--status"),
        (&["observe", "list"], "--owner"),
        (&["observe", "list"], "--text"),
        (&["book", "list"], "--tag"),
        (&["search", "x"], "--tag"),
        (&["search", "x"], "--type"),
    ] {
        let refused = folio.call(&[list, &[option, ""]].concat());
        assert_eq!(refused.code, 2, "{list:?} {option}");
        assert!(
            refused.stderr.contains(&format!("for '{option} <")),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn trace_lists_changes_in_order() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "x", "--type", "risk_alert"]);
    folio.ok(&["observe", "archive", "e1", "--reason", "false alarm"]);
    folio.ok(&["book", "add", "todo", "y"]);
    assert_snapshot!(session(&folio, &["trace", "trace --since 1 --limit 1", "trace --run r1"]), @r#"
    $ folio trace
    #1     TIME page         add_page by human: scratch_page "Scratch page"
    #1     TIME scratch_page add_observation risk_alert by human: x (confidence=0.5)
    #2     TIME scratch_page archive_observation risk_alert by human: false alarm
    #3     TIME page         add_page by human: scratchbook "Scratchbook of main"
    #3     TIME scratchbook  add_item todo by human: y
    $ folio trace --since 1 --limit 1
    #2     TIME scratch_page archive_observation risk_alert by human: false alarm
    ! 1 of more than 1; continue with --cursor CURSOR
    $ folio trace --run r1
    ! error[not_found]: there is no run r1 in this space
    = 3
    "#);
    let trace = folio.json(&["trace", "--limit", "1000"]);
    let line = &trace["items"][1];
    for field in [
        "timestamp",
        "component",
        "operation",
        "observation_id",
        "observation_type",
        "source",
        "status",
    ] {
        assert!(line[field].is_string(), "{field} of seed 004");
    }
    assert_eq!(
        (&line["operation"], &line["seq"]),
        (&json!("add_observation"), &json!(1))
    );
}

#[test]
fn observations_of_one_space_are_invisible_in_another() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "mine", "--space", "one"]);
    assert_eq!(folio.json(&["observe", "list", "--space", "two"])["total"], 0);
    assert_eq!(folio.call(&["observe", "get", "e1", "--space", "two"]).code, 3);
    let id = folio.json(&["observe", "get", "e1", "--space", "one"])["observation_id"].clone();
    assert_eq!(
        folio
            .call(&["observe", "get", id.as_str().unwrap(), "--space", "two"])
            .code,
        3
    );
}
