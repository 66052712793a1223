//! Promises about any text that somebody writes as a plan, or that a model answers: the bodies of the properties in
//! `tests/any_text.rs` and of the fuzz targets in `fuzz/`.
//!
//! Each function takes a text and panics if the engine breaks a promise about it (E9.1, E9.13, E9.14).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use folio_engine::event::FORMAT;
use folio_engine::plan::{self, Known, Plan, ShownStep};
use folio_engine::run::agent::repair;
use folio_engine::run::{Equipment, FixedCosts, Judging, ModelAnswer, ModelSpec, OfferedTools, PlanMode};
use folio_engine::talk::{Reply, Stop};
use folio_engine::template::Templates;
use folio_engine::{Action, Event, Run};
use folio_memory::tokens::Estimate;
use folio_memory::{RunId, Timestamp};
use serde_json::json;

/// The number of steps after which a run is considered endless.
const STEPS_MAX: usize = 20_000;
/// The number of questions to models after which a run is considered endless.
const ASKED_MAX: usize = 2_000;

/// A plan in YAML or JSON: either it can be stored and read back unchanged, or it has mistakes, each with a place in
/// the text, in order.
///
/// # Panics
///
/// If neither holds.
pub fn plan(text: &str) {
    match plan::parse(text, &Known::default()) {
        Ok(read) => {
            let stored = json!(read);
            let again: Plan = serde_json::from_value(stored.clone()).expect("a stored plan reads back");
            assert_eq!(again, read, "{stored}");
            drop(plan::parse(
                &plan::to_markdown(&ShownStep::from_plan_steps(&read.steps)),
                &Known::default(),
            ));
        }
        Err(errors) => {
            assert!(!errors.listed.is_empty(), "refused without a mistake");
            assert!(errors.listed.is_sorted_by_key(|error| error.place), "{errors}");
            let lines = u32::try_from(lines_of(text)).unwrap_or(u32::MAX);
            let is_inside = |error: &plan::PlanError| error.place.line <= lines.saturating_add(1);
            assert!(errors.listed.iter().all(is_inside), "{errors}");
        }
    }
}

/// How many lines a text has by YAML's rules: a carriage return without a line feed ends one, too.
fn lines_of(text: &str) -> usize {
    let returns = text
        .as_bytes()
        .windows(2)
        .filter(|pair| pair[0] == b'\r' && pair[1] != b'\n')
        .count();
    text.lines().count() + returns + usize::from(text.ends_with('\r'))
}

/// Steps as people edit them, in markdown: they are a plan or have mistakes.
///
/// # Panics
///
/// If neither holds.
pub fn markdown(text: &str) {
    plan(text);
    plan(&format!("- [ ] first\n{text}"));
}

/// The answer of a model: the JSON in it is found, and found again in what was found, or there is none.
///
/// # Panics
///
/// If parsing the result again gives something else, or a required field is missing.
pub fn answer(text: &str) {
    const REQUIRED: [&str; 2] = ["decision", "reason"];
    let Ok(found) = repair::object(text, &REQUIRED) else {
        return;
    };
    assert!(found.value.is_object(), "{}", found.value);
    let again = repair::object(&found.value.to_string(), &REQUIRED).expect("JSON is found in JSON");
    assert_eq!((again.value, again.is_repaired), (found.value, false), "{text}");
}

/// A model that answers every question with this text: the run ends, and the model is not asked forever (E9.13).
///
/// # Panics
///
/// If the run does not end.
pub fn talk(text: &str) {
    let mut run = Run::new(RunId::derived(&["any text"]), Arc::new(Templates::new()));
    run.equip(Arc::new(equipment()));
    let (mut now, mut asked) = (Timestamp::from_millis(1_000), 0);
    let started = Event::RunStarted {
        format: FORMAT,
        goal: "say something".to_owned(),
        plan: json!({"version": 1, "title": "say something", "criteria": ["it is said"], "steps": []}),
        inputs: BTreeMap::new(),
        deadline: None,
        run: serde_json::Value::Null,
    };
    run.apply(now, &started).expect("a run begins");
    for _ in 0..STEPS_MAX {
        if run.result().is_some() {
            return;
        }
        let Some(action) = run.due(now, 1).into_iter().next() else {
            now = run.wakes_at().expect("a run that is owed nothing waits for something");
            continue;
        };
        let event = match action {
            Action::Record(event) => event,
            Action::Brief(node) => Event::Briefed {
                node,
                memory: String::new(),
                book: None,
                limits: run.share_of(node),
            },
            Action::Ask(ask) => {
                asked += 1;
                assert!(asked <= ASKED_MAX, "asked {asked} times, and it always said {text:?}");
                run.apply(now, &ask.asked()).expect("what is owed may begin");
                let answer = ModelAnswer::Replied {
                    reply: Reply {
                        text: text.to_owned(),
                        calls: Vec::new(),
                        stop: Stop::Done,
                        permissions: Vec::new(),
                    },
                    used: None,
                    model: "any".to_owned(),
                };
                let answered = run.model_answered(ask.node, answer, Duration::ZERO, now);
                answered.expect("it was asked")
            }
            other => panic!("a run without tools is owed {other:?}"),
        };
        run.apply(now, &event).expect("what is owed may be recorded");
    }
    panic!("it does not end when a model always says {text:?}");
}

fn equipment() -> Equipment {
    let spec = || ModelSpec {
        tokens: Arc::new(Estimate),
        window: 128_000,
        answer_tokens: 2_000,
        price: None,
        program: None,
        fallback: None,
        fixed: FixedCosts::default(),
    };
    Equipment {
        planner: spec(),
        executor: spec(),
        judge: spec(),
        compactor: None,
        human: None,
        executors: BTreeMap::new(),
        tools: Vec::new(),
        offered: OfferedTools::default(),
        known: Known::default(),
        book: folio_memory::policy::ScratchbookPolicy::default(),
        has_person: false,
        plan: PlanMode::Auto,
        judging: Judging::default(),
        timeout: Duration::from_secs(60),
    }
}
