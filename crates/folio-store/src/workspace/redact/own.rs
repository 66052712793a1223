//! The program's own credentials: keys of models, tokens of servers. No pattern covers them all, so they are searched
//! for literally.

use std::sync::Arc;

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD};
use folio_memory::excerpt::MORE;
use leakguard::{Kind, Match};
use parking_lot::RwLock;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use regex::{Regex, RegexBuilder};

use super::patterns::looks_drawn;

/// The kind of their placeholder, `[redacted:own_secret]`.
const OWN: Kind = Kind::Custom("own_secret");
/// Shorter ones are not searched for: they occur in ordinary words.
const BYTES_MIN: usize = 8;
/// What addresses have to encode.
const OUTSIDE_OF_ADDRESSES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// At how many marks of a text it is looked whether a secret was cut there.
const MARKS_MAX: usize = 1_000;
/// Parts of the names of variables that hold secrets.
const VARIABLES: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL"];
/// Size limit in bytes for the expression that matches all of them.
const EXPRESSION_BYTES: usize = 16 * 1024 * 1024;

/// Secrets belong to the program, not to a space: a credential of one space must not be written to another.
static KNOWN: RwLock<Known> = RwLock::new(Known {
    secrets: Vec::new(),
    search: None,
});

struct Known {
    secrets: Vec<String>,
    /// The search for all of them, compiled when it is first needed: a process that only waits needs none.
    search: Option<Arc<Search>>,
}

#[derive(Debug)]
struct Search {
    secrets: Vec<String>,
    /// Matches all of them.
    expression: Regex,
}

/// Has `secret` replaced wherever a workspace of this process writes or shows it, whatever the policies of spaces say
/// about secrets, also in the forms that addresses and headers give it: percent-encoded, and as base64. A secret of fewer
/// than eight bytes is ignored.
pub fn keep_out(secret: &str) {
    let mut known = KNOWN.write();
    if secret.len() < BYTES_MIN || known.secrets.iter().any(|other| other == secret) {
        return;
    }
    known.secrets.push(secret.to_owned());
    for form in encoded_forms(secret) {
        if form.len() >= BYTES_MIN && !known.secrets.contains(&form) {
            known.secrets.push(form);
        }
    }
    // If one is a prefix of another, the longer one must match first.
    known.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    known.search = None;
}

/// Does the same for the value of the environment variable `name` if its name says that it is a secret, or if the value
/// looks random whatever its name. Other values are meant to be read: a region, the name of a machine.
pub fn keep_out_variable(name: &str, value: &str) {
    let name = name.to_ascii_uppercase();
    if VARIABLES.iter().any(|part| name.contains(part)) || looks_drawn(value) {
        keep_out(value);
    }
}

/// `secret` percent-encoded, and as base64, in the middle of which it reads differently after each number of bytes.
fn encoded_forms(secret: &str) -> Vec<String> {
    let percent_encoded = utf8_percent_encode(secret, OUTSIDE_OF_ADDRESSES).to_string();
    let mut forms = vec![percent_encoded];
    for before in 0..3 {
        let bytes = [&[0; 2][..before], secret.as_bytes()].concat();
        for encoding in [BASE64_NOPAD, BASE64URL_NOPAD] {
            let encoded = encoding.encode(&bytes);
            // The characters that nothing but the secret decides.
            forms.push(encoded[(before * 8).div_ceil(6)..bytes.len() * 8 / 6].to_owned());
        }
    }
    forms
}

impl Known {
    fn search(&mut self) -> Option<Arc<Search>> {
        if self.search.is_none() {
            let all: Vec<String> = self.secrets.iter().map(|secret| regex::escape(secret)).collect();
            let expression = RegexBuilder::new(&all.join("|")).size_limit(EXPRESSION_BYTES).build();
            let secrets = self.secrets.clone();
            let search = expression.ok().map(|expression| Search { secrets, expression });
            self.search = search.map(Arc::new);
        }
        self.search.clone()
    }
}

impl Search {
    /// Where a secret begins that was cut off, or ends one whose beginning was: texts are shortened before they come
    /// here. Only looked for where a text ends, and beside the mark of what was left out.
    fn cut_off(&self, text: &str) -> Vec<Match> {
        let marks = text.match_indices(MORE).take(MARKS_MAX);
        let edges: Vec<(usize, usize)> = marks.map(|(at, mark)| (at, at + mark.len())).collect();
        let ends = edges.iter().map(|(end, _)| *end).chain([text.len()]);
        let starts = edges.iter().map(|(_, start)| *start).chain([0]);
        let cut_ends = ends.filter_map(|end| {
            let before = text[..end].trim_end();
            let is_begun = |secret: &str, length| secret.get(..length).is_some_and(|part| before.ends_with(part));
            let length = self.longest_part(is_begun)?;
            Some(Match::new(OWN, before.len() - length, before.len()))
        });
        let cut_starts = starts.filter_map(|start| {
            let after = text[start..].trim_start();
            let is_rest = |secret: &str, length| {
                let rest = secret.get(secret.len() - length..);
                rest.is_some_and(|rest| after.starts_with(rest))
            };
            let length = self.longest_part(is_rest)?;
            let begin = text.len() - after.len();
            Some(Match::new(OWN, begin, begin + length))
        });
        cut_ends.chain(cut_starts).collect()
    }

    /// The greatest length for which such a part of a secret `is_there`.
    fn longest_part(&self, is_there: impl Fn(&str, usize) -> bool) -> Option<usize> {
        let of_each = self.secrets.iter().filter_map(|secret| {
            let mut lengths = (part_min(secret)..secret.len()).rev();
            lengths.find(|length| is_there(secret, *length))
        });
        of_each.max()
    }
}

/// How many bytes of a secret are taken for it where a text was cut. Fewer may be the beginning of many, or a word.
fn part_min(secret: &str) -> usize {
    BYTES_MIN.max(secret.len() / 2)
}

/// The search for them; `None` while there are none.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnSecrets(Option<Arc<Search>>);

impl OwnSecrets {
    /// The credentials known by now.
    pub(super) fn known() -> Self {
        let known = KNOWN.read();
        if known.secrets.is_empty() || known.search.is_some() {
            return Self(known.search.clone());
        }
        drop(known);
        Self(KNOWN.write().search())
    }

    /// Whether one of them is in `text`.
    pub(super) fn are_in(&self, text: &str) -> bool {
        let search = self.0.as_ref();
        search.is_some_and(|search| search.expression.is_match(text) || !search.cut_off(text).is_empty())
    }

    /// Returns `found` together with their spans in `text`, in order and without overlaps.
    pub(super) fn beside(&self, found: Vec<Match>, text: &str) -> Vec<Match> {
        let Some(search) = &self.0 else { return found };
        let own = search.expression.find_iter(text);
        let mut all: Vec<Match> = own.map(|own| Match::new(OWN, own.start(), own.end())).collect();
        all.extend(search.cut_off(text));
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
