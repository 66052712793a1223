//! What pages have come to, within a budget (M7.8 V10): first one line for each page, then what is newest on each, then
//! more of their tails. Entry by entry: nothing ends within a line.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::fit::beginning;
use super::line::{Audience, Candidate, beyond_title, is_untrusted, one_line, quoted};
use super::receipt::{Omitted, Receipt, Rendered, SectionReceipt, hash_of};
use crate::entry::{Entry, EntryKind};
use crate::excerpt::cut;
use crate::id::{EntryHandle, EntryId, PageHandle};
use crate::page::{Page, PageFields, PageRole};
use crate::tokens::Tokens;

/// Characters of an entry's line in a roll-up.
const ENTRY_CHARS: usize = 240;
/// Characters of a page's title and branch.
const TITLE_CHARS: usize = 80;
/// Characters of a last change.
const CHANGE_CHARS: usize = 40;
/// The status of a page whose work goes on.
const OPEN: &str = "open";
/// Characters of a status that is counted, and how many are told apart: pages may say of themselves what they like.
const STATUS_CHARS: usize = 20;
const STATUSES: usize = 8;
/// The rank of what nobody has to look at.
const SETTLED: u8 = 2;
/// Entries that stand for a page without a summary.
const LATEST: usize = 2;

/// A page with the end of what is on it.
#[derive(Debug, Clone, PartialEq)]
pub struct PageTail {
    /// The page.
    pub page: Page,
    /// Its last entries, the oldest first.
    pub tail: Vec<Entry>,
}

impl PageTail {
    /// `p7 [scratchpad_exec/ok] Title (branch; last change e42)`: whatever else is left out, this is not.
    #[must_use]
    pub fn heading(&self) -> String {
        PageLines::of(&self.page, &self.tail, Naming::Entries).heading()
    }

    /// The page in one line, with what stands for it. For [`Audience::System`] without what strangers wrote: entries of theirs, and the title
    /// of a page that was brought in with such entries, or with none by which it could be told.
    #[must_use]
    pub fn candidate_for(&self, audience: Audience) -> Candidate {
        let mut page = PageLines::of(&self.page, &self.tail, Naming::Entries);
        let is_silent = audience == Audience::System;
        let is_trusted = !self.tail.is_empty() && !self.tail.iter().any(is_untrusted);
        if is_silent && self.page.fields.brought.is_some() && !is_trusted {
            "(brought in)".clone_into(&mut page.title);
            page.branch = None;
        }
        let heading = page.heading();
        let standing = page.standing_for_it();
        let is_told = |at: &usize| !(is_silent && is_untrusted(&self.tail[*at]));
        let texts = standing.into_iter().filter(is_told);
        let texts = texts.map(|at| page.entries[at].line.as_str());
        let all = std::iter::once(heading.as_str())
            .chain(texts)
            .collect::<Vec<_>>()
            .join("; ");
        let lengths = [cut(&all, 480), cut(&all, 200), heading];
        Candidate {
            name: page.name(),
            cut: lengths[0] != all,
            lengths,
            folded: Vec::new(),
        }
    }
}

/// Whether lines of entries begin with their handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// They do.
    Entries,
    /// They do not: they are told before the entries have any.
    Pages,
}

/// What a roll-up tells of a page: its own line, and those of its last entries. A planner is told of the pages of its run by these, without
/// handles of entries: so they can be told while what a step wrote is still on its way into the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageLines {
    handle: Option<PageHandle>,
    role: PageRole,
    status: String,
    title: String,
    branch: Option<String>,
    naming: Naming,
    entries: Vec<EntryLine>,
}

/// What a roll-up tells of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
struct EntryLine {
    id: EntryId,
    /// Its place in time: its handle, or a number beyond.
    at: u64,
    is_summary: bool,
    /// How the line of the page names it as its last change.
    change: String,
    line: String,
}

/// Whether nobody has to look at what stands on a page of that `status` first: it ended well, or another plan took its place.
#[must_use]
pub fn is_settled(status: &str) -> bool {
    matches!(status, "ok" | "superseded")
}

/// What did not go well comes before what goes on, and that before what nobody has to look at.
fn rank(status: &str) -> u8 {
    match status {
        settled if is_settled(settled) => SETTLED,
        OPEN => 1,
        _ => 0,
    }
}

impl PageLines {
    /// What a planner is told of `page`, whose last entries are `tail`, the oldest first.
    #[must_use]
    pub fn told(page: &Page, tail: &[Entry]) -> Self {
        Self::of(page, tail, Naming::Pages)
    }

    /// The same of a page that a commit is about to add. [`PageLines::is_named`] by [`PageLines::name_it`].
    #[must_use]
    pub fn of_new(fields: &PageFields) -> Self {
        Self::with(None, fields, Naming::Pages)
    }

    /// Whether nobody has to look at what it is about: that ended well, or counts no more.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        is_settled(&self.status)
    }

    /// When a planner is told of it: what did not go well before what goes on, and what ended well last,
    /// the newest of it first.
    pub(super) fn turn(&self) -> (u8, Reverse<u64>) {
        match rank(&self.status) {
            SETTLED => (SETTLED, Reverse(self.last_at())),
            rank => (rank, Reverse(0)),
        }
    }

    /// The status that it has.
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
            entries: Vec::new(),
        }
    }

    fn of(page: &Page, tail: &[Entry], naming: Naming) -> Self {
        let mut lines = Self::with(Some(page.handle), &page.fields, naming);
        lines
            .entries
            .extend(tail.iter().map(|entry| EntryLine::of(entry, naming)));
        lines
    }

    /// Whether it is known under which handle the page stands in the log.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.handle.is_some()
    }

    /// Says under which handle the page stands in the log.
    pub fn name_it(&mut self, handle: PageHandle) {
        self.handle = Some(handle);
    }

    /// Changes its status.
    pub fn set_status(&mut self, status: &str) {
        self.status = one_line(status);
    }

    /// Adds an entry at its end. Of all, the last `most` stay.
    pub fn add(&mut self, entry: &Entry, most: usize) {
        self.entries.push(EntryLine::of(entry, self.naming));
        let beyond = self.entries.len().saturating_sub(most);
        self.entries.drain(..beyond);
    }

    /// Whether it has a line for `entry`.
    #[must_use]
    pub fn tells_of(&self, entry: EntryId) -> bool {
        self.entries.iter().any(|line| line.id == entry)
    }

    /// The place in time of its last entry; zero if it has none.
    #[must_use]
    pub fn last_at(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.at)
    }

    fn name(&self) -> String {
        self.handle.map(|handle| handle.to_string()).unwrap_or_default()
    }

    fn heading(&self) -> String {
        let mut heading = String::new();
        self.put_heading(&mut heading);
        heading
    }

    fn put_heading(&self, text: &mut String) {
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

    /// Which entries stand for the page: its latest summary, or its last two. The others of the tail come later.
    fn standing_for_it(&self) -> Vec<usize> {
        let summary = self.entries.iter().rposition(|entry| entry.is_summary);
        match summary {
            Some(summary) => vec![summary],
            None => (self.entries.len().saturating_sub(LATEST)..self.entries.len()).collect(),
        }
    }
}

impl EntryLine {
    fn of(entry: &Entry, naming: Naming) -> Self {
        let text = entry_text(entry);
        let (change, line) = match naming {
            Naming::Entries => (format!(" {}", entry.handle), format!("{} {text}", entry.handle)),
            Naming::Pages => {
                let title = one_line(&entry.fields.title);
                let change = if title.is_empty() || is_untrusted(entry) {
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

/// Renders what `pages` have come to within `budget` tokens, in their order, each with its entries below it, the oldest first.
///
/// If not all lines fit, the last one says how many pages are not shown and how they stand, or how many entries of their tails. Where not
/// even one page fits beside it, the line of the first one stands alone, cut at the end of a character but never within its name.
#[must_use]
pub fn rollup(pages: &[PageTail], budget: u32, tokens: &dyn Tokens) -> Rendered {
    let pages: Vec<_> = pages
        .iter()
        .map(|page| PageLines::of(&page.page, &page.tail, Naming::Entries))
        .collect();
    let fitted = fit(&pages, budget, tokens);
    let is_empty = fitted.shown.iter().all(Option::is_none);
    let first = is_empty.then(|| alone(&pages, budget, tokens)).flatten();
    first.unwrap_or_else(|| receipted(fitted, &pages, budget, tokens))
}

/// What of pages has room.
pub(super) struct Fitted {
    pub(super) text: String,
    /// What it costs.
    pub(super) tokens: u32,
    /// Of each page the entries that are told, if it is told of.
    shown: Vec<Option<Vec<usize>>>,
}

/// What of `pages` has room in `budget` tokens.
pub(super) fn fit(pages: &[PageLines], budget: u32, tokens: &dyn Tokens) -> Fitted {
    let mut shown: Vec<Option<Vec<usize>>> = vec![None; pages.len()];
    let mut whole_line = String::new();
    let mut cost = |indent: &str, line: &str| {
        whole_line.clear();
        whole_line.extend([indent, line, "\n"]);
        tokens.count(&whole_line)
    };
    let headings: Vec<String> = pages.iter().map(PageLines::heading).collect();
    let lines = pages.iter().flat_map(|page| &page.entries);
    let all = lines.fold(0_u32, |all, entry| all.saturating_add(cost("  ", &entry.line)));
    let all = headings
        .iter()
        .fold(all, |all, heading| all.saturating_add(cost("", heading)));
    // Where all of it has room, nothing is said of more.
    let mut used = match all <= budget {
        true => 0,
        false => cost("", &notice_of(&Standing::of(pages), 9_999)),
    };
    for (heading, shown) in headings.iter().zip(&mut shown) {
        let line = cost("", heading);
        if used.saturating_add(line) > budget {
            break;
        }
        used += line;
        *shown = Some(Vec::new());
    }
    // Newest first: the page that changed last tells its news first.
    let all_have_lines = shown.iter().all(Option::is_some);
    let mut newest: Vec<usize> = (0..pages.len()).filter(|_| all_have_lines).collect();
    newest.sort_by_key(|at| Reverse((pages[*at].entries.last().map(|entry| entry.at), *at)));
    // Nothing older is told of a page whose newest did not fit.
    let mut is_full = vec![false; pages.len()];
    for is_more in [false, true] {
        for &at in &newest {
            if is_full[at] {
                continue;
            }
            let first = pages[at].standing_for_it();
            let wanted: Vec<usize> = if is_more {
                (0..pages[at].entries.len())
                    .rev()
                    .filter(|entry| !first.contains(entry))
                    .collect()
            } else {
                first.into_iter().rev().collect()
            };
            for entry in wanted {
                let line = cost("  ", &pages[at].entries[entry].line);
                if used.saturating_add(line) > budget {
                    is_full[at] = true;
                    break;
                }
                used += line;
                if let Some(entries) = &mut shown[at] {
                    entries.push(entry);
                }
            }
        }
    }
    within(pages, &headings, shown, budget, tokens)
}

/// The line of the first page as far as it fits, without anything beside it: where not even that has room together with the last line that
/// says how many more there are (M7.8 V3, V10).
fn alone(pages: &[PageLines], budget: u32, tokens: &dyn Tokens) -> Option<Rendered> {
    let first = pages.first()?;
    let heading = first.heading();
    let (text, total) = beginning(&heading, &first.name(), budget, tokens)?;
    let is_cut = text.len() < heading.len();
    let mut shown = vec![None; pages.len()];
    if let Some(first) = shown.first_mut() {
        *first = Some(Vec::new());
    }
    let fitted = Fitted {
        text: text.to_owned(),
        tokens: total,
        shown,
    };
    let mut rendered = receipted(fitted, pages, budget, tokens);
    if let Some(section) = rendered.receipt.sections.first_mut().filter(|_| is_cut) {
        section.shortened = std::mem::take(&mut section.shown);
    }
    Some(rendered)
}

/// What is to be `shown`, without what is too much for `budget` all the same.
fn within(
    pages: &[PageLines],
    headings: &[String],
    mut shown: Vec<Option<Vec<usize>>>,
    budget: u32,
    tokens: &dyn Tokens,
) -> Fitted {
    // A tokenizer may count a whole more than its parts.
    loop {
        let text = written(pages, headings, &mut shown);
        let total = tokens.count(&text);
        let last = shown.iter_mut().rev().find(|shown| shown.is_some());
        match last {
            Some(last) if total > budget => match last {
                Some(entries) if !entries.is_empty() => drop(entries.remove(0)),
                last => *last = None,
            },
            _ => {
                return Fitted {
                    text,
                    tokens: total,
                    shown,
                };
            }
        }
    }
}

/// All that there is of `pages`, without a budget.
pub(super) fn unabridged(pages: &[PageLines]) -> String {
    let mut text = String::new();
    for page in pages {
        page.put_heading(&mut text);
        text.push('\n');
        for entry in &page.entries {
            text.extend(["  ", &entry.line, "\n"]);
        }
    }
    text
}

/// `title: text`, in quotation marks if it is from strangers.
fn entry_text(entry: &Entry) -> String {
    let title = one_line(&entry.fields.title);
    let body = one_line(beyond_title(&entry.fields.title, &entry.fields.body));
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

/// How pages stand that are not told of one by one: how many have each status, and how many nobody has to look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    by_status: BTreeMap<String, usize>,
    settled: usize,
}

impl Standing {
    fn of<'a>(pages: impl IntoIterator<Item = &'a PageLines>) -> Self {
        let mut standing = Self::default();
        for page in pages {
            standing.add(&page.status);
        }
        standing
    }

    /// So many pages that nobody has to look at.
    #[must_use]
    pub fn settled(count: usize) -> Self {
        Self {
            settled: count,
            ..Self::default()
        }
    }

    /// Takes in one more page of this status.
    pub fn add(&mut self, status: &str) {
        if is_settled(status) {
            self.settled += 1;
        } else {
            let status = cut(&one_line(status), STATUS_CHARS);
            *self.by_status.entry(status).or_default() += 1;
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.settled + self.by_status.values().sum::<usize>()
    }

    /// `2 failed, 1 open, 9 ok or superseded`: what somebody has to look at first comes first.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut by_status: Vec<_> = self.by_status.iter().collect();
        by_status.sort_by_key(|(status, _)| rank(status));
        let beyond: usize = by_status.iter().skip(STATUSES).map(|(_, count)| **count).sum();
        let mut words: Vec<_> = by_status
            .into_iter()
            .take(STATUSES)
            .map(|(status, count)| format!("{count} {status}"))
            .collect();
        let rest = [(beyond, "otherwise"), (self.settled, "ok or superseded")];
        words.extend(
            rest.iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{count} {what}")),
        );
        words.join(", ")
    }
}

fn notice_of(pages: &Standing, entries: usize) -> String {
    match (pages.count(), entries) {
        (0, entries) => format!("+{entries} more entries"),
        (count, 0) => format!("+{count} more pages ({})", pages.in_words()),
        (count, entries) => format!("+{count} more pages ({}), +{entries} more entries", pages.in_words()),
    }
}

fn written(pages: &[PageLines], headings: &[String], shown: &mut [Option<Vec<usize>>]) -> String {
    let mut text = String::new();
    let (mut more_pages, mut more_entries) = (Standing::default(), 0);
    for ((page, heading), shown) in pages.iter().zip(headings).zip(shown) {
        let Some(entries) = shown else {
            more_pages.add(&page.status);
            continue;
        };
        entries.sort_unstable();
        more_entries += page.entries.len() - entries.len();
        text.push_str(heading);
        text.push('\n');
        for entry in entries {
            text.push_str("  ");
            text.push_str(&page.entries[*entry].line);
            text.push('\n');
        }
    }
    if more_pages.count() + more_entries > 0 && more_pages.count() < pages.len() {
        text.push_str(&notice_of(&more_pages, more_entries));
        text.push('\n');
    }
    text
}

fn receipted(fitted: Fitted, pages: &[PageLines], budget: u32, tokens: &dyn Tokens) -> Rendered {
    let Fitted {
        text,
        tokens: total,
        shown,
    } = fitted;
    let (mut whole, mut omitted) = (Vec::new(), Vec::new());
    for (page, shown) in pages.iter().zip(&shown) {
        let name = |entry: usize| EntryHandle(page.entries[entry].at).to_string();
        let all = std::iter::once((page.name(), shown.is_some()));
        let is_shown = |entry: usize| shown.as_ref().is_some_and(|entries| entries.contains(&entry));
        for (name, is_shown) in all.chain((0..page.entries.len()).map(|entry| (name(entry), is_shown(entry)))) {
            if is_shown {
                whole.push(name);
            } else {
                let reason = "budget".to_owned();
                omitted.push(Omitted { name, reason });
            }
        }
    }
    let section = SectionReceipt {
        section: "rollup".to_owned(),
        share: 100,
        reserved: budget,
        tokens: total,
        shown: whole,
        shortened: Vec::new(),
        omitted,
        folded: Vec::new(),
        beyond: 0,
    };
    let receipt = Receipt {
        hash: hash_of(&text),
        budget,
        tokens: total,
        counted: tokens.method(),
        sections: vec![section],
    };
    let ends = vec![text.len()];
    Rendered { text, receipt, ends }
}

#[cfg(test)]
mod tests;
