//! Fitting lines into a budget of tokens: shares, slack, three lengths, and a last line that counts what is left out.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use unicode_segmentation::UnicodeSegmentation;

use super::line::Candidate;
use super::receipt::{Folded, Omitted, Receipt, Rendered, SectionReceipt, TOLD, hash_of};
use crate::tokens::Tokens;

/// When a part may use what the shares of a budget leave over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Leftover {
    /// Before all others: first for more lines, then for longer ones.
    First,
    /// In the order of the parts.
    #[default]
    InOrder,
    /// After all others, except for the lines that concern what the text is for: they come before [`Self::InOrder`].
    Last,
}

/// One section of a text to be rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The section's name in a receipt.
    pub section: String,
    /// The line above the first of adjacent parts that have the same group; empty for none.
    pub group: &'static str,
    /// The line above the part's own lines; empty for none.
    pub heading: &'static str,
    /// The share of the budget in percent, for the receipt.
    pub share: u32,
    /// The tokens reserved for the part.
    pub reserved: u32,
    /// The candidates, most important first.
    pub candidates: Vec<Candidate>,
    /// The names of candidates beyond the maximum number of lines of a section.
    pub beyond_limit: Vec<String>,
    /// The number of further entries that were not looked at.
    pub beyond: u64,
    /// When the part may use what the shares leave over.
    pub leftover: Leftover,
    /// How many of the first candidates concern what the text is for.
    pub concerning: usize,
    /// Entries without a candidate, because another line of the text says the same.
    pub said_elsewhere: Vec<Folded>,
    /// The names of what the reader was told before, and has no candidate because of that.
    pub told: Vec<String>,
}

/// Fits `parts` into `budget` tokens.
///
/// A budget of zero gives an empty text. In order, each part first gets what is reserved for it, less its share of the
/// cost of its group's heading: every line in short length, or as a head where that does not fit, up to the first line
/// that does not fit at all; then, from the first line on, lines are lengthened as far as there is room. Next, each
/// part that has entries but shows none gets a line that counts them, if need be at the cost of lines of later parts:
/// no line is shown after a part that does not mention what it has. What is left of the budget first gives each part
/// without a line its first one; then what the parts of a group leave of what is reserved for them goes to the others
/// of the group, and the rest extends the parts: those that come [first](Leftover), then lines that concern what the
/// text is for, then the others, from the first on. Headings and the lines `+3 more` count
/// toward the budget. If not even one line fits below its headings, the first line is shown alone, cut between
/// characters but never within its name.
#[must_use]
pub fn fit(parts: Vec<Part>, budget: u32, tokens: &dyn Tokens) -> Rendered {
    let mut all: Vec<FittedPart<'_>> = parts.into_iter().map(|part| FittedPart::new(part, tokens)).collect();
    for at in 0..all.len() {
        let share = own_share(&all, at);
        all[at].fill(share);
    }
    mention_all(&mut all, budget);
    if all.iter().all(|part| part.taken.is_empty()) {
        // The counts of later parts must not displace the first line.
        show_first(&mut all, budget);
        mention_all(&mut all, budget);
    }
    show_first_lines(&mut all, budget);
    distribute_in_groups(&mut all, budget);
    distribute_rest(&mut all, budget);
    // A tokenizer may count a whole text higher than the sum of its parts.
    let (mut text, mut ends) = text_of(&all);
    let mut total = tokens.count(&text);
    while total > budget {
        match all.iter_mut().rev().find(|part| part.is_shown()) {
            Some(last) => last.drop_one(),
            None => break,
        }
        (text, ends) = text_of(&all);
        total = tokens.count(&text);
    }
    if all.iter().all(|part| part.taken.is_empty()) {
        (text, total) = first_line_only(&mut all, budget, tokens).unwrap_or_default();
        let empty_count = all.iter().take_while(|part| part.taken.is_empty()).count();
        ends = (0..all.len())
            .map(|at| if at < empty_count { 0 } else { text.len() })
            .collect();
    }
    let receipt = Receipt {
        hash: hash_of(&text),
        budget,
        tokens: total,
        counted: tokens.method(),
        sections: (0..all.len())
            .map(|at| all[at].receipt(opens_group(&all, at)))
            .collect(),
    };
    Rendered { text, receipt, ends }
}

/// Makes every part that has entries mention them, from the first part on, as far as `budget` allows.
fn mention_all(all: &mut [FittedPart<'_>], budget: u32) {
    for at in 0..all.len() {
        if all[at].is_empty() || all[at].is_shown() {
            continue;
        }
        all[at].is_named = true;
        while cost_of(all) > budget {
            let later = &all[at + 1..];
            let last_lines = later.iter().rposition(|part| !part.taken.is_empty());
            let Some(last) = last_lines.or_else(|| later.iter().rposition(FittedPart::is_shown)) else {
                all[at].is_named = false;
                return;
            };
            all[at + 1 + last].drop_one();
        }
    }
}

/// Leaves nothing but one line of the first part that has entries, if that fits into `budget`.
fn show_first(all: &mut [FittedPart<'_>], budget: u32) {
    let Some(first) = all.iter().position(|part| !part.is_empty()) else {
        return;
    };
    let Some(min_cost) = all[first].least() else { return };
    let share = budget.saturating_sub(group_cost(all, first)).min(min_cost);
    for part in &mut *all {
        part.fill(0);
    }
    all[first].fill(share);
}

/// Gives each part that shows nothing its first line, from the first part on, as far as `budget` allows.
fn show_first_lines(all: &mut [FittedPart<'_>], budget: u32) {
    for at in 0..all.len() {
        if all[at].is_empty() || !all[at].taken.is_empty() {
            continue;
        }
        let room = room_of(all, at, budget);
        if let Some(min_cost) = all[at].least() {
            all[at].refill(room.min(min_cost));
        }
        if !all[at].is_shown() {
            return;
        }
    }
}

/// Hands what parts of a group leave of what is reserved for the group to its other parts, from the first part on.
fn distribute_in_groups(all: &mut [FittedPart<'_>], budget: u32) {
    let mut start = 0;
    while start < all.len() {
        let group = all[start].part.group;
        let len = all[start..].iter().take_while(|part| part.part.group == group).count();
        let range = start..start + len;
        start = range.end;
        if group.is_empty() || len == all.len() {
            continue;
        }
        let parts = all[range.clone()].iter();
        let reserved = parts.fold(0, |sum: u32, part| sum.saturating_add(part.part.reserved));
        for at in range.clone() {
            if all[at].is_whole() {
                continue;
            }
            let used = range.clone().filter(|at| all[*at].is_shown()).fold(0, |sum: u32, at| {
                sum.saturating_add(all[at].cost_of_own())
                    .saturating_add(group_cost(all, at))
            });
            let left_of_group = reserved.saturating_sub(used);
            let left_of_all = budget.saturating_sub(cost_of(all));
            if all[at].is_shown() && left_of_group.min(left_of_all) > 0 {
                let room = all[at].cost_of_own().saturating_add(left_of_group.min(left_of_all));
                all[at].refill(room);
            }
        }
    }
}

/// Distributes what is left of `budget` to the parts that had to leave something out.
fn distribute_rest(all: &mut [FittedPart<'_>], budget: u32) {
    let grow = |all: &mut [FittedPart<'_>], leftover: Leftover, how: Growth| {
        for at in 0..all.len() {
            // No line is shown after a part that does not mention what it has.
            let may_grow = all[at].is_shown() || all[..at].iter().all(|part| part.is_empty() || part.is_shown());
            if all[at].part.leftover != leftover || !may_grow || all[at].is_whole() || cost_of(all) >= budget {
                continue;
            }
            let room = room_of(all, at, budget);
            all[at].grow(room, how);
        }
    };
    grow(all, Leftover::First, Growth::MoreLines);
    grow(all, Leftover::First, Growth::Any);
    grow(all, Leftover::Last, Growth::Concerning);
    grow(all, Leftover::InOrder, Growth::Any);
    grow(all, Leftover::Last, Growth::Any);
}

/// What the part at `at` may cost if the others stay as they are.
fn room_of(all: &[FittedPart<'_>], at: usize, budget: u32) -> u32 {
    let left = budget.saturating_sub(cost_of(all));
    if all[at].is_shown() {
        all[at].cost_of_own().saturating_add(left)
    } else {
        left.saturating_sub(group_cost(all, at))
    }
}

/// What is reserved for the part at `at`, less its share of the cost of its group's heading, which all parts of the
/// group pay for.
fn own_share(all: &[FittedPart<'_>], at: usize) -> u32 {
    let part = &all[at].part;
    if part.group.is_empty() {
        return part.reserved;
    }
    let is_of_group = |other: &&FittedPart<'_>| other.part.group == part.group;
    let before = all[..at].iter().rev().take_while(is_of_group);
    let behind = all[at..].iter().take_while(is_of_group);
    let reserved = before
        .chain(behind)
        .fold(0_u64, |sum, other| sum + u64::from(other.part.reserved));
    let heading = u64::from(all[at].line_cost(part.group));
    let share = (heading * u64::from(part.reserved)).div_ceil(reserved.max(1));
    part.reserved.saturating_sub(u32::try_from(share).unwrap_or(u32::MAX))
}

/// The cost of all lines, counted one by one.
fn cost_of(all: &[FittedPart<'_>]) -> u32 {
    let shown_parts = (0..all.len()).filter(|at| all[*at].is_shown());
    shown_parts.fold(0, |sum: u32, at| {
        sum.saturating_add(all[at].cost_of_own())
            .saturating_add(group_cost(all, at))
    })
}

/// The cost of the group's heading, if it stands above the part at `at`.
fn group_cost(all: &[FittedPart<'_>], at: usize) -> u32 {
    if opens_group(all, at) {
        all[at].line_cost(all[at].part.group)
    } else {
        0
    }
}

/// The first line of all, as far as it fits, without headings.
fn first_line_only(all: &mut [FittedPart<'_>], budget: u32, tokens: &dyn Tokens) -> Option<(String, u32)> {
    for part in all.iter_mut() {
        part.is_named = false;
    }
    let first = all.iter_mut().find(|part| !part.part.candidates.is_empty())?;
    let candidate = &first.part.candidates[0];
    let (text, total) = longest_prefix(&candidate.lengths[2], &candidate.name, budget, tokens)?;
    let text = text.to_owned();
    first.taken.push(2);
    first.cut_off = Some(total);
    Some((text, total))
}

/// The longest beginning of `line` that fits into `budget`, with its cost. It ends between grapheme clusters and
/// contains all of `name`, with which the line begins; `None` if the name does not fit.
pub(super) fn longest_prefix<'l>(
    line: &'l str,
    name: &str,
    budget: u32,
    tokens: &dyn Tokens,
) -> Option<(&'l str, u32)> {
    let ends = line.grapheme_indices(true).map(|(at, _)| at).chain([line.len()]);
    // A longer prefix does not always cost more, so each is tried, the longest first.
    let ends: Vec<usize> = ends.filter(|end| *end >= name.len().max(1)).collect();
    ends.into_iter().rev().find_map(|end| {
        let text = line[..end].trim_end();
        let is_name_whole = text.len() == name.len() || text.get(name.len()..)?.starts_with(' ');
        let total = tokens.count(text);
        (total <= budget && is_name_whole).then_some((text, total))
    })
}

/// Whether the heading of its group stands above the part at `at` if that part has lines.
fn opens_group(all: &[FittedPart<'_>], at: usize) -> bool {
    let group = all[at].part.group;
    let before = all[..at].iter().rev().take_while(|part| part.part.group == group);
    !group.is_empty() && !before.into_iter().any(FittedPart::is_shown)
}

/// The text, and the offset at which each part ends.
fn text_of(all: &[FittedPart<'_>]) -> (String, Vec<usize>) {
    let mut text = String::new();
    let write = |(at, part): (usize, &FittedPart<'_>)| {
        part.write(&mut text, opens_group(all, at));
        text.len()
    };
    let ends = all.iter().enumerate().map(write).collect();
    (text, ends)
}

/// What a part may use more room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    /// More lines, and longer ones.
    Any,
    /// More lines, but not longer ones.
    MoreLines,
    /// More lines that concern what the text is for, and longer ones.
    Concerning,
}

/// A part with the lines of it that are shown.
#[derive(Debug)]
struct FittedPart<'t> {
    part: Part,
    counter: &'t dyn Tokens,
    /// The cost of each line at each length, once computed.
    costs: Vec<[Cell<Option<u32>>; 3]>,
    /// The cost of headings and of lines that count the rest, once computed: they are needed at each step.
    other_costs: RefCell<HashMap<String, u32>>,
    /// The length at which each line is shown, from the first line on.
    taken: Vec<usize>,
    /// Whether the entries are counted although none is shown.
    is_named: bool,
    /// The cost of the only line if it is cut below the shortest length.
    cut_off: Option<u32>,
}

impl<'t> FittedPart<'t> {
    fn new(part: Part, counter: &'t dyn Tokens) -> Self {
        let costs = part.candidates.iter().map(|_| Default::default()).collect();
        Self {
            part,
            counter,
            costs,
            other_costs: RefCell::default(),
            taken: Vec::new(),
            is_named: false,
            cut_off: None,
        }
    }

    fn is_empty(&self) -> bool {
        self.part.candidates.is_empty() && self.left() == 0
    }

    fn is_shown(&self) -> bool {
        !self.taken.is_empty() || self.is_named
    }

    /// The number of entries without a line.
    fn left(&self) -> u64 {
        let without_line = self.part.candidates[self.taken.len()..].iter().map(entries_of);
        let left = without_line.sum::<usize>() + self.part.beyond_limit.len();
        u64::try_from(left).unwrap_or(u64::MAX).saturating_add(self.part.beyond)
    }

    /// Whether one more line would show all that is left.
    fn lacks_one_line(&self) -> bool {
        let has_more = self.part.beyond > 0 || !self.part.beyond_limit.is_empty();
        !has_more && self.part.candidates.len() == self.taken.len() + 1
    }

    fn is_whole(&self) -> bool {
        self.left() == 0 && self.taken.iter().all(|length| *length == 0)
    }

    /// The cost of a line that is none of the candidates'.
    fn line_cost(&self, text: &str) -> u32 {
        if let Some(known) = self.other_costs.borrow().get(text) {
            return *known;
        }
        let cost = self.count_line(text);
        self.other_costs.borrow_mut().insert(text.to_owned(), cost);
        cost
    }

    fn count_line(&self, text: &str) -> u32 {
        self.counter.count(&format!("{text}\n"))
    }

    fn cost(&self, at: usize, length: usize) -> u32 {
        let known = &self.costs[at][length];
        known.get().unwrap_or_else(|| {
            let cost = self.count_line(&self.part.candidates[at].lengths[length]);
            known.set(Some(cost));
            cost
        })
    }

    /// The cost of the part's lines, without the heading of its group.
    fn cost_of_own(&self) -> u32 {
        if self.taken.is_empty() {
            return if self.is_named { self.name_cost() } else { 0 };
        }
        let lines = self.taken.iter().enumerate();
        let lines = lines.fold(self.heading_cost(), |sum, (at, length)| {
            sum.saturating_add(self.cost(at, *length))
        });
        let left = self.left();
        lines.saturating_add(if left > 0 { self.line_cost(&more(left)) } else { 0 })
    }

    fn heading_cost(&self) -> u32 {
        if self.part.heading.is_empty() {
            0
        } else {
            self.line_cost(self.part.heading)
        }
    }

    /// The cost of counting the entries without showing one.
    fn name_cost(&self) -> u32 {
        self.line_cost(&format!("{} {}", self.part.heading, more(self.left())))
    }

    /// What suffices to show the first line at its shortest, if there is a line.
    fn least(&self) -> Option<u32> {
        if self.part.candidates.is_empty() {
            return None;
        }
        let more_cost = self.line_cost(&more(self.left()));
        Some(
            self.heading_cost()
                .saturating_add(self.cost(0, 2))
                .saturating_add(more_cost),
        )
    }

    /// Like [`FittedPart::fill`], but for a part that shows something already and must not lose lines: given more room,
    /// `fill` may lengthen one line at the cost of others.
    fn refill(&mut self, allowed: u32) {
        self.grow(allowed, Growth::Any);
    }

    /// The same for what `how` says.
    fn grow(&mut self, allowed: u32, how: Growth) {
        let before = (self.taken.clone(), self.is_named);
        let (lengthened, lines) = match how {
            Growth::Any => (allowed, usize::MAX),
            Growth::MoreLines => (self.cost_of_own(), usize::MAX),
            Growth::Concerning => (allowed, self.part.concerning),
        };
        self.fill_lines(allowed, lengthened, lines);
        if self.taken.len() < before.0.len() || (self.taken.is_empty() && before.1) {
            (self.taken, self.is_named) = before;
        }
    }

    /// Shows as much as `allowed` permits, without the heading of its group.
    fn fill(&mut self, allowed: u32) {
        self.fill_lines(allowed, allowed, usize::MAX);
    }

    /// The same for the first `lines` lines, which are lengthened as far as `lengthened` permits.
    fn fill_lines(&mut self, allowed: u32, lengthened: u32, lines: usize) {
        (self.taken, self.is_named) = (Vec::new(), false);
        if self.is_empty() {
            return;
        }
        // If something is left out, a last line says so, which has its own cost.
        let more_cost = self.line_cost(&more(self.left()));
        let mut used_tokens = self.heading_cost().saturating_add(more_cost);
        for at in 0..self.part.candidates.len().min(lines) {
            let fitting_length = [1, 2]
                .into_iter()
                .find(|length| used_tokens.saturating_add(self.cost(at, *length)) <= allowed);
            let Some(length) = fitting_length else { break };
            used_tokens += self.cost(at, length);
            self.taken.push(length);
        }
        if self.left() == 0 {
            used_tokens -= more_cost;
        } else if self.lacks_one_line() && self.taken.len() < lines {
            // Only the cost of the line that counts the rest keeps the last line from fitting.
            let at = self.taken.len();
            let without_more = used_tokens - more_cost;
            let fitting_length = [1, 2]
                .into_iter()
                .find(|length| without_more.saturating_add(self.cost(at, *length)) <= allowed);
            if let Some(length) = fitting_length {
                used_tokens = without_more + self.cost(at, length);
                self.taken.push(length);
            }
        }
        for at in 0..self.taken.len() {
            for length in (0..self.taken[at]).rev() {
                let longer_cost = (used_tokens - self.cost(at, self.taken[at])).saturating_add(self.cost(at, length));
                if longer_cost > lengthened {
                    break;
                }
                used_tokens = longer_cost;
                self.taken[at] = length;
            }
        }
        self.is_named = self.taken.is_empty() && self.name_cost() <= allowed;
    }

    /// Drops the last line. If it was the only one, the part only counts its entries.
    fn drop_one(&mut self) {
        self.is_named = self.taken.pop().is_some() && self.taken.is_empty();
    }

    fn write(&self, text: &mut String, opens_group: bool) {
        if !self.is_shown() {
            return;
        }
        if opens_group {
            text.push_str(self.part.group);
            text.push('\n');
        }
        text.push_str(self.part.heading);
        if !self.part.heading.is_empty() {
            text.push(if self.taken.is_empty() { ' ' } else { '\n' });
        }
        for (candidate, length) in self.part.candidates.iter().zip(&self.taken) {
            text.push_str(&candidate.lengths[*length]);
            text.push('\n');
        }
        let left = self.left();
        if left > 0 {
            text.push_str(&more(left));
            text.push('\n');
        }
    }

    fn receipt(&self, opens_group: bool) -> SectionReceipt {
        let candidates = &self.part.candidates;
        let (mut shown, mut shortened, mut folded) = (Vec::new(), Vec::new(), Vec::new());
        for (candidate, length) in candidates.iter().zip(&self.taken) {
            let is_shorter = *length > 0 && candidate.lengths[*length] != candidate.lengths[0];
            let is_less = candidate.cut || is_shorter || self.cut_off.is_some();
            if is_less { &mut shortened } else { &mut shown }.push(candidate.name.clone());
            folded.extend(candidate.folded.iter().map(|name| Folded {
                name: name.clone(),
                into: candidate.name.clone(),
            }));
        }
        folded.extend(self.part.said_elsewhere.iter().cloned());
        let left_out = candidates[self.taken.len()..].iter();
        let names = left_out.flat_map(|candidate| std::iter::once(&candidate.name).chain(&candidate.folded));
        let omitted = |reason: &'static str| {
            move |name: &String| Omitted {
                name: name.clone(),
                reason: reason.to_owned(),
            }
        };
        let tokens = self.cut_off.unwrap_or_else(|| {
            let mut text = String::new();
            self.write(&mut text, opens_group);
            self.counter.count(&text)
        });
        SectionReceipt {
            section: self.part.section.clone(),
            share: self.part.share,
            reserved: self.part.reserved,
            tokens,
            shown,
            shortened,
            omitted: names
                .map(omitted("budget"))
                .chain(self.part.beyond_limit.iter().map(omitted("limit")))
                .chain(self.part.told.iter().map(omitted(TOLD)))
                .collect(),
            folded,
            beyond: self.part.beyond,
        }
    }
}

/// The number of entries that the line of `candidate` stands for.
fn entries_of(candidate: &Candidate) -> usize {
    1 + candidate.folded.len()
}

fn more(left: u64) -> String {
    format!("+{left} more")
}
