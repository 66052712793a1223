//! Conversations of tasks that outgrow the context window, in a real store (M7.8 V6, V8; seed 003 A5, A6).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::models_support::*;
use folio_engine::{Event, Outcome, StopReason};
use folio_memory::scratchbook::ItemInput;
use folio_memory::tokens::{Likely, Tokens as _};
use folio_memory::{Actor, Role, RunId, Seq, ThreadKey};
use folio_model::{Request, Role as ModelRole, ScriptedModel, Speaker, When};
use folio_runner::{Runner, RunnerModel, RunnerModels, RunnerOptions};
use folio_store::workspace::{BookFilter, TraceQuery};
use folio_testkit::FaultyStore;
use folio_tools::{Effect, ToolResponse, ToolSpec};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

struct House {
    runner: Runner,
    model: Arc<ScriptedModel>,
    _folder: tempfile::TempDir,
}

async fn house(policy: Value, window: u32, sentences: usize) -> House {
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(ScriptedModel::new(letters(sentences)));
    let store = sqlite(&folder.path().join("folio.db"));
    let runner = runner_within(window, store, &model, &Effects::default(), false);
    let policy = serde_json::from_value(json!({ "scratchbook": policy })).unwrap();
    let ada = Actor::new(Role::Human, "ada");
    runner.workspace().set_policy(&ada, policy, None, None).await.unwrap();
    let item: ItemInput = serde_json::from_value(json!({"kind": "todo", "title": "ask the postman"})).unwrap();
    let added = runner.workspace().add_item(&ada, &ThreadKey::main(), item, None).await;
    added.unwrap();
    House {
        runner,
        model,
        _folder: folder,
    }
}

fn cost(request: &Request) -> u32 {
    let messages = request.messages.iter().map(|message| {
        let calls = message
            .tool_calls
            .iter()
            .map(|call| Likely.count(&call.args.to_string()));
        Likely.count(&message.text) + calls.sum::<u32>()
    });
    let tools = request
        .tools
        .iter()
        .map(|tool| Likely.count(&tool.description) + Likely.count(&tool.args_schema.to_string()));
    messages.sum::<u32>() + tools.sum::<u32>()
}

async fn put_away(house: &House, run: RunId) -> Vec<(u32, String)> {
    let journal = house.runner.workspace().journal(run, Seq(0)).await.unwrap();
    let told = journal.events.into_iter().filter_map(|(_, event)| match event {
        Event::Compacted { pieces, text, .. } => Some((pieces, text)),
        _ => None,
    });
    told.collect()
}

#[tokio::test]
async fn conversation_over_the_window_is_offloaded_with_a_summary_m7_8_v8() {
    let house = house(json!({}), LETTERS_WINDOW, 30).await;
    let run = submit(&house.runner, of_goal("sort the letters", json!({}))).await;
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!((result.status, result.notes.as_str()), (Outcome::Ok, "all are sorted"));
    let told = put_away(&house, run).await;
    assert!(!told.is_empty());
    for request in house.model.asked() {
        assert!(cost(&request) < LETTERS_WINDOW * 8 / 10, "{} tokens", cost(&request));
    }

    // What was said is all there, numbered through, in a thread of the task's own; the last of it was never put away.
    let thread = ThreadKey(format!("main/{run}/goal"));
    let said = house.runner.workspace().said(&thread, 1, u64::MAX).await.unwrap();
    assert!(
        said.messages[0].1.to_string().contains("letter 1:"),
        "{}",
        said.messages[0].1
    );
    let (_, last) = told.last().unwrap();
    assert!(
        last.contains(&format!(
            "[Messages 1 to {} of this conversation are stored",
            said.total
        )),
        "{last}"
    );
    assert!(
        last.contains("- I must not forget letter 2."),
        "obligations of earlier blocks stay: {last}"
    );
    // The model reads it, and its scratchbook once.
    let asked = house.model.asked();
    let read: Vec<&str> = asked
        .last()
        .unwrap()
        .messages
        .iter()
        .map(|message| message.text.as_str())
        .collect();
    let read = read.join("\n");
    assert!(read.contains(last.as_str()), "{read}");
    assert_eq!(read.matches("<scratchbook>").count(), 1);
    assert!(
        read.contains("ask the postman"),
        "open work of the run's thread: {read}"
    );
    // The book of the run's thread holds what people put there; the summary is pinned beside the history.
    let book = |thread: ThreadKey| {
        let workspace = house.runner.workspace().clone();
        async move {
            workspace
                .book_items(&thread, BookFilter::beside_a_view())
                .await
                .unwrap()
                .items
                .len()
        }
    };
    assert_eq!((book(ThreadKey::main()).await, book(thread).await), (1, 1));
}

#[tokio::test]
async fn what_stands_for_earlier_messages_is_no_message_and_no_answer_m7_8_v8() {
    let house = house(json!({}), LETTERS_WINDOW, 60).await;
    let run = submit(&house.runner, of_goal("sort the letters", json!({}))).await;
    assert_eq!(house.runner.drive(run).await.unwrap().status, Outcome::Ok);
    let told = put_away(&house, run).await;
    assert!(told.len() > 1, "{}", told.len());
    let thread = ThreadKey(format!("main/{run}/goal"));
    let said = house.runner.workspace().said(&thread, 1, u64::MAX).await.unwrap();
    let is_one = |text: &str| text.contains("are stored elsewhere");
    let history = said.messages.iter().map(|(_, message)| message.to_string());
    assert_eq!(history.filter(|message| is_one(message)).count(), 0);
    for (_, text) in &told {
        assert!(text.starts_with("[Messages 1 to "), "{text}");
        assert_eq!(text.matches("are stored elsewhere").count(), 1, "{text}");
    }
}

#[tokio::test]
async fn disabled_auto_compact_ends_the_task_with_window_full_m7_8_v8() {
    let house = house(json!({"auto_compact": false}), LETTERS_WINDOW, 30).await;
    let run = submit(&house.runner, of_goal("sort the letters", json!({}))).await;
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!(result.stop_reason, Some(StopReason::WindowFull));
    assert!(put_away(&house, run).await.is_empty());
    let thread = ThreadKey(format!("main/{run}/goal"));
    assert_eq!(house.runner.workspace().said(&thread, 1, 9).await.unwrap().total, 0);
}

#[tokio::test]
async fn failed_offload_ends_the_task_but_not_the_run_e9_16() {
    for has_compactor in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let model = Arc::new(ScriptedModel::new(
            [handing_back("as far as letter 3")].into_iter().chain(letters(30)),
        ));
        let store = Arc::new(FaultyStore::new(sqlite(&folder.path().join("folio.db"))));
        store.refuse_keyed("offload:");
        let compactor = has_compactor.then(|| RunnerModel::new("small", Arc::clone(&model) as _));
        let effects = Effects::default();
        let runner = runner_of(
            LETTERS_WINDOW,
            Arc::clone(&store) as _,
            &model,
            compactor,
            &effects,
            false,
        );
        let steps = json!([
            {"id": "sort", "title": "sort the letters", "criteria": ["sorted"]},
            {"id": "after", "do": {"tool": "mend", "args": {"what": "box"}}},
        ]);
        let run = submit(&runner, of_goal("letters", json!({ "steps": steps }))).await;
        let driven = runner.drive(run).await;
        let result = driven.unwrap_or_else(|error| panic!("the run stands still: {error}"));
        let loaded = runner.load(run).await.unwrap();
        let of = |path: &str| loaded.node_at(path).unwrap().result.unwrap().clone();
        assert_eq!(
            (of("sort").status, of("sort").stop_reason, of("sort").notes.as_str()),
            (Outcome::Partial, Some(StopReason::WindowFull), "as far as letter 3")
        );
        assert_eq!((of("after").status, result.status), (Outcome::Ok, Outcome::Partial));
        let purse = loaded.purse().unwrap();
        assert!(purse.reserved.is_nothing(), "{:?}", purse.reserved);
        // Why it could not be is told.
        let query = TraceQuery {
            component: Some("history".to_owned()),
            ..TraceQuery::default()
        };
        let lines = runner.workspace().trace(query).await.unwrap();
        let told = lines.iter().find(|line| line.operation == "offload").unwrap();
        assert_eq!((told.status.as_str(), told.run), ("failed", Some(run)));
        assert!(
            told.detail.as_ref().unwrap().to_string().contains("refused here"),
            "{told:?}"
        );
    }
}

#[tokio::test]
async fn store_failure_during_offload_ends_only_the_drive_e9_9() {
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(ScriptedModel::new(letters(30)));
    let store = Arc::new(FaultyStore::new(sqlite(&folder.path().join("folio.db"))));
    let effects = Effects::default();
    let runner = runner_within(LETTERS_WINDOW, Arc::clone(&store) as _, &model, &effects, false);
    let run = submit(&runner, of_goal("sort the letters", json!({}))).await;
    store.lose_keyed("offload:");
    let error = runner.drive(run).await.unwrap_err();
    assert!(error.to_string().contains("the test wants it to fail"), "{error}");
    store.heal();
    let result = runner.drive(run).await.unwrap();
    assert_eq!((result.status, result.notes.as_str()), (Outcome::Ok, "all are sorted"));
}

#[tokio::test(start_paused = true)]
async fn offload_waits_for_the_store_while_a_call_would_be_lost_and_its_compactor_is_asked_once_e9_12() {
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(ScriptedModel::new(letters(30).into_iter().chain([judging("", "met")])));
    let said = json!({"summary": "The letters so far are sorted by date."});
    let answer = When::role(ModelRole::Compactor).calls([("done", said)]).always();
    let compactor = Arc::new(ScriptedModel::new([answer]));
    let store = Arc::new(FaultyStore::new(sqlite(&folder.path().join("folio.db"))));
    let mut asked = RunnerModel::new("scripted", Arc::clone(&model) as _);
    asked.window = LETTERS_WINDOW;
    asked.answer_tokens = LETTERS_WINDOW / 8;
    let options = RunnerOptions {
        models: Some(RunnerModels {
            compactor: Some(RunnerModel::new("small", Arc::clone(&compactor) as _)),
            ..RunnerModels::one(asked)
        }),
        ..RunnerOptions::default()
    };
    let mut registry = registry(&Effects::default());
    let (may_end, made) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::default()));
    let calls = (Arc::clone(&may_end), Arc::clone(&made));
    let spec = ToolSpec::new("send", Effect::Opaque, "Sends a letter.");
    registry.register_fn(spec, move |request, _| {
        let (may_end, made) = calls.clone();
        async move {
            made.fetch_add(1, Ordering::SeqCst);
            drop(may_end.acquire().await);
            Ok(ToolResponse::ok(&request, json!("sent"), "it is sent"))
        }
    });
    let runner = Runner::new(workspace(Arc::clone(&store) as _), registry, options);
    let steps = json!([{"parallel": [
        {"id": "sort", "title": "sort the letters", "criteria": ["sorted"]},
        {"id": "send", "do": {"tool": "send"}},
    ]}]);
    let run = submit(&runner, of_goal("letters", json!({ "steps": steps }))).await;
    // What the compactor wrote cannot be.
    store.lose_keyed("compact:");
    let driver = runner.clone();
    let driving = tokio::spawn(async move { driver.drive(run).await });
    let told = runner.store_outage(run, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5 * 60)).await;
    assert_eq!(compactor.asked().len(), 1);
    assert!(!driving.is_finished());
    store.heal();
    assert_eq!(runner.store_outage(run, Some(&told)).await, None);
    may_end.add_permits(1);
    let result = driving.await.unwrap().unwrap();
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    assert_eq!(made.load(Ordering::SeqCst), 1);
    let journal = runner.workspace().journal(run, Seq(0)).await.unwrap();
    let compacted = journal
        .events
        .iter()
        .filter(|(_, event)| matches!(event, Event::Compacted { .. }));
    assert_eq!(compacted.count(), compactor.asked().len());
}

/// The first request to the executor, which offers its tools.
async fn working(policy: Value, window: u32) -> Request {
    let house = house(policy, window, 30).await;
    let run = submit(&house.runner, of_goal("sort the letters", json!({}))).await;
    let _ended = house.runner.drive(run).await.unwrap();
    let is_work = |request: &Request| !request.tools.is_empty();
    house.model.asked().into_iter().find(is_work).unwrap()
}

#[tokio::test]
async fn policy_sets_content_and_placement_of_the_scratchbook_view_m7_8_v6() {
    let item = "ask the postman";
    let cloud = working(json!({}), 128_000).await;
    let system = &cloud.messages[0];
    assert_eq!(system.speaker, Speaker::System);
    assert!(system.text.contains("\n\n# Tools\n- ") && !system.text.contains(item));
    let last = cloud.messages.last().unwrap();
    assert!(
        last.text.starts_with("<scratchbook>\n") && last.text.contains(item),
        "{}",
        last.text
    );
    assert!(cloud.tools.iter().any(|tool| tool.name == "scratch_add"));

    let device = working(json!({"profile": "on_device", "placement": "system"}), 128_000).await;
    let system = &device.messages[0].text;
    assert!(!system.contains("# Tools") && system.contains(item), "{system}");
    assert!(
        device
            .messages
            .iter()
            .all(|message| !message.text.contains("<scratchbook>"))
    );

    let without = working(json!({"enabled": false}), 128_000).await;
    assert!(without.messages.iter().all(|message| !message.text.contains(item)));
    assert!(without.tools.iter().all(|tool| !tool.name.starts_with("scratch_")));
    assert!(!without.messages[0].text.contains("scratch_"));
}

#[tokio::test]
async fn window_of_four_thousand_tokens_suffices_for_a_task_seed_003() {
    let house = house(json!({"profile": "on_device"}), 4_096, 8).await;
    let run = submit(&house.runner, of_goal("sort the letters", json!({}))).await;
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!((result.status, result.notes.as_str()), (Outcome::Ok, "all are sorted"));
    assert!(!put_away(&house, run).await.is_empty());
    let asked = house.model.asked();
    for request in &asked {
        assert!(cost(request) + request.tokens_max <= 4_096, "{}", cost(request));
    }
    let work = asked.iter().find(|request| !request.tools.is_empty()).unwrap();
    let names: Vec<&str> = work.tools.iter().map(|tool| tool.name.as_str()).collect();
    for needed in [
        "finish",
        "list",
        "read",
        "write",
        "scratch_add",
        "scratch_read",
        "result_read",
        "mend",
    ] {
        assert!(names.contains(&needed), "{needed} is not among {names:?}");
    }
    let system = &work.messages[0].text;
    assert!(!system.contains("cannot be called"), "{system}");
    assert!(
        system.contains("ask the postman"),
        "the scratchbook stands in the system prompt of a small window"
    );
}
