//! Model tasks at their limits: budgets, models that are unavailable or talk nonsense, evidence, questions, pauses
//! (E9.7, E9.10 to E9.15).

use super::hand_back::endless_calls;
use super::models::*;
use super::*;
use crate::event::NewLimits;
use crate::run::LimitError;
use crate::spend::{Allowance, Spend};
use crate::talk::{ModelRole, Purpose, Reply, Stop};

#[test]
fn exhausted_model_calls_end_in_one_hand_back_request_e9_10() {
    let extra = json!({"budget": {"model_calls": 4}});
    let sim = goal("count the stars", &extra, |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "1"})),
        Purpose::Work => calls_answer(&[("echo", json!({"text": format!("{}", ask.call)}))]),
        Purpose::HandBack => {
            assert!(ask.tools.is_empty());
            assert!(
                ask.messages[1].text.contains("echo text=1 -> ok"),
                "{}",
                ask.messages[1].text
            );
            text_answer("{\"notes\": \"three are counted\", \"output\": 3}")
        }
        other => panic!("{other:?}"),
    })
    .driven_on();
    assert_eq!(*purposes(&sim).last().unwrap(), Purpose::HandBack);
    assert_eq!(
        sim.run.purse().unwrap().spent.model_calls,
        4,
        "no more than allowed, and the last for handing back"
    );
    let result = root(&sim);
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Partial, Some(StopReason::BudgetModelCalls))
    );
    assert_eq!(result.notes, "three are counted");
}

#[test]
fn zero_budget_asks_no_model_e9_10() {
    for budget in [json!({"tokens": 0}), json!({"model_calls": 0}), json!({"usd": 0})] {
        let sim = goal("count the stars", &json!({ "budget": budget }), |ask| {
            panic!("{:?}", ask.purpose)
        })
        .driven_on();
        assert_eq!(root(&sim).status, Outcome::Partial, "{budget}");
        assert!(sim.asks.is_empty());
    }
}

#[test]
fn exhausted_tool_call_budget_ends_the_task_e9_10() {
    let sim = goal(
        "count the stars",
        &json!({"budget": {"tool_calls": 1}}),
        |ask| match ask.purpose {
            Purpose::Decide => execute("echo", json!({"text": "1"})),
            Purpose::Work => calls_answer(&[("echo", json!({"text": format!("{}", ask.call)}))]),
            _ => text_answer("{\"notes\": \"one\"}"),
        },
    )
    .driven_on();
    assert_eq!(sim.calls.len(), 1);
    assert_eq!(root(&sim).stop_reason, Some(StopReason::BudgetToolCalls));
}

#[test]
fn set_aside_and_spent_amounts_add_up_after_every_event_e9_10() {
    let sim = goal("survey the house", &house(), nested).driven_on();
    let mut run = Run::new(sim.run.id(), Arc::new(Templates::new()));
    let (mut spent, mut open) = (Spend::default(), BTreeMap::new());
    for (at, event) in &sim.journal {
        run.apply(*at, event).unwrap();
        match event {
            Event::Asked { node, reserved, .. } => drop(open.insert(*node, *reserved)),
            Event::Replied { node, spent: cost, .. } => {
                open.remove(node);
                spent = spent.plus(cost);
            }
            Event::Started { .. } => spent = spent.plus(&Spend::TOOL_CALL),
            _ => {}
        }
        let reserved = open.values().fold(Spend::default(), |sum, more: &Spend| sum.plus(more));
        let purse = run.purse().unwrap();
        assert_eq!(
            (purse.spent, purse.reserved),
            (spent, reserved),
            "after {}",
            event.name()
        );
        let free = purse.free(crate::spend::Dimension::Tokens).unwrap();
        assert_eq!(purse.used(crate::spend::Dimension::Tokens) + free, 2_000_000);
    }
    assert_eq!(spent.tokens(), 120 * u64::try_from(sim.asks.len()).unwrap());
    assert_eq!(spent.micro_usd, 200 * u64::try_from(sim.asks.len()).unwrap());
}

#[test]
fn unavailable_model_is_retried_until_its_retries_are_exhausted_e9_15() {
    let away = ModelAnswer::Failed(ModelFailure {
        retry_after: Some(Duration::from_secs(7)),
        ..ModelFailure::new(ModelFailureKind::RateLimited, "too many requests")
    });
    let sim = goal("say hello", &json!({}), move |ask| match ask.call {
        1 => away.clone(),
        _ => execute("finish", json!({"notes": "hello"})),
    })
    .driven_on();
    assert_eq!(root(&sim).status, Outcome::Ok);
    assert_eq!(
        sim.now,
        Timestamp::from_millis(8_000),
        "it was left alone as long as it wanted"
    );

    let gone = goal("say hello", &json!({}), |_| {
        ModelAnswer::Failed(ModelFailure::new(ModelFailureKind::Unavailable, "connection refused"))
    })
    .driven_on();
    assert_eq!(gone.asks.len(), 5);
    assert_eq!(root(&gone).stop_reason, Some(StopReason::RetriesExhausted));
    let refused = goal("say hello", &json!({}), |_| {
        ModelAnswer::Failed(ModelFailure::new(ModelFailureKind::Unauthorised, "the key is refused"))
    })
    .driven_on();
    assert_eq!(refused.asks.len(), 1);
    assert_eq!(
        (root(&refused).stop_reason, root(&refused).severity),
        (Some(StopReason::Auth), Some(Severity::Hard))
    );
    assert_eq!(
        refused.run.purse().unwrap().spent,
        Spend::default(),
        "a call that never began costs nothing"
    );
}

#[test]
fn nonsense_replies_end_the_run_as_partial_after_few_requests_e9_13() {
    for nonsense in [
        "",
        "???",
        "{\"decision\": ",
        "{\"decision\": \"dance\"}",
        "[1, 2]",
        "null",
    ] {
        let sim = goal("say hello", &json!({}), move |_| text_answer(nonsense)).driven_on();
        assert!(
            matches!(root(&sim).status, Outcome::Partial),
            "{nonsense:?}: {:?}",
            root(&sim)
        );
        assert!(sim.asks.len() <= 8, "{nonsense:?} was asked {} times", sim.asks.len());
    }
    let refusing = goal("say hello", &json!({}), |_| {
        reply_answer(Reply {
            text: "I will not.".to_owned(),
            calls: Vec::new(),
            stop: Stop::Refusal,
            permissions: Vec::new(),
        })
    })
    .driven_on();
    assert_eq!(refusing.asks.len(), 1, "who refuses is not asked again");
    assert_eq!(root(&refusing).stop_reason, Some(StopReason::Refused));
}

#[test]
fn prose_answer_becomes_the_notes_of_a_partial_result_e9_13() {
    let sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "hello"})),
        _ => text_answer("Hello to everybody."),
    })
    .driven_on();
    assert_eq!(purposes(&sim), [Purpose::Decide, Purpose::Work, Purpose::Work]);
    let result = root(&sim);
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Partial, Some(StopReason::Unparseable))
    );
    assert_eq!(result.notes, "Hello to everybody.");
}

#[test]
fn unreadable_finish_call_is_retried_and_ends_as_partial_e9_13() {
    let ended = |args: Value| {
        let sim = goal("say hello", &json!({}), move |ask| match ask.purpose {
            Purpose::Decide => execute("echo", json!({"text": "hello"})),
            _ => calls_answer(&[("finish", args.clone())]),
        })
        .driven_on();
        let result = root(&sim);
        (sim.asks.len(), result.status, result.stop_reason, result.notes.clone())
    };
    let half = "{\"status\": \"partial\", \"notes\": \"half wri";
    let unreadable = Some(StopReason::Unparseable);
    assert_eq!(ended(json!(half)), (4, Outcome::Partial, unreadable, half.to_owned()));
    for nothing in [
        json!({}),
        json!(null),
        json!([]),
        json!({"result": "x"}),
        json!({"status": "ok"}),
    ] {
        let (asked, status, reason, _) = ended(nothing.clone());
        assert_eq!((asked, status, reason), (4, Outcome::Partial, unreadable), "{nothing}");
    }
    // A word that there is none of is asked about, and does not become a success.
    let (asked, status, _, notes) = ended(json!({"status": "weird", "notes": "it went well"}));
    assert_eq!((asked, status), (4, Outcome::Partial));
    assert!(
        notes.starts_with("it went well (") && notes.contains("status is \"weird\""),
        "{notes}"
    );
    for (word, outcome) in [
        ("FAILED", Outcome::Failed),
        ("failure", Outcome::Failed),
        ("Incomplete", Outcome::Partial),
        ("OK", Outcome::Ok),
    ] {
        let (asked, status, ..) = ended(json!({"status": word, "notes": "so"}));
        assert_eq!((asked, status), (2, outcome), "{word}");
    }
    // Who says nothing of it says that it went well.
    assert_eq!(ended(json!({"notes": "", "output": 5})).1, Outcome::Ok);
}

#[test]
fn three_rounds_of_unknown_tools_are_a_loop_e9_13() {
    let sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("dance", json!({})),
        Purpose::Work => calls_answer(&[("dance", json!({}))]),
        _ => text_answer("{\"notes\": \"nothing\"}"),
    })
    .driven_on();
    assert!(prompt_text(&sim, 1).contains("unknown tool dance; available: echo, write, deny, fail, finish"));
    assert_eq!(root(&sim).stop_reason, Some(StopReason::Loop));
    assert!(sim.calls.is_empty());
}

#[test]
fn repeated_read_is_answered_from_the_first_until_a_write_seed_000() {
    let sim = goal("say hello", &json!({}), |ask| match ask.call {
        1 => execute("echo", json!({"text": "a"})),
        2 => calls_answer(&[("echo", json!({"text": "a"})), ("echo", json!({"text": "b"}))]),
        3 => calls_answer(&[("write", json!({"text": "x"}))]),
        4 => calls_answer(&[("echo", json!({"text": "a"}))]),
        _ => finish("done"),
    })
    .driven_on();
    let texts: Vec<&str> = sim
        .calls
        .iter()
        .map(|(_, args)| args["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["a", "b", "x", "a"]);
    assert!(prompt_text(&sim, 2).contains("not called again"));
}

#[test]
fn task_whose_calls_were_all_denied_is_only_partial_e9_7() {
    let sim = goal("say hello", &json!({}), |ask| match ask.call {
        1 => execute("deny", json!({"text": "a"})),
        _ => finish("done"),
    })
    .driven_on();
    assert_eq!(root(&sim).status, Outcome::Partial);
    assert!(
        prompt_text(&sim, 1).contains("failed (policy_denied)"),
        "{}",
        prompt_text(&sim, 1)
    );
}

#[test]
fn task_with_only_refused_calls_needs_a_judge_e9_7() {
    let refused = |extra: &Value| {
        goal("open the safe", extra, |ask| match (ask.purpose, ask.call) {
            (Purpose::Judge, _) => verdict_answer("met"),
            (Purpose::Decide, _) => execute("crowbar", json!({})),
            _ => finish("it is open"),
        })
        .driven_on()
    };
    assert_eq!(refused(&json!({})).status(""), Outcome::Partial);
    assert_eq!(refused(&json!({"criteria": ["it is open"]})).status(""), Outcome::Ok);
}

#[test]
fn unknown_evidence_references_are_dropped_and_counted_e9_7() {
    let sim = goal("say hello", &json!({}), |ask| match ask.call {
        1 => execute("echo", json!({"text": "a"})),
        _ => {
            let answer = &ask.messages.last().unwrap().text;
            let id = &answer[answer.find("[tool_call ").unwrap() + 11..answer.len() - 1];
            calls_answer(&[(
                "finish",
                json!({"notes": "done", "evidence": [
                    {"kind": "tool_call", "id": id}, {"kind": "tool_call", "id": "0123456789abcdef"},
                    {"kind": "file", "id": "nowhere.txt"}, {"kind": "node"}
                ]}),
            )])
        }
    })
    .driven_on();
    let result = root(&sim);
    // By its hash it can be seen later whether it is still the same.
    let looked = sim.run.tree().into_iter().find(|node| node.kind == NodeKind::Action);
    let output = &looked.unwrap().result.unwrap().output;
    assert_eq!(result.evidence[0].hash, Some(output.content_hash()));
    assert_eq!(result.evidence.len(), 1);
    assert_eq!(result.evidence[0].id, sim.run.node_at("call-1").unwrap().id.to_string());
    assert!(result.notes.contains("3 references"), "{}", result.notes);
}

#[test]
fn failed_call_is_no_evidence_but_a_failed_step_is_e9_7() {
    let named = |kind: &'static str| {
        goal("say hello", &json!({}), move |ask| match ask.call {
            1 => execute("echo", json!({"text": "a"})),
            2 => calls_answer(&[("deny", json!({"text": "b"}))]),
            _ => {
                let answer = &ask.messages.last().unwrap().text;
                let id = &answer[answer.find("[tool_call ").unwrap() + 11..answer.len() - 1];
                calls_answer(&[(
                    "finish",
                    json!({"notes": "done", "evidence": [{"kind": kind, "id": id}]}),
                )])
            }
        })
        .driven_on()
    };
    for kind in ["tool_call", "node"] {
        let sim = named(kind);
        assert_eq!(root(&sim).evidence, [], "{kind}");
        assert!(
            root(&sim)
                .notes
                .contains("(1 reference to unknown evidence was left out: "),
            "{}",
            root(&sim).notes
        );
    }
    let steps = json!({"steps": [
        {"id": "lost", "do": {"tool": "fail", "args": {}}},
        {"id": "tell", "title": "tell of it", "atomic": true}
    ]});
    let sim = goal_with("say hello", &steps, equipment(), |ask| {
        let text = &ask.messages[1].text;
        let id = text.lines().find_map(|line| line.trim().strip_prefix("id: ")).unwrap();
        let evidence = json!([{"kind": "node", "id": id}, {"kind": "tool_call", "id": id}]);
        calls_answer(&[("finish", json!({"notes": "it is lost", "evidence": evidence}))])
    })
    .driven_on();
    let evidence = &sim.run.node_at("tell").unwrap().result.unwrap().evidence;
    let kinds: Vec<&str> = evidence.iter().map(|evidence| evidence.kind.as_str()).collect();
    assert_eq!(kinds, ["node"]);
}

#[test]
fn question_to_a_person_blocks_only_its_branch_e9_14() {
    let equipment = Equipment {
        has_person: true,
        ..equipment()
    };
    let model = |ask: &AskAction| -> ModelAnswer {
        let ask_person = json!({"question": "Which colour?", "options": ["red", "blue"]});
        match (ask.purpose, task_named(ask).as_str(), ask.call) {
            (Purpose::Decide, "paint two doors", _) => plan_answer(json!([[
                {"id": "front", "title": "front door", "criteria": ["x"]},
                {"id": "back", "title": "back door", "criteria": ["x"]}
            ], {"id": "tell", "title": "tell everybody", "criteria": ["x"]}])),
            (Purpose::Decide, "front door", _) => execute("ask_person", ask_person),
            (Purpose::Work, "front door", _) => {
                assert!(ask.messages.last().unwrap().text.contains("blue\n(answered by ada)"));
                calls_answer(&[(
                    "finish",
                    json!({"notes": "blue", "criteria": [{"id": "c1", "met": true}]}),
                )])
            }
            // Asked at most once: the second gets the answer of the first.
            (Purpose::Decide, "tell everybody", _) => {
                assert!(
                    ask.messages[1].text.contains("Which colour? -> blue"),
                    "{}",
                    ask.messages[1].text
                );
                execute("ask_person", ask_person)
            }
            (Purpose::Work, "tell everybody", _) => {
                assert!(ask.messages.last().unwrap().text.contains("blue"));
                calls_answer(&[(
                    "finish",
                    json!({"notes": "told", "criteria": [{"id": "c1", "met": true}]}),
                )])
            }
            (Purpose::Aggregate, _, _) => text_answer("{\"notes\": \"all doors\"}"),
            _ => execute(
                "finish",
                json!({"notes": "green", "criteria": [{"id": "c1", "met": true}]}),
            ),
        }
    };
    let mut sim = goal_with("paint two doors", &json!({}), equipment.clone(), model);
    loop {
        sim.derive();
        if !sim.end_one() {
            break;
        }
    }
    assert_eq!(sim.status("group-1/back"), Outcome::Ok, "the other branch went on");
    let (node, question) = sim.run.questions()[0];
    assert_eq!((question.text.as_str(), question.options.len()), ("Which colour?", 2));
    assert_eq!(sim.run.node(node).unwrap().state, NodeState::WaitingInput);
    // It survives a restart.
    let mut sim = Sim::resumed_with(&sim.journal, equipment, Arc::new(model));
    sim.derive();
    assert_eq!(sim.run.questions().len(), 1);
    sim.record(Event::Answered {
        node,
        answer: "blue".to_owned(),
        by: "ada".to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!(root(&sim).status, Outcome::Ok, "{}", root(&sim).notes);
}

#[test]
fn ask_person_tool_is_not_offered_without_a_person_e9_14() {
    let sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("ask_person", json!({"question": "how?"})),
        _ => {
            assert!(ask.tools.iter().all(|tool| tool.name != "ask_person"));
            finish("hello")
        }
    })
    .driven_on();
    assert!(sim.run.questions().is_empty());
    assert_eq!(root(&sim).status, Outcome::Ok);
}

#[test]
fn paused_run_begins_nothing_even_after_a_restart_e9_14() {
    let mut sim = goal("say hello", &json!({}), |_| {
        execute("finish", json!({"notes": "hello"}))
    });
    sim.record(Event::Paused {
        node: None,
        by: "ada".to_owned(),
    });
    sim.derive();
    assert!(sim.asks.is_empty());
    let mut sim = Sim::resumed_with(&sim.journal, equipment(), Arc::clone(&sim.model));
    sim.derive();
    assert!(sim.asks.is_empty());
    sim.record(Event::Continued {
        node: None,
        by: "ada".to_owned(),
    });
    assert_eq!(root(&sim.driven_on()).status, Outcome::Ok);
}

#[test]
fn cancelled_run_stops_models_and_counts_their_set_aside_cost_e9_11() {
    let mut sim = goal("survey the house", &house(), nested);
    sim.concurrency = 2;
    for _ in 0..6 {
        sim.derive();
        sim.end_one();
    }
    sim.derive();
    assert!(!sim.asking.is_empty());
    sim.record(Event::CancelRequested {
        node: None,
        by: "ada".to_owned(),
    });
    // Whoever is at work is told to stop, and what models may have cost by then counts beside what the others said.
    let due = sim.run.due(sim.now, 4).into_iter();
    let mut stopped: Vec<NodeId> = due
        .filter_map(|action| match action {
            Action::Stop(node) => Some(node),
            _ => None,
        })
        .collect();
    let asked = sim.asking.iter().map(|ask| ask.node);
    let mut at_work: Vec<NodeId> = asked.chain(sim.under_way.iter().map(|call| call.node)).collect();
    stopped.sort_unstable();
    at_work.sort_unstable();
    assert_eq!(stopped, at_work);
    let replied = sim.journal.iter().filter_map(|(_, event)| match event {
        Event::Replied { spent, .. } => Some(*spent),
        _ => None,
    });
    let (mut cost, mut calls) = (0, 0);
    for spent in replied.chain(sim.asking.iter().map(|ask| ask.reserved)) {
        cost += spent.tokens_in + spent.tokens_out;
        calls += spent.model_calls;
    }
    sim.model = Arc::new(|_| ModelAnswer::Stopped { used: None });
    let sim = sim.driven_on();
    assert_eq!(root(&sim).status, Outcome::Cancelled);
    assert_eq!(sim.asks.len() as u64, calls, "nobody else was asked");
    let purse = sim.run.purse().unwrap();
    assert_eq!(purse.reserved, Spend::default());
    assert_eq!(
        (purse.spent.tokens_in + purse.spent.tokens_out, purse.spent.model_calls),
        (cost, calls)
    );
}

#[test]
fn each_purpose_belongs_to_its_model_role() {
    assert_eq!(Purpose::Decide.role(), ModelRole::Planner);
    assert_eq!(Purpose::Work.role(), ModelRole::Executor);
    assert_eq!(Purpose::Judge.role(), ModelRole::Judge);
}

#[test]
fn tokens_in_and_tokens_out_have_separate_limits_e9_10() {
    let within = |budget: Value| {
        goal("say hello", &json!({"budget": budget}), |ask| match ask.purpose {
            Purpose::Decide => execute("echo", json!({"text": "x"})),
            Purpose::Work if ask.call < 4 => calls_answer(&[("echo", json!({"text": format!("{}", ask.call)}))]),
            _ => finish("hello"),
        })
        .driven_on()
    };
    for (budget, limit) in [
        (json!({"tokens_out": 1_150}), crate::spend::Dimension::TokensOut),
        (json!({"tokens_in": 300}), crate::spend::Dimension::TokensIn),
    ] {
        let sim = within(budget.clone());
        assert_eq!(root(&sim).stop_reason, Some(StopReason::BudgetTokens), "{budget}");
        assert_eq!(root(&sim).status, Outcome::Partial, "{budget}");
        let purse = sim.run.purse().unwrap();
        assert!(purse.used(limit) <= purse.limit.of(limit).unwrap(), "{budget}");
    }
    let none = within(json!({"tokens_out": 0}));
    assert!(none.asks.is_empty(), "zero is zero");
    let sim = within(json!({"tokens_in": 1_000_000, "tokens_out": 100_000}));
    assert_eq!(root(&sim).status, Outcome::Ok, "{}", root(&sim).notes);
}

/// A model that keeps making calls, and reads 400 tokens from a cache each time.
fn from_a_cache(budget: &Value) -> Sim {
    endless_calls(budget, |ask| Spend {
        tokens_in: ask.reserved.tokens_in.max(400),
        tokens_cached: 400,
        tokens_out: 10,
        ..Spend::default()
    })
}

#[test]
fn exhausted_cached_token_limit_refuses_the_next_call_e9_10() {
    let within = |tokens_cached: u64| from_a_cache(&json!({"tokens_cached": tokens_cached})).driven_on();
    // A tenth is kept for the end, as of every limit: the third call used that up, too, or left some of it.
    for (limit, asked, notes) in [
        (1_150, 3, "stopped before it was finished"),
        (1_250, 4, "what there is"),
    ] {
        let sim = within(limit);
        assert_eq!(root(&sim).stop_reason, Some(StopReason::BudgetTokens), "{limit}");
        assert_eq!(root(&sim).status, Outcome::Partial, "{limit}");
        assert_eq!(sim.asks.len(), asked, "{limit}");
        assert!(root(&sim).notes.contains(notes), "{limit}: {}", root(&sim).notes);
        assert!(
            sim.asks.iter().all(|ask| ask.reserved.tokens_cached == 0),
            "nobody knows how much it will be"
        );
    }
    let none = within(0);
    assert!(none.asks.is_empty(), "zero is zero");
}

#[test]
fn cached_token_limit_warns_the_model_and_can_be_raised_e9_10() {
    let mut sim = from_a_cache(&json!({"tokens_cached": 1_250}));
    let is_over = |sim: &Sim| matches!(sim.journal.last(), Some((_, Event::Spent { .. })));
    while !is_over(&sim) {
        let due = sim.run.due(sim.now, 1);
        match due.into_iter().next() {
            Some(action) => sim.take(action),
            None => assert!(sim.end_one()),
        }
    }
    let warned = |ask: &AskAction, per_cent: u64| {
        let words = format!("More than {per_cent} per cent of the budget for this task is used");
        ask.messages.iter().any(|message| message.text.contains(&words))
    };
    let steps: Vec<bool> = sim.asks.iter().map(|ask| warned(ask, 50)).collect();
    assert_eq!(steps, [false, false, true], "400 of 1,250 are no half, and 800 are");
    let more = NewLimits::from(Allowance {
        tokens_cached: Some(1_199),
        ..Allowance::default()
    });
    assert!(
        matches!(
            sim.run.change_limits(None, more, "ada", sim.now),
            Err(LimitError::Used {
                what: "tokens_cached",
                used: 1_200,
                ..
            })
        ),
        "never below what is used up"
    );
    let more = NewLimits::from(Allowance {
        tokens_cached: Some(9_000),
        ..Allowance::default()
    });
    let event = sim.run.change_limits(None, more, "ada", sim.now).unwrap();
    sim.record(event);
    sim.derive();
    let ask = sim.asks.last().unwrap();
    assert_eq!((ask.purpose, sim.asks.len()), (Purpose::Work, 4), "it works on");
}

#[test]
fn exhausted_byte_limit_hands_back_a_partial_result_e9_10() {
    let talks = |bytes: u64| {
        goal("say hello", &json!({"budget": {"bytes": bytes}}), |ask| {
            match ask.purpose {
                Purpose::Decide => execute("echo", json!({"text": "x"})),
                Purpose::Work if ask.call < 20 => {
                    calls_answer(&[("echo", json!({"text": format!("{}{}", ask.call, "long ".repeat(400))}))])
                }
                Purpose::HandBack => text_answer("{\"notes\": \"what there is\"}"),
                _ => finish("hello"),
            }
        })
    };
    let sim = talks(60_000).driven_on();
    let (result, purse) = (root(&sim), *sim.run.purse().unwrap());
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Partial, Some(StopReason::BudgetBytes))
    );
    assert_eq!(result.notes, "what there is");
    assert!(
        purse.bytes > 54_000 && purse.bytes < 60_000,
        "{}: a tenth was kept for the end",
        purse.bytes
    );
    let asked = sim.asks.len();
    assert!(asked < 20, "{asked}");

    // Without a limit of its own it has one all the same, and what a resumed run has written is the same.
    let sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "x"})),
        _ => finish("hello"),
    })
    .driven_on();
    let purse = *sim.run.purse().unwrap();
    assert_eq!(purse.limit.bytes, Some(4 << 30));
    assert_eq!(
        purse.bytes,
        sim.journal.iter().map(|(_, event)| event.bytes()).sum::<u64>()
    );
    assert_eq!(Sim::resumed(&sim.journal).run.purse().unwrap().bytes, purse.bytes);
}

#[test]
fn raised_byte_limit_lets_the_run_go_on_e9_10() {
    let plan = "budget: {bytes: 1000}\nsteps:\n  - {id: a, do: {tool: echo, args: {text: one}}}\n  - {id: b, do: {tool: echo, args: {text: two}}}";
    let ended = Sim::new(plan).driven_on();
    let stopped: Vec<_> = ["a", "b"]
        .map(|path| ended.run.node_at(path).unwrap().result.unwrap().stop_reason)
        .into();
    assert_eq!(stopped, [None, Some(StopReason::BudgetBytes)], "the first call fits");
    let notes = &ended.run.node_at("b").unwrap().result.unwrap().notes;
    assert_eq!(
        notes,
        "the bytes of journal and pages that its budget allows are used up"
    );

    let mut sim = Sim::new(plan);
    sim.derive();
    let more = |bytes| {
        NewLimits::from(Allowance {
            bytes: Some(bytes),
            ..Allowance::default()
        })
    };
    let refused = sim.run.change_limits(None, more(300), "ada", sim.now);
    assert!(
        matches!(refused, Err(LimitError::Used { what: "bytes", .. })),
        "{refused:?}"
    );
    let event = sim.run.change_limits(None, more(100_000), "ada", sim.now).unwrap();
    sim.record(event);
    let sim = sim.driven_on();
    assert_eq!((sim.status("a"), sim.status("b")), (Outcome::Ok, Outcome::Ok));
}

#[test]
fn unpriced_model_under_a_usd_limit_needs_permission_e9_10() {
    for (granted, status, asked) in [
        (Value::Null, Outcome::Failed, 0),
        (json!({"unpriced": true}), Outcome::Ok, 2),
    ] {
        let mut unpriced = equipment();
        unpriced.planner.price = None;
        unpriced.executor.price = None;
        let sim = goal_with(
            "say hello",
            &json!({"budget": {"usd": 1}, "run": granted}),
            unpriced,
            |ask| match ask.purpose {
                Purpose::Decide => execute("echo", json!({"text": "x"})),
                _ => finish("hello"),
            },
        )
        .driven_on();
        assert_eq!((root(&sim).status, sim.asks.len()), (status, asked), "{granted}");
        assert_eq!(
            sim.run.purse().unwrap().spent.micro_usd,
            0,
            "what is not known is not made up"
        );
        if asked == 0 {
            let notes = &root(&sim).notes;
            assert!(notes.contains("--allow-unpriced"), "{notes}");
        }
    }
}

#[test]
fn usd_limit_of_the_run_holds_for_a_task_with_other_limits_of_its_own_e9_10() {
    let mut unpriced = equipment();
    unpriced.planner.price = None;
    unpriced.executor.price = None;
    let steps = json!([{"id": "a", "title": "say hello", "budget": {"model_calls": 5}}]);
    let plan = json!({"budget": {"usd": 1}, "steps": steps});
    let sim = goal_with("greet", &plan, unpriced, |_| finish("hello")).driven_on();
    assert!(sim.asks.is_empty(), "nobody knows what that would cost");
    let notes = &sim.run.node_at("a").unwrap().result.unwrap().notes;
    assert!(notes.contains("--allow-unpriced"), "{notes}");
}

#[test]
fn task_deadline_begins_when_a_concurrency_slot_is_free_e9_15() {
    let mut members: Vec<Value> = (0..40)
        .map(|n| json!({"id": format!("m{n}"), "title": format!("look at thing {n}"), "budget": {"deadline": "10s"}}))
        .collect();
    members.push(json!({"id": "p", "title": "ask around", "executor": "human"}));
    let steps = json!({"steps": [{"id": "g", "parallel": members}]});
    let mut sim = goal_with("look", &steps, equipment(), |_| {
        execute("finish", json!({"notes": "done"}))
    });
    sim.concurrency = 3;
    sim.derive();
    assert_eq!(sim.asking.len(), 3);
    let begun = |sim: &Sim| sim.run.tree().iter().filter(|view| view.started_at.is_some()).count();
    // The run, the group, those that are asked, and the person, who needs no room.
    assert_eq!(begun(&sim), 2 + 3 + 1);
    assert!(
        sim.run.due(sim.now, 0).is_empty(),
        "nothing else is owed as long as there is no room"
    );
    sim.now = sim.now.plus(Duration::from_secs(9));
    sim.end_one();
    sim.derive();
    assert_eq!((sim.asking.len(), begun(&sim)), (3, 2 + 4 + 1));
    sim.now = sim.now.plus(Duration::from_secs(5));
    sim.derive();
    let tree = sim.run.tree();
    let late = tree.iter().filter(|view| view.state == NodeState::Cancelling);
    assert_eq!(late.count(), 2, "of whoever began later the time is not up");
}
