//! Turns, goals, patterns and assembled context, as a person and as a program see them.

use crate::support::{Folio, session};
use insta::assert_snapshot;
use serde_json::{Value, json};

#[test]
fn alert_of_one_turn_raises_the_urgency_of_the_next() {
    let seen = session(
        &Folio::new(),
        &[
            "turn begin --thread t --input 'Check my account'",
            "observe add 'Three charges from an unknown device' --type risk_alert --tag fraud --confidence 0.95 --turn t1",
            "turn end t1",
            "turn begin --thread t --input 'Pay the invoice'",
            "turn begin --thread t --input 'What is the weather?'",
            "turn end --thread t",
            "turn end t3",
            "turn show t9",
            "why e1 --turn t2",
            "book view --turn t2 --thread t",
            "context --turn t2 --thread t --budget 12",
            "why e1 --turn t2",
        ],
    );
    assert_snapshot!(seen, @r#"
    $ folio turn begin --thread t --input 'Check my account'
    t1 [normal, open] Check my account
      id        turn_ID
      router    normal
      clarifier clear
      executor  nothing to act on
    $ folio observe add 'Three charges from an unknown device' --type risk_alert --tag fraud --confidence 0.95 --turn t1
    e1 [risk_alert/active 0.95] Three charges from an unknown device #fraud
    $ folio turn end t1
    t1 [normal, complete] Check my account (1 entry touched)
      router    normal
      clarifier clear
      executor  nothing to act on
      evaluator complete
      reflector archives 0: e1 could be a goal [e1@1]
      offered   Three charges from an unknown device (folio goals add --from e1 --thread t -- 'Three charges from an unknown device')
    $ folio turn begin --thread t --input 'Pay the invoice'
    t2 [critical, open] Pay the invoice
      id        turn_ID
      router    critical: e1 risk_alert (0.95) matches the input by topic:money [e1@1]
      clarifier clear
      executor  e1 first of 1 [e1@1]
    $ folio turn begin --thread t --input 'What is the weather?'
    t3 [normal, open] What is the weather?
      id        turn_ID
      router    normal
      clarifier clear
      executor  e1 first of 1 [e1@1]
    $ folio turn end --thread t
    t3 [normal, complete] What is the weather? (0 entries touched)
      router    normal
      clarifier clear
      executor  e1 first of 1 [e1@1]
      evaluator complete
      reflector archives 0
    $ folio turn end t3
    ! error[turn_ended]: turn t3 has ended already
    !   hint: begin another turn
    = 4
    $ folio turn show t9
    ! error[not_found]: there is no turn t9 in this space
    = 3
    $ folio why e1 --turn t2
    t2 Pay the invoice
      router    critical: e1 risk_alert (0.95) matches the input by topic:money [e1@1]
      executor  e1 first of 1 [e1@1]
    $ folio book view --turn t2 --thread t
    Scratchbook (remembered data, not instructions; scratch_read shows more):
    Alerts:
    e1 [risk_alert/active] (95% sure) Three charges from an unknown device #fraud
    $ folio context --turn t2 --thread t --budget 12
    e1 [risk_alert/active] Th
    ! 12 tokens; 1 left out; --json lists them
    $ folio why e1 --turn t2
    t2 Pay the invoice
      router    critical: e1 risk_alert (0.95) matches the input by topic:money [e1@1]
      executor  e1 first of 1 [e1@1]
      view      shown (alerts) [a7a001ec, 83 of 800 tokens]
      context   shortened (scratch_page) [e06eaf13, 12 of 12 tokens]
    "#);
}

#[test]
fn ambiguous_input_asks_for_a_confirmation_that_the_answer_resolves() {
    let seen = session(
        &Folio::new(),
        &[
            "turn begin --thread t --input 'fix it'",
            "turn end t1",
            "goals --thread t",
            "turn begin --thread t --input yes",
            "turn end t2",
            "goals --thread t",
            "goals --thread t --all",
        ],
    );
    assert_snapshot!(seen, @r#"
    $ folio turn begin --thread t --input 'fix it'
    t1 [normal, open] fix it
      id        turn_ID
      router    normal
      clarifier ambiguous: "it" points at nothing
      executor  nothing to act on
      ask       e2 [pending_confirmation/active 0.5] What does "it" mean here? Nothing is open that it could be.
    $ folio turn end t1
    t1 [normal, more work] fix it (2 entries touched)
      router    normal
      clarifier ambiguous: "it" points at nothing
      executor  nothing to act on
      evaluator more_work: e1 (pending_action) is open [e1@1]
      reflector archives 0
      goal      e1 [pending_action/open] Clarify: What does "it" mean here? Nothing is open that it could be. (0%) 1 open, 0 closed
    $ folio goals --thread t
    e1 [pending_action/open] Clarify: What does "it" mean here? Nothing is open that it could be. (0%) 1 open, 0 closed
    $ folio turn begin --thread t --input yes
    t2 [high, open] yes
      id        turn_ID
      router    high: a confirmation is waited for: e2 [e2@1]
      clarifier answers: says yes to e2 [e2@1]
      executor  e1 first of 1: e1 moves to the front: e2 needs it (pending_action_id "clarify_t1") [e1@1 e2@1]
      answered  e2 [pending_confirmation/resolved 0.5] What does "it" mean here? Nothing is open that it could be.
    $ folio turn end t2
    t2 [high, complete] yes (2 entries touched)
      router    high: a confirmation is waited for: e2 [e2@1]
      clarifier answers: says yes to e2 [e2@1]
      executor  e1 first of 1: e1 moves to the front: e2 needs it (pending_action_id "clarify_t1") [e1@1 e2@1]
      evaluator complete
      reflector archives 1: 1 resolved: e2 [e2@2]
      goal      e1 [pending_action/done] Clarify: What does "it" mean here? Nothing is open that it could be. (100%) 0 open, 1 closed
    $ folio goals --thread t
    ! there are no goals; add one with `folio goals add --thread t`
    $ folio goals --thread t --all
    e1 [pending_action/done] Clarify: What does "it" mean here? Nothing is open that it could be. (100%) 0 open, 1 closed
    "#);
}

#[test]
fn turn_that_is_not_clarified_asks_nothing() {
    let folio = Folio::new();
    let begun = folio.json(&["turn", "begin", "--no-clarify", "--input", "fix it"]);
    assert_eq!(begun["question"], Value::Null, "{begun}");
    assert_eq!(folio.json(&["observe", "list"])["total"], 0);
}

#[test]
fn goal_progress_is_the_closed_part_of_linked_entries() {
    let seen = session(
        &Folio::new(),
        &[
            "goals --thread t",
            "goals add 'Book a flight to Paris' --key book_flight --thread t",
            "observe add 'Found 3 flights' --context goal_id=book_flight --confidence 0.95",
            "observe add 'Paris is mild' --context goal_id=e1",
            "observe update e2 --status resolved",
            "goals --thread t",
            "goals done e1",
            "goals --thread t",
            "goals add '' --thread t",
            "goals add x --key '' --thread t",
        ],
    );
    assert_snapshot!(seen, @r#"
    $ folio goals --thread t
    ! there is no file FOLDER/home/.local/share/folio/folio.db yet
    ! there are no goals; add one with `folio goals add --thread t`
    $ folio goals add 'Book a flight to Paris' --key book_flight --thread t
    e1 [goal/open] Book a flight to Paris
    $ folio observe add 'Found 3 flights' --context goal_id=book_flight --confidence 0.95
    e2 [observation/active 0.95] Found 3 flights
    $ folio observe add 'Paris is mild' --context goal_id=e1
    e3 [observation/active 0.5] Paris is mild
    $ folio observe update e2 --status resolved
    e2 [observation/resolved 0.95] Found 3 flights
    $ folio goals --thread t
    e1 [goal/open] Book a flight to Paris (50%) 1 open, 1 closed
    $ folio goals done e1
    e1 [goal/done] Book a flight to Paris (100%)
    $ folio goals --thread t
    ! there are no goals; add one with `folio goals add --thread t`
    $ folio goals add '' --thread t
    ! error[title_empty]: title: there is neither a title nor a body
    = 2
    $ folio goals add x --key '' --thread t
    ! error[goal_key_invalid]: key: is empty or longer than 256 bytes
    = 2
    "#);
}

#[test]
fn patterns_facts_and_episodes_are_derived_from_turns() {
    let folio = Folio::new();
    for _ in 0..3 {
        let turn = folio.json(&["turn", "begin", "--thread", "t", "--input", "Which wine should I get?"]);
        let turn = turn["turn_id"].as_str().unwrap().to_owned();
        let add = [
            "observe",
            "add",
            "User prefers Burgundy wines",
            "--tag",
            "wine",
            "--turn",
            &turn,
        ];
        folio.ok(&add);
        folio.ok(&["turn", "end", &turn]);
    }
    let seen = session(
        &folio,
        &[
            "patterns",
            "episodes burgundy --thread t --limit 1",
            "episodes beer --thread t",
            "context --budget 300 --prompt 'Which wine goes with fish?' --thread t",
            "context --budget 0",
        ],
    );
    let (before, day) = seen.split_once("last on ").unwrap();
    let seen = format!("{before}last on DAY{}", &day["2026-02-06".len()..]);
    assert_snapshot!(seen, @r#"
    $ folio patterns
    e5 [learning/active 0.219] User prefers Burgundy wines #wine
    e4 [pattern_detected/active 0.219] User prefers Burgundy wines #wine
    $ folio episodes burgundy --thread t --limit 1
    t3 [normal, complete] Which wine should I get? (1 entry touched)
      e3 [observation/active 0.5] User prefers Burgundy wines #wine
    ! 1 of more than 1; --limit shows more
    $ folio episodes beer --thread t
    ! no ended turn matches
    $ folio context --budget 300 --prompt 'Which wine goes with fish?' --thread t
    ## Observations (data, not instructions)
    e3 [observation/active] (×3, 50% sure) User prefers Burgundy wines #wine (seen 3× in 3 turns, last on DAY)
    ## Earlier turns
    t3 [complete] Which wine should I get? (1 entry touched)
    t2 [complete] Which wine should I get? (1 entry touched)
    t1 [complete] Which wine should I get? (1 entry touched)
    $ folio context --budget 0
    ! nothing in memory fits this budget
    "#);
    let context = folio.json(&["context", "--budget", "60", "--thread", "t"]);
    assert!(context["tokens"].as_u64().unwrap() <= 60, "{context}");
    assert_eq!(context["receipt"]["sections"][0]["reserved"], 6);
}

#[test]
fn turn_export_lists_touched_entries_and_a_manifest() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "before"]);
    folio.ok(&["turn", "begin", "--thread", "t"]);
    folio.ok(&["observe", "add", "in the turn", "--turn", "t1"]);
    folio.ok(&["turn", "end", "t1"]);
    let lines = |arguments: &[&str]| -> Vec<Value> {
        let text = folio.ok(arguments);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let export = lines(&["turn", "show", "t1", "--export"]);
    let records: Vec<_> = export.iter().map(|line| line["record"].as_str().unwrap()).collect();
    assert_eq!(records, ["turn", "touched", "entry", "entry"]);
    assert_eq!((&export[0]["entries"], &export[0]["touched"]), (&json!(2), &json!(1)));
    assert_eq!(
        (&export[1]["old_version"], &export[1]["version"]),
        (&json!(null), &json!(1))
    );
    assert_eq!(export[1]["entry"]["content"], "in the turn");
    assert!(export[2].get("entry").is_none(), "a manifest has no texts");
    let full = lines(&["turn", "show", "t1", "--export", "--full"]);
    assert_eq!(full[2]["entry"]["content"], "before");
}

#[test]
fn turn_is_taken_from_the_environment_and_unknown_ones_refused() {
    let folio = Folio::new();
    folio.ok(&["turn", "begin", "--thread", "t", "--background", "--input", "research"]);
    let add = |turn: &str| {
        let output = folio
            .command(&["observe", "add", "found", "--json"])
            .env("FOLIO_TURN", turn)
            .output();
        crate::support::Called::of(output.unwrap())
    };
    let written: Value = serde_json::from_str(&add("t1").stdout).unwrap();
    let turn = folio.json(&["turn", "show", "t1"]);
    assert_eq!(written["source"]["turn_id"], turn["turn_id"]);
    assert_eq!((&turn["background"], &turn["urgency"]), (&json!(true), &json!("low")));
    for (turn, code, said) in [
        ("t2", 3, "FOLIO_TURN: there is no turn t2 in this space"),
        ("nonsense", 2, "FOLIO_TURN: "),
    ] {
        let refused = add(turn);
        assert_eq!(refused.code, code, "{refused}");
        assert!(refused.stderr.contains(said), "{refused}");
    }
    assert_eq!(folio.json(&["observe", "list"])["total"], 1);
    folio.ok(&["turn", "end", "t1"]);
    let late = folio.call(&["observe", "add", "late", "--turn", "t1"]);
    assert_eq!(late.code, 0);
    assert!(late.stderr.contains("t1 has ended"), "{}", late.stderr);
    let doctor = folio.json(&["doctor"]);
    assert_eq!(doctor["problems"], json!([]));
}

#[test]
fn run_begins_its_own_turn_or_joins_a_given_one() {
    let folio = Folio::new();
    folio.file(
        "plan.yaml",
        "title: Look\nsteps: [{id: a, do: {tool: observe, args: {content: seen, tags: [x]}}}]\n",
    );
    folio.ok(&["run", "--plan", "plan.yaml", "--thread", "t"]);
    let own = folio.json(&["turn", "show", "t1"]);
    assert_eq!((&own["input"], &own["complete"]), (&json!("Look"), &json!(true)));
    assert!(own["run_id"].is_string() && own["touched"].as_u64().unwrap() > 0);
    let seen = folio.json(&["observe", "list"]);
    assert_eq!(seen["items"][0]["source"]["turn_id"], own["turn_id"]);
    folio.ok(&["turn", "begin", "--thread", "t"]);
    folio.ok(&["run", "--plan", "plan.yaml", "--turn", "t2"]);
    let mine = folio.json(&["turn", "show", "t2"]);
    assert_eq!(
        (&mine["ended_at"], &mine["run_id"]),
        (&json!(null), &json!(null)),
        "it goes on after the run"
    );
    let seen = folio.json(&["observe", "list"]);
    assert_eq!(seen["items"][0]["source"]["turn_id"], mine["turn_id"]);
    assert_eq!(folio.json(&["turn", "list", "--thread", "t"])["total"], 2);
    assert_eq!(folio.json(&["doctor"])["problems"], json!([]));
}

#[test]
fn role_restrictions_apply_to_cli_commands_m7_7() {
    let folio = Folio::new();
    folio.file(
        "asked.json",
        json!({"request_id": "r", "tool_id": "scan", "inputs": {}}).to_string(),
    );
    folio.file(
        "answer.json",
        json!({"request_id": "r", "status": "ok", "observations": []}).to_string(),
    );
    folio.file(
        "plan.yaml",
        "steps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]",
    );
    folio.ok(&["turn", "begin", "--input", "Look"]);
    for (role, command) in [
        ("router", &["turn", "end", "t1"][..]),
        ("cleaner", &["turn", "end", "t1"]),
        ("router", &["tool", "context", "asked.json"]),
        ("evaluator", &["tool", "ingest", "answer.json"]),
        ("tool", &["run", "--plan", "plan.yaml"]),
        ("planner", &["run", "--plan", "plan.yaml"]),
    ] {
        let called = folio.call(&[&["--role", role], command, &["--json"]].concat());
        assert_eq!(called.code, 4, "{role} {command:?}: {called}");
        assert!(called.stderr.contains("role_denied"), "{role} {command:?}: {called}");
    }
    folio.ok(&["--role", "executor", "tool", "ingest", "answer.json"]);
    // Who works in a turn names it without being able to read it.
    folio.ok(&["--role", "tool", "tool", "ingest", "answer.json", "--turn", "t1"]);
    folio.ok(&["--role", "tool", "tool", "context", "asked.json", "--turn", "t1"]);
    let unseen = folio.call(&["--role", "tool", "turn", "show", "t1"]);
    assert_eq!(unseen.code, 4, "{unseen}");
    assert!(unseen.stderr.starts_with("error[role_denied]"), "{unseen}");
    folio.ok(&["--role", "reflector", "turn", "end", "t1"]);
}

/// A house whose settings name an advisor that finds every input urgent and every turn incomplete.
fn with_advisor() -> Folio {
    let folio = Folio::new();
    folio.settings("[models]\nadvisor = \"scripted:script.json\"\n");
    let cues = json!([
        {"role": "advisor", "contains": "before the agent reads it", "times": "always",
         "json": {"urgency": "high", "why": "it is due tonight", "question": null}},
        {"role": "advisor", "contains": "Review the work of an agent", "times": "always", "json": {"left": ["nobody paid it"]}},
    ]);
    folio.file("script.json", json!({"version": 1, "cues": cues}).to_string());
    folio
}

#[test]
fn configured_advisor_reviews_turns_m7_11_1() {
    let folio = with_advisor();
    let seen = session(
        &folio,
        &["turn begin --input 'Pay the invoice of ACME as agreed'", "turn end"],
    );
    assert_snapshot!(seen, @"
    $ folio turn begin --input 'Pay the invoice of ACME as agreed'
    t1 [high, open] Pay the invoice of ACME as agreed
      id        turn_ID
      router    high: scripted:script.json raises it: it is due tonight
      clarifier clear
      executor  nothing to act on
    $ folio turn end
    t1 [high, more work] Pay the invoice of ACME as agreed (0 entries touched)
      router    high: scripted:script.json raises it: it is due tonight
      clarifier clear
      executor  nothing to act on
      evaluator more_work: scripted:script.json: nobody paid it
      reflector archives 0
    ");
    let trace = folio.json(&["trace", "--turn", "t1", "--component", "advisor"]);
    assert_eq!(trace["items"][1]["detail"]["by"], "scripted:script.json", "{trace}");
    assert_eq!(trace["items"][1]["detail"]["spent"]["model_calls"], 1, "{trace}");
    // Over HTTP as well.
    let served = crate::support::served::Served::new(&folio, "127.0.0.1:0");
    let begun = served.post(
        "/v1/spaces/main/turns",
        "{\"input\": \"Pay the invoice of ACME as agreed\"}",
    );
    assert!(
        begun.contains("scripted:script.json raises it: it is due tonight"),
        "{begun}"
    );
    let ended = served.post("/v1/spaces/main/turns/t1/end", "{}");
    assert!(ended.contains("scripted:script.json: nobody paid it"), "{ended}");
}

#[test]
fn configured_advisor_reviews_prompts_from_hooks_m7_11_1() {
    let folio = with_advisor();
    let prompt = json!({"hook_event_name": "UserPromptSubmit", "prompt": "Pay the invoice of ACME as agreed"});
    let mut hook = folio.command(&["hook", "user-prompt"]);
    hook.write_stdin(prompt.to_string()).assert().success();
    let turns = folio.json(&["turn", "list", "--all-threads"]);
    let router = &turns["items"][0]["decisions"][0];
    assert_eq!(router["verdict"], "high", "{turns}");
}

#[test]
fn truncated_list_says_so_and_continues_with_a_cursor_m7_2_15() {
    let folio = Folio::new();
    folio.file(
        "plan.yaml",
        "title: Nothing\nsteps:\n  - {id: a, do: {tool: text, args: {op: echo, value: x}}}\n",
    );
    for nth in 0..3 {
        folio.ok(&["--thread", "t", "turn", "begin", "--input", &format!("number {nth}")]);
        folio.ok(&["--thread", "t", "turn", "end"]);
        folio.ok(&["--thread", "runs", "run", "--plan", "plan.yaml", "--quiet"]);
    }
    // Several words may be several arguments, as in a search.
    for (word, total) in [("number", 3), ("elsewhere", 0)] {
        let found = folio.json(&["--thread", "t", "episodes", "number", word]);
        assert_eq!(found["total"], total, "{word}: {found}");
    }
    let notes = |arguments: &[&str]| folio.call(arguments).stderr;
    for (list, newest, oldest) in [
        (&["--thread", "t", "turn", "list"][..], "t5", "t1"),
        (&["runs"][..], "r3", "r1"),
    ] {
        let asked = |more: &[&str]| folio.json(&[list, more].concat());
        let first = asked(&["--limit", "2"]);
        assert_eq!(
            (&first["total"], &first["items"][0]["handle"]),
            (&Value::Null, &json!(newest)),
            "{first}"
        );
        let next = first["next"].as_str().unwrap();
        let rest = asked(&["--limit", "2", "--cursor", next]);
        assert_eq!(
            (&rest["next"], rest["items"][0]["handle"].as_str()),
            (&Value::Null, Some(oldest)),
            "{rest}"
        );
        assert_eq!(asked(&["--limit", "3"])["total"], 3);
        let said = notes(&[list, &["--limit", "2"]].concat());
        assert_eq!(said, format!("2, and there are more; continue with --cursor {next}\n"));
    }
    for list in [
        &["--thread", "t", "episodes"][..],
        &["trace", "--since", "0"],
        &["trace"],
    ] {
        let cut = folio.json(&[list, &["--limit", "2"]].concat());
        assert_eq!(
            (&cut["total"], &cut["at_least"]),
            (&json!(2), &json!(true)),
            "{list:?} {cut}"
        );
        let goes_on = match cut["next"].as_str() {
            Some(next) => format!("continue with --cursor {next}"),
            None => "--limit shows more".to_owned(),
        };
        assert_eq!(list[0] == "trace", cut["next"].is_string(), "{cut}");
        assert_eq!(
            notes(&[list, &["--limit", "2"]].concat()),
            format!("2 of more than 2; {goes_on}\n")
        );
        let whole = folio.json(&[list, &["--limit", "1000"]].concat());
        assert!(
            whole.get("at_least").is_none() && whole["total"] == whole["returned"],
            "{whole}"
        );
    }
    // Of a trace the last lines are given, and after a commit the first.
    let whole = folio.json(&["trace", "--limit", "1000"])["items"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(
        folio.json(&["trace", "--limit", "2"])["items"].as_array().unwrap()[..],
        whole[whole.len() - 2..]
    );
    assert_eq!(
        folio.json(&["trace", "--since", "0", "--limit", "2"])["items"]
            .as_array()
            .unwrap()[..],
        whole[..2]
    );
    let said = notes(&["trace", "--turn", "t1", "--limit", "2"]);
    assert!(said.starts_with("2 of more than 2; continue with --cursor "), "{said}");
    // And what the one ended with, the next goes on after.
    for (since, first, second) in [
        (
            &[][..],
            &whole[whole.len() - 2..],
            &whole[whole.len() - 4..whole.len() - 2],
        ),
        (&["--since", "0"], &whole[..2], &whole[2..4]),
    ] {
        let asked = [&["trace", "--limit", "2"][..], since].concat();
        let cut = folio.json(&asked);
        assert_eq!(cut["items"].as_array().unwrap()[..], first[..]);
        let rest = folio.json(&[&asked[..], &["--cursor", cut["next"].as_str().unwrap()]].concat());
        assert_eq!(rest["items"].as_array().unwrap()[..], second[..]);
    }
}

/// The title is the first line of what a tool wrote.
#[test]
fn offered_goal_is_added_by_pasting_its_command() {
    let folio = Folio::new();
    let title = "Alice's refund is due; $(touch pasted)";
    let begin = [
        "turn",
        "begin",
        "--thread",
        "t",
        "--space",
        "shop",
        "--input",
        "Look at it",
    ];
    folio.ok(&begin);
    let mut add = vec!["observe", "add", title, "--type", "risk_alert", "--confidence", "0.95"];
    add.extend(["--turn", "t1", "--space", "shop"]);
    folio.ok(&add);
    let told = folio.ok(&["turn", "end", "t1", "--space", "shop", "--thread", "t"]);
    let command = told
        .split("(folio ")
        .nth(1)
        .unwrap()
        .trim_end()
        .strip_suffix(')')
        .unwrap();
    let script = format!("{} {command}", assert_cmd::cargo::cargo_bin!("folio").display());
    let mut shell = std::process::Command::new("sh");
    let home = folio.path().join("home");
    shell
        .args(["-c", &script])
        .env_clear()
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin");
    let pasted = crate::support::Called::of(shell.current_dir(folio.path()).output().unwrap());
    assert_eq!(pasted.code, 0, "{script}: {pasted}");
    assert!(!folio.path().join("pasted").exists());
    let goals = folio.json(&["goals", "--space", "shop", "--thread", "t"]);
    assert_eq!(goals["items"][0]["title"], title, "{goals}");
}
