//! The memory of other programs as pages, entries and links: `folio import --from`.
//!
//! Each format has its own reader, a pure function of the file. The same file gives the same ids, so importing it twice
//! adds nothing. Data without a field of its own is kept unchanged beside the entry (`claimed_source`).

mod beads;
mod claude_tasks;
mod mcp_memory;
mod memory_bank;
mod task_master;

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use crate::actor::{Source, Trust};
use crate::change::{NewEntry, NewPage};
use crate::entry::{Entry, EntryFields, EntryKind, ImportedTimes, Owner, Status, Tag};
use crate::excerpt::one_line;
use crate::id::{EntryId, PageId};
use crate::link::{Link, Relation};
use crate::page::PageFields;
use crate::scratchbook;
use crate::space::{SpaceName, ThreadKey};
use crate::time::Timestamp;
use crate::warning::{Invalid, Warning};

pub use beads::beads;
pub use claude_tasks::claude_tasks;
pub use mcp_memory::mcp_memory;
pub use memory_bank::memory_bank;
pub use task_master::task_master;

/// The key of `claimed_source` for data without a field of its own.
const EXTRA_DATA_KEY: &str = "brought_from";
/// The maximum size of that data, in bytes.
const KEPT_BYTES: usize = 64 * 1024;

/// The record of the other program within `claimed`, the claimed source of an entry; `claimed` itself if the entry was
/// not made from such a record.
#[must_use]
pub fn record_of(claimed: &Value) -> &Value {
    claimed
        .get(EXTRA_DATA_KEY)
        .and_then(|kept| kept.get("record"))
        .unwrap_or(claimed)
}

/// The destination of an import: whose memory, on whose behalf, and when.
#[derive(Debug, Clone)]
pub struct Destination {
    /// The space.
    pub space: SpaceName,
    /// The thread whose scratchbook gets work, unless the file names a list.
    pub thread: ThreadKey,
    /// Who imports.
    pub source: Source,
    /// The time of the import. Later times in the file are replaced by it.
    pub now: Timestamp,
}

/// The content of another program's file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Foreign {
    /// The pages, each after the one that contains it.
    pub pages: Vec<NewPage>,
    /// The entries, each after its page.
    pub items: Vec<ForeignItem>,
    /// The links, with their names for a report.
    pub links: Vec<(String, Link)>,
    /// The items that were refused, with the reasons.
    pub refused: Vec<(String, Invalid)>,
    /// The ids that an earlier version used, if they did not tell projects apart.
    pub earlier: Option<Earlier>,
}

/// The ids of an earlier version, by the present ids.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Earlier {
    /// The ids of pages.
    pub pages: HashMap<PageId, PageId>,
    /// The ids of entries.
    pub entries: HashMap<EntryId, EntryId>,
}

impl Foreign {
    /// Replaces all ids by those of an earlier version.
    pub fn take_earlier_ids(&mut self) {
        let Some(Earlier { pages, entries }) = self.earlier.take() else {
            return;
        };
        let page = |id: &mut PageId| *id = pages.get(id).copied().unwrap_or(*id);
        for new in &mut self.pages {
            page(&mut new.id);
            new.fields.parent.iter_mut().for_each(page);
        }
        for ForeignItem { new, .. } in &mut self.items {
            page(&mut new.page);
            new.id = entries.get(&new.id).copied().unwrap_or(new.id);
        }
    }
}

/// An entry made from another program's file.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignItem {
    /// The item's name in the file.
    pub name: String,
    /// The entry.
    pub new: NewEntry,
    /// Warnings about corrected values.
    pub changed: Vec<Warning>,
    /// The id that earlier versions gave the item, which may also belong to something else.
    pub earlier: Option<EntryId>,
}

impl ForeignItem {
    /// Whether `existing`, which has the item's earlier id, was made from the same item: it is on the same page and has
    /// the same name. If so, the item was imported before and is not added again under its new id.
    #[must_use]
    pub fn is_same_item(&self, existing: &Entry) -> bool {
        let name = |fields: &EntryFields| {
            fields
                .claimed_source
                .as_ref()
                .map(|claimed| record_of(claimed)["id"].clone())
        };
        let (imported_fields, existing_fields) = (&self.new.fields, &existing.fields);
        existing.page == self.new.page
            && (existing_fields.title == imported_fields.title || name(existing_fields) == name(imported_fields))
    }
}

/// A text file, with its path relative to the imported folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// The path, with `/` between its parts.
    pub path: String,
    /// The text of the file.
    pub text: String,
}

/// What a file says about one entry.
struct Said<'a> {
    /// The item's name in the file.
    name: String,
    kind: EntryKind,
    page: PageId,
    title: &'a str,
    body: String,
    status: Status,
    tags: Vec<String>,
    /// When it was made and last changed, if known.
    times: (Option<Timestamp>, Option<Timestamp>),
    /// Data without a field of its own.
    rest: Map<String, Value>,
    /// The id that earlier versions gave it.
    earlier: Option<EntryId>,
}

/// Collects the content of a file.
struct Collector<'d> {
    form: &'static str,
    to: &'d Destination,
    foreign: Foreign,
    pages: HashSet<PageId>,
    entries: HashSet<EntryId>,
    links: HashSet<Link>,
}

impl<'d> Collector<'d> {
    fn new(form: &'static str, to: &'d Destination) -> Self {
        Self {
            form,
            to,
            foreign: Foreign::default(),
            pages: HashSet::new(),
            entries: HashSet::new(),
            links: HashSet::new(),
        }
    }

    /// The id of the item `name` in `list`, for lists whose names are unique among projects.
    fn id(&self, list: &str, name: &str) -> EntryId {
        EntryId::derived(&["foreign", self.form, self.to.space.as_str(), list, name])
    }

    /// The id of the item `name` in `list` for the scratchbook of `thread`. Other projects may use the same names, but
    /// are imported to other threads.
    fn id_in(&self, thread: &ThreadKey, list: &str, name: &str) -> EntryId {
        EntryId::derived(&["foreign", self.form, self.to.space.as_str(), &thread.0, list, name])
    }

    /// The id of the page `name`.
    fn page_id(&self, name: &str) -> PageId {
        PageId::derived(&["foreign", self.form, self.to.space.as_str(), name])
    }

    /// The id of the page `name` that is imported to `thread`.
    fn page_id_in(&self, thread: &ThreadKey, name: &str) -> PageId {
        PageId::derived(&["foreign", self.form, self.to.space.as_str(), &thread.0, name])
    }

    /// Adds a page called `name` unless it exists.
    fn page(&mut self, name: &str, fields: PageFields) -> PageId {
        self.add_page(NewPage {
            id: self.page_id(name),
            fields,
        })
    }

    /// Adds the scratchbook of `thread` and returns its id.
    fn book(&mut self, thread: &ThreadKey) -> PageId {
        let (id, fields) = scratchbook::page_of(&self.to.space, thread);
        self.add_page(NewPage { id, fields })
    }

    fn add_page(&mut self, page: NewPage) -> PageId {
        let id = page.id;
        if self.pages.insert(id) {
            self.foreign.pages.push(page);
        }
        id
    }

    fn refuse(&mut self, name: impl Into<String>, invalid: Invalid) {
        self.foreign.refused.push((name.into(), invalid));
    }

    /// Adds an entry. An entry with the same name as an earlier one is refused.
    fn add(&mut self, id: EntryId, item: Said<'_>) {
        let mut warnings = Vec::new();
        let line = one_line(item.title);
        let title_text = if line.is_empty() {
            first_words(&item.body)
        } else {
            &line
        };
        let title = match scratchbook::checked_title(title_text) {
            Ok(title) => title,
            Err(invalid) => return self.refuse(item.name, invalid),
        };
        if !self.entries.insert(id) {
            let message = format!("{:?} occurs twice", item.name);
            return self.refuse(item.name, Invalid::new("item_twice", "id", message));
        }
        let mut rest = item.rest;
        if title != item.title && !item.title.is_empty() {
            rest.insert("title".to_owned(), item.title.into());
            warnings.push(Warning::new(
                "item_adapted",
                "title: must be one short line",
                item.title,
                title.as_str(),
            ));
        }
        let mut fields = EntryFields::new(item.kind, Owner::agent(), Trust::Imported);
        fields.title = title;
        fields.body = item.body;
        fields.status = item.status;
        fields.source = self.to.source.clone();
        for text in item.tags {
            match Tag::parse(&text) {
                Ok(tag) if fields.tags.contains(&tag) => {}
                Ok(tag) if fields.tags.len() < Tag::MAX_PER_ENTRY => fields.tags.push(tag),
                Ok(_) => warnings.push(Warning::new("item_adapted", "tags: 32 at most", text, "")),
                Err(invalid) => warnings.push(Warning::new("item_adapted", invalid.message, text, "")),
            }
        }
        let (created_at, updated_at) = ImportedTimes::times(
            Some(ImportedTimes {
                created_at: item.times.0.or(item.times.1).unwrap_or(self.to.now),
                updated_at: item.times.1.or(item.times.0).unwrap_or(self.to.now),
            }),
            self.to.now,
        );
        fields.brought = Some(ImportedTimes { created_at, updated_at });
        rest.insert("id".to_owned(), item.name.clone().into());
        let kept = json!({EXTRA_DATA_KEY: {"form": self.form, "record": rest}});
        if kept.to_string().len() <= KEPT_BYTES {
            fields.claimed_source = Some(kept);
        } else {
            let message =
                format!("the data without a field of its own has more than {KEPT_BYTES} bytes and is left out");
            warnings.push(Warning::new("item_adapted", message, "", ""));
        }
        let (page, kind) = (item.page, item.kind);
        self.foreign.items.push(ForeignItem {
            name: item.name,
            new: NewEntry { id, page, kind, fields },
            changed: warnings,
            earlier: item.earlier,
        });
    }

    /// Adds a link between entries. A link with a missing end is refused.
    fn link(&mut self, name: String, src: EntryId, rel: Relation, dst: EntryId) {
        if !(self.entries.contains(&src) && self.entries.contains(&dst)) {
            let message = "one end of the link does not exist";
            return self.refuse(name, Invalid::new("end_missing", "link", message));
        }
        self.add_link(
            name,
            Link {
                src: src.to_string(),
                rel,
                dst: dst.to_string(),
            },
        );
    }

    fn add_link(&mut self, name: String, link: Link) {
        if self.links.insert(link.clone()) {
            self.foreign.links.push((name, link));
        }
    }
}

/// Removes the text `key` from `record`; returns an empty text if it is missing or not a text.
fn text(record: &mut Map<String, Value>, key: &str) -> String {
    match record.get_mut(key) {
        Some(Value::String(text)) => {
            let text = std::mem::take(text);
            record.remove(key);
            text
        }
        Some(Value::Null) => {
            record.remove(key);
            String::new()
        }
        _ => String::new(),
    }
}

/// The id that `record` has, as a text or a number. It stays in the record.
fn name_of(record: &Map<String, Value>) -> Option<String> {
    match record.get("id")? {
        Value::String(name) if !name.is_empty() => Some(name.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The texts and numbers in the list `key` of `record`. The list stays in the record.
fn names(record: &Map<String, Value>, key: &str) -> Vec<String> {
    let name = |value: &Value| match value {
        Value::String(name) => Some(name.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let list = record.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(name).collect()
}

/// Removes the instant `key` from `record`. One that cannot be parsed stays there.
fn instant(record: &mut Map<String, Value>, key: &str) -> Option<Timestamp> {
    let at = record.get(key)?.as_str().and_then(|text| Timestamp::parse(text).ok())?;
    record.remove(key);
    Some(at)
}

/// Joins `parts` with empty lines between them; parts with a heading get it above their text.
fn joined<'a>(parts: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let non_empty = parts.into_iter().filter(|(_, text)| !text.trim().is_empty());
    let part = |(heading, text): (&str, String)| match heading {
        "" => text,
        _ => format!("## {heading}\n\n{text}"),
    };
    non_empty.map(part).collect::<Vec<_>>().join("\n\n")
}

/// The first words of `text`, as a title for what has none: its first line of prose, without the marks of a list or
/// quotation. A heading is used only if there is no other text, because it merely says what sort of text follows.
fn first_words(text: &str) -> &str {
    let lines = || text.lines().map(str::trim).filter(|line| !is_mark(line));
    let prose_lines = lines().filter(|line| heading(line).is_none()).map(without_marks);
    let headings = lines().filter_map(heading);
    let any = text.lines().map(str::trim);
    let mut all = prose_lines.chain(headings).chain(any);
    all.find(|line| !line.is_empty()).unwrap_or_default()
}

/// Whether `line` is not meant to be read: a code fence, a rule, or a comment.
fn is_mark(line: &str) -> bool {
    let is_rule = line.len() >= 3
        && line
            .bytes()
            .all(|byte| matches!(byte, b'-' | b'*' | b'_' | b'=' | b' '));
    is_rule || ["```", "~~~", "<!--"].iter().any(|mark| line.starts_with(mark))
}

/// The text of a heading.
fn heading(line: &str) -> Option<&str> {
    let words = line.trim_start_matches('#');
    let is_heading =
        (1..=6).contains(&(line.len() - words.len())) && (words.is_empty() || words.starts_with([' ', '\t']));
    is_heading.then(|| words.trim())
}

/// Returns `line` without the marks of a list or quotation.
fn without_marks(mut line: &str) -> &str {
    loop {
        let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let numbered = (number.len() < line.len()).then(|| number.strip_prefix(". ").or(number.strip_prefix(") ")));
        let marks = ["- ", "* ", "+ ", "> ", "[ ] ", "[x] ", "[X] "];
        let rest = marks
            .iter()
            .find_map(|mark| line.strip_prefix(mark))
            .or(numbered.flatten());
        match rest {
            Some(rest) => line = rest.trim_start(),
            None => {
                return if matches!(line, "-" | "*" | "+" | ">") {
                    ""
                } else {
                    line
                };
            }
        }
    }
}

/// Parses `text` as a JSON object.
fn object(text: &str, field: &str) -> Result<Map<String, Value>, Invalid> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Invalid::new("foreign_malformed", field, "is not a JSON object")),
        Err(error) => Err(Invalid::new("foreign_malformed", field, error.to_string())),
    }
}

#[cfg(test)]
mod tests;
