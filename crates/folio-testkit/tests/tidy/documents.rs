//! Links of the documents lead somewhere.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::repository::{TextFile, markdown_files, none, read, root, rust_files};

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

/// What a heading is called in a link.
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
fn every_link_leads_to_a_file_and_a_heading_that_are_there() {
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
    none(&broken);
}

#[test]
fn every_test_that_the_list_of_regressions_names_is_there() {
    let function = Regex::new(r"fn ([a-z0-9_]+)\(").expect("the expression is a constant");
    let sources = rust_files();
    let known: BTreeSet<&str> = sources
        .iter()
        .flat_map(|file| function.captures_iter(&file.text))
        .filter_map(|found| found.get(1).map(|name| name.as_str()))
        .collect();
    let name = Regex::new(r"`([a-z0-9_]+)`").expect("the expression is a constant");
    let list = read("docs/regressions.md");
    let rows: Vec<&str> = list.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 33, "{} cases", rows.len());
    let mut missing = Vec::new();
    for row in rows {
        let tests = row.split('|').nth(3).unwrap_or_default();
        let named: Vec<String> = name.captures_iter(tests).map(|found| found[1].to_owned()).collect();
        let are_there = !named.is_empty() && named.iter().all(|test| known.contains(test.as_str()));
        missing.extend((!are_there).then(|| row.to_owned()));
    }
    none(&missing);
}
