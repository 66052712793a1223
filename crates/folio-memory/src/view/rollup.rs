//! The results so far of pages, within a budget (M7.8 V10): first one line per page, then the latest entries of each,
//! then more of their tails. Whole entries only: nothing ends within a line.

mod counts;
mod lines;

use std::cmp::Reverse;

use counts::notice_of;
pub use counts::{PageCounts, is_settled};
use lines::Naming;
pub use lines::PageLines;

use super::fit::longest_prefix;
use super::line::{Audience, Candidate, is_untrusted};
use super::receipt::{Omitted, Receipt, Rendered, SectionReceipt, hash_of};
use crate::entry::Entry;
use crate::excerpt::cut;
use crate::id::EntryHandle;
use crate::page::Page;
use crate::tokens::Tokens;

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
            let mut candidates = match is_more {
                false => pages[at].representative_entries(),
                true => pages[at].other_entries(),
            };
            candidates.reverse();
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

fn written(pages: &[PageLines], headings: &[String], shown_entries: &mut [Option<Vec<usize>>]) -> String {
    let mut text = String::new();
    let (mut more_pages, mut more_entries) = (PageCounts::default(), 0);
    for ((page, heading), page_entries) in pages.iter().zip(headings).zip(shown_entries) {
        let Some(entries) = page_entries else {
            more_pages.add(page.status());
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
