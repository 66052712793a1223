//! Converts names of tools, and ids of calls, to what providers accept: letters, digits, `_` and `-`, at most 64
//! characters.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use folio_memory::canonical::hex;
use sha2::{Digest as _, Sha256};

use super::wire::{Target, Wire};
use crate::model::{Reply, Request};

/// The maximum length that every provider accepts.
const CHARS_MAX: usize = 64;
/// The maximum length of a call id in OpenAI's Chat Completions.
const OPENAI_ID_CHARS_MAX: usize = 40;

/// The name of a tool as it is sent: `maps.route` becomes `maps__route`.
///
/// A name that could be mistaken for another one ends with a part of its hash.
pub(super) fn encode_tool_name(name: &str) -> Cow<'_, str> {
    if name.len() <= CHARS_MAX && name.chars().all(is_plain) && !name.contains("__") {
        return Cow::Borrowed(name);
    }
    let changed = name.replace('.', "__");
    let is_told_apart = changed.len() <= CHARS_MAX && changed.chars().all(is_plain) && !name.contains("__");
    if is_told_apart {
        return Cow::Owned(changed);
    }
    let hash = hex(&Sha256::digest(name.as_bytes())[..4]);
    let plain = changed.chars().map(|c| if is_plain(c) { c } else { '_' });
    let kept: String = plain.take(CHARS_MAX - 1 - hash.len()).collect();
    Cow::Owned(format!("{kept}_{hash}"))
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// `request` with call ids that `target` accepts.
///
/// A provider accepts its own ids unchanged. But a conversation may continue with another model than it began with
/// (`fallback`), and Anthropic accepts neither every id nor the same id twice, and OpenAI none that is longer than its
/// own.
pub(super) fn with_accepted_ids<'r>(request: &'r Request, target: &Target) -> Cow<'r, Request> {
    let mut ids = match target.wire {
        Wire::Messages => CallIds::of_at_most(CHARS_MAX),
        Wire::Chat if target.is_official => CallIds::of_at_most(OPENAI_ID_CHARS_MAX),
        Wire::Responses if target.is_official => CallIds::of_at_most(CHARS_MAX),
        // Among other servers with OpenAI's protocols, some require ids in their own form.
        Wire::Chat | Wire::Responses | Wire::Gemini => return Cow::Borrowed(request),
    };
    let calls = request.messages.iter().flat_map(|message| &message.tool_calls);
    let sent: Vec<String> = calls.clone().map(|call| ids.id_to_send(&call.id)).collect();
    if calls.zip(&sent).all(|(call, sent)| call.id == *sent) {
        return Cow::Borrowed(request);
    }
    let mut request = request.clone();
    let mut sent = sent.into_iter();
    // By call id; the latest call counts, since ids may be reused in a later turn.
    let mut known: HashMap<String, String> = HashMap::new();
    for message in &mut request.messages {
        for (call, sent) in message.tool_calls.iter_mut().zip(&mut sent) {
            known.insert(std::mem::replace(&mut call.id, sent.clone()), sent);
        }
        if let Some(answered) = &mut message.answers
            && let Some(sent) = known.get(answered)
        {
            answered.clone_from(sent);
        }
    }
    Cow::Owned(request)
}

/// The call ids of one conversation, as they are sent.
#[derive(Debug)]
struct CallIds {
    chars_max: usize,
    taken: HashSet<String>,
}

impl CallIds {
    fn of_at_most(chars_max: usize) -> Self {
        Self {
            chars_max,
            taken: HashSet::new(),
        }
    }

    /// The id to send for the next call, which had `id` when it was made.
    fn id_to_send(&mut self, id: &str) -> String {
        let is_taken_so = (1..=self.chars_max).contains(&id.len()) && id.chars().all(is_plain);
        if is_taken_so && self.taken.insert(id.to_owned()) {
            return id.to_owned();
        }
        // Derived from the id and its number of occurrences, so that the same conversation is always sent in the same
        // form.
        let candidates = (0_u32..).map(|times| {
            let hash = Sha256::digest(format!("{times} {id}").as_bytes());
            format!("call_{}", hex(&hash[..8]))
        });
        let mut free = candidates.filter(|id| self.taken.insert(id.clone()));
        free.next().unwrap_or_default()
    }
}

/// The reply with the tool names that `request` uses.
pub(super) fn decode_tool_names(mut reply: Reply, request: &Request) -> Reply {
    for call in &mut reply.tool_calls {
        let known = request.tools.iter().map(|tool| &tool.name);
        if let Some(name) = known.into_iter().find(|name| encode_tool_name(name) == call.tool) {
            call.tool.clone_from(name);
        }
    }
    reply
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::model::{Message, Role, Speaker, ToolCall, ToolDescription};
    use crate::secret::ModelKeys;

    fn request(tools: Vec<ToolDescription>) -> Request {
        Request {
            role: Role::Executor,
            messages: Vec::new(),
            answer_schema: None,
            tokens_max: 1,
            temperature: None,
            idempotency_key: String::new(),
            tools,
        }
    }

    #[test]
    fn tool_names_are_encoded_validly_and_uniquely_for_providers() {
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
        let sent: BTreeSet<_> = names.iter().map(|name| encode_tool_name(name)).collect();
        assert_eq!(sent.len(), names.len(), "{sent:?}");
        for name in &sent {
            let is_taken = name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
            assert!(is_taken, "{name}");
        }
        assert!(sent.contains("grep") && sent.contains("files__read"), "{sent:?}");
    }

    #[test]
    fn call_ids_are_rewritten_to_the_form_each_provider_accepts() {
        let long = "x".repeat(60);
        let made = ["call_1", "call_1#2", "functions.grep:0", "call_1", "", &long];
        let said = |speaker, tool_calls, answers| Message {
            speaker,
            text: String::new(),
            tool_calls,
            answers,
        };
        // Each call is answered before the next is made.
        let turn = |id: &&str| {
            let call = ToolCall {
                id: (*id).to_owned(),
                tool: "grep".to_owned(),
                args: json!({}),
            };
            let answer = said(Speaker::Tool, Vec::new(), Some((*id).to_owned()));
            [said(Speaker::Assistant, vec![call], None), answer]
        };
        let request = Request {
            messages: made.iter().flat_map(turn).collect(),
            ..request(Vec::new())
        };
        for (address, chars_max) in [("anthropic:m", 64), ("anthropic+https://h:m", 64), ("openai:m", 40)] {
            let target = Target::of(&address.parse().unwrap(), &ModelKeys::default()).unwrap();
            let sent = with_accepted_ids(&request, &target);
            let ids: Vec<&str> = sent
                .messages
                .iter()
                .flat_map(|said| &said.tool_calls)
                .map(|call| &*call.id)
                .collect();
            let answered: Vec<&str> = sent
                .messages
                .iter()
                .filter_map(|said| said.answers.as_deref())
                .collect();
            assert_eq!(ids, answered, "{address}");
            let fits = |id: &&str| (1..=chars_max).contains(&id.len()) && id.chars().all(is_plain);
            assert!(ids.iter().all(fits), "{address}: {ids:?}");
            assert_eq!(
                ids.iter().collect::<BTreeSet<_>>().len(),
                made.len(),
                "{address}: {ids:?}"
            );
            assert_eq!(
                (ids[0], ids[5] == long),
                ("call_1", chars_max == 64),
                "what can stay stays"
            );
        }
        // Some servers want ids of their own form back.
        let target = Target::of(&"openai+http://127.0.0.1/v1:m".parse().unwrap(), &ModelKeys::default()).unwrap();
        assert_eq!(*with_accepted_ids(&request, &target), request);
    }

    #[test]
    fn encoded_tool_names_in_replies_are_decoded() {
        let call = |tool: &str| ToolCall {
            id: "1".to_owned(),
            tool: tool.to_owned(),
            args: json!({}),
        };
        let request = request(vec![ToolDescription {
            name: "files.read".to_owned(),
            description: "".into(),
            args_schema: json!({}).into(),
        }]);
        let reply = Reply {
            text: String::new(),
            tool_calls: vec![call("files__read"), call("nothing__of_ours")],
            stop: crate::model::StopCause::ToolCalls,
            usage: None,
            permissions: Vec::new(),
        };
        let tools: Vec<_> = decode_tool_names(reply, &request)
            .tool_calls
            .into_iter()
            .map(|call| call.tool)
            .collect();
        assert_eq!(tools, ["files.read", "nothing__of_ours"]);
    }
}
