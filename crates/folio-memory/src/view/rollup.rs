//! The results so far of pages, within a budget (M7.8 V10): first one line per page, then the latest entries of each,
//! then more of their tails. Whole entries only: nothing ends within a line.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::fit::longest_prefix;
use super::line::{Audience, Candidate, beyond_title, is_untrusted, one_line, quoted};
use super::receipt::{Omitted, Receipt, Rendered, SectionReceipt, hash_of};
use crate::entry::{Entry, EntryKind};
use crate::excerpt::cut;
use crate::id::{EntryHandle, EntryId, PageHandle};
use crate::page::{Page, PageFields, PageRole};
use crate::tokens::Tokens;

/// The maximum number of characters in an entry's line.
const ENTRY_CHARS: usize = 240;
/// The maximum number of characters of a page's title, and of its branch.
const TITLE_CHARS: usize = 80;
/// The maximum number of characters of a page's last change.
const CHANGE_CHARS: usize = 40;
/// The status of a page whose work continues.
const OPEN: &str = "open";
/// The maximum number of characters of a counted status, and of distinct statuses: pages may carry any status.
const STATUS_CHARS: usize = 20;
const STATUSES: usize = 8;
/// The rank of pages that need no attention.
const SETTLED: u8 = 2;
/// The number of entries that represent a page without a summary.
const LATEST: usize = 2;

/// A page with its last entries.
#[derive(Debug, Clone, PartialEq)]
pub struct PageTail {
    /// The page.
    pub page: Page,
    /// The last entries of the page, oldest first.
    pub tail: Vec<Entry>,
}

impl PageTail {
    /// The page's own line, which is never left out: `p7 [scratchpad_exec/ok] Title (branch; last change e42)`.
    #[must_use]
    pub fn heading(&self) -> String {
        PageLines::of(&self.page, &self.tail, Naming::Entries).heading()
    }

    /// The page as a candidate: one line with the entries that represent it. For [`Audience::System`], content from
    /// strangers is left out: their entries, and the title of a page that was brought in with such entries or with none
    /// that would tell its origin.
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
        let standing_lines = page.representative_entries();
        let is_visible = |at: &usize| !(is_silent && is_untrusted(&self.tail[*at]));
        let texts = standing_lines.into_iter().filter(is_visible);
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

/// Whether the lines of entries begin with their handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
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
    title: String,
    branch: Option<String>,
    naming: Naming,
    entries: Vec<EntryLine>,
}

/// What a roll-up says about an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
struct EntryLine {
    id: EntryId,
    /// The entry's position in time: its handle, or a number beyond all handles if it has none yet.
    at: u64,
    is_summary: bool,
    /// How the page's line names the entry as its last change.
    change: String,
    line: String,
}

/// Whether a page with `status` needs no attention: its work ended well, or another plan superseded it.
#[must_use]
pub fn is_settled(status: &str) -> bool {
    matches!(status, "ok" | "superseded")
}

/// The rank of a status: what did not end well before what is open before what is settled.
fn rank(status: &str) -> u8 {
    match status {
        settled if is_settled(settled) => SETTLED,
        OPEN => 1,
        _ => 0,
    }
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
    pub(super) fn order_key(&self) -> (u8, Reverse<u64>) {
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
        self.entries.push(EntryLine::of(entry, self.naming));
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

    /// The entries that represent the page: its latest summary, or its last two entries. The rest of the tail comes
    /// later.
    fn representative_entries(&self) -> Vec<usize> {
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

/// Renders the results so far of `pages` within `budget` tokens, in their order, each followed by its entries, oldest
/// first.
///
/// If not all lines fit, the last line says how many pages are not shown and in which statuses, or how many entries of
/// their tails. Pages that changed last are shown before others. If not even one page fits beside it, the line of the
/// newest page stands alone, cut between characters but never within its name.
#[must_use]
pub fn rollup(pages: &[PageTail], budget: u32, tokens: &dyn Tokens) -> Rendered {
    let pages: Vec<_> = pages
        .iter()
        .map(|page| PageLines::of(&page.page, &page.tail, Naming::Entries))
        .collect();
    let fitted = fit(&pages, &newest_first(&pages), budget, tokens);
    let is_empty = fitted.shown.iter().all(Option::is_none);
    let first = is_empty.then(|| newest_page_only(&pages, budget, tokens)).flatten();
    first.unwrap_or_else(|| with_receipt(fitted, &pages, budget, tokens))
}

/// The part of the pages that fits.
pub(super) struct Fitted {
    pub(super) text: String,
    /// The cost of the text.
    pub(super) tokens: u32,
    /// For each page that is shown, the entries shown.
    shown: Vec<Option<Vec<usize>>>,
}

/// Selects the part of `pages` that fits into `budget` tokens. Where there is no room for the lines of all, those that
/// come first in `order` are kept.
pub(super) fn fit(pages: &[PageLines], order: &[usize], budget: u32, tokens: &dyn Tokens) -> Fitted {
    let mut shown_entries: Vec<Option<Vec<usize>>> = vec![None; pages.len()];
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
    // If everything fits, no notice of more is needed.
    let mut used_tokens = match all <= budget {
        true => 0,
        false => cost("", &notice_of(&PageCounts::of(pages), 9_999)),
    };
    for &at in order {
        let line_cost = cost("", &headings[at]);
        if used_tokens.saturating_add(line_cost) > budget {
            break;
        }
        used_tokens += line_cost;
        shown_entries[at] = Some(Vec::new());
    }
    // Newest first: the page that changed last shows its entries first.
    let mut newest = newest_first(pages);
    if shown_entries.iter().any(Option::is_none) {
        newest.clear();
    }
    // Once an entry of a page did not fit, none of its older ones is shown.
    let mut is_full = vec![false; pages.len()];
    for is_more in [false, true] {
        for &at in &newest {
            if is_full[at] {
                continue;
            }
            let standing = pages[at].representative_entries();
            let candidates: Vec<usize> = if is_more {
                (0..pages[at].entries.len())
                    .rev()
                    .filter(|entry| !standing.contains(entry))
                    .collect()
            } else {
                standing.into_iter().rev().collect()
            };
            for entry in candidates {
                let line_cost = cost("  ", &pages[at].entries[entry].line);
                if used_tokens.saturating_add(line_cost) > budget {
                    is_full[at] = true;
                    break;
                }
                used_tokens += line_cost;
                if let Some(entries) = &mut shown_entries[at] {
                    entries.push(entry);
                }
            }
        }
    }
    within(pages, &headings, shown_entries, order, budget, tokens)
}

/// The positions of `pages`, the one that changed last first.
fn newest_first(pages: &[PageLines]) -> Vec<usize> {
    let mut newest: Vec<usize> = (0..pages.len()).collect();
    newest.sort_by_key(|at| Reverse((pages[*at].entries.last().map(|entry| entry.at), *at)));
    newest
}

/// The line of the newest page alone, as far as it fits, for when it does not fit together with the last line that
/// counts the rest (M7.8 V3, V10).
fn newest_page_only(pages: &[PageLines], budget: u32, tokens: &dyn Tokens) -> Option<Rendered> {
    let at = newest_first(pages).into_iter().next()?;
    let heading = pages[at].heading();
    let (text, total) = longest_prefix(&heading, &pages[at].name(), budget, tokens)?;
    let is_cut = text.len() < heading.len();
    let mut shown = vec![None; pages.len()];
    shown[at] = Some(Vec::new());
    let fitted = Fitted {
        text: text.to_owned(),
        tokens: total,
        shown,
    };
    let mut rendered = with_receipt(fitted, pages, budget, tokens);
    if let Some(section) = rendered.receipt.sections.first_mut().filter(|_| is_cut) {
        section.shortened = std::mem::take(&mut section.shown);
    }
    Some(rendered)
}

/// Renders the `shown` entries, dropping from the end of `order` until they fit into `budget`.
fn within(
    pages: &[PageLines],
    headings: &[String],
    mut shown: Vec<Option<Vec<usize>>>,
    order: &[usize],
    budget: u32,
    tokens: &dyn Tokens,
) -> Fitted {
    // A tokenizer may count a whole text higher than the sum of its parts.
    loop {
        let text = written(pages, headings, &mut shown);
        let total = tokens.count(&text);
        let last = order.iter().rev().find(|at| shown[**at].is_some());
        match last.and_then(|at| shown.get_mut(*at)) {
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

/// All of `pages`, without a budget.
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

/// The entry as `title: text`, in quotation marks if it comes from strangers.
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

/// The pages that are not shown individually: how many have each status, and how many need no attention.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageCounts {
    by_status: BTreeMap<String, usize>,
    settled: usize,
}

impl PageCounts {
    fn of<'a>(pages: impl IntoIterator<Item = &'a PageLines>) -> Self {
        let mut counts = Self::default();
        for page in pages {
            counts.add(&page.status);
        }
        counts
    }

    /// Counts `count` pages that need no attention.
    #[must_use]
    pub fn settled(count: usize) -> Self {
        Self {
            settled: count,
            ..Self::default()
        }
    }

    /// Adds a page with `status`.
    pub fn add(&mut self, status: &str) {
        if is_settled(status) {
            self.settled += 1;
        } else {
            let status = cut(&one_line(status), STATUS_CHARS);
            *self.by_status.entry(status).or_default() += 1;
        }
    }

    /// The number of pages.
    #[must_use]
    pub fn count(&self) -> usize {
        self.settled + self.by_status.values().sum::<usize>()
    }

    /// The counts in words, what needs attention first: `2 failed, 1 open, 9 ok or superseded`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut by_status: Vec<_> = self.by_status.iter().collect();
        by_status.sort_by_key(|(status, _)| rank(status));
        let other_count: usize = by_status.iter().skip(STATUSES).map(|(_, count)| **count).sum();
        let mut words: Vec<_> = by_status
            .into_iter()
            .take(STATUSES)
            .map(|(status, count)| format!("{count} {status}"))
            .collect();
        let rest = [(other_count, "otherwise"), (self.settled, "ok or superseded")];
        words.extend(
            rest.iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, label)| format!("{count} {label}")),
        );
        words.join(", ")
    }
}

fn notice_of(pages: &PageCounts, entries: usize) -> String {
    match (pages.count(), entries) {
        (0, entries) => format!("+{entries} more entries"),
        (count, 0) => format!("+{count} more pages ({})", pages.in_words()),
        (count, entries) => format!("+{count} more pages ({}), +{entries} more entries", pages.in_words()),
    }
}

fn written(pages: &[PageLines], headings: &[String], shown_entries: &mut [Option<Vec<usize>>]) -> String {
    let mut text = String::new();
    let (mut more_pages, mut more_entries) = (PageCounts::default(), 0);
    for ((page, heading), page_entries) in pages.iter().zip(headings).zip(shown_entries) {
        let Some(entries) = page_entries else {
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

fn with_receipt(fitted: Fitted, pages: &[PageLines], budget: u32, tokens: &dyn Tokens) -> Rendered {
    let Fitted {
        text,
        tokens: total,
        shown,
    } = fitted;
    let (mut shown_names, mut omitted) = (Vec::new(), Vec::new());
    for (page, page_entries) in pages.iter().zip(&shown) {
        let name = |entry: usize| EntryHandle(page.entries[entry].at).to_string();
        let all = std::iter::once((page.name(), page_entries.is_some()));
        let is_shown = |entry: usize| page_entries.as_ref().is_some_and(|entries| entries.contains(&entry));
        for (name, is_shown) in all.chain((0..page.entries.len()).map(|entry| (name(entry), is_shown(entry)))) {
            if is_shown {
                shown_names.push(name);
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
        shown: shown_names,
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
