//! Secrets that the general scanner does not know, or matches too widely.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};

use data_encoding::BASE64_NOPAD;
use leakguard::{Detector, Kind, Match};
use regex::Regex;

use crate::access;

/// The kind of a value that is a secret because of the name before it.
pub(super) const ASSIGNED: &str = "assigned_secret";

/// Minimum bytes of base64 for a private key; with fewer, the text is only about private keys.
const MIN_KEY_BYTES: usize = 32;

/// Minimum bytes of a value that is taken for a secret although nothing says that it is one.
const MIN_DRAWN_BYTES: usize = 24;

/// Minimum hexadecimal digits of a part of an address that is taken for a secret.
const MIN_HEX_DIGITS: usize = 16;

/// Detects a private key, even if it is cut off before its last line, as in the output of tools.
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
            // Headers (`Proc-Type: 4,ENCRYPTED`), base64, and line ends, also escaped ones.
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

/// Detects tokens that are recognised by their beginning, and URLs that grant access to anyone who knows them: of
/// those, the secret part goes.
pub(super) fn access_tokens() -> impl Detector {
    let kind = Kind::Custom("ACCESS_TOKEN");
    let tokens = Regex::new(
        r"(?x-u)
        \b (?:
            (?: gl(?:pat|rt|ptt|dt|soat)- | npm_ | hf_ | pypi- | do[opr]_v1_ | shp(?:at|ss|ca|pa)_ | SG\. | ya29\. | gsk_ | xai- | lin_api_
              | AGE-SECRET-KEY-1 | GOCSPX- | hv[sb]\. | xapp-[0-9]- | dckr_[po]at_ | glsa_ | NRAK- | PMAK- | figd_
              | dp\.(?:pt|st|ct|sa)\. | ops_eyJ | 1//0
            ) [A-Za-z0-9_.\-]{20,}
          | (?: whsec_ | sntry[su]_ | ATATT3 ) [A-Za-z0-9_\-+/=]{20,}
          | (?: dapi | ntn_ | sbp_ | r8_ | pplx- | rubygems_ ) [A-Za-z0-9]{32,}
          | folio_[A-Za-z0-9_\-]{43}
          | hooks\.slack\.com/services/ [A-Z0-9]+/[A-Z0-9]+/[A-Za-z0-9]{20,}
          | discord (?:app)? \.com/api/webhooks/ [0-9]{16,20}/[A-Za-z0-9_\-]{40,}
        )
        | [?&]sig= [A-Za-z0-9%+/=]{40,}",
    )
    .expect("the expression is a constant and a test uses it");
    leakguard::FnDetector::new(kind.clone(), move |input, out| {
        for token in tokens.find_iter(input).filter(|token| is_drawn(token.as_str())) {
            let public = ["/services/", "/webhooks/", "sig="]
                .iter()
                .find_map(|mark| Some(token.as_str().find(mark)? + mark.len()));
            // A full stop at the end does not belong to the token.
            let end = token.start() + token.as_str().trim_end_matches('.').len();
            out.push(Match::new(kind.clone(), token.start() + public.unwrap_or(0), end));
        }
    })
}

/// Whether `token` is more than a name: it has digits and does not consist of words. One of Folio's own tokens, whose
/// prefix names in this program share, must have letters of both cases instead.
pub(super) fn is_drawn(token: &str) -> bool {
    match token.strip_prefix(access::PREFIX) {
        Some(drawn) => drawn.contains(char::is_lowercase) && drawn.contains(char::is_uppercase),
        None => token.contains(|c: char| c.is_ascii_digit()) && !token.split(SEPARATORS).all(is_word),
    }
}

/// The separators between the words of a name.
const SEPARATORS: [char; 4] = ['_', '-', '.', '/'];
/// Maximum letters of a word in a name.
const WORD_LETTERS: usize = 16;
/// Maximum digits of a number after such a word, or between words.
const WORD_DIGITS: usize = 4;
/// Digits of a date, which may be longer: `20240501`.
const DATE_DIGITS: usize = 8;

/// Whether `piece` is a word, a number, or a word followed by a number, as in names: `download`, `Phase`, `2024`, `v2`,
/// `sha256`.
fn is_word(piece: &str) -> bool {
    let letters = piece.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = piece.len() - letters.len();
    let rest = letters.get(1..).unwrap_or_default();
    let is_of = |text: &str, is: fn(&u8) -> bool| text.bytes().all(|byte| is(&byte));
    let is_date = || digits == DATE_DIGITS && ["19", "20"].iter().any(|century| piece.starts_with(century));
    (letters.is_empty() && (digits <= WORD_DIGITS || is_date()))
        || (!letters.is_empty()
            && letters.len() <= WORD_LETTERS
            && digits <= WORD_DIGITS
            && is_of(letters, u8::is_ascii_alphabetic)
            && (is_of(rest, u8::is_ascii_lowercase) || is_of(letters, u8::is_ascii_uppercase)))
}

/// Detects a value after a name that says that it is a secret: `aws_secret_access_key = …`, `Authorization: Bearer …`,
/// `"password": "…"`.
pub(super) struct Assigned {
    /// The name, up to its value. The value is cut out by hand: a counted repetition of many characters in an
    /// expression costs ten times as much as the rest of the scan.
    name: Regex,
}

/// Names of secrets, in lower case and without separators, that a longer name may end with.
const SECRET_NAMES: [&str; 20] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "secretkey",
    "apikey",
    "accesskey",
    "privatekey",
    "accesstoken",
    "authtoken",
    "refreshtoken",
    "sessiontoken",
    "idtoken",
    "clienttoken",
    "githubtoken",
    "gitlabtoken",
    "npmtoken",
    "bottoken",
    "apitoken",
];
/// How many of them, from the first, have values that people choose: these may contain blanks.
const CHOSEN: usize = 4;

/// The end of the names of environment variables that hold a secret. In lower case, the word also stands for positions
/// in lists.
const VARIABLE: &str = "TOKEN";

/// Bytes of a value that may be a secret.
const SECRET_BYTES: RangeInclusive<usize> = 8..=512;

/// Maximum bytes of a name with everything between it and its value.
const NAME_BYTES: usize = 192;
/// Bytes before a name that are searched for what introduces it.
const BEFORE_BYTES: usize = 256;
/// Maximum bytes of white space between a quoted name and its value, which may be on the next line.
const SPACE_BYTES: usize = 256;

impl Default for Assigned {
    fn default() -> Self {
        // Names followed only by a blank or a `>`, and the user after `-u`, are checked again together with what
        // precedes them.
        let name = Regex::new(
            r#"(?xi-u)
            (?: pass (?: word | wd | phrase ) | pwd | secret (?: [_-]?key )?
              | (?: api | access | private ) [_-]? key
              | (?: access | auth | refresh | session | id | client | github | gitlab | npm | bot | api ) [_-]? token
              | (?-i: TOKEN | --token )
            ) (?: \\? ["']? [\ \t]* (?: := | => | : | = ) [\ \t]* | > | [\ \t]+ )
            | \b bearer [\ \t]{1,4}
            | authorization \\? ["']? [\ \t]* [:=] [\ \t]* \\? ["']? basic [\ \t]+
            | (?-i: [\ ] -u [\ ] | [\ ] --user [\ =] ) ["']? [a-z0-9_.@%+-]+ :"#,
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
        let mut ends = Ends::default();
        for name in self.name.find_iter(input) {
            let Some(lead) = Lead::of(input, &name) else { continue };
            // After `-u` and its user comes a password.
            let named = if name.as_str().starts_with(" -") {
                Named::Password
            } else {
                Named::of(name.as_str())
            };
            for (start, value) in values_at(input, value_begin(input, &name), &mut ends) {
                if !SECRET_BYTES.contains(&value.len()) {
                    continue;
                }
                let is_type = name.as_str().trim_end().ends_with(':') && is_name(value) && !is_quoted(input, start);
                let is_secret = lead.is_meant(value, named) && !is_type;
                let is_whole = lead != Lead::Element || input[start + value.len()..].starts_with("</");
                if is_secret && is_whole {
                    out.push(Match::new(self.kind(), start, start + value.len()));
                }
            }
        }
    }
}

/// What the name of a value says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// `password` and the like: people choose it, also made of words.
    Password,
    /// `pwd`, which is also the folder of a shell.
    Pwd,
    /// Anything else.
    Other,
}

impl Named {
    /// Classifies `name`, the last words of a name in any case.
    fn of(name: &str) -> Self {
        let begins = |with: &str| {
            let head = name.get(..with.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(with))
        };
        if begins("pass") {
            Self::Password
        } else if begins("pwd") {
            Self::Pwd
        } else {
            Self::Other
        }
    }
}

/// What connects a name with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// `name: `, `name = `, `Bearer `.
    Sign,
    /// `--name `, `-u name:`, `login name password `.
    Option,
    /// `<name>`.
    Element,
    /// `Authorization: Basic `.
    Basic,
}

impl Lead {
    /// The connection after `name`; `None` if no value follows.
    fn of(input: &str, name: &regex::Match<'_>) -> Option<Self> {
        let name_text = name.as_str();
        if name_text.len() > NAME_BYTES {
            return None;
        }
        let from = input.floor_char_boundary(name.start().saturating_sub(BEFORE_BYTES));
        let before = &input[from..name.start()];
        let begins = |with: &str| {
            name_text
                .get(..with.len())
                .is_some_and(|head| head.eq_ignore_ascii_case(with))
        };
        if name_text.starts_with(" -") {
            let line = before.rsplit('\n').next().unwrap_or_default();
            return line.contains("curl").then_some(Self::Option);
        }
        if begins("authorization") {
            return Some(Self::Basic);
        }
        let bare = name_text.trim_end_matches([' ', '\t']);
        let is_signed = bare.ends_with([':', '=']) || bare.ends_with("=>") || begins("bearer");
        if is_signed {
            return Some(Self::Sign);
        }
        let whole = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
        let ahead = before.trim_end_matches(whole);
        if bare.ends_with('>') {
            return ahead.ends_with('<').then_some(Self::Element);
        }
        let is_option = name_text.starts_with("--") || before[ahead.len()..].starts_with("--");
        // As in `.netrc`.
        let mut words = before.split_whitespace().rev().skip(1);
        let is_of_login = bare == "password" && before.ends_with(char::is_whitespace) && words.next() == Some("login");
        (is_option || is_of_login).then_some(Self::Option)
    }

    /// Whether `value`, which follows what is `named` by this connection, is a secret.
    fn is_meant(self, value: &str, named: Named) -> bool {
        match self {
            Self::Sign | Self::Element => looks_random(value, named),
            // `--secret id=key2,src=…` says where a secret is, and `--password --host-2` has no value.
            Self::Option => {
                !value.starts_with('-') && !value.trim_end_matches('=').contains('=') && looks_random(value, named)
            }
            Self::Basic => {
                let unpadded = value.trim_end_matches('=').as_bytes();
                BASE64_NOPAD.decode(unpadded).is_ok_and(|named| named.contains(&b':'))
            }
        }
    }
}

/// Where the value of `name` begins: after a quoted name it may be on the next line, quoted as well.
fn value_begin(input: &str, name: &regex::Match<'_>) -> usize {
    let rest = &input[name.end()..];
    let bare = rest.trim_start();
    let space = rest.len() - bare.len();
    let name_text = name.as_str().trim_end();
    let is_quoted_name = name_text.ends_with(':') && name_text.contains(['"', '\'']);
    if is_quoted_name && (1..=SPACE_BYTES).contains(&space) && bare.starts_with(['"', '\'']) {
        return name.end() + space;
    }
    name.end()
}

/// The value at `at`, or those of the list of texts there, with their positions.
fn values_at<'t>(input: &'t str, at: usize, ends: &mut Ends) -> Vec<(usize, &'t str)> {
    let Some(list) = input[at..].strip_prefix('[') else {
        return vec![value_at(input, at, ends)];
    };
    let (mut values, mut rest) = (Vec::new(), list);
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        let begin = input.len() - rest.len();
        let unescaped = rest.strip_prefix('\\').unwrap_or(rest);
        if !unescaped.starts_with(['"', '\'']) {
            return values;
        }
        let (start, value) = value_at(input, begin, ends);
        values.push((start, value));
        let behind = &input[start + value.len()..];
        let behind = behind.strip_prefix('\\').unwrap_or(behind);
        match behind.strip_prefix(['"', '\'']) {
            Some(behind) => rest = behind,
            // This value cannot be a secret.
            None => return values,
        }
    }
}

/// Where values end that were looked at before, one for each kind of [`Quote`]. A name inside of a long value has a value
/// of its own, which ends at the same place: a text of nothing but names would otherwise be read again for each of them.
#[derive(Debug, Default)]
struct Ends([Range<usize>; 4]);

/// What a value stands in.
#[derive(Debug, Clone, Copy)]
enum Quote {
    Double,
    Single,
    Back,
    None,
}

impl Quote {
    /// What ends a value, besides white space.
    fn ends(self) -> &'static [char] {
        match self {
            Self::Double => &['"', '\\'],
            Self::Single => &['\'', '\\'],
            Self::Back => &['`', '\\'],
            Self::None => &[
                '"', '\'', '`', ',', ';', '&', '(', ')', '{', '}', '<', '>', '[', ']', '|', '\\',
            ],
        }
    }
}

impl Ends {
    /// Where the value ends that begins at `from`.
    fn of(&mut self, input: &str, from: usize, quote: Quote) -> usize {
        let known = &mut self.0[quote as usize];
        if from < known.start || known.end < from {
            let is_end = |c: char| c.is_whitespace() || quote.ends().contains(&c);
            let end = input[from..].find(is_end).map_or(input.len(), |len| from + len);
            *known = from..end;
        }
        known.end
    }
}

/// The value at `at` and its position: up to its closing quote, which may be escaped, or a bare word.
fn value_at<'t>(input: &'t str, at: usize, ends: &mut Ends) -> (usize, &'t str) {
    let rest = &input[at..];
    let unescaped = rest.strip_prefix('\\').unwrap_or(rest);
    let (value, quote) = if let Some(quoted) = unescaped.strip_prefix('"') {
        (quoted, Quote::Double)
    } else if let Some(quoted) = unescaped.strip_prefix('\'') {
        (quoted, Quote::Single)
    } else if let Some(quoted) = unescaped.strip_prefix('`') {
        (quoted, Quote::Back)
    } else {
        (rest, Quote::None)
    };
    let start = input.len() - value.len();
    (start, &input[start..ends.of(input, start, quote)])
}

fn is_quoted(input: &str, start: usize) -> bool {
    input[..start].ends_with(['"', '\'', '`'])
}

/// Whether `value` consists of words like a name in a program: `WIN32_ERROR`, `super::Password3`.
fn is_name(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let one_case = !(value.contains(char::is_lowercase) && value.contains(char::is_uppercase));
    value.contains("::") || (value.contains('_') && one_case && digits <= 2)
}

/// Whether `text` is a secret because of its `key` in an object.
pub(super) fn is_secret_under(key: &str, text: &str) -> bool {
    if !SECRET_BYTES.contains(&text.len()) || text.starts_with(super::PLACEHOLDER) {
        return false;
    }
    let name = SECRET_NAMES.iter().position(|name| ends_with(key, name));
    if text.contains(char::is_whitespace) {
        // A sentence about passwords has words and numbers; a chosen passphrase also has pieces that are neither.
        let is_odd = |word: &str| {
            let digits = word.bytes().filter(u8::is_ascii_digit).count();
            let bare = word.trim_end_matches(['.', ',', ':', ';']);
            digits >= 2 && looks_random(word, Named::Other) && !bare.split(SEPARATORS).all(is_word)
        };
        return name.is_some_and(|name| name < CHOSEN) && text.split_whitespace().any(is_odd);
    }
    let named = name.map_or(Named::Other, |name| Named::of(SECRET_NAMES[name]));
    (key.ends_with(VARIABLE) || name.is_some()) && looks_random(text, named)
}

/// Whether the words of `key` end with those of `name`, however they are joined: `secretKey`, `secret-key`,
/// `SECRET_KEY`.
fn ends_with(key: &str, name: &str) -> bool {
    let mut letters = key.bytes().rev().filter(|byte| !b"_- ".contains(byte));
    name.bytes()
        .rev()
        .all(|expected| letters.next().is_some_and(|byte| byte.to_ascii_lowercase() == expected))
}

/// Whether `value` looks random by itself: long, in the characters that keys use, and in both cases.
pub(super) fn looks_drawn(value: &str) -> bool {
    let is_of_keys = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte);
    value.len() >= MIN_DRAWN_BYTES
        && value.bytes().all(is_of_keys)
        && !value.starts_with('/')
        && value.contains(|c: char| c.is_ascii_lowercase())
        && value.contains(|c: char| c.is_ascii_uppercase())
        && looks_random(value, Named::Other)
}

/// Whether `value` is more than a word, a number, a path, a name or a piece of code: letters and digits in many
/// different characters, and not dotted like `request.form.password1`. Values that people choose may consist of words.
fn looks_random(value: &str, named: Named) -> bool {
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let distinct = value.bytes().collect::<BTreeSet<_>>().len();
    let is_code = value.starts_with('$') || (value.contains('.') && value.len() < 32);
    let is_name = || named == Named::Other && is_name_of_words(value);
    letters > 0 && digits > 0 && distinct >= 6 && !is_code && !is_place(value, named) && !is_name()
}

/// Whether `value` is a location: a path or a URL. One key in a thousand also begins like that, but has parts that no
/// folder is named like. A URL may have its secret in a part, also in hexadecimal digits, or in its query. A password
/// that begins with `/` is not a path of a single part.
fn is_place(value: &str, named: Named) -> bool {
    let is_drawn = |part: &str| {
        let has = |is: fn(&u8) -> bool| part.bytes().any(|byte| is(&byte));
        part.len() >= 12 && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit)
    };
    if value.starts_with("http://") || value.starts_with("https://") {
        return !value
            .split(['/', '?', '&', '=', '#'])
            .any(|part| is_drawn(part) || is_hex(part));
    }
    if named == Named::Password && value.strip_prefix('/').is_some_and(|rest| !rest.contains('/')) {
        return false;
    }
    let begins = ["/", "./", "../", "~/"];
    let is_of_disk = value.get(1..3) == Some(":/");
    (is_of_disk || begins.iter().any(|begin| value.starts_with(begin))) && !value.split('/').any(is_drawn)
}

/// Whether `part` is a long hexadecimal number, also with the hyphens of a UUID, and not a date.
fn is_hex(part: &str) -> bool {
    let digits = part.bytes().filter(u8::is_ascii_hexdigit).count();
    digits >= MIN_HEX_DIGITS
        && part.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        && part.contains(|c: char| c.is_ascii_alphabetic())
        && part.contains(|c: char| c.is_ascii_digit())
}

/// Whether `value` is a name of at least three words in lower case, like those of things in a cluster:
/// `my-app-secret-v2`. Two words with a number are a typical password, and capitals with groups of numbers a typical
/// licence key.
fn is_name_of_words(value: &str) -> bool {
    let (mut words, mut numbers, mut longest) = (0, 0, 0);
    let all = value.split(SEPARATORS).all(|piece| {
        let letters = piece.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        *(if letters > 0 { &mut words } else { &mut numbers }) += 1;
        longest = longest.max(letters);
        // A word with digits after it is more likely a password, except for `v2` and the like.
        is_word(piece) && (letters <= 1 || letters == piece.len())
    });
    let is_small = !value.contains(|c: char| c.is_ascii_uppercase());
    all && is_small && words + numbers >= 3 && words > numbers && longest >= 4
}
