//! What the lock file may contain, by the two lists in deny.toml: for machines without cargo-deny.

use std::collections::BTreeSet;

use regex::Regex;

use super::cargo::packages;
use super::repository::{assert_none, read};

/// The names in quotes between `start` and the `]` that ends its list.
fn list_in_deny_toml(start: &str, name: &str) -> BTreeSet<String> {
    let text = read("deny.toml");
    let (_, rest) = text
        .split_once(start)
        .unwrap_or_else(|| panic!("deny.toml has no {start:?}"));
    let (list, _) = rest.split_once("\n]").unwrap_or((rest, ""));
    let quoted = Regex::new(name).expect("the expression is a constant");
    let lines = list.lines().filter(|line| !line.trim_start().starts_with('#'));
    let found: BTreeSet<String> = lines
        .flat_map(|line| {
            quoted
                .captures_iter(line)
                .map(|found| found[1].to_owned())
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(!found.is_empty(), "the list after {start:?} is empty");
    found
}

/// Whether one of the licences that `expression` offers is allowed. Reads SPDX expressions and the older `A/B`;
/// anything else is not allowed.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    one_of(&mut rest, allowed) == Some(true) && rest.is_empty()
}

fn one_of(words: &mut &[&str], allowed: &BTreeSet<String>) -> Option<bool> {
    let mut found = all_of(words, allowed)?;
    while let Some((&"OR", rest)) = words.split_first() {
        *words = rest;
        found |= all_of(words, allowed)?;
    }
    Some(found)
}

fn all_of(words: &mut &[&str], allowed: &BTreeSet<String>) -> Option<bool> {
    let mut found = single(words, allowed)?;
    while let Some((&"AND", rest)) = words.split_first() {
        *words = rest;
        found &= single(words, allowed)?;
    }
    Some(found)
}

fn single(words: &mut &[&str], allowed: &BTreeSet<String>) -> Option<bool> {
    match **words {
        ["(", ref rest @ ..] => {
            *words = rest;
            let found = one_of(words, allowed)?;
            *words = words.strip_prefix(&[")"])?;
            Some(found)
        }
        [name, "WITH", exception, ref rest @ ..] => {
            *words = rest;
            Some(allowed.contains(&format!("{name} WITH {exception}")))
        }
        [name, ref rest @ ..] => {
            *words = rest;
            Some(allowed.contains(name))
        }
        [] => None,
    }
}

#[test]
fn dependencies_have_an_allowed_licence() {
    let allowed = list_in_deny_toml("\nallow = [", "\"([^\"]+)\"");
    let mut wrong = Vec::new();
    for package in &packages().all {
        let license = package.license.as_deref().unwrap_or("no licence");
        if !is_allowed(license, &allowed) {
            wrong.push(format!("{} {}: {license}", package.name, package.version));
        }
    }
    assert_none(&wrong);
}

#[test]
fn dependencies_include_no_banned_package() {
    let banned = list_in_deny_toml("\ndeny = [", "crate = \"([^\"]+)\"");
    let packages = packages().all.iter().filter(|package| banned.contains(&package.name));
    assert_none(&packages.map(|package| package.name.clone()).collect::<Vec<_>>());
}

#[test]
fn dependencies_come_only_from_crates_io() {
    let lock = read("Cargo.lock");
    let sources: BTreeSet<&str> = lock.lines().filter(|line| line.starts_with("source = ")).collect();
    let usual = |line: &&str| line.starts_with("source = \"registry+") && line.ends_with("/crates.io-index\"");
    assert!(sources.len() == 1 && sources.iter().all(usual), "{sources:?}");
}

#[test]
fn licence_expressions_are_evaluated_with_or_and_with() {
    let allowed = BTreeSet::from([
        "MIT".to_owned(),
        "Zlib".to_owned(),
        "Apache-2.0 WITH LLVM-exception".to_owned(),
    ]);
    for good in [
        "MIT",
        "GPL-3.0 OR MIT",
        "GPL-3.0/MIT",
        "(MIT OR GPL-3.0) AND Zlib",
        "Apache-2.0 WITH LLVM-exception OR X",
    ] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in [
        "",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "Apache-2.0",
        "(MIT OR Zlib) AND GPL-3.0",
        "MIT OR",
        "MIT)",
    ] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}
