//! How much one block of a history holds.

use folio_memory::Invalid;
use folio_memory::entry::MAX_TEXT_BYTES;
use folio_memory::offload::{Message, is_stand_in};

/// The maximum size of a block: that of any text.
pub(super) const BLOCK_BYTES: usize = MAX_TEXT_BYTES;

/// The line of a block that holds `message`.
pub(super) fn line_of(message: &Message) -> String {
    format!("{}\n", message.given)
}

/// How many of `messages`, from the first on, fit into a block of `limit` bytes; at least one of them.
pub(super) fn fitting(messages: &[Message], limit: usize) -> usize {
    let mut bytes = 0;
    let fits = |message: &&Message| {
        bytes += line_of(message).len();
        bytes <= limit
    };
    let fitting = messages.iter().take_while(fits).count();
    fitting.max(1).min(messages.len())
}

/// Refuses a message that fits into no block. The first of `messages` is at `from` in the list of the caller.
pub(super) fn check_sizes(messages: &[Message], from: usize) -> Result<(), Invalid> {
    for (at, message) in messages.iter().enumerate() {
        let bytes = line_of(message).len();
        if bytes > BLOCK_BYTES && !is_stand_in(message) {
            let message = format!(
                "the message has {bytes} bytes, more than {BLOCK_BYTES}; put what makes it large away as a result, and \
                 leave the preview in its place"
            );
            return Err(Invalid::new(
                "body_too_large",
                &format!("messages[{}]", from + at),
                message,
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn block_takes_as_many_messages_as_fit_and_at_least_one() {
        let list = json!([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]);
        let messages = Message::read_all(&list).expect("messages");
        let bytes = line_of(&messages[0]).len();
        for (limit, count) in [(1, 1), (bytes, 1), (2 * bytes - 1, 1), (2 * bytes, 2), (9 * bytes, 2)] {
            assert_eq!(fitting(&messages, limit), count, "{limit}");
        }
        assert_eq!(fitting(&[], 1), 0);
    }
}
