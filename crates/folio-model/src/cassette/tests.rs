use serde_json::json;

use super::*;
use crate::model::{Message, Role, Speaker, StopCause, ToolDescription, Usage};
use crate::scripted::{ScriptedModel, When};

fn request(text: &str) -> Request {
    Request {
        role: Role::Executor,
        messages: vec![Message {
            speaker: Speaker::User,
            text: text.to_owned(),
            tool_calls: Vec::new(),
            answers: None,
        }],
        tools: Vec::new(),
        answer_schema: None,
        tokens_max: 100,
        temperature: Some(0.2),
        idempotency_key: "one".to_owned(),
    }
}

async fn ask(model: &dyn Model, request: &Request) -> Result<Reply, ModelError> {
    model.reply(request, &mut |_| {}).await
}

/// A cassette of two answers to one request and one to another.
async fn recorded() -> Cassette {
    let usage = Usage {
        tokens_in: 3,
        ..Usage::default()
    };
    let script = ScriptedModel::new([
        When::any().contains("dice").text("six").usage(usage),
        When::any().contains("dice").text("two"),
        When::any().contains("coin").calls([("flip", json!({"b": 1, "a": 2}))]),
        When::any().error(ModelErrorKind::Unavailable),
    ]);
    let recording = RecordingModel::new(Arc::new(script));
    for text in ["roll the dice", "roll the dice", "flip a coin"] {
        ask(&recording, &request(text)).await.unwrap();
    }
    assert!(
        ask(&recording, &request("nothing")).await.is_err(),
        "errors are not kept"
    );
    recording.cassette()
}

#[tokio::test]
async fn cassette_replays_recorded_replies_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cassette.json");
    let cassette = recorded().await;
    cassette.write(&path).unwrap();
    let once = std::fs::read(&path).unwrap();
    cassette.write(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), once, "the same bytes");
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        1,
        "nothing is left beside it"
    );

    let read = Cassette::read(&path).unwrap();
    assert_eq!(read, cassette);
    let replaying = ReplayingModel::new(read);
    let mut texts = Vec::new();
    for _ in 0..3 {
        // Another attempt has another key.
        let mut again = request("roll the dice");
        again.idempotency_key = format!("{}", texts.len());
        texts.push(ask(&replaying, &again).await.unwrap().text);
    }
    assert_eq!(texts, ["six", "two", "two"]);
    let flipped = ask(&replaying, &request("flip a coin")).await.unwrap();
    assert_eq!(
        (flipped.tool_calls[0].tool.as_str(), flipped.stop),
        ("flip", StopCause::ToolCalls)
    );
}

#[tokio::test]
async fn unrecorded_request_error_shows_difference_to_nearest_recording() {
    let replaying = ReplayingModel::new(recorded().await);
    let error = ask(&replaying, &request("roll the ball")).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Invalid);
    let said = error.to_string();
    assert!(
        said.ends_with(
            "they first differ at messages[0].text: recorded is \"roll the dice\", asked is \"roll the ball\""
        ),
        "{said}"
    );
    let mut other = request("roll the dice");
    other.tokens_max = 7;
    let said = ask(&replaying, &other).await.unwrap_err().to_string();
    assert!(
        said.ends_with("tokens_max: recorded is \"100\", asked is \"7\""),
        "{said}"
    );
    let empty = ReplayingModel::new(Cassette::default());
    assert!(
        ask(&empty, &other)
            .await
            .unwrap_err()
            .to_string()
            .ends_with("nothing is recorded")
    );
}

#[tokio::test]
async fn hand_edited_cassette_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cassette.json");
    recorded().await.write(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("roll the dice", "roll the ball")).unwrap();
    let error = Cassette::read(&path).unwrap_err().to_string();
    assert!(error.contains("record it again"), "{error}");
}

#[tokio::test]
async fn rerecorded_cassette_keeps_its_symlink_and_file_mode() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (kept, link) = (folder.path().join("kept.json"), folder.path().join("link.json"));
    std::fs::write(&kept, "").unwrap();
    std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o600)).unwrap();
    symlink("kept.json", &link).unwrap();
    let cassette = recorded().await;
    cassette.write(&link).unwrap();
    assert!(link.is_symlink());
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(Cassette::read(&kept).unwrap(), cassette);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn request_hash_ignores_json_key_order() {
    let with = |schema: &str| {
        let mut request = request("x");
        request.tools = vec![ToolDescription {
            name: "t".to_owned(),
            description: "".into(),
            args_schema: Arc::new(serde_json::from_str(schema).unwrap()),
        }];
        request
    };
    let (one, other) = (with(r#"{"b": 1, "a": 2}"#), with(r#"{"a": 2, "b": 1}"#));
    let as_it_is = |request: &Request| serde_json::to_string(request).unwrap();
    assert_ne!(
        as_it_is(&one),
        as_it_is(&other),
        "this build keeps the order of keys; were it otherwise, tests of order would show nothing"
    );
    assert_eq!(
        hash(&request_as_json(&one).to_string()),
        hash(&request_as_json(&other).to_string())
    );
}

#[tokio::test]
async fn request_of_another_run_finds_the_reply_despite_other_ids() {
    let about = |one: &str, other: &str| {
        request(&format!(
            "<data-{one}>\nfine\n</data-{one}>\nsee {other} and e42, not {one}"
        ))
    };
    let (first, second) = ("00112233445566aa", "ffeeddccbbaa0099");
    let script = ScriptedModel::new([When::any().text("yes"), When::any().text("exactly")]);
    let recording = RecordingModel::new(Arc::new(script));
    for request in [about(first, second), about(second, first)] {
        ask(&recording, &request).await.unwrap();
    }
    let replaying = ReplayingModel::new(recording.cassette());
    let exact = ask(&replaying, &about(second, first)).await.unwrap();
    assert_eq!(exact.text, "exactly", "the same ids come first");
    let (third, fourth) = ("0a0a0a0a0a0a0a0a", "0b0b0b0b0b0b0b0b");
    assert!(ask(&replaying, &about(third, fourth)).await.is_ok());
    // Which ids are the same as which others is part of what is asked.
    let error = ask(&replaying, &about(third, third)).await.unwrap_err();
    assert!(error.to_string().contains("is not recorded"), "{error}");
    let error = ask(&replaying, &request("<data-0a0a0a0a0a0a0a0a>\nbad"))
        .await
        .unwrap_err();
    assert!(!error.to_string().contains("0a0a"), "{error}");
}

#[tokio::test]
async fn requests_that_differ_in_ids_get_their_replies_in_recorded_order() {
    let about = |id: &str| request(&format!("look at {id}"));
    let ids: Vec<String> = (0..8).map(|n| format!("{n}{n}00112233445566")).collect();
    let script = ids.iter().map(|id| When::any().text(format!("of {id}")));
    let script = ScriptedModel::new(script.chain([When::any().text("of the first again")]));
    let recording = RecordingModel::new(Arc::new(script));
    for id in ids.iter().chain([&ids[0]]) {
        ask(&recording, &about(id)).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("take.json");
    recording.cassette().write(&path).unwrap();
    let replaying = ReplayingModel::new(Cassette::read(&path).unwrap());
    let mut replies = Vec::new();
    for n in 0..9 {
        let other = format!("{n}{n}aabbccddeeff00");
        replies.push(ask(&replaying, &about(&other)).await.unwrap().text);
    }
    let mut recorded: Vec<String> = ids.iter().map(|id| format!("of {id}")).collect();
    recorded.push("of the first again".to_owned());
    assert_eq!(replies, recorded);
    // A file of the first version does not tell the order; each reply is there all the same.
    let mut first: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    first["version"] = json!(1);
    for take in first["takes"].as_object_mut().unwrap().values_mut() {
        take.as_object_mut().unwrap().remove("places");
    }
    std::fs::write(&path, first.to_string()).unwrap();
    let replaying = ReplayingModel::new(Cassette::read(&path).unwrap());
    let mut replies = Vec::new();
    for n in 0..9 {
        let other = format!("{n}{n}aabbccddeeff00");
        replies.push(ask(&replaying, &about(&other)).await.unwrap().text);
    }
    replies.sort();
    recorded.sort();
    assert_eq!(replies, recorded);
}

#[tokio::test]
async fn writing_a_cassette_leaves_neighbouring_files_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (path, own) = (folder.path().join("take.json"), folder.path().join("take.json.new"));
    std::fs::write(&own, "mine").unwrap();
    let cassette = recorded().await;
    cassette.write(&path).unwrap();
    assert_eq!(Cassette::read(&path).unwrap(), cassette);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "it holds what was said, word for word");
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

/// Keeps what it is told and asked besides what it replies.
#[derive(Debug, Default)]
struct CallLog {
    told: Mutex<Vec<String>>,
}

impl CallLog {
    fn record(&self, what: &str) {
        locked_list(&self.told).push(what.to_owned());
    }
}

fn locked_list(list: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    list.lock()
}

#[async_trait]
impl Model for CallLog {
    async fn reply(&self, request: &Request, _: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        self.record("reply");
        Err(ModelError::new(
            "x",
            ModelErrorKind::Invalid,
            request.idempotency_key.clone(),
        ))
    }

    fn worker(&self) -> Option<Worker<'_>> {
        Some(Worker::Remote("http://x"))
    }

    fn left_over(&self) -> Vec<String> {
        vec!["cue 1".to_owned()]
    }

    fn folder(&self) -> Option<&str> {
        Some("src")
    }

    async fn call_off(&self, question: &str) {
        self.record(question);
    }

    fn observe_reply(&self, _: &Request, reply: &Reply) {
        self.record(&reply.text);
    }

    async fn reply_in(
        &self,
        request: &Request,
        _: &Place,
        pieces: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Reply, ModelError> {
        self.record("in");
        self.reply(request, pieces).await
    }
}

#[tokio::test]
async fn recording_model_forwards_all_calls_to_its_inner_model_e9_11() {
    let inner = Arc::new(CallLog::default());
    let recording = RecordingModel::new(Arc::clone(&inner) as _);
    assert_eq!(recording.worker(), Some(Worker::Remote("http://x")));
    assert_eq!(
        (recording.folder(), recording.left_over()),
        (Some("src"), vec!["cue 1".to_owned()])
    );
    let (one, place) = (request("x"), Place::default());
    recording.call_off("c1").await;
    recording.reply_in(&one, &place, &mut |_| {}).await.unwrap_err();
    let script = ScriptedModel::new([When::any().text("done")]);
    recording.observe_reply(&one, &ask(&script, &one).await.unwrap());
    assert_eq!(*locked_list(&inner.told), ["c1", "in", "reply", "done"]);
}

#[tokio::test]
async fn cassette_does_not_replace_a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _listens = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let told = Cassette::prepare(&path).unwrap_err();
    assert!(told.to_string().contains("is not a cassette"), "{told}");
    assert!(!std::fs::metadata(&path).unwrap().is_file());
}

#[tokio::test]
async fn cassette_that_nobody_could_read_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("take.json");
    let cassette = recorded().await;
    cassette.write(&path).unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    let told = cassette.write_within(&path, bytes - 1).unwrap_err().to_string();
    assert!(
        told.contains(&format!("it would have more than {} bytes", bytes - 1)),
        "{told}"
    );
    assert_eq!(
        Cassette::read(&path).unwrap(),
        cassette,
        "what was written before is kept"
    );
    cassette.write_within(&path, bytes).unwrap();
}

#[test]
fn file_too_large_for_a_cassette_is_called_that_and_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("take.json");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(BYTES_MAX + 1).unwrap();
    for told in [
        Cassette::prepare(&path).unwrap_err(),
        Cassette::default().write(&path).unwrap_err(),
        Cassette::read(&path).unwrap_err(),
    ] {
        let told = told.to_string();
        assert!(told.contains("has more than 268435456 bytes"), "{told}");
    }
    assert_eq!(file.metadata().unwrap().len(), BYTES_MAX + 1);
}
