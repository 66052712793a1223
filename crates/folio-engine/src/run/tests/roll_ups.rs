//! Results that are too many to be read at once are first combined in parts (E9.16).

use super::models::{equipment, execute, finish, goal_with, plan_answer, task_named, text_answer};
use super::*;
use crate::spend::Spend;
use crate::talk::Purpose;

/// The model's summary of the results that it is shown: the ids of all nodes in it, which show what it saw.
fn gathered(ask: &AskAction) -> ModelAnswer {
    let shown = &ask.messages[1].text;
    let ids: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.trim().strip_prefix("id: "))
        .collect();
    let evidence: Vec<Value> = ids.iter().map(|id| json!({"kind": "node", "id": id})).collect();
    text_answer(
        &json!({"status": "ok", "notes": format!("{} results came to something", ids.len()), "evidence": evidence})
            .to_string(),
    )
}

/// A goal whose only plan does something for each of so many items, and then looks once more.
fn many(items: usize, extra: &Value, equipment: Equipment) -> Sim {
    many_with(items, extra, equipment, gathered)
}

/// The same with another answer for each part.
fn many_with(items: usize, extra: &Value, equipment: Equipment, of_part: fn(&AskAction) -> ModelAnswer) -> Sim {
    let mut extra = extra.clone();
    let budget = &mut extra["budget"];
    budget["nodes"] = json!(10_000);
    for (key, value) in [("items", 5_000), ("tokens", 1_000_000_000)] {
        if budget.get(key).is_none() {
            budget[key] = json!(value);
        }
    }
    let mut sim = goal_with("Count what is there", &extra, equipment, move |ask| match ask.purpose {
        Purpose::Decide if ask.call == 1 && ask.messages[1].text.contains("# Task\nCount what") => plan_answer(json!([
            {"id": "list", "title": "List", "do": {"tool": "echo", "args": {"items": (0..items).collect::<Vec<_>>()}}},
            {"id": "each", "title": "Look at each", "for_each": "results.list.output.items", "max_items": 5_000,
             "step": {"id": "look", "title": "Item {{ item }}", "do": {"tool": "echo",
                      "args": {"found": format!("in {{{{ item }}}} there is {}", "much to say ".repeat(40))}}}},
        ])),
        Purpose::Aggregate => gathered(ask),
        Purpose::RollUp => of_part(ask),
        _ => finish("done"),
    });
    sim.concurrency = 8;
    sim
}

fn roll_ups(sim: &Sim) -> Vec<NodeView<'_>> {
    let tree = sim.run.tree().into_iter();
    tree.filter(|view| view.kind == NodeKind::RollUp).collect()
}

fn asked_to(sim: &Sim, purpose: Purpose) -> Vec<&AskAction> {
    sim.asks.iter().filter(|ask| ask.purpose == purpose).collect()
}

fn characters(ask: &AskAction) -> usize {
    ask.messages.iter().map(|message| message.text.chars().count()).sum()
}

fn ids_shown(ask: &AskAction) -> Vec<&str> {
    let lines = ask.messages[1].text.lines();
    lines.filter_map(|line| line.trim().strip_prefix("id: ")).collect()
}

#[test]
fn thousand_results_are_rolled_up_within_the_prompt_bound_e9_16() {
    let sim = many(1_000, &json!({}), equipment()).driven_on();
    assert_eq!(sim.status(""), Outcome::Ok);
    // The list and a thousand items, twelve at a time; then what stands for them, and once more.
    let sizes: Vec<Vec<u32>> = sim
        .journal
        .iter()
        .filter_map(|(_, event)| match event {
            Event::RollUps { parts, .. } => Some(parts.clone()),
            _ => None,
        })
        .collect();
    let sums: Vec<(u32, usize)> = sizes.iter().map(|parts| (parts.iter().sum(), parts.len())).collect();
    assert_eq!(sums, [(1_001, 84), (84, 7)]);
    assert_eq!(roll_ups(&sim).len(), 91);
    for ask in asked_to(&sim, Purpose::RollUp)
        .into_iter()
        .chain(asked_to(&sim, Purpose::Aggregate))
    {
        let (results, size) = (ids_shown(ask).len(), characters(ask));
        assert!(results <= 12, "{results} results in one prompt");
        assert!(size <= 24_000 + 4_000, "{size} characters in one prompt");
    }
    // Every result is read once, in the order of the plan, by somebody.
    let leaves: Vec<String> = (0..1_000)
        .map(|n| sim.run.node_at(&format!("each/look[{n}]")).unwrap().id.to_string())
        .collect();
    let read: Vec<&str> = asked_to(&sim, Purpose::RollUp)
        .into_iter()
        .flat_map(ids_shown)
        .collect();
    let read: Vec<&str> = read
        .into_iter()
        .filter(|id| leaves.iter().any(|leaf| leaf == id))
        .collect();
    assert_eq!(read, leaves);
    let last = asked_to(&sim, Purpose::Aggregate);
    assert_eq!(last.len(), 1);
    assert_eq!(ids_shown(last[0]).len(), 7);
    assert!(last[0].messages[1].text.contains("12 results came to something"));
}

#[test]
fn results_within_the_fan_in_need_no_roll_up_e9_16() {
    let sim = many(11, &json!({}), equipment()).driven_on();
    assert_eq!(roll_ups(&sim).len(), 0);
    assert_eq!(ids_shown(asked_to(&sim, Purpose::Aggregate)[0]).len(), 12);
    // One more: what is alone in its part stays as it is.
    let sim = many(12, &json!({}), equipment()).driven_on();
    assert_eq!(roll_ups(&sim).len(), 1);
    let shown = ids_shown(asked_to(&sim, Purpose::Aggregate)[0]);
    let last = sim.run.node_at("each/look[11]").unwrap().id.to_string();
    assert_eq!(shown, [roll_ups(&sim)[0].id.to_string(), last]);
}

#[test]
fn fan_in_budget_sets_the_size_of_roll_up_parts_e9_16() {
    let sim = many(8, &json!({"budget": {"fan_in": 3}}), equipment()).driven_on();
    // Nine results in three parts.
    assert_eq!(roll_ups(&sim).len(), 3);
}

#[test]
fn small_context_window_shrinks_the_roll_up_parts_e9_16() {
    let mut small = equipment();
    small.planner.window = 1_600;
    small.planner.answer_tokens = 200;
    let sim = many(20, &json!({}), small).driven_on();
    assert_eq!(sim.status(""), Outcome::Ok);
    for ask in asked_to(&sim, Purpose::RollUp)
        .into_iter()
        .chain(asked_to(&sim, Purpose::Aggregate))
    {
        assert!(ids_shown(ask).len() <= 6);
        assert!(ask.reserved.tokens() <= 1_600);
    }
}

#[test]
fn roll_up_beyond_the_budget_is_made_without_a_model_e9_16() {
    // One to decide, eight of nine roll-ups, and what is kept for the end.
    let sim = many(100, &json!({"budget": {"model_calls": 10}}), equipment()).driven_on();
    let made: Vec<(Outcome, Option<StopReason>)> = roll_ups(&sim)
        .iter()
        .map(|view| (view.result.unwrap().status, view.result.unwrap().stop_reason))
        .collect();
    let alone = made
        .iter()
        .filter(|(status, reason)| *status == Outcome::Partial && *reason == Some(StopReason::BudgetModelCalls));
    assert_eq!((made.len(), alone.count()), (9, 1));
    assert_eq!(asked_to(&sim, Purpose::Aggregate).len(), 1);
    assert_eq!(sim.status(""), Outcome::Ok);
    let last = roll_ups(&sim).pop().unwrap().result.unwrap();
    assert!(last.notes.contains("each/look[99] (ok)"), "{}", last.notes);
}

#[test]
fn unreadable_roll_up_is_partial_without_failing_the_run_e9_16() {
    let sim = many_with(20, &json!({}), equipment(), |_| text_answer("much ado"));
    let sim = sim.driven_on();
    let views = roll_ups(&sim);
    assert_eq!(views.len(), 2);
    for view in &views {
        let result = view.result.unwrap();
        assert_eq!(
            (result.status, result.stop_reason),
            (Outcome::Partial, Some(StopReason::Unparseable))
        );
        assert_eq!(view.model_calls, 3, "it was asked twice more");
    }
    // Instead of a summary it lists the results of its part: the list and eleven items, and nine more items.
    let listed = |notes: &str, n: usize| notes.contains(&format!("each/look[{n}] (ok)"));
    for n in 0..20 {
        let told = views.iter().map(|view| listed(&view.result.unwrap().notes, n));
        assert_eq!(told.collect::<Vec<_>>(), [n < 11, n >= 11], "{n}");
    }
    assert_eq!(sim.status(""), Outcome::Ok);
}

#[test]
fn failed_result_makes_only_its_own_roll_up_partial_e9_16() {
    let mut sim = goal_with(
        "Try all",
        &json!({"budget": {"fan_in": 4}}),
        equipment(),
        |ask| match ask.purpose {
            Purpose::Decide => plan_answer(json!([{"id": "all", "title": "All of them", "parallel":
                (0..8).map(|n| json!({"id": format!("t{n}"), "title": format!("Part {n}"),
                    "do": {"tool": if n == 5 { "fail" } else { "echo" }, "args": {"n": n}}})).collect::<Vec<_>>()},
            ])),
            Purpose::Aggregate | Purpose::RollUp => gathered(ask),
            _ => finish("done"),
        },
    );
    sim.concurrency = 2;
    let sim = sim.driven_on();
    let ends: Vec<Outcome> = roll_ups(&sim).iter().map(|view| view.result.unwrap().status).collect();
    assert_eq!(ends, [Outcome::Ok, Outcome::Partial]);
    let second = asked_to(&sim, Purpose::RollUp)[1];
    assert!(
        second.messages[1].text.contains("all/t5 (failed, retries_exhausted)"),
        "{}",
        second.messages[1].text
    );
    assert_eq!(sim.status(""), Outcome::Partial);
    // Evidence names what the part was made of.
    let evidence = &roll_ups(&sim)[0].result.unwrap().evidence;
    assert_eq!(evidence.len(), 4);
}

#[test]
fn roll_ups_appear_on_the_task_page_and_cost_e9_16() {
    let sim = many(30, &json!({}), equipment()).driven_on();
    let mut run = Run::new(sim.run.id(), Arc::new(Templates::new()));
    let mut pages = String::new();
    for (at, event) in &sim.journal {
        run.apply(*at, event).unwrap();
        pages.push_str(&format!("{:?}", crate::projection::changes(&run, event)));
    }
    assert!(pages.contains("31 results are first combined in 3 parts"));
    assert!(pages.contains("Results 1 to 12 of 31: ok"));
    let calls: u64 = sim.run.node_at("").unwrap().spent.model_calls;
    assert_eq!(calls, 1 + 3 + 1);
    let each = roll_ups(&sim)[0];
    assert_eq!(
        each.spent,
        &Spend {
            model_calls: 1,
            ..*each.spent
        }
    );
    assert!(each.spent.tokens() > 0);
}

#[test]
fn resume_after_any_event_ends_with_the_same_roll_ups_e9_16() {
    let extra = json!({"budget": {"fan_in": 3}});
    let sim = many(10, &extra, equipment()).driven_on();
    let ends = |sim: &Sim| -> Vec<(String, Value)> {
        let all = sim.outcome().into_iter();
        all.map(|(path, result)| (path, result["notes"].clone())).collect()
    };
    for cut in 1..sim.journal.len() {
        let model = Arc::clone(&sim.model);
        let resumed = Sim::resumed_with(&sim.journal[..cut], equipment(), model).driven_on();
        assert_eq!(ends(&resumed), ends(&sim), "after {cut} events");
        let begun = |sim: &Sim| roll_ups(sim).len();
        assert_eq!(begun(&resumed), begun(&sim));
    }
}

#[test]
fn cancel_during_roll_ups_ends_the_run_without_aggregation_e9_16() {
    let mut sim = many(30, &json!({}), equipment());
    while asked_to(&sim, Purpose::RollUp).len() < 2 {
        sim.derive();
        assert!(sim.end_one());
    }
    sim.record(Event::CancelRequested {
        node: None,
        by: "ada".to_owned(),
    });
    let asked = asked_to(&sim, Purpose::RollUp).len();
    let sim = sim.driven_on();
    assert_eq!(sim.status(""), Outcome::Cancelled);
    assert_eq!(asked_to(&sim, Purpose::Aggregate).len(), 0);
    // Nothing is asked any more, and what was being asked is stopped.
    assert_eq!(asked_to(&sim, Purpose::RollUp).len(), asked);
    let ends: Vec<Outcome> = roll_ups(&sim).iter().map(|view| view.result.unwrap().status).collect();
    assert!(ends.contains(&Outcome::Cancelled), "{ends:?}");
}

#[test]
fn roll_up_event_with_wrong_parts_is_refused_e9_16() {
    let sim = many(30, &json!({}), equipment()).driven_on();
    let at = sim
        .journal
        .iter()
        .position(|(_, event)| matches!(event, Event::RollUps { .. }))
        .unwrap();
    let root = NodeId::root(sim.run.id());
    for parts in [
        vec![31],
        vec![12, 12, 7],
        vec![12; 2],
        vec![1; 31],
        vec![],
        vec![u32::MAX, 32],
    ] {
        let mut run = Run::new(sim.run.id(), Arc::new(Templates::new()));
        for (at, event) in &sim.journal[..at] {
            run.apply(*at, event).unwrap();
        }
        let is_right = parts == [31] || parts == [12, 12, 7];
        let event = Event::RollUps {
            node: root,
            parts,
            again: Vec::new(),
        };
        assert_eq!(run.apply(sim.now, &event).is_ok(), is_right, "{event:?}");
    }
}

/// Nine items looked at by a model, in a plan whose parts have three results; the eighth fails until its list is
/// planned anew.
fn mended_list() -> Sim {
    let each = json!({"id": "each", "for_each": "results.list.output.all", "as": "it",
        "step": {"id": "one", "title": "look at {{ it }}", "criteria": ["seen"]}});
    let looked = std::sync::Mutex::new(0_u32);
    let mut sim = goal_with(
        "look at all",
        &json!({"budget": {"fan_in": 3}}),
        equipment(),
        move |ask| match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "look at all") => plan_answer(json!([
                {"id": "list", "do": {"tool": "echo", "args": {"all": (0..9).collect::<Vec<_>>()}}}, each,
            ])),
            (Purpose::Replan, _) => {
                text_answer(&json!({"root_cause": "it is dark", "changes": "once more", "steps": [each]}).to_string())
            }
            (Purpose::Decide, "look at 7") => {
                let mut looked = looked.lock().unwrap();
                *looked += 1;
                match *looked {
                    1 => execute("finish", json!({"status": "failed", "notes": "too dark"})),
                    _ => execute(
                        "finish",
                        json!({"notes": "seen", "criteria": [{"id": "c1", "met": true}]}),
                    ),
                }
            }
            (Purpose::Decide, _) => execute(
                "finish",
                json!({"notes": "seen", "criteria": [{"id": "c1", "met": true}]}),
            ),
            _ => gathered(ask),
        },
    );
    sim.concurrency = 1;
    sim
}

#[test]
fn only_roll_ups_of_changed_results_are_made_again_after_a_replan_e9_16() {
    let sim = mended_list().driven_on();
    assert_eq!(sim.status(""), Outcome::Ok);
    let made: Vec<(Vec<u32>, usize)> = sim
        .journal
        .iter()
        .filter_map(|(_, event)| match event {
            Event::RollUps { parts, again, .. } => Some((parts.clone(), again.len())),
            _ => None,
        })
        .collect();
    // The list and nine items: those before the item that failed are combined once.
    let whole = |again| (vec![3, 3, 3, 1], again);
    assert_eq!(made, [whole(0), (vec![3, 1], 0), whole(2), (vec![3, 1], 0)]);
    // The third part of the first level, and what stands above it, were asked for twice.
    assert_eq!(asked_to(&sim, Purpose::RollUp).len(), 3 + 1 + 1 + 1);
    let last = asked_to(&sim, Purpose::Aggregate).pop().unwrap();
    assert_eq!(ids_shown(last).len(), 2);
}

#[test]
fn crash_during_repeated_roll_ups_repeats_none_of_them_e9_16() {
    let whole = mended_list().driven_on();
    let is_again = |(_, event): &(Timestamp, Event)| matches!(event, Event::RollUps { again, .. } if !again.is_empty());
    let from = whole.journal.iter().position(is_again).unwrap();
    for cut in from..whole.journal.len() {
        let mut sim = Sim::resumed_with(&whole.journal[..=cut], equipment(), Arc::clone(&whole.model));
        sim.concurrency = 1;
        let sim = sim.driven_on();
        assert_eq!(sim.status(""), Outcome::Ok, "after event {cut}");
        assert_eq!(roll_ups(&sim).len(), roll_ups(&whole).len(), "after event {cut}");
    }
}
