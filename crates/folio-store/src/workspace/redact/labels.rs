//! The words before a number that say what it is: `version 1.2.3.4`, `part no 0815 123456`, `client_ip=…`,
//! `Tel. 030 1234567`.

/// How many bytes before a number are read.
const BEFORE_BYTES: usize = 48;

/// Country codes of two digits; those with `1` and `7` have one digit, all others three.
const TWO_DIGITS: [&str; 43] = [
    "20", "27", "30", "31", "32", "33", "34", "36", "39", "40", "41", "43", "44", "45", "46", "47", "48", "49", "51",
    "52", "53", "54", "55", "56", "57", "58", "60", "61", "62", "63", "64", "65", "66", "81", "82", "84", "86", "90",
    "91", "92", "93", "94", "95",
];
/// Prefixes that no country code begins with.
const NO_COUNTRY: [&str; 5] = ["0", "28", "83", "89", "999"];

const VERSIONS: [&str; 19] = [
    "version",
    "versions",
    "ver",
    "v",
    "section",
    "sections",
    "sec",
    "chapter",
    "clause",
    "paragraph",
    "release",
    "rev",
    "revision",
    "build",
    "firmware",
    "oid",
    "appendix",
    "annex",
    "kernel",
];

const THINGS: [&str; 23] = [
    "part", "parts", "no", "nr", "order", "orders", "item", "items", "article", "art", "sku", "ticket", "case",
    "invoice", "serial", "batch", "lot", "row", "rows", "offset", "offsets", "position", "model",
];

const ADDRESSES: [&str; 13] = [
    "ip",
    "ips",
    "ipv4",
    "addr",
    "address",
    "addresses",
    "host",
    "gateway",
    "nameserver",
    "peer",
    "remote",
    "ping",
    "traceroute",
];

const TELEPHONES: [&str; 19] = [
    "tel",
    "telefon",
    "telephone",
    "phone",
    "mobile",
    "mobil",
    "mob",
    "cell",
    "handy",
    "fax",
    "call",
    "called",
    "ring",
    "dial",
    "sms",
    "whatsapp",
    "hotline",
    "landline",
    "fon",
];

const UNITS: [&str; 12] = [
    "ms", "ns", "sec", "seconds", "bytes", "kb", "mb", "px", "lines", "rows", "tokens", "points",
];

/// The country code that `digits` begins with.
pub(super) fn country_of(digits: &str) -> Option<&str> {
    if NO_COUNTRY.iter().any(|no| digits.starts_with(no)) {
        return None;
    }
    let has_two = digits.get(..2).is_some_and(|two| TWO_DIGITS.contains(&two));
    digits.get(
        ..match digits.as_bytes().first()? {
            b'1' | b'7' => 1,
            _ if has_two => 2,
            _ => 3,
        },
    )
}

/// Whether the number is that of a version, a section, or the like.
pub(super) fn is_of_a_version(before: &str) -> bool {
    says(before, &VERSIONS)
}

/// Whether the number is that of a thing.
pub(super) fn is_of_a_thing(before: &str) -> bool {
    says(before, &THINGS)
}

/// Whether the number is the address of a machine: `client_ip=`, `remoteAddr: `.
pub(super) fn is_of_an_address(before: &str) -> bool {
    says(before, &ADDRESSES)
}

/// Whether the number is that of a telephone.
pub(super) fn is_of_a_telephone(before: &str) -> bool {
    words_before(before).take(2).any(|word| is_one_of(word, &TELEPHONES))
}

/// Whether the text after a number is a unit of measurement.
pub(super) fn is_a_unit(after: &str) -> bool {
    let word = after.strip_prefix(' ').unwrap_or(after);
    let letters = word.bytes().take_while(u8::is_ascii_alphabetic).count();
    is_one_of(&word[..letters], &UNITS)
}

fn says(before: &str, names: &[&str]) -> bool {
    words_before(before).next().is_some_and(|word| is_one_of(word, names))
}

fn is_one_of(word: &str, names: &[&str]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(word))
}

/// The words before a number on its line, last one first; a compound such as `remoteAddr` is split into its parts.
fn words_before(before: &str) -> impl Iterator<Item = &str> {
    let from = before.floor_char_boundary(before.len().saturating_sub(BEFORE_BYTES));
    let line = before[from..].rsplit('\n').next().unwrap_or_default();
    let words = line
        .rsplit(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    words.flat_map(|word| {
        let hump = word.bytes().rposition(|byte| byte.is_ascii_uppercase()).unwrap_or(0);
        let is_hump = hump > 0 && word.as_bytes()[hump - 1].is_ascii_lowercase() && word.is_char_boundary(hump);
        let (first, last) = word.split_at(if is_hump { hump } else { 0 });
        [last, first].into_iter().filter(|part| !part.is_empty())
    })
}
