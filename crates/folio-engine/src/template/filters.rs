//! Filters in addition to those of the template language.

use folio_memory::excerpt::cut;
use minijinja::value::Value as Seen;
use minijinja::{Environment, Error};

use super::{bounds, view};

pub(super) fn add(environment: &mut Environment<'static>) {
    let json = Seen::from_function(view::compact_json_filter);
    let escape = Seen::from_function(|value: &Seen| as_text(value).map(|text| md_escape(&text)));
    for (name, filter) in [
        ("json", json.clone()),
        ("tojson", json),
        (
            "truncate_text",
            Seen::from_function(|text: &str, chars: usize| cut(text, chars)),
        ),
        ("basename", Seen::from_function(|path: &str| basename(path).to_owned())),
        ("md_escape", escape),
    ] {
        bounds::add_filter(environment, name, filter, bounds::needs_no_bytes);
    }
    environment.add_filter("human_bytes", human_bytes);
}

fn as_text(value: &Seen) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => view::compact_json(value),
    }
}

/// Formats a size: `1536` becomes `1.5 KiB`.
fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    // This avoids showing 1023.96 KiB as 1024.0 KiB.
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// The last part of a path.
fn basename(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path)
}

/// Escapes text so that it stays inside one cell of a markdown table and is not read as markup.
fn md_escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\r' => {}
            '\n' => escaped.push_str("<br>"),
            '<' => escaped.push_str("&lt;"),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '#' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_with_one_decimal() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (1_048_575, "1.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(human_bytes(bytes), shown);
        }
    }

    #[test]
    fn md_escape_keeps_text_in_its_table_cell() {
        assert_eq!(md_escape("a|b\n<c> _d_"), "a\\|b<br>&lt;c> \\_d\\_");
        assert_eq!(basename("a/b/c.rs"), "c.rs");
        assert_eq!(basename("a/b/"), "b");
    }
}
