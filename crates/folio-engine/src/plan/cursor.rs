//! A path through the tree of a plan that knows where it is, and the list of mistakes found on the way.

use super::errors::{PlanError, code};
use super::nearest::did_you_mean;
use super::reads::Segment;
use super::spanned::{Node, START, Tree};

/// A value in the text of a plan, and the path to it.
#[derive(Debug, Clone)]
pub(super) struct At<'a> {
    pub(super) node: &'a Node,
    pub(super) path: String,
}

impl<'a> At<'a> {
    pub(super) fn root(node: &'a Node) -> Self {
        Self {
            node,
            path: String::new(),
        }
    }

    pub(super) fn key(&self, key: &str) -> Option<Self> {
        self.node.get(key).map(|node| self.below_key(node, key))
    }

    pub(super) fn below_key(&self, node: &'a Node, key: &str) -> Self {
        let is_plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        let path = match (self.path.as_str(), is_plain) {
            ("", true) => key.to_owned(),
            (path, true) => format!("{path}.{key}"),
            (path, false) => format!("{path}[{key:?}]"),
        };
        Self { node, path }
    }

    /// The value of `key`. A null counts as absent.
    pub(super) fn given(&self, key: &str) -> Option<Self> {
        self.key(key).filter(|value| value.node.tree != Tree::Null)
    }

    /// The first item that equals the text or number `text`, if this is a list.
    pub(super) fn find_item_equal_to(&self, text: &str) -> Option<Self> {
        let items = self.node.items()?;
        let index = items.iter().position(|item| item.equals_text(text))?;
        self.item(index)
    }

    /// The item at `index`, if this is a list.
    pub(super) fn item(&self, index: usize) -> Option<Self> {
        let node = self.node.items()?.get(index)?;
        let path = format!("{}[{index}]", self.path);
        Some(Self { node, path })
    }

    /// The items, if this is a list.
    pub(super) fn items(&self) -> Option<Vec<Self>> {
        (0..self.node.items()?.len()).map(|index| self.item(index)).collect()
    }

    /// Follows `path` as far as the author wrote it out. Where a shorter form was used (a list instead of an object, a
    /// text instead of either), returns the place of that. `None` if nothing was written there at all.
    pub(super) fn follow(&self, path: &[Segment]) -> Option<Self> {
        let mut at = self.clone();
        for segment in path {
            at = match (&at.node.tree, segment) {
                (Tree::Object(_), Segment::Key(key)) => {
                    let mut names = std::iter::once(*key).chain(super::keys::aliases(key));
                    names.find_map(|name| at.key(name))?
                }
                (Tree::List(_), Segment::Index(index)) => at.item(*index)?,
                (Tree::List(_) | Tree::String(_), Segment::Key(_))
                | (Tree::Object(_) | Tree::String(_), Segment::Index(_)) => at,
                (Tree::Null | Tree::Bool(_) | Tree::Number(_), _) => return None,
            };
        }
        Some(at)
    }

    /// The name of the place in messages: its line and column, or its path if the plan has no text.
    pub(super) fn named(&self) -> String {
        // Only the whole plan can begin at the start of a text.
        if self.node.place == START {
            self.path.clone()
        } else {
            self.node.place.to_string()
        }
    }

    /// Like [`At::follow`], but returns the nearest enclosing value if nothing was written there.
    pub(super) fn follow_near(&self, path: &[Segment]) -> Self {
        (0..=path.len())
            .rev()
            .find_map(|length| self.follow(&path[..length]))
            .unwrap_or_else(|| self.clone())
    }
}

/// The mistakes found so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) errors: Vec<PlanError>,
}

impl Faults {
    pub(super) fn add(&mut self, at: &At<'_>, code: &'static str, message: impl Into<String>) -> &mut PlanError {
        self.errors.push(PlanError {
            code,
            place: at.node.place,
            path: at.path.clone(),
            message: message.into(),
            hint: None,
        });
        let last = self.errors.len() - 1;
        &mut self.errors[last]
    }

    pub(super) fn wrong_type(&mut self, at: &At<'_>, expected: &str) -> &mut PlanError {
        self.add(
            at,
            code::WRONG_TYPE,
            format!("expected {expected}, found {}", at.node.kind()),
        )
    }

    pub(super) fn missing(&mut self, at: &At<'_>, key: &str, explanation: &str) -> &mut PlanError {
        self.add(at, code::MISSING, format!("`{key}` is missing: {explanation}"))
    }

    pub(super) fn bad_value(&mut self, at: &At<'_>, message: impl Into<String>) -> &mut PlanError {
        self.add(at, code::BAD_VALUE, message)
    }

    /// Reports the keys of `at` that are not in `known`.
    pub(super) fn unknown_keys(&mut self, at: &At<'_>, known: &[&'static str], subject: &str) {
        let Tree::Object(entries) = &at.node.tree else {
            return;
        };
        for entry in entries {
            let key = entry.key.as_str();
            if known.contains(&key) {
                continue;
            }
            let recommended = || known.iter().copied().filter(|name| !super::keys::is_alias(name));
            let key_at = at.below_key(&entry.value, key);
            let error = self.add(&key_at, code::UNKNOWN_KEY, format!("{subject} has no key `{key}`"));
            error.place = entry.place;
            error.hint = super::keys::advice(key, subject)
                .map(str::to_owned)
                .or_else(|| did_you_mean(key, recommended()))
                .or_else(|| Some(format!("its keys: {}", recommended().collect::<Vec<_>>().join(", "))));
        }
    }
}

impl PlanError {
    pub(super) fn with_hint(&mut self, hint: impl Into<String>) {
        self.hint = Some(hint.into());
    }
}
