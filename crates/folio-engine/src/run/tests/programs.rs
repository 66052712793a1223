//! Tasks that an agent program does by itself (E9.3, E9.12, E9.14, E9.17).

use super::forks::forked;
use super::models::{
    equipment, execute, finish, goal_with, house, nested, prompt_text, purposes, reply_answer, root, text_answer,
    verdict_answer,
};
use super::pages::Pages;
use super::*;
use crate::run::approval::approval_of;
use crate::spend::Spend;
use crate::talk::{Purpose, Reply, Speaker, Stop, Wanted};

fn with_program() -> Equipment {
    let mut equipment = equipment();
    equipment.executor.program = Some(AgentProgram {
        name: "agent:mender".to_owned(),
        shown: json!({"argv": ["mender", "--quiet"]}),
    });
    equipment
}

fn asking() -> Option<ApprovalPolicy> {
    Some(Arc::new(|tool: &str, _: &Value| tool.starts_with("agent:").into()))
}

fn done(notes: &str) -> ModelAnswer {
    text_answer(&format!(
        "I had a look.\n```json\n{}\n```\n",
        json!({"status": "ok", "notes": notes, "output": {"said": notes}})
    ))
}

fn failed(kind: ModelFailureKind) -> ModelAnswer {
    ModelAnswer::Failed(ModelFailure::new(kind, "mender said no more"))
}

fn mending(model: impl Fn(&AskAction) -> ModelAnswer + 'static) -> Sim {
    goal_with("mend the clock", &json!({}), with_program(), model)
}

#[test]
fn agent_program_gets_the_whole_task_and_answers_once_e9_3() {
    let sim = mending(|_| done("it ticks")).driven_on();
    assert_eq!(purposes(&sim), [Purpose::Work]);
    assert_eq!(
        (root(&sim).status, root(&sim).notes.as_str()),
        (Outcome::Ok, "it ticks")
    );
    let ask = &sim.asks[0];
    assert!(ask.is_opaque && ask.tools.is_empty());
    assert_eq!(ask.answer_schema.as_ref().unwrap()["required"], json!(["notes"]));
    assert!(prompt_text(&sim, 0).contains("# Task\nmend the clock\n"));
    let decided = sim.journal.iter().find_map(|(_, event)| match event {
        Event::Decided { by, .. } => Some(by.as_str()),
        _ => None,
    });
    assert_eq!(decided, Some("opaque"));
}

#[test]
fn decision_says_that_tools_do_not_limit_the_program_that_does_the_task_e9_17() {
    let steps = json!({"steps": [
        {"id": "limited", "title": "mend the clock", "tools": ["echo"]},
        {"id": "inside", "tools": [], "plan": [{"id": "atomic", "title": "mend the door", "atomic": true}]},
        {"id": "free", "title": "mend the chair"},
    ]});
    let reasons = |equipment: Equipment, answer: fn() -> ModelAnswer| {
        let sim = goal_with("mend", &steps, equipment, move |_| answer()).driven_on();
        let reasons = sim.journal.iter().filter_map(|(_, event)| match event {
            Event::Decided { reason, .. } => Some(reason.clone()),
            _ => None,
        });
        reasons.collect::<Vec<_>>()
    };
    let note = "; `tools` does not limit it, because a program has tools of its own";
    assert_eq!(
        reasons(with_program(), || done("it is whole")),
        [
            format!("it is executed by a program that splits work by itself{note}"),
            format!("its plan marks it as atomic{note}"),
            "it is executed by a program that splits work by itself".to_owned(),
        ]
    );
    // The same where a model decides.
    let always = Equipment {
        plan: PlanMode::Always,
        ..with_program()
    };
    let of_model = reasons(always, || execute("finish", json!({})));
    assert_eq!(of_model[0], format!("it is small{note}"));
    let model = Equipment {
        plan: PlanMode::Never,
        ..equipment()
    };
    assert_eq!(reasons(model, || finish("it is whole")), ["planning is disabled"; 3]);
}

#[test]
fn plan_mode_always_splits_work_for_an_agent_program_e9_3() {
    let equipment = Equipment {
        plan: PlanMode::Always,
        ..with_program()
    };
    let sim = goal_with("survey the house", &house(), equipment, |ask| match ask.purpose {
        Purpose::Work => text_answer(&json!({"notes": "seen", "criteria": [{"id": "c1", "met": true}]}).to_string()),
        _ => nested(ask),
    })
    .driven_on();
    assert_eq!(root(&sim).notes, "all of survey the house");
    let of_executor = sim.asks.iter().filter(|ask| ask.purpose == Purpose::Work);
    assert!(of_executor.count() > 2 && purposes(&sim).contains(&Purpose::Decide));
}

#[test]
fn program_that_answers_prose_is_told_that_its_work_stays_done_and_asked_once_e9_17() {
    let sim = mending(|_| text_answer("I mended it.")).driven_on();
    assert_eq!(sim.asks.len(), 2, "each start may do the task again");
    let told = prompt_text(&sim, 1);
    assert!(told.contains("what you did stays done: do none of it again"), "{told}");
    assert!(!prompt_text(&sim, 0).contains("stays done"));
    let result = root(&sim);
    assert_eq!(
        (result.status, result.stop_reason, result.notes.as_str()),
        (Outcome::Partial, Some(StopReason::Unparseable), "I mended it.")
    );
}

#[test]
fn notes_of_a_program_list_what_it_asked_to_be_allowed_e9_14() {
    for answer in ["{\"status\": \"ok\", \"notes\": \"it ticks\"}", "it ticks"] {
        let sim = mending(move |_| {
            reply_answer(Reply {
                text: answer.to_owned(),
                calls: Vec::new(),
                stop: Stop::Done,
                permissions: vec!["refused edit: main.rs".to_owned(), "granted read: a.txt".to_owned()],
            })
        })
        .driven_on();
        assert_eq!(
            root(&sim).notes,
            "it ticks (it asked for permission: refused edit: main.rs; granted read: a.txt)"
        );
    }
}

#[test]
fn program_is_told_what_is_wrong_with_its_answer_e9_13() {
    let sim = mending(|ask| match ask.call {
        1 => text_answer("{\"status\": \"ok\"}"),
        _ => done("it ticks"),
    })
    .driven_on();
    assert_eq!(root(&sim).notes, "it ticks");
    assert!(prompt_text(&sim, 1).contains("`notes` is missing"));
}

#[test]
fn claims_of_an_agent_program_are_judged_e9_6() {
    let criteria = json!({"criteria": ["it ticks"]});
    let sim = goal_with("mend the clock", &criteria, with_program(), |ask| match ask.purpose {
        Purpose::Judge => verdict_answer("unmet"),
        _ => done("it ticks"),
    })
    .driven_on();
    assert_eq!(
        purposes(&sim),
        [Purpose::Work, Purpose::Judge, Purpose::Work, Purpose::Judge],
        "it is done once more with what is missing"
    );
    assert_eq!(root(&sim).stop_reason, Some(StopReason::CriteriaUnmet));
}

#[test]
fn failed_agent_program_is_not_started_again_e9_12() {
    for (kind, reason, severity) in [
        (ModelFailureKind::Unknown, StopReason::OutcomeUnknown, Severity::Hard),
        (ModelFailureKind::Denied, StopReason::PolicyDenied, Severity::Hard),
        (ModelFailureKind::Failed, StopReason::RetriesExhausted, Severity::Soft),
    ] {
        let sim = mending(move |_| failed(kind)).driven_on();
        let result = root(&sim);
        assert_eq!(sim.asks.len(), 1, "{kind:?}");
        assert_eq!((result.stop_reason, result.severity), (Some(reason), Some(severity)));
        assert!(result.notes.contains("mender said no more"));
    }
}

#[test]
fn interrupted_agent_program_is_not_started_again_e9_12() {
    let whole = mending(|_| done("it ticks")).driven_on();
    let asked = whole
        .journal
        .iter()
        .position(|(_, event)| matches!(event, Event::Asked { .. }));
    let model: Script = Arc::new(|ask| panic!("{:?} was started again", ask.purpose));
    let sim = Sim::resumed_with(&whole.journal[..=asked.unwrap()], with_program(), model).driven_on();
    let result = root(&sim);
    assert_eq!(
        (result.status, result.severity, result.stop_reason),
        (Outcome::Failed, Some(Severity::Hard), Some(StopReason::OutcomeUnknown))
    );
    // What was set aside for it counts as spent, since nobody knows better.
    let Event::Asked { reserved, .. } = &whole.journal[asked.unwrap()].1 else {
        unreachable!("found as one")
    };
    assert_eq!(sim.run.purse().unwrap().spent, *reserved);
}

#[test]
fn resume_outside_the_program_call_ends_the_same_e9_9() {
    let whole = mending(|_| done("it ticks")).driven_on();
    let asked = whole
        .journal
        .iter()
        .position(|(_, event)| matches!(event, Event::Asked { .. }));
    for cut in (1..=whole.journal.len()).filter(|cut| *cut != asked.unwrap() + 1) {
        let sim = Sim::resumed_with(&whole.journal[..cut], with_program(), Arc::new(|_| done("it ticks")));
        assert_eq!(sim.driven_on().outcome(), whole.outcome(), "cut at {cut}");
    }
}

#[test]
fn agent_program_waits_for_approval_before_it_starts_e9_14() {
    let begun = || {
        let mut sim = mending(|ask| {
            assert!(ask.allowed, "started without a yes");
            done("it ticks")
        });
        sim.run.set_approval_policy(asking());
        sim.derive();
        assert!(sim.asks.is_empty());
        sim
    };
    let node = NodeId::root(RunId::derived(&["test"]));
    let mut sim = begun();
    let Some((_, PendingApproval::Call(approval))) = sim.run.pending_approvals().first().copied() else {
        panic!("nothing waits: {:?}", sim.run.pending_approvals());
    };
    assert_eq!(
        (approval.tool.as_str(), &approval.args),
        ("agent:mender", &json!({"argv": ["mender", "--quiet"]}))
    );
    sim.record(Event::CallApproved {
        node,
        always: None,
        by: "ada".to_owned(),
    });
    assert_eq!(root(&sim.driven_on()).notes, "it ticks");

    let mut sim = begun();
    sim.record(Event::CallRejected {
        node,
        reason: "not today".to_owned(),
        by: "ada".to_owned(),
    });
    let sim = sim.driven_on();
    assert!(sim.asks.is_empty());
    assert_eq!(root(&sim).stop_reason, Some(StopReason::PolicyDenied));
}

#[test]
fn approval_of_a_program_covers_only_the_command_line_shown_e9_14() {
    let mut sim = mending(|_| done("it ticks"));
    sim.run.set_approval_policy(asking());
    sim.derive();
    let (node, approval) = match sim.run.pending_approvals().as_slice() {
        [(node, PendingApproval::Call(approval))] => (*node, (*approval).clone()),
        other => panic!("{other:?}"),
    };
    sim.record(Event::CallApproved {
        node,
        always: None,
        by: "human:ada".to_owned(),
    });
    // Somebody changed the settings before it was started.
    let mut equipment = with_program();
    equipment.executor.program.as_mut().unwrap().shown = json!({"argv": ["mender", "--wreck"]});
    let mut resumed = Sim::resumed_with(&sim.journal, equipment, Arc::new(|_: &AskAction| done("wrecked")));
    resumed.run.set_approval_policy(asking());
    resumed.derive();
    assert!(resumed.asks.is_empty());
    match resumed.run.pending_approvals().as_slice() {
        [(_, PendingApproval::Call(again))] => assert_ne!(again.hash, approval.hash),
        other => panic!("{other:?}"),
    }
    // As they were, it is started.
    let mut resumed = Sim::resumed_with(&sim.journal, with_program(), Arc::new(|_: &AskAction| done("it ticks")));
    resumed.run.set_approval_policy(asking());
    resumed.derive();
    assert!(resumed.asks[0].allowed);
}

#[test]
fn task_timeout_applies_to_programs_and_models_alike_e9_15() {
    let plan = "steps: [{id: mend, title: mend the clock, timeout: 2s}]";
    for (equipment, timeout) in [(with_program(), 2), (equipment(), 2)] {
        let mut sim = Sim::new(plan);
        sim.run.equip(Arc::new(equipment));
        sim.model = Arc::new(|_| done("it ticks"));
        sim.derive();
        let ask = &sim.asks[0];
        assert_eq!(ask.attempt, Some(Duration::from_secs(timeout)));
        assert!(ask.timeout <= Duration::from_secs(timeout));
    }
}

#[test]
fn approval_question_escapes_invisible_characters_e9_14() {
    let approval = approval_of("shell", &json!({"argv": ["printf", "\u{202e}dlrow\u{202c}\u{200b}"]}));
    let words = approval.in_words();
    assert!(words.contains(r"\u202edlrow\u202c\u200b"), "{words}");
    assert!(words.is_ascii(), "{words}");
    let hidden = "\u{e0001}\u{e0072}\u{ad}\u{fe0f}\u{200d}\u{180e}\u{3164}\u{2800}\u{2069}\u{9b}\u{e0101}";
    let approval = approval_of("shell", &json!({"argv": ["rm", hidden]}));
    let node = NodeId::root(RunId::derived(&["a run"]));
    let asked = Event::ApprovalAsked {
        node,
        approval: Box::new(approval.clone()),
    };
    for words in [approval.in_words(), asked.in_words()] {
        assert!(
            words.contains(r"\u{e0001}\u{e0072}\u00ad\ufe0f\u200d\u180e\u3164\u2800\u2069"),
            "{words}"
        );
        assert!(words.is_ascii(), "{words}");
    }
}

#[test]
fn missing_approval_is_passed_to_the_program_starter_e9_14() {
    let sim = mending(|ask| {
        assert!(!ask.allowed);
        failed(ModelFailureKind::Denied)
    });
    let sim = sim.driven_on();
    assert_eq!(
        (root(&sim).status, root(&sim).stop_reason),
        (Outcome::Failed, Some(StopReason::PolicyDenied)),
        "what was refused is no success"
    );
}

#[test]
fn program_beyond_the_budget_is_not_started_to_hand_back_e9_10() {
    let budget = json!({"budget": {"tokens": 1_000}});
    let sim = goal_with("mend the clock", &budget, with_program(), |_| finish("unasked")).driven_on();
    assert!(sim.asks.is_empty(), "{:?}", purposes(&sim));
    let result = root(&sim);
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Partial, Some(StopReason::BudgetTokens))
    );
}

#[test]
fn usage_reported_by_a_program_counts_as_spent_e9_10() {
    let mut equipment = with_program();
    equipment.executor.price = None;
    let sim = goal_with("mend the clock", &json!({}), equipment, |_| match done("it ticks") {
        ModelAnswer::Replied { reply, model, .. } => ModelAnswer::Replied {
            reply,
            model,
            used: Some(Spend {
                tokens_in: 9_000,
                tokens_out: 700,
                micro_usd: 41_000,
                ..Spend::default()
            }),
        },
        other => other,
    })
    .driven_on();
    let spent = sim.run.purse().unwrap().spent;
    assert_eq!((spent.tokens_in, spent.micro_usd), (9_000, 41_000));
}

/// The journal of a run whose agent program has session `s1` and is working.
fn at_work(program: &str) -> Vec<(Timestamp, Event)> {
    let whole = mending(|_| done("it ticks")).driven_on();
    let is_asked = |(_, event): &(Timestamp, Event)| matches!(event, Event::Asked { .. });
    let asked = whole.journal.iter().position(is_asked).unwrap();
    let mut journal = whole.journal[..=asked].to_vec();
    let (at, Event::Asked { node, call, .. }) = journal[asked].clone() else {
        unreachable!("found as one")
    };
    journal.push((
        at,
        Event::SessionBegan {
            node,
            call,
            program: program.to_owned(),
            session: "s1".to_owned(),
        },
    ));
    journal
}

#[test]
fn program_with_a_session_gets_it_back_after_resume_e9_17() {
    let journal = at_work("agent:mender");
    let goes_on: Script = Arc::new(|ask| {
        assert_eq!((ask.call, ask.session.as_deref()), (1, Some("s1")));
        done("it ticks")
    });
    let sim = Sim::resumed_with(&journal, with_program(), Arc::clone(&goes_on)).driven_on();
    assert_eq!((sim.asks.len(), root(&sim).notes.as_str()), (1, "it ticks"));
    // Nobody knows what it cost before its driver died, so what was set aside for that counts, too (E9.10).
    assert_eq!(sim.run.purse().unwrap().spent.model_calls, 2);

    // And again, wherever that driver dies.
    for cut in journal.len()..=sim.journal.len() {
        let again = Sim::resumed_with(&sim.journal[..cut], with_program(), Arc::clone(&goes_on)).driven_on();
        assert_eq!(again.outcome(), sim.outcome(), "cut at {cut}");
    }
}

#[test]
fn program_session_belongs_to_one_call_e9_17() {
    let journal = at_work("agent:mender");
    let sim = Sim::resumed_with(
        &journal,
        with_program(),
        Arc::new(|ask| match (ask.call, ask.session.as_deref()) {
            (1, Some("s1")) => text_answer("{\"status\": \"ok\"}"),
            (2, None) => done("it ticks"),
            other => panic!("{other:?}"),
        }),
    );
    assert_eq!(root(&sim.driven_on()).notes, "it ticks");
}

#[test]
fn program_session_is_not_given_to_another_executor_e9_12() {
    let unasked: Script = Arc::new(|ask| panic!("{:?} was started", ask.purpose));
    let (other, model) = (at_work("agent:painter"), at_work("agent:mender"));
    for (journal, equipment) in [(other, with_program()), (model, equipment())] {
        let sim = Sim::resumed_with(&journal, equipment, Arc::clone(&unasked)).driven_on();
        assert_eq!(
            (root(&sim).severity, root(&sim).stop_reason),
            (Some(Severity::Hard), Some(StopReason::OutcomeUnknown))
        );
    }
}

/// A model plans for the agent program, which does each step in a session of its own.
fn planning() -> Equipment {
    Equipment {
        plan: PlanMode::Always,
        ..with_program()
    }
}

fn seen(ask: &AskAction) -> ModelAnswer {
    match ask.purpose {
        Purpose::Work => text_answer(&json!({"notes": "seen", "criteria": [{"id": "c1", "met": true}]}).to_string()),
        _ => nested(ask),
    }
}

#[test]
fn fork_does_not_reuse_program_sessions_of_its_source_e9_17() {
    let mut journal: Vec<(Timestamp, Event)> = Vec::new();
    for (at, event) in goal_with("survey the house", &house(), planning(), seen)
        .driven_on()
        .journal
    {
        let session = match &event {
            Event::Asked {
                node,
                call,
                is_opaque: true,
                ..
            } => Some(Event::SessionBegan {
                node: *node,
                call: *call,
                program: "agent:mender".to_owned(),
                session: format!("s-{node}"),
            }),
            _ => None,
        };
        journal.extend([Some(event), session].into_iter().flatten().map(|event| (at, event)));
    }
    let is_session = |(_, event): &(Timestamp, Event)| matches!(event, Event::SessionBegan { .. });
    let at_work = journal.iter().position(is_session).unwrap();
    // Of one the driver died, and the program went on with its session.
    let resumed = Sim::resumed_with(&journal[..=at_work], planning(), Arc::new(seen)).driven_on();
    assert!(resumed.asks[0].session.is_some());
    for journal in [&journal, &resumed.journal] {
        let whole = Sim::resumed_with(journal, planning(), Arc::new(seen));
        for view in whole.run.tree() {
            let (first, now) = (journal[0].1.clone(), whole.now);
            let made = forked(
                (whole.run.id(), journal),
                ForkAt::Node(view.id),
                RunId::derived(&["forked"]),
                first,
                now,
            );
            let made = made.unwrap_or_else(|error| panic!("{}: {error}", view.path));
            let mut sim = Sim::empty();
            sim.run = made.run;
            sim.journal = made.events.into_iter().map(|event| (now, event)).collect();
            sim.pages = Pages::of(sim.run.id(), &sim.journal);
            sim.run.equip(Arc::new(planning()));
            sim.model = Arc::new(|ask| {
                assert_eq!(ask.session, None);
                seen(ask)
            });
            let ended = |sim: &Sim| -> Vec<(String, Outcome, String)> {
                let views = sim.run.tree();
                let results = views.iter().map(|v| (v.path.to_owned(), v.result.unwrap()));
                results
                    .map(|(path, result)| (path, result.status, result.notes.clone()))
                    .collect()
            };
            assert_eq!(ended(&sim.driven_on()), ended(&resumed), "forked at {}", view.path);
        }
    }
}

/// Derives and answers until a person is asked.
fn until_asked(sim: &mut Sim) {
    for _ in 0..50 {
        sim.derive();
        if !sim.end_one() {
            break;
        }
    }
    assert_eq!(sim.run.questions().len(), 1);
}

#[test]
fn program_may_ask_a_person_and_gets_the_answer_verbatim_e9_17() {
    let asks = |id: &str| {
        reply_answer(Reply {
            text: String::new(),
            calls: vec![Wanted {
                id: id.to_owned(),
                tool: "ask_person".to_owned(),
                args: json!({"question": "Which clock?"}),
            }],
            stop: Stop::Done,
            permissions: Vec::new(),
        })
    };
    let with_person = |equipment: Equipment| Equipment {
        has_person: true,
        ..equipment
    };
    let mut sim = goal_with("mend", &json!({}), with_person(with_program()), move |ask| {
        match ask.call {
            1 => asks("t1/1"),
            // What was answered once is not asked again.
            2 => asks("t1/2"),
            _ => done("it ticks"),
        }
    });
    let root_id = NodeId::root(sim.run.id());
    until_asked(&mut sim);
    assert_eq!(sim.run.program_question(root_id), Some((None, "t1/1")));
    sim.record(Event::Answered {
        node: root_id,
        answer: "the tall one".to_owned(),
        by: "ada".to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!(root(&sim).status, Outcome::Ok);
    assert_eq!(sim.run.program_question(root_id), None, "it said more since");
    let answers = |ask: &AskAction| {
        let answers = ask.messages.iter().filter(|said| said.speaker == Speaker::Tool);
        answers.map(|said| said.text.clone()).collect::<Vec<_>>()
    };
    assert_eq!(answers(&sim.asks[1]), ["the tall one"]);
    assert_eq!(answers(&sim.asks[2]), ["the tall one", "the tall one"]);
    // Who is only asked what to do waits for nothing elsewhere.
    let mut sim = goal_with("mend", &json!({}), with_person(equipment()), move |_| asks("c"));
    until_asked(&mut sim);
    assert_eq!(sim.run.program_question(NodeId::root(sim.run.id())), None);
}

#[test]
fn cancelled_program_costs_what_it_reported_and_otherwise_what_was_set_aside_e9_11() {
    let cancelled = |used: Option<Spend>| {
        let mut sim = mending(move |_| ModelAnswer::Stopped { used });
        sim.derive();
        let reserved = sim.asks[0].reserved;
        sim.record(Event::CancelRequested {
            node: None,
            by: "ada".to_owned(),
        });
        assert!(sim.end_one());
        let sim = sim.driven_on();
        let mended = root(&sim);
        assert_eq!(
            (mended.status, mended.stop_reason),
            (Outcome::Cancelled, Some(StopReason::CancelledByUser))
        );
        assert!(mended.notes.contains("may have taken effect"), "{}", mended.notes);
        let purse = *budgets::check_accounts(&sim.journal).purse().unwrap();
        assert!(purse.reserved.is_nothing() && purse.held.is_nothing());
        (purse.spent, reserved)
    };
    let reported = Spend {
        tokens_in: 70,
        tokens_out: 9,
        ..Spend::default()
    };
    let (spent, _) = cancelled(Some(reported));
    assert_eq!((spent.tokens_in, spent.tokens_out, spent.model_calls), (70, 9, 1));
    assert_eq!(spent.micro_usd, 70 + 5 * 9);
    let (spent, reserved) = cancelled(None);
    assert_eq!(spent, reserved);
}
