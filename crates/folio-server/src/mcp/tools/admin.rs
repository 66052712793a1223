//! The tools that administer memory, for callers whose role allows it (M7.7): archive, restore, erase.

use folio::WorkspaceError;
use folio::memory::id::EntryRef;
use folio::memory::{Entry, State};
use folio::store::workspace::{ForgetFilter, Guard};
use rmcp::model::Tool;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Does, invalid_argument, list, read, tool};
use crate::http::problem::Problem;
use crate::mcp::answer::Answer;

/// The most entries that one call may name.
const ENTRIES_MAX: usize = 20;

pub(super) fn tools() -> Vec<Tool> {
    let ids = || json!({"type": "array", "items": {"type": "string", "description": "e42"}, "minItems": 1, "maxItems": ENTRIES_MAX});
    let with_reason = |required: &[&str]| {
        json!({
            "type": "object",
            "properties": {"ids": ids(), "reason": {"type": "string"}},
            "required": required,
        })
    };
    let mut forgettable = ids();
    forgettable["items"]["description"] = json!("e42, or a run: r3");
    let restore = json!({"type": "object", "properties": {"ids": ids()}, "required": ["ids"]});
    vec![
        tool(
            "admin_archive",
            "Archive entries: only requests for archived ones find them.",
            with_reason(&["ids"]),
            Does::Settle,
        ),
        tool("admin_restore", "Restore archived entries.", restore, Does::Settle),
        tool(
            "admin_forget",
            "Erase the content of entries, and whole runs that have ended, everywhere and for good. Only if the user wants it.",
            json!({
                "type": "object",
                "properties": {"ids": forgettable, "reason": {"type": "string"}},
                "required": ["ids", "reason"],
            }),
            Does::Erase,
        ),
    ]
}

pub(super) async fn call(call: Call<'_>) -> Result<Answer, Problem> {
    match call.name {
        "admin_archive" => archive(call).await,
        "admin_restore" => restore(call).await,
        _ => forget(call).await,
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    ids: Vec<String>,
    reason: Option<String>,
}

impl Asked {
    fn of(call: &Call<'_>) -> Result<(Vec<EntryRef>, Option<String>), Problem> {
        let (ids, reason) = Self::texts(call)?;
        let parse = |id: &String| {
            id.trim()
                .parse()
                .map_err(|_| invalid_argument("ids", format!("{id:?} is not the handle of an entry, such as e42")))
        };
        Ok((ids.iter().map(parse).collect::<Result<_, _>>()?, reason))
    }

    /// The names as they were given, and the reason.
    fn texts(call: &Call<'_>) -> Result<(Vec<String>, Option<String>), Problem> {
        let input: Self = read(call)?;
        if input.ids.is_empty() || input.ids.len() > ENTRIES_MAX {
            return Err(invalid_argument(
                "ids",
                format!("names {} entries; name 1 to {ENTRIES_MAX}", input.ids.len()),
            )
            .into());
        }
        Ok((input.ids, input.reason.filter(|reason| !reason.trim().is_empty())))
    }
}

async fn archive(call: Call<'_>) -> Result<Answer, Problem> {
    let (ids, reason) = Asked::of(&call)?;
    let caller = &call.caller;
    let mut results = Vec::with_capacity(ids.len());
    for id in ids {
        let archived = caller.workspace.archive(&caller.actor, id, reason.clone()).await;
        results.push(archived.map(|written| written.entry));
    }
    answer_for_results(results, "archived", &call).await
}

async fn restore(call: Call<'_>) -> Result<Answer, Problem> {
    let (ids, _) = Asked::of(&call)?;
    let caller = &call.caller;
    let mut results = Vec::with_capacity(ids.len());
    for id in ids {
        let restored = caller.workspace.restore(&caller.actor, id, Guard::default()).await;
        results.push(restored.map(|written| written.entry));
    }
    answer_for_results(results, "restored", &call).await
}

async fn forget(call: Call<'_>) -> Result<Answer, Problem> {
    let (ids, reason) = Asked::texts(&call)?;
    let (mut entries, mut runs) = (Vec::new(), Vec::new());
    for id in &ids {
        match (id.trim().parse(), id.trim().parse()) {
            (Ok(entry), _) => entries.push(entry),
            (_, Ok(run)) => runs.push(run),
            _ => {
                let message = format!("{id:?} is not the handle of an entry or a run, such as e42 or r3");
                return Err(invalid_argument("ids", message).into());
            }
        }
    }
    let reason = reason.ok_or_else(|| invalid_argument("reason", "is empty: say why the content is to be erased"))?;
    let caller = &call.caller;
    let filter = ForgetFilter {
        entries,
        runs,
        ..ForgetFilter::default()
    };
    let forgotten = caller.workspace.forget(&caller.actor, &filter, &reason).await?;
    let folders = call.mcp.shared.runner.remove_run_folders(&forgotten.of_runs).await;
    let mut answer = answer_for_results(forgotten.entries.into_iter().map(Ok).collect(), "forgotten", &call).await?;
    let runs: Vec<String> = forgotten.runs.iter().map(ToString::to_string).collect();
    let of_runs = runs.iter().map(|run| format!("{run} [forgotten]"));
    let of_folders = folders.iter().map(|folder| format!("removed {folder}"));
    for line in of_runs.chain(of_folders) {
        if !answer.text.is_empty() {
            answer.text.push('\n');
        }
        answer.text.push_str(&line);
    }
    let residue = &forgotten.residue;
    for left in residue.found.iter().chain(&residue.backups) {
        answer.text.push_str(&format!("\nstill in {left}"));
    }
    if residue.no_longer_known > 0 {
        let known = "forgotten before: what was left of it has been written again, and what it said is no longer known";
        answer.text.push_str(&format!("\n{} {known}", residue.no_longer_known));
    }
    if let Value::Object(fields) = &mut answer.structured {
        fields.insert("runs".to_owned(), json!(runs));
        fields.insert("residue".to_owned(), json!(residue));
    }
    Ok(answer)
}

/// Returns the answer for what became of each entry. If the first one failed, the answer is that error; failures of
/// later ones are listed with what was done.
async fn answer_for_results(
    results: Vec<Result<Entry, WorkspaceError>>,
    what: &str,
    call: &Call<'_>,
) -> Result<Answer, Problem> {
    let (workspace, tokens) = (&call.caller.workspace, &call.caller.tokens);
    let now = workspace.now();
    let (mut lines, mut full, mut brief) = (Vec::new(), Vec::new(), Vec::new());
    for (at, result) in results.into_iter().enumerate() {
        match result {
            Ok(entry) => {
                let mut line = list::line(&entry);
                // Its status does not show this, and lists leave it out.
                if entry.state(now) == State::Expired {
                    line.push_str(" (expired; once it is confirmed it holds again)");
                }
                lines.push(line);
                full.push(list::shape(&entry, now));
                brief.push(list::brief(&entry));
            }
            Err(error) if at == 0 => return Err(error.into()),
            Err(error) => {
                lines.push(format!("not {what}: {error}"));
                let failed = json!({"error": error.to_string()});
                full.push(failed.clone());
                brief.push(failed);
            }
        }
    }
    let text = lines.join("\n");
    let all = full.len();
    let structured = list::frame(&all, &all, workspace.head().await?, &text, tokens);
    let mut answer = Answer::new(text, structured);
    answer.put_items(full, brief, tokens);
    Ok(answer)
}
