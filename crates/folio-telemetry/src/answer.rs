//! Reads a collector's answer to spans: it may refuse some although it accepted the others.
//!
//! Nothing else in its answer, `ExportTraceServiceResponse`, matters, so it is parsed here: `partial_success` is its
//! field 1, in which `rejected_spans` is field 1 and `error_message` field 2.

/// The most characters of a collector's message that are reported.
const MESSAGE_CHARS_MAX: usize = 200;

/// Spans that a collector refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The number of refused spans.
    pub(crate) spans: u64,
    /// Why, in the collector's words.
    pub(crate) reason: String,
}

impl Refused {
    /// Returns what `answer` says about refused spans; `None` if it refuses none, or is not such an answer.
    pub(crate) fn of(answer: &[u8]) -> Option<Self> {
        let partial = fields(answer).find_map(|field| match field {
            (1, Value::Bytes(partial)) => Some(partial),
            _ => None,
        })?;
        let (mut spans, mut message) = (0, String::new());
        for field in fields(partial) {
            match field {
                (1, Value::Number(number)) => spans = number,
                (2, Value::Bytes(text)) => message = String::from_utf8_lossy(text).into_owned(),
                _ => {}
            }
        }
        // The field is signed on the wire.
        let spans = u64::try_from(i64::try_from(spans).ok()?)
            .ok()
            .filter(|spans| *spans > 0)?;
        let message: String = message
            .chars()
            .filter(|c| !c.is_control())
            .take(MESSAGE_CHARS_MAX)
            .collect();
        let reason = if message.is_empty() {
            "it refuses some of them".to_owned()
        } else {
            format!("it refuses some of them: {message}")
        };
        Some(Self { spans, reason })
    }
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Returns the fields of a message with their numbers, as far as they can be parsed.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u64, Value<'_>)> {
    std::iter::from_fn(move || {
        let tag = number(&mut rest)?;
        let value = match tag & 7 {
            0 => Value::Number(number(&mut rest)?),
            1 => Value::Bytes(rest.split_off(..8)?),
            2 => {
                let length = usize::try_from(number(&mut rest)?).ok()?;
                Value::Bytes(rest.split_off(..length)?)
            }
            5 => Value::Bytes(rest.split_off(..4)?),
            _ => return None,
        };
        Some((tag >> 3, value))
    })
}

/// Parses a varint and removes it from the front of `rest`.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut found = 0;
    for shift in (0..64).step_by(7) {
        let byte = *rest.split_off_first()?;
        found |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(found);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_span_count_and_reason_are_parsed_from_the_response() {
        let refused = Refused::of(b"\x0a\x0c\x08\xac\x02\x12\x07too\nbig").unwrap();
        assert_eq!(refused.spans, 300);
        assert_eq!(refused.reason, "it refuses some of them: toobig");
        assert_eq!(
            Refused::of(b"\x0a\x02\x08\x03").unwrap().reason,
            "it refuses some of them"
        );
    }

    #[test]
    fn response_without_rejected_spans_counts_as_accepted() {
        for answer in [
            &b""[..],
            b"{}",
            b"ok",
            b"\x0a\x00",
            b"\x0a\x02\x08\x00",
            b"\x0a\x05\x12\x03odd",
            b"\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            assert_eq!(Refused::of(answer), None, "{answer:?}");
        }
    }
}
