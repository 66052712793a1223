//! The program's own credentials: keys of models, tokens of servers. No pattern covers them all, so they are searched
//! for literally.

use std::sync::Arc;

use leakguard::{Kind, Match};
use parking_lot::RwLock;
use regex::{Regex, RegexBuilder};

use super::patterns::looks_drawn;

/// The kind of their placeholder, `[redacted:own_secret]`.
const OWN: Kind = Kind::Custom("own_secret");
/// Shorter ones are not searched for: they occur in ordinary words.
const BYTES_MIN: usize = 8;
/// Parts of the names of variables that hold secrets.
const VARIABLES: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL"];
/// Size limit in bytes for the expression that matches all of them.
const EXPRESSION_BYTES: usize = 16 * 1024 * 1024;

/// Secrets belong to the program, not to a space: a credential of one space must not be written to another.
static KNOWN: RwLock<Known> = RwLock::new(Known {
    secrets: Vec::new(),
    expression: None,
});

struct Known {
    secrets: Vec<String>,
    /// An expression for all of them, compiled at the first search: a process that only waits needs none.
    expression: Option<Arc<Regex>>,
}

/// Has `secret` replaced wherever a workspace of this process writes or shows it, whatever the policies of spaces say
/// about secrets. A secret of fewer than eight bytes is ignored.
pub fn keep_out(secret: &str) {
    let mut known = KNOWN.write();
    if secret.len() < BYTES_MIN || known.secrets.iter().any(|other| other == secret) {
        return;
    }
    known.secrets.push(secret.to_owned());
    // If one is a prefix of another, the longer one must match first.
    known.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    known.expression = None;
}

/// Does the same for the value of the environment variable `name` if its name says that it is a secret, or if the value
/// looks random whatever its name. Other values are meant to be read: a region, the name of a machine.
pub fn keep_out_variable(name: &str, value: &str) {
    let name = name.to_ascii_uppercase();
    if VARIABLES.iter().any(|part| name.contains(part)) || looks_drawn(value) {
        keep_out(value);
    }
}

impl Known {
    fn expression(&mut self) -> Option<Arc<Regex>> {
        if self.expression.is_none() {
            let all: Vec<String> = self.secrets.iter().map(|secret| regex::escape(secret)).collect();
            let expression = RegexBuilder::new(&all.join("|")).size_limit(EXPRESSION_BYTES).build();
            self.expression = expression.ok().map(Arc::new);
        }
        self.expression.clone()
    }
}

/// The search for them; `None` while there are none.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnSecrets(Option<Arc<Regex>>);

impl OwnSecrets {
    /// The credentials known by now.
    pub(super) fn known() -> Self {
        let known = KNOWN.read();
        if known.secrets.is_empty() || known.expression.is_some() {
            return Self(known.expression.clone());
        }
        drop(known);
        Self(KNOWN.write().expression())
    }

    /// Whether one of them is in `text`.
    pub(super) fn are_in(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|expression| expression.is_match(text))
    }

    /// Returns `found` together with their spans in `text`, in order and without overlaps.
    pub(super) fn beside(&self, found: Vec<Match>, text: &str) -> Vec<Match> {
        let Some(expression) = &self.0 else { return found };
        let own = expression.find_iter(text);
        let mut all: Vec<Match> = own.map(|own| Match::new(OWN, own.start(), own.end())).collect();
        if all.is_empty() {
            return found;
        }
        all.extend(found);
        all.sort_by_key(|span| span.start);
        // A pattern may match a part of one, or more than it: overlapping matches become one.
        let mut disjoint: Vec<Match> = Vec::with_capacity(all.len());
        for span in all {
            match disjoint.last_mut().filter(|last| span.start < last.end) {
                Some(last) => *last = Match::new(OWN, last.start, last.end.max(span.end)),
                None => disjoint.push(span),
            }
        }
        disjoint
    }
}
