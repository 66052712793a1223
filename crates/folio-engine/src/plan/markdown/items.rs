//! The lines of a plan in markdown, each with what is written below it.

use crate::plan::errors::PlanError;
use crate::plan::{Place, Slug, spanned};

/// One line of the list, with what is written below it.
#[derive(Debug, Default)]
pub(super) struct Item {
    pub(super) indent: usize,
    pub(super) line: u32,
    pub(super) column: u32,
    pub(super) mark: Option<char>,
    pub(super) title: String,
    pub(super) named: Attributes,
    /// The YAML block below, and the line and column where it begins.
    pub(super) block: Option<(String, u32, u32)>,
    /// The text below, and where it begins.
    pub(super) text: Vec<String>,
    pub(super) text_at: Option<Place>,
    /// The first word in the braces after the title that means nothing.
    pub(super) unknown_attribute: Option<String>,
    pub(super) members: Vec<Self>,
}

impl Item {
    /// The item that begins with `line`, if it is a line of the list.
    fn of_line(line: &str, number: u32) -> Option<Self> {
        let (indent, text, column) = item_of(line)?;
        let (mark, text) = mark_of(text).map_or((None, text), |(mark, text)| (Some(mark), text));
        let (title, named) = attributes(text);
        let unknown_attribute = (named == Attributes::default())
            .then(|| first_unknown_attribute(text))
            .flatten();
        Some(Self {
            indent,
            line: number,
            column,
            mark,
            title: title.to_owned(),
            named,
            unknown_attribute,
            ..Self::default()
        })
    }

    /// Whether it says that it is a group.
    pub(super) fn is_group(&self) -> bool {
        self.named.class.is_some() || !self.members.is_empty()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) slug: Option<String>,
    pub(super) class: Option<&'static str>,
}

/// The hint for a block without a line of its own.
const WITHOUT_LINE: &str = "if you removed the line of a step, remove its block, too";

/// The heading of the list of further pages at the end of a page; none of them is a step.
const PAGES: &str = "## Pages";

/// The items of `text`, those that are indented more inside those before them.
pub(super) fn read_items(text: &str, errors: &mut Vec<PlanError>) -> Vec<Item> {
    nested(items_of(text, errors))
}

/// Whether `line` begins a step, and is not just a line of some list.
pub(super) fn is_step(line: &str) -> bool {
    item_of(line).is_some_and(|(_, text, _)| mark_of(text).is_some() || attributes(text).1 != Attributes::default())
}

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
        if indent == 0 && trimmed == PAGES {
            break;
        }
        if trimmed.is_empty() || trimmed.starts_with('#') && indent == 0 {
            continue;
        }
        if let Some(item) = Item::of_line(line, number) {
            items.push(item);
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
        if let Some(language) = trimmed.strip_prefix("```") {
            let language = language.trim();
            if !matches!(language, "" | "yaml" | "yml" | "json") {
                let message = format!("the block of a step is YAML, not {language}");
                errors.push(spanned::unreadable(place, message));
            }
            let (block, is_closed) = fenced(&mut lines, indent);
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

/// The lines up to the end of a block that is indented by `indent`, and whether it has an end.
fn fenced<'t>(lines: &mut impl Iterator<Item = (usize, &'t str)>, indent: usize) -> (String, bool) {
    let mut block = String::new();
    for (_, line) in lines {
        if line.trim() == "```" {
            return (block, true);
        }
        block.push_str(&line[indent_of(line).min(indent)..]);
        block.push('\n');
    }
    (block, false)
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

/// The indentation of a line. White space other than spaces and tabs is content, as in YAML.
pub(super) fn indent_of(line: &str) -> usize {
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
        if let Some(slug) = word.strip_prefix('#').filter(|slug| Slug::parse(slug).is_ok()) {
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
