//! What an agent program has said and asked for in its session.

use std::collections::BTreeMap;

use agent_client_protocol::v1::schema::{
    ContentBlock, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest, SelectedPermissionOutcome,
    SessionId, SessionUpdate, ToolKind,
};
use folio_memory::excerpt::cut;
use folio_process::LINE_CHARS;
use tokio_util::codec::AnyDelimiterCodecError;

use super::AgentGrant;
use super::output::{OutputLine, is_message};
use super::permissions::Permissions;
use crate::agent::events::micro_usd_of;
use crate::model::Usage;

/// What the program has reported so far.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    /// The session of the task, once it is known: reports about other sessions are ignored.
    pub(super) session: Option<SessionId>,
    pub(super) text: String,
    /// Whether the resumed session shows an earlier prompt.
    pub(super) has_earlier_prompt: bool,
    /// Bytes of all its output.
    pub(super) bytes: usize,
    pub(super) has_too_much_output: bool,
    /// The kinds of its tool calls, by their ids, as far as it reported them.
    pub(super) kinds: BTreeMap<String, Vec<AgentGrant>>,
    pub(super) micro_usd: Option<u64>,
    /// The last line of its output that was not a message.
    pub(super) stray: Option<String>,
    /// Whether a message could not be delivered, for example because the program has ended.
    pub(super) has_delivery_failed: bool,
    /// The permissions that it asked for.
    pub(super) permissions: Permissions,
}

impl SessionState {
    /// Whether a report about `session` concerns the task.
    pub(super) fn is_of(&self, session: &SessionId) -> bool {
        self.session.as_ref().is_none_or(|own| own == session)
    }

    /// The cost, if it reports only money.
    pub(super) fn cost_only_usage(&self) -> Option<Usage> {
        let micro_usd = self.micro_usd.filter(|micro_usd| *micro_usd > 0)?;
        Some(Usage {
            micro_usd: Some(micro_usd),
            ..Usage::default()
        })
    }

    /// Takes in that the program said `line`; returns whether its output is still within the limit.
    pub(super) fn take_line(&mut self, line: &Result<OutputLine, AnyDelimiterCodecError>, bytes_max: usize) -> bool {
        match line {
            Ok(line) => {
                self.bytes += line.bytes;
                let text = line.text.trim();
                if !text.is_empty() && !is_message(text) {
                    self.stray = Some(cut(text, LINE_CHARS));
                }
            }
            Err(AnyDelimiterCodecError::MaxChunkLengthExceeded) => self.bytes = usize::MAX,
            Err(AnyDelimiterCodecError::Io(_)) => {}
        }
        self.has_too_much_output = self.bytes > bytes_max;
        !self.has_too_much_output
    }

    /// Takes in what the program reported.
    pub(super) fn apply_update(&mut self, update: SessionUpdate) {
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => {
                if let ContentBlock::Text(piece) = chunk.content {
                    self.text.push_str(&piece.text);
                }
            }
            // What it said before a prompt does not answer that prompt.
            SessionUpdate::UserMessageChunk(_) => {
                self.has_earlier_prompt = true;
                self.text.clear();
            }
            // What it said before it used a tool is not its answer.
            SessionUpdate::ToolCall(call) => {
                self.text.clear();
                // Programs that do not report the kind send this one.
                let kind = Some(call.kind).filter(|kind| *kind != ToolKind::Other);
                self.record_tool_kind(call.tool_call_id.to_string(), kind);
            }
            SessionUpdate::ToolCallUpdate(update) => {
                self.record_tool_kind(update.tool_call_id.to_string(), update.fields.kind);
            }
            SessionUpdate::UsageUpdate(usage) => {
                let cost = usage.cost.filter(|cost| cost.currency == "USD");
                self.micro_usd = cost.and_then(|cost| micro_usd_of(cost.amount)).or(self.micro_usd);
            }
            _ => {}
        }
    }

    /// Records the reported kind of the tool call `id`.
    fn record_tool_kind(&mut self, id: String, kind: Option<ToolKind>) {
        if let Some(kind) = kind.map(AgentGrant::of) {
            let kinds = self.kinds.entry(id).or_default();
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }

    /// Approves a request once if its kind was granted, and rejects it otherwise; it never approves later requests. Kinds
    /// reported before for the same call count, too: if there are several, all of them have to be granted.
    pub(super) fn permission(
        &mut self,
        grants: &[AgentGrant],
        request: &RequestPermissionRequest,
    ) -> RequestPermissionOutcome {
        if !self.is_of(&request.session_id) {
            // We did not ask for what is done there.
            return RequestPermissionOutcome::Cancelled;
        }
        let fields = &request.tool_call.fields;
        let id = request.tool_call.tool_call_id.to_string();
        self.record_tool_kind(id.clone(), fields.kind);
        let is_granted = match self.kinds.get(&id) {
            Some(kinds) => kinds.iter().all(|kind| grants.contains(kind)),
            None => grants.contains(&AgentGrant::Other),
        };
        let option_kind = if is_granted {
            PermissionOptionKind::AllowOnce
        } else {
            PermissionOptionKind::RejectOnce
        };
        let kinds = self.kinds.get(&id).map_or(&[][..], Vec::as_slice);
        self.permissions.note(kinds, fields.title.as_deref(), is_granted);
        let option = request.options.iter().find(|option| option.kind == option_kind);
        match option {
            Some(option) => {
                RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id.clone()))
            }
            None => RequestPermissionOutcome::Cancelled,
        }
    }
}
