//! The order of work when there is not room for all: started tasks before new ones (E9.15).

use super::models::{equipment, execute, finish, goal_with, plan_answer, text_answer};
use super::*;
use crate::talk::Purpose;

/// The number of model tasks of the plan that have begun and not ended.
fn at_work(sim: &Sim) -> usize {
    let is_at_work = |view: &&NodeView<'_>| {
        view.kind == NodeKind::Model && view.parent.is_some() && view.started_at.is_some() && view.result.is_none()
    };
    sim.run.tree().iter().filter(is_at_work).count()
}

#[test]
fn begun_tasks_continue_before_new_ones_begin_e9_15() {
    let members: Vec<Value> = (0..12)
        .map(|n| json!({"title": format!("look at thing {n}")}))
        .collect();
    let steps = json!({"steps": [{"id": "g", "parallel": members}]});
    let mut sim = goal_with("look", &steps, equipment(), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "what is there"})),
        _ => finish("done"),
    });
    sim.concurrency = 2;
    loop {
        sim.derive();
        assert!(at_work(&sim) <= 2, "{} are at work", at_work(&sim));
        if !sim.end_one() {
            break;
        }
    }
    assert_eq!((sim.status(""), sim.calls.len()), (Outcome::Ok, 12));
}

#[test]
fn finished_branch_is_rolled_up_before_another_begins_e9_15() {
    let leaves: Vec<Value> = (0..30)
        .map(|n| json!({"title": format!("leaf {n}"), "do": {"tool": "echo", "args": {}}}))
        .collect();
    let extra = json!({
        "steps": [{"id": "g", "parallel": [{"title": "a branch of apples"}, {"title": "a branch of pears"}]}],
        "budget": {"fan_in": 5, "children": 30},
    });
    let mut sim = goal_with("look", &extra, equipment(), move |ask| match ask.purpose {
        Purpose::Decide if ask.messages[1].text.contains("# Task\na branch") => plan_answer(json!([leaves])),
        _ => text_answer("{\"status\": \"ok\", \"notes\": \"all of it\"}"),
    });
    sim.concurrency = 4;
    let begun = |sim: &Sim| {
        let tree = sim.run.tree();
        let is_leaf = |view: &&NodeView<'_>| sim.run.title(view.id).starts_with("leaf");
        tree.iter()
            .filter(is_leaf)
            .filter(|view| view.started_at.is_some())
            .count()
    };
    let mut begun_before = None;
    loop {
        sim.derive();
        if sim.asks.iter().any(|ask| ask.purpose == Purpose::RollUp) {
            begun_before.get_or_insert_with(|| begun(&sim));
        }
        if !sim.end_one() {
            break;
        }
    }
    assert_eq!((sim.status(""), begun(&sim)), (Outcome::Ok, 60));
    let begun_before = begun_before.expect("more than five results are put together in parts");
    assert!(begun_before <= 30 + 4, "{begun_before} had begun");
}

/// An older version accepted plans in which steps wait for one another in a circle. Such a run continues as it began:
/// nothing in it waits forever.
#[test]
fn needs_cycle_in_an_old_journal_blocks_no_run_e9_9() {
    let step = |id: &str| format!("{{id: {id}, do: {{tool: echo, args: {{}}}}}}");
    let plans = [
        vec!["before", "a", "b", "c"],
        vec!["before", "beside", "a", "b", "c", "after"],
    ];
    for ids in plans {
        let steps: Vec<String> = ids.iter().map(|id| step(id)).collect();
        let text = format!("steps: [{}]", steps.join(", "));
        let plan = plan::parse(&text, &Known::default()).unwrap();
        let mut written = json!(plan);
        let at = ids.iter().position(|id| *id == "a").unwrap();
        written["steps"][at]["needs"] = json!(["c"]);
        let refused = plan::from_value(&written, &Known::default()).unwrap_err();
        let codes: Vec<&str> = refused.listed.iter().map(|error| error.code).collect();
        assert_eq!(codes, ["P012"], "it is refused today: {refused}");
        let mut sim = Sim::empty();
        sim.record(Event::RunStarted {
            format: FORMAT,
            goal: String::new(),
            plan: written,
            inputs: BTreeMap::new(),
            deadline: None,
            run: Value::Null,
        });
        let sim = sim.driven_on();
        assert_eq!(sim.status(""), Outcome::Ok);
        let mut called: Vec<&str> = sim.calls.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(called.len(), ids.len());
        let at = |id: &str| called.iter().position(|path| *path == id).unwrap();
        assert!(at("c") < at("a"), "a needs c: {called:?}");
        called.sort_unstable();
        called.dedup();
        assert_eq!(called.len(), ids.len(), "each once");
    }
}
