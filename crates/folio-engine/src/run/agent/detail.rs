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
    /// Whether a reader without tools, who cannot read the rest, sees more of a single result than others.
    pub(super) is_long: bool,
    /// Whether such a reader is told what the task was given, besides what came of it.
    pub(super) has_given: bool,
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
    const FULL: Self = Self {
        results: 1,
        is_long: true,
        has_given: true,
        has_tool_list: true,
        memory: MemoryShown::All,
        has_book: true,
    };

    /// What is tried one after the other until the prompt for `purpose` fits.
    ///
    /// Whoever works can read with a tool what is shown of results only in part, so those get smaller first. Others
    /// have only what they read: for them, memory gets smaller first, then what the task was given, and last what came
    /// of it.
    pub(super) fn in_order(purpose: Purpose) -> &'static [Self] {
        match purpose {
            Purpose::Decide | Purpose::Work => &Self::WITH_TOOLS,
            Purpose::Aggregate | Purpose::RollUp | Purpose::Replan | Purpose::Judge | Purpose::HandBack => {
                &Self::WITHOUT_TOOLS
            }
        }
    }

    const fn results(self, results: usize) -> Self {
        Self { results, ..self }
    }

    const fn memory(self, memory: MemoryShown) -> Self {
        Self { memory, ..self }
    }

    const UNLISTED: Self = Self {
        has_tool_list: false,
        ..Self::FULL.results(4)
    };

    const WITH_TOOLS: [Self; 7] = [
        Self::FULL,
        Self::FULL.results(2),
        Self::FULL.results(4),
        Self::UNLISTED,
        Self::UNLISTED.memory(MemoryShown::Half),
        Self::UNLISTED.memory(MemoryShown::Nothing),
        Self {
            has_book: false,
            ..Self::UNLISTED.memory(MemoryShown::Nothing).results(8)
        },
    ];

    const WITHOUT_MEMORY: Self = Self::FULL.memory(MemoryShown::Nothing);

    const WITHOUT_GIVEN: Self = Self {
        is_long: false,
        has_given: false,
        ..Self::WITHOUT_MEMORY
    };

    const WITHOUT_TOOLS: [Self; 7] = [
        Self::FULL,
        Self::FULL.memory(MemoryShown::Half),
        Self::WITHOUT_MEMORY,
        Self::WITHOUT_MEMORY.results(2),
        Self::WITHOUT_GIVEN,
        Self::WITHOUT_GIVEN.results(4),
        Self {
            has_book: false,
            ..Self::WITHOUT_GIVEN.results(8)
        },
    ];

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
