use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn the_forms_of_openai_and_anthropic_are_read_alike_m7_8_v8() {
    let openai = Message::read_all(&json!([
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Read it"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a.rs\"}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "text"},
    ]))
    .unwrap();
    let anthropic = Message::read_all(&json!({"messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Read it"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a.rs"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "text"}]}]},
    ]}))
    .unwrap();
    for (a, b) in openai.iter().zip(&anthropic) {
        assert_eq!((&a.calls, &a.results), (&b.calls, &b.results));
    }
    assert_eq!(openai[1].content, anthropic[1].content);
    // The common form reads back from what it is written as.
    for message in &openai {
        let written = json!([message]);
        let read = Message::read_all(&written).unwrap().remove(0);
        assert_eq!(
            (&read.role, &read.calls, &read.results),
            (&message.role, &message.calls, &message.results)
        );
    }
    let wrong = Message::read_all(&json!([{"role": "user", "content": "x"}, {"role": "king"}])).unwrap_err();
    assert_eq!(
        (wrong.code.as_str(), wrong.field.as_str()),
        ("messages_invalid", "messages[1].role")
    );
}

#[test]
fn what_was_asked_what_failed_and_what_must_be_done_is_found_without_a_model_m7_8_v8() {
    let messages = Message::read_all(&json!([
        {"role": "user", "content": "See https://example.org/issue, please. Never push to main!"},
        {"role": "assistant", "content": "I will read it. Fine.", "tool_calls": [{"id": "1", "name": "read", "arguments": {"path": "src/a.rs"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "ok\nerror[E0308]: mismatched types\n"},
        {"role": "user", "content": "Then fix it"},
    ]))
    .unwrap();
    let found = extract(Extract::default(), &messages);
    assert_eq!(
        found.summary(),
        "Last request: Then fix it\nLast error: error[E0308]: mismatched types\n\
         Touched: https://example.org/issue, src/a.rs\nSaid:\n- Never push to main!\n- I will read it.\n"
    );
    assert_eq!(
        found.next_actions(&["e4 write tests".to_owned()]),
        [
            "e4 write tests",
            "See to: error[E0308]: mismatched types",
            "Go on with: Then fix it"
        ]
    );
}

fn conversations() -> impl Strategy<Value = Vec<Message>> {
    let message = (0_u8..6, 0_u8..5, "[a-z. 日]{0,30}").prop_map(|(kind, id, text)| match kind {
        0 => json!({"role": "system", "content": text}),
        1 => json!({"role": "user", "content": text}),
        2 => json!({"role": "assistant", "content": text}),
        3 => json!({"role": "assistant", "content": [{"type": "tool_use", "id": id.to_string(), "name": "t", "input": {}}]}),
        4 => json!({"role": "tool", "tool_call_id": id.to_string(), "content": text}),
        _ => json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id.to_string(), "content": text}]}),
    });
    prop::collection::vec(message, 0..40).prop_map(|list| Message::read_all(&list.into()).unwrap())
}

proptest! {
    #[test]
    fn a_call_is_never_parted_from_its_result_and_the_last_messages_stay_m7_8_v8(messages in conversations(), keep in 0_usize..12) {
        let (from, to) = cut(&messages, keep);
        prop_assert!(from <= to && to <= messages.len());
        prop_assert!(to == from || messages.len() - to >= keep.min(messages.len() - from));
        prop_assert!(messages[..from].iter().all(|message| message.role == Speaker::System));
        for (at, message) in messages.iter().enumerate().skip(to) {
            for result in &message.results {
                let call = messages[..at].iter().rposition(|m| m.calls.iter().any(|call| call.id == result.call_id));
                prop_assert!(call.is_none_or(|call| call >= to || to == from), "{at}");
            }
        }
    }

    #[test]
    fn what_is_found_is_bounded_m7_8_v8(messages in conversations(), n in 1_usize..50) {
        let many: Vec<Message> = std::iter::repeat_n(messages, n).flatten().collect();
        prop_assert!(extract(Extract::default(), &many).summary().len() < 64 * 1024);
    }
}
