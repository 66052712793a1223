//! Checks whether an item that was written elsewhere could have been written here.

use super::fields::{checked_title, whole_title};
use crate::view::is_blank;
use crate::warning::Invalid;

/// The title of an item with `title` and `body`, in one line. Without a title, the first line of the body is the title.
///
/// # Errors
///
/// As [`draft`](super::draft): `title_empty`, `title_too_long`.
pub(crate) fn stored_title(title: &str, body: &str) -> Result<String, Invalid> {
    if is_blank(title) {
        return checked_title(body.lines().find(|line| !is_blank(line)).unwrap_or_default());
    }
    whole_title(title)
}
