//! Turns a server's answer into a tool's.

use std::collections::BTreeSet;

use folio_memory::counted::counted;
use folio_memory::excerpt::short_line;
use folio_tools::{EvidenceRef, FailureKind, ToolError, ToolRequest, ToolResponse};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde::Deserialize as _;
use serde_json::{Value, json};

/// The most characters of a server's own reason for a failed call.
const PROBLEM_CHARS: usize = 400;

/// The answer of a server to a call.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    blocks: Vec<Block>,
    structured: Option<Value>,
    is_error: bool,
}

/// A part of the content.
#[derive(Debug)]
enum Block {
    Known(Box<ContentBlock>),
    /// A part that this version of the protocol does not have, or not in this form.
    Unknown(Value),
}

impl Block {
    fn known(block: ContentBlock) -> Self {
        Self::Known(Box::new(block))
    }
}

impl Answered {
    /// Reads, block by block, an answer that the library cannot read as a whole; `None` if it is not an answer to a
    /// call.
    pub(crate) fn read(mut answer: Value) -> Option<Self> {
        let Value::Array(blocks) = answer.get_mut("content")?.take() else {
            return None;
        };
        let to_block =
            |block: Value| ContentBlock::deserialize(&block).map_or_else(|_| Block::Unknown(block), Block::known);
        Some(Self {
            blocks: blocks.into_iter().map(to_block).collect(),
            structured: answer.get_mut("structuredContent").map(Value::take),
            is_error: answer["isError"] == true,
        })
    }
}

impl From<CallToolResult> for Answered {
    fn from(result: CallToolResult) -> Self {
        Self {
            blocks: result.content.into_iter().map(Block::known).collect(),
            structured: result.structured_content,
            is_error: result.is_error == Some(true),
        }
    }
}

/// Returns the response of the tool. Its outputs are `text`, the texts of the answer one below the other; `structured`,
/// what it says in JSON; and `parts`, what is not text, without its bytes. Empty ones are left out.
pub(crate) fn response(request: &ToolRequest, answered: Answered) -> ToolResponse {
    let (mut texts, mut parts, mut evidence) = (Vec::new(), Vec::new(), Vec::new());
    for block in answered.blocks {
        let block = match block {
            Block::Known(block) => *block,
            Block::Unknown(block) => {
                parts.push(unknown_placeholder(&block));
                continue;
            }
        };
        match block {
            ContentBlock::Text(text) => texts.push(text.text),
            ContentBlock::Image(image) => parts.push(bytes_placeholder("image", &image.mime_type, image.data.len())),
            ContentBlock::Audio(audio) => parts.push(bytes_placeholder("audio", &audio.mime_type, audio.data.len())),
            ContentBlock::Resource(resource) => match resource.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    evidence.push(uri);
                    texts.push(text);
                }
                ResourceContents::BlobResourceContents {
                    uri, mime_type, blob, ..
                } => {
                    let mime_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                    let mut part = bytes_placeholder("resource", &mime_type, blob.len());
                    part["uri"] = json!(uri);
                    evidence.push(uri);
                    parts.push(part);
                }
                other => parts.push(unknown_placeholder(&json!(other))),
            },
            ContentBlock::ResourceLink(link) => {
                parts.push(json!({"type": "link", "uri": link.uri, "name": link.name}));
                evidence.push(link.uri);
            }
            other => parts.push(unknown_placeholder(&json!(other))),
        }
    }
    let text = texts.join("\n");
    let others: BTreeSet<String> = parts
        .iter()
        .filter_map(|part| part["type"].as_str().map(str::to_owned))
        .collect();
    let mut outputs = json!({});
    let parts = (!parts.is_empty()).then_some(Value::Array(parts));
    let all = [
        ("text", (!text.is_empty()).then(|| json!(text))),
        ("structured", answered.structured),
        ("parts", parts),
    ];
    for (name, value) in all {
        if let Some(value) = value {
            outputs[name] = value;
        }
    }
    let mut response = if answered.is_error {
        let detail = short_line(&text, PROBLEM_CHARS);
        let message = match detail.as_str() {
            "" => format!("{} failed and did not say why", request.tool),
            detail => format!("{} failed: {detail}", request.tool),
        };
        ToolResponse::failed_with(
            request,
            ToolError::new(FailureKind::Failed, "mcp_call_failed", message),
            outputs,
        )
    } else {
        let notes = format!(
            "{}: {} of text{}",
            request.tool,
            counted(text.len() as u64, "byte"),
            other_kinds_note(&others)
        );
        ToolResponse::ok(request, outputs, notes)
    };
    response.evidence = evidence
        .into_iter()
        .map(|uri| EvidenceRef {
            kind: "url".to_owned(),
            id: uri,
            hash: None,
            span: None,
        })
        .collect();
    response
}

/// Returns a note on what there is besides text, and of what kinds.
fn other_kinds_note(kinds: &BTreeSet<String>) -> String {
    if kinds.is_empty() {
        return String::new();
    }
    let kinds = kinds.iter().map(String::as_str).collect::<Vec<_>>();
    format!("; content other than text is only named ({})", kinds.join(", "))
}

/// Returns the replacement for something that this version of the protocol does not have.
fn unknown_placeholder(part: &Value) -> Value {
    json!({"type": "unknown", "bytes_left_out": part.to_string().len()})
}

/// Returns the replacement for bytes that nobody here can read; `base64` is their length as they arrived.
fn bytes_placeholder(kind: &str, mime_type: &str, base64: usize) -> Value {
    json!({"type": kind, "mime_type": mime_type, "bytes_left_out": base64 / 4 * 3})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response_for(result: Value) -> ToolResponse {
        let request = ToolRequest {
            request_id: "r".to_owned(),
            tool: "x.y".to_owned(),
            args: json!({}),
            run_id: String::new(),
            node_id: String::new(),
            attempt: 1,
            scratch_page_context: Vec::new(),
        };
        let result: CallToolResult = serde_json::from_value(result).unwrap_or_else(|error| panic!("{error}"));
        response(&request, result.into())
    }

    #[test]
    fn texts_are_joined_and_other_content_listed_without_bytes() {
        let answer = response_for(json!({
            "content": [
                {"type": "text", "text": "one"},
                {"type": "image", "data": "AAAA", "mimeType": "image/png"},
                {"type": "resource", "resource": {"uri": "file:///a", "text": "two"}},
                {"type": "resource_link", "uri": "file:///b", "name": "b"},
            ],
            "structuredContent": {"n": 1},
        }));
        assert!(answer.is_ok());
        let expected = json!({
            "text": "one\ntwo",
            "structured": {"n": 1},
            "parts": [{"type": "image", "mime_type": "image/png", "bytes_left_out": 3},
                      {"type": "link", "uri": "file:///b", "name": "b"}],
        });
        assert_eq!(answer.outputs, expected);
        let ids: Vec<&str> = answer.evidence.iter().map(|evidence| &*evidence.id).collect();
        assert_eq!(ids, ["file:///a", "file:///b"]);
        assert_eq!(
            answer.notes,
            "x.y: 7 bytes of text; content other than text is only named (image, link)"
        );
    }

    #[test]
    fn error_answer_is_a_failed_call_that_keeps_its_text() {
        let answer = response_for(json!({"content": [{"type": "text", "text": "no\nsuch city"}], "isError": true}));
        let error = answer.error.unwrap_or_else(|| panic!("it failed"));
        assert_eq!(
            (error.code.as_str(), error.message.as_str()),
            ("mcp_call_failed", "x.y failed: no such city")
        );
        assert_eq!(answer.outputs, json!({"text": "no\nsuch city"}));
    }
}
