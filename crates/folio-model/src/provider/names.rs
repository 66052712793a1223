//! Names of tools as providers take them: letters, digits, `_` and `-`, at most 64 of them.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use crate::model::{Reply, Request};

/// The most that every provider takes.
const CHARS_MAX: usize = 64;

/// The name of a tool as it is sent: `maps.route` is `maps__route`.
///
/// A name that could be taken for that of another one ends with a part of its hash.
pub(super) fn sent(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.len() <= CHARS_MAX && name.chars().all(is_plain) && !name.contains("__") {
        return Cow::Borrowed(name);
    }
    let changed = name.replace('.', "__");
    let is_told_apart = changed.len() <= CHARS_MAX && changed.chars().all(is_plain) && !name.contains("__");
    if is_told_apart {
        return Cow::Owned(changed);
    }
    let hash: String = Sha256::digest(name.as_bytes())
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let plain = changed.chars().map(|c| if is_plain(c) { c } else { '_' });
    let kept: String = plain.take(CHARS_MAX - 1 - hash.len()).collect();
    Cow::Owned(format!("{kept}_{hash}"))
}

/// The reply with the names of tools as `request` has them.
pub(super) fn understood(mut reply: Reply, request: &Request) -> Reply {
    for call in &mut reply.tool_calls {
        let known = request.tools.iter().map(|tool| &tool.name);
        if let Some(name) = known.into_iter().find(|name| sent(name) == call.tool) {
            call.tool.clone_from(name);
        }
    }
    reply
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_sent_as_every_provider_takes_them_and_stay_apart() {
        let long = format!("files.{}", "x".repeat(80));
        let names = [
            "grep",
            "files.read",
            "files__read",
            "files._read",
            "files.read/all",
            "files.read all",
            "files.réad",
            &long,
        ];
        let sent: BTreeSet<_> = names.iter().map(|name| sent(name)).collect();
        assert_eq!(sent.len(), names.len(), "{sent:?}");
        for name in &sent {
            let is_taken = name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
            assert!(is_taken, "{name}");
        }
        assert!(sent.contains("grep") && sent.contains("files__read"), "{sent:?}");
    }

    #[test]
    fn what_a_provider_calls_a_tool_is_understood() {
        let call = |tool: &str| crate::model::ToolCall {
            id: "1".to_owned(),
            tool: tool.to_owned(),
            args: serde_json::json!({}),
        };
        let request = Request {
            role: crate::model::Role::Executor,
            messages: Vec::new(),
            answer_schema: None,
            tokens_max: 1,
            temperature: None,
            idempotency_key: String::new(),
            tools: vec![crate::model::ToolDescription {
                name: "files.read".to_owned(),
                description: "".into(),
                args_schema: serde_json::json!({}).into(),
            }],
        };
        let reply = Reply {
            text: String::new(),
            tool_calls: vec![call("files__read"), call("nothing__of_ours")],
            stop: crate::model::StopCause::ToolCalls,
            usage: None,
        };
        let tools: Vec<_> = understood(reply, &request)
            .tool_calls
            .into_iter()
            .map(|call| call.tool)
            .collect();
        assert_eq!(tools, ["files.read", "nothing__of_ours"]);
    }
}
