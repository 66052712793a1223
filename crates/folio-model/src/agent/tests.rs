//! Programs that are scripts: what they answer, what they cost, how they end, and that nothing of them stays.

use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::awaited::{wait_for_line, wait_until_gone};
use super::*;
use crate::error::UsedUp;
use crate::model::{Message, Role, Speaker, Usage};

struct Bench {
    folder: TempDir,
    environment: Vec<(String, String)>,
}

fn bench() -> Bench {
    Bench {
        folder: tempfile::tempdir().unwrap(),
        environment: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
    }
}

pub(super) fn request() -> Request {
    let said = |speaker, text: &str| Message {
        speaker,
        text: text.to_owned(),
        tool_calls: Vec::new(),
        answers: None,
    };
    Request {
        role: Role::Executor,
        messages: vec![said(Speaker::System, "Work."), said(Speaker::User, "Mend the clock.")],
        tools: Vec::new(),
        answer_schema: Some(serde_json::json!({"required": ["notes"]}).into()),
        tokens_max: 100,
        temperature: None,
        idempotency_key: "k".to_owned(),
    }
}

impl Bench {
    fn settings(script: &str, form: AgentForm) -> AgentSettings {
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        AgentSettings {
            grace_s: Some(1),
            ..AgentSettings::new(command, form)
        }
    }

    async fn try_reply(&self, settings: AgentSettings, stop: CancellationToken) -> Result<Reply, ModelError> {
        assert_eq!(settings.problem(), None);
        let program = AgentProgram::new("mender", settings, &self.environment);
        let place = Place {
            folder: Some(self.folder.path().to_owned()),
            stop,
            ..Place::default()
        };
        program.reply_in(&request(), &place, &mut |_| {}).await
    }

    async fn run(&self, script: &str, form: AgentForm) -> Result<Reply, ModelError> {
        self.try_reply(Self::settings(script, form), CancellationToken::new())
            .await
    }

    /// What a script wrote to `file`, as soon as there is a whole line.
    async fn wait_for_line(&self, file: &str) -> String {
        wait_for_line(&self.folder.path().join(file)).await
    }
}

#[tokio::test]
async fn agent_program_gets_the_task_by_stdin_or_argument_and_answers() {
    let bench = bench();
    let reply = bench.run("cat > task; echo done", AgentForm::Text).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.usage), ("done", None));
    let task = std::fs::read_to_string(bench.folder.path().join("task")).unwrap();
    assert!(
        task.starts_with("Work.\n\nMend the clock.\n\n# Your answer\n"),
        "{task}"
    );
    assert!(task.trim_end().ends_with(r#"{"required":["notes"]}"#), "{task}");

    let settings = AgentSettings {
        prompt: AgentPrompt::Argument,
        command: ["sh", "-c", "printf %s \"$1\" | head -n 1", "mender"]
            .map(str::to_owned)
            .to_vec(),
        ..Bench::settings("", AgentForm::Text)
    };
    let reply = bench.try_reply(settings, CancellationToken::new()).await.unwrap();
    assert_eq!(reply.text, "Work.");
}

#[tokio::test]
async fn agent_program_sees_only_the_given_environment() {
    let mut bench = bench();
    bench.environment.push(("TICKET".to_owned(), "7".to_owned()));
    let reply = bench.run("env | cut -d= -f1", AgentForm::Text).await.unwrap();
    let mut names: Vec<&str> = reply.text.lines().collect();
    // What a shell sets for itself.
    names.retain(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["PATH", "TICKET"]);
}

#[tokio::test]
async fn lone_surrogate_in_program_output_becomes_a_replacement_character() {
    let bench = bench();
    for (form, printed) in [
        (
            AgentForm::Claude,
            r#"{"type":"result","result":"ticks \ud83c","total_cost_usd":0.1}"#,
        ),
        (
            AgentForm::Codex,
            "{}\n{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"ticks \\ud83c\"}}",
        ),
        (AgentForm::Gemini, "a warning\n{\n\"response\": \"ticks \\ud83c\"\n}"),
    ] {
        let reply = bench.run(&format!("cat <<'END'\n{printed}\nEND"), form).await.unwrap();
        assert_eq!(reply.text, "ticks \u{fffd}", "{printed}");
    }
}

#[tokio::test]
async fn failed_agent_program_is_charged_its_reported_usage_e9_10() {
    let bench = bench();
    let usage = r#""total_cost_usd":0.25,"usage":{"input_tokens":90,"output_tokens":8}"#;
    for printed in [
        format!(r#"{{"type":"result","is_error":true,"result":"no luck",{usage}}}"#),
        format!(r#"{{"type":"result","is_error":false,{usage}}}"#),
    ] {
        let failed = bench
            .run(&format!("cat <<'END'\n{printed}\nEND"), AgentForm::Claude)
            .await;
        let usage = Usage {
            tokens_in: 90,
            tokens_out: 8,
            micro_usd: Some(250_000),
            ..Usage::default()
        };
        assert_eq!(failed.unwrap_err().used, UsedUp::Known(Box::new(usage)), "{printed}");
    }
    let failed = bench.run("exit 1", AgentForm::Claude).await;
    assert_eq!(failed.unwrap_err().used, UsedUp::ByKind);
}

#[tokio::test]
async fn agent_program_that_was_ended_is_charged_what_it_had_reported_e9_10() {
    let bench = bench();
    let step = r#"{"type":"step_finish","part":{"cost":0.5,"tokens":{"input":900,"output":80}}}"#;
    let reply = |id, written| {
        let usage = json!({"input_tokens": 10, "cache_read_input_tokens": 440, "output_tokens": written});
        json!({"type": "assistant", "message": {"id": id, "usage": usage}}).to_string()
    };
    // Each part of a reply says what the reply took so far.
    let replies = [reply("a", 1), reply("a", 30), reply("b", 50)].join("\n");
    let counted = |tokens_cached, micro_usd| {
        let usage = Usage {
            tokens_in: 900,
            tokens_cached,
            tokens_out: 80,
            micro_usd,
            ..Usage::default()
        };
        UsedUp::Known(Box::new(usage))
    };
    let opencode = (AgentForm::Opencode, step.to_owned(), counted(0, Some(500_000)));
    let claude = (AgentForm::Claude, replies, counted(880, None));
    for (form, printed, used) in [opencode, claude] {
        for end in ["sleep 60", "kill -9 $$", "head -c 20000 /dev/zero; sleep 60"] {
            let script = format!("cat <<'END'\n{printed}\nEND\n{end}");
            let settings = AgentSettings {
                time_s: Some(2),
                output_bytes: Some(10_000),
                ..Bench::settings(&script, form)
            };
            let failed = bench.try_reply(settings, CancellationToken::new()).await.unwrap_err();
            assert_eq!(failed.kind, ModelErrorKind::Unknown, "{form:?}, {end}: {failed}");
            assert_eq!(failed.used, used, "{form:?}, {end}");
        }
    }
}

#[tokio::test]
async fn agent_program_that_reports_only_what_it_wrote_is_charged_its_prompt_too_e9_10() {
    let printed = r#"{"type":"result","result":"ticks","usage":{"output_tokens":7}}"#;
    let reply = bench()
        .run(&format!("echo '{printed}'"), AgentForm::Claude)
        .await
        .unwrap();
    let usage = Usage {
        tokens_in: u64::from(Estimate.count(&prompt::of(&request()))),
        tokens_out: 7,
        ..Usage::default()
    };
    assert_eq!(reply.usage, Some(usage));
}

#[tokio::test]
async fn agent_output_forms_yield_answer_and_usage() {
    let bench = bench();
    let usage = |tokens_in, tokens_cached, tokens_out| Usage {
        tokens_in,
        tokens_cached,
        tokens_out,
        ..Usage::default()
    };
    let cases = [
        (
            AgentForm::Claude,
            r#"{"type":"system","subtype":"init"}
{"type":"assistant","message":{"content":[{"type":"text","text":"hm"}]}}
{"type":"result","subtype":"success","is_error":false,"result":"ticks","total_cost_usd":0.0412,"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":100,"output_tokens":7}}"#,
            Usage {
                tokens_cache_written: 5,
                micro_usd: Some(41_200),
                ..usage(115, 100, 7)
            },
        ),
        (
            AgentForm::Codex,
            r#"{"type":"thread.started","thread_id":"t"}
a warning that is no JSON
{"type":"item.completed","item":{"id":"1","type":"reasoning","text":"hm"}}
{"type":"item.completed","item":{"id":"2","type":"agent_message","text":"ticks"}}
{"type":"turn.completed","usage":{"input_tokens":90,"cached_input_tokens":60,"output_tokens":8}}"#,
            usage(90, 60, 8),
        ),
        (
            AgentForm::Gemini,
            "{\n \"response\": \"ticks\",\n \"stats\": {\"models\": {\"a\": {\"tokens\": {\"prompt\": 40, \"candidates\": 3, \"thoughts\": 2, \"cached\": 1}}, \"b\": {\"tokens\": {\"prompt\": 2, \"candidates\": 1}}}}\n}",
            Usage {
                tokens_reasoning: 2,
                ..usage(42, 1, 6)
            },
        ),
        (
            AgentForm::Gemini,
            r#"{"type":"init"}
{"type":"message","role":"assistant","content":"let me see","delta":true}
{"type":"tool_use","tool_name":"look"}
{"type":"message","role":"assistant","content":"tic","delta":true}
{"type":"message","role":"assistant","content":"ks","delta":true}
{"type":"result","status":"success","stats":{"input_tokens":50,"output_tokens":4,"cached":0}}"#,
            usage(50, 0, 4),
        ),
        (
            AgentForm::Opencode,
            r#"{"type":"step_start","part":{}}
{"type":"text","part":{"text":"let me see"}}
{"type":"step_finish","part":{"cost":0.01,"tokens":{"input":10,"output":2,"reasoning":0,"cache":{"read":30,"write":0}}}}
{"type":"step_start","part":{}}
{"type":"text","part":{"text":"ticks"}}
{"type":"step_finish","part":{"cost":0.02,"tokens":{"input":20,"output":3,"reasoning":1,"cache":{"read":30,"write":0}}}}"#,
            Usage {
                tokens_reasoning: 1,
                micro_usd: Some(30_000),
                ..usage(90, 60, 6)
            },
        ),
    ];
    let only_money = [
        (
            AgentForm::Claude,
            r#"{"type":"result","is_error":false,"result":"ticks","total_cost_usd":0.0412}"#,
        ),
        (
            AgentForm::Opencode,
            r#"{"type":"text","part":{"text":"ticks"}}
{"type":"step_finish","part":{"cost":0.0412,"tokens":{"input":0,"output":0}}}"#,
        ),
    ];
    let set_aside = Usage {
        micro_usd: Some(41_200),
        ..usage(u64::from(Estimate.count(&prompt::of(&request()))), 0, 100)
    };
    let only_money = only_money.map(|(form, printed)| (form, printed, set_aside));
    for (form, printed, usage) in cases.into_iter().chain(only_money) {
        std::fs::write(bench.folder.path().join("printed"), printed).unwrap();
        let reply = bench.run("cat printed", form).await;
        let reply = reply.unwrap_or_else(|error| panic!("{form:?}: {error}"));
        assert_eq!((reply.text.as_str(), reply.usage), ("ticks", Some(usage)), "{form:?}");
    }
}

#[tokio::test]
async fn agent_program_failures_map_to_error_kinds_and_name_the_cause() {
    let bench = bench();
    let failed = ModelErrorKind::Failed;
    for (form, printed, code, kind, words) in [
        (
            AgentForm::Claude,
            r#"{"type":"result","subtype":"success","is_error":true,"result":"Overloaded"}"#,
            0,
            failed,
            "it failed: Overloaded",
        ),
        (
            AgentForm::Claude,
            r#"{"type":"result","subtype":"error_max_turns","is_error":false}"#,
            0,
            failed,
            "error_max_turns",
        ),
        (
            AgentForm::Codex,
            r#"{"type":"turn.failed","error":{"message":"no quota"}}"#,
            1,
            failed,
            "no quota",
        ),
        (
            AgentForm::Opencode,
            r#"{"type":"error","error":{"name":"ProviderAuthError","data":{"message":"log in"}}}"#,
            1,
            ModelErrorKind::Unauthorised,
            "log in",
        ),
        (AgentForm::Gemini, "", 41, ModelErrorKind::Unauthorised, "exit code 41"),
        (
            AgentForm::Text,
            "half an answer",
            3,
            failed,
            "its last line: half an answer",
        ),
        (AgentForm::Text, "", 0, failed, "no answer in the form text"),
        (
            AgentForm::Claude,
            "{\"type\": \"resu",
            0,
            failed,
            "no answer in the form claude",
        ),
        (
            AgentForm::Codex,
            "[1, 2, \"x\"]",
            0,
            failed,
            "no answer in the form codex",
        ),
    ] {
        std::fs::write(bench.folder.path().join("printed"), printed).unwrap();
        let error = bench.run(&format!("cat printed; exit {code}"), form).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let error = bench
        .run("echo one; echo two; echo three >&2; exit 3", AgentForm::Text)
        .await
        .unwrap_err();
    assert!(
        error
            .message
            .ends_with("its last line: three\nit printed:\none\ntwo\non standard error:\nthree"),
        "{error}"
    );
    let error = bench.run("seq 2000; kill -9 $$", AgentForm::Text).await.unwrap_err();
    assert!(
        error.message.ends_with("\n1999\n2000") && error.message.len() < 2_000,
        "{error}"
    );
    assert!(error.message.contains("it printed:\n[…] "), "{error}");
    let mut missing = Bench::settings("", AgentForm::Text);
    missing.command = vec!["no-such-program-anywhere".to_owned()];
    let error = bench.try_reply(missing, CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Invalid, "{error}");
}

#[tokio::test]
async fn agent_program_ended_by_signal_or_timeout_has_unknown_outcome_e9_12() {
    let bench = bench();
    let error = bench.run("kill -s SEGV $$", AgentForm::Text).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unknown, "{error}");
    let late = AgentSettings {
        time_s: Some(1),
        ..Bench::settings("echo begun >&2; exec sleep 1000", AgentForm::Text)
    };
    let error = bench.try_reply(late, CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unknown, "{error}");
    assert!(
        error.message.contains("longer than 1 s") && error.message.contains("begun"),
        "{error}"
    );
}

#[tokio::test]
async fn agent_program_exceeding_its_output_limit_is_ended() {
    let bench = bench();
    let loud = AgentSettings {
        output_bytes: Some(100_000),
        ..Bench::settings("echo $$ > pid; exec yes", AgentForm::Text)
    };
    let error = bench.try_reply(loud, CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unknown, "{error}");
    assert!(error.message.contains("100000 bytes"), "{error}");
    wait_until_gone(&bench.wait_for_line("pid").await).await;
}

#[tokio::test]
async fn stopping_an_agent_program_ends_it_and_its_children_by_force_e9_11() {
    let bench = bench();
    let stop = CancellationToken::new();
    // It hears nothing of being asked to end, and neither does what it started.
    let script = "trap '' TERM; sleep 1000 & echo $! > child; echo $$ > pid; while :; do sleep 1000; done";
    let asked = bench.try_reply(Bench::settings(script, AgentForm::Text), stop.clone());
    let stopping = async {
        let pids = (bench.wait_for_line("pid").await, bench.wait_for_line("child").await);
        stop.cancel();
        pids
    };
    let (reply, (pid, child)) = tokio::join!(asked, stopping);
    assert_eq!(reply.unwrap_err().kind, ModelErrorKind::Unknown);
    wait_until_gone(&pid).await;
    wait_until_gone(&child).await;
}

#[tokio::test]
async fn stopped_agent_program_can_clean_up_on_sigterm() {
    let bench = bench();
    let stop = CancellationToken::new();
    let script = "trap 'echo tidy > order; exit 0' TERM; echo $$ > pid; while :; do sleep 0.05; done";
    let asked = bench.try_reply(Bench::settings(script, AgentForm::Text), stop.clone());
    let stopping = async {
        bench.wait_for_line("pid").await;
        stop.cancel();
    };
    let (reply, ()) = tokio::join!(asked, stopping);
    assert!(reply.is_err());
    assert_eq!(bench.wait_for_line("order").await, "tidy");
}

#[tokio::test]
async fn background_children_of_an_agent_program_end_with_it() {
    let bench = bench();
    let reply = bench
        .run("sleep 1000 & echo $! > child; echo done", AgentForm::Text)
        .await;
    assert_eq!(reply.unwrap().text, "done");
    wait_until_gone(&bench.wait_for_line("child").await).await;
}

#[tokio::test]
async fn dropping_an_agent_call_ends_its_program() {
    let bench = bench();
    let settings = Bench::settings("echo $$ > pid; exec sleep 1000", AgentForm::Text);
    let pid = tokio::select! {
        reply = bench.try_reply(settings, CancellationToken::new()) => panic!("{reply:?}"),
        pid = bench.wait_for_line("pid") => pid,
    };
    wait_until_gone(&pid).await;
}

#[tokio::test]
async fn agent_program_that_ignores_a_long_stdin_still_answers() {
    let bench = bench();
    let mut request = request();
    request.messages[1].text = "x".repeat(1_000_000);
    let settings = Bench::settings("echo done", AgentForm::Text);
    let program = AgentProgram::new("mender", settings, &bench.environment);
    let place = Place {
        folder: Some(bench.folder.path().to_owned()),
        ..Place::default()
    };
    let reply = program.reply_in(&request, &place, &mut |_| {}).await;
    assert_eq!(reply.unwrap().text, "done");
    let nowhere = program.reply(&request, &mut |_| {}).await.unwrap_err();
    assert_eq!(nowhere.kind, ModelErrorKind::Invalid);
}

#[tokio::test]
async fn task_unfit_for_an_argument_is_refused_before_the_program_starts() {
    let bench = bench();
    let mut settings = Bench::settings("echo begun > begun; echo done", AgentForm::Text);
    settings.command.push("mender".to_owned());
    settings.prompt = AgentPrompt::Argument;
    let program = AgentProgram::new("mender", settings, &bench.environment);
    let place = Place {
        folder: Some(bench.folder.path().to_owned()),
        ..Place::default()
    };
    let begun = bench.folder.path().join("begun");
    let longest = {
        let mut longest = request();
        let room = ARGUMENT_BYTES_MAX - prompt::of(&longest).len();
        longest.messages[1].text.push_str(&"x".repeat(room));
        longest
    };
    let reply = program.reply_in(&longest, &place, &mut |_| {}).await;
    assert_eq!(reply.unwrap().text, "done", "as long as an argument may be");
    std::fs::remove_file(&begun).unwrap();
    for more in ["x", "\0"] {
        let mut request = if more == "x" { longest.clone() } else { request() };
        request.messages[1].text.push_str(more);
        let error = program.reply_in(&request, &place, &mut |_| {}).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Invalid, "{error}");
        assert!(error.message.contains("`prompt = \"stdin\"`"), "{error}");
        // What it answered before is not lost because nobody can tell it what is wrong with it.
        let mut answered = request.messages[0].clone();
        (answered.speaker, answered.text) = (Speaker::Assistant, "half done".to_owned());
        request.messages.push(answered);
        let reply = program.reply_in(&request, &place, &mut |_| {}).await.unwrap();
        let nothing = Usage {
            micro_usd: Some(0),
            ..Usage::default()
        };
        assert_eq!((reply.text.as_str(), reply.usage), ("half done", Some(nothing)));
    }
    assert!(!begun.exists());
}

#[test]
fn invalid_agent_settings_name_the_wrong_key() {
    let read = |text: &str| toml::from_str::<AgentsSection>(text);
    let good =
        "[mender]\ncommand = [\"mender\", \"-p\"]\nform = \"codex\"\nprompt = \"argument\"\nenvironment = [\"KEY\"]";
    let mender = &read(good).unwrap()["mender"];
    assert_eq!((mender.form, mender.prompt), (AgentForm::Codex, AgentPrompt::Argument));
    assert_eq!(mender.problem(), None);
    for (text, part) in [
        ("command = []", "`command`"),
        ("command = [\"m\"]\nenvironment = [\"KEY=1\"]", "`environment`"),
        ("command = [\"m\"]\ntime_s = 0", "`time_s`"),
        ("command = [\"m\"]\noutput_bytes = 0", "`output_bytes`"),
        ("command = [\"m\"]\ngrace_s = 16", "`grace_s`"),
    ] {
        let problem = read(&format!("[mender]\n{text}")).unwrap()["mender"].problem();
        assert!(
            problem.is_some_and(|problem| problem.contains(part)),
            "{text}: {problem:?}"
        );
    }
    assert!(read("[mender]\ncommand = [\"m\"]\nform = \"other\"").is_err());
}
