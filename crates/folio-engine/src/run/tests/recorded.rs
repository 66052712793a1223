//! Every action that is due can be recorded, in every state of a run (E9.9, E9.19): otherwise it would be stuck.

use super::budgets::{driven_under_stress, moody};
use super::models::{equipment, goal_with};
use super::*;
use crate::event::Always;

/// The event that records `action` or its beginning; `None` if it records none by itself.
fn event_of(run: &Run, action: &Action) -> Option<Event> {
    match action {
        Action::Record(event) => Some(event.clone()),
        Action::Call(call) => Some(call.started()),
        Action::Ask(ask) => Some(ask.asked()),
        Action::Brief(node) => Some(Event::Briefed {
            node: *node,
            memory: "nothing".to_owned(),
            book: None,
            limits: run.share_of(*node),
        }),
        Action::Compact(compact) => compact.compacting(),
        Action::Verify(check) => check.begins(),
        Action::Load(_) | Action::Stop(_) => None,
    }
}

/// Checks each action that is due after so many events of the journal, each by itself.
pub(super) fn all_can_be_recorded(journal: &[(Timestamp, Event)], slots: usize, equip: impl Fn(&mut Run)) {
    let folded = || {
        let mut run = Run::new(RunId::derived(&["test"]), Arc::new(Templates::new()));
        journal.iter().for_each(|(at, event)| run.apply(*at, event).unwrap());
        equip(&mut run);
        run
    };
    let run = folded();
    let last = journal.last().unwrap().0;
    // As things stand, and when whatever waits for its time is due.
    let mut times = vec![last];
    times.extend(run.wakes_at());
    for now in times {
        for action in run.due(now, slots) {
            if let Some(event) = event_of(&run, &action) {
                let recorded = folded().apply(now, &event);
                assert!(
                    recorded.is_ok(),
                    "{recorded:?} of {event:?} after {} events",
                    journal.len()
                );
            }
        }
    }
}

/// A run under stress, with a person who answers as the seed says; now and then it is resumed by a process without
/// models or without a person.
fn steered(extra: &Value, seed: u64, mut look: impl FnMut(&Sim)) {
    let attended = || Equipment {
        has_person: true,
        ..equipment()
    };
    let asks = || -> Option<ApprovalPolicy> {
        Some(Arc::new(|tool: &str, _: &Value| {
            matches!(tool, "write" | "shell").into()
        }))
    };
    let mut sim = goal_with("survey the house", extra, attended(), move |ask| {
        cover_criteria(ask, moody(seed, ask))
    });
    sim.run.set_approval_policy(asks());
    (sim.seed, sim.concurrency) = (seed, 3);
    for _ in 0..2_000 {
        look(&sim);
        sim.derive_whole();
        if sim.run.result().is_some() {
            return;
        }
        match sim.roll() % 16 {
            0 => {
                sim = sim.resumed_by_other_process(attended());
                sim.run.set_approval_policy(asks());
            }
            // Without a model most of it ends at once, so only where one is away.
            1..4 if !sim.run.parked.is_empty() => {
                sim = sim.resumed_by_other_process(attended());
                sim.run.equipment = None;
                sim.run.set_approval_policy(asks());
            }
            2 => sim.change_some_limit(),
            _ if sim.end_one() => {}
            _ if sim.says_something() => {}
            _ => match sim.run.wakes_at() {
                Some(at) => sim.now = at,
                None => panic!("it waits for nothing"),
            },
        }
    }
    panic!("the run does not end");
}

/// `answer`; if it is a plan, it covers the criteria of its task.
fn cover_criteria(ask: &AskAction, answer: ModelAnswer) -> ModelAnswer {
    let has_criteria = ask.messages[1].text.contains("c2: it is nice");
    let ModelAnswer::Replied { mut reply, used, model } = answer else {
        return answer;
    };
    if let Ok(mut said) = serde_json::from_str::<Value>(&reply.text)
        && let Some(steps) = said["steps"].as_array_mut().filter(|_| has_criteria)
    {
        steps.push(json!({"id": "all", "title": "see to the rest", "criteria": ["seen"], "satisfies": ["c1", "c2"]}));
        said["root_cause"] = json!("nobody knows");
        said["changes"] = json!("something else");
        reply.text = said.to_string();
    }
    ModelAnswer::Replied { reply, used, model }
}

impl Sim {
    /// Answers the first of what waits for people.
    fn says_something(&mut self) -> bool {
        let (roll, by) = (self.roll(), "ada".to_owned());
        let is_yes = roll.is_multiple_of(2);
        // Two plans that nobody wants are seldom otherwise.
        let is_wanted = roll.is_multiple_of(4);
        let waiting = self.run.pending_approvals().first().map(|(node, what)| match what {
            PendingApproval::Plan(version) if is_wanted => Event::PlanApproved {
                node: *node,
                version: *version,
                by: by.clone(),
            },
            PendingApproval::Plan(version) => Event::PlanRejected {
                node: *node,
                version: *version,
                reason: "no".to_owned(),
                by: by.clone(),
            },
            PendingApproval::Call(_) if is_yes => Event::CallApproved {
                node: *node,
                always: roll.is_multiple_of(4).then_some(Always::Tool),
                by: by.clone(),
            },
            PendingApproval::Call(_) => Event::CallRejected {
                node: *node,
                reason: "no".to_owned(),
                by: by.clone(),
            },
            PendingApproval::Check(_) => answered(*node, is_yes),
        });
        let asked = || self.run.questions().first().map(|(node, _)| answered(*node, is_yes));
        let Some(event) = waiting.or_else(asked) else {
            return false;
        };
        self.record(event);
        true
    }
}

fn answered(node: NodeId, is_yes: bool) -> Event {
    Event::Answered {
        node,
        answer: if is_yes { "yes" } else { "no" }.to_owned(),
        by: "ada".to_owned(),
    }
}

/// Criteria for every kind of checker.
fn criteria() -> Value {
    json!([
        {"id": "c1", "text": "it is good"}, {"id": "c2", "text": "it is nice", "check": "human"},
        {"id": "c3", "text": "it holds", "check": {"command": {"argv": ["true"]}}, "required": false},
    ])
}

/// Runs with many questions to people.
fn attended_runs() -> impl Strategy<Value = Value> {
    let gate = prop::sample::select(vec!["never", "root", "always"]);
    let calls = prop::option::of(4..30_u64);
    (gate, calls, any::<bool>()).prop_map(|(gate, calls, is_plan)| {
        let criteria = criteria();
        let mut extra = json!({"budget": {"nodes": 60, "depth": 3}, "criteria": criteria, "run": {"plan_gate": gate}});
        if let Some(calls) = calls {
            extra["budget"]["model_calls"] = json!(calls);
        }
        if is_plan {
            extra["steps"] = json!([
                {"id": "call", "do": {"tool": "flaky", "args": {}}, "retry": {"max_attempts": 2}, "criteria": criteria},
                {"id": "task", "title": "count swallows", "criteria": criteria, "budget": {"model_calls": 6}},
                {"id": "also", "do": {"tool": "write", "args": {}}, "criteria": criteria, "budget": {"model_calls": 2}},
            ]);
        }
        extra
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_due_action_can_be_recorded_after_any_event_e9_9(
        seed: u64, budget in 0..3_u64, storms: bool, plan in properties::plans(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 8)
    ) {
        let extra = json!({"steps": plan["steps"], "budget": {"nodes": 60, "tool_calls": 4 + 8 * budget}});
        for extra in [extra, json!({"budget": {"nodes": 60, "depth": 3}})] {
            let sim = driven_under_stress(&extra, seed, 3, storms);
            for cut in &cuts {
                let cut = 1 + cut.index(sim.journal.len());
                all_can_be_recorded(&sim.journal[..cut], 3, |run| run.equip(Arc::new(equipment())));
            }
        }
    }

    #[test]
    fn every_due_action_can_be_recorded_when_people_are_asked_e9_14(extra in attended_runs(), seed: u64) {
        let mut turn = 0_u64;
        steered(&extra, seed, |sim| {
            turn += 1;
            if !(turn + seed).is_multiple_of(3) {
                return;
            }
            let (equipment, asks) = (sim.run.equipment.clone(), sim.run.asks_first.clone());
            all_can_be_recorded(&sim.journal, 3, |run| {
                run.equipment.clone_from(&equipment);
                run.asks_first.clone_from(&asks);
            });
        });
    }
}
