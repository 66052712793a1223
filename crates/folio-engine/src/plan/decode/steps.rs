//! Steps: which of the four kinds something is, groups, sequences and `for_each`.

use std::sync::Arc;

use crate::plan::cursor::At;
use crate::plan::errors::code;
use crate::plan::spanned::Tree;
use crate::plan::step::MAX_ITEMS_DEFAULT;
use crate::plan::{ForEach, Group, Join, OnHard, Sequence, Slug, Step, keys};
use crate::template::is_template;

use super::Decoder;

impl<'a> Decoder<'a> {
    pub(super) fn steps(&mut self, at: &At<'a>) -> Vec<Step> {
        match at.items() {
            Some(items) => items.iter().map(|item| self.step(item)).collect(),
            None => {
                self.faults.wrong_type(at, "a list of steps");
                Vec::new()
            }
        }
    }

    pub(super) fn step(&mut self, at: &At<'a>) -> Step {
        match &at.node.tree {
            Tree::String(title) => self.titled_task(at, title),
            Tree::List(_) => {
                let group = Group {
                    id: None,
                    title: String::new(),
                    steps: self.steps(at),
                    on_hard: OnHard::default(),
                    join: Join::default(),
                    optional: false,
                    tools: None,
                };
                self.with_origin(at, Step::Parallel(Arc::new(group)))
            }
            Tree::Object(_) => {
                const KINDS: [&str; 3] = ["parallel", "sequence", "for_each"];
                let is_of = |kind: &&str| at.key(kind).is_some() || (*kind == "for_each" && is_for_each(at));
                let kinds: Vec<&str> = KINDS.into_iter().filter(is_of).collect();
                if let [first, second, ..] = kinds.as_slice() {
                    let message = format!("a step cannot be both `{first}` and `{second}`");
                    self.faults
                        .add(at, code::TWO_WAYS, message)
                        .with_hint("nest one inside the other");
                }
                match kinds.first() {
                    Some(&"parallel") => self.group(at),
                    Some(&"sequence") => self.sequence(at),
                    Some(_) => self.for_each(at),
                    None => self.task(at),
                }
            }
            Tree::Null | Tree::Bool(_) | Tree::Number(_) => {
                self.faults
                    .wrong_type(at, "a step: a task, a list of steps that run together, or a text");
                self.broken_step(at)
            }
        }
    }

    /// Records where a step was written.
    pub(super) fn with_origin(&mut self, at: &At<'a>, step: Step) -> Step {
        self.origins.note(&step, at);
        step
    }

    /// A placeholder id for the step at `at`, whose own id could not be read. Messages never show it.
    pub(super) fn placeholder(&mut self, at: &At<'a>) -> Slug {
        self.placeholders += 1;
        let slug = Slug::parse(&format!("unreadable-step-{}", self.placeholders)).expect("the placeholder is a slug");
        self.origins.note_unnamed(slug.clone(), &at.path);
        slug
    }

    /// The id as it is written. An invalid one is remembered, because other steps may refer to it.
    pub(super) fn own_id(&mut self, at: &At<'a>) -> Option<Slug> {
        let slug = self.slug(at);
        if slug.is_none()
            && let Tree::String(text) = &at.node.tree
        {
            self.origins.unreadable_ids.push(text.clone());
        }
        slug
    }

    fn optional_id(&mut self, at: &At<'a>) -> Option<Slug> {
        let id = self.field(at, "id")?;
        self.own_id(&id)
    }

    fn group(&mut self, at: &At<'a>) -> Step {
        self.faults.unknown_keys(at, keys::GROUP, "a parallel group");
        let id = self.optional_id(at);
        let group = Group {
            id,
            title: self.text_or_empty(at, "title"),
            steps: self.member_steps(at, "parallel"),
            on_hard: self.on_hard(at, "on_hard"),
            join: self.join(at),
            optional: self.flag(at, "optional").unwrap_or_default(),
            tools: self.tools(at),
        };
        self.with_origin(at, Step::Parallel(Arc::new(group)))
    }

    fn sequence(&mut self, at: &At<'a>) -> Step {
        self.faults.unknown_keys(at, keys::SEQUENCE, "a sequence");
        let id = self.optional_id(at);
        let sequence = Sequence {
            id,
            title: self.text_or_empty(at, "title"),
            steps: self.member_steps(at, "sequence"),
            optional: self.flag(at, "optional").unwrap_or_default(),
            tools: self.tools(at),
        };
        self.with_origin(at, Step::Sequence(Arc::new(sequence)))
    }

    fn member_steps(&mut self, at: &At<'a>, key: &'static str) -> Vec<Step> {
        match self.field(at, key) {
            Some(steps) => self.steps(&steps),
            None => {
                self.faults.missing(at, key, "its steps");
                Vec::new()
            }
        }
    }

    fn on_hard(&mut self, at: &At<'a>, key: &'static str) -> OnHard {
        const CHOICES: [(&str, OnHard); 3] = [
            ("hold", OnHard::Hold),
            ("cancel", OnHard::Cancel),
            ("continue", OnHard::Continue),
        ];
        let value = self.field(at, key);
        value
            .and_then(|value| self.one_of(&value, &CHOICES))
            .unwrap_or_default()
    }

    fn join(&mut self, at: &At<'a>) -> Join {
        let Some(value) = self.field(at, "join") else {
            return Join::default();
        };
        match &value.node.tree {
            Tree::String(text) => {
                let inside = text.strip_prefix("quorum(").and_then(|rest| rest.strip_suffix(')'));
                if let Some(k) = inside.and_then(|inside| inside.trim().parse().ok()) {
                    return Join::Quorum(k);
                }
                if text.starts_with("quorum") {
                    let error = self.faults.bad_value(&value, format!("{text:?} does not say how many"));
                    error.with_hint("write `quorum(2)`");
                    return Join::default();
                }
                let choices = [("all_settled", Join::AllSettled), ("first_ok", Join::FirstOk)];
                self.one_of(&value, &choices).unwrap_or_default()
            }
            Tree::Object(_) => {
                self.faults.unknown_keys(&value, keys::JOIN, "a join");
                match self.field(&value, "quorum") {
                    Some(k) => self.u32(&k).map(Join::Quorum).unwrap_or_default(),
                    None => {
                        self.faults.missing(&value, "quorum", "how many branches must be ok");
                        Join::default()
                    }
                }
            }
            Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::List(_) => {
                self.faults
                    .wrong_type(&value, "`all_settled`, `first_ok` or `quorum(2)`");
                Join::default()
            }
        }
    }

    fn for_each(&mut self, at: &At<'a>) -> Step {
        let known: Vec<&'static str> = keys::FOR_EACH.iter().chain(keys::FOR_EACH_INLINE).copied().collect();
        self.faults.unknown_keys(at, &known, "a for_each");
        let (id, title) = self.id_and_title(at, "a for_each");
        // The list may be an object that says everything about the items.
        let list = at.key("for_each").filter(|list| list.node.get("over").is_some());
        if let Some(list) = &list {
            self.faults
                .unknown_keys(list, keys::FOR_EACH_LIST, "a list at `for_each`");
            if at.key("over").is_some() {
                self.said_twice(list, "over");
            }
        }
        let over = match self.field(list.as_ref().unwrap_or(at), "for_each") {
            Some(over) => over.node.to_json(),
            None => {
                self.faults
                    .missing(at, "for_each", "the list whose items are worked on");
                serde_json::Value::Array(Vec::new())
            }
        };
        let needs = self.field(at, "needs").map(|needs| self.slugs(&needs));
        let with_step = self.holder_of(at, list.as_ref(), "step");
        let (body, title) = self.for_each_body(at, &with_step, &id, title);
        let mut holder = |key| self.holder_of(at, list.as_ref(), key);
        let (with_name, with_max) = (holder("as"), holder("max_items"));
        let (with_on_item, with_concurrency) = (holder("on_item"), holder("concurrency"));
        let for_each = ForEach {
            id,
            title,
            over,
            item_name: self.item_name(&with_name),
            body,
            max_items: self.positive_field(&with_max, "max_items").unwrap_or(MAX_ITEMS_DEFAULT),
            on_item: self.on_hard(&with_on_item, "on_item"),
            concurrency: self.positive_field(&with_concurrency, "concurrency"),
            optional: self.flag(at, "optional").unwrap_or_default(),
            needs,
        };
        self.with_origin(at, Step::ForEach(Arc::new(for_each)))
    }

    /// Where `key` of a `for_each` is written: in the object `list` that may stand there, or beside it.
    fn holder_of(&mut self, at: &At<'a>, list: Option<&At<'a>>, key: &'static str) -> At<'a> {
        let has_key = |at: &At<'a>| {
            std::iter::once(key)
                .chain(keys::aliases(key))
                .any(|name| at.key(name).is_some())
        };
        let Some(list) = list.filter(|list| has_key(list)) else {
            return at.clone();
        };
        if has_key(at) {
            self.said_twice(list, key);
        }
        list.clone()
    }

    fn said_twice(&mut self, list: &At<'a>, key: &str) {
        let message = format!("`{key}` is given at `for_each` and beside it");
        self.faults.add(list, code::TWO_WAYS, message);
    }

    /// The body is either a `step`, which `with_step` may have, or a task whose keys are written beside `for_each`.
    fn for_each_body(&mut self, at: &At<'a>, with_step: &At<'a>, id: &Slug, title: String) -> (Step, String) {
        let inline = keys::FOR_EACH_INLINE
            .iter()
            .find_map(|key| self.field(at, key).map(|value| (*key, value)));
        match (self.field(with_step, "step"), inline) {
            (Some(step), None) => (self.step(&step), title),
            (Some(step), Some((key, value))) => {
                let message = format!("`{key}` belongs to a task, and the task is in `step`");
                self.faults
                    .add(&value, code::TWO_WAYS, message)
                    .with_hint(format!("move `{key}` into `step`"));
                (self.step(&step), title)
            }
            (None, Some(_)) => {
                // The title of the whole `for_each` is shown once, where there is no item to fill in.
                let own_title = if is_template(&title) {
                    id.to_string()
                } else {
                    title.clone()
                };
                let body = self.task_named(at, id.clone(), title);
                (body, own_title)
            }
            (None, None) => {
                let error = self.faults.missing(at, "step", "what is done for each item");
                error.with_hint("write `step`, or `do`, `plan` or `description` beside `for_each`");
                (self.broken_step(at), title)
            }
        }
    }

    fn item_name(&mut self, at: &At<'a>) -> String {
        const RESERVED: [&str; 14] = [
            "inputs", "results", "result", "run", "goal", "index", "loop", "self", "true", "false", "none", "not",
            "in", "is",
        ];
        let Some(value) = self.field(at, "as") else {
            return "item".to_owned();
        };
        let Some(name) = self.text(&value) else {
            return "item".to_owned();
        };
        let is_identifier = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_identifier || RESERVED.contains(&name.as_str()) {
            let error = self
                .faults
                .bad_value(&value, format!("an item cannot be called {name:?}"));
            error.with_hint(format!(
                "use letters, digits and `_`, and none of {}",
                RESERVED.join(", ")
            ));
            return "item".to_owned();
        }
        name
    }
}

/// Whether the object at `at` is a `for_each`.
pub(super) fn is_for_each(at: &At<'_>) -> bool {
    let mut names = std::iter::once("for_each").chain(keys::aliases("for_each"));
    names.any(|name| at.key(name).is_some())
}
