//! Secrets that the general scanner does not know, or takes for more than they are.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use leakguard::{Detector, Kind, Match};
use regex::Regex;

use crate::access;

/// What a value is called that is a secret because of the name before it.
pub(super) const ASSIGNED: &str = "assigned_secret";

/// Bytes of base64 from which on a private key is one, and not a word about private keys.
const MIN_KEY_BYTES: usize = 32;

/// Bytes of a value from which on it is taken for a secret that nothing says is one.
const MIN_DRAWN_BYTES: usize = 24;

/// A private key, also one that is cut off before its last line: the output of a tool often is.
pub(super) struct PrivateKeyBlock;

impl Detector for PrivateKeyBlock {
    fn kind(&self) -> Kind {
        Kind::PrivateKey
    }

    fn detect(&self, input: &str, out: &mut Vec<Match>) {
        const BEGIN: &str = "-----BEGIN ";
        let mut from = 0;
        while let Some(found) = input[from..].find(BEGIN) {
            let start = from + found;
            from = start + BEGIN.len();
            // `RSA PRIVATE KEY-----`, `PGP PRIVATE KEY BLOCK-----`
            let label = &input[from..];
            let label_len = label
                .bytes()
                .take_while(|b| b.is_ascii_uppercase() || *b == b' ')
                .count();
            if !label[..label_len].contains("PRIVATE KEY") || !label[label_len..].starts_with("-----") {
                continue;
            }
            let body = &label[label_len + 5..];
            // Headers (`Proc-Type: 4,ENCRYPTED`), base64 and line ends, also escaped ones.
            let is_body = |b: &u8| b.is_ascii_alphanumeric() || b.is_ascii_whitespace() || b"+/=\\:,-".contains(b);
            let scanned = body.bytes().take_while(is_body).count();
            let end = match body[..scanned].find("-----END ") {
                Some(end) => {
                    let last = &body[end + 9..];
                    end + 9 + last.find("-----").map_or(0, |dashes| dashes + 5)
                }
                None => scanned,
            };
            let key_bytes = body[..end].bytes().filter(u8::is_ascii_alphanumeric).count();
            if key_bytes >= MIN_KEY_BYTES {
                let end = input.len() - body.len() + end;
                out.push(Match::new(Kind::PrivateKey, start, end));
                from = end;
            }
        }
    }
}

/// Tokens that say what they are by how they begin.
pub(super) fn access_tokens() -> impl Detector {
    let kind = Kind::Custom("ACCESS_TOKEN");
    let tokens = Regex::new(
        r"(?-u:\b)(?:glpat-|npm_|hf_|pypi-|dop_v1_|shp(?:at|ss|ca|pa)_|SG\.|ya29\.|gsk_|xai-|lin_api_|AGE-SECRET-KEY-1)[A-Za-z0-9_.\-]{20,}|(?-u:\b)folio_[A-Za-z0-9_\-]{43}",
    )
    .expect("the expression is a constant and a test uses it");
    leakguard::FnDetector::new(kind.clone(), move |input, out| {
        for token in tokens.find_iter(input).filter(|token| is_drawn(token.as_str())) {
            out.push(Match::new(kind.clone(), token.start(), token.end()));
        }
    })
}

/// Whether `token` is more than a name: has digits, and, if it is one of ours, which names of this program begin like, letters of both cases.
fn is_drawn(token: &str) -> bool {
    match token.strip_prefix(access::PREFIX) {
        Some(drawn) => drawn.contains(char::is_lowercase) && drawn.contains(char::is_uppercase),
        None => token.contains(|c: char| c.is_ascii_digit()),
    }
}

/// A value after a name that says that it is a secret: `aws_secret_access_key = …`,
/// `Authorization: Bearer …`, `"password": "…"`.
pub(super) struct Assigned {
    /// The name with what leads to its value. The value is cut by hand: a counted repetition of many
    /// characters in an expression costs ten times as much as all the rest of the scan.
    name: Regex,
}

/// Names of secrets, in lower case, that a longer name may end with.
const SECRET_NAMES: [&str; 13] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "secret_key",
    "api_key",
    "apikey",
    "access_key",
    "private_key",
    "access_token",
    "auth_token",
    "refresh_token",
];

/// What names of variables of the environment end with that hold a secret. In small letters it is said of places in lists, too.
const VARIABLE: &str = "TOKEN";

/// Bytes of a value that may be a secret.
const SECRET_BYTES: RangeInclusive<usize> = 8..=512;

impl Default for Assigned {
    fn default() -> Self {
        let name = Regex::new(
            r#"(?xi-u)
            (?: password | passwd | passphrase | secret (?: [_-]?key )?
              | (?: api | access | private ) [_-]? key
              | (?: access | auth | refresh | github | gitlab | npm | bot | api ) [_-] token
              | (?-i: TOKEN )
            ) \\? ["']? [\ \t]{0,4} (?: := | => | : | = ) [\ \t]{0,4}
            | \b bearer [\ \t]{1,4}"#,
        )
        .expect("the expression is a constant and a test uses it");
        Self { name }
    }
}

impl Detector for Assigned {
    fn kind(&self) -> Kind {
        Kind::Custom("ASSIGNED_SECRET")
    }

    fn detect(&self, input: &str, out: &mut Vec<Match>) {
        for name in self.name.find_iter(input) {
            for (start, value) in values_at(input, name.end()) {
                let is_type = name.as_str().trim_end().ends_with(':') && is_name(value) && !is_quoted(input, start);
                if SECRET_BYTES.contains(&value.len()) && looks_random(value) && !is_type {
                    out.push(Match::new(self.kind(), start, start + value.len()));
                }
            }
        }
    }
}

/// The value that begins at `at`, or those of the list of texts that does, and where they begin.
fn values_at(input: &str, at: usize) -> Vec<(usize, &str)> {
    let Some(list) = input[at..].strip_prefix('[') else {
        return vec![value_at(input, at)];
    };
    let (mut values, mut rest) = (Vec::new(), list);
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        let begin = input.len() - rest.len();
        let unescaped = rest.strip_prefix('\\').unwrap_or(rest);
        if !unescaped.starts_with(['"', '\'']) {
            return values;
        }
        let (start, value) = value_at(input, begin);
        values.push((start, value));
        let behind = &input[start + value.len()..];
        let behind = behind.strip_prefix('\\').unwrap_or(behind);
        match behind.strip_prefix(['"', '\'']) {
            Some(behind) => rest = behind,
            // It is no value that a secret could be.
            None => return values,
        }
    }
}

/// The value that begins at `at`, and where it begins: to its closing quote, which may be escaped, or
/// a bare word.
fn value_at(input: &str, at: usize) -> (usize, &str) {
    let rest = &input[at..];
    let unescaped = rest.strip_prefix('\\').unwrap_or(rest);
    let (value, end): (&str, &[char]) = if let Some(quoted) = unescaped.strip_prefix('"') {
        (quoted, &['"', '\\'])
    } else if let Some(quoted) = unescaped.strip_prefix('\'') {
        (quoted, &['\'', '\\'])
    } else {
        (
            rest,
            &[
                '"', '\'', '`', ',', ';', '&', '(', ')', '{', '}', '<', '>', '[', ']', '|', '\\',
            ],
        )
    };
    let len = value
        .find(|c: char| c.is_whitespace() || end.contains(&c))
        .unwrap_or(value.len());
    (input.len() - value.len(), &value[..len])
}

fn is_quoted(input: &str, start: usize) -> bool {
    input[..start].ends_with(['"', '\''])
}

/// Whether `value` is made of words as names in programs are: `WIN32_ERROR`, `super::Password3`.
fn is_name(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let one_case = !(value.contains(char::is_lowercase) && value.contains(char::is_uppercase));
    value.contains("::") || (value.contains('_') && one_case && digits <= 2)
}

/// Whether `text` is a secret because it stands under `key` in an object.
pub(super) fn is_secret_under(key: &str, text: &str) -> bool {
    if !SECRET_BYTES.contains(&text.len()) || text.contains(char::is_whitespace) || text.starts_with(super::PLACEHOLDER)
    {
        return false;
    }
    let ends_with = |name: &str| {
        key.len() >= name.len()
            && key.is_char_boundary(key.len() - name.len())
            && key[key.len() - name.len()..]
                .bytes()
                .zip(name.bytes())
                .all(|(k, n)| k.to_ascii_lowercase() == n || (n == b'_' && k == b'-'))
    };
    let is_variable = key.ends_with(VARIABLE);
    (is_variable || SECRET_NAMES.into_iter().any(ends_with)) && looks_random(text)
}

/// Whether `value` looks drawn by chance, without anything that says so: long, of the signs that keys are written with, and in both cases.
pub(super) fn looks_drawn(value: &str) -> bool {
    let is_of_keys = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte);
    value.len() >= MIN_DRAWN_BYTES
        && value.bytes().all(is_of_keys)
        && !value.starts_with('/')
        && value.contains(|c: char| c.is_ascii_lowercase())
        && value.contains(|c: char| c.is_ascii_uppercase())
        && looks_random(value)
}

/// Whether `value` is more than a word, a number, a path or a piece of code: letters and digits in
/// many different characters, and not dotted like `request.form.password1`.
fn looks_random(value: &str) -> bool {
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let distinct = value.bytes().collect::<BTreeSet<_>>().len();
    let is_code = value.starts_with('$') || (value.contains('.') && value.len() < 32);
    letters > 0 && digits > 0 && distinct >= 6 && !is_code
}
