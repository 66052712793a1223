//! The plans in examples and documents are valid.

use std::collections::BTreeSet;

use folio_engine::plan::{self, Known, KnownTool, PlanError};
use folio_runner::known_tools;
use folio_tools::Registry;
use regex::Regex;
use serde_json::json;

use super::repository::{assert_none, files_in, markdown_files, read};

/// The tools that a plan may call: Folio's, and one of an MCP server.
pub(crate) fn known() -> Known {
    let mut known = known_tools(&Registry::with_builtins());
    let schema = json!({
        "type": "object",
        "properties": {"to": {"type": "string"}, "by": {"enum": ["car", "train"]}},
        "required": ["to"],
    });
    let route = KnownTool {
        schema: Some(schema),
        ..KnownTool::default()
    };
    known
        .tools
        .get_or_insert_default()
        .insert("maps.route".to_owned(), route);
    known.executors = Some(BTreeSet::from(["mender".to_owned()]));
    known
}

/// The mistakes of `text` as a plan.
pub(crate) fn mistakes(text: &str) -> Vec<PlanError> {
    plan::parse(text, &known())
        .err()
        .map(|errors| errors.listed)
        .unwrap_or_default()
}

/// The blocks of a document that begin with ```` ```yaml word ````, each with its line.
pub(crate) fn blocks<'t>(text: &'t str, word: &str) -> Vec<(usize, &'t str)> {
    let fence = format!("```yaml {word}\n");
    let starts = text.match_indices(&fence).map(|(at, fence)| at + fence.len());
    starts
        .map(|start| {
            let inside = text[start..].split("\n```").next().unwrap_or_default();
            (text[..start].matches('\n').count() + 1, inside)
        })
        .collect()
}

#[test]
fn example_files_are_valid_plans() {
    let mut wrong = Vec::new();
    let examples = files_in("examples");
    let plans: Vec<_> = examples
        .iter()
        .filter(|file| file.is(&[".yaml", ".yml", ".json"]))
        .collect();
    assert!(!plans.is_empty(), "there are no examples");
    for file in plans {
        wrong.extend(
            mistakes(&file.text)
                .iter()
                .map(|error| format!("{}:{error}", file.path)),
        );
    }
    assert_none(&wrong);
}

#[test]
fn plan_blocks_in_documents_are_valid_plans() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for file in markdown_files() {
        for (line, block) in blocks(&file.text, "plan") {
            count += 1;
            wrong.extend(
                mistakes(block)
                    .iter()
                    .map(|error| format!("{}, block at line {line}: {error}", file.path)),
            );
        }
    }
    assert_none(&wrong);
    assert!(count > 10, "only {count} blocks are marked as plans");
}

/// The names in code that begin rows of a table.
fn names_in_rows(text: &str) -> Vec<String> {
    let row = Regex::new(r"(?m)^\| `([a-z_]+)`").expect("the expression is a constant");
    row.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

/// The part of a document below a heading, up to the next one of the same kind.
fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let (_, rest) = text
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("there is no {heading:?}"));
    let level = heading.split(' ').next().unwrap_or_default();
    rest.split(&format!("\n{level} ")).next().unwrap_or(rest)
}

#[test]
fn plans_document_names_every_schema_key() {
    let text = read("docs/plans.md");
    let schema: serde_json::Value = serde_json::from_str(plan::schema()).expect("the schema is JSON");
    let definitions = schema["$defs"].as_object().expect("the schema has definitions");
    let code = Regex::new("`[^`\\n]+`").expect("the expression is a constant");
    let word = Regex::new("[A-Za-z_]+").expect("the expression is a constant");
    let named: BTreeSet<&str> = code
        .find_iter(&text)
        .flat_map(|span| word.find_iter(span.as_str()).map(|word| word.as_str()))
        .collect();
    let keys = definitions.values().flat_map(|definition| {
        definition["properties"]
            .as_object()
            .into_iter()
            .flat_map(|keys| keys.keys())
    });
    let missing: Vec<String> = keys.filter(|key| !named.contains(key.as_str())).cloned().collect();
    assert_none(&missing);
}

#[test]
fn plans_document_lists_every_tool_and_argument() {
    let text = read("docs/plans.md");
    let tools = section(&text, "## Tools");
    let mut rows = names_in_rows(tools.split("\n### ").next().unwrap_or(tools));
    let registry = Registry::with_builtins();
    let mut names: Vec<String> = registry.specs().map(|spec| spec.name.clone()).collect();
    rows.sort();
    names.sort();
    assert_eq!(rows, names);
    let mut missing = Vec::new();
    for spec in registry.specs() {
        let about = section(tools, &format!("### {}", spec.name));
        for arg in spec
            .args
            .iter()
            .filter(|arg| !about.contains(&format!("`{}`", arg.name)))
        {
            missing.push(format!("{}: {}", spec.name, arg.name));
        }
    }
    assert_none(&missing);
}
