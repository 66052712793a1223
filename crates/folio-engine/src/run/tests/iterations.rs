//! The iterations of a run whose plans people reject or edit before they count (seed 000).

use std::sync::atomic::{AtomicU32, Ordering};

use super::models::{equipment, execute, goal_with, plan_answer, task_named, text_answer};
use super::*;
use crate::projection::{iteration_summary_page, main_page, plan_page, summary_page};
use crate::talk::Purpose;

/// A goal whose second step fails in each version of its plan, each of which waits for approval.
fn survey() -> Sim {
    let equipment = Equipment {
        has_person: true,
        ..equipment()
    };
    let extra = json!({"run": {"plan_gate": "root"}, "criteria": ["half of it", "all of it"]});
    let (version, judged) = (AtomicU32::new(1), AtomicU32::new(0));
    let mut sim = goal_with("survey the house", &extra, equipment, move |ask| {
        let steps = || {
            let n = version.fetch_add(1, Ordering::Relaxed);
            json!([
                {"id": format!("walls{n}"), "title": format!("look at wall {n}"), "satisfies": ["c1", "c2"]},
                {"id": format!("cellar{n}"), "title": format!("fail to go down by stair {n}"), "criteria": ["seen"]},
            ])
        };
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "survey the house") => plan_answer(steps()),
            (Purpose::Decide, task) => {
                let status = if task.starts_with("fail") { "failed" } else { "ok" };
                execute("finish", json!({"status": status, "notes": task}))
            }
            (Purpose::Replan, _) => {
                text_answer(&json!({"root_cause": "locked", "changes": "others", "steps": steps()}).to_string())
            }
            (Purpose::Judge, _) => {
                // Each version meets one criterion more, so that another one may follow.
                let met = judged.fetch_add(1, Ordering::Relaxed);
                let finding = |at: u32| if at < met { "met" } else { "unmet" };
                let verdicts = [("c1", 0), ("c2", 1)];
                let verdicts = verdicts.map(|(id, at)| json!({"criterion": id, "finding": finding(at), "gap": "that"}));
                text_answer(&json!({ "verdicts": verdicts }).to_string())
            }
            _ => text_answer("{\"notes\": \"what was seen\"}"),
        }
    });
    sim.run.limits.replans_max = 8;
    sim.settled();
    sim.approved();
    sim
}

impl Sim {
    fn waiting_version(&self) -> u32 {
        let node = NodeId::root(self.run.id());
        let Some(PendingApproval::Plan(version)) = self.run.pending_approval_at(node) else {
            panic!("no plan waits")
        };
        version
    }

    fn approved(&mut self) {
        self.record(Event::PlanApproved {
            node: NodeId::root(self.run.id()),
            version: self.waiting_version(),
            by: "ada".to_owned(),
        });
        self.settled();
    }

    fn rejected(&mut self) {
        self.record(Event::PlanRejected {
            node: NodeId::root(self.run.id()),
            version: self.waiting_version(),
            reason: "not so".to_owned(),
            by: "ada".to_owned(),
        });
    }

    /// The summaries of iterations that there are, each in one line.
    fn iterations(&self) -> Vec<String> {
        let entries = self.pages.entries().iter();
        let summaries = entries.filter(|entry| entry.kind == folio_memory::EntryKind::Summary);
        let lines =
            summaries.map(|entry| format!("{}. {}", entry.fields.title, entry.fields.body.replace("\n\n", " ")));
        lines.collect()
    }

    /// The version that readers of the tree see.
    fn shown_version(&self) -> u32 {
        self.run.node(NodeId::root(self.run.id())).unwrap().plan_version
    }
}

#[test]
fn iteration_replaced_after_a_rejected_plan_is_summarized_under_its_own_number_seed_000() {
    let mut sim = survey();
    assert_eq!(
        (sim.iterations().len(), sim.shown_version()),
        (0, 2),
        "the second plan waits"
    );
    sim.rejected();
    assert_eq!(sim.shown_version(), 1);
    sim.settled();
    assert_eq!((sim.iterations().len(), sim.shown_version()), (0, 3));
    sim.approved();
    let [first] = sim.iterations().try_into().unwrap();
    let expected = "Iteration 1: partial. 2 steps: 1 ok, 1 failed. what was seen";
    assert!(
        first.starts_with(expected) && first.ends_with("The plan was changed."),
        "{first}"
    );
    assert_eq!(summary_page(&sim.run), iteration_summary_page(sim.run.id(), 1));
    // The fourth is rejected too: what the third came to is the result.
    sim.run.limits.replans_max = 0;
    sim.rejected();
    assert_eq!(summary_page(&sim.run), iteration_summary_page(sim.run.id(), 1));
    let sim = sim.driven_on();
    let [_, third] = sim.iterations().try_into().unwrap();
    assert!(
        third.starts_with("Iteration 3: partial. 3 steps: 2 ok, 1 failed."),
        "{third}"
    );
    assert_eq!(summary_page(&sim.run), iteration_summary_page(sim.run.id(), 3));
}

#[test]
fn run_that_ends_with_an_earlier_plan_is_summarized_under_its_number_seed_000() {
    let mut sim = survey();
    sim.run.limits.replans_max = 1;
    sim.rejected();
    let sim = sim.driven_on();
    let [only] = sim.iterations().try_into().unwrap();
    assert!(
        only.starts_with("Iteration 1: partial. 2 steps: 1 ok, 1 failed."),
        "{only}"
    );
    assert_eq!(summary_page(&sim.run), iteration_summary_page(sim.run.id(), 1));
}

#[test]
fn iteration_replaced_by_an_edited_waiting_plan_keeps_its_number_and_words_seed_000() {
    let mut sim = survey();
    let root = NodeId::root(sim.run.id());
    let steps = sim.run.shown_plan(root).unwrap().steps;
    let text = plan::to_markdown(&steps).replace("look at wall 2", "look at the wall");
    let edited = sim.run.edit_plan(root, &text, Some(2), &Known::default(), "ada");
    sim.record(edited.unwrap().unwrap());
    let [first] = sim.iterations().try_into().unwrap();
    let expected = "Iteration 1: partial. 2 steps: 1 ok, 1 failed. what was seen";
    assert!(first.starts_with(expected), "{first}");
    assert_eq!(sim.shown_version(), 3);
    // Another edit replaces what stands there now, of which nothing has been said yet.
    let steps = sim.run.shown_plan(root).unwrap().steps;
    let text = plan::to_markdown(&steps).replace("look at the wall", "look at a wall");
    let edited = sim.run.edit_plan(root, &text, Some(3), &Known::default(), "ada");
    sim.record(edited.unwrap().unwrap());
    let [_, third] = sim.iterations().try_into().unwrap();
    assert_eq!(
        third,
        "Iteration 3: partial. 3 steps: 1 ok, 2 unfinished. The plan was changed."
    );
}

#[test]
fn pages_that_stay_name_the_iteration_that_is_carried_out_seed_000() {
    let mut sim = survey();
    let run = sim.run.id();
    let check = |sim: &Sim, iteration: u32| {
        for page in [main_page(run), plan_page(run)] {
            let shown = sim.pages.read(page);
            let line = format!(" · open · iteration {iteration} -->");
            assert!(shown.contains(&line), "{shown}");
        }
    };
    // The second plan waits, and so does the third, which is made after a no.
    check(&sim, 1);
    sim.rejected();
    sim.settled();
    check(&sim, 1);
    sim.approved();
    check(&sim, 3);
    assert_eq!(sim.pages.iterations_of("Branch roll-up"), [Some(1)]);
}
