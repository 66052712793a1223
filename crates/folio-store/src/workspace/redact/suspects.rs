//! Finds the suspicious places of a long text in one pass, so that only their surroundings need the detectors.
//!
//! The detectors scan a text one after the other, nine scans in all. Long texts are outputs of programs, and most of
//! them hold nothing to redact: for those, a single scan for everything that any detector could match is enough.

use std::ops::Range;
use std::sync::LazyLock;
use std::thread::Builder;

use leakguard::Match;
use regex::bytes::Regex;

/// Texts of up to this many bytes are scanned as a whole.
const WHOLE_BYTES: usize = 16 * 1024;
/// Bytes scanned before and after a suspicious place. No match is longer, unless it is one long word or reaches the
/// edge of the scanned part.
const AROUND_BYTES: usize = 512;
/// Bytes of a word that is not cut.
const WORD_BYTES: usize = 64 * 1024;
/// A match this near to the edge of the scanned part may continue beyond it.
const EDGE_BYTES: usize = 64;
/// Bytes by which scans overlap, so that a match of several words across the end of one is found in the next.
const OVERLAP_BYTES: usize = 512;

/// From this many bytes on, two threads scan one half of a text each.
const HALVED_FROM: usize = 256 * 1024;
/// Bytes in which the end of a line is searched for, so that the halves need not overlap.
const LINE_BYTES: usize = 4 * 1024;

/// Matches the beginning, or shortly after it, of everything that a detector can find: it demands less than the
/// detectors, and nothing that would make an automaton remember more than the last few bytes.
const SHAPES: &str = r#"(?x-u)
    # addresses with a password, addresses of persons
    :// [^/?\#\s]* @ | [^\s@] @ [A-Za-z0-9\-]
    # tokens that say what they are
    | eyJ [A-Za-z0-9_\-]* \.
    | (?: gh[pours]_ | github_pat_ | xox[a-z]- | [srp]k_(?:live|test)_ | sk- | AIza ) [A-Za-z0-9_\-]{4}
    | A (?: KIA | SIA | GPA | IDA | ROA | IPA | NPA ) [A-Z0-9]{4}
    | DefaultEndpointsProtocol= | AccountKey=
    | (?: gl(?:pat|rt|ptt|dt|soat)- | npm_ | hf_ | pypi- | do[opr]_v1_ | shp(?:at|ss|ca|pa)_ | SG\. | ya29\. | gsk_ | xai- | lin_api_
        | AGE-SECRET-KEY-1 | GOCSPX- | hv[sb]\. | xapp-[0-9]- | dckr_[po]at_ | glsa_ | NRAK- | PMAK- | figd_ | dp\.[a-z]{2}\.
        | ops_eyJ | 1//0 | sntry[su]_ | folio_ ) [A-Za-z0-9_.\-]{8}
    | whsec_ | ATATT3 | (?: dapi | ntn_ | sbp_ | r8_ | pplx- | rubygems_ ) [A-Za-z0-9]{8}
    | hooks\.slack\.com/s | discord(?:app)?\.com/api/w | [?&]sig=
    | -----BEGIN\x20
    # tokens that are known by their shape
    | [0-9]{8} : [A-Za-z0-9_\-]{8}
    | mfa\. [A-Za-z0-9_\-]{8} | \. [A-Za-z0-9_\-]{6} \. [A-Za-z0-9_\-]{20}
    # names of secrets
    | (?i: pass (?: word | wd | phrase ) | pwd | secret (?: [_\-]?key )? | (?: api | access | private ) [_\-]? key
         | (?: access | auth | refresh | session | id | client | github | gitlab | npm | bot | api ) [_\-]? token
         | (?-i: TOKEN | --token ) )
      (?: \\? ["']? [\x20\t]* [:=] | [\x20\t>] )
    | (?i: bearer ) [\x20\t] | (?i: authorization ) \\? ["']? [\x20\t]* [:=]
    | \x20 (?: -u\x20 | --user[\x20=] ) ["']? [A-Za-z0-9_.@%+\-]+ :
    # cards, accounts
    | (?: \A | [^0-9A-Za-z_] ) [2-6][0-9]{3} (?: [0-9]{9} | [\x20\-][0-9]{4}[\x20\-] | [\x20\-][0-9]{6}[\x20\-] )
    | (?: \A | [^0-9A-Za-z_] ) [A-Z]{2}[0-9]{2} (?: [A-Z0-9]{11} | [\x20\-][A-Z0-9]{4}[\x20\-] )
    # telephones
    | \+ [1-9] [0-9\x20.\-()]{6}
    | \( [2-9][0-9]{2} \) \x20? [2-9][0-9]{2}
    | [2-9][0-9]{2} [\-.] [2-9][0-9]{2} [\-.] [0-9]{4}
    | 1 [\-.\x20] [2-9][0-9]{2} [\-.\x20] [2-9][0-9]{2} [\-.\x20] [0-9]{4}
    | (?: \A | [^0-9A-Za-z_] ) 0[1-9] (?: [\x20.\-][0-9]{2} ){4}
    | (?: \A | [^0-9A-Za-z_] ) 0[1-9][0-9]{1,4} [\x20/\-] [0-9]{5}
    # national ids, addresses of machines
    | [0-9]{3} - [0-9]{2} - [0-9]{4}
    | [0-9] \. [0-9]{1,3} \. [0-9]{1,3} \. [0-9]
    | [23][0-9A-Fa-f]{3} : [0-9A-Fa-f:]
    | (?: [0-9A-Fa-f]{2} [:\-] ){4}
"#;

/// The parts of a text that are worth a closer scan.
#[derive(Debug)]
pub(super) enum Suspects {
    /// The whole text.
    Whole,
    /// These parts, in order and without overlaps.
    Parts(Vec<Range<usize>>),
}

impl Suspects {
    /// The suspicious parts of `text`: a short text with anything suspicious counts as a whole.
    pub(super) fn of(text: &str) -> Self {
        Self::with(text, Builder::new())
    }

    /// The same, using the thread that `another` makes if the text is long enough.
    fn with(text: &str, another: Builder) -> Self {
        if text.len() <= WHOLE_BYTES {
            return if shapes().is_match(text.as_bytes()) {
                Self::Whole
            } else {
                Self::Parts(Vec::new())
            };
        }
        if text.len() < HALVED_FROM {
            return Self::Parts(parts_in(text, 0..text.len()));
        }
        let (first, second) = halves(text.as_bytes());
        let mut found = std::thread::scope(|scope| {
            let others = another.spawn_scoped(scope, || parts_in(text, second.clone()));
            let mut found = parts_in(text, first);
            // If the thread panicked or could not be started, its half is scanned here.
            let others = others.ok().and_then(|others| others.join().ok());
            found.extend(others.unwrap_or_else(|| parts_in(text, second.clone())));
            found
        });
        // Where the halves overlap, both may have found the same.
        found.sort_by_key(|part| part.start);
        let mut parts = Vec::with_capacity(found.len());
        found.into_iter().for_each(|part| add(&mut parts, part));
        Self::Parts(parts)
    }

    /// What `detect` finds in `text`, in order, as if it had scanned the whole text.
    pub(super) fn find(&self, text: &str, detect: impl Fn(&str) -> Vec<Match>) -> Vec<Match> {
        let parts = match self {
            Self::Whole => return detect(text),
            Self::Parts(parts) => parts,
        };
        let mut done: Vec<(Range<usize>, Vec<Match>)> = Vec::new();
        for part in parts {
            if done.last().is_some_and(|(last, _)| part.end <= last.end) {
                continue;
            }
            let mut part = part.clone();
            let here = loop {
                while let Some((last, _)) = done.pop_if(|(last, _)| part.start < last.end) {
                    part.start = part.start.min(last.start);
                }
                let here = detect(&text[part.clone()]);
                let is_at_edge = |span: &Match| {
                    (part.start > 0 && span.start < EDGE_BYTES)
                        || (part.end < text.len() && span.end + EDGE_BYTES > part.len())
                };
                if !here.iter().any(is_at_edge) {
                    break here;
                }
                part = around(text, &part, part.len());
            };
            done.push((part, here));
        }
        let placed = |(part, mut here): (Range<usize>, Vec<Match>)| {
            for one in &mut here {
                one.start += part.start;
                one.end += part.start;
            }
            here
        };
        done.into_iter().flat_map(placed).collect()
    }
}

/// The compiled [`SHAPES`].
fn shapes() -> &'static Regex {
    static SHAPES_OF_ALL: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(SHAPES).expect("the expression is a constant and a test uses it"));
    &SHAPES_OF_ALL
}

/// The surroundings of everything suspicious in `range` of `text`.
fn parts_in(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let looked_at = &text.as_bytes()[range.clone()];
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while let Some(found) = shapes().shortest_match_at(looked_at, at) {
        let found = range.start + found;
        let part = around(text, &(found..found), AROUND_BYTES);
        let next = found.max(part.end.saturating_sub(OVERLAP_BYTES)).min(range.end);
        at = next - range.start;
        add(&mut parts, part);
    }
    parts
}

/// The halves of a text: split at the end of a line, which nothing suspicious crosses, or else overlapping by the
/// length of a word.
fn halves(text: &[u8]) -> (Range<usize>, Range<usize>) {
    let middle = text.len() / 2;
    let line = text[middle - LINE_BYTES..middle]
        .iter()
        .rposition(|byte| *byte == b'\n');
    match line {
        Some(at) => {
            let end = middle - LINE_BYTES + at + 1;
            (0..end, end..text.len())
        }
        None => (0..(middle + WORD_BYTES).min(text.len()), middle..text.len()),
    }
}

/// Extends `part` by `bytes` on either side, and then to the ends of words.
fn around(text: &str, part: &Range<usize>, bytes: usize) -> Range<usize> {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'"';
    let all = text.as_bytes();
    let start = part.start.saturating_sub(bytes);
    let before = &all[start.saturating_sub(WORD_BYTES)..start];
    let start = start - before.iter().rev().position(is_end).unwrap_or(before.len());
    let end = (part.end + bytes).min(all.len());
    let behind = &all[end..(end + WORD_BYTES).min(all.len())];
    let end = end + behind.iter().position(is_end).unwrap_or(behind.len());
    text.floor_char_boundary(start)..text.ceil_char_boundary(end)
}

fn add(parts: &mut Vec<Range<usize>>, part: Range<usize>) {
    match parts.last_mut() {
        Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
        _ => parts.push(part),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::personal::personal_in;
    use super::super::secrets_in;
    use super::*;

    /// What detectors find, assembled at run time, so that no scanner takes this file for a leak.
    fn samples() -> Vec<String> {
        let key = "0123456789abcdefghijABCDEFGHIJ0123456789";
        let long = key.repeat(200);
        let head = ["-----BEGIN RSA PRIVATE", " KEY-----"].concat();
        let tail = ["-----END RSA PRIVATE", " KEY-----"].concat();
        let mut samples: Vec<String> = [
            ["ghp", "_", &key[..36]],
            ["github", "_pat_", key],
            ["xoxb", "-", key],
            ["sk_live", "_", key],
            ["sk", "-proj-", key],
            ["AI", "za", &key[..35]],
            ["AK", "IA", "0123456789ABCDEF"],
            ["glp", "at-", key],
            ["12345678", ":", &key[..35]],
            ["mfa", ".", &key.repeat(3)[..84]],
            ["postgres://ada:", "s3cr3t-Horse", "@db.example.org/x"],
            ["password", " = ", "s3cr3t-Horse-99"],
            ["\"api_key\": \"", key, "\""],
            ["Authorization: Bearer", " ", key],
            ["AccountKey", "=", key],
            ["ada", "@", "lovelace.org"],
            ["4111 1111", " ", "1111 1111"],
            ["DE89370400", "44", "0532013000"],
            ["GB82 WEST 1234", " ", "5698 7654 32"],
            ["+44 20", " ", "7946 0958"],
            ["(415) 555", "-", "2671"],
            ["212-555", "-", "0187"],
            ["1 415 555", " ", "2671"],
            ["06 12 34", " ", "56 78"],
            ["0171", "/", "2345678"],
            ["078-05", "-", "1120"],
            ["93.184", ".", "216.34"],
            ["2606:2800", ":", "220:1:248:1893:25c8:1946"],
            ["2a00", "::", "1"],
            ["00:1a:2b", ":", "3c:4d:5e"],
            ["GOCSPX", "-", &key[..28]],
            ["dapi", &"9f86d081".repeat(4), ""],
            ["hooks.slack.com/services/T00000000/B00000000/", &key[..24], ""],
            ["discord.com/api/webhooks/123456789012345678/", key, key],
            ["https://a.example.net/c?sv=2&sig=", key, "%3D"],
            ["--api-key", " ", key],
            ["<apiKey>", key, "</apiKey>"],
            ["curl -u admin:", "Sup3rS3cret99", " https://x.org/"],
            ["machine x.org login me password", " ", "S3cretP4ss99"],
            ["Authorization: Basic ", "dXNlcjpwYXNz", "d29yZDEyMw=="],
            ["api_key         =        ", key, ""],
            ["\"password\":\n    \"", "S3cretP4ss99", "\""],
        ]
        .iter()
        .map(|parts| parts.concat())
        .collect();
        samples.push(["eyJ", key, ".", key, ".", key].concat());
        samples.push(["eyJ", key, ".", &long, ".", &long].concat());
        samples.push(["MTk4NjIyNDgzNDcxOTI1MjQ4", ".", "Cl2FMQ", ".", &key[..38]].concat());
        samples.push(format!("{head}\n{}\n{tail}", format!("{key}\n").repeat(300)));
        samples
    }

    /// Text without anything to be found in it.
    fn filler(form: u8, bytes: usize) -> String {
        let lines = [
            "   Compiling crate v0.17.5 (/srv/build/deadbeef)\n",
            "{\"id\":17,\"tags\":[\"a\"]},",
            "é日🙂 word, ",
            "x",
        ];
        let line = lines[usize::from(form) % lines.len()];
        line.repeat(bytes / line.len() + 1)
    }

    fn both(text: &str, suspects: &Suspects) -> [Vec<Match>; 2] {
        [suspects.find(text, secrets_in), suspects.find(text, personal_in)]
    }

    #[test]
    fn harmless_text_yields_no_suspect_parts() {
        for form in 0..4 {
            let text = filler(form, 100_000);
            let suspects = Suspects::of(&text);
            assert!(
                matches!(&suspects, Suspects::Parts(parts) if parts.is_empty()),
                "{form}: {suspects:?}"
            );
        }
    }

    #[test]
    fn every_secret_sample_is_found_in_a_long_text_m7_6_48() {
        for form in 0..4 {
            for sample in samples() {
                let text = format!("{} {sample} {}", filler(form, 70_000), filler(form, 70_000));
                let found = both(&text, &Suspects::of(&text));
                assert_eq!(found, both(&text, &Suspects::Whole), "{sample}");
                assert!(found.iter().any(|found| !found.is_empty()), "{sample}");
            }
        }
    }

    #[test]
    fn sample_across_the_split_of_a_long_text_is_found_m7_6_48() {
        for form in 0..4 {
            let before = filler(form, HALVED_FROM / 2);
            let near = before.floor_char_boundary(before.len() - 2 * AROUND_BYTES);
            for sample in samples() {
                for inside in [0, 1, sample.len() / 2, sample.len()] {
                    let mut behind = filler(form, before.len() + 2 * inside);
                    // The middle of the text is as many bytes inside of the sample.
                    let bytes = (before.len() + 2 * inside).saturating_sub(sample.len());
                    behind.truncate(behind.floor_char_boundary(bytes));
                    let text = format!("{before} {sample} {behind}");
                    let far = text.ceil_char_boundary(before.len() + sample.len() + 2 * AROUND_BYTES);
                    // Where it ends is what follows: some go on for as long as there is no end of a line.
                    let begins = |found: [Vec<Match>; 2], at: usize| {
                        found.map(|kind| {
                            kind.into_iter()
                                .map(|one| (at + one.start, one.kind))
                                .collect::<Vec<_>>()
                        })
                    };
                    let found = begins(both(&text, &Suspects::of(&text)), 0);
                    let expected = begins(both(&text[near..far], &Suspects::Whole), near);
                    assert_eq!(found, expected, "{sample} {inside} in {form}");
                    assert!(found.iter().any(|found| !found.is_empty()), "{sample}");
                }
            }
        }
    }

    #[test]
    fn text_is_scanned_on_the_calling_thread_without_new_threads_m7_6_48() {
        let half = filler(0, HALVED_FROM);
        for sample in samples().into_iter().take(8) {
            let text = format!("{half} {sample} {half} {sample} .");
            let alone = Suspects::with(&text, crate::workspace::tests::no_thread());
            assert_eq!(both(&text, &alone), both(&text, &Suspects::of(&text)));
            assert_eq!(alone.find(&text, secrets_in).len(), 2, "{sample}");
        }
    }

    #[test]
    fn every_secret_sample_is_found_in_a_short_text_m7_6_48() {
        for sample in samples() {
            for (before, behind) in [("", ""), ("x ", " y"), ("\"", "\""), ("日 ", " ."), ("a=1, ", "\n")] {
                let text = format!("{before}{sample}{behind}");
                let found = both(&text, &Suspects::of(&text));
                assert_eq!(found, both(&text, &Suspects::Whole), "{text}");
                assert!(found.iter().any(|found| !found.is_empty()), "{text}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn suspect_scan_of_a_short_text_equals_a_full_scan_m7_6_48(
            parts in proptest::collection::vec((0..46_usize, 0..4_u8, 0..60_usize, "[ \"\n,:.=@0-9a-f-]{0,3}"), 0..4),
            around in "\\PC{0,20}",
        ) {
            let samples = samples();
            let mut text = around;
            for (sample, form, bytes, between) in parts {
                text += &between;
                let sample = &samples[sample % samples.len()];
                text += if sample.len() < 4_000 { sample.as_str() } else { "" };
                text += &between;
                text += &filler(form, bytes);
            }
            prop_assert_eq!(both(&text, &Suspects::of(&text)), both(&text, &Suspects::Whole));
        }

        #[test]
        fn suspect_scan_of_a_long_text_equals_a_full_scan_m7_6_48(
            parts in proptest::collection::vec((0..46_usize, 0..4_u8, 0..6_000_usize, "[ \"\n,]"), 1..30),
        ) {
            let samples = samples();
            let mut text = filler(0, WHOLE_BYTES);
            for (sample, form, bytes, between) in parts {
                text += &between;
                text += &samples[sample % samples.len()];
                text += &between;
                text += &filler(form, bytes);
            }
            prop_assert_eq!(both(&text, &Suspects::of(&text)), both(&text, &Suspects::Whole));
        }
    }
}
