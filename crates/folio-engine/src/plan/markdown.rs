//! A plan as a list in markdown: people read it, tick it off and edit it; reading it back gives the plan again (E9.14).
//!
//! ```text
//! - [x] Files and languages {#files} · ok
//! - [ ] Two looks {#looks .parallel}
//!   - [ ] Leftover marks {#marks}
//!     ```yaml
//!     do: {tool: grep, args: {pattern: TODO}}
//!     ```
//! ```
//!
//! Each line is a step. Its title is followed by its id in braces, with `.parallel` or `.sequence` if steps are listed
//! below it; anything after that is for people only. Everything else that the plan says about the step is YAML in a
//! block below. A line without such a block that has the id of a step means that step unchanged. A line marked `[-]` is
//! not part of the plan, unless its step has begun.

mod items;
mod read;

use folio_memory::excerpt::one_line;
use serde_json::{Map, Value, json};

use super::Step;
use super::emit::to_yaml;
use items::{indent_of, is_step};
pub(super) use read::read;

/// The status of a step that has not begun.
pub(crate) const WAITING: &str = "waiting";

/// A step of a plan in its current state, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownStep {
    /// The name of the step.
    pub slug: String,
    /// The step as the plan has it, groups with their names.
    pub step: Step,
    /// The title, with templates filled in as far as possible.
    pub title: String,
    /// ` ` if it has not begun, `~` while it runs, `x` when it is done, `!` when it failed, `-` when it was skipped or
    /// stopped.
    pub mark: char,
    /// How the step ended.
    pub outcome: Option<String>,
    /// `waiting`, `running`, `waiting_input` or `awaiting_approval` if a person is asked, `superseded` if another plan
    /// replaced it, or the outcome.
    pub status: &'static str,
    /// Whether an edit may change it, because it has not begun.
    pub is_open: bool,
    /// The members, if it is a group or a sequence.
    pub members: Vec<Self>,
}

impl ShownStep {
    /// `steps` as they were written, without any state: for checking a text without a run.
    #[must_use]
    pub fn from_plan_steps(steps: &[Step]) -> Vec<Self> {
        let graph = super::Graph::of(steps);
        let of = |at: usize| Self::of_graph(&graph, at);
        graph.roots().map(of).collect()
    }

    fn of_graph(graph: &super::Graph, at: usize) -> Self {
        let node = &graph.nodes[at];
        let members: Vec<Self> = node
            .children
            .iter()
            .map(|child| Self::of_graph(graph, *child))
            .collect();
        let step = node
            .step
            .named(&node.slug, members.iter().map(|m| m.step.clone()).collect());
        Self {
            slug: node.slug.to_string(),
            title: step.title().to_owned(),
            step,
            mark: ' ',
            outcome: None,
            status: WAITING,
            is_open: true,
            members,
        }
    }
}

/// The steps in markdown, one line each, with the other keys of a step below its line.
#[must_use]
pub fn to_markdown(steps: &[ShownStep]) -> String {
    let mut out = String::new();
    steps.iter().for_each(|step| put(&mut out, step, 0));
    out
}

fn put(out: &mut String, shown: &ShownStep, depth: usize) {
    let indent = "  ".repeat(depth);
    let mut rest = match json!(shown.step) {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    rest.remove("id");
    let class = match &shown.step {
        Step::Parallel(_) => " .parallel",
        Step::Sequence(_) => " .sequence",
        Step::Task(_) | Step::ForEach(_) => "",
    };
    if !class.is_empty() {
        rest.remove(class.trim_start_matches(" ."));
    }
    let title = shown.step.title();
    let is_one_line = one_line(title) == title && !title.is_empty();
    let line = if is_one_line { title } else { &shown.slug };
    // A title that equals the group's name is still kept.
    if is_one_line && (class.is_empty() || title != shown.slug) || title.is_empty() {
        rest.remove("title");
    }
    let outcome = shown
        .outcome
        .as_ref()
        .map(|outcome| format!(" · {outcome}"))
        .unwrap_or_default();
    out.push_str(&format!(
        "{indent}- [{}] {line} {{#{}{class}}}{outcome}\n",
        shown.mark, shown.slug
    ));
    if !rest.is_empty() {
        out.push_str(&format!("{indent}  ```yaml\n"));
        for line in to_yaml(&Value::Object(rest)).lines() {
            out.push_str(&format!("{indent}  {line}\n"));
        }
        out.push_str(&format!("{indent}  ```\n"));
    }
    shown.members.iter().for_each(|member| put(out, member, depth + 1));
}

/// The steps as a plan in YAML.
#[must_use]
pub fn to_yaml_steps(steps: &[ShownStep]) -> String {
    let steps: Vec<&Step> = steps.iter().map(|shown| &shown.step).collect();
    to_yaml(&json!({ "steps": steps }))
}

/// Whether `text` is a plan in markdown and not in YAML or JSON.
///
/// `#` begins a heading in markdown and a comment in YAML, and texts in YAML may contain task lists too, so the first
/// line with content decides.
pub(super) fn is_markdown(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let Some(first) = lines.next() else { return false };
    if first.trim_start().starts_with("<!--") {
        return true;
    }
    if !first.starts_with('#') {
        return is_step(first);
    }
    let Some(content_line) = lines.find(|line| !line.trim_start().starts_with('#')) else {
        return false;
    };
    // In YAML, nothing can follow such a comment.
    if content_line.trim_start().starts_with("<!--") || is_step(content_line) {
        return true;
    }
    if !may_be_yaml(content_line) {
        return lines.any(is_step);
    }
    // `- Look: at it` may also be a title: the other lines of the same list decide. Lines with more indentation may be
    // a text in YAML.
    let is_list = |line: &str| line.trim_start().starts_with("- ");
    let is_beside = |line: &str| is_list(line) && indent_of(line) == indent_of(content_line);
    is_list(content_line) && lines.any(|line| is_beside(line) && is_step(line))
}

/// Whether a plan in YAML may begin with `line`, which then is a key or a step in a list.
fn may_be_yaml(line: &str) -> bool {
    let line = line.trim();
    let line = line.strip_prefix("- ").unwrap_or(line).trim();
    let is_marked =
        line.starts_with(['{', '[', '"', '\'', '&', '*', '!', '|', '>', '%', '?']) || line.starts_with("---");
    is_marked || line.ends_with(':') || line.contains(": ")
}

/// The version of the plan that a text is based on: `… folio plan … version 2` in one of its first eight comment lines.
pub(super) fn version_of(text: &str) -> Option<u32> {
    let comment = text
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with('#') || line.starts_with("<!--"))
        .take(8)
        .find(|line| line.contains("folio plan "))?;
    let (_, after) = comment.rsplit_once("version ")?;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
