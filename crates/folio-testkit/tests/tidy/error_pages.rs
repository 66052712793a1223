//! Every error code has a page, and what the page shows is true.

use std::collections::{BTreeMap, BTreeSet};

use folio_engine::plan::CODES;
use regex::Regex;

use super::plans::{blocks, mistakes};
use super::repository::{TextFile, assert_none, files_in, read, root};

const FOLDER: &str = "docs/errors";

/// Pages about several codes.
const COLLECTIONS: [&str; 3] = ["README", "tools", "tool_answers"];

fn page_of(code: &str) -> String {
    format!("{FOLDER}/{code}.md")
}

/// The sources below `folder`, without tests.
fn sources_in(folder: &str) -> Vec<String> {
    let is_source = |file: &TextFile| file.is(&[".rs"]) && file.path.contains("/src/") && !file.path.contains("/tests");
    let files = files_in(folder).into_iter().filter(is_source);
    files
        .map(|file| file.text.split("\nmod tests {").next().unwrap_or_default().to_owned())
        .collect()
}

/// What `expressions` find in the sources below `folder`.
fn codes_in(folder: &str, expressions: &[&str]) -> BTreeSet<String> {
    let expressions: Vec<Regex> = expressions
        .iter()
        .map(|e| Regex::new(e).expect("the expression is a constant"))
        .collect();
    let mut codes = BTreeSet::new();
    for code in sources_in(folder) {
        for expression in &expressions {
            codes.extend(expression.captures_iter(&code).map(|found| found[1].to_owned()));
        }
    }
    assert!(!codes.is_empty(), "{folder} has no codes");
    codes
}

/// The names that `pattern` finds in functions which begin with `head`, in the sources below `folder`.
fn names_in_functions(folder: &str, head: &str, pattern: &str) -> BTreeSet<String> {
    let pattern = Regex::new(pattern).expect("the expression is a constant");
    let mut names = BTreeSet::new();
    for code in sources_in(folder) {
        for (at, _) in code.match_indices(head) {
            let indent = code[..at].rsplit('\n').next().unwrap_or_default().chars();
            let indent: String = indent.take_while(|c| *c == ' ').collect();
            let body = code[at..].split(&format!("\n{indent}}}\n")).next().unwrap_or_default();
            names.extend(pattern.captures_iter(body).map(|found| found[1].to_owned()));
        }
    }
    assert!(!names.is_empty(), "{folder} has no {head}");
    names
}

/// The codes of the program and of the server: those of errors are next to them, in their crates, and those of
/// refusals by a single surface are where it refuses.
fn program_codes() -> BTreeSet<String> {
    let mut codes = codes_in(
        "crates/folio-server",
        &[
            r#"\bProblem::(?:invalid|not_found)\(\s*"([a-z_]+)""#,
            r#"\bSelf::(?:invalid|not_found)\(\s*"([a-z_]+)""#,
            r#"\b(?:Problem|Self)::new\(\s*[\w:.()]+,\s*"([a-z_]+)""#,
        ],
    );
    codes.extend(codes_in(
        "crates/folio-cli",
        &[
            r#"\b(?:Failure|Self)::usage\(\s*"([a-z_]+)""#,
            r#"\b(?:Failure|Self)::new\(\s*[\w:.()]+,\s*"([a-z_]+)""#,
            r#"\(\s*Exit::\w+,\s*"([a-z_]+)","#,
        ],
    ));
    codes.extend(codes_in(
        "crates",
        &[
            r#"\bInvalid::new\(\s*"([a-z_]+)""#,
            r#"\bconst CODE: &str = "([a-z_]+)";"#,
        ],
    ));
    for owner in ["folio", "folio-engine", "folio-model", "folio-runner", "folio-store"] {
        let named = names_in_functions(&format!("crates/{owner}"), "pub fn code(&self)", r#""([a-z_]+)""#);
        codes.extend(named);
    }
    codes
}

#[test]
fn hints_refer_to_existing_error_codes() {
    let known = program_codes();
    let mut wrong = Vec::new();
    for surface in ["crates/folio-cli", "crates/folio-server"] {
        let hinted = names_in_functions(surface, "fn hint_of(code: &str)", r#""([a-z_]+)" (?:=>|\|)"#);
        let unknown = hinted.difference(&known);
        wrong.extend(unknown.map(|code| format!("{surface} has a hint for {code}, which nothing has as its code")));
    }
    assert_none(&wrong);
}

#[test]
fn plan_error_pages_have_examples_that_produce_their_code() {
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
    assert_none(&wrong);
}

#[test]
fn every_program_error_code_has_a_page() {
    let mut wrong = Vec::new();
    for code in program_codes() {
        let path = page_of(&code);
        let begins_well = root().join(&path).is_file() && read(&path).starts_with(&format!("# {code}\n"));
        if !begins_well {
            wrong.push(format!("{path} is missing or does not begin with `# {code}`"));
        }
    }
    assert_none(&wrong);
}

#[test]
fn error_pages_match_existing_codes_and_are_listed() {
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
    assert_none(&wrong);
}

/// The HTTP statuses of each code, from the table of the server.
fn http_statuses() -> BTreeMap<String, BTreeSet<u16>> {
    let source = read("crates/folio-server/src/statuses.rs");
    let (_, table) = source.split_once("STATUSES").expect("there is a table");
    let table = table.split("\n];").next().unwrap_or_default();
    let row = Regex::new(r"(?s)\(\s*(\d{3}),\s*&\[(.*?)\]").expect("the expression is a constant");
    let name = Regex::new(r#""([a-z_]+)""#).expect("the expression is a constant");
    let mut statuses = BTreeMap::<String, BTreeSet<u16>>::new();
    for found in row.captures_iter(table) {
        let status = found[1].parse().expect("three digits");
        for code in name.captures_iter(&found[2]) {
            statuses.entry(code[1].to_owned()).or_default().insert(status);
        }
    }
    assert!(statuses.len() > 100, "the table is read as a whole");
    statuses
}

/// The HTTP statuses in `text`.
fn statuses_in(text: &str) -> BTreeSet<u16> {
    let status = Regex::new(r"\b[45]\d\d\b").expect("the expression is a constant");
    let found = status.find_iter(text).filter_map(|found| found.as_str().parse().ok());
    found.collect()
}

#[test]
fn error_pages_state_the_http_status_of_their_code() {
    let statuses = http_statuses();
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
        let said = file.text.lines().nth(2).unwrap_or_default();
        let said = said
            .split_once("HTTP status ")
            .map(|(_, said)| said.split('.').next().unwrap_or_default());
        let said = said.map(statuses_in).unwrap_or_default();
        let expected = statuses.get(name).cloned().unwrap_or_default();
        if said != expected {
            wrong.push(format!(
                "{} says HTTP status {said:?}; the server answers with {expected:?}",
                file.path
            ));
        }
    }
    let known = program_codes();
    wrong.extend(
        statuses
            .keys()
            .filter(|code| !known.contains(*code))
            .map(|code| format!("nothing has the code {code}")),
    );
    let listed = read(&page_of("README"));
    let (_, section) = listed
        .split_once("| code | HTTP status |")
        .expect("there is such a table");
    let row = Regex::new(r"(?m)^\| \[([a-z_]+)\]\([a-z_]+\.md\) \| ([^|]*) \|").expect("the expression is a constant");
    for found in row.captures_iter(section.split("\n\n").next().unwrap_or_default()) {
        if Some(&statuses_in(&found[2])) != statuses.get(&found[1]) {
            wrong.push(format!("the list of errors says {} of {}", &found[2], &found[1]));
        }
    }
    assert_none(&wrong);
}

#[test]
fn server_refuses_with_the_http_status_of_the_code() {
    let statuses = http_statuses();
    let refusal = r#"\b(?:Problem|Self)::new\(\s*StatusCode::([A-Z_]+),\s*"([a-z_]+)""#;
    let refusal = Regex::new(refusal).expect("the expression is a constant");
    let mut wrong = Vec::new();
    for source in sources_in("crates/folio-server/src/http") {
        for found in refusal.captures_iter(&source) {
            let status = match &found[1] {
                "BAD_REQUEST" => 400,
                "UNAUTHORIZED" => 401,
                "FORBIDDEN" => 403,
                "NOT_FOUND" => 404,
                "METHOD_NOT_ALLOWED" => 405,
                "NOT_ACCEPTABLE" => 406,
                "CONFLICT" => 409,
                "PAYLOAD_TOO_LARGE" => 413,
                "UNSUPPORTED_MEDIA_TYPE" => 415,
                "MISDIRECTED_REQUEST" => 421,
                "UNPROCESSABLE_ENTITY" => 422,
                "TOO_MANY_REQUESTS" => 429,
                "INTERNAL_SERVER_ERROR" => 500,
                "SERVICE_UNAVAILABLE" => 503,
                _ => 0,
            };
            if !statuses.get(&found[2]).is_some_and(|known| known.contains(&status)) {
                wrong.push(format!("{} is answered with {}", &found[2], &found[1]));
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn every_tool_error_code_is_documented() {
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
    assert_none(&missing);
}

#[test]
fn documented_stop_reasons_match_the_engine() {
    let source = read("crates/folio-engine/src/result.rs");
    let (_, code) = source.split_once("impl StopReason {").expect("there are stop reasons");
    let name = Regex::new(r#"Self::\w+ => "([a-z_]+)""#).expect("the expression is a constant");
    let known: BTreeSet<&str> = name
        .captures_iter(code)
        .map(|found| found.extract::<1>().1[0])
        .collect();
    let page = read(&page_of("README"));
    let (_, section) = page.split_once("## How a run ended").expect("there is such a section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let row = Regex::new(r"(?m)^\| `([a-z_]+)` \|").expect("the expression is a constant");
    let told: BTreeSet<&str> = row
        .captures_iter(section)
        .map(|found| found.extract::<1>().1[0])
        .collect();
    assert_eq!(told, known);
}

#[test]
fn every_warning_code_is_documented() {
    let codes = codes_in(
        "crates",
        &[r#"\bWarning::new\(\s*"([a-z_]+)""#, r#"\bwarn\(\s*"([a-z_]+)""#],
    );
    let page = read(&page_of("README"));
    let missing: Vec<String> = codes
        .into_iter()
        .filter(|code| !page.contains(&format!("| `{code}` |")))
        .collect();
    assert_none(&missing);
}
