//! Checks whether an observation that was written elsewhere could have been written here.

use super::draft;
use super::types::TypeRegistry;
use crate::entry::EntryFields;
use crate::warning::{Invalid, Warning};

/// Brings the `fields` of an observation into the form that writing it here would have produced, and adds warnings
/// about corrected values.
///
/// # Errors
///
/// As [`draft()`](super::draft()): the first field that is wrong.
pub(crate) fn check_stored(fields: &mut EntryFields, warnings: &mut Vec<Warning>) -> Result<(), Invalid> {
    if let Some(name) = &fields.type_name
        && !TypeRegistry::is_well_formed(name)
    {
        return Err(draft::type_invalid(name));
    }
    // If the text is kept beside the entry, `fields` contains only its beginning.
    if fields.body_ref.is_none() {
        fields.body = draft::content(std::mem::take(&mut fields.body), warnings)?;
    }
    fields.title = draft::title(std::mem::take(&mut fields.title), warnings)?;
    Ok(())
}
