//! How much of what there is a model is shown.

/// Characters that a digest of a result always gets.
pub(super) const DIGEST_MIN: usize = 200;

/// Characters of texts that a model is shown at most, by the tokens of its window: what is longer is cut, with the way to the
/// rest. A small window has no place for what a large one has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Of one result's notes and output, for a later step; the rest is there for `result_read`.
    pub(super) digest: usize,
    /// Of all results together.
    pub(super) digests: usize,
    /// Of a tool's answer.
    pub(super) answer: usize,
}

impl Sizes {
    pub(super) fn of(window: u32) -> Self {
        let window = window as usize;
        Self {
            digest: (window / 12).clamp(200, 1_200),
            digests: (window * 3 / 4).clamp(1_000, 24_000),
            answer: (window * 3 / 8).clamp(400, 8_000),
        }
    }

    /// Of how many results there is room for the least that each gets.
    pub(super) fn results_max(self) -> usize {
        (self.digests / DIGEST_MIN).max(2)
    }

    /// Of all answers of people together.
    pub(super) fn answers(self) -> usize {
        self.digests / 3
    }
}

/// How much a result has to say, and how much that weighs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    pub(super) chars: usize,
    pub(super) weight: usize,
}

/// The parts of `total` that each of `needs` gets: what all get, and of the rest by weight what is needed beyond. No more than is
/// needed, and together no more than `total`, if that is enough for what all get.
pub(super) fn shares(needs: &[Need], total: usize) -> Vec<usize> {
    let floor = |need: &Need| need.chars.min(DIGEST_MIN);
    let rest = total.saturating_sub(needs.iter().map(floor).sum());
    let beyond = |need: &Need| (need.chars - floor(need)) * need.weight;
    let all: usize = needs.iter().map(beyond).sum();
    needs
        .iter()
        .map(|need| {
            let more = (beyond(need) * rest).checked_div(all).unwrap_or(0);
            (floor(need) + more).min(need.chars)
        })
        .collect()
}
