//! What a stranger gets wrong: each message names what it is about, and each call ends with the code for it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod support;

use support::Folio;

#[test]
fn a_mistake_is_told_with_what_it_is_about() {
    let folio = Folio::new();
    std::fs::create_dir(folio.path().join("folder")).unwrap();
    folio.file("empty", "");
    folio.file("odd", [0xff, 0xfe]);
    folio.file("talk.json", r#"[{"role": "user", "content": "x"}]"#);
    folio.ok(&["observe", "add", "a note"]);
    for (line, code, said) in [
        (
            "--store ./f.db runs",
            2,
            "\"./f.db\" does not begin with a kind of store",
        ),
        ("--store ./f.db runs", 2, "write sqlite:./f.db"),
        ("--store sqlite:empty runs", 0, "no run matches"),
        ("--store sqlite:odd runs", 6, "odd is damaged: it is not an SQLite file"),
        ("runs --limit -1", 2, "invalid value '-1' for '--limit <LIMIT>'"),
        ("observe list --since -1", 2, "invalid value '-1' for '--since <SEQ>'"),
        ("runs --status gone", 0, "no run can be \"gone\""),
        ("evict folder", 2, "cannot read folder: is a directory"),
        ("import empty --from folio", 2, "empty: line 1:"),
        ("observe add --from odd", 2, "cannot read odd: it is not valid UTF-8"),
        ("backup nowhere/copy.db", 2, "there is no folder nowhere"),
        ("bench --folder nowhere", 3, "cannot measure in nowhere: no such file"),
        ("blob e1 --from 9 --to 3", 2, "--to is before --from, which is 9"),
        ("files grep ''", 2, "'<WORDS>'"),
        ("blob ''", 2, "'<REF>'"),
        ("token new --role client --expires 99999999d", 2, "longer than 36500d"),
        ("offload talk.json --share 2", 2, "share: 2 is not from 0 to 1"),
        ("offload talk.json --share -0.5", 2, "share: -0.5 is not from 0 to 1"),
        ("offload talk.json --share nan", 2, "share: NaN is not from 0 to 1"),
        (
            "offload talk.json --window 0",
            2,
            "window: 0 tokens are room for nothing",
        ),
        (
            "offload talk.json --summary 0",
            2,
            "summary: 0 tokens are room for nothing",
        ),
    ] {
        let words: Vec<_> = line.split(' ').map(|word| word.trim_matches('\'')).collect();
        let called = folio.call(&words);
        assert_eq!(called.code, code, "{line}: {called}");
        assert!(called.stderr.contains(said), "{line}: {called}");
    }
    let called = folio.command(&["runs"]).env("FOLIO_TURN", "soon").output().unwrap();
    let told = String::from_utf8(called.stderr).unwrap();
    assert!(told.contains("FOLIO_TURN, which is \"soon\","), "{told}");
}

#[test]
fn a_number_below_zero_can_be_a_text() {
    let folio = Folio::new();
    let noted = folio.json(&["observe", "add", "-5"]);
    assert_eq!(noted["content"], "-5");
}
