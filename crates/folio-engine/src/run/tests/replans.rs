//! What stays when a plan is changed, and what is written down of the one before (E9.8, seed 000).

use insta::assert_snapshot;

use super::models::{equipment, execute, goal, plan_of, read_by, root, said, task_named};
use super::*;
use crate::projection;
use crate::talk::Purpose;

/// A house whose roof does not hold until the plan is changed; the walls beside it do.
fn house() -> Sim {
    goal("build a house", &json!({}), |ask| {
        let task = task_named(ask);
        match (ask.purpose, task.as_str()) {
            (Purpose::Decide, "build a house") => plan_of(json!([
                [
                    {"id": "walls", "title": "raise walls", "criteria": ["they stand"]},
                    {"id": "roof", "title": "lay tiles", "criteria": ["it holds"]}
                ],
                {"id": "paint", "title": "mix paint", "criteria": ["it is blue"]}
            ])),
            (Purpose::Decide, "lay tiles") => execute("finish", json!({"status": "failed", "notes": "no tiles"})),
            (Purpose::Decide, task) => execute(
                "finish",
                json!({"notes": format!("{task}: done"), "criteria": [{"id": "c1", "met": true}]}),
            ),
            (Purpose::Replan, _) => said(
                &json!({"root_cause": "no tiles", "changes": "thatch", "steps": [
                    {"id": "thatch", "title": "lay thatch", "needs": ["walls"], "criteria": ["it holds"]}
                ]})
                .to_string(),
            ),
            _ => said("{\"notes\": \"all of it\"}"),
        }
    })
    .driven_on()
}

#[test]
fn what_went_well_in_a_group_that_did_not_is_kept_e9_8() {
    let sim = house();
    assert_eq!(sim.status(""), Outcome::Ok);
    let steps = sim.run.steps(NodeId::root(sim.run.id()));
    let steps: Vec<&str> = steps.iter().map(|step| step.slug()).collect();
    assert_eq!(steps, ["walls", "paint", "thatch"]);
    let begun = |task: &str| sim.asks.iter().filter(|ask| task_named(ask) == task).count();
    assert_eq!((begun("raise walls"), begun("mix paint")), (1, 1));
    // Whoever goes on is told of it, and so is whoever puts all of it together.
    let thatch = sim.asks.iter().position(|ask| task_named(ask) == "lay thatch").unwrap();
    assert!(
        read_by(&sim, thatch).contains("walls (ok)"),
        "{}",
        read_by(&sim, thatch)
    );
    let last = read_by(&sim, sim.asks.len() - 1);
    assert!(last.contains("walls (ok)") && !last.contains("no tiles"), "{last}");
}

#[test]
fn an_iteration_that_was_replaced_is_told_by_the_steps_that_it_had_seed_000() {
    let sim = house();
    let mut run = Run::new(sim.run.id(), Arc::new(Templates::new()));
    let (mut written, mut gone) = (Vec::new(), Vec::new());
    for (at, event) in &sim.journal {
        run.apply(*at, event).unwrap();
        let changes = projection::changes(&run, event);
        let Event::Planned { version: 2, .. } = event else {
            continue;
        };
        for change in changes {
            match change {
                Change::AddEntry(new) => written.push((new.fields.title, new.fields.body, new.fields.parts)),
                Change::PatchEntry { entry, .. } => gone.push(entry),
                _ => {}
            }
        }
    }
    let parts_of = |title: &str| {
        let found = written.iter().find(|(known, ..)| known == title);
        found.unwrap_or_else(|| panic!("{title}: {written:?}")).clone()
    };
    let (_, _, rolled) = parts_of("Branch roll-up");
    let lines = json!({"results": ["walls ok: raise walls: done", "roof failed: no tiles; c1 (it holds) could not be checked: whoever did it says nothing of it", "paint ok: mix paint: done"]});
    assert_eq!(rolled, Some(lines));
    let (_, body, remaining) = parts_of("Iteration 1: partial");
    assert_eq!(body, "3 steps: 1 failed, 2 ok.\n\nThe plan was changed.");
    assert_eq!(remaining, Some(json!({"remaining": ["lay tiles"]})));
    // The group and what failed in it are no steps of the plan any more.
    assert_eq!(gone.len(), 2);
}

#[test]
fn whoever_plans_anew_or_puts_together_is_told_what_memory_holds_by_then_e9_16() {
    let sim = house();
    let root = NodeId::root(sim.run.id());
    let told = |event: &Event| matches!(event, Event::Briefed { node, .. } if *node == root);
    assert_eq!(
        sim.journal.iter().filter(|(_, event)| told(event)).count(),
        3,
        "before its first call, before it is planned anew, and before it is put together"
    );
    let asked = sim.asks.iter().position(|ask| ask.purpose == Purpose::Replan).unwrap();
    let read = read_by(&sim, asked);
    let (before_tools, _) = read.split_once("# Tools\n").unwrap();
    assert_snapshot!(before_tools, @r"
    # The task
    build a house
    # Results of the steps
    <data-029d4705>
    - group-1/walls (ok) raise walls: raise walls: done
      id: 44f2b6f8783ee887
    - group-1/roof (failed, criteria_unmet) lay tiles: no tiles; c1 (it holds) could not be checked: whoever did it says nothing of it
      id: f2e6b8c74d25ff06
    - paint (ok) mix paint: mix paint: done
      id: 1deca493fe554534
    </data-029d4705>
    # What memory holds
    <data-029d4705>
    nothing yet
    </data-029d4705>
    ");
    let last = read_by(&sim, sim.asks.len() - 1);
    assert!(last.contains("# What memory holds\n"), "{last}");
    // It is told once each time, and to what is asked for again, too.
    let (mut run, mut refused) = (Run::new(sim.run.id(), Arc::new(Templates::new())), 0);
    for (at, event) in &sim.journal {
        run.apply(*at, event).unwrap();
        if told(event) {
            refused += u32::from(run.apply(*at, event).is_err());
        }
    }
    assert_eq!((refused, run.result()), (3, sim.run.result()));
    // Runs in which nobody was told again go on as they are.
    let mut run = Run::new(sim.run.id(), Arc::new(Templates::new()));
    let mut seen = 0;
    for (at, event) in &sim.journal {
        seen += u32::from(told(event));
        if !told(event) || seen == 1 {
            run.apply(*at, event).unwrap();
        }
    }
    assert_eq!(run.result(), sim.run.result());
}

/// A task whose first step keeps well and whose others never do, planned anew with what `steps` says for the version.
fn mended(criteria: &Value, steps: fn(u32) -> Value) -> Sim {
    let versions = std::sync::atomic::AtomicU32::new(1);
    let next = move || versions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    goal("mend it", &json!({"criteria": criteria}), move |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "mend it") => plan_of(steps(next())),
            (Purpose::Replan, _) => {
                said(&json!({"root_cause": "so", "changes": "this", "steps": steps(next())}).to_string())
            }
            (Purpose::Decide, task) if task.starts_with("well") => execute(
                "finish",
                json!({"notes": task, "criteria": [{"id": "c1", "met": true}]}),
            ),
            (Purpose::Decide, _) => execute("finish", json!({"status": "failed", "notes": "no"})),
            (Purpose::Judge, _) => {
                let verdicts = [
                    json!({"id": "c1", "finding": "met", "gap": ""}),
                    json!({"id": "c2", "finding": "unmet", "gap": "not yet"}),
                ];
                said(&json!({"verdicts": verdicts}).to_string())
            }
            _ => said("{\"notes\": \"all of it\"}"),
        }
    })
}

#[test]
fn two_versions_without_a_newly_met_criterion_are_enough_whatever_was_met_before_e9_8() {
    let sim = mended(&json!(["half of it", "all of it"]), |n| {
        json!([
            {"id": format!("a{n}"), "title": format!("well, the {n}th half"), "satisfies": ["c1"]},
            {"id": format!("b{n}"), "title": format!("the rest in way {n}"), "satisfies": ["c2"]},
        ])
    })
    .driven_on();
    let plans = sim.journal.iter().filter(|(_, event)| event.name() == "planned");
    assert_eq!((plans.count(), root(&sim).stop_reason), (2, Some(StopReason::Stalled)));
}

#[test]
fn a_new_step_has_no_name_of_one_that_is_kept_e9_1() {
    let group = |n: u32| {
        let kind = if n == 1 { "well" } else { "badly" };
        json!([
            [
                {"id": format!("a{n}"), "title": format!("{kind} with a{n}"), "criteria": ["it is there"]},
                {"id": format!("b{n}"), "title": format!("{kind} with b{n}"), "criteria": ["it is there"]},
            ],
            {"id": format!("c{n}"), "title": format!("finish it, {n}"), "satisfies": ["c1"]},
        ])
    };
    let sim = mended(&json!(["it holds"]), group).driven_on();
    let root_id = NodeId::root(sim.run.id());
    let steps = sim.run.steps(root_id);
    let slugs: Vec<&str> = steps.iter().map(|step| step.slug()).collect();
    let mut names = slugs.clone();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), slugs.len(), "{slugs:?}");
    assert!(slugs.contains(&"group-1") && slugs.contains(&"group-1v2"), "{slugs:?}");

    // Whoever names one like it is told.
    let same = |n: u32| {
        json!([
            {"id": "a", "title": format!("well, {n}"), "criteria": ["it is there"]},
            {"id": format!("c{n}"), "title": format!("finish it, {n}"), "satisfies": ["c1"]},
        ])
    };
    let sim = mended(&json!(["it holds"]), same).driven_on();
    let told = sim.asks.iter().flat_map(|ask| &ask.messages);
    let said_so = told.filter(|message| message.text.contains("the id `a` is that of a step that is kept"));
    assert!(said_so.count() > 0);
}

#[test]
fn whoever_plans_anew_after_a_crash_is_asked_the_same_e9_9() {
    let steps = |n: u32| {
        json!([
            {"id": format!("a{n}"), "title": format!("well, {n}"), "criteria": ["it is there"]},
            {"id": format!("c{n}"), "title": format!("finish it, {n}"), "satisfies": ["c1"]},
        ])
    };
    let sim = mended(&json!(["it holds"]), steps).driven_on();
    let is_replan = |(_, event): &(Timestamp, Event)| {
        matches!(
            event,
            Event::Asked {
                purpose: Purpose::Replan,
                ..
            }
        )
    };
    let asked = sim.journal.iter().position(is_replan).unwrap();
    let before = sim.asks.iter().find(|ask| ask.purpose == Purpose::Replan).unwrap();
    let model = Arc::clone(&sim.model);
    let mut resumed = Sim::resumed_with(&sim.journal[..=asked], equipment(), model);
    resumed.derive();
    let again = resumed.asks.first().unwrap();
    assert_eq!((again.call, &again.messages), (before.call, &before.messages));
    let events = resumed.journal[asked + 1..].iter().map(|(_, event)| event.name());
    assert_eq!(events.collect::<Vec<_>>(), ["resumed", "asked"], "nobody is told anew");
}

#[test]
fn a_model_takes_a_task_apart_into_no_more_steps_than_its_plan_may_have_e9_10() {
    let many = |n: u32| {
        let steps = (0..14)
            .map(|at| json!({"id": format!("s{n}-{at}"), "title": format!("well, {n} {at}"), "satisfies": ["c1"]}));
        Value::Array(steps.collect())
    };
    let sim = mended(&json!(["it holds"]), many).driven_on();
    let told = sim.asks[1].messages.last().unwrap();
    assert!(told.text.contains("steps has 14, more than the 12"), "{}", told.text);
}
