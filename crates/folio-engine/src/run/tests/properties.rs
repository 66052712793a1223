//! What holds for every plan, every order of completion and every cut.

use super::pages::Pages;
use super::*;

/// Plans of up to three levels with every kind of step; later tasks read earlier results.
pub(super) fn plans() -> impl Strategy<Value = Value> {
    let leaf = (0..8_u8).prop_map(|tool| {
        let tool = ["echo", "echo", "echo", "echo", "fail", "deny", "flaky", "echo"][usize::from(tool)];
        json!({"do": {"tool": tool, "args": {"v": 1}}})
    });
    let step = leaf.prop_recursive(3, 24, 4, |inner| {
        let several = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            several.clone().prop_map(|steps| json!({"parallel": steps})),
            (several.clone(), 0..3_u8).prop_map(|(steps, policy)| {
                json!({"parallel": steps, "on_hard": (["hold", "cancel", "continue"][usize::from(policy)])})
            }),
            several.clone().prop_map(|steps| json!({"sequence": steps})),
            several.prop_map(|steps| json!({"plan": {"steps": steps}})),
            (inner, 0..4_usize, prop::option::of(1..3_u32)).prop_map(|(body, items, lanes)| {
                let mut step = json!({"for_each": (0..items).collect::<Vec<_>>(), "step": body});
                if let Some(lanes) = lanes {
                    step["concurrency"] = json!(lanes);
                }
                step
            }),
        ]
    });
    prop::collection::vec(step, 1..5).prop_map(|steps| {
        let mut plan = json!({"steps": steps});
        name(&mut plan["steps"], &mut 0, &mut None, true);
        plan
    })
}

/// Gives every step an id, and lets tasks of the top level read the last task before them.
fn name(steps: &mut Value, next: &mut u32, last: &mut Option<String>, top: bool) {
    for step in steps.as_array_mut().unwrap() {
        *next += 1;
        let id = format!("s{next}");
        let is_task = step.get("do").is_some();
        if step.get("parallel").is_none() && step.get("sequence").is_none() {
            step["id"] = json!(id);
        }
        for inner in ["parallel", "sequence"] {
            if let Some(inner) = step.get_mut(inner) {
                name(inner, next, &mut None, false);
            }
        }
        if let Some(plan) = step.get_mut("plan") {
            name(&mut plan["steps"], next, &mut None, true);
        }
        if let Some(body) = step.get_mut("step") {
            let mut one = json!([body.take()]);
            name(&mut one, next, &mut None, false);
            *body = one[0].take();
        }
        if is_task && top {
            if let Some(last) = last {
                step["do"]["args"]["read"] = json!(format!("{{{{ results.{last}.output }}}}"));
            }
            *last = Some(id);
        }
    }
}

fn driven(plan: &Value, seed: u64, concurrency: usize) -> Sim {
    let mut sim = Sim::new(&plan.to_string());
    sim.seed = seed;
    sim.concurrency = concurrency;
    sim.driven_on()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_and_every_node_has_a_result(plan in plans(), seed: u64, concurrency in 1..6_usize) {
        let sim = driven(&plan, seed, concurrency);
        for node in sim.run.tree() {
            prop_assert!(node.result.is_some(), "{} has no result", node.path);
        }
        let total: u32 = sim.run.counts().values().sum();
        prop_assert_eq!(usize::try_from(total).unwrap(), sim.run.len());
        prop_assert_eq!(sim.run.due(sim.now, 4), vec![]);
    }

    #[test]
    fn completion_order_does_not_change_the_arguments_of_later_steps(plan in plans(), seed: u64, concurrency in 1..6_usize) {
        let (one, other) = (driven(&plan, seed, concurrency), driven(&plan, !seed, concurrency));
        let args = |sim: &Sim| sim.calls.iter().cloned().collect::<BTreeMap<_, _>>();
        let (one, other) = (args(&one), args(&other));
        // Which members of a group were still begun may differ; what a task is told when it is begun may not.
        let mut compared = 0;
        for (path, args) in &one {
            if let Some(others) = other.get(path) {
                prop_assert_eq!(args, others, "{} was told two things", path);
                compared += 1;
            }
        }
        prop_assert!(compared > 0 || (one.is_empty() && other.is_empty()), "{one:?} {other:?}");
    }

    #[test]
    fn run_resumed_after_any_event_ends_the_same(plan in plans(), seed: u64, cut: prop::sample::Index) {
        // One call at a time: so that which members of a group begin does not depend on the order of completion.
        let whole = driven(&plan, seed, 1);
        let cut = 1 + cut.index(whole.journal.len());
        let mut sim = Sim::resumed(&whole.journal[..cut]);
        sim.concurrency = 1;
        let finished_before: Vec<String> = sim
            .run
            .tree()
            .iter()
            .filter(|node| node.result.is_some())
            .map(|node| node.path.to_owned())
            .collect();
        let sim = sim.driven_on();
        for path in finished_before {
            prop_assert!(!sim.calls.iter().any(|(called, _)| *called == path), "{} was done again", path);
        }
        prop_assert_eq!(sim.outcome(), whole.outcome());
    }

    #[test]
    fn pages_can_be_rebuilt_from_the_journal_e9_16(plan in plans(), seed: u64) {
        let sim = driven(&plan, seed, 4);
        prop_assert_eq!(Pages::of(sim.run.id(), &sim.journal), sim.pages);
    }
}
