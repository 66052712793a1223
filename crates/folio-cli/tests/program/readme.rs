//! The commands of README.md, verbatim and in order: each uses what earlier ones left.

use crate::support::{Called, Folio};

const README: &str = include_str!("../../../../README.md");
const REVIEW: &str = include_str!("../../../../examples/repo-review.yaml");

/// A command, and its expected output; `None` if the page does not show it.
#[derive(Debug, PartialEq, Eq)]
struct PageCommand<'t> {
    line: &'t str,
    seen: String,
}

/// The shell commands, in order. In `console` blocks the expected output follows.
fn page_commands(page: &str) -> Vec<PageCommand<'_>> {
    let mut all = Vec::new();
    // Every other part is a block.
    for block in page.split("\n```").skip(1).step_by(2) {
        let (kind, text) = block.split_once('\n').unwrap();
        // What stands for something else cannot be typed.
        if text.contains('…') {
            continue;
        }
        for line in text.lines() {
            match (kind, line.strip_prefix("$ ")) {
                ("console", Some(line)) => all.push(PageCommand {
                    line,
                    seen: String::new(),
                }),
                ("console", None) => {
                    let last: &mut PageCommand<'_> = all.last_mut().unwrap();
                    last.seen.extend([line, "\n"]);
                }
                ("sh", _) => all.push(PageCommand {
                    line,
                    seen: String::new(),
                }),
                _ => {}
            }
        }
    }
    all
}

/// The words of `line`; a quoted text is one word.
fn words(line: &str) -> Vec<String> {
    let words = line.split('\'').enumerate().flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

#[test]
fn readme_commands_work_in_order_with_the_shown_output() {
    let folio = Folio::new();
    folio.file("examples/repo-review.yaml", REVIEW);
    // Something to notice, so that there are entries before those that the page shows.
    folio.file("src/main.rs", "// TODO: write it\n// FIXME: at once\nfn main() {}\n");
    let mut environment: Vec<(String, String)> = Vec::new();
    let mut called = 0;
    for PageCommand { line, seen } in page_commands(README) {
        if let Some(variable) = line.strip_prefix("export ") {
            let (name, value) = variable.split_once('=').unwrap();
            environment.push((name.to_owned(), value.to_owned()));
            continue;
        }
        if let Some(variable) = line.strip_prefix("unset ") {
            environment.retain(|(name, _)| name != variable);
            continue;
        }
        let command = line.strip_prefix("cargo run --release -- ");
        let Some(command) = command.or_else(|| line.strip_prefix("folio ")) else {
            continue;
        };
        // It goes on until somebody stops it.
        if command == "serve" {
            continue;
        }
        let words = words(command);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let output = folio
            .command(&words)
            .envs(environment.iter().cloned())
            .output()
            .unwrap();
        let came = Called::of(output);
        assert_eq!(came.code, 0, "{line}: {came}");
        if !seen.is_empty() {
            assert_eq!(came.stdout, seen, "{line}");
        }
        called += 1;
    }
    assert!(called > 12, "only {called} commands");
    assert_eq!(
        environment,
        [],
        "whoever goes on in that shell with another page is where that page is"
    );
    let noticed = folio.json(&["observe", "list"]);
    assert!(
        noticed["total"].as_u64() > Some(0),
        "the review noticed something: {noticed}"
    );
}
