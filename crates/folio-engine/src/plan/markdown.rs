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

use std::collections::{BTreeMap, BTreeSet};

use folio_memory::excerpt::one_line;
use serde_json::{Map, Value, json};

use super::emit::to_yaml;
use super::errors::{PlanError, code};
use super::spanned::{self, Entry, Node, Tree};
use super::{Place, Step};

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
    let is_step = |line: &str| {
        item_of(line).is_some_and(|(_, text, _)| mark_of(text).is_some() || attributes(text).1 != Attributes::default())
    };
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

/// One line of the list, with what is written below it.
#[derive(Debug, Default)]
struct Item {
    indent: usize,
    line: u32,
    column: u32,
    mark: Option<char>,
    title: String,
    named: Attributes,
    /// The YAML block below, and the line and column where it begins.
    block: Option<(String, u32, u32)>,
    /// The text below, and where it begins.
    text: Vec<String>,
    text_at: Option<Place>,
    /// The first word in the braces after the title that means nothing.
    unknown_attribute: Option<String>,
    members: Vec<Self>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Attributes {
    slug: Option<String>,
    class: Option<&'static str>,
}

/// Reads the steps of a plan in markdown. `known` are the steps as they are now.
pub(super) fn read(text: &str, known: &[ShownStep]) -> Result<Node, Vec<PlanError>> {
    if text.len() > spanned::TEXT_BYTES_MAX {
        let message = format!(
            "the plan has {} bytes; at most {} are read",
            text.len(),
            spanned::TEXT_BYTES_MAX
        );
        return Err(vec![spanned::unreadable(spanned::START, message)]);
    }
    let mut errors = Vec::new();
    let items = nested(items_of(text, &mut errors));
    let mut by_slug = BTreeMap::new();
    known.iter().for_each(|step| index(step, &mut by_slug));
    let mut reader = Reader { by_slug, errors };
    let steps = reader.steps(items, 0);
    if reader.errors.is_empty() {
        Ok(Node {
            place: spanned::START,
            tree: Tree::List(steps),
        })
    } else {
        // Mistakes in lines were found before those in blocks.
        reader.errors.sort_by_key(|error| error.place);
        Err(reader.errors)
    }
}

fn index<'s>(step: &'s ShownStep, by_slug: &mut BTreeMap<&'s str, &'s ShownStep>) {
    by_slug.insert(&step.slug, step);
    step.members.iter().for_each(|member| index(member, by_slug));
}

/// The hint for a block without a line of its own.
const WITHOUT_LINE: &str = "if you removed the line of a step, remove its block, too";

/// The lines of the list in order, each with its block and text.
fn items_of(text: &str, errors: &mut Vec<PlanError>) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut lines = text.lines().enumerate();
    let mut in_comment = false;
    while let Some((number, line)) = lines.next() {
        let number = u32::try_from(number + 1).unwrap_or(u32::MAX);
        let trimmed = line.trim();
        if in_comment || trimmed.starts_with("<!--") {
            in_comment = !trimmed.contains("-->");
            continue;
        }
        let indent = indent_of(line);
        if trimmed.is_empty() || trimmed.starts_with('#') && indent == 0 {
            continue;
        }
        if let Some((indent, rest, column)) = item_of(line) {
            let (mark, rest) = mark_of(rest).map_or((None, rest), |(mark, rest)| (Some(mark), rest));
            let (title, named) = attributes(rest);
            let unknown = (named == Attributes::default())
                .then(|| first_unknown_attribute(rest))
                .flatten();
            items.push(Item {
                indent,
                line: number,
                column,
                mark,
                title: title.to_owned(),
                named,
                unknown_attribute: unknown,
                ..Item::default()
            });
            continue;
        }
        let place = Place {
            line: number,
            column: u32::try_from(indent + 1).unwrap_or(u32::MAX),
        };
        let Some(item) = items.last_mut().filter(|item| indent > item.indent) else {
            let hint = trimmed.starts_with("```").then(|| WITHOUT_LINE.to_owned());
            errors.push(PlanError {
                hint,
                ..spanned::unreadable(
                    place,
                    "this line is not a step: a step begins with `- `, and what belongs to it is indented",
                )
            });
            continue;
        };
        if let Some(fence) = trimmed.strip_prefix("```") {
            let fence = fence.trim();
            if !matches!(fence, "" | "yaml" | "yml" | "json") {
                errors.push(spanned::unreadable(
                    place,
                    format!("the block of a step is YAML, not {fence}"),
                ));
            }
            let mut block = String::new();
            let mut is_closed = false;
            for (_, line) in lines.by_ref() {
                if line.trim() == "```" {
                    is_closed = true;
                    break;
                }
                block.push_str(&line[indent_of(line).min(indent)..]);
                block.push('\n');
            }
            if !is_closed {
                errors.push(spanned::unreadable(place, "this block is not closed by ```"));
            }
            if item.block.is_some() {
                errors.push(PlanError {
                    hint: Some(WITHOUT_LINE.to_owned()),
                    ..spanned::unreadable(place, "this step has two blocks; put everything into one")
                });
            }
            item.block = Some((block, number, u32::try_from(indent).unwrap_or(u32::MAX)));
        } else {
            item.text_at.get_or_insert(place);
            item.text.push(trimmed.to_owned());
        }
    }
    items
}

/// The indentation of a line. White space other than spaces and tabs is content, as in YAML.
fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// The indentation of a list line, its text, and the column where the text begins.
fn item_of(line: &str) -> Option<(usize, &str, u32)> {
    let indent = indent_of(line);
    let trimmed = &line[indent..];
    let rest = trimmed
        .strip_prefix("- ")
        .or_else(|| trimmed.strip_prefix("* "))
        .or_else(|| trimmed.strip_prefix("+ "))?;
    Some((indent, rest.trim(), u32::try_from(indent + 3).unwrap_or(u32::MAX)))
}

/// Splits `[x] title` into its mark and title.
fn mark_of(text: &str) -> Option<(char, &str)> {
    let mut chars = text.strip_prefix('[')?.chars();
    let mark = chars.next().filter(|mark| " xX~!-".contains(*mark))?;
    let rest = chars.as_str().strip_prefix(']')?;
    (rest.is_empty() || rest.starts_with(' ')).then(|| (mark, rest.trim()))
}

/// The title of a line and the attributes in braces after it. Anything after the braces is for people.
fn attributes(text: &str) -> (&str, Attributes) {
    let mut end = text.len();
    while let Some(open) = text[..end].rfind('{') {
        if let Some(close) = text[open..].find('}')
            && let Some(parsed) = attributes_in(&text[open + 1..open + close])
        {
            return (text[..open].trim(), parsed);
        }
        end = open;
    }
    (text.trim(), Attributes::default())
}

/// The first meaningless word in braces that also hold a meaningful one: `{#looks .paralel}`.
fn first_unknown_attribute(text: &str) -> Option<String> {
    let (_, behind) = text.rsplit_once('{')?;
    let (inside, _) = behind.split_once('}')?;
    let words = || inside.split(' ').filter(|word| !word.is_empty());
    let names_one = words().any(|word| attributes_in(word).is_some());
    let unknown = words().find(|word| attributes_in(word).is_none() && word.starts_with(['.', '#']))?;
    names_one.then(|| unknown.to_owned())
}

fn attributes_in(text: &str) -> Option<Attributes> {
    let mut attributes = Attributes::default();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if let Some(slug) = word.strip_prefix('#').filter(|slug| super::Slug::parse(slug).is_ok()) {
            attributes.slug = Some(slug.to_owned());
        } else {
            attributes.class = Some(match word {
                ".parallel" => "parallel",
                ".sequence" => "sequence",
                _ => return None,
            });
        }
    }
    (attributes != Attributes::default()).then_some(attributes)
}

/// Nests the items: an item that is indented more belongs to the one before it.
fn nested(items: Vec<Item>) -> Vec<Item> {
    let mut open: Vec<Item> = Vec::new();
    let mut roots = Vec::new();
    let close = |open: &mut Vec<Item>, roots: &mut Vec<Item>| {
        if let Some(item) = open.pop() {
            match open.last_mut() {
                Some(above) => above.members.push(item),
                None => roots.push(item),
            }
        }
    };
    for item in items {
        while open.last().is_some_and(|above| item.indent <= above.indent) {
            close(&mut open, &mut roots);
        }
        open.push(item);
    }
    while !open.is_empty() {
        close(&mut open, &mut roots);
    }
    roots
}

struct Reader<'s> {
    by_slug: BTreeMap<&'s str, &'s ShownStep>,
    errors: Vec<PlanError>,
}

impl Reader<'_> {
    fn steps(&mut self, items: Vec<Item>, depth: usize) -> Vec<Node> {
        let stands: BTreeSet<String> = items
            .iter()
            .filter(|item| item.mark != Some('-'))
            .filter_map(|item| item.named.slug.clone())
            .collect();
        // A step that was stopped has the same mark as one that the edit drops, but it remains part of the plan.
        let by_slug = &self.by_slug;
        let has_ended = |item: &Item| {
            let slug = item.named.slug.as_deref().filter(|slug| !stands.contains(*slug));
            slug.and_then(|slug| by_slug.get(slug))
                .is_some_and(|known| !known.is_open)
        };
        let kept: Vec<Item> = items
            .into_iter()
            .filter(|item| item.mark != Some('-') || has_ended(item))
            .collect();
        kept.into_iter().map(|item| self.step(item, depth)).collect()
    }

    fn step(&mut self, item: Item, depth: usize) -> Node {
        let place = Place {
            line: item.line,
            column: item.column,
        };
        if depth > spanned::DEPTH_MAX / 2 {
            self.errors.push(spanned::too_deep(place));
            return Node {
                place,
                tree: Tree::Null,
            };
        }
        let known = item
            .named
            .slug
            .as_deref()
            .and_then(|slug| self.by_slug.get(slug).copied());
        self.report_meaningless_parts(&item, place, known);
        let has_block = item.block.is_some();
        let mut entries = match &item.block {
            Some((block, line, column)) => self.block(block, *line, *column),
            None => known.map_or_else(Vec::new, |known| entries_of(&json!(known.step), place)),
        };
        let has_key = |entries: &[Entry], key: &str| entries.iter().any(|entry| entry.key == key);
        let text = |text: &str| Node {
            place,
            tree: Tree::String(text.to_owned()),
        };
        let set_entry = |entries: &mut Vec<Entry>, key: &str, value: Node| {
            entries.retain(|entry| entry.key != key);
            entries.push(Entry {
                key: key.to_owned(),
                place,
                value,
            });
        };
        if let Some(slug) = item.named.slug.as_deref().filter(|_| !has_key(&entries, "id")) {
            set_entry(&mut entries, "id", text(slug));
        }
        let is_group = item.named.class.is_some() || !item.members.is_empty();
        let is_its_name = item.named.slug.as_deref() == Some(item.title.as_str());
        let as_it_was = known.is_some_and(|known| {
            let authored = known.step.title();
            item.title == one_line(authored) || item.title == one_line(&known.title) || is_its_name
        });
        let keeps_title = match (has_block, known) {
            (true, _) => has_key(&entries, "title") || is_group && is_its_name,
            (false, Some(_)) => as_it_was,
            (false, None) => is_group && is_its_name,
        };
        let titled = entries.iter().find(|entry| has_block && entry.key == "title");
        let says_another = |titled: &&Entry| match &titled.value.tree {
            Tree::String(own) => !(as_it_was || item.title.is_empty() || item.title == one_line(own)),
            _ => false,
        };
        if let Some(titled) = titled.filter(|_| !is_its_name).filter(says_another) {
            let error = duplicate_key_error(place, "title", titled, "leave it out of the block, or change it there");
            self.errors.push(error);
        }
        if !keeps_title && !item.title.is_empty() {
            set_entry(&mut entries, "title", text(&item.title));
        }
        let described = entries.iter().find(|entry| has_block && entry.key == "description");
        if let (Some(text_at), Some(first)) = (item.text_at, described) {
            self.errors.push(duplicate_key_error(
                text_at,
                "description",
                first,
                "write all of it in the block",
            ));
        } else if !item.text.is_empty() {
            set_entry(&mut entries, "description", text(&item.text.join("\n")));
        }
        // A member that is no longer listed below its group was taken out of it.
        if !item.members.is_empty() || item.named.class.is_some() {
            let known_kind = known.and_then(|known| match &known.step {
                Step::Parallel(_) => Some("parallel"),
                Step::Sequence(_) => Some("sequence"),
                Step::Task(_) | Step::ForEach(_) => None,
            });
            let key = item.named.class.or(known_kind).unwrap_or("parallel");
            entries.retain(|entry| !matches!(entry.key.as_str(), "parallel" | "sequence"));
            let members = self.steps(item.members, depth + 1);
            set_entry(
                &mut entries,
                key,
                Node {
                    place,
                    tree: Tree::List(members),
                },
            );
        }
        Node {
            place,
            tree: Tree::Object(entries),
        }
    }

    /// Reports what a line asks for that an edit cannot do, or that has no meaning.
    fn report_meaningless_parts(&mut self, item: &Item, place: Place, known: Option<&ShownStep>) {
        if let Some(word) = &item.unknown_attribute {
            let message = format!("`{word}` has no meaning after a title");
            self.errors.push(PlanError {
                hint: Some("write `#` with the id of the step, `.parallel` or `.sequence`".to_owned()),
                ..spanned::unreadable(place, message)
            });
        }
        let is_ticked = matches!(item.mark, Some('x' | 'X'));
        if let Some(open) = known.filter(|known| is_ticked && known.is_open) {
            self.errors.push(PlanError {
                code: code::BAD_VALUE,
                place,
                path: String::new(),
                message: format!("`{}` has not begun, and ticking it does not mark it as done", open.slug),
                hint: Some("write `[-]` to drop it, or `[ ]` to leave it unchanged".to_owned()),
            });
        }
    }

    /// The entries of a block, with their places in the whole text.
    fn block(&mut self, block: &str, line: u32, column: u32) -> Vec<Entry> {
        let moved = |place: Place| Place {
            line: place.line.saturating_add(line),
            column: place.column.saturating_add(column),
        };
        let reading = match spanned::read(block) {
            Ok(reading) => reading,
            Err(error) => {
                let place = moved(error.place);
                self.errors.push(PlanError { place, ..error });
                return Vec::new();
            }
        };
        for error in reading.errors {
            let place = moved(error.place);
            self.errors.push(PlanError { place, ..error });
        }
        let mut root = reading.root;
        map_places(&mut root, &moved);
        match root.tree {
            Tree::Object(entries) => entries,
            Tree::Null => Vec::new(),
            _ => {
                self.errors.push(PlanError {
                    code: code::WRONG_TYPE,
                    place: root.place,
                    path: String::new(),
                    message: format!("a block is an object with the keys of a step; this is {}", root.kind()),
                    hint: None,
                });
                Vec::new()
            }
        }
    }
}

/// The mistake that what the line at `place` says is in its block too.
fn duplicate_key_error(place: Place, key: &str, first: &Entry, hint: &str) -> PlanError {
    PlanError {
        hint: Some(hint.to_owned()),
        ..spanned::duplicate_key(place, key, first.place)
    }
}

fn entries_of(value: &Value, place: Place) -> Vec<Entry> {
    let mut node = Node::of_json(value);
    map_places(&mut node, &|_| place);
    match node.tree {
        Tree::Object(entries) => entries,
        _ => Vec::new(),
    }
}

fn map_places(node: &mut Node, moved: &impl Fn(Place) -> Place) {
    node.place = moved(node.place);
    match &mut node.tree {
        Tree::List(items) => items.iter_mut().for_each(|item| map_places(item, moved)),
        Tree::Object(entries) => {
            for entry in entries {
                entry.place = moved(entry.place);
                map_places(&mut entry.value, moved);
            }
        }
        Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::String(_) => {}
    }
}
