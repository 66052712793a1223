//! What pages have come to, within a budget (M7.8 V10): first one line for each page, then what is newest on each, then
//! more of their tails. Entry by entry: nothing ends within a line.

use super::line::{Candidate, cut, is_untrusted, one_line};
use super::receipt::{Omitted, Receipt, Rendered, SectionReceipt, hash_of};
use crate::entry::{Entry, EntryKind};
use crate::page::Page;
use crate::tokens::Tokens;

/// Characters of an entry's line in a roll-up.
const ENTRY_CHARS: usize = 240;
/// Characters of a page's title and branch.
const TITLE_CHARS: usize = 80;
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
        let fields = &self.page.fields;
        let status = one_line(&fields.status);
        let title = cut(&one_line(&fields.title), TITLE_CHARS);
        let branch = fields
            .branch_id
            .as_deref()
            .map(one_line)
            .filter(|branch| !branch.is_empty());
        let branch = branch.map(|branch| cut(&branch, TITLE_CHARS));
        let last = self.tail.last().map(|entry| format!("last change {}", entry.handle));
        let remarks: Vec<String> = branch.into_iter().chain(last).collect();
        let remarks = if remarks.is_empty() {
            String::new()
        } else {
            format!(" ({})", remarks.join("; "))
        };
        format!("{} [{}/{status}] {title}{remarks}", self.page.handle, fields.role)
    }

    /// Which entries stand for the page: its latest summary, or its last two. The others of the tail come later.
    fn standing_for_it(&self) -> Vec<usize> {
        let summary = self.tail.iter().rposition(|entry| entry.kind == EntryKind::Summary);
        match summary {
            Some(summary) => vec![summary],
            None => (self.tail.len().saturating_sub(LATEST)..self.tail.len()).collect(),
        }
    }

    /// The page in one line, with what stands for it.
    #[must_use]
    pub fn candidate(&self) -> Candidate {
        let heading = self.heading();
        let texts: Vec<String> = self
            .standing_for_it()
            .into_iter()
            .map(|at| entry_line(&self.tail[at]))
            .collect();
        let all = std::iter::once(heading.clone())
            .chain(texts)
            .collect::<Vec<_>>()
            .join("; ");
        let lengths = [cut(&all, 480), cut(&all, 200), heading];
        Candidate {
            name: self.page.handle.to_string(),
            cut: lengths[0] != all,
            lengths,
            folded: Vec::new(),
        }
    }
}

/// Renders what `pages` have come to within `budget` tokens, in their order, each with its entries below it, the oldest first.
///
/// If not all lines fit, the last one says how many pages, or entries of their tails, are not shown.
#[must_use]
pub fn rollup(pages: &[PageTail], budget: u32, tokens: &dyn Tokens) -> Rendered {
    let mut shown: Vec<Option<Vec<usize>>> = vec![None; pages.len()];
    let cost = |line: &str| tokens.count(&format!("{line}\n"));
    let notice = cost(&notice_of(pages.len(), 9_999));
    let mut used = if pages.is_empty() { 0 } else { notice };
    for (page, shown) in pages.iter().zip(&mut shown) {
        let line = cost(&page.heading());
        if used.saturating_add(line) > budget {
            break;
        }
        used += line;
        *shown = Some(Vec::new());
    }
    // Newest first: the page that changed last tells its news first.
    let all_have_lines = shown.iter().all(Option::is_some);
    let mut newest: Vec<usize> = (0..pages.len()).filter(|_| all_have_lines).collect();
    newest.sort_by_key(|at| std::cmp::Reverse((pages[*at].tail.last().map(|entry| entry.handle), *at)));
    // Nothing older is told of a page whose newest did not fit.
    let mut is_full = vec![false; pages.len()];
    for is_more in [false, true] {
        for &at in &newest {
            if is_full[at] {
                continue;
            }
            let first = pages[at].standing_for_it();
            let wanted: Vec<usize> = if is_more {
                (0..pages[at].tail.len())
                    .rev()
                    .filter(|entry| !first.contains(entry))
                    .collect()
            } else {
                first.into_iter().rev().collect()
            };
            for entry in wanted {
                let line = cost(&format!("  {}", entry_line(&pages[at].tail[entry])));
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
    // A tokenizer may count a whole more than its parts.
    loop {
        let text = written(pages, &mut shown);
        let total = tokens.count(&text);
        let last = shown.iter_mut().rev().find(|shown| shown.is_some());
        match last {
            Some(last) if total > budget => match last {
                Some(entries) if !entries.is_empty() => drop(entries.remove(0)),
                last => *last = None,
            },
            _ => return receipted(text, total, pages, &shown, budget, tokens),
        }
    }
}

/// `e42 title: text`, in quotation marks if it is from strangers.
fn entry_line(entry: &Entry) -> String {
    let (title, body) = (one_line(&entry.fields.title), one_line(&entry.fields.body));
    let body = body.strip_prefix(&title).unwrap_or(&body).trim_start();
    let text = match (title.is_empty(), body.is_empty()) {
        (false, false) => format!("{title}: {body}"),
        (false, true) => title,
        (true, _) => body.to_owned(),
    };
    let text = cut(&text, ENTRY_CHARS);
    if is_untrusted(entry) {
        format!("{} (from outside) \"{}\"", entry.handle, text.replace('"', "'"))
    } else {
        format!("{} {text}", entry.handle)
    }
}

fn notice_of(pages: usize, entries: usize) -> String {
    match (pages, entries) {
        (0, entries) => format!("+{entries} more entries"),
        (pages, 0) => format!("+{pages} more pages"),
        (pages, entries) => format!("+{pages} more pages, +{entries} more entries"),
    }
}

fn written(pages: &[PageTail], shown: &mut [Option<Vec<usize>>]) -> String {
    let mut text = String::new();
    let (mut more_pages, mut more_entries) = (0, 0);
    for (page, shown) in pages.iter().zip(shown) {
        let Some(entries) = shown else {
            more_pages += 1;
            continue;
        };
        entries.sort_unstable();
        more_entries += page.tail.len() - entries.len();
        text.push_str(&page.heading());
        text.push('\n');
        for entry in entries {
            text.push_str("  ");
            text.push_str(&entry_line(&page.tail[*entry]));
            text.push('\n');
        }
    }
    if more_pages + more_entries > 0 && more_pages < pages.len() {
        text.push_str(&notice_of(more_pages, more_entries));
        text.push('\n');
    }
    text
}

fn receipted(
    text: String,
    total: u32,
    pages: &[PageTail],
    shown: &[Option<Vec<usize>>],
    budget: u32,
    tokens: &dyn Tokens,
) -> Rendered {
    let (mut whole, mut omitted) = (Vec::new(), Vec::new());
    for (page, shown) in pages.iter().zip(shown) {
        let name = |entry: usize| page.tail[entry].handle.to_string();
        let all = std::iter::once((page.page.handle.to_string(), shown.is_some()));
        let is_shown = |entry: usize| shown.as_ref().is_some_and(|entries| entries.contains(&entry));
        for (name, is_shown) in all.chain((0..page.tail.len()).map(|entry| (name(entry), is_shown(entry)))) {
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
    Rendered { text, receipt }
}

#[cfg(test)]
mod tests;
