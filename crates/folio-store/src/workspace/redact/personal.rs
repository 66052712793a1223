//! Personal data: e-mail addresses, telephone numbers, payment cards, bank accounts, national ids, addresses of machines.
//!
//! Names and postal addresses of people are not found: that takes more than a look at the shape of a text.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use folio_memory::Pii;
use leakguard::{Detector, FnDetector, Kind, Match, Redactor};
use regex::Regex;

use super::numbers;

/// A telephone number that [`phones`] finds.
const PHONE: Kind = Kind::Custom("PHONE");

/// Which of the detectors a text can concern at all. Most texts concern none, and counting costs next to nothing.
struct Scanners {
    email: Redactor,
    numbers: Redactor,
    addresses: Redactor,
}

/// The spans of `text` that say something of a person, in order and without overlaps.
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

/// What a match is.
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
        // `git@host:path` names a repository, `user@2x.png` and `crate@1.2.3` nobody.
        Kind::Email => {
            let (local, domain) = matched.rsplit_once('@').unwrap_or_default();
            let last = domain.rsplit('.').next().unwrap_or_default();
            let is_file = ["png", "jpg", "svg", "gif", "js", "ts", "rs"].contains(&last);
            let is_service = ["git", "noreply", "no-reply"].contains(&local);
            !is_file && !is_service && last.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
        }
        Kind::IpV4 => {
            let is_version =
                before.ends_with(['v', 'V', '-', '=', '^', '~', '.']) || after.starts_with(['-', '.', '_']);
            let ends_sentence = after.starts_with(". ") || after == ".";
            matched.parse().is_ok_and(is_public_v4) && (!is_version || ends_sentence)
        }
        Kind::IpV6 => matched.parse().is_ok_and(is_public_v6),
        // Not the first or last part of a longer number with hyphens, such as a date or an identifier.
        Kind::UsSsn => !before.ends_with(['-', '/']) && !after.starts_with(['-', '/']) && matched.contains(['-', ' ']),
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

/// E-mail addresses, also at the end of a sentence.
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

/// Telephone numbers as E.164 has them, however they are grouped, and those of North America without a country.
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
            if (8..=15).contains(&digits) && !is_part {
                out.push(Match::new(PHONE, found.start(), found.start() + text.len()));
            }
        }
    })
}
