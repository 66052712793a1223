//! The same lines as a folder of markdown: a file for each page with its entries as text, and `folio.md` for the rest.
//!
//! Each line becomes a *section*: a comment with everything but the text, which rendered markdown does not show,
//! followed by the text as it is. The comment contains the number of the line (`n`), so that the lines come back in
//! their order, byte for byte. A title of one line becomes a heading, and the comment then says `"title": true`.
//!
//! ```text
//! <!-- folio:page {"n":3,"id":"page_…","handle":"p2",…,"title":true} -->
//! # Findings
//!
//! <!-- folio:entry {"n":7,"id":"obs_…","page":"page_…","kind":"log",…} -->
//! It is.
//! ```
//!
//! Entries whose page is missing, because it could not be read, are in `folio.md`, too.
//!
//! A section `<!-- folio:entry -->` without an id is an entry that somebody added by hand.
//!
//! A line of text that looks like the beginning of a section is escaped by a backslash, and so is one that looks like
//! it after leading backslashes. A section whose comment ends with CR LF comes from an editor that ends every line this
//! way, so each CR LF in it is read as LF.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{EntryLine, Line, PageLine, without_mark};
use crate::actor::Trust;
use crate::canonical::canonical;
use crate::entry::{EntryFields, EntryKind, Owner};
use crate::excerpt::cut;
use crate::id::{EntryHandle, EntryId, PageId};
use crate::page::PageRole;
use crate::time::Timestamp;
use crate::warning::Invalid;

/// The file for what belongs to no page: the space, its policy, the links, and the end line.
pub const ROOT: &str = "folio.md";
/// The folder of the page files.
pub const PAGES: &str = "pages";
/// The beginning of a section.
const BEGIN: &str = "<!-- folio:";
/// The end of a section's comment.
const END: &str = " -->";
/// The maximum number of characters of the title in a file name.
const NAME_CHARS: usize = 40;

/// Determines the file and the text of each line's section.
#[derive(Debug, Default)]
pub struct Writer {
    n: u64,
    files: HashMap<PageId, String>,
    /// The entry written last, and its page: its pieces follow it.
    last: Option<(EntryId, PageId)>,
}

impl Writer {
    /// Returns the file of the line's section, relative to the folder, and the text to append to that file.
    ///
    /// # Errors
    ///
    /// `line_malformed` for a piece that comes before its entry.
    pub fn section(&mut self, line: &Line) -> Result<(String, String), Invalid> {
        self.n += 1;
        let malformed = |message: &str| Invalid::new("line_malformed", "line", message);
        let (file, name, heading) = match line {
            Line::Space { .. } => (ROOT.to_owned(), "space", ""),
            Line::Policy { .. } => (ROOT.to_owned(), "policy", ""),
            Line::Link(_) => (ROOT.to_owned(), "link", ""),
            Line::End { .. } => (ROOT.to_owned(), "end", ""),
            Line::Page(page) => {
                let file = file_of(page);
                self.files.insert(page.id, file.clone());
                (file, "page", "# ")
            }
            Line::Entry(entry) => {
                self.last = Some((entry.id, entry.page));
                (self.file_of_page(entry.page), "entry", "## ")
            }
            Line::Piece(piece) => {
                let page = self.last.filter(|(entry, _)| *entry == piece.of);
                let (_, page) = page.ok_or_else(|| malformed("the entry of the piece must come before it"))?;
                (self.file_of_page(page), "piece", "")
            }
        };
        let Ok(Value::Object(mut fields)) = serde_json::to_value(line) else {
            return Err(malformed("cannot be written as JSON"));
        };
        fields.remove("record");
        let text = text_field(name).and_then(|field| match fields.remove(field) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        });
        let mut section = String::new();
        let title = fields
            .get("title")
            .and_then(Value::as_str)
            .filter(|title| is_heading(title));
        let title = title.filter(|_| !heading.is_empty()).map(str::to_owned);
        if title.is_some() {
            fields.insert("title".to_owned(), Value::Bool(true));
        }
        fields.insert("n".to_owned(), self.n.into());
        // Escaped so that no value can end the comment.
        let fields = canonical(Value::Object(fields)).to_string().replace('>', "\\u003e");
        section.extend([BEGIN, name, " ", &fields, END, "\n"]);
        if let Some(title) = title {
            section.extend([heading, &title, "\n"]);
            if text.is_some() {
                section.push('\n');
            }
        }
        if let Some(text) = text {
            for line in text.split('\n') {
                if is_like_a_section(line) {
                    section.push('\\');
                }
                section.push_str(line);
                section.push('\n');
            }
        }
        section.push('\n');
        Ok((file, section))
    }

    /// The file of what is on `page`. A page of a damaged store may be missing: what is on it is not lost with it.
    fn file_of_page(&self, page: PageId) -> String {
        self.files.get(&page).map_or(ROOT, String::as_str).to_owned()
    }
}

/// The position of a section in a file, with the number of its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The number of its line; `None` if somebody wrote the section by hand. Those come after the others.
    pub n: Option<u64>,
    /// The offset of its first byte.
    pub from: usize,
    /// The offset after its last byte.
    pub to: usize,
}

/// Finds the sections of a file line by line, since a file may be too large for memory. Text before the first section
/// belongs to none.
#[derive(Debug, Default)]
pub struct Places {
    found: Vec<Place>,
    /// The number of bytes read so far.
    at: usize,
    /// What the first page section says about its page, if it can be read.
    page: Option<Option<PageOfFile>>,
    has_text_before: bool,
}

impl Places {
    /// Takes the next line, including its line ending.
    pub fn line(&mut self, line: &str) {
        // Some editors put a byte order mark at the beginning.
        let bare = if self.at == 0 { without_mark(line) } else { line };
        let from = self.at + line.len() - bare.len();
        self.at += line.len();
        if bare.starts_with(BEGIN) {
            let parsed_comment = comment(bare.trim_end());
            let n = parsed_comment
                .as_ref()
                .and_then(|(_, fields)| fields.get("n")?.as_u64());
            if let Some((name, fields)) = parsed_comment
                && name == "page"
                && self.page.is_none()
            {
                self.page = Some(PageOfFile::read(&fields));
            }
            self.found.push(Place { n, from, to: from });
        }
        match self.found.last_mut() {
            Some(last) => last.to = self.at,
            None => self.has_text_before |= !bare.trim().is_empty(),
        }
    }

    /// Whether there is anything but white space before the first section.
    #[must_use]
    pub fn has_text_before(&self) -> bool {
        self.has_text_before
    }

    /// The page that the file belongs to.
    #[must_use]
    pub fn page(&self) -> Option<PageOfFile> {
        self.page.flatten()
    }

    /// The number of bytes read so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.at
    }

    /// All sections, in their order.
    #[must_use]
    pub fn all(self) -> Vec<Place> {
        self.found
    }
}

/// Parses the line that a section stands for.
///
/// # Errors
///
/// `line_malformed` with the part that cannot be read.
pub fn line(section: &str) -> Result<Line, Invalid> {
    read(section, None)
}

/// Parses a section that somebody added by hand, which need only say that it is an entry. The entry is added at `now`
/// to the page of its file, and missing fields are filled in. `None` if the section has an id or is not an entry. The
/// same text gives the same entry.
#[must_use]
pub fn added(section: &str, page: Option<&PageOfFile>, now: Timestamp) -> Option<Result<Line, Invalid>> {
    let (name, fields) = comment(section.lines().next()?.trim_end())?;
    let is_new = name == "entry" && !fields.contains_key("id");
    is_new.then(|| match page {
        Some(page) => read(section, Some((page, now))),
        None => Err(malformed("a new entry must be in the file of its page".to_owned())),
    })
}

/// The page of a file, as far as new entries on it require.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageOfFile {
    id: PageId,
    role: PageRole,
}

impl PageOfFile {
    /// Reads the page from the `fields` of a comment.
    fn read(fields: &Map<String, Value>) -> Option<Self> {
        let field = |name: &str| fields.get(name).and_then(Value::as_str);
        Some(Self {
            id: field("id")?.parse().ok()?,
            role: PageRole::parse(field("role")?)?,
        })
    }

    /// Builds a new entry on the page from `fields`, filling in what they leave out.
    fn entry(&self, fields: &Map<String, Value>, now: Timestamp) -> Result<EntryLine, Invalid> {
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let (kinds, owner) = match self.role {
            PageRole::Scratchbook => (&[EntryKind::Note, EntryKind::Todo, EntryKind::Task][..], Owner::agent()),
            role if !role.is_standing() => (&[EntryKind::Log][..], Owner::user()),
            role => {
                let add = if role == PageRole::ScratchPage {
                    "; use `folio observe add`"
                } else {
                    ""
                };
                return Err(malformed(format!(
                    "entries cannot be added to a page of role {} in a file{add}",
                    role.as_str()
                )));
            }
        };
        let kind = match text("kind") {
            None => kinds[0],
            Some(name) => *kinds.iter().find(|kind| kind.as_str() == name).ok_or_else(|| {
                let known: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
                malformed(format!(
                    "a new entry here must be of kind {}, not {name}",
                    known.join(", ")
                ))
            })?,
        };
        let texts = [text("title"), text("body")].map(Option::unwrap_or_default);
        if texts.iter().all(|text| text.trim().is_empty()) {
            return Err(malformed("a new entry has neither a title nor a text".to_owned()));
        }
        Ok(EntryLine {
            id: EntryId::derived(&["added_in_file", &self.id.to_string(), texts[0], texts[1]]),
            handle: EntryHandle(1),
            page: self.id,
            kind,
            version: 1,
            created_at: now,
            updated_at: now,
            fields: EntryFields::new(kind, owner, Trust::User),
        })
    }
}

fn malformed(message: String) -> Invalid {
    Invalid::new("line_malformed", "section", message)
}

/// Parses the line that a section stands for. An entry that is `new` on the page is completed.
fn read(section: &str, new: Option<(&PageOfFile, Timestamp)>) -> Result<Line, Invalid> {
    let (first, rest) = section.split_once('\n').unwrap_or((section, ""));
    let rest = if first.ends_with('\r') {
        Cow::Owned(rest.replace("\r\n", "\n"))
    } else {
        Cow::Borrowed(rest)
    };
    let (name, mut fields) = comment(first.trim_end())
        .ok_or_else(|| malformed(format!("the comment cannot be read: {}", shortened(first))))?;
    fields.remove("n");
    let mut rest = &*rest;
    if new.is_some() {
        // In a section written by hand, surrounding empty lines do not count, and a heading is the title.
        rest = rest.trim_matches('\n');
        let is_titled = !fields.contains_key("title") && (rest.starts_with("## ") || rest.starts_with("# "));
        fields.extend(is_titled.then(|| ("title".to_owned(), Value::Bool(true))));
    }
    if fields.get("title") == Some(&Value::Bool(true)) {
        let (title, below) = rest.split_once('\n').unwrap_or((rest, ""));
        let title = title.strip_prefix("## ").or_else(|| title.strip_prefix("# "));
        let title = title.ok_or_else(|| malformed(format!("there is no heading below {}", shortened(first))))?;
        fields.insert("title".to_owned(), title.trim_end_matches('\r').into());
        rest = below.strip_prefix('\n').unwrap_or(below);
    }
    if let Some(field) = text_field(&name) {
        // The line ending of the text, and the empty line after the section.
        let text = rest.strip_suffix('\n').unwrap_or(rest);
        // An editor may have removed the last line ending.
        let text = text.strip_suffix('\n').or(Some(text).filter(|text| !text.is_empty()));
        if let Some(text) = text {
            let lines: Vec<_> = text.split('\n').map(without_escape).collect();
            fields.insert(field.to_owned(), lines.join("\n").into());
        }
    }
    if let Some((page, now)) = new
        && let Ok(Value::Object(mut new_fields)) = serde_json::to_value(page.entry(&fields, now)?)
    {
        new_fields.extend(fields);
        fields = new_fields;
    }
    fields.insert("record".to_owned(), name.into());
    let line: Line = serde_json::from_value(Value::Object(fields))
        .map_err(|error| malformed(format!("{error}: {}", shortened(first))))?;
    Line::parse(&line.to_json())
}

/// An error if somebody wrote text below a section that has none, such as that of a page: it is not an entry and would
/// be lost.
#[must_use]
pub fn written_below(section: &str) -> Option<Invalid> {
    let (first, rest) = section.split_once('\n')?;
    let (name, fields) = comment(first.trim_end())?;
    let rest = match fields.get("title") {
        Some(Value::Bool(true)) => rest.split_once('\n').map_or("", |(_, below)| below),
        _ => rest,
    };
    let text = rest.trim();
    if text_field(&name).is_some() || text.is_empty() {
        return None;
    }
    let message = format!(
        "{:?} belongs to no entry and is not imported; put a line <!-- folio:entry --> above it to make it one",
        shortened(text.lines().next().unwrap_or_default())
    );
    Some(Invalid::new("line_malformed", "section", message))
}

/// The field whose text stands below the comment.
fn text_field(name: &str) -> Option<&'static str> {
    match name {
        "entry" => Some("body"),
        "piece" => Some("text"),
        _ => None,
    }
}

/// Parses a comment into the name of its section and its fields.
fn comment(line: &str) -> Option<(String, Map<String, Value>)> {
    let inner = line.strip_prefix(BEGIN)?.strip_suffix(END)?;
    let (name, fields) = inner.split_once(' ').unwrap_or((inner, "{}"));
    Some((name.to_owned(), serde_json::from_str(fields).ok()?))
}

/// Whether a title can be written as a heading and read back unchanged.
fn is_heading(title: &str) -> bool {
    !title.is_empty() && title.trim() == title && !title.contains(['\n', '\r'])
}

fn is_like_a_section(line: &str) -> bool {
    line.trim_start_matches('\\').starts_with(BEGIN)
}

fn without_escape(line: &str) -> &str {
    match line.strip_prefix('\\') {
        Some(rest) if is_like_a_section(rest) => rest,
        _ => line,
    }
}

/// The beginning of a line, for messages.
fn shortened(line: &str) -> String {
    cut(line, 80)
}

/// The file name of a page, from its handle and the beginning of its title.
fn file_of(page: &PageLine) -> String {
    let mut name = String::new();
    for c in page.fields.title.chars().take(NAME_CHARS) {
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_lowercase());
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    let name = name.trim_matches('-');
    if name.is_empty() {
        format!("{PAGES}/{}.md", page.handle)
    } else {
        format!("{PAGES}/{}-{name}.md", page.handle)
    }
}

#[cfg(test)]
mod tests;
