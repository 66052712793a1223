//! Next actions of an offload that the conversation has settled (M7.8 V8).

use crate::house::House;
use folio_memory::entry::Status;
use folio_memory::id::Ref;
use folio_memory::tokens::Estimate;
use folio_memory::{Actor, Role, ThreadKey, TurnId};
use folio_store::Workspace;
use folio_store::workspace::{BookFilter, Guard, Offload, Offloaded, TurnInput, ViewRequest};
use serde_json::{Value, json};

fn client() -> Actor {
    Actor::new(Role::Client, "agent")
}

fn ada() -> Actor {
    Actor::new(Role::Human, "ada")
}

fn at_once() -> Offload {
    Offload {
        force: true,
        keep_last: 0,
        ..Offload::default()
    }
}

async fn offload(house: &House, messages: &[Value], how: &Offload) -> Offloaded {
    let list = Value::from(messages.to_vec());
    let main = ThreadKey::main();
    house.space.offload(&client(), &main, &list, how).await.unwrap()
}

/// The bodies of the next actions that are open.
async fn open_next_actions(space: &Workspace) -> Vec<String> {
    let items = space
        .book_items(&ThreadKey::main(), BookFilter::default())
        .await
        .unwrap();
    let is_open =
        |item: &&folio_memory::Entry| item.fields.title == "Next actions" && item.fields.status == Status::Open;
    items
        .items
        .iter()
        .filter(is_open)
        .map(|item| item.fields.body.clone())
        .collect()
}

async fn begin(house: &House, input: &str) -> TurnId {
    let input = TurnInput::of(ThreadKey::main(), input);
    house.space.begin_turn(&ada(), input).await.unwrap().turn.begun.id
}

async fn view(house: &House) -> String {
    let request = ViewRequest::of(ThreadKey::main());
    house
        .space
        .view(request, &Estimate)
        .await
        .unwrap()
        .rendered
        .text
        .clone()
}

#[tokio::test]
async fn next_actions_are_done_once_the_conversation_has_answered_m7_8_v8() {
    let house = House::new();
    let how = Offload {
        window_tokens: 1_000,
        keep_last: 0,
        ..Offload::default()
    };
    let long = "Port the parser to the new grammar. ".repeat(200);
    let mut list = vec![json!({"role": "user", "content": long})];
    let first = offload(&house, &list, &how).await;
    assert!(first.block.unwrap().next_actions.is_some());
    assert_eq!(open_next_actions(&house.space).await.len(), 1);
    let call = json!([{"id": "c", "function": {"name": "read", "arguments": "{}"}}]);
    list.push(json!({"role": "assistant", "content": "I look.", "tool_calls": call}));
    list.push(json!({"role": "tool", "tool_call_id": "c", "content": "fine"}));
    let working = offload(&house, &list, &how).await;
    assert!(working.block.unwrap().next_actions.is_some(), "it is not answered yet");
    list.push(json!({"role": "assistant", "content": "Ported."}));
    for _ in 0..2 {
        let answered = offload(&house, &list, &how).await;
        assert_eq!(answered.block.unwrap().next_actions, None);
        let text = answered.messages[0]["content"].as_str().unwrap();
        assert!(text.contains("Last request: Port"), "{text}");
        assert!(!text.contains("Continue with"), "{text}");
        assert_eq!(open_next_actions(&house.space).await, [""; 0]);
    }
}

#[tokio::test]
async fn next_actions_are_done_when_the_turn_of_their_offload_ends_m7_8_v8() {
    let house = House::new();
    let main = ThreadKey::main();
    let turn = begin(&house, "Port the parser.").await;
    let agent = client().in_turn(turn);
    let asked = json!({"role": "user", "content": "Port the parser."});
    let list = json!([asked]);
    house.space.offload(&agent, &main, &list, &at_once()).await.unwrap();
    let before = view(&house).await;
    assert!(before.contains("Continue with: Port the parser."), "{before}");
    let ended = house.space.end_turn(&ada(), Ref::Id(turn)).await.unwrap();
    assert!(ended.evaluation.complete, "{:?}", ended.evaluation);
    assert_eq!(open_next_actions(&house.space).await, [""; 0]);
    let after = view(&house).await;
    assert!(!after.contains("Next actions"), "{after}");
    assert!(after.contains("Last request: Port the parser."), "{after}");
    // The next offload goes on from there.
    let next = client().in_turn(begin(&house, "Test it.").await);
    let answer = json!({"role": "assistant", "content": "Ported."});
    let list = json!([asked, answer, {"role": "user", "content": "Test it."}]);
    let offloaded = house.space.offload(&next, &main, &list, &at_once()).await.unwrap();
    assert!(offloaded.block.unwrap().next_actions.is_some());
    assert_eq!(open_next_actions(&house.space).await, ["Continue with: Test it."]);
}

#[tokio::test]
async fn next_actions_that_somebody_completed_are_shown_nowhere_m7_8_v8() {
    let house = House::new();
    let list = [json!({"role": "user", "content": "Port the parser."})];
    let block = offload(&house, &list, &at_once()).await.block.unwrap();
    let next = Ref::Handle(block.next_actions.unwrap());
    house.space.complete(&client(), next, Guard::default()).await.unwrap();
    let again = offload(&house, &list, &at_once()).await;
    assert_eq!(again.block.unwrap().next_actions, None);
    let text = again.messages[0]["content"].as_str().unwrap();
    assert!(!text.contains("Next actions"), "{text}");
    assert!(!view(&house).await.contains("Next actions"), "neither pinned nor done");
}
