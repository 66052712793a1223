//! Plans that replace one that was carried out, and that are rejected, or that nobody decides on (E9.8, E9.14).

use folio_memory::entry::Status;

use super::models::*;
use super::replans::mended;
use super::*;
use crate::projection;
use crate::run::{PendingApproval, PlanGate};
use crate::talk::Purpose;

/// A goal whose first plan is carried out except for its second step, which fails; the next plan waits for approval.
fn waiting_again(has_person: bool) -> Sim {
    let equipment = Equipment {
        has_person,
        ..equipment()
    };
    let extra = json!({"run": {"plan_gate": PlanGate::Always.to_json()}});
    let mut sim = goal_with("survey the house", &extra, equipment, |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "survey the house") => plan_answer(json!([
                {"id": "walls", "title": "look at walls", "criteria": ["seen"]},
                {"id": "cellar", "title": "go down", "criteria": ["seen"]},
            ])),
            (Purpose::Decide, "go down") => execute("finish", json!({"status": "failed", "notes": "it is locked"})),
            (Purpose::Decide, _) => execute(
                "finish",
                json!({"notes": "they stand", "criteria": [{"id": "c1", "met": true}]}),
            ),
            (Purpose::Replan, _) => text_answer(
                &json!({"root_cause": "it is locked", "changes": "break in", "steps": [
                    {"id": "door", "title": "break the door", "criteria": ["open"]},
                    {"id": "again", "parallel": [{"id": "down", "title": "go down again", "criteria": ["seen"]}]},
                ]})
                .to_string(),
            ),
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    });
    sim.settled();
    if has_person {
        sim.answer_plan(|node, version, by| Event::PlanApproved { node, version, by });
        sim.settled();
    }
    sim
}

impl Sim {
    fn answer_plan(&mut self, event: impl Fn(NodeId, u32, String) -> Event) {
        let Some((node, PendingApproval::Plan(version))) = self.run.pending_approvals().first().copied() else {
            panic!("no plan waits")
        };
        self.record(event(node, version, "ada".to_owned()));
    }
}

fn plan_rejected_event(node: NodeId, version: u32, by: String) -> Event {
    Event::PlanRejected {
        node,
        version,
        reason: "nothing is broken here".to_owned(),
        by,
    }
}

#[test]
fn rejected_replan_keeps_the_results_of_the_previous_plan_e9_8() {
    let mut sim = waiting_again(true);
    let replaced = |sim: &Sim, path: &str| sim.run.node_at(path).unwrap().superseded;
    assert!(
        !replaced(&sim, "walls") && !replaced(&sim, "cellar"),
        "nobody has said yes"
    );
    sim.run.limits.replans_max = 1;
    sim.answer_plan(plan_rejected_event);
    let sim = sim.driven_on();
    let result = root(&sim);
    assert_eq!(result.status, Outcome::Partial, "{}", result.notes);
    assert!(result.notes.starts_with("all of it"), "{}", result.notes);
    assert!(!replaced(&sim, "walls") && !replaced(&sim, "cellar") && replaced(&sim, "door"));
    for path in ["door", "again", "again/down"] {
        assert_eq!(sim.status(path), Outcome::Skipped, "{path}");
    }
    // No earlier event ends the run.
    for cut in 1..sim.journal.len() {
        let equipment = Equipment {
            has_person: true,
            ..equipment()
        };
        let resumed = Sim::resumed_with(&sim.journal[..cut], equipment, Arc::clone(&sim.model));
        assert!(resumed.run.result().is_none(), "cut at {cut}");
    }
}

#[test]
fn rejected_replan_leaves_the_steps_that_it_kept_from_a_group_in_force_e9_8() {
    let equipment = Equipment {
        has_person: true,
        ..equipment()
    };
    let extra = json!({"run": {"plan_gate": "root"}});
    let asked = std::sync::atomic::AtomicU32::new(0);
    let mut sim = goal_with("survey the house", &extra, equipment, move |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "survey the house") => plan_answer(json!([[
                {"id": "walls", "title": "look at walls", "criteria": ["seen"]},
                {"id": "cellar", "title": "go down", "criteria": ["seen"]},
            ]])),
            (Purpose::Decide, "go down") => execute("finish", json!({"status": "failed", "notes": "it is locked"})),
            (Purpose::Decide, task) => execute(
                "finish",
                json!({"notes": task, "criteria": [{"id": "c1", "met": true}]}),
            ),
            (Purpose::Replan, _) => {
                let n = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let title = ["break the door", "ask for a key"][n as usize];
                let step = json!({"id": format!("door{n}"), "title": title, "criteria": ["open"]});
                text_answer(&json!({"root_cause": "it is locked", "changes": title, "steps": [step]}).to_string())
            }
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    });
    sim.settled();
    sim.answer_plan(|node, version, by| Event::PlanApproved { node, version, by });
    sim.settled();
    let replaced = |sim: &Sim, path: &str| sim.run.node_at(path).unwrap().superseded;
    let outcomes = |sim: &Sim| sim.run.counts_by_state();
    let before = outcomes(&sim);
    sim.answer_plan(plan_rejected_event);
    assert!(!replaced(&sim, "group-1/walls") && replaced(&sim, "door0"));
    assert_eq!(outcomes(&sim), before);
    sim.settled();
    sim.answer_plan(|node, version, by| Event::PlanApproved { node, version, by });
    let sim = sim.driven_on();
    assert_eq!(sim.status("door1"), Outcome::Ok, "{}", root(&sim).notes);
    assert!(!replaced(&sim, "group-1/walls") && replaced(&sim, "group-1/cellar"));
}

#[test]
fn plan_page_archives_steps_only_after_the_replan_is_decided_e9_14() {
    let put_away = |sim: &Sim| {
        let entries = sim.pages.entries().iter();
        entries.filter(|entry| entry.fields.status == Status::Archived).count()
    };
    let mut sim = waiting_again(true);
    assert_eq!(put_away(&sim), 0, "nobody has said yes");
    let mut approved = waiting_again(true);
    approved.answer_plan(|node, version, by| Event::PlanApproved { node, version, by });
    assert_eq!(put_away(&approved), 1, "the step that failed");
    sim.answer_plan(plan_rejected_event);
    assert_eq!(put_away(&sim), 3, "what is not begun");
}

#[test]
fn plan_gate_without_a_person_skips_steps_awaiting_approval_e9_14() {
    let sim = waiting_again(false).driven_on();
    let result = root(&sim);
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Failed, Some(StopReason::NeedsInput)),
        "{}",
        result.notes
    );
    assert_eq!(result.notes, "its plan was not approved");
    for path in ["walls", "cellar"] {
        assert_eq!(sim.status(path), Outcome::Skipped, "{path}");
    }
    // Somebody was there for the first plan, and is not any more.
    let begun = waiting_again(true);
    let left = Sim::resumed_with(&begun.journal, equipment(), Arc::clone(&begun.model)).driven_on();
    let result = root(&left);
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Partial, Some(StopReason::NeedsInput))
    );
    assert!(result.notes.starts_with("all of it"), "{}", result.notes);
    assert_eq!(
        (left.status("walls"), left.status("door")),
        (Outcome::Ok, Outcome::Skipped)
    );
}

#[test]
fn task_done_directly_after_a_rejected_plan_leaves_its_replan_to_others_e9_8() {
    let equipment = Equipment {
        has_person: true,
        ..equipment()
    };
    let extra = json!({"run": {"plan_gate": PlanGate::Always.to_json()}});
    let mut sim = goal_with("survey the house", &extra, equipment, |ask| match ask.purpose {
        Purpose::Decide => plan_answer(json!([
            {"id": "walls", "title": "look at walls", "criteria": ["seen"]},
            {"id": "cellar", "title": "go down", "criteria": ["seen"]},
        ])),
        Purpose::Replan => text_answer(&json!({"root_cause": "none", "changes": "", "give_up": true}).to_string()),
        _ => finish("seen"),
    });
    sim.settled();
    sim.answer_plan(plan_rejected_event);
    sim.derive();
    assert_eq!(sim.run.replanning.len(), 1, "it may make another plan");
    sim.end_one();
    sim.derive();
    let is_direct =
        |(_, event): &(Timestamp, Event)| matches!(event, Event::Decided { by, .. } if by == "plan_rejected");
    assert!(sim.journal.iter().any(is_direct));
    assert!(sim.run.result().is_none() && sim.run.replanning.is_empty());
    assert_eq!(root(&sim.driven_on()).status, Outcome::Ok);
}

#[test]
fn second_rejected_plan_is_shown_with_its_own_number_e9_14() {
    let equipment = Equipment {
        has_person: true,
        ..equipment()
    };
    let extra = json!({"run": {"plan_gate": PlanGate::Always.to_json()}});
    let steps = |names: [&str; 2]| {
        json!(names.map(|name| json!({"id": name, "title": format!("look at the {name}"), "criteria": ["seen"]})))
    };
    let mut sim = goal_with("survey the house", &extra, equipment, move |ask| match ask.purpose {
        Purpose::Decide => plan_answer(steps(["walls", "cellar"])),
        Purpose::Replan => text_answer(
            &json!({"root_cause": "none", "changes": "more", "steps": steps(["roof", "attic"])}).to_string(),
        ),
        _ => finish("seen"),
    });
    let shown = |sim: &Sim| {
        let plan = sim.run.shown_plan(NodeId::root(sim.run.id())).unwrap();
        (plan.version, plan.steps[0].slug.clone())
    };
    sim.settled();
    sim.answer_plan(plan_rejected_event);
    assert_eq!(shown(&sim), (1, "walls".to_owned()));
    sim.settled();
    sim.answer_plan(plan_rejected_event);
    assert_eq!(shown(&sim), (2, "roof".to_owned()));

    // A version that was carried out is shown again, with its number.
    let mut sim = waiting_again(true);
    assert_eq!(shown(&sim).0, 2);
    sim.answer_plan(plan_rejected_event);
    assert_eq!(shown(&sim), (1, "walls".to_owned()));
}

#[test]
fn rejected_plan_is_not_one_that_met_no_further_criterion_e9_8() {
    for rejected in [false, true] {
        let source = mended(&json!(["half of it", "all of it"]), |n| {
            json!([
                {"id": format!("a{n}"), "title": format!("well, the {n}th half"), "satisfies": ["c1"]},
                {"id": format!("b{n}"), "title": format!("the rest in way {n}"), "satisfies": ["c2"]},
            ])
        });
        let Event::RunStarted {
            format,
            goal,
            plan,
            inputs,
            deadline,
            ..
        } = source.journal[0].1.clone()
        else {
            panic!("it begins")
        };
        let mut sim = Sim::empty();
        sim.run.equip(Arc::new(Equipment {
            has_person: true,
            ..equipment()
        }));
        let model = source.model;
        #[expect(
            clippy::arc_with_non_send_sync,
            reason = "what plays a model is shared within one thread"
        )]
        let never_met = Arc::new(move |ask: &AskAction| match ask.purpose {
            Purpose::Judge => {
                let unmet = |id| json!({"criterion": id, "finding": "unmet", "gap": "not yet"});
                text_answer(&json!({"verdicts": [unmet("c1"), unmet("c2")]}).to_string())
            }
            _ => model(ask),
        });
        sim.model = never_met;
        let run = json!({"plan_gate": "root"});
        sim.record(Event::RunStarted {
            format,
            goal,
            plan,
            inputs,
            deadline,
            run,
        });
        let (mut carried_out, mut seen) = (0, 0);
        for _ in 0..1_000 {
            sim.settled();
            if sim.run.result().is_some() {
                break;
            }
            let node = NodeId::root(sim.run.id());
            let Some(PendingApproval::Plan(version)) = sim.run.pending_approval_at(node) else {
                break;
            };
            seen += 1;
            let by = "ada".to_owned();
            sim.record(if rejected && seen == 1 {
                let reason = "not so".to_owned();
                Event::PlanRejected {
                    node,
                    version,
                    reason,
                    by,
                }
            } else {
                carried_out += 1;
                Event::PlanApproved { node, version, by }
            });
        }
        assert_eq!(carried_out, 2, "rejected: {rejected}");
    }
}

#[test]
fn steps_that_waited_with_their_plan_end_before_the_task_is_cancelled_e9_5() {
    let equipment = Equipment {
        has_person: true,
        ..equipment()
    };
    for of_run in [true, false] {
        let extra = json!({"run": {"plan_gate": "always"}, "criteria": ["seen"]});
        let mut sim = goal_with("survey the house", &extra, equipment.clone(), nested);
        sim.settled();
        if !of_run {
            sim.answer_plan(|node, version, by| Event::PlanApproved { node, version, by });
            sim.settled();
        }
        let (node, _) = sim.run.pending_approvals()[0];
        sim.record(Event::CancelRequested {
            node: Some(node),
            by: "ada".to_owned(),
        });
        let sim = sim.driven_on();
        let ended: Vec<NodeId> = (sim.journal.iter())
            .filter_map(|(_, event)| match event {
                Event::Finished { node, .. } => Some(*node),
                _ => None,
            })
            .collect();
        let top = sim.run.index(node).unwrap();
        let is_in_it = |id: &NodeId| {
            let around = sim.run.self_and_ancestors(sim.run.index(*id).unwrap()).skip(1);
            around.into_iter().any(|at| at == top)
        };
        let last = ended.iter().rposition(is_in_it).unwrap();
        assert!(last < ended.iter().position(|ended| *ended == node).unwrap());
        let page = projection::branch_page(&sim.run, node);
        let read = sim.pages.read(page);
        let step = if of_run { "look" } else { "north" };
        assert!(
            read.contains(&format!("{step} cancelled: stopped before it began")),
            "{read}"
        );
    }
}
