//! Files: their names, their length, and forbidden content.

use super::repository::{assert_none, files_in, root, rust_files};

/// File names that say nothing about the content.
const SAYS_NOTHING: [&str; 8] = [
    "utils", "util", "helpers", "helper", "misc", "common", "types", "manager",
];

/// A name of that list that is meaningful here: the file contains the types of observations.
const SAYS_IT: [&str; 1] = ["crates/folio-memory/src/observation/types.rs"];

const LINES_MAX: usize = 800;

/// The allowed reason to ignore a test: another test starts it in a process of its own.
const CHILD: &str = "runs in a process of its own";

#[test]
fn source_file_names_are_not_generic() {
    let mut wrong = Vec::new();
    for file in files_in("crates")
        .iter()
        .filter(|file| !SAYS_IT.contains(&file.path.as_str()))
    {
        let parts = file.path.split('/').map(|part| part.split('.').next().unwrap_or(part));
        if parts.into_iter().any(|part| SAYS_NOTHING.contains(&part)) {
            wrong.push(file.path.clone());
        }
    }
    assert_none(&wrong);
}

#[test]
fn files_stay_within_the_line_limit() {
    let mut long = Vec::new();
    for folder in ["crates", "docs", "examples"] {
        for file in files_in(folder)
            .iter()
            .filter(|file| file.is(&[".rs", ".md", ".sql", ".yaml"]))
        {
            let lines = file.text.lines().count();
            if lines > LINES_MAX {
                long.push(format!("{} has {lines} lines; {LINES_MAX} are enough", file.path));
            }
        }
    }
    assert_none(&long);
}

#[test]
fn sources_contain_no_unfinished_code_or_ignored_tests() {
    // Put together here, so that this file does not name them.
    let words = [concat!("to", "do!("), concat!("unimpl", "emented!(")];
    let switched_off = concat!("#[ig", "nore");
    let mut found = Vec::new();
    for file in rust_files() {
        for (number, line) in file.text.lines().enumerate() {
            let is_off = line.trim_start().starts_with(switched_off) && !line.contains(CHILD);
            if is_off || words.iter().any(|word| line.contains(word)) {
                found.push(format!("{}:{}: {}", file.path, number + 1, line.trim()));
            }
        }
    }
    assert_none(&found);
}

#[test]
fn files_contain_no_machine_specific_paths() {
    let words = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/home/", "user/")];
    let mut found = Vec::new();
    for file in files_in("") {
        for (number, line) in file.text.lines().enumerate() {
            for word in words.iter().filter(|word| line.contains(*word)) {
                found.push(format!("{}:{}: {word}", file.path, number + 1));
            }
        }
    }
    assert_none(&found);
}

/// `./test` and `.config/nextest.toml` leave tests out by the names of their files where a server is missing.
#[test]
fn tests_that_need_a_server_have_its_name() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        let Some((_, place)) = file
            .path
            .split_once("/tests/")
            .filter(|(before, _)| before.matches('/').count() == 1)
        else {
            continue;
        };
        let needs_server = ["postgres", "cluster", "restate"]
            .iter()
            .any(|name| file.text.contains(&format!("folio_testkit::{name}")));
        let mut parts = place.split('/');
        // What several tests share is needed by none without its name.
        if needs_server
            && !parts.any(|part| {
                ["postgres", "restate", "support"]
                    .iter()
                    .any(|name| part.starts_with(name))
            })
        {
            wrong.push(format!(
                "{}: its name begins with neither postgres nor restate",
                file.path
            ));
        }
    }
    assert_none(&wrong);
}

#[test]
fn promised_repository_files_exist() {
    let promised = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "deny.toml",
        "docs/glossary.md",
        "docs/plans.md",
        "examples/repo-review.yaml",
        "test",
        ".ci/run",
    ];
    let missing: Vec<String> = promised
        .into_iter()
        .filter(|path| !root().join(path).is_file())
        .map(str::to_owned)
        .collect();
    assert_none(&missing);
}

/// A program that matches on an error must not break when there is a further one (decision 0148).
#[test]
fn error_enums_of_the_library_are_open() {
    const BEYOND: [&str; 2] = ["crates/folio-cli/", "crates/folio-testkit/"];
    let mut closed = Vec::new();
    for file in rust_files() {
        if BEYOND.iter().any(|folder| file.path.starts_with(folder)) || !file.path.contains("/src/") {
            continue;
        }
        let mut attributes = String::new();
        for line in file.text.lines() {
            match line.strip_prefix("pub enum ") {
                Some(rest) => {
                    let name = rest.split([' ', '<']).next().unwrap_or_default();
                    let is_error = name.ends_with("Error") || attributes.contains("thiserror::Error");
                    if is_error && !attributes.contains("#[non_exhaustive]") {
                        closed.push(format!("{}: {name} is not `#[non_exhaustive]`", file.path));
                    }
                    attributes.clear();
                }
                None if line.starts_with("#[") => attributes.push_str(line),
                None if line.starts_with("//") => {}
                None => attributes.clear(),
            }
        }
    }
    assert_none(&closed);
}
