//! What the pure crates must not do, and what only the program does.

use super::cargo::packages;
use super::repository::{TextFile, assert_none, rust_files};

const PURE: [&str; 2] = ["folio-memory", "folio-engine"];

/// Crates that wait, read or send. A pure crate must not depend on any of them, directly or indirectly.
const IMPURE: [&str; 14] = [
    "async-trait",
    "cap-std",
    "clap",
    "crossterm",
    "hyper",
    "ignore",
    "mio",
    "reqwest",
    "rusqlite",
    "rustix",
    "rustls",
    "socket2",
    "tokio",
    "tokio-postgres",
];

/// Crates that a pure crate must not depend on directly. Another crate below it may, and is then not called for this.
const IMPURE_TO_ASK_FOR: [&str; 5] = ["fastrand", "futures-util", "getrandom", "rand", "uuid"];

/// Words that the code of a pure crate must not contain, except in its tests.
const IMPURE_WORDS: [&str; 15] = [
    "async fn",
    "async move",
    ".await",
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "SystemTime",
    "Instant::now",
    "Timestamp::now",
    "println!",
    "eprintln!",
    "print!(",
    "dbg!",
];

/// Words that only the program, tests and test helpers may contain: the environment, the terminal, the end of the
/// process.
const PROGRAM_WORDS: [&str; 6] = [
    "std::env::var",
    "std::env::args",
    "println!",
    "eprintln!",
    "process::exit",
    "process::abort",
];

/// The code of a file in `src/`: comments are blanked, and everything from `mod tests` on is left out.
fn code_of(file: &TextFile) -> Vec<(usize, &str)> {
    let is_test = file.path.ends_with("/tests.rs") || file.path.contains("/tests/");
    if is_test || !file.path.contains("/src/") {
        return Vec::new();
    }
    let lines = file.text.lines().enumerate();
    lines
        .take_while(|(_, line)| !line.starts_with("mod tests {"))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(at, line)| (at + 1, line))
        .collect()
}

fn uses_of(words: &[&str], is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for file in rust_files().iter().filter(|file| is_meant(&file.path)) {
        for (number, line) in code_of(file) {
            for word in words.iter().filter(|word| line.contains(*word)) {
                found.push(format!("{}:{number}: {word}", file.path));
            }
        }
    }
    found
}

#[test]
fn pure_crates_have_no_impure_dependencies() {
    let mut wrong = Vec::new();
    for package in packages()
        .members()
        .filter(|package| PURE.contains(&package.name.as_str()))
    {
        let asked = package.dependencies.iter().filter(|dependency| !dependency.is_dev);
        for dependency in asked.filter(|d| IMPURE_TO_ASK_FOR.contains(&d.name.as_str())) {
            wrong.push(format!("{} asks for {}", package.name, dependency.name));
        }
    }
    for name in PURE {
        let below = packages().below(name);
        for impure in IMPURE.iter().filter(|impure| below.contains(*impure)) {
            wrong.push(format!("{name} is built with {impure}"));
        }
    }
    assert_none(&wrong);
}

#[test]
fn pure_crate_sources_use_no_io_clock_environment_or_async() {
    let is_pure = |path: &str| PURE.iter().any(|name| path.starts_with(&format!("crates/{name}/")));
    assert_none(&uses_of(&IMPURE_WORDS, is_pure));
}

#[test]
fn only_the_cli_reads_environment_prints_or_exits() {
    let may = |path: &str| {
        ["crates/folio-cli/", "crates/folio-testkit/"]
            .iter()
            .any(|crate_| path.starts_with(crate_))
    };
    assert_none(&uses_of(&PROGRAM_WORDS, |path| !may(path)));
}
