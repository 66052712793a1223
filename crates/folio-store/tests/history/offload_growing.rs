//! Conversations that are passed whole each time, also after older messages were put away, and how what was put away is
//! read (M7.8 V7 and V8, seed 003 A6).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::house::House;
use async_trait::async_trait;
use folio_memory::id::Ref;
use folio_memory::offload::page_of;
use folio_memory::tokens::Estimate;
use folio_memory::{Actor, Change, Entry, FieldChange, Role, ThreadKey};
use folio_store::WorkspaceError;
use folio_store::workspace::{
    Block, Compacted, Compactor, Desk, ForgetFilter, Offload, Offloaded, ScratchAnswer, ScratchCaller, ViewRequest,
    Write,
};
use serde_json::{Value, json};

fn thread() -> ThreadKey {
    ThreadKey("chat".to_owned())
}

fn at_once() -> Offload {
    Offload {
        force: true,
        keep_last: 2,
        ..Offload::default()
    }
}

/// The messages with these numbers of a conversation, a request and its answer by turns.
fn said(name: &str, numbers: std::ops::RangeInclusive<u64>) -> Vec<Value> {
    let message = |number: u64| {
        let role = if number % 2 == 1 { "user" } else { "assistant" };
        json!({"role": role, "content": format!("{name} {number} {}", "lorem ipsum ".repeat(40))})
    };
    numbers.map(message).collect()
}

async fn offload(house: &House, messages: &[Value], how: &Offload) -> Offloaded {
    let list = Value::from(messages.to_vec());
    let space = house.space.in_thread(&thread());
    let client = Actor::new(Role::Client, "agent");
    space.offload(&client, &thread(), &list, how).await.unwrap()
}

/// What a model is answered that calls the tool `name` in the thread.
async fn call(house: &House, name: &str, arguments: Value) -> Result<ScratchAnswer, WorkspaceError> {
    let client = Actor::new(Role::Client, "agent");
    let space = house.space.asked_by(&client).in_thread(&thread());
    let caller = ScratchCaller {
        actor: &client,
        thread: &thread(),
        tokens: &Estimate,
        idempotency_key: None,
    };
    space.call_scratch_tool(&caller, name, &arguments).await
}

/// The messages of the history, which are numbered through from 1.
async fn history(house: &House) -> Vec<Value> {
    let said = house.space.said(&thread(), 1, u64::MAX).await.unwrap();
    let numbers = said.messages.iter().map(|(number, _)| *number);
    assert!(numbers.eq(1..=said.total), "{:?}", said.total);
    said.messages.into_iter().map(|(_, message)| message).collect()
}

/// The text of the message that stands for those put away.
fn stand_in(offloaded: &Offloaded) -> &str {
    let texts = offloaded
        .messages
        .iter()
        .filter_map(|message| message["content"].as_str());
    texts
        .into_iter()
        .find(|text| text.contains("are stored elsewhere"))
        .unwrap()
}

/// The entries of the blocks.
async fn blocks(house: &House) -> Vec<Entry> {
    let (page, _) = page_of(house.space.space(), &thread());
    house.space.page_entries(Ref::Id(page)).await.unwrap()
}

async fn forget(house: &House, block: &Block) {
    let filter = ForgetFilter {
        entries: vec![Ref::Handle(block.handle)],
        ..ForgetFilter::default()
    };
    let ada = Actor::new(Role::Human, "ada");
    house.space.forget(&ada, &filter, "asked to").await.unwrap();
}

#[tokio::test]
async fn growing_list_stores_each_message_once_m7_8_v8() {
    let house = House::new();
    let how = Offload {
        window_tokens: 4_000,
        ..Offload::default()
    };
    let mut list = vec![json!({"role": "system", "content": "Be brief."})];
    let (mut shortened, mut commits) = (0, 0);
    for number in 1..=60 {
        list.extend(said("a", number..=number));
        let head = house.space.head().await.unwrap();
        let gone = offload(&house, &list, &how).await;
        commits += usize::from(house.space.head().await.unwrap() != head);
        let Some(block) = &gone.block else {
            assert_eq!(gone.messages, list);
            continue;
        };
        shortened += 1;
        let to = usize::try_from(block.to).unwrap();
        assert_eq!(history(&house).await, list[1..=to], "{number}");
        assert_eq!(gone.messages[0], list[0]);
        assert_eq!(gone.messages[2..], list[to + 1..]);
        let wanted = format!(
            "[Messages 1 to {to} of this conversation are stored elsewhere; {} ",
            block.handle
        );
        assert!(stand_in(&gone).starts_with(&wanted), "{}", stand_in(&gone));
        assert!(gone.tokens.1 <= 3_200, "{number}: {:?}", gone.tokens);

        let head = house.space.head().await.unwrap();
        let again = offload(&house, &list, &how).await;
        assert_eq!((&again.messages, again.block.unwrap().replayed), (&gone.messages, true));
        assert_eq!(house.space.head().await.unwrap(), head);
    }
    assert!(
        shortened > 30 && commits < shortened * 2 / 5,
        "{commits} of {shortened}"
    );
}

#[tokio::test]
async fn stand_in_is_no_message_of_the_history_m7_8_v8() {
    let house = House::new();
    let how = Offload {
        window_tokens: 4_000,
        ..Offload::default()
    };
    let (mut kept, all) = (Vec::new(), said("a", 1..=60));
    for message in &all {
        kept.push(message.clone());
        kept = offload(&house, &kept, &how).await.messages;
    }
    let history = history(&house).await;
    assert!(history.len() > 40);
    assert_eq!(history[..], all[..history.len()]);
    assert_eq!(kept[1..], all[history.len()..]);
    // A program that lost the shortened list passes what it has: all of it.
    let again = offload(&house, &all, &how).await;
    let to = usize::try_from(again.block.as_ref().unwrap().to).unwrap();
    assert_eq!((again.block.unwrap().replayed, to), (true, history.len()));
    assert_eq!(again.messages[1..], all[to..]);
}

#[tokio::test]
async fn list_that_differs_from_some_message_on_is_a_branch_m7_8_v8() {
    let house = House::new();
    let mut first = said("a", 1..=12);
    first[6] = json!({"role": "user", "content": "You must paint it red."});
    first[1] = json!({"role": "assistant", "content": "I will touch src/old.rs."});
    first[2] = json!({"role": "user", "content": "Never touch the lexer!"});
    let block = offload(&house, &first, &at_once()).await.block.unwrap();
    assert_eq!((block.from, block.to), (1, 10));

    let second = [&first[..4], &said("b", 5..=12)].concat();
    let gone = offload(&house, &second, &at_once()).await;
    let branch = gone.block.clone().unwrap();
    assert_eq!((branch.from, branch.to, branch.replayed), (11, 16, false));
    let text = stand_in(&gone);
    assert!(
        text.starts_with("[Messages 1 to 4, 11 to 16 of this conversation are stored elsewhere; "),
        "{text}"
    );
    assert!(text.contains("Never touch the lexer!"), "{text}");
    assert!(!text.contains("paint it red"), "what the other branch says: {text}");
    assert_eq!(history(&house).await, [&first[..10], &second[4..10]].concat());

    // Both go on from where they are.
    let longer = [&first[..], &said("a", 13..=16)].concat();
    let longer_branch = [&second[..], &said("b", 13..=16)].concat();
    let gone = offload(&house, &longer, &at_once()).await;
    assert!(
        stand_in(&gone).starts_with("[Messages 1 to 10, 17 to 20 of this"),
        "{}",
        stand_in(&gone)
    );
    let gone = offload(&house, &longer_branch, &at_once()).await;
    assert!(
        stand_in(&gone).starts_with("[Messages 1 to 4, 11 to 16, 21 to 24 of this"),
        "{}",
        stand_in(&gone)
    );
    // The message that stands for the branch leads to the same place.
    let shortened = [&gone.messages[..], &said("b", 17..=18)].concat();
    let gone = offload(&house, &shortened, &at_once()).await;
    assert!(
        stand_in(&gone).starts_with("[Messages 1 to 4, 11 to 16, 21 to 26 of this"),
        "{}",
        stand_in(&gone)
    );
    let shorter = offload(&house, &first[..8], &at_once()).await;
    assert!(
        stand_in(&shorter).starts_with("[Messages 1 to 6 of this"),
        "{}",
        stand_in(&shorter)
    );
    assert_eq!(shorter.messages[1..], first[6..8]);
    assert_eq!(history(&house).await.len(), 26);
}

#[tokio::test]
async fn writers_of_growing_lists_in_one_thread_store_each_message_once_m7_8_v8() {
    let house = House::new();
    let write = async |name: String| {
        for turn in 1..=5 {
            offload(&house, &said(&name, 1..=turn * 6), &at_once()).await;
        }
    };
    let six = (0..6).map(|writer| write(format!("w{writer}")));
    futures_util::future::join_all(six).await;
    let text = |message: &Value| message["content"].as_str().unwrap().replace(" lorem ipsum", "");
    let mut texts: Vec<String> = history(&house).await.iter().map(text).collect();
    texts.sort();
    let mut wanted: Vec<String> = (0..6)
        .flat_map(|writer| said(&format!("w{writer}"), 1..=28))
        .map(|message| text(&message))
        .collect();
    wanted.sort();
    assert_eq!(texts, wanted);
}

#[tokio::test]
async fn history_of_an_earlier_version_is_continued_m7_8_v8() {
    for is_kept in [false, true] {
        let house = House::new();
        let all = said("a", 1..=30);
        let first = offload(&house, &all[..10], &at_once()).await;
        let list = [&first.messages[..], &all[10..20]].concat();
        let second = offload(&house, &list, &at_once()).await;
        // Earlier versions did not note how a block can be recognized, and stored stand-ins as messages.
        let ada = Actor::new(Role::Human, "ada");
        for entry in blocks(&house).await {
            let parts = entry.fields.parts.clone().unwrap();
            let mut fields = Vec::new();
            let (from, mut to) = (parts["from"].as_u64().unwrap(), parts["to"].as_u64().unwrap());
            if from > 1 {
                to += 1;
                fields.push(FieldChange::Body(format!("{}\n{}", list[0], entry.fields.body)));
            }
            let parts = json!({"from": from, "to": to, "fingerprint": parts["fingerprint"]});
            fields.push(FieldChange::Parts(Some(parts)));
            let change = Change::PatchEntry {
                entry: entry.id,
                fields,
                expected_version: None,
                base_version: None,
            };
            house.space.record(&ada, Write::of(vec![change])).await.unwrap();
        }
        let mut second = second.messages;
        second[0]["content"] = json!(second[0]["content"].as_str().unwrap().replacen("1 to 18", "1 to 19", 1));
        let list = match is_kept {
            true => [&second[..], &all[20..]].concat(),
            false => all.clone(),
        };
        let mut wanted = all[..28].to_vec();
        wanted.insert(8, first.messages[0].clone());
        for _ in 0..2 {
            let gone = offload(&house, &list, &at_once()).await;
            let text = stand_in(&gone);
            assert!(text.starts_with("[Messages 1 to 29 of this"), "{is_kept}: {text}");
            assert_eq!(history(&house).await, wanted, "{is_kept}");
        }
    }
}

#[tokio::test]
async fn growing_list_with_a_secret_stores_it_once_without_it_m7_6_48() {
    let token = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let house = House::new();
    let mut all = said("a", 1..=20);
    all[3]["content"] = json!(format!("use {token}"));
    for length in [10, 15, 20] {
        offload(&house, &all[..length], &at_once()).await;
    }
    all[3]["content"] = json!("use [redacted:github_token]");
    assert_eq!(history(&house).await, all[..18]);
}

#[tokio::test]
async fn forgotten_messages_of_a_growing_list_are_not_stored_again_m7_8_v8() {
    let house = House::new();
    let all = said("a", 1..=30);
    let first = offload(&house, &all[..10], &at_once()).await.block.unwrap();
    offload(&house, &all[..20], &at_once()).await;
    forget(&house, &first).await;
    let gone = offload(&house, &all, &at_once()).await;
    assert_eq!(gone.block.unwrap().to, 28);
    let said = house.space.said(&thread(), 1, u64::MAX).await.unwrap();
    let numbers: Vec<u64> = said.messages.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (9..=28).collect::<Vec<_>>());
}

/// A compactor that counts how often it is asked.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

#[async_trait]
impl Compactor for Counting {
    async fn compact(&self, _: &Desk) -> Result<Compacted, String> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Compacted {
            summary: "All is well.".to_owned(),
            next_actions: Vec::new(),
        })
    }
}

#[tokio::test]
async fn compactor_is_not_asked_about_what_was_put_away_before_m7_8_v8() {
    let house = House::new();
    let counting = Arc::new(Counting::default());
    let how = Offload {
        window_tokens: 4_000,
        compactor: Some((Arc::clone(&counting) as Arc<dyn Compactor>, Duration::from_secs(5))),
        ..Offload::default()
    };
    let mut written = 0;
    for length in 1..=60 {
        let gone = offload(&house, &said("a", 1..=length), &how).await;
        written += usize::from(gone.block.is_some_and(|block| !block.replayed));
    }
    assert_eq!(counting.0.load(Ordering::SeqCst), written);
    assert!(written < 15, "{written}");
}

#[tokio::test]
async fn next_actions_go_when_nothing_is_left_of_them_m7_8_v8() {
    let house = House::new();
    let call =
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": "1", "name": "read", "arguments": {}}]});
    let result = json!({"role": "tool", "tool_call_id": "1", "content": "error: it broke"});
    let mut list = vec![
        json!({"role": "user", "content": "Do it."}),
        call.clone(),
        result,
        call.clone(),
        call,
    ];
    let block = offload(&house, &list, &at_once()).await.block.unwrap();
    let open = house
        .space
        .entry(Ref::Handle(block.next_actions.unwrap()))
        .await
        .unwrap();
    assert_eq!(open.fields.body, "Fix: error: it broke\nContinue with: Do it.");
    list.extend(said("a", 2..=6));
    let gone = offload(&house, &list, &at_once()).await;
    assert!(!stand_in(&gone).contains("Next actions"), "{}", stand_in(&gone));
    assert_eq!(gone.block.unwrap().next_actions, None);
    let old = house.space.entry(Ref::Handle(open.handle)).await.unwrap();
    assert!(old.fields.superseded_by.is_some());
    let view = house.space.view(ViewRequest::of(thread()), &Estimate).await.unwrap();
    assert!(
        !view.rendered.text.contains("it broke\nContinue"),
        "{}",
        view.rendered.text
    );
}

#[tokio::test]
async fn messages_that_were_put_away_are_found_by_their_words_m7_8_v7() {
    let house = House::new();
    let mut all = said("a", 1..=30);
    all[4]["content"] = json!("Amounts are integers in CENTS, not in euros.");
    all[9]["content"] = json!("Cents it is.");
    offload(&house, &all[..10], &at_once()).await;
    let gone = offload(&house, &all, &at_once()).await;
    assert!(
        stand_in(&gone).contains("scratch_read with page \"history\""),
        "{}",
        stand_in(&gone)
    );
    let find = async |words: &str, numbers, most| {
        let space = house.space.in_thread(&thread());
        let found = space.search_said(&thread(), words, numbers, most).await.unwrap();
        let numbers: Vec<u64> = found.messages.iter().map(|(number, _)| *number).collect();
        (numbers, found.total, found.next)
    };
    let every = (1, u64::MAX);
    assert_eq!(find("cents", every, 9).await, (vec![5, 10], 28, None));
    assert_eq!(find("cents", every, 1).await, (vec![5], 28, Some(10)));
    assert_eq!(find("cents", (6, 20), 9).await, (vec![10], 28, None));
    assert_eq!(find("euros cents", every, 9).await, (vec![5], 28, None));
    assert_eq!(find("user", every, 9).await, (vec![], 28, None));

    let read = async |arguments: Value| call(&house, "scratch_read", arguments).await;
    let found = read(json!({"page": "history", "query": "cents"})).await.unwrap();
    let wanted =
        "5 user: Amounts are integers in CENTS, not in euros.\n10 assistant: Cents it is.\n28 messages were put away";
    assert_eq!(found.text, wanted);
    let begin = read(json!({"page": "history", "budget": 400})).await.unwrap();
    let next = begin.structured["next"].as_str().unwrap();
    let rest = read(json!({"page": "history", "budget": 400, "cursor": next}))
        .await
        .unwrap();
    assert!(rest.text.starts_with(&format!("{next} ")), "{}", rest.text);
    let elsewhere = read(json!({"query": "euros"})).await.unwrap().text;
    assert!(elsewhere.contains("page \"history\""), "{elsewhere}");
    let refused = read(json!({"page": "history", "tags": ["x"]})).await.unwrap_err();
    assert_eq!(refused.code(), "arguments_invalid");
}

#[tokio::test]
async fn line_above_a_text_repeats_nothing_of_it_m7_8_v7() {
    let house = House::new();
    let note = json!({"kind": "note", "title": "Ships", "body": "The mill is old.", "tags": ["boat"]});
    call(&house, "scratch_add", note).await.unwrap();
    let read = call(&house, "scratch_read", json!({"id": "e1"})).await.unwrap();
    assert_eq!(read.text, "e1 [note/active] Ships #boat\nThe mill is old.");
}

#[tokio::test]
async fn call_in_the_history_is_read_as_its_tool_and_then_its_arguments_m7_8_v8() {
    let house = House::new();
    let call_of = json!([{"id": "c", "function": {"name": "write", "arguments": "{\"path\": \"a.sql\"}"}}]);
    let said = [
        json!({"role": "user", "content": "Write it."}),
        json!({"role": "assistant", "content": "I write.", "tool_calls": call_of}),
    ];
    let whole = Offload {
        keep_last: 0,
        ..at_once()
    };
    offload(&house, &said, &whole).await;
    let read = call(&house, "scratch_read", json!({"page": "history"})).await.unwrap();
    assert!(
        read.text.contains("2 assistant: I write. write {\"path\": \"a.sql\"}"),
        "{}",
        read.text
    );
}
