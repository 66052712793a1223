//! Conversations that outgrow their context window (M7.8 V8, seed 003 A6).

use std::sync::Arc;
use std::time::Duration;

use crate::house::House;
use async_trait::async_trait;
use folio_memory::actor::Trust;
use folio_memory::entry::{EntryKind, Status};
use folio_memory::id::Ref;
use folio_memory::scratchbook::{ItemInput, ItemPatch};
use folio_memory::tokens::{Estimate, Tokens};
use folio_memory::{Actor, Change, Entry, EntryId, FieldChange, NewEntry, Role, ThreadKey};
use folio_store::ErrorKind;
use folio_store::workspace::{BookFilter, Compacted, Compactor, Desk, ForgetFilter, Offload, Offloaded, Write};
use folio_testkit::faulty_store::Fault;
use serde_json::{Value, json};

fn client() -> Actor {
    Actor::new(Role::Client, "agent")
}

fn thread() -> ThreadKey {
    ThreadKey("work/日本_1".to_owned())
}

fn at_once() -> Offload {
    Offload {
        force: true,
        keep_last: 2,
        ..Offload::default()
    }
}

/// A conversation with `turns` requests, each with a call and its result.
fn conversation(name: &str, turns: usize) -> Vec<Value> {
    let mut messages = vec![json!({"role": "system", "content": "Be brief."})];
    for n in 0..turns {
        let id = format!("{name}{n}");
        messages.push(json!({"role": "user", "content": format!("{name}: do step {n}. You must not push.")}));
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "read", "arguments": format!("{{\"path\":\"src/{name}{n}.rs\"}}")}}]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": "fine\nerror: it failed"}));
    }
    messages
}

async fn offload(house: &House, messages: &[Value], how: &Offload) -> Offloaded {
    let list = Value::from(messages.to_vec());
    let space = house.space.in_thread(&thread());
    space.offload(&client(), &thread(), &list, how).await.unwrap()
}

async fn book(house: &House) -> Vec<Entry> {
    house
        .space
        .book_items(&thread(), BookFilter::default())
        .await
        .unwrap()
        .items
}

#[tokio::test]
async fn offload_does_nothing_below_its_share_of_the_window_m7_8_v8() {
    let house = House::new();
    let messages = conversation("a", 4);
    let how = Offload {
        window_tokens: 100_000,
        ..Offload::default()
    };
    let left = offload(&house, &messages, &how).await;
    assert_eq!((left.messages, left.block), (messages.clone(), None));
    assert_eq!(house.space.head().await.unwrap().0, 0);
    let how = Offload {
        window_tokens: 100,
        ..Offload::default()
    };
    assert!(offload(&house, &messages, &how).await.block.is_some());
}

#[tokio::test]
async fn offload_never_increases_the_token_count_m7_8_v8() {
    let house = House::new();
    let how = Offload {
        window_tokens: 400,
        keep_last: 2,
        ..Offload::default()
    };
    let mut messages = Vec::new();
    for turn in 0..12 {
        messages.extend(conversation(&format!("t{turn}"), 1).split_off(1));
        let left = offload(&house, &messages, &how).await;
        let (before, after) = left.tokens;
        assert!(
            after < before || left.block.is_none(),
            "{turn}: {before} before, {after} after"
        );
        messages = left.messages;
    }
    assert!(messages.len() < 12, "{messages:#?}");
}

#[tokio::test]
async fn concurrent_equal_offloads_store_one_block_m7_8_v8() {
    let house = House::new();
    for name in ["a", "b", "c", "d"] {
        let (messages, how) = (conversation(name, 5), at_once());
        let six = (0..6).map(|_| offload(&house, &messages, &how));
        let blocks: Vec<_> = futures_util::future::join_all(six)
            .await
            .into_iter()
            .map(|offloaded| offloaded.block.unwrap())
            .collect();
        assert!(
            blocks.iter().all(|block| block.handle == blocks[0].handle),
            "{blocks:?}"
        );
        let did = blocks.iter().filter(|block| !block.replayed);
        assert_eq!(did.count(), 1, "{blocks:?}");
    }
}

#[tokio::test]
async fn summary_alone_is_not_offloaded_again_m7_8_v8() {
    let house = House::new();
    // What stays is more than the window has room for, whatever is put away.
    let how = Offload {
        window_tokens: 100,
        keep_last: 2,
        ..Offload::default()
    };
    let gone = offload(&house, &conversation("a", 5), &how).await;
    let head = house.space.head().await.unwrap();
    let again = offload(&house, &gone.messages, &how).await;
    assert_eq!((again.messages, again.block), (gone.messages.clone(), None));
    assert_eq!(house.space.head().await.unwrap(), head);

    // With what has been said since it goes on.
    let mut more = gone.messages;
    more.extend(conversation("b", 1).into_iter().skip(1));
    assert!(offload(&house, &more, &how).await.block.is_some());
}

#[tokio::test]
async fn offloaded_and_remaining_messages_are_the_whole_conversation_m7_8_v8() {
    let house = House::new();
    let messages = conversation("a", 5);
    let gone = offload(&house, &messages, &at_once()).await;
    let block = gone.block.unwrap();
    // The last two are a call and its result.
    assert_eq!((block.from, block.to, gone.messages.len()), (1, 13, 4));
    let said = house.space.said(&thread(), 1, u64::MAX).await.unwrap();
    let mut all = vec![gone.messages[0].clone()];
    all.extend(said.messages.into_iter().map(|(_, message)| message));
    all.extend(gone.messages[2..].iter().cloned());
    assert_eq!(all, messages);
    let text = gone.messages[1]["content"].as_str().unwrap();
    for wanted in [
        "Messages 1 to 13",
        "Last request: a: do step 4.",
        "error: it failed",
        "src/a3.rs",
        "You must not push.",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(Estimate.count(text) <= at_once().summary_tokens);
    let range = house.space.said(&thread(), 4, 5).await.unwrap();
    assert_eq!(
        (range.messages[0].0, &range.messages[0].1, range.total),
        (4, &messages[4], 13)
    );
}

#[tokio::test]
async fn repeated_offload_of_the_same_messages_is_replayed_m7_8_v8() {
    let house = House::new();
    let messages = conversation("a", 5);
    let first = offload(&house, &messages, &at_once()).await;
    let head = house.space.head().await.unwrap();
    let second = offload(&house, &messages, &at_once()).await;
    assert_eq!(
        (second.messages, second.block.unwrap().replayed),
        (first.messages, true)
    );
    assert_eq!(house.space.head().await.unwrap(), head);
}

#[tokio::test]
async fn summary_sorts_after_pins_whenever_they_are_made_m7_8_v8() {
    let house = House::new();
    let note = async |text: &str| {
        let note = ItemInput::new(EntryKind::Note, text);
        let added = house.space.add_item(&client(), &thread(), note, None).await;
        added.unwrap().entry.id
    };
    let pinned = Change::PatchEntry {
        entry: note("from elsewhere, where the log is longer").await,
        fields: vec![FieldChange::PinRank(Some(1_000_000))],
        expected_version: None,
        base_version: None,
    };
    let person = Actor::new(Role::Human, "ada");
    house.space.record(&person, Write::of(vec![pinned])).await.unwrap();
    offload(&house, &conversation("a", 4), &at_once()).await;
    let later = Ref::Id(note("Never touch the lexer").await);
    house.space.pin_item(&person, later).await.unwrap();
    let pinned = book(&house)
        .await
        .into_iter()
        .filter_map(|item| Some((item.fields.pin_rank?, item.fields.title)));
    let titles: Vec<String> = pinned.map(|(_, title)| title).collect();
    let wanted = ["from elsewhere, where the log is longer", "Never touch the lexer"];
    assert_eq!(titles[..2], wanted);
    assert!(
        titles[2].starts_with("Summary of messages ") && titles[3] == "Next actions",
        "{titles:?}"
    );
}

#[tokio::test]
async fn successive_offloads_form_a_chain_with_only_the_last_pinned_m7_8_v8() {
    let house = House::new();
    let task = ItemInput {
        kind: EntryKind::Task,
        title: Some("Write the tests".to_owned()),
        body: String::new(),
        tags: Vec::new(),
        phase: None,
        progress: None,
    };
    let task = house
        .space
        .add_item(&client(), &thread(), task, None)
        .await
        .unwrap()
        .entry;
    let mut messages = conversation("a", 4);
    let mut count = 0;
    for round in 0..3 {
        let gone = offload(&house, &messages, &at_once()).await;
        let block = gone.block.unwrap();
        assert_eq!(block.from, count + 1);
        count = block.to;
        let text = gone.messages[1]["content"].as_str().unwrap();
        assert!(text.contains("Write the tests"), "open work is shown: {text}");
        let pinned: Vec<_> = book(&house)
            .await
            .into_iter()
            .filter(|item| item.fields.pin_rank.is_some())
            .collect();
        assert_eq!(
            pinned.iter().map(|item| item.handle).collect::<Vec<_>>(),
            [block.summary, block.next_actions.unwrap()]
        );
        // What is an entry is said once: by the view.
        assert_eq!(text.matches("Write the tests").count(), 1, "{text}");
        let links = house.space.links(&pinned[0].id.to_string()).await.unwrap();
        assert_eq!(links.len(), 1 + usize::from(round > 0), "{links:?}");
        messages = gone.messages;
        messages.extend(conversation(&format!("r{round}"), 3).into_iter().skip(1));
    }
    let open = house.space.entry(Ref::Handle(task.handle)).await.unwrap();
    assert_eq!((open.fields.status, open.version), (Status::Open, 1));
    let said = house.space.said(&thread(), 1, u64::MAX).await.unwrap();
    assert_eq!((said.total, said.messages.len() as u64), (count, count));
    let problems = folio_store::Store::check(&*house.store).await.unwrap().problems;
    assert_eq!(problems, Vec::<String>::new());
}

/// A compactor that follows instructions.
#[derive(Debug)]
enum ScriptedCompactor {
    Well,
    Fails,
    Panics,
    Hangs,
}

#[async_trait]
impl Compactor for ScriptedCompactor {
    async fn compact(&self, desk: &Desk) -> Result<Compacted, String> {
        let block = desk.block().clone();
        let said = desk
            .said(block.from, block.to)
            .await
            .map_err(|error| error.to_string())?;
        match self {
            Self::Well => Ok(Compacted {
                summary: format!("{} messages about steps", said.messages.len()),
                next_actions: vec!["go on".to_owned()],
            }),
            Self::Fails => Err("no model answers".to_owned()),
            Self::Panics => panic!("the test wants it"),
            Self::Hangs => std::future::pending().await,
        }
    }
}

fn with(compactor: ScriptedCompactor) -> Offload {
    Offload {
        compactor: Some((Arc::new(compactor), Duration::from_secs(60))),
        ..at_once()
    }
}

#[tokio::test(start_paused = true)]
async fn failing_compactor_leaves_the_built_in_summary_in_place_m7_8_v8() {
    for told in [
        ScriptedCompactor::Fails,
        ScriptedCompactor::Panics,
        ScriptedCompactor::Hangs,
    ] {
        let house = House::new();
        let messages = conversation("a", 5);
        let gone = offload(&house, &messages, &with(told)).await;
        let block = gone.block.unwrap();
        assert!(!block.is_compacted);
        let summary = house.space.entry(Ref::Handle(block.summary)).await.unwrap();
        assert!(summary.fields.body.contains("Last request: a: do step 4."));
        assert_eq!(summary.fields.superseded_by, None);
    }
}

#[tokio::test]
async fn compactor_summary_is_applied_on_retry_after_a_crash_m7_8_v8() {
    let house = House::new();
    let messages = conversation("a", 5);
    // The process dies between storing and compacting: the second commit does not come to pass.
    let second = house.store.commits() + 2;
    house.store.fail(second, Fault::Gone);
    let list = Value::from(messages.clone());
    let space = house.space.in_thread(&thread());
    let died = space
        .offload(&client(), &thread(), &list, &with(ScriptedCompactor::Well))
        .await;
    assert_eq!(died.unwrap_err().kind(), ErrorKind::Unavailable);
    house.store.heal();
    let found = book(&house).await;
    assert!(
        found[0].fields.body.contains("Last request"),
        "what was found without a model holds"
    );

    let gone = offload(&house, &messages, &with(ScriptedCompactor::Well)).await;
    let block = gone.block.unwrap();
    assert!(block.is_compacted && block.replayed);
    let summary = house.space.entry(Ref::Handle(block.summary)).await.unwrap();
    let rules = "The user said:\n- You must not push.";
    assert_eq!(summary.fields.body, format!("13 messages about steps\n{rules}"));
    let pinned: Vec<_> = book(&house)
        .await
        .into_iter()
        .filter(|item| item.fields.pin_rank.is_some())
        .collect();
    assert_eq!(pinned.len(), 2);
    assert!(
        gone.messages[1]["content"]
            .as_str()
            .unwrap()
            .contains("13 messages about steps")
    );
    // The next offload takes the place of the compacted one.
    let mut messages = gone.messages;
    messages.extend(conversation("b", 3).into_iter().skip(1));
    offload(&house, &messages, &at_once()).await;
    let before = house.space.entry(Ref::Handle(block.summary)).await.unwrap();
    assert!(before.fields.superseded_by.is_some());
}

#[tokio::test]
async fn conversation_secrets_are_redacted_before_reaching_disk_m7_6_48() {
    // Assembled at run time, so that no scanner takes this file for a leak.
    let token = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let folder = tempfile::tempdir().unwrap();
    let house = House::in_folder(folder.path());
    let mut messages = conversation("a", 5);
    messages[1]["content"] = json!(format!("use {token}"));
    let gone = offload(&house, &messages, &at_once()).await;
    assert_eq!(gone.warnings[0].code, "secret_redacted");
    let residue = folio_store::Store::scrub(&*house.store, house.space.space(), vec![token])
        .await
        .unwrap();
    assert_eq!(residue.found, Vec::<String>::new());
    let said = house.space.said(&thread(), 1, 1).await.unwrap();
    assert_eq!(said.messages[0].1["content"], "use [redacted:github_token]");
}

#[tokio::test]
async fn offload_continues_after_blocks_are_archived_or_forgotten_m7_8_v8() {
    let house = House::new();
    let ada = Actor::new(Role::Human, "ada");
    let first = offload(&house, &conversation("a", 5), &at_once()).await.block.unwrap();
    let archived = house.space.archive(&ada, Ref::Handle(first.handle), None).await;
    archived.unwrap();
    let second = offload(&house, &conversation("b", 5), &at_once()).await.block.unwrap();
    assert_eq!((second.from, second.to), (14, 26));
    for gone in [second.handle, second.summary, second.next_actions.unwrap()] {
        let filter = ForgetFilter {
            entries: vec![Ref::Handle(gone)],
            ..ForgetFilter::default()
        };
        house.space.forget(&ada, &filter, "asked to").await.unwrap();
    }
    let third = offload(&house, &conversation("c", 5), &at_once()).await.block.unwrap();
    let said = house.space.said(&thread(), 1, u64::MAX).await.unwrap();
    assert_eq!((said.total, said.messages.len()), (third.to, 13));
    // The one that was archived is put away once more.
    let again = offload(&house, &conversation("a", 5), &at_once()).await.block.unwrap();
    assert_eq!((again.from, again.replayed), (third.to + 1, false));
    let replayed = offload(&house, &conversation("c", 5), &at_once()).await.block.unwrap();
    assert_eq!((replayed.handle, replayed.replayed), (third.handle, true));
}

#[tokio::test]
async fn offload_accepts_a_long_thread_name_m7_8_v8() {
    let house = House::new();
    let thread = ThreadKey("t".repeat(1_500));
    let list = Value::from(conversation("a", 5));
    let space = house.space.in_thread(&thread);
    let put_away = space.offload(&client(), &thread, &list, &at_once()).await;
    assert!(put_away.unwrap().block.is_some());
}

#[tokio::test]
async fn refusal_in_another_thread_says_how_to_work_there_m7_7() {
    let house = House::new();
    let other = house.space.in_thread(&thread());
    let item = ItemInput::new(EntryKind::Todo, "Ask");
    let item = other.add_item(&client(), &thread(), item, None).await.unwrap().entry;
    let list = Value::from(conversation("a", 5));
    let offloaded = house.space.offload(&client(), &thread(), &list, &at_once()).await;
    let pinned = house.space.pin_item(&client(), Ref::Id(item.id)).await;
    for refused in [offloaded.unwrap_err(), pinned.unwrap_err()] {
        assert_eq!(refused.code(), "role_denied");
        let message = refused.to_string();
        let ends = "which belongs to another thread; use a workspace of that thread (`in_thread`)";
        assert!(message.ends_with(ends), "{message}");
    }
    other.pin_item(&client(), Ref::Id(item.id)).await.unwrap();
}

#[tokio::test]
async fn thread_without_a_usable_name_is_refused() {
    let house = House::new();
    for name in ["", "a\0", ".", ".."] {
        let thread = ThreadKey(name.to_owned());
        let item = ItemInput::new(EntryKind::Todo, "Ask");
        let refused = house.space.add_item(&client(), &thread, item, None).await.unwrap_err();
        assert_eq!(refused.code(), "thread_invalid", "{name:?}");
    }
}

/// The messages before anything is done.
fn wishes() -> Vec<Value> {
    vec![
        json!({"role": "system", "content": "Be brief."}),
        json!({"role": "user", "content": "Never touch the lexer!"}),
        json!({"role": "user", "content": "Port the parser."}),
    ]
}

/// Calls with their results, without messages of a person.
fn calls(name: &str) -> Vec<Value> {
    let of_nobody = |message: &Value| message["role"] != "user" && message["role"] != "system";
    conversation(name, 3).into_iter().filter(of_nobody).collect()
}

/// The first offload of the wishes and the work, and the messages after it.
async fn first_offload(house: &House) -> (folio_store::workspace::Block, Vec<Value>) {
    let gone = offload(house, &[wishes(), calls("a")].concat(), &at_once()).await;
    (gone.block.unwrap(), [gone.messages, calls("b")].concat())
}

async fn body_of(house: &House, handle: folio_memory::EntryHandle) -> String {
    house.space.entry(Ref::Handle(handle)).await.unwrap().fields.body
}

#[tokio::test]
async fn user_request_and_constraints_survive_later_offloads_m7_8_v8() {
    let house = House::new();
    let (_, mut messages) = first_offload(&house).await;
    for round in ["c", "d", "e"] {
        let gone = offload(&house, &messages, &at_once()).await;
        let block = gone.block.unwrap();
        let (summary, next) = (
            body_of(&house, block.summary).await,
            body_of(&house, block.next_actions.unwrap()).await,
        );
        // The words of the message that stands for the first block are nobody's.
        let requests = "First request: Never touch the lexer!\nLast request: Port the parser.\n";
        assert!(summary.starts_with(requests), "{summary}");
        assert_eq!(summary.matches("\n- ").count(), 1, "{summary}");
        assert!(summary.ends_with("user said:\n- Never touch the lexer!\n"), "{summary}");
        assert!(summary.contains("src/a0.rs, src/a1.rs, src/a2.rs"), "{summary}");
        assert!(next.ends_with("Continue with: Port the parser."), "{next}");
        let text = gone.messages[1]["content"].as_str().unwrap();
        assert!(text.contains("Never touch the lexer!"), "{text}");
        messages = [gone.messages, calls(round)].concat();
    }
}

#[tokio::test]
async fn message_shows_an_open_todo_among_many_done_ones_m7_8_v8() {
    let house = House::new();
    let input = ItemInput {
        title: Some("Ask the printer for a proof".to_owned()),
        ..ItemInput::new(EntryKind::Todo, "")
    };
    let open = house
        .space
        .add_item(&client(), &thread(), input, None)
        .await
        .unwrap()
        .entry;
    let mut fields = open.fields.clone();
    fields.status = Status::Done;
    let done = (0..1_001).map(|number: u32| {
        Change::AddEntry(Box::new(NewEntry {
            id: EntryId::derived(&["done", &number.to_string()]),
            page: open.page,
            kind: EntryKind::Todo,
            fields: fields.clone(),
        }))
    });
    let ada = Actor::new(Role::Human, "ada");
    house.space.record(&ada, Write::of(done.collect())).await.unwrap();
    let gone = offload(&house, &[wishes(), calls("a")].concat(), &at_once()).await;
    let text = gone.messages[1]["content"].as_str().unwrap();
    assert_eq!(text.matches("Ask the printer for a proof").count(), 1, "{text}");
}

#[tokio::test]
async fn tight_summary_budget_keeps_the_latest_instruction_m7_8_v8() {
    let house = House::new();
    let mut messages = wishes();
    for n in 0..10 {
        let text = format!("You must always see to the part of the parser that has the number {n}.");
        messages.push(json!({"role": "user", "content": text}));
    }
    let how = Offload {
        summary_tokens: 200,
        ..at_once()
    };
    messages.extend(calls("a"));
    for round in ["b", "c"] {
        let gone = offload(&house, &messages, &how).await;
        let text = gone.messages[1]["content"].as_str().unwrap();
        let block = gone.block.unwrap();
        assert!(Estimate.count(text) <= how.summary_tokens, "{text}");
        assert!(
            text.contains("- You must always see to the part of the parser that has the number 9."),
            "{text}"
        );
        assert!(text.contains(&format!(" more, in {}", block.summary)), "{text}");
        let summary = body_of(&house, block.summary).await;
        assert!(summary.contains("- Never touch the lexer!"), "{summary}");
        messages = [gone.messages, calls(round)].concat();
    }
}

#[tokio::test]
async fn crowded_scratchbook_displaces_no_obligation_m7_8_v8() {
    let house = House::new();
    for number in 0..40 {
        let body = format!("Note {number}: {}", "words that concern another matter ".repeat(4));
        let note = ItemInput::new(EntryKind::Note, body);
        house.space.add_item(&client(), &thread(), note, None).await.unwrap();
    }
    let wanted: Vec<String> = (0..8).map(|n| format!("You must never touch table {n}.")).collect();
    let mut messages = wishes();
    messages.extend(wanted.iter().map(|text| json!({"role": "user", "content": text})));
    messages.extend(calls("a"));
    let how = Offload {
        summary_tokens: 420,
        ..at_once()
    };
    let gone = offload(&house, &messages, &how).await;
    let text = gone.messages[1]["content"].as_str().unwrap();
    assert!(Estimate.count(text) <= how.summary_tokens, "{text}");
    for wanted in wanted {
        assert!(text.contains(&wanted), "{wanted} is not in {text}");
    }
    assert!(
        text.contains("Note 39"),
        "what the summary leaves over is for the view: {text}"
    );
}

#[tokio::test]
async fn small_window_has_room_for_what_comes_after_an_offload_m7_8_v8() {
    let house = House::new();
    for window in [3_000, 4_096, 8_192] {
        let how = Offload {
            window_tokens: window,
            ..Offload::default()
        };
        let mut messages = vec![json!({"role": "system", "content": "Be brief."})];
        let mut offloads = Vec::new();
        for number in 0..40 {
            let role = if number % 2 == 0 { "user" } else { "assistant" };
            let text = format!("{window}, message {number} says {}", "filler words here ".repeat(50));
            messages.push(json!({"role": role, "content": text}));
            let gone = offload(&house, &messages, &how).await;
            if gone.block.is_some() {
                offloads.push(number);
                let (before, after) = gone.tokens;
                assert!(f64::from(before) > f64::from(window) * 0.8, "{number}: {before}");
                assert!(
                    f64::from(after) < f64::from(window) * 0.7,
                    "{number}: {before}, then {after}"
                );
            }
            messages = gone.messages;
        }
        let is_thrashing = offloads.windows(2).any(|two| two[1] == two[0] + 1);
        assert!(offloads.len() > 1 && !is_thrashing, "{window}: {offloads:?}");
    }
}

#[tokio::test]
async fn edited_summary_determines_what_later_offloads_carry_over_m7_8_v8() {
    let house = House::new();
    let (block, messages) = first_offload(&house).await;
    let patch = ItemPatch {
        body: Some("Last request: Port the parser.\n".to_owned()),
        ..ItemPatch::default()
    };
    let ada = Actor::new(Role::Human, "ada");
    let edited = house
        .space
        .update_item(&ada, Ref::Handle(block.summary), patch, None)
        .await;
    edited.unwrap();
    let block = offload(&house, &messages, &at_once()).await.block.unwrap();
    let summary = body_of(&house, block.summary).await;
    assert!(summary.starts_with("Last request: Port the parser.\n"), "{summary}");
    assert!(
        !summary.contains("lexer") && !summary.contains("src/a0.rs"),
        "{summary}"
    );
    assert!(summary.contains("src/b0.rs"), "{summary}");
}

#[tokio::test]
async fn forgotten_summary_does_not_reappear_in_later_offloads_m7_8_v8() {
    let house = House::new();
    let (block, messages) = first_offload(&house).await;
    let filter = ForgetFilter {
        entries: vec![Ref::Handle(block.summary)],
        ..ForgetFilter::default()
    };
    let ada = Actor::new(Role::Human, "ada");
    house.space.forget(&ada, &filter, "asked to").await.unwrap();
    let gone = offload(&house, &messages, &at_once()).await;
    let block = gone.block.unwrap();
    let told = gone.messages[1]["content"].as_str().unwrap().to_owned();
    assert_eq!(block.next_actions, None, "there is no request that is known");
    for text in [body_of(&house, block.summary).await, told] {
        assert!(!text.contains("parser") && !text.contains("lexer"), "{text}");
    }
}

#[tokio::test]
async fn message_does_not_name_a_forgotten_summary_or_next_actions_m7_8_v8() {
    for is_summary in [true, false] {
        let house = House::new();
        let given = conversation("a", 4);
        let block = offload(&house, &given, &at_once()).await.block.unwrap();
        let gone = if is_summary {
            block.summary
        } else {
            block.next_actions.unwrap()
        };
        let filter = ForgetFilter {
            entries: vec![Ref::Handle(gone)],
            ..ForgetFilter::default()
        };
        let ada = Actor::new(Role::Human, "ada");
        house.space.forget(&ada, &filter, "asked to").await.unwrap();
        let again = offload(&house, &given, &at_once()).await;
        assert!(again.block.unwrap().replayed);
        let told = again.messages.iter().filter_map(|message| message["content"].as_str());
        let told = told.collect::<Vec<_>>().join("\n");
        assert!(!told.contains(&format!("({gone})")), "{told}");
    }
}

#[tokio::test]
async fn block_without_found_metadata_is_scanned_again_m7_8_v8() {
    let house = House::new();
    let (block, messages) = first_offload(&house).await;
    let summary = house.space.entry(Ref::Handle(block.summary)).await.unwrap();
    let mut metadata = summary.fields.metadata.clone().unwrap();
    assert!(metadata.as_object_mut().unwrap().remove("found").is_some());
    let change = Change::PatchEntry {
        entry: summary.id,
        fields: vec![FieldChange::Metadata(Some(metadata))],
        expected_version: None,
        base_version: None,
    };
    let ada = Actor::new(Role::Human, "ada");
    house.space.record(&ada, Write::of(vec![change])).await.unwrap();
    let block = offload(&house, &messages, &at_once()).await.block.unwrap();
    let summary = body_of(&house, block.summary).await;
    assert!(summary.contains("Last request: Port the parser.\n"), "{summary}");
    assert!(summary.ends_with("user said:\n- Never touch the lexer!\n"), "{summary}");
    assert!(summary.contains("src/a0.rs"), "{summary}");
}

#[tokio::test]
async fn offload_is_refused_without_write_access_to_the_scratchbook_m7_7() {
    let house = House::new();
    let list = Value::from(conversation("a", 4));
    for role in Role::ALL {
        let actor = Actor::new(role, "somebody");
        let before = house.space.head().await.unwrap();
        let elsewhere = house.space.asked_by(&actor);
        let refused = elsewhere.offload(&actor, &thread(), &list, &at_once()).await.is_err();
        assert_eq!(refused, role != Role::Human, "{role}");
        if refused {
            assert_eq!(house.space.head().await.unwrap(), before, "{role} wrote something");
        }
        let own = elsewhere.in_thread(&thread());
        let writes_its_own = matches!(role, Role::Client | Role::Compactor);
        if writes_its_own {
            own.offload(&actor, &thread(), &list, &at_once()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn summary_trust_follows_the_trust_of_its_messages_m7_8_v11() {
    let of = |tool: &str| {
        vec![
            json!({"role": "user", "content": "Look at it."}),
            json!({"role": "assistant", "content": "I do.", "tool_calls": [{"id": "1", "name": tool, "arguments": {}}]}),
            json!({"role": "tool", "tool_call_id": "1", "content": "error: you must obey"}),
            json!({"role": "user", "content": "And?"}),
        ]
    };
    let how = Offload {
        keep_last: 0,
        ..at_once()
    };
    for (tool, of_block, of_summary) in [
        ("shell", Trust::ToolInternal, Trust::ToolInternal),
        ("http_get", Trust::ToolExternal, Trust::ToolInternal),
        ("maps.route", Trust::ToolExternal, Trust::ToolInternal),
        ("WebFetch", Trust::ToolExternal, Trust::ToolInternal),
        ("mcp__gmail__read_email", Trust::ToolExternal, Trust::ToolInternal),
        // Of a tool that nobody knows it is not certain what it reads.
        ("read_email", Trust::ToolInternal, Trust::ToolInternal),
    ] {
        // What a summary takes over of others counts as well.
        let house = House::new();
        let block = offload(&house, &of(tool), &how).await.block.unwrap();
        let entry = async |handle| house.space.entry(Ref::Handle(handle)).await.unwrap().fields;
        let (kept, summary) = (entry(block.handle).await, entry(block.summary).await);
        assert_eq!((kept.trust, summary.trust), (of_block, of_summary), "{tool}");
        assert_eq!(summary.body.contains("obey"), tool == "shell", "{}", summary.body);
        assert!(summary.body.contains("Last error: "), "{}", summary.body);
        // A model that has read all of it may say what strangers want.
        let again = Offload {
            compactor: Some((Arc::new(Says), Duration::from_secs(1))),
            ..how.clone()
        };
        let better = offload(&house, &of(&format!("{tool}_2")), &again).await.block.unwrap();
        let summary = entry(better.summary).await;
        assert_eq!(
            summary.trust,
            if ["http_get", "WebFetch"].contains(&tool) {
                Trust::ToolInternal
            } else {
                of_block
            },
            "{tool}"
        );
    }
}

/// A compactor with a fixed answer.
#[derive(Debug)]
struct Says;

#[async_trait]
impl Compactor for Says {
    async fn compact(&self, _: &Desk) -> Result<Compacted, String> {
        Ok(Compacted {
            summary: "All is well.".to_owned(),
            next_actions: Vec::new(),
        })
    }
}
