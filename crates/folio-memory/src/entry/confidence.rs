//! The confidence of an observation.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::warning::Warning;

/// A degree of belief from 0 to 1, stored as it was given (M7.3.21) and never changed in place.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Confidence(f64);

/// Formats `number` as JSON: a whole number without a decimal point, and one that is not finite, which JSON cannot
/// express, as text.
fn shown(number: f64) -> Value {
    let text = number.to_string();
    text.parse::<Number>().map_or_else(|_| text.into(), Value::Number)
}

/// A hundredth of `percent`, without the noise of a division in binary.
fn hundredth(percent: f64) -> f64 {
    let plain = format!("{percent}e-2").parse();
    plain.unwrap_or(percent / 100.0)
}

impl Confidence {
    /// The confidence that is assumed if none is given.
    pub const DEFAULT: Self = Self(0.5);

    /// Clamps `raw` to the range: below 0 becomes 0, above 1 becomes 1, and a value that is not finite becomes the
    /// default. Returns a warning if it did.
    #[must_use]
    pub fn clamped(raw: f64) -> (Self, Option<Warning>) {
        let warn = |code, corrected: Self| {
            let mut message = "confidence must be a number from 0 to 1".to_owned();
            // What models write who mean percent.
            if raw > 1.0 && raw <= 100.0 {
                message.push_str(&format!("; write {raw} percent as {}", hundredth(raw)));
            }
            (
                corrected,
                Some(Warning::new(code, message, shown(raw), shown(corrected.0))),
            )
        };
        if !raw.is_finite() {
            warn("confidence_not_finite", Self::DEFAULT)
        } else if raw < 0.0 {
            warn("confidence_clamped", Self(0.0))
        } else if raw > 1.0 {
            warn("confidence_clamped", Self(1.0))
        } else {
            // Adding zero turns -0.0 into 0.0.
            (Self(raw + 0.0), None)
        }
    }

    /// Parses the three words that some tools use instead of a number, ignoring case.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        match word.trim().to_ascii_lowercase().as_str() {
            "low" => Some(Self(0.3)),
            "medium" => Some(Self(0.6)),
            "high" => Some(Self(0.9)),
            _ => None,
        }
    }

    /// The confidence as a number.
    #[must_use]
    pub fn value(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: f64, used: f64, code: Option<&str>) {
        let (confidence, warning) = Confidence::clamped(raw);
        assert!(
            (confidence.value() - used).abs() < f64::EPSILON,
            "{raw} became {}",
            confidence.value()
        );
        assert_eq!(warning.map(|w| w.code), code.map(str::to_owned));
    }

    #[test]
    fn out_of_range_confidence_is_clamped_with_a_warning_m7_3_21() {
        check(0.0, 0.0, None);
        check(1.0, 1.0, None);
        check(0.123_456_789, 0.123_456_789, None);
        check(-0.1, 0.0, Some("confidence_clamped"));
        check(1.5, 1.0, Some("confidence_clamped"));
        check(f64::NAN, 0.5, Some("confidence_not_finite"));
        check(f64::INFINITY, 0.5, Some("confidence_not_finite"));
        assert!(Confidence::clamped(-0.0).0.value().is_sign_positive());
    }

    #[test]
    fn warning_about_a_percentage_says_what_to_write_m7_3_21() {
        let told = |raw| Confidence::clamped(raw).1.map(|warning| warning.message);
        let said = |hint: &str| Some(format!("confidence must be a number from 0 to 1{hint}"));
        assert_eq!(told(90.0), said("; write 90 percent as 0.9"));
        assert_eq!(told(29.0), said("; write 29 percent as 0.29"));
        assert_eq!(told(100.0), said("; write 100 percent as 1"));
        assert_eq!([told(101.0), told(-0.1), told(1.0)], [said(""), said(""), None]);
    }

    #[test]
    fn confidence_words_map_to_fixed_values_m7_3_21() {
        let of = |word| Confidence::from_word(word).map(Confidence::value);
        let all = ["low", "medium", "high", " HIGH", "sure"].map(of);
        assert_eq!(all, [Some(0.3), Some(0.6), Some(0.9), Some(0.9), None]);
    }
}
