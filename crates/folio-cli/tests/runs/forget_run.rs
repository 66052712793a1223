//! Forgetting whole runs, as a person and as a program see it.

use crate::support::Folio;
use crate::support::served::Served;
use serde_json::{Value, json};

const PLAN: &str = "version: 1
title: A boat to Zanzibar
inputs: {guest: {type: string}}
steps:
  - id: look
    title: Look for the captain
    do: {tool: text, args: {op: echo, value: \"{{ inputs.guest }} sails with the captain\"}}
  - id: note
    needs: [look]
    do: {tool: write, args: {path: guests.txt, content: \"{{ inputs.guest }}\"}}
";
const GUEST: &str = "guest=Aunt Eleonora of Winterbourne";
const SECRETS: [&str; 4] = ["Zanzibar", "captain", "Eleonora", "guests.txt"];

/// A store with the run `r1`, which has ended and is told of nowhere else.
fn with_a_run() -> Folio {
    let folio = Folio::new();
    folio.file("plan.yaml", PLAN);
    folio.ok(&["run", "--plan", "plan.yaml", "--input", GUEST, "--quiet"]);
    folio
}

/// Whether any file of the store, or below it, contains `text`.
fn holds(folio: &Folio, text: &str) -> bool {
    let mut search = std::process::Command::new("grep");
    search.args(["-r", "-q", "-a", "-F", "--", text]);
    let data = folio.path().join("home/.local/share/folio");
    search.arg(data).status().unwrap().success()
}

#[test]
fn forgotten_run_is_gone_and_says_so_everywhere_m7_6_50() {
    let folio = with_a_run();
    let runs = folio.path().join("home/.local/share/folio/runs");
    let id = folio.json(&["show", "r1"])["run_id"].as_str().unwrap().to_owned();
    assert!(runs.join(&id).is_dir() && holds(&folio, "Eleonora"));
    let looked = folio.ok(&["forget", "r1", "--dry-run"]);
    assert!(looked.contains("would forget r1, with its pages"), "{looked}");
    let refused = folio.call(&["forget", "r1"]);
    assert!(refused.stderr.contains("pass --yes"), "{refused}");
    assert!(folio.ok(&["show", "r1"]).contains("Zanzibar"));

    let forgot = folio.ok(&["forget", "r1", "--yes", "--reason", "she asked for it"]);

    assert!(forgot.contains("forgot r1, with its pages"), "{forgot}");
    assert!(forgot.contains("removed ") && forgot.contains(&id), "{forgot}");
    assert!(forgot.contains("nothing is left of it"), "{forgot}");
    assert!(!runs.join(&id).exists());
    for secret in SECRETS {
        assert!(!holds(&folio, secret), "{secret}");
    }
    for asked in [
        &["show", "r1"][..],
        &["show", &id],
        &["tree", "--run", "r1"],
        &["watch", "r1"],
        &["resume", "r1"],
        &["pause", "r1"],
        &["continue", "r1"],
        &["cancel", "r1"],
        &["fork", "r1", "--at", "look"],
        &["replay", "r1"],
        &["diff", "r1", "r1"],
        &["plan", "show", "r1"],
        &["budget", "r1"],
        &["budget", "r1", "--tokens", "+100"],
        &["questions", "r1"],
        &["approve", "r1"],
        &["answer", "r1", "yes"],
    ] {
        let told = folio.call(asked);
        assert!(told.stderr.contains("error[run_forgotten]"), "{asked:?}: {told}");
        assert_eq!(told.code, 3, "{asked:?}: {told}");
    }
    let list = folio.ok(&["runs"]);
    assert!(list.starts_with("r1 forgotten (was ok): she asked for it"), "{list}");
    let list = folio.json(&["runs", "--status", "forgotten"]);
    let run = &list["items"][0];
    assert_eq!((&run["title"], &run["status"]), (&json!(""), &json!("forgotten")));
    assert_eq!(
        (
            &run["forgotten"]["status"],
            &run["forgotten"]["reason"],
            &run["forgotten"]["nodes"]
        ),
        (&json!("ok"), &json!("she asked for it"), &json!(3))
    );
    assert_eq!(folio.json(&["runs", "--cursor", "r1"])["items"], json!([]));
    let page = folio.ok(&["page", "show", "p1"]);
    assert!(!page.contains("Zanzibar"), "{page}");
    folio.ok(&["trace"]);
    folio.ok(&["doctor"]);
    let again = folio.ok(&["forget", "r1"]);
    assert!(again.contains("the texts of 1 entry or run"), "{again}");
    let missing = folio.call(&["forget", "r9", "--yes"]);
    assert_eq!(missing.code, 3, "{missing}");
    // The next run has the next handle.
    folio.ok(&["run", "--plan", "plan.yaml", "--input", GUEST, "--quiet"]);
    assert_eq!(folio.json(&["show", "r2"])["handle"], "r2");
}

#[test]
fn run_that_goes_on_is_not_forgotten_and_its_fork_stays_whole_m7_6_50() {
    let folio = with_a_run();
    folio.ok(&["fork", "r1", "--at", "look", "--paused"]);
    let before = folio.json(&["show", "r2"])["nodes"].clone();
    let refused = folio.call(&["forget", "r2", "--yes"]);
    assert!(refused.stderr.contains("error[run_not_ended]"), "{refused}");
    assert!(refused.stderr.contains("folio cancel"), "{refused}");
    assert_eq!(refused.code, 4, "{refused}");
    let forgot = folio.json(&["forget", "r1", "--yes"]);
    assert_eq!(forgot["runs"], json!(["r1"]));
    let found = forgot["residue"]["found"].to_string();
    assert!(found.contains("r2"), "the fork says the same: {found}");
    assert_eq!(folio.json(&["show", "r2"])["nodes"], before);
    assert!(folio.ok(&["show", "r2"]).contains("Zanzibar"));
    folio.ok(&["continue", "r2"]);
    folio.ok(&["resume", "r2", "--quiet"]);
    let files = folio.json(&["show", "r2"])["run_id"].as_str().unwrap().to_owned();
    let guests = folio
        .path()
        .join("home/.local/share/folio/runs")
        .join(files)
        .join("guests.txt");
    assert!(std::fs::read_to_string(guests).unwrap().contains("Eleonora"));
    folio.ok(&["doctor"]);
}

#[test]
fn text_alone_names_the_run_and_leaves_it_m7_6_50() {
    let folio = with_a_run();
    let told = folio.ok(&["forget", "--text", "Eleonora of", "--yes"]);
    assert!(told.contains("`folio forget r1` forgets the whole run"), "{told}");
    assert!(folio.ok(&["show", "r1"]).contains("Zanzibar"));
    let refused = folio.call(&["forget", "r1", "--text", "Eleonora", "--yes"]);
    assert!(refused.stderr.contains("error[filter_invalid]"), "{refused}");
    // A run alone means no entry.
    folio.ok(&["observe", "add", "nobody forgets this"]);
    folio.ok(&["forget", "r1", "--yes"]);
    assert!(folio.ok(&["observe", "list"]).contains("nobody forgets this"));
}

#[test]
fn link_in_place_of_the_folder_of_a_forgotten_run_is_not_followed_m7_6_50() {
    let folio = with_a_run();
    let id = folio.json(&["show", "r1"])["run_id"].as_str().unwrap().to_owned();
    let runs = folio.path().join("home/.local/share/folio/runs");
    let (own, elsewhere) = (runs.join(&id), folio.path().join("elsewhere"));
    std::fs::rename(&own, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &own).unwrap();
    let forgot = folio.json(&["forget", "r1", "--yes"]);
    assert_eq!(forgot.get("folders"), None, "{forgot}");
    assert!(elsewhere.join("guests.txt").is_file());
}

#[test]
fn server_beside_refuses_a_run_that_was_forgotten_meanwhile_m7_6_50() {
    let folio = with_a_run();
    let server = Served::of(folio.process(&["serve", "--listen", "127.0.0.1:0"]));
    let path = |rest: &str| format!("/v1/spaces/main/runs/r1{rest}");
    for rest in ["", "/tree", "/plan"] {
        assert_eq!(server.status(&path(rest), None), "200", "{rest}");
    }
    folio.ok(&["forget", "r1", "--yes"]);
    for rest in ["", "/tree", "/plan", "/events"] {
        let refused = server.refusal(&path(rest), None);
        assert_eq!(refused, ("410".to_owned(), "run_forgotten".to_owned()), "{rest}");
    }
    folio.ok(&["run", "--plan", "plan.yaml", "--input", GUEST, "--quiet"]);
    let forgot = server.post("/v1/spaces/main/forget", r#"{"runs": "r2", "reason": "asked"}"#);
    let forgot: Value = serde_json::from_str(forgot.split("\r\n\r\n").last().unwrap()).unwrap();
    assert_eq!(
        (&forgot["runs"], &forgot["residue"]["found"]),
        (&json!(["r2"]), &json!([]))
    );
    assert!(!holds(&folio, "Eleonora"));
    let list = folio.json(&["runs"]);
    assert_eq!(list["items"][0]["forgotten"]["reason"], "asked");
}
