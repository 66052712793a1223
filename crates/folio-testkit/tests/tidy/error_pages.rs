//! Every code that an error carries has a page, and what the page says happens.

use std::collections::BTreeSet;

use folio_engine::plan::CODES;
use regex::Regex;

use super::plans::{blocks, mistakes};
use super::repository::{files_in, none, read, root};

const FOLDER: &str = "docs/errors";

/// Pages about several codes.
const COLLECTIONS: [&str; 3] = ["README", "tools", "tool_answers"];

fn page_of(code: &str) -> String {
    format!("{FOLDER}/{code}.md")
}

/// What `expressions` find in the sources below `folder`, besides those of tests.
fn codes_in(folder: &str, expressions: &[&str]) -> BTreeSet<String> {
    let expressions: Vec<Regex> = expressions
        .iter()
        .map(|e| Regex::new(e).expect("the expression is a constant"))
        .collect();
    let mut codes = BTreeSet::new();
    for file in files_in(folder) {
        let is_source = file.is(&[".rs"]) && file.path.contains("/src/") && !file.path.contains("/tests");
        if !is_source {
            continue;
        }
        let code = file.text.split("\nmod tests {").next().unwrap_or_default();
        for expression in &expressions {
            codes.extend(expression.captures_iter(code).map(|found| found[1].to_owned()));
        }
    }
    assert!(!codes.is_empty(), "{folder} has no codes");
    codes
}

/// The codes with which the program ends, and those with which the server answers.
fn program_codes() -> BTreeSet<String> {
    let mut codes = codes_in(
        "crates/folio-server",
        &[
            r#"\bProblem::(?:invalid|not_found)\(\s*"([a-z_]+)""#,
            r#"\bSelf::(?:invalid|not_found)\(\s*"([a-z_]+)""#,
            r#"\b(?:Problem|Self)::new\(\s*[\w:.()]+,\s*"([a-z_]+)""#,
            r#"Error::\w+[^=;]{0,60}=>\s*\{?\s*\(\s*"([a-z_]+)","#,
        ],
    );
    codes.extend(codes_in(
        "crates/folio-cli",
        &[
            r#"\b(?:Failure|Self)::usage\(\s*"([a-z_]+)""#,
            r#"\b(?:Failure|Self)::new\(\s*[\w:.()]+,\s*"([a-z_]+)""#,
            r#"Error::\w+[^=;]{0,60}=>\s*\{?\s*\(\s*"([a-z_]+)","#,
            r#"\(\s*Exit::\w+,\s*"([a-z_]+)","#,
        ],
    ));
    codes.extend(codes_in("crates", &[r#"\bInvalid::new\(\s*"([a-z_]+)""#]));
    codes
}

#[test]
fn every_code_of_a_plan_has_a_page_whose_example_makes_that_mistake() {
    let mut wrong = Vec::new();
    for (code, _) in CODES {
        let path = page_of(code);
        if !root().join(&path).is_file() {
            wrong.push(format!("{path} is missing"));
            continue;
        }
        let text = read(&path);
        if !text.starts_with(&format!("# {code}: ")) {
            wrong.push(format!("{path} does not begin with `# {code}: `"));
        }
        let examples = blocks(&text, "mistake");
        if examples.is_empty() {
            wrong.push(format!("{path} has no example"));
        }
        for (line, example) in examples {
            let found = mistakes(example);
            if found.is_empty() || found.iter().any(|error| error.code != *code) {
                wrong.push(format!("{path}:{line}: the example gives {found:?}"));
            }
            // What the program says about it stands on the page as it is.
            for error in found {
                let said = format!("{}: {} {}", error.place, error.code, error.message);
                let lines = std::iter::once(said).chain(error.hint.map(|hint| format!("hint: {hint}")));
                wrong.extend(
                    lines
                        .filter(|line| !text.contains(line))
                        .map(|line| format!("{path} lacks {line:?}")),
                );
            }
        }
    }
    none(&wrong);
}

#[test]
fn every_code_of_the_program_has_a_page() {
    let mut wrong = Vec::new();
    for code in program_codes() {
        let path = page_of(&code);
        let begins_well = root().join(&path).is_file() && read(&path).starts_with(&format!("# {code}\n"));
        if !begins_well {
            wrong.push(format!("{path} is missing or does not begin with `# {code}`"));
        }
    }
    none(&wrong);
}

#[test]
fn every_page_about_an_error_is_about_one_that_there_is_and_is_listed() {
    let listed = read(&page_of("README"));
    let mut known = program_codes();
    known.extend(CODES.iter().map(|(code, _)| (*code).to_owned()));
    let mut wrong = Vec::new();
    for file in files_in(FOLDER) {
        let name = file
            .path
            .trim_start_matches(FOLDER)
            .trim_matches('/')
            .trim_end_matches(".md");
        if COLLECTIONS.contains(&name) {
            continue;
        }
        if !known.contains(name) {
            wrong.push(format!("nothing has the code {name}"));
        }
        if !listed.contains(&format!("[{name}]({name}.md)")) {
            wrong.push(format!("the list of errors does not name {name}"));
        }
    }
    none(&wrong);
}

#[test]
fn every_code_of_a_tool_that_fails_is_explained() {
    let made = r#"ToolError::new\(\s*[\w:]+,\s*"([a-z_]+)""#;
    let mut codes = codes_in("crates/folio-tools", &[made, r#"\(FailureKind::\w+, "([a-z_]+)"\)"#]);
    codes.extend(codes_in(
        "crates/folio-mcp",
        &[made, r#"Self::\w+ \{ \.\. \} => "([a-z_]+)""#],
    ));
    let page = read(&page_of("tools"));
    let missing: Vec<String> = codes
        .into_iter()
        .filter(|code| !page.contains(&format!("| `{code}` |")))
        .collect();
    none(&missing);
}

#[test]
fn every_warning_is_explained() {
    let codes = codes_in(
        "crates",
        &[r#"\bWarning::new\(\s*"([a-z_]+)""#, r#"\bwarn\(\s*"([a-z_]+)""#],
    );
    let page = read(&page_of("README"));
    let missing: Vec<String> = codes
        .into_iter()
        .filter(|code| !page.contains(&format!("| `{code}` |")))
        .collect();
    none(&missing);
}
