//! What calls write: two calls that write the same resource are made one after the other, in the order of the tree
//! (E9.15).
//!
//! A resource has a name: a path with parts between `/`. Two names meet if they are equal or one is inside the other,
//! such as a command in a folder and a file in that folder. A call takes all of its names when it begins and releases
//! them when its attempt ends. A call that holds a name never waits for another, so there is no deadlock. A call that
//! may not begin yet takes no place among the calls under way, and no later call overtakes it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::action::Action;
use super::criteria::{CheckCall, SHELL};
use super::state::Run;
use crate::plan::{Step, Work};

/// What a call writes, by its tool and its arguments. Provided by the driver of the run.
pub type WritesOf = Arc<dyn Fn(&str, &Value) -> Vec<String> + Send + Sync>;

/// Whether calls of other runs write what these names name, or something inside or around it. Provided by the driver of
/// the run.
pub type WrittenElsewhere = Arc<dyn Fn(&[String]) -> bool + Send + Sync>;

/// Wraps [`WrittenElsewhere`] so that a run can be printed.
pub(super) struct Elsewhere(WrittenElsewhere);

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Elsewhere")
    }
}

/// Wraps [`WritesOf`] so that a run can be printed.
pub(super) struct Declared(WritesOf);

impl fmt::Debug for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Declared")
    }
}

/// Whether the calls of a tool only read, according to the driver.
pub type IsReadOnlyTool = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Wraps [`IsReadOnlyTool`] so that a run can be printed.
pub(super) struct ReadOnlyTools(pub(super) IsReadOnlyTool);

impl fmt::Debug for ReadOnlyTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadOnlyTools")
    }
}

/// The names that are taken, each with the node that holds it.
#[derive(Debug, Default)]
pub(super) struct Resources(BTreeMap<String, usize>);

impl Resources {
    /// Whether a node other than `index` holds `name`, or something around or inside it.
    fn is_name_taken(&self, index: usize, name: &str) -> bool {
        let is_other = |owner: &usize| *owner != index;
        let ancestors = std::iter::successors(Some(name), |at| Some(at.rsplit_once('/')?.0));
        if ancestors.filter_map(|at| self.0.get(at)).any(is_other) {
            return true;
        }
        let below = format!("{name}/");
        let mut inside = self.0.range(below.clone()..);
        inside.any(|(held_name, owner)| held_name.starts_with(&below) && is_other(owner))
    }

    fn is_any_taken(&self, index: usize, names: &[String]) -> bool {
        names.iter().any(|name| self.is_name_taken(index, name))
    }

    fn take(&mut self, index: usize, names: &[String]) {
        for name in names {
            self.0.entry(name.clone()).or_insert(index);
        }
    }

    fn give_back(&mut self, index: usize, names: &[String]) {
        for name in names {
            if self.0.get(name) == Some(&index) {
                self.0.remove(name);
            }
        }
    }
}

/// The names that nodes considered earlier wait for.
#[derive(Debug, Default)]
pub(super) struct Ahead<'r> {
    names: Resources,
    /// The names of the last node that waits, if they are known without building its call.
    last: Option<&'r [String]>,
}

impl Run {
    /// Sets what calls write. Without it, that is unknown, and calls are kept apart only from those whose names are in
    /// the journal.
    pub fn set_declared_writes(&mut self, of: Option<WritesOf>) {
        self.declared = of.map(Declared);
    }

    /// Sets which tools only read: a stopped call of such a tool is known to have changed nothing (E9.11). Without it,
    /// that is known of none.
    pub fn set_read_only_tools(&mut self, of: Option<IsReadOnlyTool>) {
        self.looking = of.map(ReadOnlyTools);
    }

    /// Whether the call of node `index` only reads.
    pub(super) fn is_read_only_call(&self, index: usize) -> bool {
        let called = match &self.nodes[index].step {
            Some(Step::Task(task)) => match &task.work {
                Work::Do(call) => Some(call.tool.as_str()),
                Work::Plan(_) | Work::Model => None,
            },
            _ => None,
        };
        let looking = self.looking.as_ref();
        called.is_some_and(|tool| looking.is_some_and(|ReadOnlyTools(only_looks)| only_looks(tool)))
    }

    /// Sets which names the calls of other runs hold. Without it, that is unknown, and calls are kept apart only within
    /// the run.
    pub fn set_written_elsewhere(&mut self, predicate: Option<WrittenElsewhere>) {
        self.elsewhere = predicate.map(Elsewhere);
    }

    fn is_written_elsewhere(&self, names: &[String]) -> bool {
        !names.is_empty()
            && self
                .elsewhere
                .as_ref()
                .is_some_and(|Elsewhere(is_written)| is_written(names))
    }

    /// The names that calls under way hold, each with the path of its node, in the order of the names.
    #[must_use]
    pub fn held_resource_names(&self) -> Vec<(&str, &str)> {
        let resources = self.taken.0.iter();
        resources
            .map(|(name, index)| (name.as_str(), &*self.nodes[*index].path))
            .collect()
    }

    /// What the call of node `index` to `tool` with `args` writes. The same for every attempt.
    pub(super) fn writes_of(&self, index: usize, tool: &str, args: &Value) -> Vec<String> {
        // A call that had begun when its driver died still holds its names.
        if let Some(names) = self.writing.get(&index) {
            return names.clone();
        }
        let known = self.nodes[index]
            .writes
            .get_or_init(|| self.declared_of([(tool, args)]).into());
        known.to_vec()
    }

    /// What the commands among `calls`, which check the result of node `index`, may write.
    pub(super) fn writes_of_checks(&self, index: usize, calls: &[CheckCall]) -> Vec<String> {
        if let Some(names) = self.writing.get(&index) {
            return names.clone();
        }
        let commands = calls.iter().filter(|call| call.tool == SHELL);
        self.declared_of(commands.map(|call| (call.tool, &call.args)))
    }

    /// What these calls write, according to the driver of the run.
    fn declared_of<'c>(&self, calls: impl IntoIterator<Item = (&'c str, &'c Value)>) -> Vec<String> {
        let Some(Declared(of)) = &self.declared else {
            return Vec::new();
        };
        let raw_names = calls.into_iter().flat_map(|(tool, args)| of(tool, args));
        let mut names: Vec<String> = raw_names.filter_map(|name| normalize_name(&name)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The call of node `index`, unless what it writes is being written, or an earlier node in `ahead` waits for it.
    pub(super) fn call_in_turn<'r>(&'r self, index: usize, ahead: &mut Ahead<'r>) -> Option<Action> {
        // The call of a waiting node is not built again each time, and a node that writes the same as the one before is
        // not even looked up.
        if let Some(names) = self.nodes[index].writes.get()
            && !self.writing.contains_key(&index)
            && !self.is_rejected_call(index)
        {
            let names = &**names;
            if ahead.last == Some(names) {
                return None;
            }
            if self.waits_for_turn(index, names, ahead) {
                ahead.last = Some(names);
                return None;
            }
        }
        let action = self.call(index);
        match &action {
            Action::Call(call) if self.waits_for_turn(index, &call.writes, ahead) => None,
            _ => Some(action),
        }
    }

    /// Whether `names` are being written, or an earlier node in `ahead` waits for them. Later nodes then wait for node
    /// `index`.
    fn waits_for_turn(&self, index: usize, names: &[String], ahead: &mut Ahead<'_>) -> bool {
        let is_written = self.is_written(index, names);
        // A call that had begun when its driver died holds what an earlier node waits for, and does not wait for that
        // node.
        let must_wait = is_written || !self.writing.contains_key(&index) && ahead.names.is_any_taken(index, names);
        ahead.names.take(index, names);
        must_wait
    }

    /// Whether `action` of node `index` is not a check by commands, or its commands may begin: there is room for them,
    /// and nobody writes what they may write.
    pub(super) fn may_check(&self, index: usize, action: &Action, has_room: bool, ahead: &mut Ahead<'_>) -> bool {
        match action {
            Action::Verify(check) if check.commands() > 0 => {
                has_room && !self.waits_for_turn(index, &check.writes, ahead)
            }
            _ => true,
        }
    }

    /// Whether another call writes what these `names` of node `index` name.
    pub(super) fn is_written(&self, index: usize, names: &[String]) -> bool {
        self.taken.is_any_taken(index, names) || self.is_written_elsewhere(names)
    }

    /// Notes that the call of node `index` writes `names` until its attempt has ended.
    pub(super) fn take_resources(&mut self, index: usize, names: &[String]) {
        self.give_back_resources(index);
        if !names.is_empty() {
            self.taken.take(index, names);
            self.writing.insert(index, names.to_vec());
        }
    }

    /// Notes that the call of node `index` no longer writes anything.
    pub(super) fn give_back_resources(&mut self, index: usize) {
        if let Some(names) = self.writing.remove(&index) {
            self.taken.give_back(index, &names);
        }
    }
}

/// A name without empty parts, `.`, and parts that `..` takes back. A leading `/` stays, unless it is all that is left:
/// then the name is empty. `None` if nothing is left of a name without it.
fn normalize_name(name: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    match (name.starts_with('/'), parts.is_empty()) {
        (true, true) => Some(String::new()),
        (true, false) => Some(format!("/{}", parts.join("/"))),
        (false, true) => None,
        (false, false) => Some(parts.join("/")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(names: &[&str]) -> Resources {
        let mut taken = Resources::default();
        for (index, name) in names.iter().enumerate() {
            taken.take(index, &[normalize_name(name).unwrap()]);
        }
        taken
    }

    #[test]
    fn resource_conflicts_with_parents_and_children_but_not_name_prefixes_e9_15() {
        let taken = taken(&["/repo/src", "board/e4"]);
        for (name, meets) in [
            ("/repo/src", true),
            ("/repo/src/main.rs", true),
            ("/repo", true),
            ("/", true),
            ("/repo/src2", false),
            ("/repo/sr", false),
            ("/other", false),
            ("repo/src", false),
            ("board", true),
            ("board/e4/title", true),
            ("board/e42", false),
        ] {
            assert_eq!(taken.is_name_taken(9, &normalize_name(name).unwrap()), meets, "{name}");
        }
        assert!(!taken.is_name_taken(0, "/repo/src"), "its own does not keep it waiting");
    }

    #[test]
    fn resource_name_is_normalized_like_a_path_e9_15() {
        for (name, tidy) in [
            ("/a//b/./c/", Some("/a/b/c")),
            ("/a/x/../b", Some("/a/b")),
            ("../a", Some("a")),
            ("/", Some("")),
            ("a", Some("a")),
            ("a/..", None),
            ("", None),
        ] {
            assert_eq!(normalize_name(name).as_deref(), tidy, "{name}");
        }
    }
}
