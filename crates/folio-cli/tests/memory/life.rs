//! What becomes of observations and items, as a person and as a program see it.

use crate::support::{Called, Folio, session};
use insta::assert_snapshot;
use serde_json::{Value, json};

#[test]
fn observation_status_changes_are_recorded_in_its_history_m7_5_39() {
    let seen = session(
        &Folio::new(),
        &[
            "observe add 'the tests need a database' --confidence 0.8",
            "observe confirm e1",
            "observe resolve e1 --confirmed --reason 'it was so'",
            "observe reopen e1",
            "observe reopen e1",
            "observe archive e1",
            "observe reopen e1",
            "observe restore e1",
            "--role tool observe restore e1",
            "observe confirm e1 --expected-version 1",
            "observe archive e1 --expected-version 1",
            "observe resolve e9",
            "observe history e1",
        ],
    );
    assert_snapshot!(seen, @r#"
    $ folio observe add 'the tests need a database' --confidence 0.8
    e1 [observation/active 0.8] the tests need a database
    $ folio observe confirm e1
    e1 [observation/active 0.8] the tests need a database
    $ folio observe resolve e1 --confirmed --reason 'it was so'
    e1 [observation/resolved 0.8] the tests need a database
    $ folio observe reopen e1
    e1 [observation/active 0.8] the tests need a database
    $ folio observe reopen e1
    e1 [observation/active 0.8] the tests need a database
    $ folio observe archive e1
    e1 [observation/archived 0.8] the tests need a database
    $ folio observe reopen e1
    ! error[archived]: status: e1 is archived, which is final; only a person restores it
    = 4
    $ folio observe restore e1
    e1 [observation/active 0.8] the tests need a database
    $ folio --role tool observe restore e1
    ! error[role_denied]: a tool may not restore e1; human may
    = 4
    $ folio observe confirm e1 --expected-version 1
    ! error[stale_version]: cannot change e1: it is at version 6, not 1
    !   hint: read its current state, then decide again
    = 4
    $ folio observe archive e1 --expected-version 1
    ! error[stale_version]: cannot change e1: it is at version 6, not 1
    !   hint: read its current state, then decide again
    = 4
    $ folio observe resolve e9
    ! error[not_found]: there is no entry e9 in this space
    = 3
    $ folio observe history e1
    version 1 add by human #1 TIME
      content: the tests need a database
      confidence: 0.8
      expires_at: TIME
      owner: agent
      source: {"principal":"human"}
      status: active
      trust: user
      type: observation
    version 2 confirm by human #2 TIME
      expires_at: TIME → TIME
      validated_at: nothing → TIME
    version 3 resolve by human #3 TIME (it was so)
      outcome: nothing → confirmed
      status: active → resolved
    version 4 reopen by human #4 TIME
      outcome: confirmed → nothing
      status: resolved → active
    version 5 archive by human #5 TIME
      status: active → archived
    version 6 restore by human #6 TIME
      status: archived → active
    "#);
}

#[test]
fn supersede_skips_observations_at_a_stale_version_m7_4_37() {
    let folio = Folio::new();
    let seen = session(
        &folio,
        &[
            "observe add one",
            "observe add two",
            "observe add three --confidence 0.30000000000000004",
            "observe add all",
            "observe update e2 --title changed",
            "observe supersede e1@1 e2@1 e3 --by e4 --reason 'they say the same'",
            "observe list",
            "search --all one",
            "observe supersede e2@1 --by e4",
            "observe supersede e2@1 e4@9 --by e1",
            "observe supersede e4 --by e1",
            "observe supersede e4 --by e4",
            "observe supersede e2@x --by e4",
            "observe supersede e1 e2 --by e4 --expected-version 1",
        ],
    );
    assert_snapshot!(seen, @r#"
    $ folio observe add one
    e1 [observation/active 0.5] one
    $ folio observe add two
    e2 [observation/active 0.5] two
    $ folio observe add three --confidence 0.30000000000000004
    e3 [observation/active 0.3] three
    $ folio observe add all
    e4 [observation/active 0.5] all
    $ folio observe update e2 --title changed
    e2 [observation/active 0.5] changed — two
    $ folio observe supersede e1@1 e2@1 e3 --by e4 --reason 'they say the same'
    e1 [observation/active, replaced 0.5] one
    e3 [observation/active, replaced 0.3] three
    ! e2 was changed or archived in the meantime; it stays as it is, at version 2
    $ folio observe list
    e4 [observation/active 0.5] all
    e2 [observation/active 0.5] changed — two
    $ folio search --all one
    e1 [observation/active, replaced] one
    $ folio observe supersede e2@1 --by e4
    ! error[stale_version]: cannot change e2: it is at version 2, not 1
    !   hint: read its current state, then decide again
    = 4
    $ folio observe supersede e2@1 e4@9 --by e1
    ! e2 was changed or archived in the meantime; it stays as it is, at version 2
    ! e4 was changed or archived in the meantime; it stays as it is, at version 1
    = 4
    $ folio observe supersede e4 --by e1
    ! error[supersede_cycle]: by: e1 cannot replace e4, which has already replaced it
    = 2
    $ folio observe supersede e4 --by e4
    ! error[supersede_cycle]: by: e4 cannot replace itself
    = 2
    $ folio observe supersede e2@x --by e4
    ! error: invalid value 'e2@x' for '<OBSERVATION>...': "x" is not the number of a version
    ! 
    ! For more information, try '--help'.
    = 2
    $ folio observe supersede e1 e2 --by e4 --expected-version 1
    ! error[usage]: --expected-version is for one observation
    !   hint: for several, write e42@3 for each
    = 2
    "#);
    let told = folio.json(&["observe", "supersede", "e1", "e2@1", "--by", "e4"]);
    let handles = |name: &str| {
        let all = told[name].as_array().unwrap().iter();
        all.map(|one| one["handle"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (handles("superseded"), handles("left")),
        (vec![json!("e1")], vec![json!("e2")])
    );
}

#[test]
fn superseded_observations_get_a_mark_and_stay_in_the_past_m7_11_6() {
    let folio = Folio::new();
    for content in ["it will rain", "it will snow", "it rains"] {
        folio.json(&["observe", "add", content]);
    }
    let then = folio.json(&["observe", "list"])["as_of"].to_string();
    let one = folio.json(&["observe", "supersede", "e1", "--by", "e3", "--confirmed"]);
    assert_eq!(one["outcome"], "confirmed", "{one}");
    let many = folio.json(&["observe", "supersede", "e1", "e2", "--by", "e3", "--refuted"]);
    assert_eq!(many["superseded"][1]["outcome"], "refuted", "{many}");
    assert_eq!(folio.json(&["observe", "list"])["total"], 1);
    assert_eq!(folio.json(&["observe", "list", "--as-of", &then])["total"], 3);
}

#[test]
fn text_is_replaced_and_resolved_observations_are_cleared_m7_4_36_and_5_43() {
    let seen = session(
        &Folio::new(),
        &[
            "observe add 'the tests need a database, and a browser'",
            "observe replace e1 --old ', and a browser' --new ''",
            "observe replace e1 --old browser --new x",
            "observe replace e1 --old e --new x",
            "observe add two",
            "observe resolve e1 e2",
            "--role executor observe clear-resolved",
            "observe clear-resolved --reason 'week is over'",
            "observe clear-resolved",
            "observe list --status archived",
        ],
    );
    assert_snapshot!(seen, @r#"
    $ folio observe add 'the tests need a database, and a browser'
    e1 [observation/active 0.5] the tests need a database, and a browser
    $ folio observe replace e1 --old ', and a browser' --new ''
    e1 [observation/active 0.5] the tests need a database
    $ folio observe replace e1 --old browser --new x
    ! error[text_not_found]: old: the text does not contain it; read the text again, because it may have changed
    = 2
    $ folio observe replace e1 --old e --new x
    ! error[text_not_unique]: old: the text contains it more than once; include more of the surrounding text
    = 2
    $ folio observe add two
    e2 [observation/active 0.5] two
    $ folio observe resolve e1 e2
    e1 [observation/resolved 0.5] the tests need a database
    e2 [observation/resolved 0.5] two
    $ folio --role executor observe clear-resolved
    ! error[role_denied]: an executor may not archive what is resolved; reflector, cleaner, human may
    = 4
    $ folio observe clear-resolved --reason 'week is over'
    archived 2 resolved observations
    $ folio observe clear-resolved
    there are no resolved observations
    $ folio observe list --status archived
    e2 [observation/archived 0.5] two
    e1 [observation/archived 0.5] the tests need a database
    "#);
}

#[test]
fn claim_is_exclusive_until_it_is_released_m7_4_35() {
    let seen = session(
        &Folio::new(),
        &[
            "book add task 'write the tests'",
            "book claim e1 --owner role:planner --lease-minutes 30",
            "book claim e1 --owner role:planner",
            "book claim e1 --owner agent",
            "book release e1 --owner agent",
            "book release e1 --owner role:planner",
            "book complete e1",
            "book claim e1",
            "book reopen e1",
            "book add note 'no work'",
            "book claim e2",
        ],
    );
    assert_snapshot!(seen, @r#"
    $ folio book add task 'write the tests'
    e1 [task/open] write the tests
    $ folio book claim e1 --owner role:planner --lease-minutes 30
    e1 [task/in_progress] write the tests
    ! claimed by role:planner for 30 minutes
    $ folio book claim e1 --owner role:planner
    e1 [task/in_progress] write the tests
    ! claimed by role:planner until it is done or released
    $ folio book claim e1 --owner agent
    ! error[claimed]: e1 is taken by role:planner
    !   hint: take something else; if role:planner is gone, `folio book release e1 --owner role:planner` makes it open again
    = 4
    $ folio book release e1 --owner agent
    ! error[claimed]: e1 is taken by role:planner
    !   hint: take something else; if role:planner is gone, `folio book release e1 --owner role:planner` makes it open again
    = 4
    $ folio book release e1 --owner role:planner
    e1 [task/open] write the tests
    $ folio book complete e1
    e1 [task/done] write the tests (100%)
    $ folio book claim e1
    ! error[not_claimable]: status: e1 is done; only open work can be claimed
    = 2
    $ folio book reopen e1
    e1 [task/open] write the tests
    $ folio book add note 'no work'
    e2 [note/active] no work
    $ folio book claim e2
    ! error[kind_invalid]: kind: e2 is of kind note, which is not work
    = 2
    "#);
}

#[test]
fn callers_with_different_names_do_not_share_a_claim_m7_4_35() {
    let folio = Folio::new();
    folio.ok(&["book", "add", "task", "write the tests"]);
    let call =
        |name: &str, arguments: &[&str]| Called::of(folio.command(arguments).env("FOLIO_USER", name).output().unwrap());
    assert_eq!(call("w1", &["book", "claim", "e1"]).code, 0);
    let second = call("w2", &["book", "claim", "e1"]);
    assert_eq!(second.code, 4, "{second}");
    assert!(second.stderr.contains("e1 is taken by w1"), "{second}");
    assert_eq!(call("w2", &["book", "release", "e1"]).code, 4);
    assert_eq!(call("w1", &["book", "release", "e1"]).code, 0);
    assert_eq!(call("w2", &["book", "claim", "e1"]).code, 0);
}

#[test]
fn overwriting_a_newer_item_revision_reports_a_conflict_m7_4_33() {
    let folio = Folio::new();
    folio.ok(&["book", "add", "todo", "first"]);
    folio.ok(&["book", "update", "e1", "--title", "second"]);
    let third = folio.json(&["book", "update", "e1", "--title", "third", "--base-version", "1"]);
    assert_eq!(
        third["conflicts"],
        json!([{"field": "title", "base_version": 1, "overwrote_version": 2, "theirs": "second", "ours": "third"}])
    );
    assert_eq!(third["warnings"][0]["code"], "conflict");
    let history = folio.json(&["observe", "history", "e1"]);
    assert_eq!(history["items"][2]["conflicts"], third["conflicts"]);
}

#[test]
fn forgetting_an_entry_is_recorded_in_its_history_m7_6_50() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "a secret meeting in the old mill"]);
    folio.ok(&["forget", "e1", "--yes", "--reason", "asked for"]);
    let history = folio.json(&["observe", "history", "e1"]);
    let operations: Vec<&Value> = history["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["operation"])
        .collect();
    assert_eq!(operations, ["add", "forget"]);
    assert_eq!(history["items"][1]["reason"], "asked for");
}

#[test]
fn listing_records_the_expiry_of_an_observation_m7_1_8() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "soon over", "--ttl-minutes", "0.0001"]);
    folio.until(&["observe", "list"], |list| list["total"] == 0);
    let history = folio.json(&["observe", "history", "e1"]);
    let last = history["items"].as_array().unwrap().last().unwrap();
    assert_eq!(last["operation"], "expire");
    assert_eq!(last["changes"][0]["field"], "expired_at");
}

#[test]
fn wrong_kind_error_suggests_the_right_command() {
    let seen = session(
        &Folio::new(),
        &[
            "book add task 'Write the tests' --phase draft --progress 0.2 --body 'All of them.'",
            "observe add 'the tests need a database'",
            "page new Findings",
            "page append p3 'It is old.'",
            "observe get e1",
            "observe update e1 --title x",
            "observe supersede e2 --by e1",
            "observe archive e2 e1",
            "observe get e2",
            "observe get e3",
            "book get e2",
            "book get e3",
            "book get e1",
            "archive e1",
        ],
    );
    assert_snapshot!(seen, @r"
    $ folio book add task 'Write the tests' --phase draft --progress 0.2 --body 'All of them.'
    e1 [task/open] Write the tests (draft, 20%) — All of them.
    $ folio observe add 'the tests need a database'
    e2 [observation/active 0.5] the tests need a database
    $ folio page new Findings
    p3 Findings note open
    $ folio page append p3 'It is old.'
    e3 [log] It is old.
    $ folio observe get e1
    ! error[kind_invalid]: kind: e1 is of kind task; this is for observations
    !   hint: `folio book get e1` shows it, `folio book update e1` changes it, `folio archive e1` archives it
    = 2
    $ folio observe update e1 --title x
    ! error[kind_invalid]: kind: e1 is of kind task; this is for observations
    !   hint: `folio book get e1` shows it, `folio book update e1` changes it, `folio archive e1` archives it
    = 2
    $ folio observe supersede e2 --by e1
    ! error[kind_invalid]: kind: e1 is of kind task; this is for observations
    !   hint: `folio book get e1` shows it, `folio book update e1` changes it, `folio archive e1` archives it
    = 2
    $ folio observe archive e2 e1
    ! error[kind_invalid]: kind: e1 is of kind task; this is for observations
    !   hint: `folio book get e1` shows it, `folio book update e1` changes it, `folio archive e1` archives it
    = 2
    $ folio observe get e2
    handle      e2 obs_ID
    type        observation
    status      active (live)
    confidence  0.5
    owner       agent
    expires     TIME
    created     TIME
    updated     TIME (version 1)
    source      user

    the tests need a database
    $ folio observe get e3
    ! error[kind_invalid]: kind: e3 is of kind log; this is for observations
    !   hint: `folio page show p3` shows its page
    = 2
    $ folio book get e2
    ! error[kind_invalid]: kind: e2 is of kind observation; this is for notes, todos and tasks
    !   hint: `folio observe get e2` shows it
    = 2
    $ folio book get e3
    ! error[kind_invalid]: kind: e3 is of kind log; this is for notes, todos and tasks
    !   hint: `folio page show p3` shows its page
    = 2
    $ folio book get e1
    handle      e1 obs_ID
    kind        task
    status      open
    phase       draft
    progress    20%
    created     TIME
    updated     TIME (version 1)

    Write the tests

    All of them.
    $ folio archive e1
    e1 [task/archived] Write the tests (draft, 20%) — All of them.
    ");
}

#[test]
fn archive_and_restore_json_has_the_shape_of_each_kind() {
    let folio = Folio::new();
    folio.ok(&["book", "add", "task", "Write the tests"]);
    folio.ok(&["observe", "add", "a tool is slow"]);
    let archived = folio.json(&["archive", "e1", "e2"]);
    let of_task = &archived[0];
    assert_eq!(
        (&of_task["kind"], &of_task["status"]),
        (&json!("task"), &json!("archived"))
    );
    assert!(
        of_task["item_id"].is_string() && of_task["confidence"].is_null(),
        "{of_task}"
    );
    assert!(archived[1]["observation_id"].is_string(), "{archived}");
    let restored = folio.json(&["observe", "restore", "e1"]);
    assert_eq!(
        (&restored["kind"], &restored["status"]),
        (&json!("task"), &json!("open"))
    );
}

#[test]
fn unknown_entry_in_a_batch_leaves_the_others_unchanged() {
    let folio = Folio::new();
    folio.ok(&["book", "add", "todo", "Write the tests"]);
    let before = folio.json(&["book", "get", "e1"]);
    for line in [
        "archive e1 e88",
        "book complete e1 e88",
        "book reopen e1 e88",
        "book pin e1 e88",
        "book unpin e1 e88",
        "goals done e1 e88",
        "observe confirm e1 e88",
        "observe resolve e1 e88",
        "observe reopen e1 e88",
        "observe restore e1 e88",
    ] {
        let called = folio.call(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((called.code, called.stdout.as_str()), (3, ""), "{line}: {called}");
        assert!(called.stderr.contains("there is no entry e88"), "{line}: {called}");
        assert_eq!(folio.json(&["book", "get", "e1"]), before, "{line}");
    }
}

#[test]
fn entries_changed_before_a_batch_failure_are_reported() {
    let folio = Folio::new();
    let seen = session(
        &folio,
        &[
            "observe add one",
            "observe add two",
            "observe archive e2",
            "observe resolve e1 e2",
            "observe confirm e1 e2 --expected-version 3",
        ],
    );
    assert_snapshot!(seen, @r"
    $ folio observe add one
    e1 [observation/active 0.5] one
    $ folio observe add two
    e2 [observation/active 0.5] two
    $ folio observe archive e2
    e2 [observation/archived 0.5] two
    $ folio observe resolve e1 e2
    e1 [observation/resolved 0.5] one
    ! error[archived]: status: e2 is archived, which is final; only a person restores it
    = 4
    $ folio observe confirm e1 e2 --expected-version 3
    ! error[usage]: --expected-version is for one observation
    !   hint: name the observations one by one
    = 2
    ");
    assert_eq!(folio.json(&["observe", "get", "e1"])["status"], "resolved");
}

#[test]
fn empty_update_values_clear_tags_context_and_metadata() {
    let folio = Folio::new();
    let seen = session(
        &folio,
        &[
            "observe add one --tag a --context k=1 --metadata m=1",
            "observe update e1 --tag '' --context '' --metadata ''",
            "book add todo two --tag a",
            "book update e2 --tag ''",
            "book update e2 --tag '' --tag b",
            "observe update e1 --context '' --context k=2",
            "observe resolve e2",
        ],
    );
    assert_snapshot!(seen, @r#"
    $ folio observe add one --tag a --context k=1 --metadata m=1
    e1 [observation/active 0.5] one #a
    $ folio observe update e1 --tag '' --context '' --metadata ''
    e1 [observation/active 0.5] one
    $ folio book add todo two --tag a
    e2 [todo/open] two #a
    $ folio book update e2 --tag ''
    e2 [todo/open] two
    $ folio book update e2 --tag '' --tag b
    ! error[tag_invalid]: tags: the tag "" is empty
    = 2
    $ folio observe update e1 --context '' --context k=2
    ! error[usage]: an empty --context removes all values; it cannot be combined with others
    = 2
    $ folio observe resolve e2
    e2 [todo/done] two
    "#);
    let now = folio.json(&["observe", "get", "e1"]);
    assert_eq!(
        (&now["tags"], &now["context"], &now["metadata"]),
        (&json!([]), &Value::Null, &Value::Null)
    );
}

#[test]
fn goals_done_accepts_only_goals() {
    let folio = Folio::new();
    let seen = session(
        &folio,
        &[
            "goals add 'Book a flight'",
            "book add task 'Write the tests'",
            "observe add 'Found 3 flights'",
            "goals done e1 e2",
            "goals done e3",
            "book list --kind task",
            "goals done e1",
        ],
    );
    assert_snapshot!(seen, @"
    $ folio goals add 'Book a flight'
    e1 [goal/open] Book a flight
    $ folio book add task 'Write the tests'
    e2 [task/open] Write the tests
    $ folio observe add 'Found 3 flights'
    e3 [observation/active 0.5] Found 3 flights
    $ folio goals done e1 e2
    ! error[kind_invalid]: kind: e2 is of kind task; this is for goals and pending actions
    !   hint: `folio book complete e2` marks it as done
    = 2
    $ folio goals done e3
    ! error[kind_invalid]: kind: e3 is of kind observation; this is for goals and pending actions
    !   hint: `folio observe resolve e3` resolves it
    = 2
    $ folio book list --kind task
    e2 [task/open] Write the tests
    $ folio goals done e1
    e1 [goal/done] Book a flight (100%)
    ");
}

#[test]
fn repeated_update_under_a_key_reports_that_nothing_was_written() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "one"]);
    let change = ["observe", "update", "e1", "--content", "two", "--idempotency-key", "k"];
    folio.ok(&change);
    let again = folio.call(&change);
    assert_eq!(again.code, 0, "{again}");
    assert!(
        again.stderr.contains("key was used before; nothing was written again"),
        "{again}"
    );
    assert_eq!(folio.json(&["observe", "get", "e1"])["version"], 2);
}

#[test]
fn what_a_run_writes_is_settled_by_nobody_else() {
    let folio = Folio::new();
    let step = |id: &str| format!("  - {{id: {id}, title: {id}, do: {{tool: text, args: {{op: echo, value: 1}}}}}}\n");
    folio.file("plan.yaml", format!("title: T\nsteps:\n{}{}", step("a"), step("b")));
    folio.ok(&["run", "--plan", "plan.yaml"]);
    for command in [
        "observe resolve e3",
        "observe reopen e3",
        "observe confirm e1",
        "book complete e3",
        "book reopen e3",
        "book claim e3",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let told = folio.call(&words);
        assert_eq!(told.code, 2, "{command}: {told}");
        assert!(told.stderr.contains("kind_invalid"), "{command}: {told}");
    }
    assert_eq!(folio.json(&["replay", "r1"])["differences"], json!([]));
}
