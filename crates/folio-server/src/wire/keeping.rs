//! The outcomes of importing and of forgetting.

use folio::Workspace;
use folio::memory::{Entry, EntryKind};
use folio::store::workspace::{ForgetFilter, Forgotten, Imported};
use folio::store::{Residue, WorkspaceError};
use schemars::JsonSchema;
use serde::Serialize;

/// The entries and runs that were forgotten, or that a dry run would forget.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Forgot {
    /// Whether this was a dry run, so nothing was erased.
    pub dry_run: bool,
    /// The entries, without their content.
    pub forgotten: Vec<Named>,
    /// The handles of turns whose input and reasons are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<String>,
    /// The handles of runs that were forgotten as a whole, with what stands on their pages and was said in their turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
    /// The folders of the files that these runs wrote, which were removed with everything in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
    /// The handles of runs that have ended and say the text. They were left: a run is only forgotten as a whole, if
    /// somebody names it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs_saying: Vec<String>,
    /// The number of matching items of tools that wait in the outbox.
    pub waiting: usize,
    /// Whether an earlier call with the same key did it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// What was searched for residue afterwards, and what was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub residue: Option<Residue>,
}

impl Forgot {
    /// What a dry run of `filter` tells.
    ///
    /// # Errors
    ///
    /// As [`Workspace::to_forget`].
    pub async fn dry_run(workspace: &Workspace, filter: &ForgetFilter) -> Result<Self, WorkspaceError> {
        let found = workspace.to_forget(filter).await?;
        let turns = workspace.turns_to_forget(filter).await?;
        let runs = workspace.runs_to_forget(filter).await?;
        Ok(Self {
            dry_run: true,
            forgotten: found.iter().map(Named::of).collect(),
            turns: names(turns.iter().map(|turn| turn.handle)),
            runs: names(runs.iter().map(|run| run.handle)),
            folders: Vec::new(),
            runs_saying: Self::runs_saying(workspace, filter).await?,
            waiting: workspace.waiting_to_forget(filter).await?,
            replayed: false,
            residue: None,
        })
    }

    /// What tells of `forgotten`, of the `folders` that are gone, and of the runs that say the text and were left.
    #[must_use]
    pub fn done(forgotten: Forgotten, folders: Vec<String>, runs_saying: Vec<String>) -> Self {
        Self {
            dry_run: false,
            forgotten: forgotten.entries.iter().map(Named::of).collect(),
            turns: names(forgotten.turns),
            runs: names(forgotten.runs),
            folders,
            runs_saying,
            waiting: forgotten.waiting,
            replayed: forgotten.replayed,
            residue: Some(forgotten.residue),
        }
    }

    /// The handles of the runs that say the text of `filter` and are left ([`Workspace::runs_saying`]).
    ///
    /// # Errors
    ///
    /// As [`Workspace::to_forget`].
    pub async fn runs_saying(workspace: &Workspace, filter: &ForgetFilter) -> Result<Vec<String>, WorkspaceError> {
        let runs = workspace.runs_saying(filter).await?;
        Ok(names(runs.iter().map(|run| run.handle)))
    }
}

fn names(handles: impl IntoIterator<Item = impl ToString>) -> Vec<String> {
    handles.into_iter().map(|handle| handle.to_string()).collect()
}

/// An entry without its content.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Named {
    /// The entry's handle, such as `e42`.
    pub handle: String,
    /// The entry's permanent id.
    pub observation_id: String,
    /// The entry's kind.
    pub kind: EntryKind,
    /// The registered type of the observation.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// When the entry was added.
    pub created_at: String,
}

impl Named {
    /// Returns the names of `entry`.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        Self {
            handle: entry.handle.to_string(),
            observation_id: entry.id.to_string(),
            kind: entry.kind,
            type_name: entry.fields.type_name.clone(),
            created_at: entry.created_at.to_string(),
        }
    }
}

/// What was imported, or what a dry run would import.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Received {
    /// Whether this was a dry run, so nothing was written.
    pub dry_run: bool,
    /// The counts of the import.
    #[serde(flatten)]
    pub imported: Imported,
}
