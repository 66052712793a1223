//! Secrets and personal data with characters inside that nobody sees (M7.6.48).

use super::*;

/// What views leave out, or what is shown without a width.
const UNSEEN: [&str; 18] = [
    "\u{200b}",
    "\u{ad}",
    "\u{2060}",
    "\u{feff}",
    "\u{fe0f}",
    "\u{202e}",
    "\u{200d}",
    "\u{200e}",
    "\u{e0041}",
    "\u{7}",
    "\u{1b}",
    "\u{7f}",
    "\u{0}",
    "\u{85}",
    "\u{8}",
    "\r",
    "\u{180e}",
    "\u{200b}\u{7}\u{ad}",
];

#[test]
fn secret_with_unseen_characters_inside_is_redacted_m7_6_48() {
    let token = github_token();
    for unseen in UNSEEN {
        for at in [2, 4, 20, 39] {
            let text = format!("❤\u{fe0f} see {}{unseen}{}{unseen} now", &token[..at], &token[at..]);
            assert_eq!(
                clean(&text),
                format!("❤\u{fe0f} see [redacted:github_token]{unseen} now"),
                "{text:?}"
            );
            assert!(Cleaner::default().has_something(&text), "{text:?}");
        }
        let mut value = json!({"password": format!("S3c{unseen}retP4ss99"), format!("pass{unseen}wd"): "S3cretP4ss99"});
        Cleaner::default().value(&mut value, "metadata");
        assert!(!value.to_string().contains("ss99"), "{value}");
    }
}

#[test]
fn whatever_views_leave_out_is_looked_through_m7_6_48() {
    let missed: Vec<char> = ('\0'..=char::MAX)
        .filter(|c| {
            let text = format!("a{c}b");
            folio_memory::view::strip_unsafe_chars(&text) == "ab" && shown(&text) != "ab"
        })
        .collect();
    assert_eq!(missed, []);
}

#[test]
fn personal_data_with_unseen_characters_inside_is_flagged_and_replaced_m7_6_48() {
    for unseen in UNSEEN {
        let text = format!("write to bob.smith{unseen}@gma{unseen}il.com or 4111 1111{unseen} 1111 1111");
        let mut flagged = Cleaner::default();
        flagged.text(&mut text.clone(), "content");
        assert!(flagged.take_pii().contains(&Pii::Email), "{text:?}");
        let mut replaced = text.clone();
        Cleaner::new(Redaction::Pii).text(&mut replaced, "content");
        assert!(replaced.starts_with("write to [redacted:email] or "), "{replaced:?}");
    }
}

#[test]
fn text_with_unseen_characters_and_no_secret_stays_as_it_is_m7_6_48() {
    for text in [
        "1\u{fe0f}\u{20e3} a\u{200b}b \u{1b}[31mred\u{1b}[0m\r\nnext",
        "می\u{200c}خواهم user\u{ad}name",
        "\u{feff}begin",
    ] {
        assert_eq!(clean(text), text);
    }
}

#[test]
fn long_body_with_unseen_characters_in_its_secrets_is_redacted_m7_6_48() {
    let token = github_token();
    let secret = format!("{}\u{200b}{}", &token[..9], &token[9..]);
    let line = "é日🙂 \u{1b}[0mword, ";
    let text = format!("{}{secret} {}{secret}", line.repeat(20_000), line.repeat(90_000));
    let mut pieces = CleanPieces::new(text.as_bytes(), Redaction::Secrets);
    let mut cleaned = Vec::new();
    while let Some(piece) = pieces.next().unwrap() {
        cleaned.extend(piece);
    }
    assert!(String::from_utf8(cleaned).unwrap() == text.replace(&secret, "[redacted:github_token]"));
}

#[test]
fn personal_data_in_keys_and_numbers_is_flagged_and_replaced_m7_6_49() {
    let given =
        json!({"ada@lovelace.org": true, "card": 4_111_111_111_111_111_u64, "list": [[378_282_246_310_005_u64]]});
    let mut kept = given.clone();
    let mut flagged = Cleaner::default();
    flagged.value(&mut kept, "context");
    assert_eq!(kept, given);
    assert_eq!(flagged.take_pii(), [Pii::Email, Pii::CreditCard]);
    let mut replaced = given;
    let mut cleaner = Cleaner::new(Redaction::Pii);
    assert!(cleaner.is_needed_for(&json!([4_111_111_111_111_111_u64])));
    cleaner.value(&mut replaced, "context");
    assert_eq!(
        replaced,
        json!({"[redacted:email]": true, "card": "[redacted:credit_card]", "list": [["[redacted:credit_card]"]]})
    );
    // Numbers that only look like one: a count, an instant in milliseconds, one without the check digit, a fraction.
    let fine = json!([
        4_111,
        1_700_000_000_000_u64,
        4_111_111_111_111_112_u64,
        4_111.111_111_111_111
    ]);
    assert!(!Cleaner::new(Redaction::Pii).is_needed_for(&fine));
}
