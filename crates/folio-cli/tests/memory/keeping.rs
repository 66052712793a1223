//! Keeping a space small and forgetting, as a person and as a program see it.

use crate::support::{Folio, session};
use insta::assert_snapshot;
use serde_json::json;

#[test]
fn spaces_of_the_store_are_listed_last_written_to_first() {
    let folio = Folio::new();
    let seen = session(
        &folio,
        &[
            "spaces",
            "observe add one",
            "--space garden observe add two",
            "--space empty observe list",
            "spaces",
            "--space main observe add three",
            "spaces",
            "--role tool spaces",
            "--store sqlite:other.db spaces",
        ],
    );
    assert_snapshot!(seen, @"
    $ folio spaces
    ! there is no file FOLDER/home/.local/share/folio/folio.db yet
    ! the store has no space yet; the first command that writes creates one
    $ folio observe add one
    e1 [observation/active 0.5] one
    $ folio --space garden observe add two
    e1 [observation/active 0.5] two
    $ folio --space empty observe list
    ! no observation matches
    $ folio spaces
    garden written to TIME
    main written to TIME
    $ folio --space main observe add three
    e2 [observation/active 0.5] three
    $ folio spaces
    main written to TIME
    garden written to TIME
    $ folio --role tool spaces
    ! error[role_denied]: a caller in the role tool may not list the spaces; human may
    = 4
    $ folio --store sqlite:other.db spaces
    ! there is no file other.db yet
    ! the store has no space yet; the first command that writes creates one
    ");
    // What was only looked into is not there.
    let list = folio.json(&["spaces"]);
    assert_eq!(
        (&list["returned"], &list["total"], &list["next"]),
        (&json!(2), &json!(2), &json!(null))
    );
    let names: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["space"])
        .collect();
    assert_eq!(names, ["main", "garden"]);
}

#[test]
fn forget_removes_an_entry_and_confirms_nothing_is_left() {
    let folio = Folio::new();
    let seen = session(
        &folio,
        &[
            "observe add wedding-in-the-old-mill --tag june",
            "observe add something-else",
            "forget",
            "forget --text old-mill",
            "forget --text old-mill --dry-run --json",
            "forget --text old-mill --yes --reason asked",
            "observe list --tag june --status archived",
            "observe list",
            "forget --text old-mill --yes",
            "doctor --quiet",
        ],
    );
    let after = seen.split("--yes --reason").nth(1).unwrap();
    assert!(seen.contains("name what to forget"), "{seen}");
    assert!(seen.contains("pass --yes"), "{seen}");
    assert!(seen.contains(r#""dry_run": true"#), "{seen}");
    assert!(
        after.contains("forgot e1 [observation]") && after.contains("nothing is left of it"),
        "{seen}"
    );
    assert!(!after.contains("wedding"), "{seen}");
    assert!(
        after.contains("something-else") && after.contains("no problems found"),
        "{seen}"
    );
}

#[test]
fn forgotten_entries_are_marked_as_forgotten() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "wedding-in-the-old-mill", "--title", "Mill"]);
    folio.ok(&["book", "add", "note", "the wedding again", "--thread", "x"]);
    folio.ok(&["forget", "e1", "e2", "--yes"]);
    for shown in [
        &["observe", "list", "--status", "archived"][..],
        &["observe", "get", "e1"],
        &["book", "list", "--status", "archived", "--thread", "x"],
        &["book", "get", "e2"],
    ] {
        let text = folio.ok(shown);
        assert!(text.contains("(its content is gone: forgotten)"), "{shown:?}: {text}");
    }
    assert_eq!(folio.json(&["book", "get", "e2"])["erased"], "forgotten");
}

#[test]
fn text_found_only_in_the_trace_is_forgotten_m7_6_50() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "something else"]);
    folio.ok(&["search", "wedding-in-the-old-mill"]);
    let says = || folio.ok(&["trace", "--json"]).contains("old-mill");
    assert!(says());
    let looked = folio.ok(&["forget", "--text", "wedding-in-the-old-mill", "--dry-run"]);
    assert!(says(), "{looked}");
    folio.ok(&["forget", "--text", "wedding-in-the-old-mill", "--yes"]);
    assert!(!says());
}

#[test]
fn forgetting_again_does_not_claim_that_nothing_is_left_m7_6_50() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "a text that is long enough"]);
    folio.ok(&["forget", "e1", "--yes"]);
    let looked = folio.ok(&["forget", "e1", "--dry-run"]);
    assert!(!looked.contains("not searched for"), "{looked}");
    // There is nothing that somebody would have to be asked about.
    let again = folio.ok(&["forget", "e1"]);
    assert!(again.contains("not searched for the texts of 1 entry"), "{again}");
    assert!(!again.contains("nothing is left of it"), "{again}");
}

#[test]
fn forgotten_text_too_short_to_search_is_not_reported_gone_m7_6_50() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "PIN 4711"]);
    folio.ok(&["observe", "add", "a text that is long enough", "--tag", "june"]);
    let short = folio.ok(&["forget", "e1", "--yes"]);
    assert!(!short.contains("nothing is left of it"), "{short}");
    assert!(short.contains("not searched for 1 of its texts"), "{short}");
    let long = folio.ok(&["forget", "e2", "--yes"]);
    assert!(long.contains("nothing is left of it"), "{long}");
    assert!(long.contains("not searched for 1 of its texts"), "{long}");
}

#[test]
fn observation_over_quota_is_archived_and_traced_m7_6_46() {
    let folio = Folio::new();
    let seen = session(
        &folio,
        &[
            "policy set quota.live_observations=1",
            "observe add one",
            "observe add two",
            "observe list --status archived",
            "trace --limit 2",
            "archive",
            "archive e2",
        ],
    );
    assert!(
        seen.contains("$ folio observe list --status archived\ne1 "),
        "the add made room: {seen}"
    );
    // The policy's own name for it stands in the first command.
    assert!(
        seen.contains("archive_observation observation by tidy: quota\n"),
        "{seen}"
    );
    assert!(seen.contains("nothing is due"), "{seen}");
    assert!(seen.contains("$ folio archive e2\ne2 "), "{seen}");
}

#[test]
fn tidy_removes_folders_of_forks_that_never_began() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "something"]);
    let store = folio.json(&["doctor"])["store"].clone();
    let runs = folio.path().join("home/.local/share/folio/runs");
    let run = "run_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    std::fs::create_dir_all(runs.join(run)).unwrap();
    let mark = serde_json::json!({"store": store, "space": "main", "at": 0});
    std::fs::write(runs.join(format!("{run}.forking")), mark.to_string()).unwrap();
    let told = folio.call(&["doctor"]);
    assert_eq!(told.code, 0, "{told}");
    assert!(told.stderr.contains("was left by a fork that never began"), "{told}");
    let told = folio.call(&["tidy"]);
    assert_eq!(told.code, 0, "{told}");
    assert!(
        told.stderr.contains("removed 1 folder of forks that never began"),
        "{told}"
    );
    assert_eq!(std::fs::read_dir(&runs).unwrap().count(), 0);
    assert!(folio.call(&["tidy"]).stderr.contains("nothing is due"));
}

#[test]
fn forgetting_a_text_erases_what_was_said_in_turns_m7_6_50() {
    let folio = Folio::new();
    folio.ok(&["turn", "begin", "--input", "Ask for the wedding in the old mill"]);
    let looked = folio.ok(&["forget", "--text", "wedding in the old mill", "--dry-run"]);
    assert_eq!(looked, "would forget what was said in t1\n");
    let forgot = folio.json(&["forget", "--text", "wedding in the old mill", "--yes"]);
    assert_eq!(forgot["turns"], serde_json::json!(["t1"]), "{forgot}");
    assert_eq!(forgot["residue"]["found"], serde_json::json!([]), "{forgot}");
    assert!(!folio.ok(&["turn", "show", "t1"]).contains("wedding"));
}
