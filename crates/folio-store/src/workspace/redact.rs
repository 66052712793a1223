//! Keeps secrets off the disk: every text of a commit passes through here, and nothing else writes.
//!
//! API keys, tokens, private keys, and passwords in URLs and assignments become `[redacted:<kind>]`, and so do the
//! program's own keys, whatever their form. Personal data is found and flagged, and replaced in the same way if the
//! space's policy says so.

mod commit;
mod event;
mod labels;
mod numbers;
mod own;
mod patterns;
mod personal;
mod pieces;
pub(crate) mod recall;
mod suspects;
mod unseen;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use data_encoding::HEXLOWER;
use folio_memory::canonical::digest_of;
use folio_memory::keeping::Redaction;
use folio_memory::{Actor, Change, Invalid, NewEntry, Owner, Pii, Tag, ThreadKey, TraceNote, Warning};
use leakguard::{Kind, Match, Redactor};
use regex::Regex;
use serde_json::{Map, Number, Value};

use own::OwnSecrets;
use suspects::Suspects;
use unseen::{Shown, shown};

pub(crate) use commit::clean_commit;
pub(crate) use event::clean_event;
pub use own::{keep_out, keep_out_variable};
pub(crate) use pieces::CleanPieces;
pub(crate) use recall::Recalled;

/// The beginning of every placeholder; an existing placeholder is not redacted again.
const PLACEHOLDER: &str = "[redacted:";

/// Kinds that begin with something that [`Scanner::leads`] knows.
const WITH_LEAD: [Kind; 9] = [
    Kind::AzureConnectionString,
    Kind::Jwt,
    Kind::GitHubToken,
    Kind::SlackToken,
    Kind::StripeKey,
    Kind::OpenAiKey,
    Kind::GoogleApiKey,
    Kind::AwsAccessKey,
    Kind::UrlCredentials,
];

/// Kinds that are recognised only by their shape.
const WITHOUT_LEAD: [Kind; 2] = [Kind::TelegramToken, Kind::DiscordToken];

/// Bytes of a word that no pattern can match: every token is longer.
const PLAIN_WORD_BYTES: usize = 16;

/// The digits of the shortest number of a payment card.
const LONG_NUMBER_DIGITS: usize = 13;

struct Scanner {
    /// Whether a text may hold one of the first nine kinds. Most texts cannot, and a single search for all their
    /// beginnings costs a tenth of nine scans.
    leads: Regex,
    all: Redactor,
    without_lead: Redactor,
}

impl Scanner {
    fn new() -> Self {
        let of = |kinds: &[Kind]| {
            Redactor::only(kinds)
                .with_detector(patterns::PrivateKeyBlock)
                .with_detector(patterns::access_tokens())
                .with_detector(patterns::Assigned::default())
        };
        let leads = "://|eyJ|gh[pours]_|github_pat_|xox|[sr]k[-_]|pk_|AIza|A(?:KIA|SIA|GPA|IDA|ROA|IPA|NPA)\
                     |DefaultEndpointsProtocol=|AccountKey=";
        Self {
            leads: Regex::new(leads).expect("the expression is a constant and a test uses it"),
            all: of(&[&WITH_LEAD[..], &WITHOUT_LEAD[..]].concat()),
            without_lead: of(&WITHOUT_LEAD),
        }
    }
}

/// The spans of `text` that are secrets, in order and without overlaps. Nothing is allocated if there are none.
fn secrets_in(text: &str) -> Vec<Match> {
    static SCANNER: LazyLock<Scanner> = LazyLock::new(Scanner::new);
    let kinds = if SCANNER.leads.is_match(text) {
        &SCANNER.all
    } else {
        &SCANNER.without_lead
    };
    let mut found = kinds.find(text);
    found.retain(|secret| is_meant(&secret.kind, secret.text(text)));
    found
}

/// Whether `text` is a secret because of its `key`, as both are seen.
fn is_secret_under(key: &str, text: &str) -> bool {
    patterns::is_secret_under(key, text)
        || match (shown(key), shown(text)) {
            (Cow::Borrowed(_), Cow::Borrowed(_)) => false,
            (key, text) => patterns::is_secret_under(&key, &text),
        }
}

/// Whether `text` is one short word in small letters, as most keys and many values are: no pattern matches it.
fn is_plain_word(text: &str) -> bool {
    text.len() <= PLAIN_WORD_BYTES && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// The text of a number that is long enough to name a person; `None` for others.
fn long_number(number: &Number) -> Option<String> {
    let text = number.to_string();
    (text.len() >= LONG_NUMBER_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

/// Whether `value` is a secret because of its `key`, or a list with such a secret.
fn has_secret_under(key: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => is_secret_under(key, text),
        Value::Array(items) => items.iter().any(|item| has_secret_under(key, item)),
        _ => false,
    }
}

/// Whether something was redacted in `text`.
pub(crate) fn has_placeholder(text: &[u8]) -> bool {
    text.windows(PLACEHOLDER.len())
        .any(|window| window == PLACEHOLDER.as_bytes())
}

/// Whether a match is more than a look-alike.
fn is_meant(kind: &Kind, matched: &str) -> bool {
    if matched.starts_with(PLACEHOLDER) {
        return false;
    }
    match kind {
        // `"http://host","who@where"`: the scanner ends an address at white space, not at a quote.
        // `{user}:{password}`, `$USER:$PASS` and `user:password` are templates of an address.
        Kind::UrlCredentials => {
            let password = matched.rsplit(':').next().unwrap_or_default();
            !matched.contains(['"', '<', '>', '`', '{', '$']) && !["", "pass", "password"].contains(&password)
        }
        // `sk-learn-2024-migration-guide` and `pk_test_customers_2024_idx` are names.
        Kind::OpenAiKey | Kind::StripeKey | Kind::SlackToken => patterns::is_drawn(matched),
        _ => true,
    }
}

/// What `find` finds in `text`, with its `suspects`, as it is written and as it is seen, in order and without overlaps.
fn found_in(text: &str, suspects: &Suspects, find: impl Fn(&str, &Suspects) -> Vec<Match>) -> Vec<Match> {
    let as_written = find(text, suspects);
    match Shown::of(text) {
        Some(shown) => shown.merged(as_written, find(shown.text(), &Suspects::of(shown.text()))),
        None => as_written,
    }
}

/// The spans of `text` with personal data, in order and without overlaps.
fn all_personal_in(text: &str, suspects: &Suspects) -> Vec<Match> {
    found_in(text, suspects, |text, suspects| {
        suspects.find(text, personal::personal_in)
    })
}

/// The placeholder for a secret or for personal data.
fn placeholder_of(span: &Match) -> String {
    match personal::kind_of(span) {
        Some(kind) => format!("{PLACEHOLDER}{kind}]"),
        None => format!("{PLACEHOLDER}{}]", span.kind.label().to_ascii_lowercase()),
    }
}

/// Cleans texts: replaces what the space does not want stored, and keeps the warnings about it.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    mode: Redaction,
    own: OwnSecrets,
    warnings: Vec<Warning>,
    /// Kinds of personal data that were found and left.
    pii: BTreeSet<Pii>,
}

impl Cleaner {
    /// Makes a cleaner that takes out what `mode` says.
    pub(crate) fn new(mode: Redaction) -> Self {
        Self {
            mode,
            own: OwnSecrets::known(),
            ..Self::default()
        }
    }

    /// The secrets in `text`, in order and without overlaps.
    fn secrets(&self, text: &str, suspects: &Suspects) -> Vec<Match> {
        found_in(text, suspects, |text, suspects| {
            let by_pattern = match self.mode {
                Redaction::Off => Vec::new(),
                Redaction::Secrets | Redaction::Pii => suspects.find(text, secrets_in),
            };
            self.own.beside(by_pattern, text)
        })
    }

    /// The warnings about what was taken out: one for each field and kind, never with the value.
    pub(crate) fn into_warnings(self) -> Vec<Warning> {
        self.warnings
    }

    /// The kinds of personal data found and left since the last call.
    fn take_pii(&mut self) -> Vec<Pii> {
        std::mem::take(&mut self.pii).into_iter().collect()
    }

    /// Returns `text` without what has to go; `None` if it stays unchanged.
    fn cleaned(&mut self, text: &str, field: &str) -> Option<String> {
        if is_plain_word(text) && !self.own.are_in(text) {
            return None;
        }
        let mut suspects = Suspects::of(text);
        let secrets = self.secrets(text, &suspects);
        let without_secrets = self.replaced(text, field, secrets, "secret");
        if let Some(rest) = &without_secrets {
            suspects = Suspects::of(rest);
        }
        let personal = all_personal_in(without_secrets.as_deref().unwrap_or(text), &suspects);
        if self.mode == Redaction::Pii {
            let rest = without_secrets.as_deref().unwrap_or(text);
            return self.replaced(rest, field, personal, "pii").or(without_secrets);
        }
        self.pii.extend(personal.iter().filter_map(personal::kind_of));
        without_secrets
    }

    /// The spans of `text` that have to go, in order and without overlaps. Personal data that stays is remembered.
    fn spans(&mut self, text: &str) -> Vec<Match> {
        let suspects = Suspects::of(text);
        let mut spans = self.secrets(text, &suspects);
        let personal = all_personal_in(text, &suspects);
        if self.mode == Redaction::Pii {
            let is_free = |found: &Match| {
                spans
                    .iter()
                    .all(|span| found.end <= span.start || span.end <= found.start)
            };
            let free: Vec<_> = personal.into_iter().filter(is_free).collect();
            spans.extend(free);
            spans.sort_by_key(|span| span.start);
        } else {
            self.pii.extend(personal.iter().filter_map(personal::kind_of));
        }
        spans
    }

    /// Returns `text` with placeholders for `spans`; `None` if there are none.
    fn replaced(&mut self, text: &str, field: &str, spans: Vec<Match>, kind: &str) -> Option<String> {
        if spans.is_empty() {
            return None;
        }
        let mut clean = String::with_capacity(text.len());
        let mut rest = 0;
        for span in spans {
            let placeholder = placeholder_of(&span);
            clean.push_str(&text[rest..span.start]);
            clean.push_str(&placeholder);
            rest = span.end;
            self.warn(field, placeholder, kind);
        }
        clean.push_str(&text[rest..]);
        Some(clean)
    }

    fn warn(&mut self, field: &str, placeholder: String, kind: &str) {
        if !self
            .warnings
            .iter()
            .any(|known| known.given == field && known.used == placeholder)
        {
            let name = if kind == "pii" { "personal data" } else { "a secret" };
            let message = format!("{name} in {field} was replaced before anything was stored");
            let code = format!("{kind}_redacted");
            self.warnings.push(Warning::new(&code, message, field, placeholder));
        }
    }

    /// Whether anything in `text` has to go.
    fn has_something(&self, text: &str) -> bool {
        self.has_something_as_written(text)
            || Shown::of(text).is_some_and(|shown| self.has_something_as_written(shown.text()))
    }

    fn has_something_as_written(&self, text: &str) -> bool {
        if is_plain_word(text) {
            return self.own.are_in(text);
        }
        let suspects = Suspects::of(text);
        let found = |detect: fn(&str) -> Vec<Match>| !suspects.find(text, detect).is_empty();
        let by_pattern = match self.mode {
            Redaction::Off => false,
            Redaction::Secrets => found(secrets_in),
            Redaction::Pii => found(secrets_in) || found(personal::personal_in),
        };
        by_pattern || self.own.are_in(text)
    }

    /// Cleans a text.
    pub(crate) fn text(&mut self, text: &mut String, field: &str) {
        if let Some(clean) = self.cleaned(text, field) {
            *text = clean;
        }
    }

    /// Cleans each of `texts`, which are parts of one field.
    fn texts<'t>(&mut self, texts: impl IntoIterator<Item = &'t mut String>, field: &str) {
        texts.into_iter().for_each(|text| self.text(text, field));
    }

    /// Cleans the name of a type. The result must be a valid name, which a placeholder is not.
    pub(crate) fn type_name(&mut self, name: &mut String) {
        if self.cleaned(name, "type").is_some() {
            "redacted".clone_into(name);
        }
    }

    /// Cleans the id of a call. The result has only what every provider accepts: letters, digits, `_` and `-`; and the
    /// same id gives the same result everywhere.
    pub(crate) fn id(&mut self, id: &mut String) {
        if let Some(clean) = self.cleaned(id, "id") {
            let is_allowed = |character: char| character.is_ascii_alphanumeric() || character == '-';
            *id = clean.replace(|character| !is_allowed(character), "_");
        }
    }

    /// Cleans the key of a write. It becomes a hash, so that it still identifies this write only; a placeholder would
    /// match many.
    fn key(&mut self, key: &mut String) {
        if self.has_something(key) {
            *key = format!("redacted:{}", HEXLOWER.encode(&digest_of([key.as_bytes()])));
        }
    }

    /// Cleans the keys and texts of a JSON value. A text whose key says that it is a secret is judged as if both were
    /// on one line.
    pub(crate) fn value(&mut self, value: &mut Value, field: &str) {
        match value {
            Value::String(text) => self.text(text, field),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item, field)),
            Value::Object(map) => {
                // What is stored does not depend on the order in which the keys were written.
                map.sort_keys();
                if map.keys().any(|key| self.has_something(key)) {
                    self.keys(map, field);
                    map.sort_keys();
                } else if self.mode != Redaction::Pii {
                    map.keys().for_each(|key| self.flag(key));
                }
                for (key, inner) in map.iter_mut() {
                    self.value(inner, field);
                    if self.mode != Redaction::Off {
                        self.value_under(key, inner, field);
                    }
                }
            }
            Value::Number(number) => {
                if let Some(clean) = long_number(number).and_then(|text| self.cleaned(&text, field)) {
                    *value = Value::String(clean);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Remembers the personal data in `text`, which stays.
    fn flag(&mut self, text: &str) {
        if is_plain_word(text) {
            return;
        }
        let personal = all_personal_in(text, &Suspects::of(text));
        self.pii.extend(personal.iter().filter_map(personal::kind_of));
    }

    /// Cleans each of `values`, which are parts of one field.
    fn values<'v>(&mut self, values: impl IntoIterator<Item = &'v mut Value>, field: &str) {
        values.into_iter().for_each(|value| self.value(value, field));
    }

    /// Cleans the keys of `map`, which are sorted. Two that become equal are told apart by a number, so that no value
    /// is lost.
    fn keys(&mut self, map: &mut Map<String, Value>, field: &str) {
        let (mut renamed, mut kept) = (Vec::new(), Map::new());
        for (key, inner) in std::mem::take(map) {
            match self.cleaned(&key, field) {
                Some(clean) => renamed.push((clean, inner)),
                None => drop(kept.insert(key, inner)),
            }
        }
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        for (clean, inner) in renamed {
            let number = numbers.entry(clean.clone()).or_insert(0);
            let free = loop {
                *number += 1;
                let name = if *number == 1 {
                    clean.clone()
                } else {
                    format!("{clean} {number}")
                };
                if !kept.contains_key(&name) {
                    break name;
                }
            };
            kept.insert(free, inner);
        }
        *map = kept;
    }

    /// Cleans the value under `key`, also within lists: the name of a list applies to its items.
    fn value_under(&mut self, key: &str, value: &mut Value, field: &str) {
        match value {
            Value::String(text) if is_secret_under(key, text) => {
                *text = format!("{PLACEHOLDER}{}]", patterns::ASSIGNED);
                self.warn(field, text.clone(), "secret");
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value_under(key, item, field)),
            _ => {}
        }
    }

    /// Whether anything in `value` has to go; changes nothing.
    pub(crate) fn is_needed_for(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.has_something(text),
            Value::Array(items) => items.iter().any(|item| self.is_needed_for(item)),
            Value::Object(map) => map.iter().any(|(key, inner)| {
                let is_secret = self.mode != Redaction::Off && has_secret_under(key, inner);
                self.has_something(key) || self.is_needed_for(inner) || is_secret
            }),
            Value::Number(number) => long_number(number).is_some_and(|text| self.has_something(&text)),
            Value::Null | Value::Bool(_) => false,
        }
    }

    /// Cleans the name of an actor. If it names a person, that does not make what the actor writes personal data.
    pub(crate) fn name(&mut self, name: &mut String, field: &str) {
        let said_of_persons = self.pii.clone();
        self.text(name, field);
        self.pii = said_of_persons;
    }

    /// Cleans the name of the owner of an entry or a page. It stays a valid owner: if a placeholder makes it too long,
    /// it becomes the default.
    pub(crate) fn owner(&mut self, owner: &mut Owner) {
        if owner.is_anybody() {
            return;
        }
        let mut name = owner.as_str().to_owned();
        self.name(&mut name, "owner");
        if name != owner.as_str() {
            *owner = Owner::parse(&name).unwrap_or_else(|_| Owner::agent());
        }
    }

    /// Cleans tags. They stay valid: one that a placeholder makes too long becomes `redacted`.
    pub(crate) fn tags(&mut self, tags: &mut [Tag]) {
        for tag in tags {
            if let Some(clean) = self.cleaned(tag.as_str(), "tags") {
                let clean = Tag::parse(&clean).or_else(|_| Tag::parse("redacted"));
                clean.into_iter().for_each(|clean| *tag = clean);
            }
        }
    }

    /// Returns `bytes` without the secrets in their readable parts; `None` if there are none.
    pub(crate) fn bytes(&mut self, bytes: &[u8], field: &str) -> Option<Vec<u8>> {
        if !bytes.utf8_chunks().any(|chunk| self.has_something(chunk.valid())) {
            return None;
        }
        let mut clean = Vec::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            match self.cleaned(chunk.valid(), field) {
                Some(text) => clean.extend_from_slice(text.as_bytes()),
                None => clean.extend_from_slice(chunk.valid().as_bytes()),
            }
            clean.extend_from_slice(chunk.invalid());
        }
        Some(clean)
    }
}

/// Cleans a new entry, and the registration of its type, of what `mode` says.
pub(crate) fn clean_new(new: &mut NewEntry, registers: Option<&mut Change>, mode: Redaction) {
    let mut cleaner = Cleaner::new(mode);
    commit::clean_fields(&mut cleaner, &mut new.fields, "content");
    if let Some(registers) = registers {
        commit::clean_change(&mut cleaner, registers);
    }
}

/// Cleans the name of an actor of what `mode` says.
pub(crate) fn clean_actor(actor: &mut Actor, mode: Redaction) {
    Cleaner::new(mode).name(&mut actor.name, "name");
}

/// Refuses the name of a thread that is empty or has a zero character in it, which nobody could name afterwards, or that
/// no URL can have in its path; and one that is a secret: under another name it would be another thread.
///
/// Earlier versions took any name that a URL cannot have. What there is in such a thread stays readable: its pages are
/// not made again, and runs that began in it write to pages of their own.
///
/// # Errors
///
/// `thread_invalid`; `thread_is_secret`, without the name.
pub(crate) fn refuse_secret_threads(changes: &[Change], mode: Redaction) -> Result<(), Invalid> {
    // Addresses of people are the names of threads in many places, and stay.
    let mode = if mode == Redaction::Pii {
        Redaction::Secrets
    } else {
        mode
    };
    let is_secret = |thread: &ThreadKey| Cleaner::new(mode).has_something(&thread.0);
    let named = || {
        changes.iter().filter_map(|change| match change {
            Change::EnsurePage(page) => page.fields.thread.as_ref(),
            Change::BeginTurn(turn) => Some(&turn.thread),
            _ => None,
        })
    };
    if named().any(|thread| thread.0.is_empty()) {
        return Err(Invalid::new(
            "thread_invalid",
            "thread",
            "the name of a thread is empty",
        ));
    }
    if named().any(|thread| thread.0.contains('\0')) {
        let message = "the name of a thread has a zero character in it";
        return Err(Invalid::new("thread_invalid", "thread", message));
    }
    let mut begins = changes.iter().filter_map(|change| match change {
        Change::EnsurePage(page) if page.fields.run.is_none() => page.fields.thread.as_ref(),
        Change::BeginTurn(turn) => Some(&turn.thread),
        _ => None,
    });
    if let Some(thread) = begins.find(|thread| thread.is_step_in_a_path()) {
        let message = format!(
            "a thread cannot be called {:?}, which a URL takes for a step in its path",
            thread.0
        );
        return Err(Invalid::new("thread_invalid", "thread", message));
    }
    if named().any(is_secret) {
        let message = "contains a secret, which is never stored: give the thread another name";
        return Err(Invalid::new("thread_is_secret", "thread", message));
    }
    Ok(())
}

/// Cleans a note of what `mode` says.
pub(crate) fn clean_note(note: &mut TraceNote, mode: Redaction) {
    let mut cleaner = Cleaner::new(mode);
    for text in [
        &mut note.component,
        &mut note.operation,
        &mut note.source,
        &mut note.status,
    ] {
        cleaner.text(text, "trace");
    }
    if let Some(detail) = &mut note.detail {
        cleaner.value(detail, "trace");
    }
}

#[cfg(test)]
mod tests;
