//! The router: how urgent an input is (M7.11.2), judged by what seed 004 has the router ask the scratch page.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::decision::{Decision, Stage, Used};
use super::words::{common, subjects, subjects_of};
use crate::actor::Trust;
use crate::calibration::Calibration;
use crate::entry::{Entry, State};
use crate::observation::{Class, TypeRegistry, by_priority};
use crate::time::Timestamp;

/// The confidence from which an alert makes an input that it matches critical.
const CRITICAL_FROM: f64 = 0.8;

/// Words by which an input itself says that it is urgent.
const URGENT: &[&str] = &[
    "asap",
    "critical",
    "dringend",
    "emergency",
    "immediately",
    "sofort",
    "urgent",
    "urgently",
];

/// How urgent an input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// The input can wait: work in the background.
    Low,
    /// An ordinary input.
    Normal,
    /// The input comes before others.
    High,
    /// The input comes before everything else, and needs care.
    Critical,
}

impl Urgency {
    /// The name in its written form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    fn raised(self) -> Self {
        match self {
            Self::Low => Self::Normal,
            Self::Normal => Self::High,
            Self::High | Self::Critical => Self::Critical,
        }
    }
}

impl fmt::Display for Urgency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The input of the stages before the work.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// The input in its writer's words.
    pub input: &'a str,
    /// Whether nobody waits for the answer.
    pub background: bool,
    /// The live observations and all other live entries, in any order.
    pub active: &'a [Entry],
    /// The types that the space knows.
    pub types: &'a TypeRegistry,
    /// How often stated confidences proved right.
    pub calibration: &'a Calibration,
    /// The current instant.
    pub now: Timestamp,
}

impl<'a> Situation<'a> {
    /// The live entries of `class`, most important first.
    pub(super) fn of_class(&self, class: Class) -> Vec<&'a Entry> {
        let mut found: Vec<_> = self
            .active
            .iter()
            .filter(|entry| entry.fields.type_name.is_some())
            .filter(|entry| self.types.class_of(entry.fields.type_name.as_deref()) == class)
            .filter(|entry| entry.state(self.now) == State::Live)
            .collect();
        found.sort_by(|a, b| by_priority(self.types, a, b));
        found
    }
}

/// The router's assessment of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// How urgent the input is.
    pub urgency: Urgency,
    /// Why the urgency differs from the default.
    pub reasons: Vec<String>,
    /// The entries that raised the urgency.
    pub used: Vec<Used>,
}

impl Assessment {
    /// The assessment as a recorded decision.
    #[must_use]
    pub fn decision(&self) -> Decision {
        Decision::new(
            Stage::Router,
            self.urgency.as_str(),
            self.reasons.clone(),
            self.used.clone(),
        )
    }
}

/// The interface of the router. Rules are the default; [`Stages`](super::Stages) may replace them.
pub trait Router: fmt::Debug + Send + Sync {
    /// Assesses how urgent the input of `situation` is.
    fn assess(&self, situation: &Situation<'_>) -> Assessment;
}

/// The router without a model.
///
/// A live alert that matches the input by tags or context makes the input high, or critical if its confidence is at
/// least 0.8 and it does not come from strangers. An alert without tags or context that say what it is about concerns
/// every input. Outstanding confirmations raise the urgency by one step.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleRouter;

impl Router for RuleRouter {
    fn assess(&self, situation: &Situation<'_>) -> Assessment {
        let mut urgency = if situation.background {
            Urgency::Low
        } else {
            Urgency::Normal
        };
        let (mut reasons, mut used) = (Vec::new(), Vec::new());
        let input_subjects = subjects(situation.input);
        for alert in situation.of_class(Class::Alert) {
            let Some((alert_urgency, reason)) = by_alert(situation, alert, &input_subjects) else {
                continue;
            };
            urgency = urgency.max(alert_urgency);
            reasons.push(reason);
            used.push(Used::of(alert));
        }
        let waiting = situation.of_class(Class::PendingConfirmation);
        if !waiting.is_empty() {
            urgency = urgency.max(urgency.raised().min(Urgency::High));
            let handles: Vec<_> = waiting.iter().map(|entry| entry.handle.to_string()).collect();
            reasons.push(format!("a confirmation is waited for: {}", handles.join(", ")));
            used.extend(waiting.into_iter().map(Used::of));
        }
        let lower = situation.input.to_lowercase();
        let urgent_word = lower
            .split(|c: char| !c.is_alphanumeric())
            .find(|word| URGENT.contains(word));
        if let Some(word) = urgent_word {
            urgency = urgency.max(Urgency::High);
            reasons.push(format!("the input says {word:?}"));
        }
        Assessment { urgency, reasons, used }
    }
}

fn by_alert(
    situation: &Situation<'_>,
    alert: &Entry,
    input_subjects: &std::collections::BTreeSet<String>,
) -> Option<(Urgency, String)> {
    let fields = &alert.fields;
    let name = fields.type_name.as_deref().unwrap_or_default();
    let alert_subjects = subjects_of(alert);
    if alert_subjects.is_empty() {
        let reason = format!(
            "{} {name} does not say what it is about, so it concerns everything",
            alert.handle
        );
        return Some((Urgency::High, reason));
    }
    let shared = common(input_subjects, &alert_subjects);
    if shared.is_empty() {
        return None;
    }
    let stated_confidence = fields.confidence.map_or(0.0, |confidence| confidence.value());
    let confirmed_share = situation.calibration.expected(
        fields.source.tool.as_deref(),
        fields.type_name.as_deref(),
        stated_confidence,
    );
    let likelihood = confirmed_share.unwrap_or(stated_confidence);
    let from_strangers = matches!(fields.trust, Trust::Imported | Trust::ToolExternal);
    let urgency = if likelihood >= CRITICAL_FROM && !from_strangers {
        Urgency::Critical
    } else {
        Urgency::High
    };
    let mut reason = format!(
        "{} {name} ({stated_confidence}) matches the input by {}",
        alert.handle,
        shared.join(", ")
    );
    if let Some(share) = confirmed_share {
        reason.push_str(&format!(
            "; such confidences came true in {:.0} of 100 cases",
            share * 100.0
        ));
    }
    Some((urgency, reason))
}
