//! How often stated confidences came true (M7.11.6). The results are shown and used by the router, but never change a
//! stored confidence.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::entry::{Entry, Outcome, State};

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
    /// Counts the marks of `entries`. An entry without a mark or a confidence does not count.
    pub fn of<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Self {
        let mut calibration = Self::default();
        entries.into_iter().for_each(|entry| calibration.add(entry));
        calibration
    }

    /// Counts the mark of `entry`, if it has one. An entry that became live again after it was marked does not count.
    pub fn add(&mut self, entry: &Entry) {
        let fields = &entry.fields;
        if fields.status.state() == State::Live && fields.superseded_by.is_none() {
            return;
        }
        let (Some(outcome), Some(confidence), Some(type_name)) = (fields.outcome, fields.confidence, &fields.type_name)
        else {
            return;
        };
        let stated = confidence.value();
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
    use crate::entry::Status;
    use crate::turn_testing::observation;

    fn marked(stated: f64, outcome: Outcome) -> Entry {
        let mut entry = observation(1, "risk_alert", "x").confidence(stated).build();
        entry.fields.source.tool = Some("scan".to_owned());
        (entry.fields.outcome, entry.fields.status) = (Some(outcome), Status::Resolved);
        entry
    }

    #[test]
    fn calibration_computes_brier_score_and_bins_by_tool_and_type_m7_11_6() {
        let entries = [
            marked(0.9, Outcome::Confirmed),
            marked(0.9, Outcome::Refuted),
            marked(0.5, Outcome::Confirmed),
            observation(2, "risk_alert", "not marked").build(),
        ];
        let rows = Calibration::of(&entries).rows();
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
        assert_eq!(Calibration::of([&reopened]), Calibration::default());
        reopened.fields.superseded_by = Some(reopened.id);
        assert_eq!(Calibration::of([&reopened]).rows().len(), 1);
    }

    #[test]
    fn calibration_expects_nothing_from_fewer_than_five_outcomes_m7_11_6() {
        let some: Vec<_> = (0..4).map(|_| marked(0.9, Outcome::Refuted)).collect();
        let calibration = Calibration::of(&some);
        assert_eq!(calibration.expected(Some("scan"), Some("risk_alert"), 0.9), None);
        let more: Vec<_> = (0..5).map(|_| marked(0.9, Outcome::Refuted)).collect();
        let calibration = Calibration::of(&more);
        assert_eq!(calibration.expected(Some("scan"), Some("risk_alert"), 0.95), Some(0.0));
        assert_eq!(calibration.expected(None, Some("risk_alert"), 0.9), None);
    }
}
