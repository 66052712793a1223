//! A list that may continue.

use std::fmt;

pub(crate) use folio_server::wire::List;

use crate::output::{Report, Style};

/// The remark below `list`: how much more there is, or that there is nothing.
pub(crate) fn remark<T>(list: &List<T>, nothing: &str) -> Option<String> {
    let of = if list.at_least { "more than " } else { "" };
    let total = list.total.unwrap_or(list.returned as u64);
    match (&list.next, list.returned) {
        (Some(next), 0) => Some(format!("nothing yet; continue with --cursor {next}")),
        (None, 0) => Some(nothing.to_owned()),
        (Some(next), shown) if list.total.is_none() => {
            Some(format!("{shown}, and there are more; continue with --cursor {next}"))
        }
        (Some(next), shown) => Some(format!("{shown} of {of}{total}; continue with --cursor {next}")),
        (None, shown) if (shown as u64) < total || list.at_least => {
            Some(format!("{shown} of {of}{total}; --limit shows more"))
        }
        (None, _) => None,
    }
}

impl<T: Report> Report for List<T> {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        self.items.iter().try_for_each(|item| item.text(out, style))
    }
}
