//! Which parts of a prompt get smaller, in which order, when the window has no room for all of them.

use super::sizes::Sizes;
use crate::talk::Purpose;

/// The fewest characters for all results together.
const RESULTS_MIN: usize = 400;
/// The share of the window that everything but the conversation may take when a model works with tools: the rest is for
/// what it calls, and a conversation is offloaded at 80 per cent.
const WORK_WINDOW_PERCENT: u64 = 66;

/// How much of each part a prompt holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Detail {
    /// The divisor of the room for results and answers.
    results: usize,
    /// Whether the tools are listed in addition to their definitions, if the policy wants it.
    pub(super) has_tool_list: bool,
    pub(super) memory: MemoryShown,
    /// Whether the scratchbook is shown.
    pub(super) has_book: bool,
}

/// How much of memory a prompt holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryShown {
    All,
    Half,
    Nothing,
}

impl Detail {
    /// Every part as large as its share of the window allows.
    pub(super) const FULL: Self = Self {
        results: 1,
        has_tool_list: true,
        memory: MemoryShown::All,
        has_book: true,
    };

    /// What is tried one after the other until the prompt for `purpose` fits.
    ///
    /// Whoever works can read with a tool what is shown of results only in part, so those get smaller first. Others
    /// have only what they read: for them, memory gets smaller first, and for whoever combines results only those get
    /// smaller that the task was given.
    pub(super) fn in_order(purpose: Purpose) -> impl Iterator<Item = Self> {
        let results = |results| Self { results, ..Self::FULL };
        let memory = |memory| Self { memory, ..Self::FULL };
        let (half, nothing) = (memory(MemoryShown::Half), memory(MemoryShown::Nothing));
        let unlisted = |detail| Self {
            results: 4,
            has_tool_list: false,
            ..detail
        };
        let smallest = Self {
            results: 8,
            has_book: false,
            ..unlisted(nothing)
        };
        let steps = match purpose {
            Purpose::Decide | Purpose::Work => vec![
                results(2),
                results(4),
                unlisted(Self::FULL),
                unlisted(half),
                unlisted(nothing),
                smallest,
            ],
            Purpose::Aggregate | Purpose::RollUp | Purpose::Replan | Purpose::Judge | Purpose::HandBack => {
                let less = |results| Self { results, ..nothing };
                vec![half, nothing, less(2), less(4), smallest]
            }
        };
        std::iter::once(Self::FULL).chain(steps)
    }

    /// The most characters of texts, of those that a model with enough room is shown.
    pub(super) fn of(self, full: Sizes) -> Sizes {
        Sizes {
            digests: (full.digests / self.results).max(RESULTS_MIN.min(full.digests)),
            answer: (full.answer / self.results).max(RESULTS_MIN.min(full.answer)),
            ..full
        }
    }
}

/// Whether a prompt of `tokens`, of which its conversation takes `talk`, leaves enough of `window` for whoever is asked
/// for `purpose`, whose answer needs at least `answer` tokens.
pub(super) fn leaves_room(purpose: Purpose, window: u32, tokens: u64, talk: u64, answer: u32) -> bool {
    let window = u64::from(window);
    if purpose == Purpose::Work {
        return tokens.saturating_sub(talk) <= window * WORK_WINDOW_PERCENT / 100;
    }
    tokens + u64::from(answer) <= window
}
