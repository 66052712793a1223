//! The text that tells planners about the pages of their run (seed 000, "Prompting Changes").

use super::rollup::{Fitted, PageCounts, PageLines, fit, unabridged};
use crate::tokens::Tokens;

/// The share of the planner's room, in percent, that the main scratchpad gets before the branches.
const MAIN_SHARE: u64 = 40;

/// The block for a planner: the tail of the main scratchpad, and the results so far of each executor's scratchpad. What
/// a planner is to do with them is in its instructions, not in this block of data.
///
/// Pages are named by their handles, but entries are not: what a step wrote is shown before it is in the log. The block
/// fits into `budget` tokens, and is empty if not even its frame does. Failed work comes first, then running work, then
/// work that ended well, latest first. The same pages give the same bytes.
///
/// A line counts `more_pages` executors' scratchpads, which are not in `executors`.
#[must_use]
pub fn planner_block(
    main: &PageLines,
    executors: &[PageLines],
    more_pages: &PageCounts,
    budget: u32,
    tokens: &dyn Tokens,
) -> String {
    let rest = match more_pages.count() {
        0 => String::new(),
        count => format!(
            "and {count} more, which ended well or longer ago ({})\n",
            more_pages.in_words()
        ),
    };
    let block = |main: &str, executors: &str| {
        let executors = if executors.is_empty() { "none yet\n" } else { executors };
        format!("Main scratchpad:\n{main}Executor scratchpads:\n{executors}{rest}")
    };
    // What the planner has to know first comes first, whether or not everything fits (E9.16).
    let mut executors = executors.to_vec();
    executors.sort_by_key(PageLines::order_key);
    let in_order: Vec<usize> = (0..executors.len()).collect();
    // Most runs have few pages, so nothing has to be selected.
    let full_block = block(&unabridged(std::slice::from_ref(main)), &unabridged(&executors));
    if tokens.count(&full_block) <= budget {
        return full_block;
    }
    fitted(budget, tokens, |available| {
        let share = u32::try_from(u64::from(available) * MAIN_SHARE / 100).unwrap_or(u32::MAX);
        let Fitted {
            text: tail,
            tokens: used_tokens,
            ..
        } = fit(std::slice::from_ref(main), &[0], share, tokens);
        block(
            &tail,
            &fit(&executors, &in_order, available.saturating_sub(used_tokens), tokens).text,
        )
    })
}

/// The text that `render` produces from the room that its frame leaves of `budget` tokens.
fn fitted(budget: u32, tokens: &dyn Tokens, render: impl Fn(u32) -> String) -> String {
    let frame_tokens = tokens.count(&render(0));
    if frame_tokens > budget {
        return String::new();
    }
    let mut available = budget - frame_tokens;
    loop {
        let text = render(available);
        let excess = tokens.count(&text).saturating_sub(budget);
        if excess == 0 {
            return text;
        }
        // Parts may cost less than the whole; without any room only the frame remains, which fits.
        available = available.saturating_sub(excess);
    }
}
