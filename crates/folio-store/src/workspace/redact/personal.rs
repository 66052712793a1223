//! Personal data: e-mail addresses, telephone numbers, payment cards, bank accounts, national ids, addresses of
//! machines.
//!
//! Names and postal addresses of people are not found: that takes more than the shape of a text. If the space's policy
//! says so, what is found is erased after a while, which cannot be undone. So a number that could be something else (a
//! version, a section, an offset, a part number) counts only if the words before it say what it is.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use folio_memory::Pii;
use leakguard::{Detector, FnDetector, Kind, Match, Redactor};
use regex::Regex;

use super::{labels, numbers};

/// The kind of a telephone number that [`phones`] finds.
const PHONE: Kind = Kind::Custom("PHONE");

/// The detectors, grouped by what a text must contain for them to match. Most texts need none, and counting costs next
/// to nothing.
struct Scanners {
    email: Redactor,
    numbers: Redactor,
    addresses: Redactor,
}

/// The spans of `text` with personal data, in order and without overlaps.
pub(super) fn personal_in(text: &str) -> Vec<Match> {
    static SCANNERS: LazyLock<Scanners> = LazyLock::new(|| Scanners {
        email: Redactor::empty().with_detector(addresses()),
        numbers: Redactor::only(&[Kind::UsSsn])
            .with_detector(numbers::cards())
            .with_detector(numbers::accounts())
            .with_detector(phones()),
        addresses: Redactor::only(&[Kind::IpV4, Kind::IpV6, Kind::MacAddress]),
    });
    let (mut digits, mut ats, mut dots, mut colons) = (0_usize, 0_usize, 0_usize, 0_usize);
    for byte in text.bytes() {
        digits += usize::from(byte.is_ascii_digit());
        ats += usize::from(byte == b'@');
        dots += usize::from(byte == b'.');
        colons += usize::from(byte == b':');
    }
    let mut found = Vec::new();
    if ats > 0 {
        found.extend(SCANNERS.email.find(text));
    }
    if digits >= 7 {
        found.extend(SCANNERS.numbers.find(text));
    }
    if (digits >= 4 && dots >= 3) || colons >= 2 {
        found.extend(SCANNERS.addresses.find(text));
    }
    found.retain(|found| is_personal(found, text));
    found.sort_by_key(|found| (found.start, std::cmp::Reverse(found.end)));
    let mut end = 0;
    found.retain(|found| {
        let is_free = found.start >= end;
        end = end.max(found.end);
        is_free
    });
    found
}

/// The kind of personal data that a match is, if any.
pub(super) fn kind_of(found: &Match) -> Option<Pii> {
    Some(match found.kind {
        Kind::Email => Pii::Email,
        PHONE => Pii::Phone,
        Kind::CreditCard => Pii::CreditCard,
        Kind::Iban => Pii::Iban,
        Kind::UsSsn => Pii::NationalId,
        Kind::IpV4 | Kind::IpV6 => Pii::IpAddress,
        Kind::MacAddress => Pii::MacAddress,
        _ => return None,
    })
}

/// Whether a match is more than a look-alike.
fn is_personal(found: &Match, text: &str) -> bool {
    let matched = found.text(text);
    let (before, after) = (&text[..found.start], &text[found.end..]);
    match found.kind {
        // `git@host:path` names a repository; `user@2x.png` and `crate@1.2.3` name no person.
        Kind::Email => {
            let (local, domain) = matched.rsplit_once('@').unwrap_or_default();
            let last = domain.rsplit('.').next().unwrap_or_default();
            let is_file = ["png", "jpg", "svg", "gif", "js", "ts", "rs"].contains(&last);
            let is_service = ["git", "noreply", "no-reply"].contains(&local);
            !is_file && !is_service && last.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
        }
        Kind::IpV4 => matched.parse().is_ok_and(|address| {
            is_public_v4(address) && (is_address_by(before, after) || is_no_version(address, before, after))
        }),
        Kind::IpV6 => matched.parse().is_ok_and(is_public_v6),
        // Not the first or last part of a longer number with hyphens, such as a date or an identifier.
        Kind::UsSsn => !before.ends_with(['-', '/']) && !after.starts_with(['-', '/']) && matched.contains(['-', ' ']),
        Kind::MacAddress => is_of_a_machine(matched, before),
        _ => true,
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || first == 0
        || first >= 224)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let first = address.segments()[0];
    // Global unicast without the range for documentation.
    (0x2000..0x4000).contains(&first) && !(first == 0x2001 && address.segments()[1] == 0xdb8)
}

/// Whether the text around four numbers says that they are an address: a name or `//` before them, a port or the size
/// of a network after them.
fn is_address_by(before: &str, after: &str) -> bool {
    let digits = |rest: &str| rest.bytes().take_while(u8::is_ascii_digit).count();
    let starts_with_number = |rest: &str, max_digits: usize| {
        let digits = digits(rest);
        (1..=max_digits).contains(&digits)
            && !rest[digits..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.')
    };
    let has_port = after.strip_prefix(':').is_some_and(|rest| starts_with_number(rest, 5));
    let has_size = after.strip_prefix('/').is_some_and(|rest| starts_with_number(rest, 2));
    !labels::is_of_a_version(before)
        && (has_port || has_size || before.ends_with("//") || labels::is_of_an_address(before))
}

/// Whether four numbers by themselves are unlikely to be a version or a section, which has at most one large number.
fn is_no_version(address: Ipv4Addr, before: &str, after: &str) -> bool {
    let is_part =
        before.ends_with(['v', 'V', '-', '=', '^', '~', '.', '/', '+', '§']) || after.starts_with(['-', '.', '_']);
    let large = address.octets().into_iter().filter(|part| *part > 30).count();
    large >= 2 && !is_part && !labels::is_of_a_version(before) && !labels::is_of_a_thing(before)
}

/// Whether `address` can belong to a network card: it is not for broadcast or multicast, and not a row of bytes or
/// numbers.
fn is_of_a_machine(address: &str, before: &str) -> bool {
    let octets: Vec<&str> = address.split([':', '-']).collect();
    let is_single = octets[0]
        .as_bytes()
        .get(1)
        .is_some_and(|low| b"02468aceACE".contains(low));
    let is_doubled = |octet: &&str| octet.as_bytes()[0] == octet.as_bytes()[1];
    let ahead = before
        .strip_suffix([':', '-'])
        .and_then(|ahead| words(ahead).next_back());
    let is_row = ahead.is_some_and(is_byte) || octets.iter().all(is_doubled);
    is_single && !is_row && address.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// The alphanumeric words of `text`.
fn words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
}

fn is_byte(text: &str) -> bool {
    text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Detects e-mail addresses, also at the end of a sentence.
fn addresses() -> impl Detector {
    let address = Regex::new(r"[\w.%+\-]*[\w%+\-]@[A-Za-z0-9\-]+(?:\.[A-Za-z0-9\-]+)*\.[A-Za-z]{2,24}\b")
        .expect("the expression is a constant and a test uses it");
    FnDetector::new(Kind::Email, move |input: &str, out: &mut Vec<Match>| {
        out.extend(
            address
                .find_iter(input)
                .map(|found| Match::new(Kind::Email, found.start(), found.end())),
        );
    })
}

/// Detects telephone numbers with a country code, however they are grouped, and those of North America and parts of
/// Europe without one.
fn phones() -> impl Detector {
    let number = Regex::new(
        r"(?x-u)
        \+ [1-9] [0-9]{0,2} (?: [\ .\-]? \(? [0-9]{1,4} \)? ){2,6}
        | \( [2-9][0-9]{2} \) [\ ]? [2-9][0-9]{2} [\-\ .] [0-9]{4}
        | [2-9][0-9]{2} [\-.] [2-9][0-9]{2} [\-.] [0-9]{4}
        | 1 [\-.\ ] [2-9][0-9]{2} [\-.\ ] [2-9][0-9]{2} [\-.\ ] [0-9]{4}
        | \b 0 [1-9] (?: [\ .\-] [0-9]{2} ){4}
        | \b 0 [1-9][0-9]{1,4} [\ /\-] [0-9]{5,8}",
    )
    .expect("the expression is a constant and a test uses it");
    FnDetector::new(PHONE, move |input: &str, out: &mut Vec<Match>| {
        for found in number.find_iter(input) {
            let text = found.as_str().trim_end_matches([' ', '.', '-', '(']);
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            let (before, after) = (&input[..found.start()], &input[found.start() + text.len()..]);
            let is_part = before.ends_with(|c: char| c.is_ascii_alphanumeric() || "+-._/=:#".contains(c))
                || after.starts_with(|c: char| c.is_ascii_alphanumeric() || "_/:=".contains(c))
                || after
                    .strip_prefix(['-', '.'])
                    .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric()));
            if (8..=15).contains(&digits) && !is_part && is_phone_number(text, before, after) {
                out.push(Match::new(PHONE, found.start(), found.start() + text.len()));
            }
        }
    })
}

/// Whether `number` is a telephone number, and not an offset, a measurement, the number of a thing or a row of bytes.
fn is_phone_number(number: &str, before: &str, after: &str) -> bool {
    let is_called = labels::is_of_a_telephone(before);
    if !is_called && (labels::is_of_a_thing(before) || labels::is_a_unit(after)) {
        return false;
    }
    if let Some(rest) = number.strip_prefix('+') {
        return has_country(rest, is_called);
    }
    if !number.starts_with('0') {
        return true;
    }
    let groups: Vec<&str> = number.split([' ', '.', '-', '/']).collect();
    if groups.len() == 2 {
        // This could be the number of anything, unless it has a `/`, which only telephone numbers have.
        return is_called || number.contains('/');
    }
    let between = [' ', '.', '-'];
    let is_beside =
        |text: Option<&str>| text.is_some_and(|text| is_byte(text) && text.contains(|c: char| c.is_ascii_digit()));
    let is_in_a_row = is_beside(words(before.trim_end_matches(between)).next_back())
        || is_beside(words(after.trim_start_matches(between)).next());
    let values: Vec<u32> = groups.iter().filter_map(|group| group.parse().ok()).collect();
    let is_counted = values.windows(2).all(|two| two[1] == two[0] + 1);
    !is_in_a_row && !is_counted
}

/// Whether `number`, without its `+`, begins with a country code and has as many digits as telephone numbers there:
/// rarely fewer than ten, unless a label says that it is one.
fn has_country(number: &str, is_called: bool) -> bool {
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    let Some(code) = labels::country_of(&digits) else {
        return false;
    };
    let rest = &digits[code.len()..];
    // In a grouped number the code is a group of its own, or has the area code with it: `+120 1234` is an offset.
    let group = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    let has_area = group >= code.len() + 2 || (code.len(), group) == (3, 4);
    let is_grouped_so = group == code.len() || (has_area && !(code == "1" && group < 4));
    let is_valid = if code == "1" {
        // Neither an area code nor what follows it begins with 0 or 1.
        rest.len() == 10 && [0, 3].iter().all(|at| rest.as_bytes()[*at] >= b'2')
    } else {
        digits.len() >= if is_called { 8 } else { 10 }
    };
    is_grouped_so && is_valid && (is_called || !is_of_round_groups(number))
}

/// Whether all groups after the first are round hundreds, as in offsets and sizes.
fn is_of_round_groups(number: &str) -> bool {
    number.contains(' ')
        && number
            .split(' ')
            .skip(1)
            .all(|group| group.len() == 3 && group.ends_with("00"))
}
