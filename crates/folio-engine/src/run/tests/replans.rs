//! What stays when a plan is changed, and what is recorded of the previous one (E9.8, seed 000).

use folio_memory::{FieldChange, Status};
use insta::assert_snapshot;

use super::models::{
    calls_answer, equipment, execute, goal, mending, plan_answer, prompt_text, purposes, root, task_named, text_answer,
    verdict_answer,
};
use super::*;
use crate::projection;
use crate::spend::Allowance;
use crate::talk::Purpose;

/// A house whose roof fails until the plan is changed; the walls beside it hold.
pub(super) fn house() -> Sim {
    goal("build a house", &json!({}), |ask| {
        let task = task_named(ask);
        match (ask.purpose, task.as_str()) {
            (Purpose::Decide, "build a house") => plan_answer(json!([
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
            (Purpose::Replan, _) => text_answer(
                &json!({"root_cause": "no tiles", "changes": "thatch", "steps": [
                    {"id": "thatch", "title": "lay thatch", "needs": ["walls"], "criteria": ["it holds"]}
                ]})
                .to_string(),
            ),
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    })
    .driven_on()
}

#[test]
fn replan_keeps_the_successful_steps_of_a_failed_group_e9_8() {
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
        prompt_text(&sim, thatch).contains("walls (ok)"),
        "{}",
        prompt_text(&sim, thatch)
    );
    let last = prompt_text(&sim, sim.asks.len() - 1);
    assert!(last.contains("walls (ok)") && !last.contains("no tiles"), "{last}");
}

#[test]
fn replaced_iteration_is_summarized_by_its_own_steps_seed_000() {
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
                Change::PatchEntry { entry, fields, .. } if fields.contains(&FieldChange::Status(Status::Archived)) => {
                    gone.push(entry);
                }
                _ => {}
            }
        }
    }
    let parts_of = |title: &str| {
        let found = written.iter().find(|(known, ..)| known == title);
        found.unwrap_or_else(|| panic!("{title}: {written:?}")).clone()
    };
    let (_, _, rolled) = parts_of("Branch roll-up");
    let page = |path: &str| projection::branch_page(&sim.run, sim.run.node_at(path).unwrap().id);
    let lines = json!({"results": [
        format!("walls ok: raise walls: done [{}]", page("group-1/walls")),
        format!("roof failed: no tiles; c1 (it holds) could not be checked: the executor reported no finding [{}]", page("group-1/roof")),
        format!("paint ok: mix paint: done [{}]", page("paint")),
    ]});
    assert_eq!(rolled, Some(lines));
    let (_, body, remaining) = parts_of("Iteration 1: partial");
    assert_eq!(
        body,
        "3 steps: 2 ok, 1 failed.\n\nall of it (not all of its steps are ok: 1 ok, 1 failed; group-1/roof: no tiles; c1 (it holds) could not be checked: the executor reported no finding)\n\nThe plan was changed."
    );
    assert_eq!(remaining, Some(json!({"remaining": ["lay tiles"]})));
    // The group and what failed in it are no steps of the plan any more.
    assert_eq!(gone.len(), 2);
}

#[test]
fn memory_is_briefed_anew_before_a_replan_and_an_aggregation_e9_16() {
    let sim = house();
    let root = NodeId::root(sim.run.id());
    let told = |event: &Event| matches!(event, Event::Briefed { node, .. } if *node == root);
    assert_eq!(
        sim.journal.iter().filter(|(_, event)| told(event)).count(),
        3,
        "before its first call, before it is planned anew, and before it is put together"
    );
    let asked = sim.asks.iter().position(|ask| ask.purpose == Purpose::Replan).unwrap();
    let read = prompt_text(&sim, asked);
    let (tools, from_task) = read.split_at(read.find("# Task\n").unwrap());
    assert!(tools.starts_with("# Tools\n"), "{tools}");
    assert_snapshot!(from_task, @r"
    # Task
    build a house
    # Step results
    <data-89b559a265a56022>
    - group-1/walls (ok) raise walls: raise walls: done
      id: 44f2b6f8783ee887
    - group-1/roof (failed, criteria_unmet) lay tiles: no tiles; c1 (it holds) could not be checked: the executor reported no finding
      id: f2e6b8c74d25ff06
    - paint (ok) mix paint: mix paint: done
      id: 1deca493fe554534
    </data-89b559a265a56022>
    # Combined result
    <data-253c3d89bb4f6b3b>
    - partial: all of it (not all of its steps are ok: 1 ok, 1 failed; group-1/roof: no tiles; c1 (it holds) could not be checked: the executor reported no finding)
    </data-253c3d89bb4f6b3b>
    # Memory
    <data-2277d28bb5faee55>
    nothing yet
    </data-2277d28bb5faee55>
    A plan has at most 12 steps in one list, and 48 in all; its steps may be split again, 2 levels deep.
    ");
    let last = prompt_text(&sim, sim.asks.len() - 1);
    assert!(last.contains("# Memory\n"), "{last}");
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

/// A task whose first step succeeds and whose others never do, replanned with what `steps` returns for the version.
pub(super) fn mended(criteria: &Value, steps: fn(u32) -> Value) -> Sim {
    let versions = std::sync::atomic::AtomicU32::new(1);
    let next = move || versions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    goal("mend it", &json!({"criteria": criteria}), move |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "mend it") => plan_answer(steps(next())),
            (Purpose::Replan, _) => {
                text_answer(&json!({"root_cause": "so", "changes": "this", "steps": steps(next())}).to_string())
            }
            (Purpose::Decide, task) if task.starts_with("well") => execute(
                "finish",
                json!({"notes": task, "criteria": [{"id": "c1", "met": true}]}),
            ),
            (Purpose::Decide, _) => execute("finish", json!({"status": "failed", "notes": "no"})),
            (Purpose::Judge, _) => {
                let verdicts = [
                    json!({"criterion": "c1", "finding": "met", "gap": ""}),
                    json!({"criterion": "c2", "finding": "unmet", "gap": "not yet"}),
                ];
                text_answer(&json!({"verdicts": verdicts}).to_string())
            }
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    })
}

#[test]
fn replans_stall_after_two_versions_without_a_newly_met_criterion_e9_8() {
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
fn replanned_step_cannot_reuse_the_id_of_a_kept_step_e9_1() {
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
    let said_so = told.filter(|message| message.text.contains("the id `a` belongs to a step that is kept"));
    assert!(said_so.count() > 0);
}

#[test]
fn replan_request_is_unchanged_after_a_resume_e9_9() {
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
fn planner_is_told_when_its_plan_exceeds_the_step_limit_e9_10() {
    let many = |n: u32| {
        let steps = (0..14)
            .map(|at| json!({"id": format!("s{n}-{at}"), "title": format!("well, {n} {at}"), "satisfies": ["c1"]}));
        Value::Array(steps.collect())
    };
    let sim = mended(&json!(["it holds"]), many).driven_on();
    let told = sim.asks[1].messages.last().unwrap();
    assert!(
        told.text.contains("steps has 14, more than the limit of 12"),
        "{}",
        told.text
    );
}

/// A goal with a list of three, of which `b` fails the first time; `again` are the steps of the plan that replaces the
/// first.
pub(super) fn listed(step: &Value, again: Value) -> Sim {
    let first = json!([
        {"id": "list", "do": {"tool": "echo", "args": {"all": ["a", "b", "b", "c"]}}},
        {"id": "unit", "optional": true, "do": {"tool": "fail", "args": {}}},
        {"id": "each", "for_each": "results.list.output.all", "as": "it", "step": step},
        {"id": "sum", "do": {"tool": "echo", "args": {"all": "{{ results.each.output }}"}}},
    ]);
    let seen = std::sync::Mutex::new(BTreeMap::<String, u32>::new());
    let answer = move |ask: &AskAction| {
        let task = task_named(ask);
        match (ask.purpose, task.as_str()) {
            (Purpose::Decide, "count them") => plan_answer(first.clone()),
            (Purpose::Replan, _) => {
                text_answer(&json!({"root_cause": "b", "changes": "once more", "steps": again}).to_string())
            }
            (Purpose::Decide, task) => {
                let mut seen = seen.lock().unwrap();
                let times = seen.entry(task.to_owned()).and_modify(|times| *times += 1).or_insert(1);
                // One of the two `b` fails, once.
                if task == "count b" && *times == 2 {
                    return execute("finish", json!({"status": "failed", "notes": "no b"}));
                }
                let output = format!("{task}, {times}");
                execute(
                    "finish",
                    json!({"notes": task, "output": output, "criteria": [{"id": "c1", "met": true}]}),
                )
            }
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    };
    let mut sim = goal("count them", &json!({}), answer);
    sim.concurrency = 1;
    sim
}

pub(super) fn count_one() -> Value {
    json!({"id": "one", "title": "count {{ it }}", "criteria": ["counted"]})
}

pub(super) fn list_again(step: &Value) -> Value {
    json!([
        {"id": "each", "for_each": "results.list.output.all", "as": "it", "step": step},
        {"id": "sum", "do": {"tool": "echo", "args": {"all": "{{ results.each.output }}"}}},
    ])
}

/// How often each item was begun.
fn begun(sim: &Sim) -> [usize; 3] {
    ["count a", "count b", "count c"].map(|task| {
        let of_it = |ask: &&AskAction| ask.purpose == Purpose::Decide && task_named(ask) == task;
        sim.asks.iter().filter(of_it).count()
    })
}

#[test]
fn replanned_list_repeats_only_the_items_that_failed_e9_8() {
    let sim = listed(&count_one(), list_again(&count_one())).driven_on();
    assert_eq!(sim.status(""), Outcome::Ok);
    assert_eq!(begun(&sim), [1, 3, 1], "the second `b` is done again");
    let counted = json!(["count a, 1", "count b, 1", "count b, 3", "count c, 1"]);
    assert_eq!(sim.calls.last().unwrap(), &("sum".to_owned(), json!({"all": counted})));
    // What counts says which node it came from, and cost nothing more.
    let items: Vec<_> = sim
        .run
        .tree()
        .into_iter()
        .filter(|node| node.path == "each/one[0]")
        .collect();
    let [old, new] = items.as_slice() else {
        panic!("{items:?}")
    };
    assert_eq!(new.result.unwrap().evidence[0].id, old.id.to_string());
    assert_eq!((*new.spent, new.model_calls), (Spend::default(), 0));
}

#[test]
fn replanned_list_survives_a_crash_at_any_event_e9_9() {
    let whole = listed(&count_one(), list_again(&count_one())).driven_on();
    let is_second = |(_, event): &(Timestamp, Event)| matches!(event, Event::Planned { version: 2, .. });
    let from = whole.journal.iter().position(is_second).unwrap();
    for cut in from..whole.journal.len() {
        let model = Arc::clone(&whole.model);
        let mut sim = Sim::resumed_with(&whole.journal[..=cut], equipment(), model);
        sim.concurrency = 1;
        let sim = sim.driven_on();
        assert_eq!(sim.status(""), Outcome::Ok, "after event {cut}");
        assert!(
            begun(&sim)[0] == 0 && begun(&sim)[2] == 0,
            "after event {cut}: {:?}",
            begun(&sim)
        );
    }
}

#[test]
fn replanned_list_with_another_step_or_id_repeats_every_item_e9_8() {
    let other = json!({"id": "one", "title": "count {{ it }}", "criteria": ["counted twice"]});
    let sim = listed(&count_one(), list_again(&other)).driven_on();
    assert_eq!(begun(&sim), [2, 4, 2]);
    let mut renamed = list_again(&count_one());
    renamed[0]["id"] = json!("all");
    renamed[1]["do"]["args"]["all"] = json!("{{ results.all.output }}");
    assert_eq!(begun(&listed(&count_one(), renamed).driven_on()), [2, 4, 2]);
    // So is one whose step reads what another step gives now.
    let reading = json!({"id": "one", "title": "count {{ it }}", "description": "{{ results.unit.output or 'none' }}", "criteria": ["counted"]});
    let mut measured = list_again(&reading);
    let unit = json!({"id": "unit", "do": {"tool": "echo", "args": {"in": "feet"}}});
    measured.as_array_mut().unwrap().insert(0, unit);
    let sim = listed(&reading, measured).driven_on();
    assert_eq!((sim.status(""), begun(&sim)), (Outcome::Ok, [2, 4, 2]));
    let same = json!({"id": "one", "title": "count {{ it }}", "description": "of {{ results.list.output.all | length }}", "criteria": ["counted"]});
    assert_eq!(begun(&listed(&same, list_again(&same)).driven_on()), [1, 3, 1]);
}

#[test]
fn replanned_list_repeats_only_the_failed_steps_inside_its_groups_e9_8() {
    let group = json!({"sequence": [
        {"id": "look", "do": {"tool": "echo", "args": {"at": "{{ it }}"}}},
        {"id": "inner", "for_each": ["{{ it }}"], "as": "it", "step": count_one()},
    ]});
    let sim = listed(&group, list_again(&group)).driven_on();
    assert_eq!(sim.status(""), Outcome::Ok);
    assert_eq!(begun(&sim), [1, 3, 1]);
    let looks = sim.calls.iter().filter(|(path, _)| path.ends_with("/look"));
    assert_eq!(looks.count(), 4);
}

#[test]
fn replanned_list_sets_nothing_aside_for_finished_items_e9_10() {
    // One decision and its plan, four items, what they come to, another plan, one item, the end: no more than that.
    let mut sim = listed(&count_one(), list_again(&count_one()));
    let needed = listed(&count_one(), list_again(&count_one()))
        .driven_on()
        .run
        .purse()
        .unwrap()
        .spent
        .model_calls;
    let limits = crate::event::NewLimits::from(Allowance {
        model_calls: Some(needed + 2),
        ..Allowance::default()
    });
    let event = sim.run.change_limits(None, limits, "ada", sim.now).unwrap();
    sim.record(event);
    let sim = sim.driven_on();
    assert_eq!((sim.status(""), begun(&sim)), (Outcome::Ok, [1, 3, 1]));
}

#[test]
fn replaced_steps_are_marked_superseded_and_kept_ones_are_not_e9_8() {
    let sim = house();
    let superseded: Vec<(&str, Outcome)> = sim
        .run
        .tree()
        .into_iter()
        .filter(|view| view.superseded)
        .map(|view| (view.path, view.result.unwrap().status))
        .collect();
    // The walls went well and count on, the group that they stood in does not.
    assert_eq!(
        superseded,
        [("group-1", Outcome::Failed), ("group-1/roof", Outcome::Failed)]
    );
    assert!(!sim.run.node_at("group-1/walls").unwrap().superseded);
    // The branch that one of them has says so, too.
    let mut run = Run::new(sim.run.id(), Arc::new(Templates::new()));
    let mut statuses = BTreeMap::new();
    for (at, event) in &sim.journal {
        run.apply(*at, event).unwrap();
        for change in projection::changes(&run, event) {
            if let Change::SetPageStatus { page, status } = change {
                statuses.insert(page, status);
            }
        }
    }
    let status = |path: &str| statuses[&projection::branch_page(&sim.run, sim.run.node_at(path).unwrap().id)].as_str();
    assert_eq!(
        (status("group-1/roof"), status("group-1/walls"), status("thatch")),
        ("superseded", "ok", "ok")
    );
    // Before the plan was changed, none was.
    let planned = |(_, event): &(Timestamp, Event)| matches!(event, Event::Planned { version: 2, .. });
    let cut = sim.journal.iter().position(planned).unwrap();
    let before = Sim::resumed(&sim.journal[..cut]);
    assert!(before.run.tree().iter().all(|view| !view.superseded));
}

#[test]
fn replan_request_lists_steps_that_failed_three_times_e9_8() {
    // Each plan tries it so often; the second meets one criterion more, so that there is a third.
    let told = |attempts: u32| {
        let versions = std::sync::atomic::AtomicU32::new(1);
        let judged = std::sync::atomic::AtomicU32::new(0);
        let steps = move || {
            let n = versions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            json!([
                {"id": "try", "do": {"tool": "fail", "args": {}}, "retry": attempts, "satisfies": ["c1", "c2"]},
                {"id": format!("look{n}"), "title": format!("look at it from side {n}"), "criteria": ["seen"]},
            ])
        };
        let sim = goal("open it", &json!({"criteria": ["half", "whole"]}), move |ask| {
            match (ask.purpose, task_named(ask).as_str()) {
                (Purpose::Decide, "open it") => plan_answer(steps()),
                (Purpose::Decide, _) => execute("finish", json!({"status": "failed", "notes": "dark"})),
                (Purpose::Replan, _) => {
                    text_answer(&json!({"root_cause": "so", "changes": "this", "steps": steps()}).to_string())
                }
                (Purpose::Judge, _) => {
                    let n = judged.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let half = if n == 0 { "unmet" } else { "met" };
                    let verdicts =
                        json!([{"criterion": "c1", "finding": half}, {"criterion": "c2", "finding": "unmet"}]);
                    text_answer(&json!({ "verdicts": verdicts }).to_string())
                }
                _ => text_answer("{\"status\": \"partial\", \"notes\": \"some of it\"}"),
            }
        })
        .driven_on();
        let anew = (0..sim.asks.len()).filter(|nth| sim.asks[*nth].purpose == Purpose::Replan);
        let read: Vec<String> = anew.map(|nth| prompt_text(&sim, nth)).collect();
        read.iter()
            .map(|read| {
                let (_, list) = read.split_once("# Failed repeatedly: split or give up\n")?;
                Some(list.lines().next()?.to_owned())
            })
            .collect::<Vec<_>>()
    };
    let failed = |times: u32| Some(format!("- try failed {times} times"));
    assert_eq!(told(1), [None, None]);
    assert_eq!(told(2), [None, failed(4)]);
    assert_eq!(told(3), [failed(3), failed(6)]);
}

#[test]
fn sent_back_model_work_counts_as_a_repeated_failure_e9_8() {
    let judged = std::sync::atomic::AtomicU32::new(0);
    let steps = |n: u32| {
        json!([
            {"id": "try", "title": "push the door", "satisfies": ["c1", "c2"], "criteria": ["it moves"]},
            {"id": format!("look{n}"), "title": format!("look at it from side {n}"), "criteria": ["seen"]},
        ])
    };
    let versions = std::sync::atomic::AtomicU32::new(1);
    let next = move || steps(versions.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    let met = |met: bool| json!({"status": "ok", "notes": "pushed", "criteria": [{"id": "c1", "met": met}]});
    let sim = goal("open it", &json!({"criteria": ["half", "whole"]}), move |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "open it") => plan_answer(next()),
            (Purpose::Replan, _) => {
                text_answer(&json!({"root_cause": "so", "changes": "this", "steps": next()}).to_string())
            }
            (Purpose::Decide, "push the door") => execute("echo", json!({})),
            (Purpose::Work, "push the door") => calls_answer(&[("finish", met(false))]),
            (Purpose::Decide, _) => execute("finish", met(true)),
            (Purpose::Judge, _) => {
                let half = ["unmet", "met"][judged.fetch_add(1, std::sync::atomic::Ordering::Relaxed).min(1) as usize];
                let verdicts = json!([{"criterion": "c1", "finding": half}, {"criterion": "c2", "finding": "unmet"}]);
                text_answer(&json!({ "verdicts": verdicts }).to_string())
            }
            _ => text_answer("{\"status\": \"partial\", \"notes\": \"some of it\"}"),
        }
    })
    .driven_on();
    let done = |ask: &&AskAction| ask.purpose == Purpose::Work && task_named(ask) == "push the door";
    assert_eq!(sim.asks.iter().filter(done).count(), 6, "twice in each of three plans");
    let anew = (0..sim.asks.len()).filter(|nth| sim.asks[*nth].purpose == Purpose::Replan);
    let told: Vec<bool> = anew
        .map(|nth| prompt_text(&sim, nth).contains("give up\n- try failed 4 times\n"))
        .collect();
    assert_eq!(told, [false, true]);
}

#[test]
fn replan_without_root_cause_or_changes_is_asked_for_again_e9_8() {
    let asked_again = |first: Value| {
        let asked = std::sync::atomic::AtomicU32::new(0);
        let sim = goal("mend it", &json!({"criteria": ["it holds"]}), move |ask| {
            match (ask.purpose, task_named(ask).as_str()) {
                (Purpose::Decide, "mend it") => plan_answer(json!([
                    {"id": "glue", "title": "glue its parts", "criteria": ["x"], "satisfies": ["c1"]},
                    {"id": "wait", "title": "wait a day", "criteria": ["x"]},
                ])),
                (Purpose::Decide, _) => execute("finish", json!({"status": "failed", "notes": "no"})),
                (Purpose::Replan, _) => match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                    0 => text_answer(&first.to_string()),
                    _ => text_answer("{\"root_cause\": \"dust\", \"changes\": \"none\", \"give_up\": true}"),
                },
                _ => text_answer("{\"status\": \"failed\", \"notes\": \"it is in parts\"}"),
            }
        })
        .driven_on();
        let again = sim.asks.iter().rfind(|ask| ask.purpose == Purpose::Replan).unwrap();
        let told = &again.messages.last().unwrap().text;
        told.starts_with("This answer cannot be used").then(|| told.clone())
    };
    let steps = json!([{"id": "nail", "title": "nail it", "criteria": ["x"], "satisfies": ["c1"]}]);
    let told = asked_again(json!({"root_cause": "dust", "changes": " ", "steps": steps})).unwrap();
    assert!(
        told.contains("`changes` is empty") && !told.contains("root_cause"),
        "{told}"
    );
    let told = asked_again(json!({"root_cause": "", "steps": steps})).unwrap();
    assert!(
        told.contains("`root_cause` is empty") && told.contains("`changes` is empty"),
        "{told}"
    );
    assert_eq!(asked_again(json!({"root_cause": "dust", "give_up": true})), None);
}

#[test]
fn replan_request_names_at_most_20_repeated_failures_e9_8() {
    let items: Vec<u32> = (0..30).collect();
    let sim = goal("open all", &json!({"criteria": ["open"]}), move |ask| match (ask.purpose, task_named(ask).as_str()) {
        (Purpose::Decide, "open all") => plan_answer(json!([
            {"id": "all", "for_each": items, "do": {"tool": "fail", "args": {"n": "{{ item }}"}}, "retry": 3, "on_item": "continue", "satisfies": ["c1"]},
            {"id": "look", "title": "look at it", "criteria": ["seen"]},
        ])),
        (Purpose::Decide, _) => execute("finish", json!({"status": "failed", "notes": "dark"})),
        (Purpose::Replan, _) => text_answer("{\"root_cause\": \"rust\", \"give_up\": true}"),
        _ => text_answer("{\"notes\": \"none\"}"),
    })
    .driven_on();
    let anew = sim.asks.iter().position(|ask| ask.purpose == Purpose::Replan).unwrap();
    let read = prompt_text(&sim, anew);
    let named = read.lines().filter(|line| line.ends_with("failed 3 times")).count();
    assert_eq!((named, read.contains("- and 10 more\n")), (20, true), "{read}");
}

/// A goal whose steps all succeed; the aggregation of the first plan says `first`, that of the next one that the goal
/// is met.
fn put_together(first: &'static str) -> Sim {
    let plan = json!([
        {"id": "paint", "title": "paint it", "satisfies": ["c1"]},
        {"id": "dry", "title": "let it dry", "criteria": ["dry"]},
    ]);
    let again = json!({"root_cause": "paint is blue", "changes": "ivy", "steps": [{"id": "ivy", "title": "plant ivy", "satisfies": ["c1"]}]});
    goal("make it green", &json!({"criteria": ["it is green"]}), move |ask| {
        let is_again = ask.messages.iter().any(|message| message.text.contains("plant ivy"));
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "make it green") => plan_answer(plan.clone()),
            (Purpose::Decide, task) => execute(
                "finish",
                json!({"notes": task, "criteria": [{"id": "c1", "met": true}]}),
            ),
            (Purpose::Replan, _) => text_answer(&again.to_string()),
            (Purpose::Judge, _) => verdict_answer(if is_again { "met" } else { "unmet" }),
            (Purpose::Aggregate, _) if is_again => text_answer("{\"status\": \"ok\", \"notes\": \"green\"}"),
            (purpose, _) => {
                assert_eq!(purpose, Purpose::Aggregate);
                text_answer(first)
            }
        }
    })
    .driven_on()
}

#[test]
fn aggregation_stating_a_failure_is_judged_and_replanned_e9_8() {
    let sim = put_together("{\"status\": \"failed\", \"notes\": \"it is blue\"}");
    assert_eq!(
        (sim.status("paint"), sim.status("dry"), sim.status("")),
        (Outcome::Ok, Outcome::Ok, Outcome::Ok)
    );
    let asked: Vec<Purpose> = purposes(&sim)
        .into_iter()
        .filter(|purpose| *purpose != Purpose::Decide)
        .collect();
    assert_eq!(
        asked,
        [
            Purpose::Aggregate,
            Purpose::Judge,
            Purpose::Replan,
            Purpose::Aggregate,
            Purpose::Judge
        ]
    );
    let replan = sim.asks.iter().position(|ask| ask.purpose == Purpose::Replan).unwrap();
    let read = prompt_text(&sim, replan);
    assert!(
        read.contains("# Gaps\n- c1 (it is green) is not met: the proof\n"),
        "{read}"
    );
}

#[test]
fn aggregation_stating_a_hard_failure_is_not_replanned_e9_8() {
    let sim = put_together("{\"status\": \"failed\", \"severity\": \"hard\", \"notes\": \"there is no green\"}");
    assert_eq!(
        (root(&sim).status, root(&sim).severity),
        (Outcome::Failed, Some(Severity::Hard))
    );
    let asked = purposes(&sim);
    assert!(
        !asked.contains(&Purpose::Judge) && !asked.contains(&Purpose::Replan),
        "{asked:?}"
    );
}

#[test]
fn repeated_plan_is_a_loop_despite_a_successful_step_e9_8() {
    let sim = goal("mend the clock", &json!({"criteria": ["it ticks"]}), |ask| {
        match ask.purpose {
            Purpose::Replan => text_answer(
                &json!({"root_cause": "x", "changes": "y", "steps": [
                    {"id": "open", "title": "open the case", "criteria": ["it is open"]},
                    {"id": "oil", "title": "oil its wheels", "criteria": ["it ticks"], "satisfies": ["c1"]}
                ]})
                .to_string(),
            ),
            _ => mending(ask),
        }
    })
    .driven_on();
    assert_eq!(root(&sim).stop_reason, Some(StopReason::Loop), "{}", root(&sim).notes);
    let asked = purposes(&sim).into_iter().filter(|purpose| *purpose == Purpose::Replan);
    assert_eq!(asked.count(), 1);
}

#[test]
fn replan_with_only_the_unchanged_failed_step_is_a_loop_e9_8() {
    let tiles = |title: &str| json!({"id": "roof", "title": title, "criteria": ["it holds"]});
    let sim = |again: Value, grouped: bool| {
        goal("build a house", &json!({}), move |ask| {
            match (ask.purpose, task_named(ask).as_str()) {
                (Purpose::Decide, "build a house") => {
                    let walls = json!({"id": "walls", "title": "raise walls", "criteria": ["they stand"]});
                    plan_answer(match grouped {
                        true => json!([[walls, tiles("lay tiles")]]),
                        false => json!([walls, tiles("lay tiles")]),
                    })
                }
                (Purpose::Decide, "lay tiles") => execute("finish", json!({"status": "failed", "notes": "no tiles"})),
                (Purpose::Decide, _) => execute(
                    "finish",
                    json!({"notes": "done", "criteria": [{"id": "c1", "met": true}]}),
                ),
                (Purpose::Replan, _) => {
                    text_answer(&json!({"root_cause": "no tiles", "changes": "none", "steps": [again]}).to_string())
                }
                _ => text_answer("{\"notes\": \"all of it\"}"),
            }
        })
        .driven_on()
    };
    for grouped in [false, true] {
        let same = sim(tiles("lay tiles"), grouped);
        assert_eq!(root(&same).stop_reason, Some(StopReason::Loop), "{}", root(&same).notes);
        let why = "no new plan was made: it was the same as one that was carried out; ";
        assert!(root(&same).notes.starts_with(why), "{}", root(&same).notes);
        let planned = same.journal.iter().filter(|(_, event)| event.name() == "planned");
        assert_eq!(planned.count(), 1, "nothing of it is done again");
        assert_eq!(sim(tiles("lay thatch"), grouped).status(""), Outcome::Ok);
    }
}

#[test]
fn hard_failure_of_a_replanned_step_skips_its_reader_e9_4() {
    let failing = |n: u32| {
        let reads = format!("{{{{ results.a{n}.output }}}}");
        json!([
            {"id": format!("a{n}"), "do": {"tool": "fail", "args": {"n": n}}},
            {"id": format!("b{n}"), "satisfies": ["c1"], "do": {"tool": "echo", "args": {"of": reads}}},
        ])
    };
    let sim = goal(
        "mend the clock",
        &json!({"criteria": ["it ticks"]}),
        move |ask| match ask.purpose {
            Purpose::Decide => plan_answer(failing(1)),
            Purpose::Replan => {
                text_answer(&json!({"root_cause": "x", "changes": "y", "steps": failing(ask.call)}).to_string())
            }
            _ => text_answer("{\"status\": \"failed\", \"notes\": \"nothing\"}"),
        },
    )
    .driven_on();
    let called: Vec<&str> = sim.calls.iter().map(|(path, _)| &path[..1]).collect();
    assert!(called.len() > 1 && called.iter().all(|step| *step == "a"), "{called:?}");
}
