//! How much of the available text a model is shown.

use std::fmt::Display;

/// What a text that was cut says of what is left out, after the number of characters.
const LEFT_OUT: &str = " characters left out";
/// How to read that, before the id of the whole text.
pub(super) const READ_ON: &str = "use result_read node=";

/// The characters that a digest of a result always gets.
pub(super) const DIGEST_MIN: usize = 200;

/// The most characters of texts that a model is shown, by the tokens of its window: longer texts are cut, with a hint
/// at how to read the rest. A small window has no room for what a large one has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// For the notes and output of one result, for a later step; the rest can be read with `result_read`.
    pub(super) digest: usize,
    /// For all results together.
    pub(super) digests: usize,
    /// For the answer of a tool.
    pub(super) answer: usize,
    /// Whether the reader can call the tool that gives the rest.
    pub(super) can_read: bool,
}

impl Sizes {
    pub(super) fn of(window: u32) -> Self {
        let window = window as usize;
        Self {
            digest: (window / 12).clamp(200, 1_200),
            digests: (window * 3 / 4).clamp(1_000, 24_000),
            answer: (window * 3 / 8).clamp(400, 8_000),
            can_read: true,
        }
    }

    /// The same for a reader that cannot call tools. If it `is_long`, it sees as much of each result as there is room
    /// for, because it cannot read the rest.
    pub(super) fn without_tools(self, is_long: bool) -> Self {
        Self {
            digest: if is_long {
                self.answer.max(self.digest)
            } else {
                self.digest
            },
            can_read: false,
            ..self
        }
    }

    /// How the rest of the result `id` is read; empty if the reader cannot read it.
    pub(super) fn rest_of(self, id: impl Display) -> String {
        if self.can_read {
            format!("{READ_ON}{id}")
        } else {
            String::new()
        }
    }

    /// `text`, in which earlier results may say how their rest is read, as this reader reads it: not so if it cannot.
    pub(super) fn without_hints(self, text: String) -> String {
        let hint = format!("{LEFT_OUT}; {READ_ON}");
        if self.can_read || !text.contains(&hint) {
            return text;
        }
        let mut parts = text.split(&hint);
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            out.push_str(LEFT_OUT);
            out.push_str(part.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')));
        }
        out
    }

    /// `hint`, which names a tool, if the reader can call it.
    pub(super) fn hint(self, hint: &str) -> &str {
        if self.can_read { hint } else { "" }
    }

    /// The number of results for which there is room if each gets the minimum.
    pub(super) fn results_max(self) -> usize {
        (self.digests / DIGEST_MIN).max(2)
    }

    /// For all answers of people together.
    pub(super) fn answers(self) -> usize {
        self.digests / 3
    }
}

/// How much a result has to say, and with which weight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    pub(super) chars: usize,
    pub(super) weight: usize,
}

/// The part of `total` that each of `needs` gets: the minimum for all, and the rest by weight for what is needed
/// beyond. No part is more than needed, and together they are no more than `total`, if that suffices for the minimum of
/// all.
pub(super) fn shares(needs: &[Need], total: usize) -> Vec<usize> {
    let floor = |need: &Need| need.chars.min(DIGEST_MIN);
    let rest = total.saturating_sub(needs.iter().map(floor).sum());
    let weighted_demand = |need: &Need| (need.chars - floor(need)) * need.weight;
    let all: usize = needs.iter().map(weighted_demand).sum();
    needs
        .iter()
        .map(|need| {
            let extra = (weighted_demand(need) * rest).checked_div(all).unwrap_or(0);
            (floor(need) + extra).min(need.chars)
        })
        .collect()
}
