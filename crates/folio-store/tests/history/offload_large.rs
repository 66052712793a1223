//! Conversations that do not fit into one block of the history (M7.8 V7).

use crate::house::House;
use folio_memory::id::Ref;
use folio_memory::offload::page_of;
use folio_memory::{Actor, Role, ThreadKey};
use folio_store::WorkspaceError;
use folio_store::workspace::{BookFilter, Offload, Offloaded};
use serde_json::{Value, json};

const MIB: usize = 1024 * 1024;

fn thread() -> ThreadKey {
    ThreadKey("chat".to_owned())
}

/// A message of about `mib` MiB.
fn message(name: &str, mib: usize) -> Value {
    json!({"role": "user", "content": format!("{name} {}", "x".repeat(mib * MIB))})
}

async fn try_to_offload(house: &House, messages: &[Value]) -> Result<Offloaded, WorkspaceError> {
    let how = Offload {
        force: true,
        keep_last: 2,
        ..Offload::default()
    };
    let list = Value::from(messages.to_vec());
    let client = Actor::new(Role::Client, "agent");
    let space = house.space.in_thread(&thread());
    space.offload(&client, &thread(), &list, &how).await
}

/// The numbers of the first and last message of each block.
async fn blocks(house: &House) -> Vec<(u64, u64)> {
    let (page, _) = page_of(house.space.space(), &thread());
    let entries = house.space.page_entries(Ref::Id(page)).await.unwrap();
    let numbers = entries.iter().map(|block| {
        let parts = block.fields.parts.as_ref().unwrap();
        (parts["from"].as_u64().unwrap(), parts["to"].as_u64().unwrap())
    });
    numbers.collect()
}

#[tokio::test]
async fn conversation_of_more_than_one_block_is_kept_in_several_m7_8_v7() {
    let house = House::new();
    let mut messages: Vec<Value> = ["a", "b"].map(|name| message(name, 9)).into();
    messages.extend([
        json!({"role": "assistant", "content": "Well."}),
        json!({"role": "user", "content": "Go on."}),
        json!({"role": "assistant", "content": "Yes."}),
    ]);
    let left = try_to_offload(&house, &messages).await.unwrap();
    assert_eq!(blocks(&house).await, [(1, 1), (2, 3)]);
    let block = left.block.as_ref().unwrap();
    assert_eq!((block.numbers.as_slice(), block.replayed), (&[(1, 3)][..], false));
    assert_eq!(left.messages.len(), 3, "one stands for all of them");
    let history = house.space.said(&thread(), 1, u64::MAX).await.unwrap();
    assert!(
        history.messages.iter().map(|(_, message)| message).eq(&messages[..3]),
        "all of it is there"
    );
    let book = house.space.book_items(&thread(), BookFilter::default()).await.unwrap();
    let summaries = book
        .items
        .iter()
        .filter(|item| item.fields.title.starts_with("Summary"));
    let titles: Vec<&str> = summaries.map(|summary| summary.fields.title.as_str()).collect();
    assert_eq!(titles, ["Summary of this conversation up to message 3"]);

    let head = house.space.head().await.unwrap();
    let again = try_to_offload(&house, &messages).await.unwrap();
    assert!(again.block.unwrap().replayed);
    assert_eq!(again.messages, left.messages);
    assert_eq!(house.space.head().await.unwrap(), head, "nothing is stored twice");
}

#[tokio::test]
async fn message_that_fits_into_no_block_is_named_and_nothing_is_stored_m7_8_v7() {
    let house = House::new();
    let mut messages = vec![message("a", 12), message("b", 16)];
    messages.extend(["c", "d"].map(|name| message(name, 0)));
    let refused = try_to_offload(&house, &messages).await.unwrap_err();
    assert_eq!(refused.code(), "body_too_large");
    assert!(refused.to_string().starts_with("messages[1]: "), "{refused}");
    assert_eq!(house.space.head().await.unwrap().0, 0);
}
