//! What planners are told of the pages of their run (seed 000, "Prompting Changes").

use super::rollup::{Fitted, PageLines, Standing, fit, unabridged};
use crate::tokens::Tokens;

const PLANNER: &str = "If assigning executor tasks, ensure each has a linked executor scratchpad. Do not repeat identical \
                       actions; update plan and branch notes.\n";

/// Per cent of a planner's room that the main scratchpad has before the branches.
const MAIN_SHARE: u64 = 40;

/// What a planner is told: the tail of the main scratchpad, what each executor's scratchpad has come to, and what to mind.
///
/// Pages have their handles, entries do not: what a step wrote is told before it stands in the log. Within `budget` tokens; nothing if even the
/// frame does not fit. What failed comes first, then what runs, then what ended well, the last first. The same pages give the same bytes.
///
/// `more` executors' scratchpads are not among `executors`: they are counted in a line.
#[must_use]
pub fn planner_block(
    main: &PageLines,
    executors: &[PageLines],
    more: &Standing,
    budget: u32,
    tokens: &dyn Tokens,
) -> String {
    let rest = match more.count() {
        0 => String::new(),
        count => format!(
            "and {count} more, which ended well or longer ago ({})\n",
            more.in_words()
        ),
    };
    let block = |main: &str, executors: &str| {
        let executors = if executors.is_empty() { "none yet\n" } else { executors };
        format!("Main scratchpad:\n{main}Executor scratchpads:\n{executors}{rest}{PLANNER}")
    };
    // Those come first that somebody has to know of first, whether or not there is room for all of them (E9.16).
    let mut executors = executors.to_vec();
    executors.sort_by_key(PageLines::turn);
    // Most runs have few pages: then there is nothing to choose.
    let whole = block(&unabridged(std::slice::from_ref(main)), &unabridged(&executors));
    if tokens.count(&whole) <= budget {
        return whole;
    }
    fitted(budget, tokens, |room| {
        let share = u32::try_from(u64::from(room) * MAIN_SHARE / 100).unwrap_or(u32::MAX);
        let Fitted {
            text: tail,
            tokens: used,
            ..
        } = fit(std::slice::from_ref(main), share, tokens);
        block(&tail, &fit(&executors, room.saturating_sub(used), tokens).text)
    })
}

/// The text that `made` makes of as much room as `budget` tokens leave.
fn fitted(budget: u32, tokens: &dyn Tokens, made: impl Fn(u32) -> String) -> String {
    let frame = tokens.count(&made(0));
    if frame > budget {
        return String::new();
    }
    let mut room = budget - frame;
    loop {
        let text = made(room);
        let over = tokens.count(&text).saturating_sub(budget);
        if over == 0 {
            return text;
        }
        // Parts cost less than the whole now and then; without any room the frame is left, which fits.
        room = room.saturating_sub(over);
    }
}
