use std::sync::Arc;

use folio_engine::{Event, NodeId, NodeResult, Outcome, Output};
use folio_memory::{Actor, Change, EntryKind, NewEntry, PageId, Role, RunId, SpaceName, Timestamp};
use folio_memory::{EntryFields, EntryId, Owner, Trust};
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
fn keys_tokens_and_passwords_are_replaced_by_their_kind() {
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
            "?password=abcd1234efgh&user=me".to_owned(),
            "?password=[redacted:assigned_secret]&user=me",
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(clean(&text), wanted);
    }
}

#[test]
fn a_private_key_is_replaced_whole_even_if_it_is_cut_off() {
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
fn what_only_looks_like_a_secret_stays() {
    let fine = [
        "mail me@example.com from 10.0.0.1 or call +1 (415) 555-0132",
        "the marker -----BEGIN RSA PRIVATE KEY----- alone is no key",
        "grep -rn 'sk-learn-contrib-example-names-of-things'",
        r#"["http://localhost:8080","who@example.com"]"#,
        "https://{user}:{password}@host, ssh://git@host/x.git, https://user:password@host",
        "pub const ERROR_INVALID_PASSWORD: WIN32_ERROR = 86; struct Login { secret: auth::Secret12 }",
        "let password = request.form.password1; let token: String = next_token();",
        "api_key = os.environ[\"API_KEY_2\"]; secret = $SECRET_NAME_2",
        "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ];
    for text in fine {
        assert_eq!(clean(text), text);
    }
}

#[test]
fn redacting_twice_is_redacting_once() {
    for text in ["https://a:b1@h", "password=abcdefgh12345", &github_token()] {
        let once = clean(text);
        let mut cleaner = Cleaner::default();
        assert_eq!(cleaner.cleaned(&once, "content"), None, "{once}");
    }
}

#[test]
fn a_key_of_an_object_says_that_its_value_is_a_secret() {
    let mut value =
        json!({"db_password": "abcdefgh12345", "password": "none", "n": 1, "pages": {"next_token": "abcdefgh12345"}});
    Cleaner::default().value(&mut value, "metadata");
    let wanted = json!({"db_password": "[redacted:assigned_secret]", "password": "none", "n": 1, "pages": {"next_token": "abcdefgh12345"}});
    assert_eq!(value, wanted);
}

#[test]
fn text_between_bytes_that_are_no_text_is_cleaned_too() {
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
fn no_field_of_an_entry_carries_a_secret_to_the_disk() {
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

    let warnings = clean_commit(&mut commit);

    let written = serde_json::to_string(&commit.record).unwrap();
    assert!(!written.contains(&token), "{written}");
    let fields: Vec<_> = warnings.iter().map(|w| w.given.as_str()).collect();
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
fn events_follow_a_body_to_its_new_hash() {
    let token = github_token();
    let body = Blob::new(format!("\"{token}\"").into_bytes());
    let mut result = NodeResult::new(Outcome::Ok, &token);
    result.output = Output::Blob {
        hash: body.hash.0.clone(),
        bytes: 42,
    };
    let run = RunId::derived(&["r"]);
    let node = NodeId::root(run);
    let shared = Arc::new(json!({ "keep": token }));
    let mut inline = NodeResult::new(Outcome::Ok, "");
    inline.output = Output::Inline(Arc::clone(&shared));
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
    };
    let record = Record {
        run: Some(append),
        ..Record::of(Vec::new())
    };
    let mut commit = commit_of(record, vec![body]);

    clean_commit(&mut commit);

    let clean = Blob::new(b"\"[redacted:github_token]\"".to_vec());
    assert_eq!(commit.blobs[0].hash, clean.hash);
    let Event::Finished { result, .. } = &commit.record.run.as_ref().unwrap().events[0] else {
        panic!()
    };
    assert_eq!(
        result.output,
        Output::Blob {
            hash: clean.hash.0,
            bytes: 25
        }
    );
    assert!(!serde_json::to_string(&commit.record).unwrap().contains(&token));
    assert_eq!(*shared, json!({ "keep": token }), "the value in memory is not touched");
}

#[test]
fn a_clean_value_is_left_where_it_is() {
    let value = Arc::new(json!({ "files": ["a", "b"] }));
    let mut result = NodeResult::new(Outcome::Ok, "");
    result.output = Output::Inline(Arc::clone(&value));
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
    };
    let mut commit = commit_of(
        Record {
            run: Some(append),
            ..Record::of(Vec::new())
        },
        Vec::new(),
    );
    assert_eq!(clean_commit(&mut commit), []);
    assert_eq!(Arc::strong_count(&value), 2, "neither copied nor replaced");
    let _: &Value = &value;
}
