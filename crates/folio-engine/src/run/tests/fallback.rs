//! Fallback models, and executors that tasks name (E9.13, E9.17).

use super::models::{equipment, execute, finish, goal_with, plan_answer, reply_answer, root, text_answer};
use super::*;
use crate::run::agent::{FixedCosts, NamedExecutor};
use crate::talk::{Message, Purpose, Reply, Stop};

/// Every role has a fallback model, which costs nothing.
fn with_fallback() -> Equipment {
    let mut equipment = equipment();
    for model in [&mut equipment.planner, &mut equipment.executor, &mut equipment.judge] {
        let free = ModelSpec {
            price: Some(Price::default()),
            ..model.clone()
        };
        model.fallback = Some(Arc::new(free));
    }
    equipment
}

fn passed(sim: &Sim) -> Vec<(Purpose, u32)> {
    sim.asks.iter().map(|ask| (ask.purpose, ask.skipped_models)).collect()
}

fn refusal() -> ModelAnswer {
    reply_answer(Reply {
        text: "I would rather not".to_owned(),
        calls: Vec::new(),
        stop: Stop::Refusal,
        permissions: Vec::new(),
    })
}

fn failed(kind: ModelFailureKind) -> ModelAnswer {
    ModelAnswer::Failed(ModelFailure::new(kind, "nobody is there"))
}

fn helpful(ask: &AskAction) -> ModelAnswer {
    match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "x"})),
        _ => finish("hello"),
    }
}

#[test]
fn fallback_model_is_asked_after_a_refusal_or_failure_e9_13() {
    use ModelFailureKind as Kind;
    for (answer, asked) in [
        (refusal(), 1),
        (failed(Kind::Unauthorised), 1),
        (failed(Kind::Invalid), 1),
        (failed(Kind::Unavailable), 2),
        (failed(Kind::RateLimited), 2),
        (failed(Kind::Malformed), 2),
    ] {
        let unhelpful = answer.clone();
        let sim = goal_with("say hello", &json!({}), with_fallback(), move |ask| {
            match ask.skipped_models {
                0 => unhelpful.clone(),
                _ => helpful(ask),
            }
        })
        .driven_on();
        assert_eq!(root(&sim).status, Outcome::Ok, "{answer:?}: {}", root(&sim).notes);
        let expected: Vec<(Purpose, u32)> = [Purpose::Decide, Purpose::Work]
            .into_iter()
            .flat_map(|purpose| std::iter::repeat_n((purpose, 0), asked).chain([(purpose, 1)]))
            .collect();
        assert_eq!(
            passed(&sim),
            expected,
            "each stage begins with the usual one: {answer:?}"
        );
        let why = sim.journal.iter().find_map(|(_, event)| match event {
            Event::PassedOn { reason, .. } => Some(reason.as_str()),
            _ => None,
        });
        assert!(why.is_some(), "{answer:?}");
        // What it would not do the next does not read.
        let read = format!("{:?}", sim.asks.last().unwrap().messages);
        assert!(!read.contains("I would rather not"), "{read}");
    }
}

#[test]
fn long_retry_after_moves_on_to_the_fallback_model_e9_13() {
    let wanted = |seconds| {
        ModelAnswer::Failed(ModelFailure {
            retry_after: Some(Duration::from_secs(seconds)),
            ..ModelFailure::new(ModelFailureKind::RateLimited, "too many requests")
        })
    };
    let asked_at = |equipment, seconds| {
        let sim = goal_with("say hello", &json!({}), equipment, move |ask| {
            match (ask.call, ask.skipped_models) {
                (1, 0) => wanted(seconds),
                _ => helpful(ask),
            }
        })
        .driven_on();
        assert_eq!(root(&sim).status, Outcome::Ok, "{seconds}");
        (
            passed(&sim)[1].1,
            sim.now > Timestamp::from_millis(i64::try_from(seconds).unwrap() * 1000),
        )
    };
    assert_eq!(asked_at(with_fallback(), 61), (1, false), "the next at once");
    assert_eq!(asked_at(with_fallback(), 60), (0, true), "the same after a minute");
    assert_eq!(asked_at(equipment(), 3600), (0, true), "there is nobody else");
}

#[test]
fn task_fails_when_the_last_fallback_model_fails_too_e9_13() {
    let sim = goal_with("say hello", &json!({}), with_fallback(), |_| refusal()).driven_on();
    assert_eq!(passed(&sim), [(Purpose::Decide, 0), (Purpose::Decide, 1)]);
    assert_eq!(root(&sim).stop_reason, Some(StopReason::Refused));
    // What does not fit into a window does not fit into one of the same size.
    let sim = goal_with("say hello", &json!({}), with_fallback(), |_| {
        failed(ModelFailureKind::TooLong)
    })
    .driven_on();
    assert_eq!(passed(&sim), [(Purpose::Decide, 0)]);
    assert_eq!(root(&sim).stop_reason, Some(StopReason::WindowFull));
    let hint = "; if its context holds less than 128000 tokens, set its `window`";
    assert!(root(&sim).notes.contains(hint), "{}", root(&sim).notes);
}

#[test]
fn fallback_model_gets_the_last_retry_of_an_unusable_reply_e9_13() {
    let sim = goal_with("say hello", &json!({}), with_fallback(), |ask| {
        match ask.skipped_models {
            0 if ask.purpose == Purpose::Decide => text_answer("words, words"),
            _ => helpful(ask),
        }
    })
    .driven_on();
    assert_eq!(root(&sim).status, Outcome::Ok, "{}", root(&sim).notes);
    let deciding: Vec<u32> = passed(&sim)
        .into_iter()
        .filter(|(purpose, _)| *purpose == Purpose::Decide)
        .map(|(_, passed)| passed)
        .collect();
    assert_eq!(deciding, [0, 0, 1]);
    // Each is paid for as it costs: those that stand in cost nothing here.
    let usual = passed(&sim).iter().filter(|(_, passed)| *passed == 0).count();
    assert_eq!(
        sim.run.purse().unwrap().spent.micro_usd,
        200 * u64::try_from(usual).unwrap()
    );
}

#[test]
fn run_with_fallbacks_resumed_after_any_event_ends_the_same_e9_13() {
    let script: Script = Arc::new(|ask| match ask.skipped_models {
        0 if ask.purpose == Purpose::Decide => text_answer("words, words"),
        0 => failed(ModelFailureKind::Unavailable),
        _ => helpful(ask),
    });
    let answers = Arc::clone(&script);
    let whole = goal_with("say hello", &json!({}), with_fallback(), move |ask| answers(ask)).driven_on();
    assert_eq!(root(&whole).status, Outcome::Ok);
    for cut in 1..=whole.journal.len() {
        let sim = Sim::resumed_with(&whole.journal[..cut], with_fallback(), Arc::clone(&script)).driven_on();
        assert_eq!(root(&sim).status, Outcome::Ok, "cut after {cut}");
        assert_eq!(root(&sim).notes, root(&whole).notes, "cut after {cut}");
    }
}

/// Besides the default executor, there are a program and a model with names.
fn with_named() -> Equipment {
    let mut equipment = with_fallback();
    let program = ModelSpec {
        program: Some(AgentProgram {
            name: "agent:mender".to_owned(),
            shown: json!({"argv": ["mender"]}),
        }),
        fallback: None,
        fixed: FixedCosts::default(),
        ..equipment.executor.clone()
    };
    let named = |model: ModelSpec, about: &str| NamedExecutor {
        model,
        about: about.to_owned(),
        offered: OfferedTools::default(),
    };
    let quick = equipment.executor.clone();
    equipment.executors = [
        ("mender".to_owned(), named(program, "mends clocks")),
        ("quick".to_owned(), named(quick, "is quick")),
    ]
    .into();
    equipment.known.executors = Some(equipment.executors.keys().cloned().collect());
    equipment
}

#[test]
fn task_is_carried_out_by_the_executor_it_names_e9_17() {
    let sim = goal_with("two things", &json!({}), with_named(), |ask| {
        let text = &ask.messages[1].text;
        match ask.purpose {
            Purpose::Decide if text.contains("# Task\ntwo things") && ask.call == 1 => plan_answer(json!([
                {"id": "a", "title": "mend it", "criteria": ["x"], "executor": "watchmaker"},
            ])),
            Purpose::Decide if text.contains("# Task\ntwo things") => plan_answer(json!([
                {"id": "a", "title": "mend it", "criteria": ["x"], "executor": "mender"},
                {"id": "b", "title": "wind it", "criteria": ["x"], "executor": "quick"},
                {"id": "c", "title": "look at it", "criteria": ["x"]},
            ])),
            Purpose::Decide => execute("echo", json!({"text": text})),
            Purpose::Work if ask.is_opaque => {
                let met = json!([{"id": "c1", "met": true}]);
                text_answer(&json!({"status": "ok", "notes": "mended", "criteria": met}).to_string())
            }
            Purpose::Work => finish("done"),
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    })
    .driven_on();
    let who: Vec<(Purpose, Option<&str>, bool)> = sim
        .asks
        .iter()
        .filter(|ask| ask.purpose == Purpose::Work)
        .map(|ask| (ask.purpose, ask.executor.as_deref(), ask.is_opaque))
        .collect();
    assert_eq!(
        who,
        [
            (Purpose::Work, Some("mender"), true),
            (Purpose::Work, Some("quick"), false),
            (Purpose::Work, None, false)
        ]
    );
    let told = &sim.asks[0].messages[1].text;
    assert!(told.contains("- mender: mends clocks\n"), "{told}");
    // A program is not asked whether it takes work apart.
    let asked = sim.asks.iter().filter(|ask| ask.purpose == Purpose::Decide);
    assert!(
        asked
            .clone()
            .all(|ask| !ask.messages[1].text.contains("# Task\nmend it"))
    );
    let again = format!("{:?}", sim.asks[1].messages);
    assert!(
        again.contains("unknown executor") && again.contains("the executors are mender, quick"),
        "{again}"
    );
}

#[test]
fn task_for_an_executor_that_is_not_there_is_not_given_to_another_e9_17() {
    let steps = json!({"steps": [{"id": "a", "title": "mend it", "criteria": ["x"], "executor": "mender"}]});
    let mut sim = Sim::new(&steps.to_string());
    // The process that accepted the plan had it; this one does not.
    sim.run.equip(Arc::new(with_fallback()));
    let sim = sim.driven_on();
    let result = sim.run.node_at("a").unwrap().result.unwrap();
    assert_eq!(
        (result.status, result.stop_reason, result.notes.as_str()),
        (
            Outcome::Failed,
            Some(StopReason::InvalidInput),
            "not asked, because this process has no executor `mender`"
        )
    );
}

/// What a step reads that names an executor with a window of `window` tokens, where the usual one has one of `usual`:
/// its task, which reads a long result, and the long answer of a tool.
fn read_by_named(usual: u32, window: u32) -> (usize, usize) {
    let mut equipment = with_named();
    for model in [&mut equipment.planner, &mut equipment.executor] {
        model.window = usual;
    }
    let mut named = equipment.executors.remove("quick").unwrap();
    named.model.window = window;
    named.model.fallback = None;
    equipment.executors.insert("quick".to_owned(), named);
    let text = "long ".repeat(4_000);
    let steps = json!({"steps": [
        {"id": "look", "do": {"tool": "echo", "args": {"text": text}}},
        {"id": "wind", "title": "wind it", "executor": "quick"},
    ]});
    let sim = goal_with("two things", &steps, equipment, move |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": text})),
        _ => finish("done"),
    })
    .driven_on();
    let work = sim.asks.iter().find(|ask| ask.purpose == Purpose::Work).unwrap();
    assert_eq!(work.executor.as_deref(), Some("quick"));
    let read = |message: &Message| message.text.matches("long ").count();
    let answer = work.messages.iter().find(|message| message.answers.is_some());
    (read(&work.messages[1]), read(answer.unwrap()))
}

#[test]
fn prompt_of_a_named_executor_is_sized_by_its_own_window_e9_17() {
    let (large, small) = (read_by_named(128_000, 128_000), read_by_named(8_192, 8_192));
    assert!(
        large.0 > small.0 && large.1 > small.1 && small.0 > 0,
        "{large:?}, {small:?}"
    );
    assert_eq!(read_by_named(8_192, 128_000), large);
    assert_eq!(read_by_named(128_000, 8_192), small);
}

#[test]
fn decision_may_choose_the_executor_e9_17() {
    let script: Script = Arc::new(|ask| {
        let chosen = |name: &str| {
            let action = json!({"tool": "echo", "args": {"text": "x"}});
            let answer = json!({"decision": "execute", "reason": "it is a clock", "executor": name, "action": action});
            text_answer(&answer.to_string())
        };
        match ask.purpose {
            Purpose::Decide if ask.call == 1 => chosen("watchmaker"),
            Purpose::Decide => chosen("mender"),
            _ if ask.is_opaque => text_answer(&json!({"status": "ok", "notes": "mended"}).to_string()),
            purpose => panic!("{purpose:?} was asked of somebody else"),
        }
    });
    let model = Arc::clone(&script);
    let whole = goal_with("mend the clock", &json!({}), with_named(), move |ask| model(ask)).driven_on();
    assert_eq!(
        (root(&whole).status, root(&whole).notes.as_str()),
        (Outcome::Ok, "mended")
    );
    let who: Vec<Option<&str>> = whole.asks.iter().map(|ask| ask.executor.as_deref()).collect();
    assert_eq!(who, [None, None, Some("mender")]);
    assert!(whole.calls.is_empty(), "a program has tools of its own");
    let schema = whole.asks[0].answer_schema.as_ref().unwrap();
    assert_eq!(schema["properties"]["executor"]["enum"], json!(["mender", "quick"]));
    let again = format!("{:?}", whole.asks[1].messages);
    assert!(
        again.contains("unknown executor") && again.contains("mender, quick"),
        "{again}"
    );
    let is_asked = |(_, event): &(Timestamp, Event)| matches!(event, Event::Asked { .. });
    let asked = whole.journal.iter().rposition(is_asked).unwrap();
    for cut in (1..=whole.journal.len()).filter(|cut| *cut != asked + 1) {
        let sim = Sim::resumed_with(&whole.journal[..cut], with_named(), Arc::clone(&script)).driven_on();
        assert_eq!(root(&sim).notes, "mended", "cut after {cut}");
    }
}

#[test]
fn decision_cannot_override_the_executor_named_by_a_task_e9_17() {
    let sim = goal_with("two things", &json!({}), with_named(), |ask| {
        let text = &ask.messages[1].text;
        match ask.purpose {
            Purpose::Decide if text.contains("# Task\ntwo things") => plan_answer(json!([
                {"id": "a", "title": "wind it", "criteria": ["x"], "executor": "quick"},
                {"id": "b", "title": "look at it", "criteria": ["x"]},
            ])),
            Purpose::Decide => {
                let answer = json!({"decision": "execute", "reason": "so", "executor": "mender"});
                let schema = ask.answer_schema.as_ref().unwrap();
                let may_choose = schema["properties"].get("executor").is_some();
                assert_eq!(may_choose, text.contains("# Task\nlook at it"));
                text_answer(&answer.to_string())
            }
            Purpose::Work if ask.is_opaque => {
                let met = json!([{"id": "c1", "met": true}]);
                text_answer(&json!({"status": "ok", "notes": "mended", "criteria": met}).to_string())
            }
            Purpose::Work => finish("done"),
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    })
    .driven_on();
    let works = sim.asks.iter().filter(|ask| ask.purpose == Purpose::Work);
    let who: Vec<Option<&str>> = works.map(|ask| ask.executor.as_deref()).collect();
    assert_eq!(who, [Some("quick"), Some("mender")]);
}

#[test]
fn fallback_chain_reaches_its_last_model_after_refusals_and_nonsense_e9_13() {
    let asked = |of_the_first: fn() -> ModelAnswer, of_the_second: fn() -> ModelAnswer| {
        let mut equipment = with_fallback();
        let (last, first) = (equipment.planner.clone(), &mut equipment.planner);
        first.fallback = Some(Arc::new(last));
        let sim = goal_with("say hello", &json!({}), equipment, move |ask| {
            match (ask.purpose, ask.skipped_models) {
                (Purpose::Decide, 0) => of_the_first(),
                (Purpose::Decide, 1) => of_the_second(),
                _ => helpful(ask),
            }
        })
        .driven_on();
        assert_eq!(root(&sim).status, Outcome::Ok, "{}", root(&sim).notes);
        let deciding = passed(&sim)
            .into_iter()
            .filter(|(purpose, _)| *purpose == Purpose::Decide);
        deciding.map(|(_, passed)| passed).collect::<Vec<_>>()
    };
    let nonsense = || text_answer("words, words");
    assert_eq!(asked(nonsense, refusal), [0, 0, 1, 2]);
    assert_eq!(asked(refusal, nonsense), [0, 1, 1, 2]);
    assert_eq!(asked(refusal, refusal), [0, 1, 2]);
}
