//! Journals of two runs, made comparable.

use std::collections::{BTreeMap, HashMap};

use folio_memory::{RunId, Seq};
use folio_runner::Runner;
use regex::Regex;
use serde_json::Value;

/// The events of a run without what differs between runs: ids are numbered in order of appearance, times are left out.
pub(crate) async fn in_order(runner: &Runner, run: RunId) -> Vec<Value> {
    let journal = runner.workspace().journal(run, Seq(0)).await.unwrap();
    let mut names = Names::default();
    let events = journal.events.iter().map(|(_, event)| {
        let mut event = serde_json::to_value(event).unwrap();
        names.replace(&mut event);
        event
    });
    events.collect()
}

/// The same, grouped by the path of each event's node: calls may end in any order, but the events of one node have a
/// fixed order. Nodes are named by their paths, and everything else with an id by its kind.
pub(crate) async fn by_node(runner: &Runner, run: RunId) -> BTreeMap<String, Vec<Value>> {
    let journal = runner.workspace().journal(run, Seq(0)).await.unwrap();
    let tree = runner.load(run).await.unwrap();
    let nodes = tree.tree().into_iter();
    let paths: HashMap<String, String> = nodes.map(|node| (node.id.to_string(), node.path.to_owned())).collect();
    let mut names = Names {
        known: paths.clone(),
        is_numbered: false,
        ..Names::default()
    };
    let mut found = BTreeMap::<String, Vec<Value>>::new();
    for (_, event) in &journal.events {
        let path = event.node().map(|node| paths[&node.to_string()].clone());
        let mut event = serde_json::to_value(event).unwrap();
        names.replace(&mut event);
        found.entry(path.unwrap_or_default()).or_default().push(event);
    }
    found
}

struct Names {
    ids: Regex,
    times: Regex,
    known: HashMap<String, String>,
    is_numbered: bool,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            ids: Regex::new(r"\b([a-z]+_[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{16}|[0-9a-f]{64})\b").unwrap(),
            times: Regex::new(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z\b|\b\d+(\.\d+)?(ms|µs)\b").unwrap(),
            known: HashMap::new(),
            is_numbered: true,
        }
    }
}

impl Names {
    fn name(&mut self, id: &str) -> String {
        let number = self.known.len();
        match self.known.get(id) {
            Some(name) => name.clone(),
            None if self.is_numbered => self
                .known
                .entry(id.to_owned())
                .or_insert_with(|| format!("ID{number}"))
                .clone(),
            None => id.split_once('_').map_or("ID", |(kind, _)| kind).to_owned(),
        }
    }

    fn replace(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                let ids = self.ids.clone();
                let named = ids.replace_all(text, |found: &regex::Captures<'_>| self.name(&found[0]));
                *text = self.times.replace_all(&named, "TIME").into_owned();
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace(item)),
            Value::Object(fields) => {
                // How long a prompt is depends on the ids in it, and whether somebody is there on who drives it.
                const ACCIDENTS: [&str; 6] = [
                    "duration_us",
                    "deadline",
                    "until",
                    "tokens_in",
                    "tokens_out",
                    "attended",
                ];
                fields.retain(|name, _| !ACCIDENTS.contains(&name.as_str()));
                fields.iter_mut().for_each(|(_, field)| self.replace(field));
            }
            _ => {}
        }
    }
}
