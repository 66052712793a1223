//! What runs wrote about shortened texts, in words for clients: the tool `result_read`, by which the models of a run
//! read the rest, is not offered here.

use std::borrow::Cow;

/// What a run writes, and what a client is told where it can read entries with `scratch_read`, and where it cannot. No
/// notice gets longer, so that a text that was cut to a limit stays within it.
const NOTICES: [(&str, &str, &str); 2] = [
    (
        "; use result_read node=",
        "; use scratch_read id=",
        "; try: folio blob ",
    ),
    (
        "; read it with result_read",
        "; folio blob reads it",
        "; folio blob reads it",
    ),
];

/// Returns `text` with what a client can use, who has `scratch_read` or not, in place of `result_read`.
pub(super) fn for_clients(text: &str, has_scratch_read: bool) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for (written, by_tool, by_program) in NOTICES {
        if text.contains(written) {
            let told = if has_scratch_read { by_tool } else { by_program };
            text = Cow::Owned(text.replace(written, told));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_for_models_of_a_run_name_what_clients_can_use() {
        let written = "It is.\n[9 of 99 characters left out; use result_read node=obs_1AB]\n\
            9 bytes, kept as blob:a1; read it with result_read\nmodels use result_read";
        assert_eq!(
            for_clients(written, true),
            "It is.\n[9 of 99 characters left out; use scratch_read id=obs_1AB]\n\
            9 bytes, kept as blob:a1; folio blob reads it\nmodels use result_read"
        );
        assert!(for_clients(written, false).contains("left out; try: folio blob obs_1AB]"));
        assert!(NOTICES.iter().all(|(written, by_tool, by_program)| {
            by_tool.len() <= written.len() && by_program.len() <= written.len()
        }));
    }
}
