//! What this program was given to prove who it is: keys of models, tokens of servers. No pattern knows them all, and they are known
//! as they are.

use std::sync::Arc;

use leakguard::{Kind, Match};
use parking_lot::RwLock;
use regex::{Regex, RegexBuilder};

use super::patterns::looks_drawn;

/// What stands for one is `[redacted:own_secret]`.
const OWN: Kind = Kind::Custom("own_secret");
/// Shorter ones are not looked for: they stand in ordinary words.
const BYTES_MIN: usize = 8;
/// What names of variables have in them that hold a secret.
const VARIABLES: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL"];
/// Bytes that the expression for all of them may take.
const EXPRESSION_BYTES: usize = 16 * 1024 * 1024;

/// Secrets belong to the program, not to a space: what opens one door must not be written behind another.
static KNOWN: RwLock<Known> = RwLock::new(Known {
    secrets: Vec::new(),
    expression: None,
});

struct Known {
    secrets: Vec<String>,
    /// All of them, made when one is first looked for: who only waits needs none.
    expression: Option<Arc<Regex>>,
}

/// Has `secret` replaced wherever a workspace of this process writes or shows it, whatever the policies of spaces say of
/// secrets. One of fewer than eight bytes is not looked for.
pub fn keep_out(secret: &str) {
    let mut known = KNOWN.write();
    if secret.len() < BYTES_MIN || known.secrets.iter().any(|other| other == secret) {
        return;
    }
    known.secrets.push(secret.to_owned());
    // Where one begins as another does, the longer one is meant.
    known.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    known.expression = None;
}

/// The same of what the variable `name` of the environment holds, if its name says that this is a secret, or if it looks drawn by chance
/// whatever it is called. The rest is read by people: a region, the name of a machine.
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

/// What looks for them; nothing while there are none.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnSecrets(Option<Arc<Regex>>);

impl OwnSecrets {
    /// Those that are known by now.
    pub(super) fn known() -> Self {
        let known = KNOWN.read();
        if known.secrets.is_empty() || known.expression.is_some() {
            return Self(known.expression.clone());
        }
        drop(known);
        Self(KNOWN.write().expression())
    }

    /// Whether one of them stands in `text`.
    pub(super) fn are_in(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|expression| expression.is_match(text))
    }

    /// `found`, and where they stand in `text`, in order and without overlaps.
    pub(super) fn beside(&self, found: Vec<Match>, text: &str) -> Vec<Match> {
        let Some(expression) = &self.0 else { return found };
        let own = expression.find_iter(text);
        let mut all: Vec<Match> = own.map(|own| Match::new(OWN, own.start(), own.end())).collect();
        if all.is_empty() {
            return found;
        }
        all.extend(found);
        all.sort_by_key(|one| one.start);
        // What a pattern takes for a part of one, or for more, goes with it.
        let mut apart: Vec<Match> = Vec::with_capacity(all.len());
        for one in all {
            match apart.last_mut().filter(|last| one.start < last.end) {
                Some(last) => *last = Match::new(OWN, last.start, last.end.max(one.end)),
                None => apart.push(one),
            }
        }
        apart
    }
}
