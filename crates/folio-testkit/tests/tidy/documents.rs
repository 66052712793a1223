//! The links in the documents work.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::repository::{TextFile, assert_none, markdown_files, read, root, rust_files};

/// The lines of a document that are not in a block of code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        let is_prose = !in_code && !is_fence;
        in_code ^= is_fence;
        is_prose.then_some((at + 1, line))
    })
}

/// The anchors of the headings.
fn anchors(file: &TextFile) -> Vec<String> {
    let headings = prose(&file.text).filter_map(|(_, line)| {
        line.trim_start_matches('#')
            .strip_prefix(' ')
            .filter(|_| line.starts_with('#'))
    });
    headings
        .map(|heading| {
            let kept = heading.trim().to_lowercase();
            let kept = kept
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.collect::<String>().replace(' ', "-")
        })
        .collect()
}

/// `folder/../a/b` without the dots.
fn resolved(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    parts.join("/")
}

#[test]
fn markdown_links_point_to_existing_files_and_headings() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("the expression is a constant");
    let files = markdown_files();
    let by_path: BTreeMap<&str, &TextFile> = files.iter().map(|file| (file.path.as_str(), file)).collect();
    let mut broken = Vec::new();
    for file in &files {
        for (number, line) in prose(&file.text) {
            for found in link.captures_iter(line) {
                let target = &found[1];
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                let path = if path.is_empty() {
                    file.path.clone()
                } else {
                    resolved(file.folder(), path)
                };
                let is_there = root().join(&path).exists();
                let has_anchor = anchor.is_empty()
                    || by_path
                        .get(path.as_str())
                        .is_some_and(|file| anchors(file).iter().any(|known| known == anchor));
                if !is_there || !has_anchor {
                    broken.push(format!("{}:{number}: {target}", file.path));
                }
            }
        }
    }
    assert_none(&broken);
}

/// Rows of a table that name a test that does not exist, or none; the third column of a row lists its tests.
fn rows_without_tests(rows: &[&str]) -> Vec<String> {
    let function = Regex::new(r"fn ([a-z0-9_]+)\(").expect("the expression is a constant");
    let sources = rust_files();
    let known: BTreeSet<&str> = sources
        .iter()
        .flat_map(|file| function.captures_iter(&file.text))
        .filter_map(|found| found.get(1).map(|name| name.as_str()))
        .collect();
    let name = Regex::new(r"`([a-z0-9_]+)`").expect("the expression is a constant");
    let are_there = |row: &&&str| {
        let tests = row.split('|').nth(3).unwrap_or_default();
        let mut named = name.captures_iter(tests).map(|found| found[1].to_owned()).peekable();
        named.peek().is_some() && named.all(|test| known.contains(test.as_str()))
    };
    rows.iter()
        .filter(|row| !are_there(row))
        .map(ToString::to_string)
        .collect()
}

#[test]
fn tests_named_in_regressions_list_exist() {
    let list = read("docs/regressions.md");
    let rows: Vec<&str> = list.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 33, "{} cases", rows.len());
    assert_none(&rows_without_tests(&rows));
}

#[test]
fn every_engine_rule_names_existing_tests() {
    let list = read("docs/engine-rules.md");
    let rows: Vec<&str> = list.lines().filter(|line| line.starts_with("| E9.")).collect();
    let sections: Vec<&str> = rows
        .iter()
        .filter_map(|row| row.split('|').nth(1))
        .map(str::trim)
        .collect();
    let expected: Vec<String> = (1..=19).map(|section| format!("E9.{section}")).collect();
    assert_eq!(sections, expected);
    // A row names tests that cite its rule.
    let cites = |row: &&&str| {
        let number = row
            .split('|')
            .nth(1)
            .unwrap_or_default()
            .trim()
            .replace('.', "_")
            .to_lowercase();
        row.split('`')
            .skip(1)
            .step_by(2)
            .any(|test| test.ends_with(&format!("_{number}")))
    };
    let foreign: Vec<String> = rows.iter().filter(|row| !cites(row)).map(ToString::to_string).collect();
    assert_none(&foreign);
    assert_none(&rows_without_tests(&rows));
}
