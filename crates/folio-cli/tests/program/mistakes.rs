//! Mistakes of new users: each message names what it is about, and each call exits with the right code.

use crate::support::{Called, Folio};

#[test]
fn mistakes_are_reported_with_their_subject_and_exit_code() {
    let folio = Folio::new();
    std::fs::create_dir(folio.path().join("folder")).unwrap();
    folio.file("empty", "");
    folio.file("odd", [0xff, 0xfe]);
    folio.file("null", "null");
    folio.file("list.json", "[]");
    folio.file("talk.json", r#"[{"role": "user", "content": "x"}]"#);
    folio.ok(&["observe", "add", "a note"]);
    for (line, code, said) in [
        ("--store f.db runs", 2, "\"f.db\" does not begin with a kind of store"),
        ("--store f.db runs", 2, "write sqlite:f.db"),
        ("--store sqlite:empty runs", 0, "no run matches"),
        ("--store sqlite:odd runs", 6, "odd is damaged: it is not an SQLite file"),
        (
            "serve --listen foo",
            2,
            "write a numeric address and a port, such as 127.0.0.1:7717",
        ),
        ("fork --help", 0, "<--at <NODE>|--before-limit> <RUN>"),
        ("fork r1", 2, "<--at <NODE>|--before-limit>"),
        ("runs --limit -1", 2, "invalid value '-1' for '--limit <LIMIT>'"),
        ("observe list --since -1", 2, "invalid value '-1' for '--since <SEQ>'"),
        (
            "runs --status gone",
            0,
            "no run can be \"gone\"; use running, interrupted, paused, ok, partial, failed, cancelled",
        ),
        ("evict folder", 2, "cannot read folder: is a directory"),
        ("import empty --from folio", 2, "empty: line 1:"),
        (
            "observe add a --tag -x",
            2,
            "to pass '-x' as the value of '--tag', write '--tag=-x'",
        ),
        ("observe add --from odd", 2, "odd is not valid UTF-8 (byte 0)"),
        (
            "export --out nowhere/copy.jsonl",
            3,
            "cannot write nowhere/copy.jsonl: no such file",
        ),
        ("plan check nowhere.yaml", 3, "cannot read nowhere.yaml: no such file"),
        (
            "run goal --model scripted:nowhere.json",
            3,
            "the script nowhere.json cannot be used",
        ),
        ("import nowhere.jsonl --from folio", 3, "cannot read nowhere.jsonl"),
        ("import nowhere --from colony", 3, "cannot read nowhere"),
        (
            "import list.json --from memory-bank",
            2,
            "list.json is a file; a memory bank is a folder of markdown files",
        ),
        ("restore list.json", 6, "hint: FILE is a file that `folio backup` made"),
        (
            "files cat /scratchbook",
            3,
            "/scratchbook is a folder, not a file\n  hint: `folio files ls /scratchbook` lists it",
        ),
        ("policy set nowhere.json", 3, "nowhere.json: no such file"),
        ("offload nowhere.json", 3, "cannot read nowhere.json"),
        ("evict nowhere.txt", 3, "cannot read nowhere.txt"),
        ("restore nowhere.db", 3, "there is no file nowhere.db"),
        ("backup nowhere/copy.db", 3, "there is no folder nowhere"),
        ("bench --folder nowhere", 3, "cannot measure in nowhere: no such file"),
        ("blob e1 --from 9 --to 3", 2, "--to is before --from, which is 9"),
        ("files grep ''", 2, "'<WORDS>'"),
        ("blob ''", 2, "'<REF>'"),
        ("fork r1 --at ''", 2, "'--at <NODE>'"),
        ("cancel r1 --node ''", 2, "'--node <NODE>'"),
        ("pause r1 --node ''", 2, "'--node <NODE>'"),
        ("continue r1 --node ''", 2, "'--node <NODE>'"),
        ("answer r1 yes --node ''", 2, "'--node <NODE>'"),
        ("budget r1 --node ''", 2, "'--node <NODE>'"),
        ("plan show r1 --node ''", 2, "'--node <NODE>'"),
        ("plan edit r1 --node ''", 2, "'--node <NODE>'"),
        (
            "book add task x --progress abc",
            2,
            "'--progress <NUMBER>': not a number",
        ),
        ("tree --depth -1", 2, "'--depth <N>': not a whole number from 0"),
        ("runs --limit many", 2, "'--limit <LIMIT>': not a whole number\n"),
        (
            "book claim e1 --lease-minutes 0.01",
            2,
            "'--lease-minutes <MINUTES>': not a whole number\n",
        ),
        ("tool ingest null --tool x", 2, "invalid type: null, expected an object"),
        (
            "tool context null --tool x",
            2,
            "invalid type: null, expected an object",
        ),
        (
            "policy set list.json",
            2,
            "the policy cannot be read: invalid type: list, expected an object",
        ),
        (
            "policy set retention=[]",
            2,
            "retention: invalid type: list, expected an object",
        ),
        (
            "policy set retention.archive_after_minutes=abc",
            2,
            "invalid type: string \"abc\", expected a whole number",
        ),
        (
            "token new --role client --expires 30dd",
            2,
            "not of the form 90m, 12h or 30d",
        ),
        ("token new --role client --expires 99999999d", 2, "longer than 36500d"),
        ("offload talk.json --share 2", 2, "share: 2 is not from 0 to 1"),
        ("offload talk.json --share -0.5", 2, "share: -0.5 is not from 0 to 1"),
        ("offload talk.json --share nan", 2, "share: NaN is not from 0 to 1"),
        (
            "offload talk.json --window 0",
            2,
            "window: 0 tokens leave room for nothing",
        ),
        (
            "offload talk.json --summary 0",
            2,
            "summary: 0 tokens leave room for nothing",
        ),
    ] {
        let words: Vec<_> = line.split(' ').map(|word| word.trim_matches('\'')).collect();
        let called = folio.call(&words);
        assert_eq!(called.code, code, "{line}: {called}");
        let told = called.stdout.contains(said) || called.stderr.contains(said);
        assert!(told, "{line}: {called}");
    }
}

#[test]
fn invalid_environment_and_settings_values_name_their_origin() {
    let folio = Folio::new();
    folio.file("plan.yaml", "steps: [{id: a, do: {tool: wait, args: {ms: 1}}}]");
    for (variable, value, line, said) in [
        (
            "FOLIO_TURN",
            "t99",
            "observe add x",
            "FOLIO_TURN: there is no turn t99 in this space",
        ),
        (
            "FOLIO_TURN",
            "soon",
            "runs",
            "FOLIO_TURN: \"soon\" is not a handle like t3",
        ),
        (
            "FOLIO_SPACE",
            "My Space",
            "runs",
            "FOLIO_SPACE: \"My Space\" is not a space name",
        ),
        ("FOLIO_ROLE", "king", "runs", "FOLIO_ROLE: \"king\" is not a role"),
        ("FOLIO_STORE", "f.db", "runs", "FOLIO_STORE: \"f.db\" does not begin"),
        (
            "FOLIO_STORE",
            "f.db",
            "observe add x",
            "FOLIO_STORE: \"f.db\" does not begin",
        ),
        (
            "FOLIO_MODEL",
            "gpt",
            "run goal",
            "FOLIO_MODEL: \"gpt\" does not name a model",
        ),
        (
            "FOLIO_CONFIG",
            "none.toml",
            "runs",
            "FOLIO_CONFIG: cannot read the settings in none.toml",
        ),
    ] {
        let words: Vec<_> = line.split(' ').collect();
        let called = Called::of(folio.command(&words).env(variable, value).output().unwrap());
        // What is named and is not there, or a value that cannot be one.
        let code = if value == "t99" || value == "none.toml" { 3 } else { 2 };
        assert_eq!(called.code, code, "{variable}: {called}");
        assert!(called.stderr.contains(said), "{variable}: {called}");
    }
    for (settings, said) in [
        (
            "space = \"A/B\"",
            "space in FOLDER/folio.toml: \"A/B\" is not a space name",
        ),
        (
            "models = \"gpt\"",
            "folio.toml:1:10: invalid type: string \"gpt\", expected a table",
        ),
        ("mcp = []", "folio.toml:1:7: invalid type: list, expected a table"),
        ("mcp.x.time_s = \"long\"", "expected a whole number"),
        ("mcp.x.tools = \"all\"", "expected a list"),
    ] {
        folio.settings(settings);
        let seen = folio.seen(&["runs"]);
        assert!(seen.contains(said) && seen.ends_with("= 2\n"), "{settings}: {seen}");
    }
}

#[test]
fn invalid_model_setting_does_not_block_a_run_without_models() {
    let folio = Folio::new();
    folio.file("plan.yaml", "steps: [{id: a, do: {tool: wait, args: {ms: 1}}}]");
    folio.file("prices.toml", "[openai]\nm = \"dear\"\n");
    for (settings, said) in [
        ("model = \"gpt\"", "\"gpt\" does not name a model"),
        (
            "[models]\ndefault = \"ollama:m\"\nprices = \"prices.toml\"",
            "prices.toml:2:5: the prices cannot be read: invalid type: string \"dear\", expected a table",
        ),
    ] {
        folio.settings(settings);
        for line in ["run --plan plan.yaml", "resume"] {
            let called = folio.call(&line.split(' ').collect::<Vec<_>>());
            assert_eq!(called.code, 0, "{line}: {called}");
            assert!(called.stderr.contains(said), "{line}: {called}");
        }
        for line in [
            "run goal",
            "run --plan plan.yaml --model gpt",
            "run --plan plan.yaml --record cassette",
            "resume --model gpt",
        ] {
            let called = folio.call(&line.split(' ').collect::<Vec<_>>());
            assert_eq!(called.code, 2, "{line}: {called}");
            let of_the_call = "\"gpt\" does not name a model";
            let said = if line.ends_with("--model gpt") {
                of_the_call
            } else {
                said
            };
            assert!(called.stderr.contains(said), "{line}: {called}");
            assert!(!called.stderr.contains("going on without a model"), "{line}: {called}");
        }
    }
}

/// A text that is slightly larger than allowed.
fn too_large() -> String {
    " ".repeat(20 * 1024 * 1024 + 1)
}

#[test]
fn oversized_input_file_is_refused_with_its_limit() {
    let folio = Folio::new();
    folio.file("large", too_large());
    for line in [
        "run --plan large",
        "plan check large",
        "policy set large",
        "observe add --from large",
        "tool ingest large",
    ] {
        let words: Vec<_> = line.split(' ').collect();
        let called = folio.call(&words);
        assert_eq!(called.code, 2, "{line}: {called}");
        assert!(
            called.stderr.contains("large has more than 20971520 bytes"),
            "{line}: {called}"
        );
    }
}

#[test]
fn key_given_twice_is_refused_by_its_name() {
    let folio = Folio::new();
    folio.file(
        "plan.yaml",
        "inputs: {s: {type: string}}\nsteps: [{id: a, do: {tool: text, args: {op: echo, value: '{{ inputs.s }}'}}}]",
    );
    for (line, said) in [
        (
            "run --plan plan.yaml --input s=1 --input s=2",
            "--input gives s more than one value",
        ),
        (
            "observe add x --context a=1 --context a=2",
            "--context gives a more than one value",
        ),
        (
            "observe add x --metadata a=1 --metadata a=1",
            "--metadata gives a more than one value",
        ),
        (
            "policy set strict_types=nobody strict_types=tools",
            "gives strict_types more than one value",
        ),
    ] {
        let words: Vec<_> = line.split(' ').collect();
        let called = folio.call(&words);
        assert_eq!(called.code, 2, "{line}: {called}");
        assert!(called.stderr.contains(said), "{line}: {called}");
    }
}

#[test]
fn negative_number_is_accepted_as_observation_text() {
    let folio = Folio::new();
    let noted = folio.json(&["observe", "add", "-5"]);
    assert_eq!(noted["content"], "-5");
}

#[test]
fn not_found_error_mentions_a_missing_store_file() {
    let folio = Folio::new();
    let called = folio.call(&["--store", "sqlite:typo.db", "--json", "show", "r1"]);
    assert_eq!(called.code, 3, "{called}");
    assert!(called.stderr.contains("there is no file typo.db yet"), "{called}");
    folio.settings("space = 5\n");
    let called = folio.call(&["runs"]);
    assert_eq!(called.code, 2, "{called}");
    assert!(
        called.stderr.contains("expected a string") && !called.stderr.contains("hint"),
        "{called}"
    );
}
