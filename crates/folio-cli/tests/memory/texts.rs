//! Long texts, and observations that come as JSON.

use crate::support::{Folio, session};
use serde_json::json;

#[test]
fn long_text_shows_only_its_beginning_without_the_whole_flag_m7_3_29() {
    let folio = Folio::new();
    let text = "a line of a long log\n".repeat(6_000);
    folio.file("log.json", json!({"content": text}).to_string());
    let added = folio.json(&["observe", "add", "--from", "log.json"]);
    assert_eq!(added["content_ref"]["bytes"], text.len());
    assert!(added["content"].as_str().unwrap().len() < 3_000);
    assert_eq!(folio.json(&["observe", "get", "e1", "--whole"])["content"], text);
    assert_eq!(folio.json(&["observe", "get", "e1"])["content"], added["content"]);
    let told = folio.call(&["observe", "get", "e1"]).stdout;
    assert!(
        told.ends_with("… the first 2036 of 126000 bytes; --whole shows all\n"),
        "{told}"
    );
    folio.ok(&["page", "new", "logs"]);
    let mut append = folio.command(&["page", "append", "p2", "-", "--title", "build"]);
    append.write_stdin(text.clone()).assert().success();
    let shown = folio.call(&["page", "show", "p2"]);
    assert!(shown.stdout.ends_with("\n*[the first 2036 of 126000 bytes of e2]*\n"));
    assert_eq!(
        shown.stderr,
        "only the beginning of e2 and other long texts is shown; --whole shows them in full\n"
    );
    let whole = folio.call(&["page", "show", "p2", "--whole"]).stdout;
    assert!(whole.contains(text.trim_end()));
}

#[test]
fn source_in_observation_json_is_kept_as_a_claim_m7_3_31() {
    let folio = Folio::new();
    let claim = json!({"tool": "bank", "turn_id": "t1"});
    folio.file(
        "seen.json",
        json!({"content": "rates rise", "type": "risk_alert", "tags": "rates", "source": claim}).to_string(),
    );
    let added = folio.json(&["observe", "add", "--from", "seen.json"]);
    assert_eq!(added["claimed_source"], claim);
    assert_eq!(added["source"]["tool"], json!(null));
    assert_eq!(added["tags"], json!(["rates"]));
    assert_eq!(folio.json(&["observe", "get", "e1"])["claimed_source"], claim);
}

#[test]
fn update_of_an_immutable_or_unknown_field_is_refused() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "x"]);
    folio.file("good.json", json!({"confidence": "high", "tags": ["a"]}).to_string());
    folio.file(
        "bad.json",
        json!({"title": "t", "created_at": "2030-01-01T00:00:00Z"}).to_string(),
    );
    folio.file("odd.json", json!({"titel": "t"}).to_string());
    insta::assert_snapshot!(session(&folio, &[
        "observe update e1 --from good.json",
        "observe update e1 --from bad.json",
        "observe update e1 --from odd.json",
        "observe update e1 --from good.json --title x",
    ]), @r#"
    $ folio observe update e1 --from good.json
    e1 [observation/active 0.9] x #a
    $ folio observe update e1 --from bad.json
    ! error[field_immutable]: created_at: cannot be changed: it is set once or computed
    = 2
    $ folio observe update e1 --from odd.json
    ! error[observation_malformed]: item: unknown field `titel`, expected one of `content`, `title`, `confidence`, `tags`, `owner`, `status`, `context`, `metadata`
    = 2
    $ folio observe update e1 --from good.json --title x
    ! error: the argument '--from <FILE>' cannot be used with '--title <TITLE>'
    ! 
    ! Usage: folio observe update <--content <TEXT>|--title <TITLE>|--status <STATUS>|--confidence <NUMBER>|--tag <TAG>|--owner <OWNER>|--context <KEY=VALUE>|--metadata <KEY=VALUE>|--from <FILE>> <OBSERVATION>
    ! 
    ! For more information, try '--help'.
    = 2
    "#);
}

/// What the program shows on a terminal with colours, given `input`.
#[cfg(target_os = "linux")]
fn on_a_terminal(folio: &Folio, arguments: &str, input: &str) -> String {
    use std::io::Write as _;
    use std::process::Stdio;
    let program = assert_cmd::cargo::cargo_bin!("folio").display().to_string();
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &format!("{program} {arguments}"), "/dev/null"]);
    // Nothing else: the store would be elsewhere, or there would be no colours.
    script
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folio.path().join("home"))
        .env("TERM", "xterm");
    let (stdin, stdout) = (Stdio::piped(), Stdio::piped());
    let mut child = script
        .current_dir(folio.path())
        .stdin(stdin)
        .stdout(stdout)
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn colours_of_a_terminal_do_not_appear_as_text() {
    let folio = Folio::new();
    folio.ok(&["turn", "begin", "--input", "Look at it"]);
    folio.file(
        "plan.yaml",
        "steps: [{id: a, do: {tool: text, args: {op: echo, value: y}}}]",
    );
    folio.ok(&["run", "--plan", "plan.yaml"]);
    for arguments in ["trace --turn t1", "watch r1 --quiet", "history"] {
        let shown = on_a_terminal(&folio, arguments, "");
        let without_colours = shown.replace("\u{1b}[", "");
        assert!(!without_colours.contains("[0m"), "{arguments}: {shown}");
    }
    assert!(on_a_terminal(&folio, "trace --turn t1", "").contains("\u{1b}[2m"));
}

/// Otherwise it would wait in silence, and nobody could know for what.
#[cfg(target_os = "linux")]
#[test]
fn quiet_forget_asks_its_question() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "a secret"]);
    let shown = on_a_terminal(&folio, "--quiet forget e1", "n\n");
    assert!(shown.contains("Forget these 1 permanently?"), "{shown}");
    assert!(
        shown.contains("a secret") && shown.contains("nothing was forgotten"),
        "{shown}"
    );
    folio.ok(&["turn", "begin", "--input", "the old mill"]);
    let shown = on_a_terminal(&folio, "--quiet forget --text 'old mill'", "n\n");
    assert!(shown.contains("what was said in t1"), "{shown}");
}
