//! What the stages of a turn decide without a model (seed 004).

use serde_json::json;

use super::*;
use crate::actor::Trust;
use crate::calibration::Calibration;
use crate::entry::{Entry, EntryKind, Outcome, Status};
use crate::goals::proposals;
use crate::observation::TypeRegistry;
use crate::turn_testing::{NOW, observation};

fn situation<'a>(
    input: &'a str,
    active: &'a [Entry],
    types: &'a TypeRegistry,
    known: &'a Calibration,
) -> Situation<'a> {
    Situation {
        input,
        background: false,
        active,
        types,
        calibration: known,
        now: NOW,
    }
}

fn urgency(input: &str, active: &[Entry]) -> Assessment {
    let (types, known) = (TypeRegistry::default(), Calibration::default());
    RuleRouter.assess(&situation(input, active, &types, &known))
}

fn clarity(input: &str, active: &[Entry]) -> Clarity {
    let (types, known) = (TypeRegistry::default(), Calibration::default());
    RuleClarifier.assess(&situation(input, active, &types, &known))
}

fn fraud() -> Entry {
    observation(3, "risk_alert", "Three charges from an unknown device")
        .tags(&["fraud"])
        .confidence(0.95)
        .build()
}

fn confirmation(handle: u64, text: &str, tag: &str) -> Entry {
    observation(handle, "pending_confirmation", text).tags(&[tag]).build()
}

fn work(handle: u64, kind: EntryKind, title: &str) -> Entry {
    let mut entry = observation(handle, "x", "").build();
    (entry.kind, entry.fields.status) = (kind, Status::Open);
    (entry.fields.type_name, entry.fields.title) = (None, title.to_owned());
    entry
}

#[test]
fn fraud_alert_makes_only_a_payment_critical_m7_11_2() {
    let payment = urgency("Transfer 500 euro to Bob", &[fraud()]);
    assert_eq!(payment.urgency, Urgency::Critical);
    assert_eq!(payment.used, [Used::of(&fraud())]);
    assert_eq!(
        payment.reasons,
        ["e3 risk_alert (0.95) matches the input by topic:money"]
    );
    let weather = urgency("What is the weather in Paris?", &[fraud()]);
    assert_eq!((weather.urgency, weather.used.len()), (Urgency::Normal, 0));
}

#[test]
fn matching_entry_of_any_alert_type_raises_urgency_m7_3_22() {
    for name in ["alert", "error_alert", "risk_alert", "security_alert"] {
        let alert = observation(1, name, "x").tags(&["database"]).build();
        assert_eq!(
            urgency("Migrate the database", &[alert]).urgency,
            Urgency::High,
            "{name}"
        );
    }
    let insight = observation(1, "contextual_insight", "x").tags(&["database"]).build();
    assert_eq!(urgency("Migrate the database", &[insight]).urgency, Urgency::Normal);
}

#[test]
fn alert_matches_by_context_or_everything_if_it_has_none_m7_11_2() {
    let alert = observation(1, "alert", "x")
        .context(json!({"service": "checkout"}))
        .build();
    assert_eq!(
        urgency("Deploy checkout", std::slice::from_ref(&alert)).urgency,
        Urgency::High
    );
    assert_eq!(urgency("Deploy search", &[alert]).urgency, Urgency::Normal);
    let bare = observation(1, "alert", "something is off").build();
    assert_eq!(urgency("Deploy search", &[bare]).urgency, Urgency::High);
}

#[test]
fn resolved_or_expired_alert_does_not_raise_urgency_m7_11_2() {
    let mut resolved = fraud();
    resolved.fields.status = Status::Resolved;
    let mut expired = fraud();
    expired.fields.lifetime = crate::entry::Lifetime::Until(NOW);
    assert_eq!(
        urgency("pay the invoice", &[resolved, expired]).urgency,
        Urgency::Normal
    );
}

#[test]
fn external_or_often_refuted_alert_makes_nothing_critical_m7_11_6() {
    let mut strange = fraud();
    strange.fields.trust = Trust::ToolExternal;
    assert_eq!(urgency("pay the invoice", &[strange]).urgency, Urgency::High);
    let wrong: Vec<_> = (0..5)
        .map(|_| {
            let mut entry = fraud();
            (entry.fields.outcome, entry.fields.status) = (Some(Outcome::Refuted), Status::Resolved);
            entry
        })
        .collect();
    let (types, known) = (
        TypeRegistry::default(),
        Calibration::of(wrong.iter().map(|entry| (entry, None))),
    );
    let active = [fraud()];
    let assessed = RuleRouter.assess(&situation("pay the invoice", &active, &types, &known));
    assert_eq!(assessed.urgency, Urgency::High);
    assert!(
        assessed.reasons[0].ends_with("came true in 0 of 100 cases"),
        "{:?}",
        assessed.reasons
    );
}

#[test]
fn pending_confirmation_raises_urgency_by_one_step_m7_11_2() {
    let waiting = [confirmation(1, "Send it?", "email")];
    assert_eq!(urgency("What is new?", &waiting).urgency, Urgency::High);
    let (types, known) = (TypeRegistry::default(), Calibration::default());
    let background = Situation {
        background: true,
        ..situation("research", &waiting, &types, &known)
    };
    assert_eq!(RuleRouter.assess(&background).urgency, Urgency::Normal);
}

#[test]
fn bare_yes_answers_the_only_confirmation_or_is_ambiguous_m7_11_2() {
    let (mail, flight) = (
        confirmation(1, "Send the email?", "email"),
        confirmation(2, "Book the flight?", "flight"),
    );
    assert_eq!(
        clarity("yes", std::slice::from_ref(&mail)),
        Clarity::Answers(Used::of(&mail), Answer::Yes)
    );
    assert_eq!(
        clarity("No, cancel that", std::slice::from_ref(&mail)),
        Clarity::Answers(Used::of(&mail), Answer::No)
    );
    let both = [mail.clone(), flight.clone()];
    assert!(matches!(clarity("yes", &both), Clarity::Ambiguous { options, .. } if options.len() == 2));
    assert_eq!(
        clarity("yes, the flight", &both),
        Clarity::Answers(Used::of(&flight), Answer::Yes)
    );
    assert_eq!(clarity("e1 yes", &both), Clarity::Answers(Used::of(&mail), Answer::Yes));
    // Where something is open, a yes may be meant for it; where nothing is, for what was said.
    let open = [work(4, EntryKind::Todo, "Write the tests")];
    assert!(matches!(clarity("yes", &open), Clarity::Ambiguous { .. }));
    for input in ["yes", "ok", "ja bitte", "no"] {
        assert_eq!(clarity(input, &[]), Clarity::Clear(Vec::new()), "{input}");
    }
}

#[test]
fn request_of_its_own_does_not_answer_what_an_earlier_input_meant_m7_11_2() {
    let key = Some(serde_json::json!({"pending_action_id": "clarify_t4"}));
    let by_what = |question: &str, input: &str| {
        let mut asks = observation(1, "pending_confirmation", question).build();
        let mut waits = work(2, EntryKind::PendingAction, "Clarify");
        (asks.fields.context, waits.fields.context) = (key.clone(), key.clone());
        let (types, known, all) = (TypeRegistry::default(), Calibration::default(), [asks, waits]);
        let situation = situation(input, &all, &types, &known);
        let settled = settled_clarifications(&situation, &Clarity::Clear(Vec::new()));
        settled.first().map(|settled| settled.by)
    };
    let which = "What does \"it\" mean: e648 refactor lexer; e647 refactor parser?";
    let nothing = "What does \"it\" mean here? Nothing is open that it could be.";
    for input in [
        "undo",
        "run it again",
        "Try again",
        "continue",
        "ok, continue",
        "no, run it again please",
        "please fix it",
        "what can you do?",
        "Write the report on the harvest",
    ] {
        for question in [which, nothing] {
            assert_eq!(by_what(question, input), Some(SettledBy::AnotherRequest), "{input}");
        }
    }
    for input in [
        "e647",
        "the lexer",
        "fix the parser",
        "the first",
        "run e648",
        "refactoring",
    ] {
        assert_eq!(by_what(which, input), Some(SettledBy::Answer), "{input}");
    }
    for input in ["the login page", "The login page shows an error after the update"] {
        assert_eq!(by_what(nothing, input), Some(SettledBy::Answer), "{input}");
    }
    assert_eq!(by_what(which, " "), None);
}

#[test]
fn only_a_bare_yes_or_no_answers_a_confirmation_m7_11_2() {
    let delete = observation(11, "pending_confirmation", "Delete the test database if tests pass?").build();
    let says = |input: &str| match clarity(input, std::slice::from_ref(&delete)) {
        Clarity::Answers(_, answer) => Some(answer),
        _ => None,
    };
    for yes in [
        "yes",
        "Yes!",
        "yes please",
        "ok, thank you",
        "Yes, go ahead",
        "sure, do it",
        "yes yes",
        "ja bitte",
        "e11 yes",
        "yes to e11, please",
        "yes, the database",
        "confirm it",
        "ok then",
    ] {
        assert_eq!(says(yes), Some(Answer::Yes), "{yes}");
    }
    for no in [
        "no",
        "No, thanks",
        "no no no",
        "nein danke",
        "stop",
        "e11: no",
        "no, cancel that",
        "stop please",
    ] {
        assert_eq!(says(no), Some(Answer::No), "{no}");
    }
    for other in [
        "yes please do not",
        "yes, don't",
        "yes, don\u{2019}t",
        "ok wait",
        "ok, not yet",
        "yes, but later",
        "yes if tests pass",
        "yes, the database if tests pass",
        "ok, but not on production",
        "sure, after the backup",
        "yes and no",
        "no, wait, yes",
        "yes?",
        "yes? what does it delete",
        "ok so what is the weather",
        "correct the typo in the README",
        "confirm the hotel in Rome",
        "stop the dev server please",
        "stop the database",
        "cancel my meeting on Friday",
        "OK Google",
        "e11 is not ok",
        "is e11 correct",
        "is e11 correct?",
        "e11: why?",
        "yes e12",
        "no problem, go ahead",
        "no rush, do it",
        "no idea",
        "no, do it",
        "never mind the weather",
    ] {
        assert_eq!(says(other), None, "{other}");
    }
}

#[test]
fn word_of_the_same_topic_does_not_confirm_m7_11_2() {
    let (flight, hotel) = (
        confirmation(1, "Book the flight?", "flight"),
        confirmation(2, "Book the hotel?", "hotel"),
    );
    let only = std::slice::from_ref(&flight);
    for other in ["yes, the hotel", "ok, the trip", "yes, the flight hotel", "yes, the"] {
        assert_eq!(clarity(other, only), Clarity::Clear(Vec::new()), "{other}");
    }
    let both = [flight.clone(), hotel];
    assert_eq!(
        clarity("yes, the flight", &both),
        Clarity::Answers(Used::of(&flight), Answer::Yes)
    );
    assert_eq!(clarity("yes, the train", &both), Clarity::Clear(Vec::new()));
    let to = |handle, city| confirmation(handle, &format!("Book the flight to {city}?"), "flight");
    let rome = to(3, "Rome");
    assert_eq!(
        clarity("yes, the flight to Rome", &[rome.clone(), to(4, "Paris")]),
        Clarity::Answers(Used::of(&rome), Answer::Yes)
    );
}

#[test]
fn yes_that_a_question_repeats_does_not_choose_it_m7_11_2() {
    let payment = confirmation(1, "Is it ok to confirm the payment and proceed, yes?", "payment");
    let both = [payment, confirmation(2, "Book the flight?", "flight")];
    for input in ["yes", "ok", "confirm", "yes, proceed"] {
        let options = match clarity(input, &both) {
            Clarity::Ambiguous { options, .. } => options.len(),
            _ => 0,
        };
        assert_eq!(options, 2, "{input}");
    }
}

#[test]
fn verb_that_a_question_asks_about_is_no_answer_to_it_m7_11_2() {
    let says = |input: &str, question: &str| {
        let entry = observation(1, "pending_confirmation", question).build();
        match clarity(input, &[entry]) {
            Clarity::Answers(_, answer) => Some(answer),
            _ => None,
        }
    };
    for (input, question) in [
        ("cancel", "Cancel the subscription?"),
        ("stop it", "Stop the server?"),
        ("no, reject it", "Reject the proposal?"),
        ("correct it", "Send the mail?"),
        ("correct this, please", "Send the mail?"),
        ("yes, the train", "Book the flight or the train?"),
        ("yes, the hotel", "Book the flight, not the hotel?"),
    ] {
        assert_eq!(says(input, question), None, "{input} to {question}");
    }
    assert_eq!(says("cancel", "Send the mail?"), Some(Answer::No));
    assert_eq!(says("approve it", "Approve the invoice?"), Some(Answer::Yes));
    assert_eq!(says("that is correct", "Send the mail?"), None);
    assert_eq!(says("correct", "Send the mail?"), Some(Answer::Yes));
}

#[test]
fn sign_beside_a_yes_may_change_it_m7_11_2() {
    let waits = [confirmation(1, "Send the email?", "email")];
    for other in [
        "yes \u{1f44e}",
        "yes \u{1f6d1}",
        "ok \u{274c}",
        "\u{2260} yes",
        "~~yes~~",
        "> yes",
        "yes \u{2753}",
        "yes\u{37e}",
        "yes\u{203d}",
    ] {
        assert_eq!(clarity(other, &waits), Clarity::Clear(Vec::new()), "{other}");
    }
    for yes in [
        "yes \u{1f44d}\u{1f3fd}",
        "\u{feff}Yes!",
        "ok \u{2013} go ahead\u{2026}",
        "**Yes**",
        "#e1: yes",
        "yes \u{1f64f}",
    ] {
        assert!(
            matches!(clarity(yes, &waits), Clarity::Answers(_, Answer::Yes)),
            "{yes}"
        );
    }
}

#[test]
fn topic_of_a_word_does_not_explain_what_it_points_at_m7_11_2() {
    assert!(matches!(clarity("pay it", &[]), Clarity::Ambiguous { .. }));
}

#[test]
fn clarifying_question_is_no_option_for_another_input_m7_11_2() {
    let (mail, flight) = (
        confirmation(1, "Send the email?", "email"),
        confirmation(2, "Book the flight?", "flight"),
    );
    let key = Some(serde_json::json!({"pending_action_id": "clarify_t4"}));
    let mut which = confirmation(3, "Which of these do you mean: e1; e2?", "other");
    which.fields.context.clone_from(&key);
    let all = [mail, flight, which];
    assert!(matches!(clarity("yes", &all), Clarity::Ambiguous { options, .. } if options.len() == 2));
    let mut waits = work(5, EntryKind::PendingAction, "Clarify: What does \"it\" mean here?");
    waits.fields.context = key;
    assert!(matches!(clarity("fix it", &[waits]), Clarity::Ambiguous { options, .. } if options.is_empty()));
}

#[test]
fn input_that_refers_to_one_open_entry_is_clear_m7_11_2() {
    let task = work(4, EntryKind::Task, "Write the tests");
    assert_eq!(
        clarity("do it", std::slice::from_ref(&task)),
        Clarity::Clear(vec![Used::of(&task)])
    );
    assert!(matches!(clarity("fix it", &[]), Clarity::Ambiguous { question, .. } if question.contains("\"it\"")));
    let two = [task, work(5, EntryKind::Todo, "Call Bob")];
    assert!(matches!(clarity("do it", &two), Clarity::Ambiguous { options, .. } if options.len() == 2));
    assert_eq!(
        clarity("Book a flight to Paris and hotels for it", &[]),
        Clarity::Clear(Vec::new())
    );
    assert_eq!(clarity("", &[]), Clarity::Clear(Vec::new()));
}

#[test]
fn suggestion_needed_by_a_confirmation_is_ordered_first_m7_11_2() {
    let ask = observation(1, "pending_confirmation", "Is a@b.org right?")
        .tags(&["email"])
        .context(json!({"pending_action_id": "send"}))
        .build();
    let other = observation(2, "action_suggestion", "Tidy up").confidence(1.0).build();
    let needed = observation(3, "action_suggestion", "Verify the address")
        .context(json!({"pending_action_id": "send"}))
        .build();
    let order = RuleOrderer.order(
        &[other.clone(), needed.clone(), ask.clone()],
        &TypeRegistry::default(),
        NOW,
    );
    assert_eq!(order.order, [&ask, &needed, &other].map(Used::of));
    assert_eq!(order.used, [Used::of(&ask)]);
    let mut users = needed;
    users.fields.owner = crate::entry::Owner::user();
    assert!(
        RuleOrderer
            .order(&[users], &TypeRegistry::default(), NOW)
            .order
            .is_empty(),
        "only the agent's"
    );
}

#[test]
fn verifying_tools_come_first_for_an_email_confirmation_m7_11_2() {
    let ask = [confirmation(1, "Is a@b.org right?", "email")];
    let tools = ["weather", "send email", "verify email address", "calendar"].map(str::to_owned);
    let order = RuleOrderer.prefer(&tools, &ask, &TypeRegistry::default(), NOW);
    assert_eq!(order, [2, 1, 0, 3]);
    assert_eq!(
        RuleOrderer.prefer(&tools, &[], &TypeRegistry::default(), NOW),
        [0, 1, 2, 3]
    );
}

#[test]
fn pending_review_or_open_work_leaves_a_turn_incomplete_m7_11_2() {
    let mut review = observation(7, "observation", "x").build();
    review.fields.status = Status::PendingReview;
    let finished = |pending: &[Entry], work: &[Entry], run_status| {
        RuleEvaluator.assess(&Finished {
            pending_review: pending,
            work,
            run_status,
            now: NOW,
        })
    };
    assert!(finished(&[], &[], Some("ok")).complete);
    let reviewed = finished(&[review.clone()], &[], None);
    assert!(!reviewed.complete);
    assert_eq!(
        (reviewed.reasons, reviewed.used),
        (vec!["e7 is to be reviewed".to_owned()], vec![Used::of(&review)])
    );
    assert!(!finished(&[], &[work(8, EntryKind::Task, "x")], None).complete);
    assert!(
        finished(&[], &[work(8, EntryKind::Goal, "x")], None).complete,
        "a goal outlives a turn"
    );
    assert_eq!(finished(&[], &[], Some("failed")).reasons, ["the run ended failed"]);
    let many: Vec<Entry> = (1..=30).map(|number| work(number, EntryKind::Todo, "x")).collect();
    let left = finished(&[], &many, None);
    assert_eq!((left.reasons.len(), left.used.len()), (21, 30));
    assert_eq!(left.reasons[20], "10 more are to be reviewed or done");
}

#[test]
fn reflector_archives_resolved_but_not_pinned_entries_m7_5_42() {
    let mut resolved = observation(1, "observation", "x").build();
    resolved.fields.status = Status::Resolved;
    let mut pinned = resolved.clone();
    pinned.fields.pin_rank = Some(1);
    let sure = observation(3, "action_suggestion", "Renew").confidence(0.95).build();
    let entries = [resolved.clone(), pinned, observation(2, "observation", "y").build()];
    let offered = proposals(std::slice::from_ref(&sure), NOW);
    let reflection = RuleReflector.reflect(&Ending {
        resolved: &entries,
        patterns: &[],
        proposals: &offered,
        now: NOW,
    });
    assert_eq!(reflection.archive, [Used::of(&resolved)]);
    assert_eq!(reflection.reasons, ["1 resolved: e1", "e3 could be a goal"]);
    assert!(reflection.used.contains(&Used::of(&sure)));
}

#[test]
fn entry_hash_is_independent_of_key_order() {
    let of = |context: &str| {
        let mut entry = observation(1, "observation", "x").build();
        entry.fields.context = Some(serde_json::from_str(context).unwrap());
        export::hash_of(&entry)
    };
    assert_eq!(
        of(r#"{"b": {"y": 1, "x": 2}, "a": 3}"#),
        of(r#"{"a": 3, "b": {"x": 2, "y": 1}}"#)
    );
}

#[test]
fn executor_says_once_why_it_moves_many_entries_m7_11_2() {
    let confirmation = observation(1, "pending_confirmation", "Send?").tags(&["mail"]).build();
    let mut all: Vec<Entry> = (2..14)
        .map(|n| {
            observation(n, "action_suggestion", &format!("Step {n}"))
                .tags(&["mail"])
                .build()
        })
        .collect();
    all.push(confirmation.clone());
    let order = RuleOrderer.order(&all, &TypeRegistry::default(), NOW);
    assert_eq!(
        order.reasons,
        ["e2, e3, e4, e5, e6, e7, e8, e9 and 4 more move to the front: e1 needs them (tag mail)"]
    );
    assert_eq!(order.used, [Used::of(&confirmation)], "each once");
    assert_eq!(order.order.len(), 13);
}
