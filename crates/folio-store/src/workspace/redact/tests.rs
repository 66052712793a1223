mod persons;
mod spellings;
mod unseen;

use std::sync::Arc;

use folio_engine::{Event, NodeId, NodeResult, Outcome, Output};
use folio_memory::{Actor, Change, EntryKind, NewEntry, PageId, Role, RunId, SpaceName, Timestamp};
use folio_memory::{EntryFields, EntryId, Owner, Trust};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::commit::{Blob, Commit, Record, RunAppend};

fn clean(text: &str) -> String {
    let mut text = text.to_owned();
    Cleaner::default().text(&mut text, "content");
    text
}

/// Assembled at run time, so that no scanner takes this file for a leak.
fn github_token() -> String {
    ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat()
}

#[test]
fn keys_tokens_and_passwords_are_redacted_with_their_kind() {
    let random = "0123456789abcdefghijABCDEFGHIJ012345";
    let cases = [
        (format!("see {}.", github_token()), "see [redacted:github_token]."),
        (["AKIA", "IOSFODNN7EXAMPLE"].concat(), "[redacted:aws_access_key]"),
        (format!("sk-{random}"), "[redacted:openai_key]"),
        (format!("sk-proj-{random}"), "[redacted:openai_key]"),
        (format!("xoxb-{random}"), "[redacted:slack_token]"),
        (["sk_", "live_0123456789abcdef"].concat(), "[redacted:stripe_key]"),
        (["rk_", "test_0123456789abcdef"].concat(), "[redacted:stripe_key]"),
        (format!("AIza{}", &random[..35]), "[redacted:google_api_key]"),
        (format!("eyJ{random}.eyJ{random}.{random}"), "[redacted:jwt]"),
        (format!("123456789:{random}"), "[redacted:telegram_token]"),
        (format!("AccountKey={random}"), "[redacted:azure_connection_string]"),
        (format!("github_pat_{random}"), "[redacted:github_token]"),
        (format!("sk-ant-api03-{random}"), "[redacted:openai_key]"),
        (format!("glpat-{random}"), "[redacted:access_token]"),
        (
            format!("use {} here", crate::AccessToken::draw().reveal()),
            "use [redacted:access_token] here",
        ),
        (
            format!("export FOLIO_TOKEN={random} MY_TOKEN='{random}'"),
            "export FOLIO_TOKEN=[redacted:assigned_secret] MY_TOKEN='[redacted:assigned_secret]'",
        ),
        (
            "postgres://me:s3cret@db/x".to_owned(),
            "postgres://[redacted:url_credentials]@db/x",
        ),
        (
            format!("aws_secret_access_key = {random}"),
            "aws_secret_access_key = [redacted:assigned_secret]",
        ),
        (
            format!("Authorization: Bearer {random}"),
            "Authorization: Bearer [redacted:assigned_secret]",
        ),
        (
            "password: \"Tr0ub4dor&3\"".to_owned(),
            "password: \"[redacted:assigned_secret]\"",
        ),
        (
            r#"{\"api_key\": \"abcd1234efgh\"}"#.to_owned(),
            r#"{\"api_key\": \"[redacted:assigned_secret]\"}"#,
        ),
        (
            r#""api_key":["abcd1234efgh", "ijkl5678mnop"], "x":["qrst9012uvwx"]"#.to_owned(),
            r#""api_key":["[redacted:assigned_secret]", "[redacted:assigned_secret]"], "x":["qrst9012uvwx"]"#,
        ),
        (
            r#"{\"passwords\": 1, \"password\": [\n  \"abcd1234efgh\"]}"#.replace("\\n", "\n"),
            "{\\\"passwords\\\": 1, \\\"password\\\": [\n  \\\"[redacted:assigned_secret]\\\"]}",
        ),
        (
            "?password=abcd1234efgh&user=me".to_owned(),
            "?password=[redacted:assigned_secret]&user=me",
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(clean(&text), wanted);
    }
}

#[test]
fn private_key_is_redacted_whole_even_if_truncated() {
    let key = format!(
        "-----BEGIN RSA PRIVATE {}-----\n{}\n",
        "KEY",
        "MIIEpAIBAAKCAQEA0Z".repeat(4)
    );
    let whole = format!("a\n{key}-----END RSA PRIVATE KEY-----\nb");
    assert_eq!(clean(&whole), "a\n[redacted:private_key]\nb");
    assert_eq!(clean(&key), "[redacted:private_key]");
    let escaped = json!({ "file": whole }).to_string();
    assert_eq!(
        clean(&escaped),
        json!({"file": "a\n[redacted:private_key]\nb"}).to_string()
    );
}

#[test]
fn text_that_only_resembles_a_secret_is_not_redacted() {
    let fine = [
        "mail me@example.com from 10.0.0.1 or call +1 (415) 555-0132",
        "the marker -----BEGIN RSA PRIVATE KEY----- alone is no key",
        "grep -rn 'sk-learn-contrib-example-names-of-things'",
        r#"["http://localhost:8080","who@example.com"]"#,
        "https://{user}:{password}@host, ssh://git@host/x.git, https://user:password@host",
        "pub const ERROR_INVALID_PASSWORD: WIN32_ERROR = 86; struct Login { secret: auth::Secret12 }",
        "let password = request.form.password1; let token: String = next_token();",
        "api_key = os.environ[\"API_KEY_2\"]; secret = $SECRET_NAME_2",
        "folio_store_sqlite_backup_of_a_store_in_use_2_is_whole, folio_CLI",
        "next_token=abc123def456, MAX_TOKENS=4096k, TOKEN=$FOLIO_TOKEN_2",
        "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ];
    for text in fine {
        assert_eq!(clean(text), text);
    }
}

#[test]
fn redacting_text_twice_changes_nothing_more() {
    for text in ["https://a:b1@h", "password=abcdefgh12345", &github_token()] {
        let once = clean(text);
        let mut cleaner = Cleaner::default();
        assert_eq!(cleaner.cleaned(&once, "content"), None, "{once}");
    }
}

#[test]
fn value_under_a_secret_object_key_is_redacted() {
    let mut value =
        json!({"db_password": "abcdefgh12345", "password": "none", "n": 1, "pages": {"next_token": "abcdefgh12345"}});
    Cleaner::default().value(&mut value, "metadata");
    let wanted = json!({"db_password": "[redacted:assigned_secret]", "password": "none", "n": 1, "pages": {"next_token": "abcdefgh12345"}});
    assert_eq!(value, wanted);
    // The name of a list applies to each of its items (M7.6.48).
    let mut value = json!({"api_key": ["abcdefgh12345", ["ijklmnop67890"], "none", 1], "others": ["abcdefgh12345"]});
    assert!(Cleaner::default().is_needed_for(&value));
    Cleaner::default().value(&mut value, "context");
    let gone = "[redacted:assigned_secret]";
    assert_eq!(
        value,
        json!({"api_key": [gone, [gone], "none", 1], "others": ["abcdefgh12345"]})
    );
}

#[test]
fn idempotency_key_with_a_secret_is_hashed_m7_6_48() {
    let key_of = |key: &str, mode| {
        let mut commit = commit_of(Record::of(Vec::new()), Vec::new());
        commit.idempotency_key = Some(key.to_owned());
        clean_commit(&mut commit, mode);
        commit.idempotency_key.unwrap()
    };
    let token = github_token();
    let (once, other) = (
        key_of(&token, Redaction::Secrets),
        key_of(&format!("{token}/2"), Redaction::Secrets),
    );
    assert!(!once.contains(&token) && once != other);
    assert_eq!(once, key_of(&token, Redaction::Secrets), "it names the same write");
    assert_eq!(key_of("turn-1/2", Redaction::Secrets), "turn-1/2");
    assert_eq!(key_of(&token, Redaction::Off), token);
}

#[test]
fn secret_between_non_utf8_bytes_is_redacted() {
    let mut bytes = vec![0xff, 0xfe];
    bytes.extend(github_token().bytes());
    bytes.push(0xff);
    let clean = Cleaner::default().bytes(&bytes, "body").unwrap();
    assert_eq!(
        clean,
        [b"\xff\xfe".as_slice(), b"[redacted:github_token]", b"\xff"].concat()
    );
    assert_eq!(Cleaner::default().bytes(&[0xff, b'x'], "body"), None);
}

fn commit_of(record: Record, blobs: Vec<Blob>) -> Commit {
    let (space, actor) = (SpaceName::main(), Actor::new(Role::Human, ""));
    Commit {
        space,
        at: Timestamp::default(),
        actor,
        idempotency_key: None,
        expected: Vec::new(),
        record,
        blobs,
    }
}

#[test]
fn text_fields_of_an_added_entry_are_redacted_with_warnings() {
    let token = github_token();
    let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::User);
    fields.title.clone_from(&token);
    fields.body.clone_from(&token);
    fields.phase = Some(token.clone());
    fields.tags = Tag::parse_all([token.as_str()]).unwrap();
    fields.parts = Some(json!([token]));
    fields.context = Some(json!({ "a": { "b": token } }));
    fields.metadata = Some(json!({ token.as_str(): 1 }));
    let (id, page) = (EntryId::derived(&["e"]), PageId::derived(&["p"]));
    let entry = NewEntry {
        id,
        page,
        kind: EntryKind::Observation,
        fields,
    };
    let mut commit = commit_of(Record::of(vec![Change::AddEntry(Box::new(entry))]), Vec::new());
    commit.record.reason = Some(token.clone());

    let warnings = clean_commit(&mut commit, Redaction::Secrets);

    let written = serde_json::to_string(&commit.record).unwrap();
    assert!(!written.contains(&token), "{written}");
    let fields: Vec<_> = warnings.iter().map(|w| w.given.as_str().unwrap()).collect();
    assert_eq!(
        fields,
        [
            "title", "content", "tags", "phase", "parts", "context", "metadata", "reason"
        ]
    );
    assert!(
        warnings
            .iter()
            .all(|w| w.code == "secret_redacted" && w.used == "[redacted:github_token]")
    );
}

#[test]
fn event_names_the_new_hash_of_a_redacted_body() {
    let token = github_token();
    let body = Blob::new(format!("\"{token}\"").into_bytes());
    let mut result = NodeResult::new(Outcome::Ok, &token);
    result.output = Output::Blob {
        hash: body.hash().0.clone(),
        bytes: 42,
    };
    let run = RunId::derived(&["r"]);
    let node = NodeId::root(run);
    let shared = Arc::new(json!({ "keep": token }));
    let mut inline = NodeResult::new(Outcome::Ok, "");
    inline.output = Output::of(Arc::clone(&shared));
    let events = vec![
        Event::Finished {
            node,
            result: Box::new(result),
        },
        Event::Finished {
            node,
            result: Box::new(inline),
        },
    ];
    let append = RunAppend {
        run,
        events,
        status: None,
        title: Some(token.clone()),
        so_far: None,
    };
    let record = Record {
        run: Some(append),
        ..Record::of(Vec::new())
    };
    let mut commit = commit_of(record, vec![body]);

    clean_commit(&mut commit, Redaction::Secrets);

    let clean = Blob::new(b"\"[redacted:github_token]\"".to_vec());
    assert_eq!(commit.blobs[0].hash(), clean.hash());
    let Event::Finished { result, .. } = &commit.record.run.as_ref().unwrap().events[0] else {
        panic!()
    };
    assert_eq!(
        result.output,
        Output::Blob {
            hash: clean.hash().0.clone(),
            bytes: 25
        }
    );
    assert!(!serde_json::to_string(&commit.record).unwrap().contains(&token));
    assert_eq!(*shared, json!({ "keep": token }), "the value in memory is not touched");
}

#[test]
fn event_value_without_a_secret_is_not_copied() {
    let value = Arc::new(json!({ "files": ["a", "b"] }));
    let mut result = NodeResult::new(Outcome::Ok, "");
    result.output = Output::of(Arc::clone(&value));
    let run = RunId::derived(&["r"]);
    let events = vec![Event::Finished {
        node: NodeId::root(run),
        result: Box::new(result),
    }];
    let append = RunAppend {
        run,
        events,
        status: None,
        title: None,
        so_far: None,
    };
    let mut commit = commit_of(
        Record {
            run: Some(append),
            ..Record::of(Vec::new())
        },
        Vec::new(),
    );
    assert_eq!(clean_commit(&mut commit, Redaction::Secrets), []);
    assert_eq!(Arc::strong_count(&value), 2, "neither copied nor replaced");
    let _: &Value = &value;
}

fn personal(text: &str) -> Vec<&'static str> {
    let found = personal::personal_in(text);
    found.iter().filter_map(personal::kind_of).map(Pii::as_str).collect()
}

#[test]
fn personal_data_is_detected_by_format_and_check_digits_m7_6_48() {
    let cases = [
        ("write to jane.doe+news@mail.example.org today", "email"),
        ("Café: user@example.com.", "email"),
        ("call +49 30 1234 5678 now", "phone"),
        ("call +14155550132", "phone"),
        ("call (415) 555-0132.", "phone"),
        ("or 415-555-0132, she said", "phone"),
        ("+33 6 12 34 56 78", "phone"),
        ("06 12 34 56 78", "phone"),
        ("card 4111 1111 1111 1111", "credit_card"),
        ("card 378282246310005 exp 12/27", "credit_card"),
        ("IBAN DE89 3704 0044 0532 0130 00", "iban"),
        ("GB82WEST12345698765432", "iban"),
        ("ssn 536-90-4399", "national_id"),
        ("from 93.184.216.34:443", "ip_address"),
        ("2606:2800:220:1:248:1893:25c8:1946", "ip_address"),
        ("eth0 00:1A:2B:3C:4D:5E", "mac_address"),
    ];
    for (text, wanted) in cases {
        assert_eq!(personal(text), [wanted], "{text}");
    }
}

#[test]
fn text_that_only_resembles_personal_data_is_not_flagged_m7_6_48() {
    let fine = [
        "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b on 2025-11-05T10:30:00.123456789Z",
        "listening on 127.0.0.1:8080, 10.0.0.12, 192.168.1.4, ::1 and fe80::1",
        "crate 1.2.3.4-beta, v10.20.30.40, serde@1.0.200, icon@2x.png, git@github.com:a/b.git",
        "card 4111 1111 1111 1112 has a wrong check digit, so has DE89 3704 0044 0532 0130 01",
        "123e4567-e89b-12d3-a456-426614174000 01J0000000000000000000000Z 1700000000123",
        "took 12345678 ns for 1000000 rows, 99.9999 % of 20251105-103000",
        "00:10:20 until 12:34:56, ratio 16:9, a::b::c, std::net::Ipv6Addr",
        "ISBN 978-3-16-148410-0, 0.8414709848, -1234567890, +1234567 lines",
    ];
    for text in fine {
        assert_eq!(personal(text), [""; 0], "{text}");
    }
}

#[test]
fn redaction_mode_decides_what_is_replaced_m7_6_48() {
    let text = format!("{} of jane@example.org", github_token());
    let with = |mode| {
        let mut cleaner = Cleaner::new(mode);
        let clean = cleaner.cleaned(&text, "content").unwrap_or_else(|| text.clone());
        (clean, cleaner.take_pii(), cleaner.into_warnings().len())
    };
    assert_eq!(with(Redaction::Off), (text.clone(), vec![Pii::Email], 0));
    assert_eq!(
        with(Redaction::Secrets),
        (
            "[redacted:github_token] of jane@example.org".to_owned(),
            vec![Pii::Email],
            1
        )
    );
    assert_eq!(
        with(Redaction::Pii),
        ("[redacted:github_token] of [redacted:email]".to_owned(), vec![], 2)
    );
}

#[test]
fn pii_field_is_set_by_detection_never_by_the_writer_m7_6_48() {
    let mut fields = EntryFields::new(EntryKind::Note, Owner::agent(), Trust::User);
    fields.pii = vec![Pii::Iban];
    fields.context = Some(json!({ "who": { "mail": "jane@example.org" } }));
    let (id, page) = (EntryId::derived(&["e"]), PageId::derived(&["p"]));
    let entry = NewEntry {
        id,
        page,
        kind: EntryKind::Note,
        fields,
    };
    let patch = Change::PatchEntry {
        entry: id,
        fields: vec![folio_memory::FieldChange::Body("+49 30 1234 5678".to_owned())],
        expected_version: None,
        base_version: None,
    };
    let mut commit = commit_of(Record::of(vec![Change::AddEntry(Box::new(entry)), patch]), Vec::new());
    clean_commit(&mut commit, Redaction::Secrets);
    let [Change::AddEntry(new), Change::PatchEntry { fields, .. }] = &commit.record.changes[..] else {
        panic!()
    };
    assert_eq!(new.fields.pii, [Pii::Email]);
    assert_eq!(fields[1], folio_memory::FieldChange::PiiFound(vec![Pii::Phone]));
}

/// Each of these made the search read the rest of the text once for each name in it, which takes hours.
#[test]
fn long_texts_of_nothing_but_names_are_searched_in_one_pass() {
    for piece in [
        "password=",
        "pwd=",
        "secret=",
        "api-key=",
        "password=a",
        "password:",
        "\"password\":",
        "token=[\"",
        "Bearer ",
        "<password>",
        "--password ",
        "authorization: basic ",
        "sk-",
        "AKIA",
        "eyJ",
        "eyJhbGciOi.",
        "https://u:",
        "a@",
        "a@b.",
        "+49 30 ",
        "4111 ",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-u a:",
        "password=[\"a\",",
        "key\\\"=\\\"",
        "DE44 5001 ",
    ] {
        let mut text = piece.repeat(200_000 / piece.len());
        Cleaner::new(Redaction::Pii).text(&mut text, "body");
    }
}

#[test]
fn own_secrets_are_redacted_in_every_redaction_mode_m7_6_48() {
    for secret in ["plain-words-of-a-proxy", "plain-words", "short", "a+b(c)[d]|e"] {
        keep_out(secret);
    }
    let with = |mode, text: &str| {
        let mut cleaner = Cleaner::new(mode);
        let mut text = text.to_owned();
        cleaner.text(&mut text, "body");
        (text, cleaner.into_warnings().len())
    };
    for mode in [Redaction::Off, Redaction::Secrets, Redaction::Pii] {
        let (text, warnings) = with(
            mode,
            "it says plain-words-of-a-proxy, plain-words, short and a+b(c)[d]|e",
        );
        let own = "[redacted:own_secret]";
        assert_eq!(text, format!("it says {own}, {own}, short and {own}"), "{mode:?}");
        assert_eq!(warnings, 1, "one for each field and kind");
        assert!(Cleaner::new(mode).is_needed_for(&json!({"a": ["plain-words"]})));
    }
    // Texts are shortened before they come here.
    keep_out("Zw9-kq7_Lx3.Vt5");
    let cut = [
        "and so on: Zw9-kq7_L",
        "Zw9-kq7_Lx…",
        "…q7_Lx3.Vt5 and so on",
        "x\n… 9 bytes left out …\n7_Lx3.Vt5",
    ];
    for text in cut {
        let (text, _) = with(Redaction::Off, text);
        assert!(text.contains("[redacted:own_secret]") && !text.contains("Lx"), "{text}");
    }
    assert_eq!(with(Redaction::Off, "in the middle Zw9-kq7_L stays").1, 0);
    // Headers and addresses give it other forms.
    for user in ["", "u", "us", "use"] {
        let basic = data_encoding::BASE64.encode(format!("{user}:plain-words-of-a-proxy").as_bytes());
        let (text, _) = with(Redaction::Off, &format!("Authorization: Basic {basic}"));
        assert!(text.contains("[redacted:own_secret]"), "{text}");
    }
    let (text, _) = with(Redaction::Off, "?key=a%2Bb%28c%29%5Bd%5D%7Ce&x=1");
    assert_eq!(text, "?key=[redacted:own_secret]&x=1");
    // A pattern that matches more than the known secret still redacts all of its match.
    let address = ["https://bot:", "plain-words@host/"].concat();
    assert!(!with(Redaction::Secrets, &address).0.contains("plain"));
    let long = format!("{}plain-words{}", "x ".repeat(300_000), " y".repeat(300_000));
    assert!(!with(Redaction::Secrets, &long).0.contains("plain"));
    let mut pieces = CleanPieces::new(long.as_bytes(), Redaction::Off);
    let mut all = Vec::new();
    while let Some(piece) = pieces.next().unwrap() {
        all.extend(piece);
    }
    assert!(!String::from_utf8(all).unwrap().contains("plain"));
}

#[test]
fn environment_variable_is_redacted_if_name_or_value_is_secretive_m7_6_48() {
    let drawn = "Zq3vT9xW1mK7pL2nR8sD4fG6";
    for (name, value, is_kept_out) in [
        ("MENDER_KEY", "open-the-mender", true),
        ("mender_token", "open-the-other", true),
        ("DB_PASSWORD", "open-the-store", true),
        ("KEY", "short", false),
        ("REGION", "eu-central-1b", false),
        ("HOST", "node-17-of-Eu-west-1.internal", false),
        ("HOME_OF_ALL", "/srv/Data17/of-some-longer-name", false),
        ("CONFIG", drawn, true),
    ] {
        keep_out_variable(name, value);
        let mut text = value.to_owned();
        Cleaner::new(Redaction::Off).text(&mut text, "body");
        assert_eq!(text != value, is_kept_out, "{name}: {text}");
    }
}

#[test]
fn cleaned_json_does_not_depend_on_key_order() {
    let stored = |text: &str| {
        let mut value: Value = serde_json::from_str(text).unwrap();
        Cleaner::default().value(&mut value, "context");
        value.to_string()
    };
    let one = stored(r#"{"b": [{"y": 1, "x": 2}], "a": {"d": 1, "c": 2}}"#);
    assert_eq!(one, stored(r#"{"a": {"c": 2, "d": 1}, "b": [{"x": 2, "y": 1}]}"#));
    assert_eq!(one, r#"{"a":{"c":2,"d":1},"b":[{"x":2,"y":1}]}"#);
}

#[test]
fn tag_or_owner_too_long_after_redaction_is_replaced_m7_6_48() {
    let mut cleaner = Cleaner::default();
    let key = "AKIAIOSFODNN7EXAMPLQ";
    let mut tags = [
        Tag::parse(&format!("{}/{key}", "x".repeat(43))).unwrap(),
        Tag::parse("wine").unwrap(),
    ];
    cleaner.tags(&mut tags);
    assert_eq!(tags.each_ref().map(Tag::as_str), ["redacted", "wine"]);
    let mut owner = Owner::parse(&format!("tool:{}", github_token())).unwrap();
    cleaner.owner(&mut owner);
    assert_eq!(owner.as_str(), "tool:[redacted:github_token]");
    let mut owner = Owner::parse(&format!("{}{key}", "x/".repeat(53))).unwrap();
    cleaner.owner(&mut owner);
    assert_eq!(owner, Owner::agent());
}

#[test]
fn owner_address_is_not_flagged_but_redacted_in_pii_mode() {
    let mut owner = Owner::parse("user:bob@example.com").unwrap();
    let mut cleaner = Cleaner::default();
    cleaner.owner(&mut owner);
    assert_eq!((owner.as_str(), cleaner.take_pii()), ("user:bob@example.com", vec![]));
    Cleaner::new(Redaction::Pii).owner(&mut owner);
    assert_eq!(owner.as_str(), "user:[redacted:email]");
}

proptest! {
    #[test]
    fn no_pattern_matches_what_counts_as_a_plain_word_m7_6_48(word in "[a-z_]{0,16}|(gh[a-z]|sk|pk_live|xox[a-z]|hf|npm|folio|pwd|token|secret)[_a-z]{0,9}") {
        prop_assume!(is_plain_word(&word));
        prop_assert_eq!(secrets_in(&word), Vec::new());
        prop_assert_eq!(personal::personal_in(&word), Vec::new());
    }
}
