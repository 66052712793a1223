//! Whether somebody is there to answer what a run asks: the one place that decides it for a driver (E9.14).
//!
//! A run's first event says whether its submitter was there, or said that nobody answers. The engine is told the outcome
//! with the equipment of the run.

use folio_engine::Run;
use folio_engine::run::RunSummary;
use serde_json::{Value, json};

use crate::dispatch::Until;

/// The key of the first event that says that nobody answers, whoever drives the run.
const UNATTENDED: &str = "unattended";
/// The key that says that a person was there where the run was submitted.
const ATTENDED: &str = "attended";

/// Who is there when a run is submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attendance {
    /// Nobody answers, whoever drives the run: its submitter said so.
    Nobody,
    /// A person, who answers even if the run is driven without one.
    Person,
    /// Whoever is there where the run is driven.
    Driver,
}

impl Attendance {
    /// Adds it to what the first event of a run records.
    pub(crate) fn record(self, variable: &mut Value) {
        match self {
            Self::Nobody => variable[UNATTENDED] = json!(true),
            Self::Person => variable[ATTENDED] = json!(true),
            Self::Driver => {}
        }
    }

    /// What the first event of `run` records.
    pub(crate) fn of(run: &Run) -> Self {
        let says = |key: &str| run.variable().get(key).and_then(Value::as_bool) == Some(true);
        if says(UNATTENDED) {
            Self::Nobody
        } else if says(ATTENDED) {
            Self::Person
        } else {
            Self::Driver
        }
    }
}

impl Attendance {
    /// Whether a person answers what such a run asks; `asks`: whether it asks something already.
    fn has_person(self, asks: bool, has_person_here: bool, until: Until) -> bool {
        match self {
            Self::Nobody => false,
            Self::Person => has_person_here || until.leaves_questions_open(),
            // Without anybody, nothing is asked. Older versions recorded nothing of attended runs.
            Self::Driver => has_person_here || (asks && until.leaves_questions_open()),
        }
    }
}

/// Whether a person answers what `run` asks while it is driven here `until` something: one who is here
/// (`has_person_here`), or one who was there where the run was submitted, if the driver leaves questions to that person.
pub(crate) fn has_person(run: &Run, has_person_here: bool, until: Until) -> bool {
    Attendance::of(run).has_person(run.count_requests() > 0, has_person_here, until)
}

/// Whether a run in this state waits for a person while none is here.
pub(crate) fn waits_for_nobody(summary: &RunSummary, has_person_here: bool) -> bool {
    summary.asks > 0 && !has_person_here
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn recorded_attendance_has_one_key_or_none() {
        for (attendance, expected) in [
            (Attendance::Nobody, json!({"unattended": true})),
            (Attendance::Person, json!({"attended": true})),
            (Attendance::Driver, json!({})),
        ] {
            let mut variable = json!({});
            attendance.record(&mut variable);
            assert_eq!(variable, expected);
        }
    }

    #[test]
    fn questions_of_a_run_that_recorded_nothing_of_attendance_stay_open_e9_14() {
        let asked = Until::Asked(Duration::from_secs(1));
        for (attendance, asks, until, expected) in [
            (Attendance::Driver, true, asked, true),
            (Attendance::Driver, true, Until::Ended, false),
            (Attendance::Driver, false, asked, false),
            (Attendance::Nobody, true, asked, false),
            (Attendance::Person, false, asked, true),
        ] {
            let has_person = attendance.has_person(asks, false, until);
            assert_eq!(has_person, expected, "{attendance:?} {asks} {until:?}");
        }
    }

    #[test]
    fn run_waits_for_nobody_only_while_it_asks_something_and_no_person_is_here() {
        for (asks, has_person, expected) in [(0, false, false), (1, false, true), (1, true, false)] {
            let summary = RunSummary {
                asks,
                ..RunSummary::default()
            };
            assert_eq!(waits_for_nobody(&summary, has_person), expected);
        }
    }
}
