//! The fields of a new item.

use super::ItemInput;
use super::fields::{MAX_TITLE_BYTES, check_is_of_kind, checked_phase, checked_progress, checked_title, whole_title};
use crate::actor::Trust;
use crate::entry::{EntryFields, Owner, Tag, check_text, without_nul};
use crate::excerpt::one_line;
use crate::view::is_blank;
use crate::warning::{Invalid, Warning};

/// Makes the fields of an item.
///
/// NUL is removed from texts, with a warning. If the title has more than 512 bytes and there is no body, it becomes the
/// body and its beginning the title. An empty title or phase counts as left out.
///
/// # Errors
///
/// The first field that is wrong: a kind that is not an item's, no content, a text that is too long, progress out of
/// range, an invalid tag. `title_too_long` if such a long title comes with a body, because there is no place for the
/// rest of it. `phase_too_long` for a phase of more than 512 bytes.
pub fn draft(input: ItemInput, trust: Trust) -> Result<(EntryFields, Vec<Warning>), Invalid> {
    if !input.kind.is_item() {
        return Err(Invalid::new(
            "kind_invalid",
            "kind",
            format!("{} is not note, todo or task", input.kind),
        ));
    }
    let mut warnings = Vec::new();
    let mut clean = |text: Option<String>| {
        let kept = text.map(|text| without_nul(text, &mut warnings));
        kept.filter(|text| !is_blank(text))
    };
    let (title, phase) = (clean(input.title), clean(input.phase));
    let input = ItemInput {
        title,
        phase,
        body: without_nul(input.body, &mut warnings),
        ..input
    };
    let mut fields = EntryFields::new(input.kind, Owner::agent(), trust);
    let title = match &input.title {
        Some(title) if is_blank(&input.body) => checked_title(title)?,
        Some(title) => whole_title(title)?,
        None => checked_title(input.body.lines().find(|line| !is_blank(line)).unwrap_or(""))?,
    };
    fields.title = title;
    fields.body = match input.title {
        Some(title) if one_line(&title).len() > MAX_TITLE_BYTES => title,
        _ => input.body,
    };
    check_text(&fields.body, "body")?;
    fields.tags = Tag::parse_all(input.tags.iter().map(String::as_str))?;
    check_is_of_kind(input.kind, input.phase.as_deref(), input.progress)?;
    fields.phase = input.phase.map(checked_phase).transpose()?;
    fields.progress = input.progress.map(checked_progress).transpose()?;
    Ok((fields, warnings))
}
