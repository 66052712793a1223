//! Tables of what must be redacted and what must stay: how secrets are written in settings files, on command lines and
//! in answers, and what only begins like one. Assembled at run time, so that no scanner takes this file for a leak.

use serde_json::json;

use super::*;

const DRAWN: &str = "0123456789abcdefghijABCDEFGHIJ0123456789";

/// This many digits of a hash.
fn hex(digits: usize) -> String {
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".repeat(2)[..digits].to_owned()
}

#[test]
fn assigned_secret_is_redacted_in_every_spelling_of_its_name_m7_6_48() {
    let chosen = concat!("S3cret", "P4ss99");
    let basic = concat!("dXNlcjpw", "YXNzd29yZDEyMw==");
    // What stands before the secret, and what behind it.
    let around = [
        ("DB_PWD=", ""),
        ("{\"pwd\": \"", "\"}"),
        ("{\"accessToken\": \"", "\"}"),
        ("{\"authToken\":\"", "\"}"),
        ("'refreshToken': '", "'"),
        ("sessionToken = ", ""),
        ("id_token=", "&state=x"),
        ("aws_session_token=", ""),
        ("aws_secret_access_key      = ", ""),
        ("API_KEY                    : ", ""),
        ("password\t\t\t\t\t\t=\t", "\n"),
        ("//registry.npmjs.org/:_authToken=", ""),
        ("curl --api-key ", " https://x.example.org/"),
        ("psql --db-password '", "' app"),
        ("gh --token ", " api"),
        ("--token=", ""),
        ("--client-secret=", ""),
        ("curl -s -u admin:", " https://x.example.org/"),
        ("curl --user 'me@example.com:", "' https://x.example.org/"),
        ("<password>", "</password>"),
        ("<add><ns:apiKey>", "</ns:apiKey></add>"),
        ("machine x.example.org login me password ", "\n"),
        ("machine x.example.org\n  login me\n  password ", "\n"),
        ("api_key = `", "`"),
        ("{\"password\":\n    \"", "\"}"),
        ("{\"password\" :\r\n    \"", "\"}"),
    ];
    for (before, behind) in around {
        for secret in [DRAWN, chosen] {
            let text = format!("{before}{secret}{behind}");
            assert_eq!(
                clean(&text),
                format!("{before}[redacted:assigned_secret]{behind}"),
                "{text}"
            );
        }
    }
    for before in [
        "Authorization: Basic ",
        "\"authorization\": \"Basic ",
        "authorization=basic ",
    ] {
        let end = if before.starts_with('"') { "\"" } else { "" };
        let text = format!("{before}{basic}{end}");
        assert_eq!(
            clean(&text),
            format!("{before}[redacted:assigned_secret]{end}"),
            "{text}"
        );
    }
}

#[test]
fn token_with_a_known_prefix_is_redacted_m7_6_48() {
    let tokens = [
        ["GOCSPX", "-", &DRAWN[..28]],
        ["hvs", ".", &DRAWN.repeat(2)],
        ["dapi", "", &hex(32)],
        ["whs", "ec_", &DRAWN[..32]],
        ["xapp-1", "-A0123456789-", &hex(64)],
        ["ATATT3", "xFfGF0", &DRAWN.repeat(4)],
        ["dckr", "_pat_", &DRAWN[..27]],
        ["glrt", "-", &DRAWN[..20]],
        ["glptt", "-", &hex(40)],
        ["doo", "_v1_", &hex(64)],
        ["sntr", "ys_", &DRAWN.repeat(2)],
        ["sntr", "yu_", &hex(64)],
        ["glsa", "_", &format!("{}_deadbeef", &DRAWN[..32])],
        ["NRAK", "-", "ABCDEFGHIJKLMNOPQRSTUVWXY01"],
        ["PMAK", "-", &format!("{}-{}", hex(24), hex(34))],
        ["figd", "_", DRAWN],
        ["ntn", "_", DRAWN],
        ["sbp", "_", &hex(40)],
        ["r8", "_", &DRAWN[..37]],
        ["pplx", "-", &hex(48)],
        ["rubygems", "_", &hex(48)],
        ["dp", ".pt.", DRAWN],
        ["ops", "_eyJ", &DRAWN.repeat(3)],
        ["1/", "/0", "gAbCdEfGhIjKlMnOpQrStUvWxYz0123456789-abcdefg"],
    ]
    .map(|parts| parts.concat());
    for token in tokens {
        for (before, behind) in [("", ""), ("see ", "."), ("\"", "\","), ("KEY_FOR_X ", " and more")] {
            let text = format!("{before}{token}{behind}");
            assert_eq!(
                clean(&text),
                format!("{before}[redacted:access_token]{behind}"),
                "{text}"
            );
        }
    }
    let addresses = [
        (
            "https://hooks.slack.com/services/",
            format!("T00000000/B00000000/{}", &DRAWN[..24]),
            "",
        ),
        (
            "https://discord.com/api/webhooks/",
            format!("123456789012345678/{DRAWN}"),
            " is it",
        ),
        (
            "https://a.example.net/c?sv=2022-11-02&sig=",
            format!("{DRAWN}%2FAb%3D"),
            "&se=2",
        ),
    ];
    for (before, secret, behind) in addresses {
        let text = format!("{before}{secret}{behind}");
        assert_eq!(
            clean(&text),
            format!("{before}[redacted:access_token]{behind}"),
            "{text}"
        );
    }
}

#[test]
fn names_paths_and_placeholders_are_not_redacted_as_tokens_m7_6_48() {
    let fine = [
        // Names in code and in lists of files.
        "hf_hub_download_model_v2_from_cache, npm_config_registry_cache_v2_dir",
        "glpat-example-with-many-words-2 and SG.something.that.is.long.v2.and.more",
        "xai-explainable-ai-methods-2024-survey, gsk_vaccine_trial_results_2023_phase",
        "see sk-learn-2024-migration-guide-for-all, task-2024-06-planning-of-the-offsite",
        "pk_test_customers_table_2024_idx, sk_test_helpers_module_v2_final",
        "figd_export_of_all_the_frames_2024, dp.pt.some.words.of.a.package.v2.more",
        "whsec_handler_of_webhooks_in_version_2, r8_rules_for_android_2024",
        "https://example.org/1//0 and hvs.is_a_module_with_a_long_name_2",
        // What a name says and is no value.
        "private_key: /etc/ssl/private/server-2024.pem, pwd=/home/ada/project2024",
        "{\"pwd\": \"/srv/app2/releases/20240501\", \"OLDPWD\": \"~/work2024/x\"}",
        "secret: my-app-secret-v2, secret = db-credentials-2",
        "api_key: https://docs.example.org/keys/v2/and-what-is-more",
        "next_token=abc123def456, pageToken: 'abc123def456', \"nextPageToken\": \"abc123def456\"",
        "--starting-token abc123def456, --password-file /run/x1y2z3w4",
        "docker build --secret id=npmrc2,src=a1b2c3 --password --host-2024",
        "the password Tr0ub4dor is not one, a secret a1b2c3d4 neither, TOKEN value1234",
        "docker run -u ada:group2024x image, sort -u a1b2:c3d4e5f6",
        "basic a1b2c3d4e5 things, Authorization: Basic realm1234",
        "Vec<Secret>a1b2c3d4e5, if secret>a1b2c3d4e5",
        "secret:\n  name2024x: 1",
        "https://discord.com/api/webhooks/123, https://hooks.slack.com/services/T0/B0/x, ?sig=abc123",
    ];
    for text in fine {
        assert_eq!(clean(text), text);
    }
}

#[test]
fn value_with_capitals_or_long_numbers_is_redacted_as_secret_m7_6_48() {
    for (before, secret) in [
        ("secret=", ["Prod_", "Winter_2024"].concat()),
        ("secret: ", ["My_Summer", "/Trip_2019"].concat()),
        ("api_key = ", ["live_482917", "3348291733_48291733"].concat()),
        ("secret: ", ["abcd-1234", "-5678-9012"].concat()),
        ("access_key=", ["some_words_", "48291733"].concat()),
    ] {
        let text = format!("{before}{secret}");
        assert_eq!(clean(&text), format!("{before}[redacted:assigned_secret]"), "{text}");
    }
    let token = ["pk_live_", "4829173348291733_48291733"].concat();
    assert_eq!(clean(&token), "[redacted:stripe_key]");
    for fine in [
        "secret: app-settings-20240501",
        "gsk_vaccine_trial_results_20231105_phase",
    ] {
        assert_eq!(clean(fine), fine);
    }
}

#[test]
fn passphrase_of_plain_words_is_redacted_under_a_password_name_m7_6_48() {
    let phrase = ["correct-horse", "-battery-staple-7"].concat();
    for (before, behind) in [
        ("passphrase: \"", "\""),
        ("db_password=", ""),
        ("PASSWD=", ""),
        ("--db-pwd ", " app"),
        ("<password>", "</password>"),
        ("curl -u admin:", " https://x.example.org/"),
    ] {
        let text = format!("{before}{phrase}{behind}");
        let wanted = format!("{before}[redacted:assigned_secret]{behind}");
        assert_eq!(clean(&text), wanted, "{text}");
    }
    let mut value = json!({"password": phrase, "dbPwd": phrase, "secret": phrase, "note": phrase});
    let gone = "[redacted:assigned_secret]";
    Cleaner::default().value(&mut value, "context");
    assert_eq!(
        value,
        json!({"password": gone, "dbPwd": gone, "secret": phrase, "note": phrase})
    );
}

#[test]
fn secret_url_and_password_with_a_slash_are_redacted_m7_6_48() {
    let slash = ["/Sup3r", "S3cret"].concat();
    for (before, secret, behind) in [
        ("webhook_secret=", format!("https://h.example.org/in/{}", hex(24)), ""),
        (
            "api_key: \"",
            format!("https://h.example.org/in?a=b&key={}", hex(16)),
            "\"",
        ),
        (
            "api_key: \"",
            format!("https://h.example.org/in?key={}", &DRAWN[4..24]),
            "\"",
        ),
        (
            "secret: ",
            "https://h.example.org/123e4567-e89b-12d3-a456-426614174000".to_owned(),
            "",
        ),
        ("password: \"", slash.clone(), "\""),
        ("passphrase=", slash.clone(), ""),
    ] {
        let text = format!("{before}{secret}{behind}");
        let wanted = format!("{before}[redacted:assigned_secret]{behind}");
        assert_eq!(clean(&text), wanted, "{text}");
    }
    let mut value = json!({"password": slash, "pwd": "/project2024"});
    Cleaner::default().value(&mut value, "context");
    assert_eq!(
        value,
        json!({"password": "[redacted:assigned_secret]", "pwd": "/project2024"})
    );
    for fine in [
        "secret: https://docs.example.org/keys/2024-11-05/a-page?version=v2&lang=en#part-3",
        "password: /run/secrets/db-2024, PWD=/project2024",
    ] {
        assert_eq!(clean(fine), fine);
    }
}

#[test]
fn secret_object_key_is_recognized_in_any_word_style_m7_6_48() {
    let gone = "[redacted:assigned_secret]";
    for key in [
        "secretKey",
        "privateKey",
        "accessKey",
        "accessToken",
        "access-token",
        "refreshToken",
        "sessionToken",
        "X-Api-Key",
        "apiKey",
        "db_pwd",
        "DB PASSWORD",
        "clientSecret",
        "MY_TOKEN",
    ] {
        let mut value = json!({"in": {key: DRAWN}});
        assert!(Cleaner::default().is_needed_for(&value), "{key}");
        Cleaner::default().value(&mut value, "context");
        assert_eq!(value, json!({"in": {key: gone}}));
    }
    let phrase = ["Tr0ub4dor", " 3xyz with blanks"].concat();
    let mut value = json!({
        "password": phrase, "passphrase": phrase, "note": phrase, "pageToken": "abcdefgh12345",
        "pwd": "/home/ada/project2024", "secret": "my-app-secret-v2",
        "passwd": "must have 8-16 characters, hashed with argon2id or sha256 in 2024",
    });
    let mut wanted = value.clone();
    (wanted["password"], wanted["passphrase"]) = (json!(gone), json!(gone));
    Cleaner::default().value(&mut value, "context");
    assert_eq!(value, wanted);
}

#[test]
fn object_keys_redacted_to_the_same_text_are_numbered() {
    let mut votes = json!({"eve@z.example.org": 3, "anna@x.example.org": 1, "bob@y.example.org": 2, "[redacted:email] 2": 4, "n": 5});
    let wanted = json!({
        "[redacted:email]": 1, "[redacted:email] 2": 4, "[redacted:email] 3": 2, "[redacted:email] 4": 3, "n": 5,
    });
    Cleaner::new(Redaction::Pii).value(&mut votes, "metadata");
    assert_eq!(votes, wanted);
    Cleaner::new(Redaction::Pii).value(&mut votes, "metadata");
    assert_eq!(votes, wanted, "done twice is done once");
    let mut tokens = json!({github_token(): {"a": 1}, format!("{}x", github_token()): {"a": 2}});
    Cleaner::default().value(&mut tokens, "output");
    assert_eq!(
        tokens,
        json!({"[redacted:github_token]": {"a": 1}, "[redacted:github_token] 2": {"a": 2}})
    );
}
