//! A run looked at again from its first event: whether its pages say what it says.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use folio_engine::{Run, projection};
use folio_memory::canonical::canonical;
use folio_memory::entry::{EntryFields, Status, preview_of};
use folio_memory::id::Ref;
use folio_memory::{Change, EntryId, FieldChange, PageId, RunId};
use folio_store::StoreError;
use folio_store::workspace::WorkspaceError;
use serde_json::Value;

use crate::error::RunnerError;
use crate::journal::InParts;
use crate::runner::Runner;

/// What a look at a run's journal from its first event found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Events that were folded.
    pub events: usize,
    /// Pages that were compared.
    pub pages: usize,
    /// Entries that were compared.
    pub entries: usize,
    /// What is not as the journal says, a line each.
    pub differences: Vec<String>,
}

/// An entry as the journal says that it is. Of texts only what tells them from others: there are as many entries as a run has events.
struct Expected {
    title: Box<str>,
    /// The text, and the beginning of it that is kept if it is long.
    body: u64,
    beginning: Option<Box<str>>,
    status: Status,
    parts: u64,
}

impl Expected {
    fn of(fields: &EntryFields) -> Self {
        Self {
            title: fields.title.as_str().into(),
            body: hash_of(&fields.body),
            beginning: preview_of(&fields.body).map(Box::from),
            status: fields.status,
            parts: hash_of_parts(fields.parts.as_ref()),
        }
    }

    /// What of an entry is not as it was written. What people may change of it since, its status in the archive, is none of it.
    fn differing(&self, kept: &EntryFields) -> Vec<&'static str> {
        let begins = |text: &str| text.starts_with(&*kept.body);
        let is_beginning = kept.body_ref.is_some() && self.beginning.as_deref().is_some_and(begins);
        let mut differs = Vec::new();
        if *self.title != *kept.title {
            differs.push("title");
        }
        if self.body != hash_of(&kept.body) && !is_beginning {
            differs.push("text");
        }
        if self.status != kept.status && kept.status != Status::Archived {
            differs.push("status");
        }
        if self.parts != hash_of_parts(kept.parts.as_ref()) {
            differs.push("list of parts");
        }
        differs
    }
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn hash_of_parts(parts: Option<&Value>) -> u64 {
    parts.map_or(0, |parts| hash_of(&canonical(parts.clone()).to_string()))
}

impl Runner {
    /// Folds the journal of a run from its first event, and compares what it says with the pages and the row that are kept. What
    /// was forgotten since is no difference.
    ///
    /// # Errors
    ///
    /// `Store`; `Journal` if it cannot be folded.
    pub async fn replay(&self, id: RunId) -> Result<Replayed, RunnerError> {
        let workspace = self.workspace();
        let mut journal = InParts::of(workspace, id);
        let mut events = 0;
        let mut run = Run::new(id, Arc::clone(self.templates()));
        let bodies = self.bodies();
        let mut pages: BTreeMap<PageId, String> = BTreeMap::new();
        let mut entries: BTreeMap<EntryId, Expected> = BTreeMap::new();
        while let Some(part) = journal.next().await? {
            events += part.len();
            for (at, event) in part {
                run.apply(at, &event)
                    .map_err(|source| RunnerError::Journal { run: id, source })?;
                // As its driver had at hand whatever titles and reports tell of.
                for change in bodies.at_hand(&run, |run| projection::changes(run, &event)).await? {
                    expect(change, &mut pages, &mut entries);
                }
                bodies.let_go(&run);
            }
        }
        let mut found = Replayed {
            events,
            pages: pages.len(),
            entries: entries.len(),
            differences: Vec::new(),
        };
        let row = workspace.store().run(workspace.space(), Ref::Id(id)).await?;
        let status = run.status();
        if row.status != status {
            let line = format!("the row says {}, the journal {status}", row.status);
            found.differences.push(line);
        }
        let said = workspace.store().runs_so_far(workspace.space(), vec![id]).await?;
        if said.first().is_some_and(|(_, said)| *said != run.so_far()) {
            let line = "what lists tell of it is not what the journal says: what it used up, whether it is paused, or how much it asks";
            found.differences.push(line.to_owned());
        }
        for (page, title) in &pages {
            match workspace.page(Ref::Id(*page)).await {
                Ok(kept) if kept.fields.title == *title => {}
                Ok(kept) => {
                    let line = format!(
                        "page {}: it is called {:?}, not {title:?}",
                        kept.handle, kept.fields.title
                    );
                    found.differences.push(line);
                }
                Err(WorkspaceError::Store(StoreError::NotFound { .. })) => {
                    found.differences.push(format!("page {page} ({title}) is not there"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        for (entry, expected) in &entries {
            match workspace.entry(Ref::Id(*entry)).await {
                // What was forgotten has no content to compare.
                Ok(kept) if kept.fields.erased.is_some() => {}
                Ok(kept) => {
                    let differs = expected.differing(&kept.fields);
                    let lines = differs
                        .into_iter()
                        .map(|what| format!("entry {}: its {what} is another", kept.handle));
                    found.differences.extend(lines);
                }
                Err(WorkspaceError::Store(StoreError::NotFound { .. })) => {
                    let line = format!("entry {entry} ({}) is not there", expected.title);
                    found.differences.push(line);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }
}

/// Takes in what a change makes of the pages of a run.
fn expect(change: Change, pages: &mut BTreeMap<PageId, String>, entries: &mut BTreeMap<EntryId, Expected>) {
    match change {
        Change::EnsurePage(page) => {
            pages.entry(page.id).or_insert(page.fields.title);
        }
        Change::AddEntry(entry) => {
            entries.insert(entry.id, Expected::of(&entry.fields));
        }
        Change::PatchEntry { entry, fields, .. } => {
            let Some(expected) = entries.get_mut(&entry) else {
                return;
            };
            for field in fields {
                match field {
                    FieldChange::Status(status) => expected.status = status,
                    FieldChange::Parts(parts) => expected.parts = hash_of_parts(parts.as_ref()),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}
