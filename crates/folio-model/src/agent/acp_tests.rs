//! A small agent that speaks the Agent Client Protocol: `tests/acp/agent.sh`.

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::awaited::{wait_for_line, wait_until_gone};
use super::tests::request;
use super::*;
use crate::error::UsedUp;
use crate::model::Usage;

const SCRIPT: &str = include_str!("../../../../tests/acp/agent.sh");
const ANSWER: &str = r#"{"notes": "It ticks."}"#;

struct Bench {
    folder: TempDir,
    settings: AgentSettings,
}

impl Bench {
    fn new(mode: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("agent.sh"), SCRIPT).unwrap();
        let command = ["sh", "agent.sh", mode, ANSWER].map(str::to_owned).to_vec();
        let settings = AgentSettings {
            grace_s: Some(2),
            ..AgentSettings::new(command, AgentForm::Acp)
        };
        Self { folder, settings }
    }

    async fn try_reply(&self, stop: CancellationToken) -> Result<Reply, ModelError> {
        let place = Place {
            stop,
            ..Place::default()
        };
        self.try_reply_in(place).await
    }

    /// Asks again, with the session of the earlier attempt.
    async fn resume_reply(&self) -> Result<Reply, ModelError> {
        let place = Place {
            session: Some("s1".to_owned()),
            ..Place::default()
        };
        self.try_reply_in(place).await
    }

    async fn try_reply_in(&self, place: Place) -> Result<Reply, ModelError> {
        assert_eq!(self.settings.problem(), None);
        let environment = [("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())];
        let program = AgentProgram::new("mender", self.settings.clone(), &environment);
        let place = Place {
            folder: Some(self.folder.path().to_owned()),
            ..place
        };
        program.reply_in(&request(), &place, &mut |_| {}).await
    }

    async fn reply(&self) -> Reply {
        self.try_reply(CancellationToken::new()).await.unwrap()
    }

    async fn error(&self) -> ModelError {
        self.try_reply(CancellationToken::new()).await.unwrap_err()
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// The updates that its session contains, one per line.
    fn remember(&self, history: &[Value]) {
        let lines: String = history.iter().map(|update| format!("{update}\n")).collect();
        std::fs::write(self.path("history"), lines).unwrap();
    }

    /// The methods that were called, and the text of its last prompt.
    fn calls(&self) -> (Vec<String>, String) {
        let told = self.received_messages();
        let methods = told
            .iter()
            .filter_map(|line| line["method"].as_str().map(str::to_owned));
        let mut prompts = told
            .iter()
            .filter_map(|line| line["params"]["prompt"][0]["text"].as_str());
        (methods.collect(), prompts.next_back().unwrap_or_default().to_owned())
    }

    /// The answer to its permission request.
    fn permission_answers(&self) -> Vec<Value> {
        let told = self.received_messages();
        told.iter()
            .filter_map(|line| line.pointer("/result/outcome/optionId").cloned())
            .collect()
    }

    /// What the agent was told.
    fn received_messages(&self) -> Vec<Value> {
        let told = std::fs::read_to_string(self.path("told")).unwrap();
        told.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What a script wrote to `file`, as soon as there is a whole line.
    async fn line_of(&self, file: &str) -> String {
        wait_for_line(&self.path(file)).await
    }
}

#[tokio::test]
async fn acp_agent_gets_the_task_and_its_last_message_answers_e9_17() {
    let bench = Bench::new("works");
    let reply = bench.reply().await;
    assert_eq!(
        reply.text, ANSWER,
        "what it said before it used a tool is not its answer"
    );
    let usage = Usage {
        tokens_in: 1_200,
        tokens_cached: 100,
        tokens_out: 34,
        micro_usd: Some(50_000),
        ..Usage::default()
    };
    assert_eq!((reply.stop, reply.usage), (StopCause::Done, Some(usage)));
    let told = bench.received_messages();
    assert_eq!(told[0]["params"]["protocolVersion"], 1);
    let offered = &told[0]["params"]["clientCapabilities"];
    assert!(
        offered["fs"]["readTextFile"] != true && offered["terminal"] != true,
        "{offered}"
    );
    assert_eq!(told[1]["params"]["cwd"], json!(bench.folder.path()));
    let task = told[2]["params"]["prompt"][0]["text"].as_str().unwrap();
    assert!(
        task.contains("Mend the clock.") && task.contains("JSON Schema"),
        "{task}"
    );
    wait_until_gone(&bench.line_of("pid").await).await;
}

#[tokio::test]
async fn acp_permission_is_allowed_once_if_granted_and_rejected_otherwise_e9_14() {
    let bench = Bench::new("asks");
    let reply = bench.reply().await;
    assert_eq!(reply.text, ANSWER);
    assert_eq!(
        bench.permission_answers(),
        [json!("once"), json!("no")],
        "it may read, and not run commands"
    );
    let kinds: Vec<_> = reply
        .permissions
        .iter()
        .filter_map(|line| line.split(':').next())
        .collect();
    assert_eq!(kinds, ["refused execute", "granted read"], "{:?}", reply.permissions);
    let mut bench = Bench::new("asks");
    bench.settings.grants = Some(vec![AgentGrant::Execute]);
    assert_eq!(bench.reply().await.text, ANSWER);
    assert_eq!(bench.permission_answers(), [json!("no"), json!("once")]);
}

#[tokio::test]
async fn unknown_acp_permission_option_does_not_hide_the_known_ones_e9_14() {
    let mut bench = Bench::new("offers");
    bench.settings.grants = Some(vec![AgentGrant::Read]);
    bench.reply().await;
    assert_eq!(bench.permission_answers(), ["once"]);
}

#[tokio::test]
async fn acp_permission_needs_grants_for_previously_reported_tool_kind_e9_14() {
    use AgentGrant::{Edit, Execute, Read};
    // It says `edit` before it asks without a kind, and `read` before it asks for `execute`.
    for (grants, chosen) in [
        (vec![Edit, Execute], ["once", "no"]),
        (vec![Edit, Read], ["once", "no"]),
        (vec![Read, Execute], ["no", "once"]),
        (vec![AgentGrant::Other], ["no", "no"]),
    ] {
        let mut bench = Bench::new("tells");
        bench.settings.grants = Some(grants.clone());
        assert_eq!(bench.reply().await.text, ANSWER);
        assert_eq!(
            bench.permission_answers(),
            chosen.map(|option| json!(option)),
            "{grants:?}"
        );
    }
}

#[tokio::test]
async fn acp_messages_and_thoughts_count_toward_the_output_limit() {
    for mode in ["loud", "thinks"] {
        let mut bench = Bench::new(mode);
        bench.settings.output_bytes = Some(100_000);
        let error = bench.error().await;
        assert_eq!(error.kind, ModelErrorKind::Unknown, "{mode}: {error}");
        assert!(error.message.contains("more than 100000 bytes"), "{mode}: {error}");
        wait_until_gone(&bench.line_of("pid").await).await;
    }
}

#[tokio::test]
async fn acp_agent_reporting_only_cost_is_charged_the_tokens_set_aside_e9_10() {
    let usage = Usage {
        tokens_in: u64::from(Estimate.count(&prompt::of(&request()))),
        tokens_out: 100,
        micro_usd: Some(50_000),
        ..Usage::default()
    };
    assert_eq!(Bench::new("costs").reply().await.usage, Some(usage));
}

#[tokio::test]
async fn acp_agent_that_reports_only_what_it_wrote_is_charged_its_prompt_too_e9_10() {
    let usage = Bench::new("writes").reply().await.usage.unwrap();
    let prompt = u64::from(Estimate.count(&prompt::of(&request())));
    assert_eq!((usage.tokens_in, usage.tokens_out), (prompt, 34));
}

#[tokio::test]
async fn failed_acp_agent_is_charged_its_reported_usage_e9_10() {
    let counted = Usage {
        tokens_in: 50,
        tokens_out: 10,
        ..Usage::default()
    };
    assert_eq!(Bench::new("turns").error().await.used, UsedUp::Known(Box::new(counted)));
    for mode in ["tires", "drops"] {
        let UsedUp::Known(paid) = Bench::new(mode).error().await.used else {
            panic!("{mode}: it said what it cost");
        };
        assert_eq!(
            (paid.micro_usd, paid.tokens_out),
            (Some(50_000), 100),
            "{mode}: and the tokens that are set aside"
        );
    }
    assert_eq!(Bench::new("dies").error().await.used, UsedUp::ByKind);
}

#[tokio::test]
async fn new_acp_session_receives_the_configured_mcp_servers() {
    let mut bench = Bench::new("works");
    bench.settings.mcp = [("memory".to_owned(), vec!["folio".to_owned(), "mcp".to_owned()])].into();
    bench.reply().await;
    let server = bench.received_messages()[1]["params"]["mcpServers"][0].clone();
    assert_eq!(
        (&server["name"], &server["command"], &server["args"]),
        (&json!("memory"), &json!("folio"), &json!(["mcp"]))
    );
}

#[tokio::test]
async fn acp_messages_of_another_session_are_ignored_and_grant_nothing_e9_17() {
    let bench = Bench::new("strays");
    assert_eq!(bench.reply().await.text, ANSWER);
    let told = bench.received_messages();
    let outcomes: Vec<&Value> = told.iter().filter_map(|line| line.pointer("/result/outcome")).collect();
    assert_eq!(outcomes, [&json!({"outcome": "cancelled"})]);
}

#[tokio::test]
async fn lone_surrogate_in_acp_message_becomes_a_replacement_character() {
    assert_eq!(Bench::new("halves").reply().await.text, "Half: \u{fffd}");
}

#[tokio::test]
async fn acp_output_that_is_not_utf_8_is_read_with_replacement_characters() {
    assert_eq!(Bench::new("garbles").reply().await.text, "Cut: caf\u{fffd}");
}

#[tokio::test]
async fn non_message_output_of_an_acp_agent_is_reported_unanswered() {
    for line in ["{}", r#"{"jsonrpc":"2.0"}"#, "hello"] {
        let mut bench = Bench::new("works");
        // It says what is no message before its first answer, and ends with what it is told next.
        let script = format!(
            r#"read -r line; id=${{line#*'"id":'}}; id=${{id%%[,\}}]*}}; echo '{line}'
            printf '{{"jsonrpc":"2.0","id":%s,"result":{{"protocolVersion":1,"agentCapabilities":{{}}}}}}\n' "$id"
            read -r line; echo "$line" >&2; exit 7"#
        );
        bench.settings.command = vec!["bash".to_owned(), "-c".to_owned(), script];
        let error = bench.error().await;
        assert!(error.message.contains("(exit code 7)"), "{error}");
        assert!(
            error.message.contains(&format!("only messages belong: {line}")),
            "{error}"
        );
        assert!(error.message.contains("session/new"), "{error}");
    }
}

#[tokio::test]
async fn acp_failures_map_to_error_kinds_and_name_the_cause() {
    let cases = [
        ("babbles", ModelErrorKind::Invalid, "no protocol here"),
        ("login", ModelErrorKind::Unauthorised, "nobody is logged in"),
        ("turns", ModelErrorKind::Failed, "max_turn_requests"),
        ("tires", ModelErrorKind::Failed, "it stopped: too_tired"),
        ("fails", ModelErrorKind::Failed, "no model today"),
        ("dies", ModelErrorKind::Unknown, "it broke"),
        // A child process keeps its pipes open.
        (
            "deserts",
            ModelErrorKind::Unknown,
            "it ended before it was done (exit code 4)",
        ),
    ];
    for (mode, kind, part) in cases {
        let error = Bench::new(mode).error().await;
        assert_eq!(error.kind, kind, "{mode}: {error}");
        assert!(error.message.contains(part), "{mode}: {error}");
    }
    let mut bench = Bench::new("works");
    bench.settings.command = vec!["/nowhere/agent".to_owned()];
    assert_eq!(bench.error().await.kind, ModelErrorKind::Invalid);
}

#[tokio::test]
async fn acp_protocol_violations_are_explained_without_library_messages() {
    const SAY_FUNCTION: &str = r#"says() { id=${line#*'"id":'}; id=${id%%[,\}]*}; printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
        hello='"result":{"protocolVersion":1,"agentCapabilities":{}}'; session='"result":{"sessionId":"s1"}'
        read -r line; "#;
    let look = "; `command` must start a program that speaks the Agent Client Protocol";
    let no_answer = "its answers do not follow the Agent Client Protocol";
    let cases = [
        (
            "exit 3",
            format!("it ended before it was told the task (exit code 3){look}"),
        ),
        (
            "echo 'Usage: x'; exit 2",
            format!(
                "it ended before it was told the task (exit code 2); it printed to its output, where only messages belong: Usage: x{look}"
            ),
        ),
        (r#"says '"result":{}'; read -r line"#, format!("{no_answer}{look}")),
        (
            r#"says "$hello"; read -r line; says '"result":{}'; read -r line"#,
            format!("{no_answer}{look}"),
        ),
        (
            r#"says '"result":{"protocolVersion":9}'; read -r line"#,
            "it speaks version 9 of the Agent Client Protocol, and Folio speaks version 1".to_owned(),
        ),
        (
            r#"says '"error":{"code":-32603,"message":"Internal error","data":{"details":"no licence"}}'; read -r line"#,
            "it refuses to begin: Internal error: no licence".to_owned(),
        ),
        (
            r#"says "$hello"; read -r line; says "$session"; read -r line; says '"result":{}'; read -r line"#,
            "its answer to the task does not follow the Agent Client Protocol".to_owned(),
        ),
        (
            r#"says "$hello"; read -r line; says "$session"; read -r line; exit 4"#,
            "it ended before it was done (exit code 4)".to_owned(),
        ),
    ];
    for (script, said) in cases {
        let mut bench = Bench::new("works");
        bench.settings.command = ["sh", "-c", &format!("{SAY_FUNCTION}{script}")]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(bench.error().await.message, said, "{script}");
    }
}

#[tokio::test]
async fn cancelled_acp_agent_is_notified_then_ended_with_its_children_e9_11() {
    let bench = Bench::new("hangs");
    let stop = CancellationToken::new();
    let stopping = async {
        let child = bench.line_of("child").await;
        stop.cancel();
        child
    };
    let (ended, child) = tokio::join!(bench.try_reply(stop.clone()), stopping);
    assert_eq!(ended.unwrap_err().kind, ModelErrorKind::Unknown);
    let told = bench.received_messages();
    assert_eq!(told.last().unwrap()["method"], "session/cancel");
    wait_until_gone(&child).await;
    wait_until_gone(&bench.line_of("pid").await).await;
}

#[tokio::test]
async fn acp_agent_exceeding_its_time_limit_is_ended() {
    let mut bench = Bench::new("hangs");
    bench.settings.time_s = Some(1);
    let error = bench.error().await;
    assert_eq!(error.kind, ModelErrorKind::Unknown);
    assert!(error.message.contains("longer than 1 s"), "{error}");
    wait_until_gone(&bench.line_of("pid").await).await;
}

fn task_of_the_user() -> Value {
    json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "Mend the clock."}})
}

fn agent_message(text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
}

fn used_a_tool() -> Value {
    json!({"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "mend", "kind": "edit", "status": "completed"})
}

#[tokio::test]
async fn acp_prompt_is_sent_only_after_the_session_is_recorded_e9_17() {
    let bench = Bench::new("loads");
    bench.remember(&[]);
    let (tells, mut sessions) = tokio::sync::mpsc::channel(1);
    let place = || Place {
        sessions: Some(tells.clone()),
        ..Place::default()
    };
    let keeping = async {
        let new = sessions.recv().await.unwrap();
        let (methods, _) = bench.calls();
        new.kept.send(()).unwrap();
        (new.id, methods)
    };
    let (reply, (id, methods)) = tokio::join!(bench.try_reply_in(place()), keeping);
    assert_eq!((reply.unwrap().text.as_str(), id.as_str()), (ANSWER, "s1"));
    assert_eq!(methods, ["initialize", "session/new"]);
    assert_eq!(bench.calls().0.last().map(String::as_str), Some("session/prompt"));

    let bench = Bench::new("loads");
    let losing = async { drop(sessions.recv().await.unwrap().kept) };
    let (reply, ()) = tokio::join!(bench.try_reply_in(place()), losing);
    assert!(reply.is_err(), "{reply:?}");
    assert_eq!(bench.calls().0, ["initialize", "session/new"]);

    // A session that cannot be restored later is not recorded.
    let bench = Bench::new("works");
    bench.try_reply_in(place()).await.unwrap();
    assert!(sessions.try_recv().is_err());
}

#[tokio::test]
async fn interrupted_acp_session_is_loaded_and_prompted_to_continue_e9_17() {
    let bench = Bench::new("loads");
    bench.remember(&[task_of_the_user(), agent_message("I will look first."), used_a_tool()]);
    assert_eq!(bench.resume_reply().await.unwrap().text, ANSWER);
    let (methods, prompt) = bench.calls();
    assert_eq!(methods, ["initialize", "session/load", "session/prompt"]);
    assert!(prompt.contains("You were interrupted"), "{prompt}");
    assert!(!prompt.contains("Mend the clock"), "it is not told twice: {prompt}");
    assert_eq!(bench.received_messages()[1]["params"]["sessionId"], "s1");

    // What it answered before it was told to continue does not answer that.
    let bench = Bench::new("loads");
    bench.remember(&[
        task_of_the_user(),
        agent_message(r#"{"notes": "half"}"#),
        task_of_the_user(),
    ]);
    assert_eq!(bench.resume_reply().await.unwrap().text, ANSWER);
}

#[tokio::test]
async fn answer_in_a_loaded_acp_session_is_returned_without_a_prompt_e9_17() {
    let bench = Bench::new("loads");
    bench.remember(&[
        task_of_the_user(),
        used_a_tool(),
        agent_message(r#"{"notes": "It "#),
        agent_message(r#"ticks."}"#),
    ]);
    let reply = bench.resume_reply().await.unwrap();
    assert_eq!((reply.text.as_str(), reply.usage), (ANSWER, None));
    assert_eq!(bench.calls().0, ["initialize", "session/load"]);
    assert!(!bench.path("worked").exists());
}

#[tokio::test]
async fn empty_loaded_acp_session_gets_the_task_with_a_warning_e9_17() {
    let bench = Bench::new("loads");
    bench.remember(&[]);
    assert_eq!(bench.resume_reply().await.unwrap().text, ANSWER);
    let (_, prompt) = bench.calls();
    assert!(
        prompt.contains("Look at what is there") && prompt.contains("Mend the clock"),
        "{prompt}"
    );
}

#[tokio::test]
async fn acp_resume_without_history_repeats_the_task_with_a_notice_e9_17() {
    let bench = Bench::new("resumes");
    bench.remember(&[]);
    assert_eq!(bench.resume_reply().await.unwrap().text, ANSWER);
    let (methods, prompt) = bench.calls();
    assert_eq!(methods, ["initialize", "session/resume", "session/prompt"]);
    assert!(
        prompt.contains("may have been interrupted") && prompt.contains("Mend the clock"),
        "{prompt}"
    );
}

#[tokio::test]
async fn acp_agent_that_cannot_resume_fails_with_unknown_outcome_e9_12() {
    for (mode, methods) in [
        ("works", ["initialize"].as_slice()),
        ("forgets", &["initialize", "session/load"]),
        ("babbles", &["initialize"]),
    ] {
        let bench = Bench::new(mode);
        let error = bench.resume_reply().await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Unknown, "{mode}: {error}");
        assert!(error.message.contains("was at work when its driver stopped"), "{error}");
        assert_eq!(bench.calls().0, methods, "{mode}");
    }
}
