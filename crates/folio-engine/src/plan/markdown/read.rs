//! From a plan in markdown to the tree that a plan in YAML would have.

use std::collections::{BTreeMap, BTreeSet};

use folio_memory::excerpt::one_line;
use serde_json::{Value, json};

use super::ShownStep;
use super::items::{Item, read_items};
use crate::plan::errors::{PlanError, code};
use crate::plan::spanned::{self, Entry, Node, Tree};
use crate::plan::{Place, Step};
use crate::result::Outcome;

/// Reads the steps of a plan in markdown. `known` are the steps as they are now.
pub(in crate::plan) fn read(text: &str, known: &[ShownStep]) -> Result<Node, Vec<PlanError>> {
    if text.len() > spanned::TEXT_BYTES_MAX {
        let message = format!(
            "the plan has {} bytes; at most {} are read",
            text.len(),
            spanned::TEXT_BYTES_MAX
        );
        return Err(vec![spanned::unreadable(spanned::START, message)]);
    }
    let mut errors = Vec::new();
    let items = read_items(text, &mut errors);
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

struct Reader<'s> {
    by_slug: BTreeMap<&'s str, &'s ShownStep>,
    errors: Vec<PlanError>,
}

/// The keys of one step, all of them at the place of its line unless a block has them.
struct Keys {
    place: Place,
    entries: Vec<Entry>,
}

impl Keys {
    fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    fn set(&mut self, key: &str, tree: Tree) {
        self.entries.retain(|entry| entry.key != key);
        let place = self.place;
        self.entries.push(Entry {
            key: key.to_owned(),
            place,
            value: Node { place, tree },
        });
    }

    fn set_text(&mut self, key: &str, text: &str) {
        self.set(key, Tree::String(text.to_owned()));
    }
}

impl Reader<'_> {
    fn steps(&mut self, items: Vec<Item>, depth: usize) -> Vec<Node> {
        let stands: BTreeSet<String> = items
            .iter()
            .filter(|item| item.mark != Some('-'))
            .filter_map(|item| item.named.slug.clone())
            .collect();
        // Pages gave a step that was cancelled the mark of one that the edit drops, but it remains part of the plan.
        let by_slug = &self.by_slug;
        let was_cancelled = |item: &Item| {
            let slug = item.named.slug.as_deref().filter(|slug| !stands.contains(*slug));
            slug.and_then(|slug| by_slug.get(slug))
                .is_some_and(|known| known.outcome.as_deref() == Some(Outcome::Cancelled.as_str()))
        };
        let kept: Vec<Item> = items
            .into_iter()
            .filter(|item| item.mark != Some('-') || was_cancelled(item))
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
        let slug = item.named.slug.as_deref();
        let known = slug.and_then(|slug| self.by_slug.get(slug).copied());
        self.report_meaningless_parts(&item, place, known);
        let mut keys = Keys {
            place,
            entries: match &item.block {
                Some((block, line, column)) => self.block(block, *line, *column),
                None => known.map_or_else(Vec::new, |known| entries_of(&json!(known.step), place)),
            },
        };
        if let Some(slug) = slug.filter(|_| keys.get("id").is_none()) {
            keys.set_text("id", slug);
        }
        self.set_title(&item, known, &mut keys);
        self.set_description(&item, &mut keys);
        // A member that is no longer listed below its group was taken out of it.
        if item.is_group() {
            let known_kind = known.and_then(|known| match &known.step {
                Step::Parallel(_) => Some("parallel"),
                Step::Sequence(_) => Some("sequence"),
                Step::Task(_) | Step::ForEach(_) => None,
            });
            let key = item.named.class.or(known_kind).unwrap_or("parallel");
            keys.entries
                .retain(|entry| !matches!(entry.key.as_str(), "parallel" | "sequence"));
            let members = self.steps(item.members, depth + 1);
            keys.set(key, Tree::List(members));
        }
        Node {
            place,
            tree: Tree::Object(keys.entries),
        }
    }

    /// Sets the title that the line of `item` says, unless the line only repeats what the step goes by.
    fn set_title(&mut self, item: &Item, known: Option<&ShownStep>, keys: &mut Keys) {
        let is_its_name = item.named.slug.as_deref() == Some(item.title.as_str());
        let as_it_was = known.is_some_and(|known| {
            let authored = known.step.title();
            item.title == one_line(authored) || item.title == one_line(&known.title) || is_its_name
        });
        let in_block = keys.get("title").filter(|_| item.block.is_some());
        let keeps_title = match (item.block.is_some(), known) {
            (true, _) => in_block.is_some() || item.is_group() && is_its_name,
            (false, Some(_)) => as_it_was,
            (false, None) => item.is_group() && is_its_name,
        };
        let says_another = |titled: &&Entry| match &titled.value.tree {
            Tree::String(own) => !(as_it_was || item.title.is_empty() || item.title == one_line(own)),
            _ => false,
        };
        if let Some(titled) = in_block.filter(|_| !is_its_name).filter(says_another) {
            let hint = "leave it out of the block, or change it there";
            self.errors.push(duplicate_key_error(keys.place, "title", titled, hint));
        }
        if !keeps_title && !item.title.is_empty() {
            keys.set_text("title", &item.title);
        }
    }

    /// Sets the description that stands below the line of `item`.
    fn set_description(&mut self, item: &Item, keys: &mut Keys) {
        let in_block = keys.get("description").filter(|_| item.block.is_some());
        if let (Some(text_at), Some(first)) = (item.text_at, in_block) {
            let hint = "write all of it in the block";
            self.errors
                .push(duplicate_key_error(text_at, "description", first, hint));
        } else if !item.text.is_empty() {
            keys.set_text("description", &item.text.join("\n"));
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
