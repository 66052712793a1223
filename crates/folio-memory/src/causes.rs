//! The causes of an error.

use std::error::Error;
use std::io;
use std::iter::successors;

/// Iterates over `error` and its causes, from the outermost to the innermost.
pub fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    successors(Some(error), |error: &&'e (dyn Error + 'static)| {
        // For an `io::Error` that wraps another error, `source` skips the wrapped error and returns its cause.
        let made_of = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match made_of {
            Some(inner) => Some(inner),
            None => (**error).source(),
        }
    })
}

/// The innermost cause of `error`.
#[must_use]
pub fn innermost<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    causes(error).last().unwrap_or(error)
}

/// Returns `error` and its causes in one sentence, outermost first. A cause that an error already mentions is not
/// repeated.
#[must_use]
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    causes(error).skip(1).fold(error.to_string(), |mut message, cause| {
        let cause_text = cause.to_string();
        if !message.contains(&cause_text) {
            message.push_str(": ");
            message.push_str(&cause_text);
        }
        message
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the plan")]
    struct Outer(#[source] io::Error);

    fn nested() -> Outer {
        let innermost = io::Error::new(io::ErrorKind::NotFound, "no such file");
        Outer(io::Error::other(Outer(innermost)))
    }

    #[test]
    fn causes_include_the_error_inside_an_io_error() {
        let error = nested();
        assert_eq!(causes(&error).filter(|cause| cause.is::<Outer>()).count(), 2);
        assert_eq!(innermost(&error).to_string(), "no such file");
    }

    #[test]
    fn error_message_states_each_cause_once() {
        assert_eq!(with_causes(&nested()), "cannot read the plan: no such file");
        assert_eq!(with_causes(&io::Error::other("alone")), "alone");
    }
}
