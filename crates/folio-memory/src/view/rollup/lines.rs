//! The lines of pages and of their entries.

use std::cmp::Reverse;

use serde_json::Value;

use super::super::line::{beyond_title, is_untrusted, one_line, quoted};
use super::counts::{SETTLED, is_settled, rank};
use crate::entry::{Entry, EntryKind};
use crate::excerpt::cut;
use crate::id::{EntryId, PageHandle};
use crate::page::{Page, PageFields, PageRole};

/// The maximum number of characters in an entry's line.
const ENTRY_CHARS: usize = 240;
/// The maximum number of characters of a page's title, and of its branch.
const TITLE_CHARS: usize = 80;
/// The maximum number of characters of a page's last change.
const CHANGE_CHARS: usize = 40;
/// The number of entries that represent a page without a summary.
const LATEST: usize = 2;

/// Whether the lines of entries begin with their handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// They begin with handles.
    Entries,
    /// They do not, because entries are shown before they have handles.
    Pages,
}

/// What a roll-up says about a page: the page's own line and the lines of its last entries. A planner is shown the
/// pages of its run in this form, without handles of entries, so that a step's writes can be shown while they are still
/// on their way into the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageLines {
    handle: Option<PageHandle>,
    role: PageRole,
    status: String,
    pub(super) title: String,
    pub(super) branch: Option<String>,
    naming: Naming,
    is_of_run: bool,
    pub(super) entries: Vec<EntryLine>,
}

/// What a roll-up says about an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntryLine {
    id: EntryId,
    /// The entry's position in time: its handle, or a number beyond all handles if it has none yet.
    pub(super) at: u64,
    is_summary: bool,
    /// How the page's line names the entry as its last change.
    change: String,
    pub(super) line: String,
}

impl PageLines {
    /// What a planner is shown of `page`, whose last entries are `tail`, oldest first.
    #[must_use]
    pub fn for_planner(page: &Page, tail: &[Entry]) -> Self {
        Self::of(page, tail, Naming::Pages)
    }

    /// What a planner is shown of a page that a commit is about to add. [`PageLines::set_handle`] sets its handle
    /// later, and [`PageLines::has_handle`] says whether it is set.
    #[must_use]
    pub fn of_new(fields: &PageFields) -> Self {
        Self::with(None, fields, Naming::Pages)
    }

    /// Whether the page needs no attention: its work ended well, or it was superseded.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        is_settled(&self.status)
    }

    /// The order in which a planner is shown pages: those that did not end well before open ones, and settled ones
    /// last, the latest of those first.
    pub(in super::super) fn order_key(&self) -> (u8, Reverse<u64>) {
        match rank(&self.status) {
            SETTLED => (SETTLED, Reverse(self.last_at())),
            rank => (rank, Reverse(0)),
        }
    }

    /// The page's status.
    #[must_use]
    pub fn status(&self) -> &str {
        &self.status
    }

    fn with(handle: Option<PageHandle>, fields: &PageFields, naming: Naming) -> Self {
        let branch = fields.branch_id.as_deref().map(one_line);
        Self {
            handle,
            role: fields.role,
            status: one_line(&fields.status),
            title: cut(&one_line(&fields.title), TITLE_CHARS),
            branch: branch
                .filter(|branch| !branch.is_empty())
                .map(|branch| cut(&branch, TITLE_CHARS)),
            naming,
            is_of_run: fields.run.is_some(),
            entries: Vec::new(),
        }
    }

    pub(super) fn of(page: &Page, tail: &[Entry], naming: Naming) -> Self {
        let mut lines = Self::with(Some(page.handle), &page.fields, naming);
        let is_of_run = lines.is_of_run;
        let entries = tail.iter().map(|entry| EntryLine::of(entry, naming, is_of_run));
        lines.entries.extend(entries);
        lines
    }

    /// Whether the page's handle is known.
    #[must_use]
    pub fn has_handle(&self) -> bool {
        self.handle.is_some()
    }

    /// Sets the page's handle once it is in the log.
    pub fn set_handle(&mut self, handle: PageHandle) {
        self.handle = Some(handle);
    }

    /// Sets the page's status.
    pub fn set_status(&mut self, status: &str) {
        self.status = one_line(status);
    }

    /// Appends an entry and keeps only the last `max_entries`.
    pub fn add(&mut self, entry: &Entry, max_entries: usize) {
        self.entries.push(EntryLine::of(entry, self.naming, self.is_of_run));
        let surplus = self.entries.len().saturating_sub(max_entries);
        self.entries.drain(..surplus);
    }

    /// Whether there is a line for `entry`.
    #[must_use]
    pub fn has_entry(&self, entry: EntryId) -> bool {
        self.entries.iter().any(|line| line.id == entry)
    }

    /// The position in time of the last entry; zero if there is none.
    #[must_use]
    pub fn last_at(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.at)
    }

    pub(super) fn name(&self) -> String {
        self.handle.map(|handle| handle.to_string()).unwrap_or_default()
    }

    pub(super) fn heading(&self) -> String {
        let mut heading = String::new();
        self.put_heading(&mut heading);
        heading
    }

    pub(super) fn put_heading(&self, text: &mut String) {
        if let Some(handle) = self.handle {
            text.push_str(&handle.to_string());
        }
        text.extend([" [", self.role.as_str(), "/", &self.status, "] ", &self.title]);
        let last = self.entries.last().map(|entry| entry.change.as_str());
        match (self.branch.as_deref(), last) {
            (Some(branch), Some(change)) => text.extend([" (", branch, "; last change", change, ")"]),
            (Some(branch), None) => text.extend([" (", branch, ")"]),
            (None, Some(change)) => text.extend([" (last change", change, ")"]),
            (None, None) => {}
        }
    }

    /// The entries that represent the page: its latest summary, or its last two entries. The rest of the tail comes
    /// later.
    pub(super) fn representative_entries(&self) -> Vec<usize> {
        let summary = self.entries.iter().rposition(|entry| entry.is_summary);
        match summary {
            Some(summary) => vec![summary],
            None => (self.entries.len().saturating_sub(LATEST)..self.entries.len()).collect(),
        }
    }

    /// The entries that do not represent the page.
    pub(super) fn other_entries(&self) -> Vec<usize> {
        let standing = self.representative_entries();
        (0..self.entries.len()).filter(|at| !standing.contains(at)).collect()
    }
}

impl EntryLine {
    fn of(entry: &Entry, naming: Naming, is_of_run: bool) -> Self {
        let writer = entry.writer_beside_run().filter(|_| is_of_run);
        let text = match &writer {
            Some(writer) => format!("(by {writer}) {}", entry_text(entry)),
            None => entry_text(entry),
        };
        let (change, line) = match naming {
            Naming::Entries => (format!(" {}", entry.handle), format!("{} {text}", entry.handle)),
            Naming::Pages => {
                let title = one_line(&entry.fields.title);
                let change = if title.is_empty() || is_untrusted(entry) || writer.is_some() {
                    String::new()
                } else {
                    format!(": {}", cut(&title, CHANGE_CHARS))
                };
                (change, text)
            }
        };
        Self {
            id: entry.id,
            at: entry.handle.0,
            is_summary: entry.kind == EntryKind::Summary,
            change,
            line,
        }
    }
}

/// The lines of the lists in the parts of `entry`, in their order.
fn lists_of(entry: &Entry) -> Vec<&str> {
    let parts = entry.fields.parts.as_ref().and_then(Value::as_object);
    let lists = parts.into_iter().flat_map(|parts| parts.values());
    let lines = lists.filter_map(Value::as_array).flatten();
    lines.filter_map(Value::as_str).collect()
}

/// The entry as `title: text`, in quotation marks if it comes from strangers. The text of an entry without one is that
/// of the lists that it consists of.
pub(super) fn entry_text(entry: &Entry) -> String {
    let title = one_line(&entry.fields.title);
    let mut body = one_line(&beyond_title(&entry.fields.title, &entry.fields.body));
    if entry.fields.body.is_empty() {
        body = one_line(&lists_of(entry).join("; "));
    }
    let text = match (title.is_empty(), body.is_empty()) {
        (false, false) => format!("{title}: {body}"),
        (false, true) => title,
        (true, _) => body,
    };
    let text = cut(&text, ENTRY_CHARS);
    if is_untrusted(entry) {
        format!("(from outside) {}", quoted(&text))
    } else {
        text
    }
}
