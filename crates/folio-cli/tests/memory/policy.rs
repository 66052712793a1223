//! The policy of a space, as a person and as a program see it.

use crate::support::{Folio, session};
use insta::assert_snapshot;
use serde_json::json;

#[test]
fn policy_is_set_by_key_or_as_a_whole_document() {
    let folio = Folio::new();
    folio.file("policy.json", r#"{"types": {"tide": {"class": "reminder"}}}"#);
    folio.file("wrong.json", r#"{"strict_types": "perhaps"}"#);
    let seen = session(
        &folio,
        &[
            "policy show --document",
            "policy set strict_types=everybody types.weather.class=alert types.weather.default_ttl_minutes=60",
            "observe add x --type tide",
            "observe add x --type weather",
            "policy unset strict_types",
            "policy set types.weather.class=storm",
            "policy set quota.live_observations=9 retention.archive_after_minutes=-5",
            "policy set policy.json",
            "policy set wrong.json",
            "trace --limit 4",
        ],
    );
    // The sections are listed there, and there will be more.
    let sections = regex::Regex::new("unknown field `type`, expected one of .*").unwrap();
    let seen = sections.replace(&seen, "unknown field `type`, expected one of SECTIONS");
    assert_snapshot!(seen, @r#"
    $ folio policy show --document
    {}
    ! there is no file FOLDER/home/.local/share/folio/folio.db yet
    $ folio policy set strict_types=everybody types.weather.class=alert types.weather.default_ttl_minutes=60
    {
      "types": {
        "weather": {
          "class": "alert",
          "default_ttl_minutes": 60
        }
      },
      "strict_types": "everybody"
    }
    $ folio observe add x --type tide
    ! error[type_unknown]: type: "tide" is not registered in this space; there are action_suggestion, alert, contextual_insight, dependency, error_alert, learning, observation, pattern_detected, pending_confirmation, recovery_plan, reminder, risk_alert, security_alert, weather
    = 2
    $ folio observe add x --type weather
    e1 [weather/active 0.5] x
    $ folio policy unset strict_types
    {
      "types": {
        "weather": {
          "class": "alert",
          "default_ttl_minutes": 60
        }
      }
    }
    $ folio policy set types.weather.class=storm
    ! error[policy_invalid]: the policy cannot be read: types.weather.class: unknown variant `storm`, expected one of `alert`, `pending_confirmation`, `dependency`, `reminder`, `action_suggestion`, `insight`, `observation`, `pattern`
    !   hint: `folio policy show --document` prints a valid one
    = 2
    $ folio policy set quota.live_observations=9 retention.archive_after_minutes=-5
    ! error[policy_invalid]: the policy cannot be read: retention.archive_after_minutes: invalid value: integer `-5`, expected a whole number from 0
    !   hint: `folio policy show --document` prints a valid one
    = 2
    $ folio policy set policy.json
    {
      "types": {
        "tide": {
          "class": "dependency",
          "default_ttl_minutes": 10080
        }
      }
    }
    $ folio policy set wrong.json
    ! error[policy_invalid]: the policy cannot be read: strict_types: unknown variant `perhaps`, expected one of `tools`, `everybody`, `nobody`
    !   hint: `folio policy show --document` prints a valid one
    = 2
    $ folio trace --limit 4
    #2     TIME page         add_page by human: scratch_page "Scratch page"
    #2     TIME scratch_page add_observation weather by human: x (confidence=0.5)
    #3     TIME policy       set_policy by human
    #4     TIME policy       set_policy by human
    ! 4 of more than 4; continue with --cursor CURSOR
    "#);
}

#[test]
fn unset_of_an_unknown_policy_key_is_refused() {
    let folio = Folio::new();
    for key in ["strict_type", "scratchbook.budgett", "types.weather.colour"] {
        let failed = folio.seen(&["policy", "unset", key]);
        assert!(failed.contains(&format!("{key}: unknown field")), "{failed}");
        assert!(failed.ends_with("= 2\n"), "{failed}");
    }
    for key in ["strict_types", "types.weather", "types.weather.class"] {
        folio.ok(&["policy", "unset", key]);
    }
}

#[test]
fn unset_removes_what_was_set_and_creates_nothing() {
    let folio = Folio::new();
    let document = json!({"strict_types": "nobody"});
    folio.ok(&["policy", "set", "strict_types=nobody"]);
    for key in [
        "types.wether.class",
        "types.risk_alert.priority",
        "manifests.mailer.external",
    ] {
        let left = folio.json(&["policy", "unset", key]);
        assert_eq!(left["policy"], document, "{key}");
    }
    // An empty type would be a registered one.
    folio.ok(&["policy", "set", "types.tide.class=alert"]);
    let keys = ["types.tide.class", "types.tide.default_ttl_minutes"];
    let left = folio.json(&["policy", "unset", keys[0], keys[1]]);
    assert_eq!(left["policy"], document);
    // One key less leaves the rest of a manifest, which restricts its tool by being there.
    folio.ok(&["policy", "set", "manifests.mailer.external=true"]);
    let manifests = folio.json(&["policy", "unset", "manifests.mailer.external"])["policy"]["manifests"].clone();
    assert!(
        manifests["mailer"]["external"].is_null() && manifests["mailer"].is_object(),
        "{manifests}"
    );
    assert_eq!(folio.json(&["policy", "unset", "manifests.mailer"])["policy"], document);
    let failed = folio.seen(&["policy", "unset", "strict_types.tide.x"]);
    assert!(failed.ends_with("= 2\n"), "{failed}");
}

#[test]
fn policy_document_is_the_same_for_programs() {
    let folio = Folio::new();
    folio.ok(&["policy", "set", "strict_types=nobody"]);
    let document = folio.json(&["policy", "show", "--document"]);
    assert_eq!(document, json!({"strict_types": "nobody"}));
    folio.file("policy.json", document.to_string());
    folio.ok(&["policy", "set", "policy.json"]);
}

#[test]
fn policy_show_marks_the_values_that_were_set() {
    let folio = Folio::new();
    let marked = |shown: &str| {
        let set = shown.lines().filter_map(|line| line.strip_suffix("  # set"));
        set.map(str::to_owned).collect::<Vec<_>>()
    };
    let built_in = folio.ok(&["policy", "show"]);
    assert_eq!(marked(&built_in), Vec::<String>::new());
    for line in [
        "redaction=secrets",
        "quota.live_observations=10000",
        "types.alert.class=alert",
        "types.alert.priority=1",
        "types.reminder.priority=3",
        "scratchbook.placement=null  # by the window of the model",
    ] {
        assert!(built_in.lines().any(|shown| shown == line), "{line}: {built_in}");
    }
    let keys = ["retention.purge_after_minutes=null", "types.tide.class=reminder"];
    folio.ok(&["policy", "set", keys[0], keys[1]]);
    // The document sets the other keys of a section, too, and all of a type.
    let wanted = [
        "retention.archive_after_minutes=10080",
        "retention.archive_resolved_after_minutes=1440",
        "retention.pii_archive_after_minutes=43200",
        "retention.pii_erase_after_minutes=43200",
        keys[0],
        "retention.tombstone_minutes=43200",
        "types.tide.class=dependency",
        "types.tide.default_ttl_minutes=10080",
    ];
    assert_eq!(marked(&folio.ok(&["policy", "show"])), wanted);
    folio.ok(&["--space", "device", "policy", "set", "scratchbook.profile=on_device"]);
    let wanted = [
        "scratchbook.enabled=true",
        "scratchbook.path_prefix=/scratchbook",
        "scratchbook.profile=on_device",
    ];
    assert_eq!(marked(&folio.ok(&["--space", "device", "policy", "show"])), wanted);
    // Each line is one that can be set.
    let all = folio.ok(&["policy", "show"]);
    let all: Vec<_> = all
        .lines()
        .map(|line| line.split("  # ").next().unwrap_or_default())
        .filter(|line| !line.ends_with("={}"))
        .collect();
    folio.ok(&[&["policy", "set"], &all[..]].concat());
    assert_eq!(
        folio.json(&["policy", "show"])["in_force"]["types"]["tide"]["class"],
        "dependency"
    );
}

#[test]
fn policy_json_has_its_version_and_commit() {
    let folio = Folio::new();
    folio.ok(&["policy", "set", "strict_types=nobody", "--reason", "an experiment"]);
    let shown = folio.json(&["policy", "show"]);
    assert_eq!((&shown["version"], &shown["changed_seq"]), (&json!(1), &json!(1)));
    assert_eq!(shown["policy"], json!({"strict_types": "nobody"}));
    assert_eq!(shown["in_force"]["strict_types"], "nobody");
    assert_eq!(shown["in_force"]["retention"]["archive_after_minutes"], 7 * 24 * 60);
}

#[test]
fn empty_view_states_its_reason() {
    let folio = Folio::new();
    let seen = session(
        &folio,
        &[
            "book view",
            "book add todo Mine",
            "book view --budget 0",
            "book view --budget 1",
            "policy set scratchbook.enabled=false",
            "book view",
        ],
    );
    assert_snapshot!(seen, @r#"
    $ folio book view
    ! there is no file FOLDER/home/.local/share/folio/folio.db yet
    ! the scratchbook is empty
    $ folio book add todo Mine
    e1 [todo/open] Mine
    $ folio book view --budget 0
    ! nothing fits into a budget of 0 tokens
    $ folio book view --budget 1
    ! 1 entry; the budget is too small to show one
    $ folio policy set scratchbook.enabled=false
    {
      "scratchbook": {
        "enabled": false,
        "profile": "cloud",
        "path_prefix": "/scratchbook"
      }
    }
    $ folio book view
    ! scratchbooks are switched off by the policy of the space (scratchbook.enabled)
    "#);
}

#[test]
fn key_that_is_shown_for_a_tool_with_a_dot_in_its_name_sets_it() {
    let folio = Folio::new();
    let key = r"manifests.mail\.send.max_per_call";
    let set = folio.json(&["policy", "set", &format!("{key}=3")]);
    assert_eq!(set["policy"]["manifests"]["mail.send"]["max_per_call"], 3);
    let shown = folio.ok(&["policy", "show"]);
    let line = shown.lines().find(|line| line.contains("max_per_call")).unwrap();
    assert!(line.starts_with(&format!("{key}=3")), "{line}");
    let failed = folio.seen(&["policy", "set", "manifests.mail.send.max_per_call=3"]);
    assert!(
        failed.contains(r"a dot in the name of a tool is written `\.`"),
        "{failed}"
    );
    let left = folio.json(&["policy", "unset", r"manifests.mail\.send"]);
    assert_eq!(left["policy"], json!({}));
}
