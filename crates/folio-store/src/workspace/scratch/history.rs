//! `scratch_read` of the history: messages of the thread that were put away, found by their words.

use folio_memory::excerpt::{MORE, short_line};
use folio_memory::scratchbook::tools::Read;
use serde_json::{Value, json};

use super::super::offload::text_of;
use super::read::{FRAME, LINES, MIN_LIST_BUDGET, fitting, no_cursor, without_entries};
use super::{ScratchAnswer, ScratchCaller, Workspace, WorkspaceError};

/// How many characters of a message are shown.
const CHARS: usize = 400;
/// How many of them are before the word that was found.
const CHARS_BEFORE: usize = 100;

impl Workspace {
    /// Lists messages of the thread's history, one line each; the cursor is the number of the first one.
    pub(super) async fn read_history(
        &self,
        caller: &ScratchCaller<'_>,
        read: &Read,
        budget: u32,
    ) -> Result<ScratchAnswer, WorkspaceError> {
        let budget = budget.max(MIN_LIST_BUDGET);
        let from = match read.cursor.as_deref() {
            None => 1,
            Some(text) => text.parse().map_err(|_| no_cursor(text))?,
        };
        let words = read.query.as_deref().unwrap_or_default();
        let most = usize::try_from(LINES).unwrap_or(usize::MAX);
        let said = self.search_said(caller.thread, words, (from, u64::MAX), most).await?;
        let shown = |(number, message): &(u64, Value)| {
            let role = message.get("role").and_then(Value::as_str).unwrap_or("call");
            let text = excerpt(&text_of(message), words);
            (
                format!("{number} {role}: {text}"),
                json!({"number": number, "role": role, "text": text}),
            )
        };
        let (lines, items): (Vec<String>, Vec<Value>) = said.messages.iter().map(shown).unzip();
        let fitting = fitting(&lines, &items, budget.saturating_sub(FRAME), caller.tokens);
        let next = said.messages.get(fitting).map(|(number, _)| *number).or(said.next);
        let mut text = lines[..fitting].join("\n");
        if fitting == 0 {
            text.push_str("nothing matches");
        }
        match next {
            None => text.push_str(&format!("\n{} messages were put away", said.total)),
            Some(next) => text.push_str(&format!("\nof {} messages; go on with cursor \"{next}\"", said.total)),
        }
        let structured = json!({
            "items": items[..fitting],
            "returned": fitting,
            "total": said.total,
            "next": next.map(|next| next.to_string()),
            "as_of": self.head().await?,
            "tokens": caller.tokens.count(&text),
        });
        Ok(without_entries(text, structured, budget))
    }

    /// Whether a message of the thread's history contains `words`.
    pub(super) async fn has_said(
        &self,
        caller: &ScratchCaller<'_>,
        words: Option<&str>,
    ) -> Result<bool, WorkspaceError> {
        let Some(words) = words else { return Ok(false) };
        let said = self.search_said(caller.thread, words, (1, u64::MAX), 1).await?;
        Ok(!said.messages.is_empty())
    }
}

/// The part of `text` around the first of `words`, in one line.
fn excerpt(text: &str, words: &str) -> String {
    let lower = text.to_lowercase();
    let first = words.split_whitespace().next().unwrap_or_default().to_lowercase();
    // Lower case may have other lengths, so the place is counted in characters.
    let at = lower.find(&first).map_or(0, |at| lower[..at].chars().count());
    match at.checked_sub(CHARS_BEFORE) {
        None | Some(0) => short_line(text, CHARS),
        Some(skipped) => {
            let rest: String = text.chars().skip(skipped).collect();
            format!("{MORE}{}", short_line(&rest, CHARS - 1))
        }
    }
}
