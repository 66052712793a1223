//! How often stated confidences came true (M7.11.6). The results are shown and used by the router, but never change a
//! stored confidence.
//!
//! The confidence that counts is the one with which an observation was added: whoever states another one later knows
//! more than the tool or the person knew whose claim it was.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::entry::{Confidence, Entry, Outcome, State, Status};

/// The number of bins of a reliability table, each a tenth of the range.
const BINS: usize = 10;
/// The number of marks from which a bin is meaningful.
const MEANINGFUL_MARKS_MIN: u64 = 5;

/// The observations whose stated confidence is in one range, and their marks.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct Bin {
    /// The start of the range, which is a tenth wide.
    pub from: f64,
    /// The number of marked observations.
    pub marked: u64,
    /// The number of confirmed observations.
    pub confirmed: u64,
    /// The mean of the stated confidences.
    pub mean_stated: f64,
    /// The share of marked observations that were confirmed.
    pub share_confirmed: f64,
}

/// The reliability of the observations of one type by one tool.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Reliability {
    /// The tool; `None` for observations by people and roles.
    pub tool: Option<String>,
    /// The observation type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The number of confirmed observations.
    pub confirmed: u64,
    /// The number of refuted observations.
    pub refuted: u64,
    /// The Brier score: the mean squared difference between the stated confidence and 1 for confirmed or 0 for refuted.
    /// 0 is perfect; always stating 0.5 scores 0.25.
    pub brier: f64,
    /// The mean of the stated confidences.
    pub mean_stated: f64,
    /// The reliability table: the ranges with marked observations.
    pub bins: Vec<Bin>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Sums {
    confirmed: u64,
    refuted: u64,
    squares: f64,
    stated: f64,
    bins: [(u64, u64, f64); BINS],
}

/// How often stated confidences came true, by tool and type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibration {
    rows: BTreeMap<(Option<String>, String), Sums>,
}

impl Calibration {
    /// Counts the marks of `entries`, each with the confidence that it was [added with](needs_first_confidence), as far
    /// as that differs from the one that it has. An entry without a mark or a confidence does not count.
    pub fn of<'e>(entries: impl IntoIterator<Item = (&'e Entry, Option<Confidence>)>) -> Self {
        let mut calibration = Self::default();
        entries
            .into_iter()
            .for_each(|(entry, first)| calibration.add(entry, first));
        calibration
    }

    fn add(&mut self, entry: &Entry, first: Option<Confidence>) {
        let fields = &entry.fields;
        if !is_marked(entry) {
            return;
        }
        let (Some(outcome), Some(confidence), Some(type_name)) = (fields.outcome, fields.confidence, &fields.type_name)
        else {
            return;
        };
        let stated = first.unwrap_or(confidence).value();
        let row = self
            .rows
            .entry((fields.source.tool.clone(), type_name.clone()))
            .or_default();
        let outcome_value = match outcome {
            Outcome::Confirmed => 1.0,
            Outcome::Refuted => 0.0,
        };
        let bin = &mut row.bins[bin_of(stated)];
        if outcome == Outcome::Confirmed {
            row.confirmed += 1;
            bin.1 += 1;
        } else {
            row.refuted += 1;
        }
        bin.0 += 1;
        bin.2 += stated;
        row.squares += (stated - outcome_value).powi(2);
        row.stated += stated;
    }

    /// One row for each tool and type, sorted by both.
    #[must_use]
    pub fn rows(&self) -> Vec<Reliability> {
        let rows = self.rows.iter().map(|((tool, type_name), sums)| {
            let marked = count(sums.confirmed + sums.refuted);
            let bins = sums.bins.iter().enumerate().filter(|(_, bin)| bin.0 > 0);
            Reliability {
                tool: tool.clone(),
                type_name: type_name.clone(),
                confirmed: sums.confirmed,
                refuted: sums.refuted,
                brier: sums.squares / marked,
                mean_stated: sums.stated / marked,
                bins: bins
                    .map(|(index, (marked, confirmed, stated_sum))| Bin {
                        from: f64::from(u32::try_from(index).unwrap_or(0)) / 10.0,
                        marked: *marked,
                        confirmed: *confirmed,
                        mean_stated: stated_sum / count(*marked),
                        share_confirmed: count(*confirmed) / count(*marked),
                    })
                    .collect(),
            }
        });
        rows.collect()
    }

    /// The share of observations with such a confidence that came true, if enough of them were marked.
    #[must_use]
    pub fn expected(&self, tool: Option<&str>, type_name: Option<&str>, stated: f64) -> Option<f64> {
        let key = (tool.map(str::to_owned), type_name?.to_owned());
        let (marked, confirmed, _) = self.rows.get(&key)?.bins[bin_of(stated)];
        (marked >= MEANINGFUL_MARKS_MIN).then(|| count(confirmed) / count(marked))
    }
}

/// Whether the mark of `entry` counts. An entry that became live again after it was marked does not.
fn is_marked(entry: &Entry) -> bool {
    let fields = &entry.fields;
    let is_live_again = fields.status.state() == State::Live && fields.superseded_by.is_none();
    fields.outcome.is_some() && fields.confidence.is_some() && !is_live_again
}

/// Whether the mark of `entry` counts and its confidence may be another one than when it was added, so that its first
/// version has to be looked up. An entry that was added, marked and archived has no other versions.
#[must_use]
pub fn needs_first_confidence(entry: &Entry) -> bool {
    let is_archived = entry.fields.status == Status::Archived;
    is_marked(entry) && entry.version > 2 + u32::from(is_archived)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a confidence is from 0 to 1, so its tenfold is a small number"
)]
fn bin_of(stated: f64) -> usize {
    ((stated * 10.0) as usize).min(BINS - 1)
}

#[expect(clippy::cast_precision_loss, reason = "nobody marks 2^52 observations")]
fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn_testing::observation;

    fn marked(stated: f64, outcome: Outcome) -> Entry {
        let mut entry = observation(1, "risk_alert", "x").confidence(stated).build();
        entry.fields.source.tool = Some("scan".to_owned());
        (entry.fields.outcome, entry.fields.status) = (Some(outcome), Status::Resolved);
        entry
    }

    fn calibration_of<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Calibration {
        Calibration::of(entries.into_iter().map(|entry| (entry, None)))
    }

    #[test]
    fn confidence_that_an_observation_was_added_with_counts_m7_11_6() {
        let mut lowered = marked(0.1, Outcome::Refuted);
        let first = Some(Confidence::clamped(0.9).0);
        let row = &Calibration::of([(&lowered, first)]).rows()[0];
        assert!((row.mean_stated - 0.9).abs() < 1e-9 && (row.brier - 0.81).abs() < 1e-9);
        // Added, marked and archived: nothing else can have changed.
        let mut needs = |version, status| {
            (lowered.version, lowered.fields.status) = (version, status);
            needs_first_confidence(&lowered)
        };
        assert!(!needs(2, Status::Resolved) && !needs(3, Status::Archived));
        assert!(needs(3, Status::Resolved) && needs(4, Status::Archived));
        assert!(
            !needs(9, Status::Active),
            "it is live again, so its mark does not count"
        );
    }

    #[test]
    fn calibration_computes_brier_score_and_bins_by_tool_and_type_m7_11_6() {
        let entries = [
            marked(0.9, Outcome::Confirmed),
            marked(0.9, Outcome::Refuted),
            marked(0.5, Outcome::Confirmed),
            observation(2, "risk_alert", "not marked").build(),
        ];
        let rows = calibration_of(&entries).rows();
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((row.confirmed, row.refuted), (2, 1));
        assert!((row.brier - (0.01 + 0.81 + 0.25) / 3.0).abs() < 1e-9);
        let table: Vec<_> = row.bins.iter().map(|bin| (bin.marked, bin.confirmed)).collect();
        assert_eq!(table, [(1, 1), (2, 1)]);
        assert!((row.bins[1].share_confirmed - 0.5).abs() < 1e-9);
    }

    #[test]
    fn outcome_of_a_reopened_observation_is_not_counted_m7_11_6() {
        let mut reopened = marked(0.9, Outcome::Refuted);
        reopened.fields.status = Status::Active;
        assert_eq!(calibration_of([&reopened]), Calibration::default());
        reopened.fields.superseded_by = Some(reopened.id);
        assert_eq!(calibration_of([&reopened]).rows().len(), 1);
    }

    #[test]
    fn calibration_expects_nothing_from_fewer_than_five_outcomes_m7_11_6() {
        let some: Vec<_> = (0..4).map(|_| marked(0.9, Outcome::Refuted)).collect();
        let calibration = calibration_of(&some);
        assert_eq!(calibration.expected(Some("scan"), Some("risk_alert"), 0.9), None);
        let more: Vec<_> = (0..5).map(|_| marked(0.9, Outcome::Refuted)).collect();
        let calibration = calibration_of(&more);
        assert_eq!(calibration.expected(Some("scan"), Some("risk_alert"), 0.95), Some(0.0));
        assert_eq!(calibration.expected(None, Some("risk_alert"), 0.9), None);
    }
}
