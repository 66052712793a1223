//! Durations as people write them: `30s`, `500ms`, `1h30m`, or a number of seconds.

use std::time::Duration;

use serde::Serializer;

const UNITS_MS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// The longest duration in a plan: ten years. It keeps every sum of durations far from overflow.
const LONGEST_MS: u64 = 10 * 365 * 86_400_000;

/// Reads `30s`, `500ms`, `5m`, `2h`, `1d`, a sequence of them (`1h30m`), or a bare number of seconds.
///
/// A fraction is accepted if it comes to whole milliseconds. Returns `None` for everything else.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return from_seconds(seconds);
    }
    let mut rest = text;
    let mut total_ms = 0_u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let (_, unit_ms) = UNITS_MS.iter().find(|(name, _)| *name == unit)?;
        #[expect(clippy::cast_precision_loss, reason = "a day in milliseconds is far below 2^52")]
        let part = whole_ms(number.parse::<f64>().ok()? * *unit_ms as f64)?;
        total_ms = total_ms.checked_add(part)?;
        rest = tail.trim_start();
    }
    (!text.is_empty() && total_ms <= LONGEST_MS).then(|| Duration::from_millis(total_ms))
}

/// A number of seconds, if it comes to whole milliseconds.
pub(super) fn from_seconds(seconds: f64) -> Option<Duration> {
    whole_ms(seconds * 1_000.0).map(Duration::from_millis)
}

fn whole_ms(ms: f64) -> Option<u64> {
    let rounded = ms.round();
    #[expect(clippy::cast_precision_loss, reason = "ten years in milliseconds are below 2^52")]
    let in_range = (0.0..=LONGEST_MS as f64).contains(&rounded);
    // The tolerance admits 0.1 s, which is 100.00000000000001 ms in binary, but not half a millisecond.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range was checked above"
    )]
    (in_range && (ms - rounded).abs() < 1e-3).then_some(rounded as u64)
}

/// Writes `duration` with the largest unit that divides it: `90s`, `2h`, `500ms`.
pub(super) fn format(duration: Duration) -> String {
    let ms = duration.as_millis();
    let (unit, unit_ms) = UNITS_MS
        .iter()
        .copied()
        .find(|(_, unit_ms)| ms >= u128::from(*unit_ms) && ms.is_multiple_of(u128::from(*unit_ms)))
        .unwrap_or(("s", 1_000));
    format!("{}{unit}", ms / u128::from(unit_ms))
}

pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*duration))
}

#[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
pub(super) fn serialize_option<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => serialize(duration, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_parser_accepts_units_or_plain_seconds_and_rejects_others() {
        let ms = |text: &str| parse(text).map(|d| d.as_millis());
        assert_eq!(ms("30s"), Some(30_000));
        assert_eq!(ms("500ms"), Some(500));
        assert_eq!(ms("5m"), Some(300_000));
        assert_eq!(ms("1h30m"), Some(5_400_000));
        assert_eq!(ms("0.1s"), Some(100));
        assert_eq!(ms("2"), Some(2_000));
        for bad in [
            "",
            "s",
            "5 parsecs",
            "-1s",
            "1s2",
            "nan",
            "inf",
            "0.0001s",
            "99999d",
            "1.2.3s",
        ] {
            assert_eq!(ms(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn formatted_duration_parses_back() {
        for ms in [0, 1, 999, 1_000, 90_000, 3_600_000, 86_400_000, LONGEST_MS] {
            let duration = Duration::from_millis(ms);
            assert_eq!(parse(&format(duration)), Some(duration), "{}", format(duration));
        }
    }
}
