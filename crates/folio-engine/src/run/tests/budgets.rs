//! Budgets for everything that is under way at the same time (E9.10): at every event of a journal, what is spent, set
//! aside and free adds up to each limit, and calls never exceed theirs.

use std::collections::{HashMap, HashSet};

use super::models::*;
use super::*;
use crate::event::NewLimits;
use crate::spend::{Allowance, Amount, Dimension, Spend};
use crate::talk::{Purpose, Reply, Stop};

/// Goes through a journal with separate accounts, and compares them with every purse after every event.
pub(super) fn check_accounts(journal: &[(Timestamp, Event)]) -> Run {
    let mut run = Run::new(RunId::derived(&["test"]), Arc::new(Templates::new()));
    run.equip(Arc::new(equipment()));
    let (mut open, mut spent) = (HashMap::<NodeId, Spend>::new(), HashMap::<NodeId, Spend>::new());
    let mut written = HashMap::<NodeId, u64>::new();
    let mut begun = HashSet::<NodeId>::new();
    for (at, event) in journal {
        if let Event::Asked { node, purpose, .. } = event {
            let mut around = std::iter::successors(run.index(*node).ok(), |at| run.nodes[*at].parent);
            let used_up = around.find(|at| {
                let purse = run.nodes[*at].purse.as_deref();
                purse.is_some_and(|purse| purse.used_up_dimension(true, purpose.is_last()).is_some())
            });
            assert_eq!(used_up, None, "{purpose:?} was asked for although a limit is used up");
        }
        run.apply(*at, event).unwrap();
        let (nodes, limits) = (run.planned_nodes(), &run.limits);
        assert!(nodes <= limits.nodes_max as usize, "{nodes} nodes after {event:?}");
        assert!(run.replans <= limits.replans_in_run_max, "{} new plans", run.replans);
        let superseded = run.nodes.iter().filter(|node| node.superseded && node.result.is_some());
        let counted: u32 = run.superseded_counts().values().sum();
        assert_eq!(counted as usize, superseded.count(), "after {event:?}");
        *written.entry(event.node().unwrap_or(run.nodes[0].id)).or_insert(0) += event.bytes();
        let mut pay = |node: NodeId, cost: &Spend| {
            let of_node = spent.entry(node).or_default();
            *of_node = of_node.plus(cost);
        };
        match event {
            Event::Asked { node, reserved, .. } | Event::Compacting { node, reserved } => {
                open.insert(*node, *reserved);
            }
            Event::Compacted { node, spent: cost, .. } => {
                open.remove(node);
                pay(*node, cost);
            }
            Event::Replied { node, spent: cost, .. } | Event::AskFailed { node, spent: cost, .. } => {
                open.remove(node);
                pay(*node, cost);
            }
            // One that is made again because nobody saw its end counts once (E9.9).
            Event::Started { node, .. } if begun.insert(*node) => pay(*node, &Spend::TOOL_CALL),
            Event::AttemptFailed { node, .. } => drop(begun.remove(node)),
            // Nobody saw the end of a call that was under way.
            Event::Finished { node, .. } => {
                if let Some(reserved) = open.remove(node) {
                    pay(*node, &reserved);
                }
            }
            Event::Resumed { in_flight, .. } => {
                for node in in_flight {
                    if let Some(reserved) = open.remove(node) {
                        pay(*node, &reserved);
                    }
                }
            }
            _ => {}
        }
        let below = |books: &HashMap<NodeId, Spend>, top: usize| {
            let within = |node: &NodeId| {
                let index = run.index(*node).unwrap();
                std::iter::successors(Some(index), |at| run.nodes[*at].parent).any(|at| at == top)
            };
            let of_subtree = books.iter().filter(|(node, _)| within(node));
            of_subtree.fold(Spend::default(), |sum, (_, more)| sum.plus(more))
        };
        for (index, node) in run.nodes.iter().enumerate() {
            let Some(purse) = node.purse.as_deref() else { continue };
            let after = format!("of {:?} after {} {:?}", node.path, event.name(), event.node());
            assert_eq!(purse.spent, below(&spent, index), "spent {after}");
            let within = |at: usize| std::iter::successors(Some(at), |at| run.nodes[*at].parent).any(|at| at == index);
            let of_subtree = written.iter().filter(|(node, _)| within(run.index(**node).unwrap()));
            let bytes: u64 = of_subtree.map(|(_, bytes)| bytes).sum();
            assert_eq!(purse.bytes, bytes, "written {after}");
            assert_eq!(purse.reserved, below(&open, index), "set aside {after}");
            let inside = (index + 1..run.nodes.len()).filter(|at| {
                std::iter::successors(run.nodes[*at].parent, |at| run.nodes[*at].parent).any(|at| at == index)
            });
            let held = inside
                .filter_map(|at| run.nodes[at].held.as_deref())
                .fold(Amount::default(), |sum, held| sum.plus(&held.rest()));
            assert_eq!(purse.held, held, "held {after}");
            for dimension in Dimension::ALL {
                let Some(limit) = purse.limit.of(dimension) else {
                    continue;
                };
                let calls = Amount::of(&purse.spent).plus(&Amount::of(&purse.reserved)).plus(&held);
                let sum = calls.with(Dimension::Bytes, purse.bytes).get(dimension);
                // What came from a cache, and what was written, is known when it was: only that can be beyond a limit.
                let is_known_late = matches!(dimension, Dimension::TokensCached | Dimension::Bytes);
                let most = if is_known_late { limit.max(sum) } else { limit };
                assert_eq!(sum + purse.free(dimension).unwrap(), most, "{dimension:?} {after}");
            }
        }
    }
    run
}

/// The tokens that were set aside for each task of the first group.
pub(super) fn part_of_task(journal: &[(Timestamp, Event)]) -> u64 {
    let part = journal.iter().find_map(|(_, event)| match event {
        Event::Expanded { set_aside, .. } => set_aside.as_ref().map(|set_aside| set_aside.task.tokens()),
        _ => None,
    });
    part.expect("tokens are limited")
}

fn mixed(seed: u64, node: NodeId, call: u32) -> u64 {
    let text = node.to_string();
    let mut hash = seed ^ 0xcbf2_9ce4_8422_2325;
    for byte in text.bytes().chain(call.to_be_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^ (hash >> 31)
}

/// Titles for tasks, so that no two are alike.
const TITLES: [&str; 6] = [
    "walk through cellars",
    "weigh old stones",
    "paint a door",
    "count swallows",
    "boil water",
    "read letters",
];

fn steps_of(roll: u64) -> Value {
    let task = |n: usize| {
        let mut task = json!({"id": format!("t{n}"), "title": TITLES[n], "criteria": ["done"]});
        match (roll >> n) % 5 {
            0 => task["budget"] = json!({"tokens": 9_000}),
            1 => task["budget"] = json!({"model_calls": 3, "tool_calls": 1}),
            2 => task["optional"] = json!(true),
            3 => task["budget_share"] = json!(0.5),
            _ => {}
        }
        task
    };
    let each = json!({"id": "each", "for_each": [1, 2, 3], "step": {"id": "one", "title": "look at {{ item }}", "criteria": ["seen"]}});
    match roll % 4 {
        0 => json!([task(0), [task(1), task(2), task(3)]]),
        1 => json!([[task(0), task(1), task(2), task(3), task(4)], task(5)]),
        2 => json!([each, task(0)]),
        _ => json!([task(0), {"parallel": [task(1), {"sequence": [task(2), task(3)]}], "on_hard": "cancel"}]),
    }
}

/// A moody model: its answers depend on who asks and on `seed`; it never uses more than was set aside.
pub(super) fn moody(seed: u64, ask: &AskAction) -> ModelAnswer {
    let roll = mixed(seed, ask.node, ask.call);
    let away = |kind| {
        ModelAnswer::Failed(ModelFailure {
            retry_after: Some(Duration::from_secs(roll % 50)),
            ..ModelFailure::new(kind, "away")
        })
    };
    let answer = match roll % 20 {
        0 => return away(ModelFailureKind::RateLimited),
        1 => return away(ModelFailureKind::Unavailable),
        2 => return away(ModelFailureKind::Malformed),
        3 => return away(ModelFailureKind::Refused),
        4 => text_answer("???"),
        _ => match ask.purpose {
            Purpose::Decide | Purpose::Replan if !roll.is_multiple_of(3) => plan_answer(steps_of(roll >> 8)),
            Purpose::Decide | Purpose::Replan => execute("echo", json!({"text": "a"})),
            Purpose::Work if roll.is_multiple_of(3) => finish("done"),
            Purpose::Work => calls_answer(&[
                ("echo", json!({"text": roll})),
                (
                    ["write", "fail"][usize::try_from(roll % 2).unwrap()],
                    json!({"text": roll}),
                ),
            ]),
            Purpose::Judge => verdict_answer(["met", "unmet", "unverifiable"][usize::try_from(roll % 3).unwrap()]),
            Purpose::Aggregate | Purpose::RollUp | Purpose::HandBack => {
                text_answer("{\"notes\": \"all\", \"status\": \"ok\"}")
            }
        },
    };
    let ModelAnswer::Replied { reply, model, .. } = answer else {
        return answer;
    };
    let part = |of: u64| of * (roll >> 20 & 7) / 7;
    let used = (!roll.is_multiple_of(7)).then(|| Spend {
        tokens_in: ask.reserved.tokens_in,
        tokens_cached: part(ask.reserved.tokens_in),
        tokens_out: part(ask.reserved.tokens_out),
        ..Spend::default()
    });
    ModelAnswer::Replied { reply, used, model }
}

impl Sim {
    /// Like [`Sim::derive`], but records every answer as a whole, as drivers do that write it in one commit.
    pub(super) fn derive_whole(&mut self) {
        loop {
            let slots = self.concurrency - self.under_way.len() - self.asking.len();
            let mut is_first = true;
            for action in self.run.due(self.now, slots) {
                match action {
                    Action::Stop(_) => {}
                    _ if !is_first && !self.run.is_still_due(&action) => {}
                    Action::Record(event) if !is_first => drop(self.recorded(event)),
                    action => {
                        self.take(action);
                        is_first = false;
                    }
                }
            }
            if is_first {
                return;
            }
        }
    }

    /// Records `event` unless an earlier record of the same answer made it needless.
    fn recorded(&mut self, event: Event) -> bool {
        let is_allowed = self.run.apply(self.now, &event).is_ok();
        if is_allowed {
            if !self.skips_records {
                self.pages.write(&self.run, &event, self.now);
            }
            self.journal.push((self.now, event));
        }
        is_allowed
    }

    /// Another process resumes the run: nobody saw how the calls under way ended.
    pub(super) fn resumed_by_other_process(self, equipment: Equipment) -> Self {
        Self {
            concurrency: self.concurrency,
            seed: self.seed,
            now: self.now,
            ..Self::resumed_with(&self.journal, equipment, self.model)
        }
    }

    pub(super) fn roll(&mut self) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.seed >> 33
    }

    /// Changes a limit of some part, up or down.
    pub(super) fn change_some_limit(&mut self) {
        let roll = self.roll();
        let with_purse: Vec<NodeId> = self
            .run
            .nodes
            .iter()
            .filter(|node| node.purse.is_some())
            .map(|node| node.id)
            .collect();
        let node = with_purse[usize::try_from(roll).unwrap() % with_purse.len()];
        let limits = match roll % 5 {
            0 => NewLimits::from(Allowance {
                tokens: Some(roll % 90_000),
                ..Allowance::default()
            }),
            4 => NewLimits::from(Allowance {
                bytes: Some(roll % 200_000),
                ..Allowance::default()
            }),
            3 => NewLimits::from(Allowance {
                tokens_cached: Some(roll % 30_000),
                ..Allowance::default()
            }),
            1 => NewLimits::from(Allowance {
                model_calls: Some(roll % 40),
                ..Allowance::default()
            }),
            _ => NewLimits::from(Allowance {
                tool_calls: Some(roll % 20),
                ..Allowance::default()
            }),
        };
        if let Ok(event) = self.run.change_limits(Some(node), limits, "ada", self.now) {
            self.record(event);
        }
    }
}

/// A run under stress: crashes, changing limits, cancelled parts.
pub(super) fn driven_under_stress(goal_extra: &Value, seed: u64, concurrency: usize, storms: bool) -> Sim {
    let mut sim = goal_with("survey the house", goal_extra, equipment(), move |ask| moody(seed, ask));
    sim.seed = seed;
    sim.concurrency = concurrency;
    for _ in 0..20_000 {
        sim.derive_whole();
        if sim.run.result().is_some() {
            return sim;
        }
        match sim.roll() % 24 {
            0 if storms => sim = sim.resumed_by_other_process(equipment()),
            1 | 2 if storms => sim.change_some_limit(),
            3 if storms && seed.is_multiple_of(3) => {
                let at = usize::try_from(sim.roll()).unwrap() % sim.run.nodes.len();
                let node = Some(sim.run.nodes[at].id).filter(|_| at > 0 && !sim.run.nodes[at].is_terminal());
                if node.is_some() {
                    sim.record(Event::CancelRequested {
                        node,
                        by: "ada".to_owned(),
                    });
                }
            }
            _ if sim.end_one() => {}
            _ => sim.now = sim.run.wakes_at().expect("it waits for something"),
        }
    }
    panic!("the run does not end");
}

fn limits() -> impl Strategy<Value = Value> {
    let amount = |most: u64| prop::option::of(0..most);
    let amounts = (
        amount(120_000),
        amount(40),
        amount(20),
        amount(300),
        amount(60_000),
        amount(200_000),
    );
    amounts.prop_map(|(tokens, model_calls, tool_calls, cents, tokens_cached, bytes)| {
        let mut budget = json!({"nodes": 60, "depth": 3});
        for (key, value) in [
            ("tokens", tokens),
            ("model_calls", model_calls),
            ("tool_calls", tool_calls),
            ("tokens_cached", tokens_cached),
            ("bytes", bytes),
        ] {
            if let Some(value) = value {
                budget[key] = json!(value);
            }
        }
        if let Some(cents) = cents {
            budget["usd"] = json!(f64::from(u32::try_from(cents).unwrap()) / 100.0);
        }
        budget
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, ..ProptestConfig::default() })]

    #[test]
    fn budget_accounts_balance_at_every_event_of_random_runs_e9_10(
        budget in limits(), seed: u64, concurrency in 1..7_usize, storms: bool, plan in prop::option::of(properties::plans())
    ) {
        let mut extra = json!({"budget": budget});
        if let Some(plan) = plan {
            extra["steps"] = plan["steps"].clone();
            extra["steps"].as_array_mut().unwrap().push(json!({"parallel": [
                {"id": "last-one", "title": "weigh old stones", "budget_share": 0.3},
                {"id": "last-two", "title": "count swallows", "budget": {"model_calls": 2}},
            ]}));
        }
        let sim = driven_under_stress(&extra, seed, concurrency, storms);
        let run = check_accounts(&sim.journal);
        // In the end nothing is set aside any more.
        for node in &run.nodes {
            prop_assert!(node.held.is_none(), "{} is still set aside something", node.path);
            let purse = node.purse.as_deref().copied().unwrap_or_default();
            prop_assert!(purse.reserved.is_nothing() && purse.held.is_nothing(), "{}: {:?}", node.path, purse);
        }
    }
}

/// Three children that a model decides on and works on, with a limit that is too small for all their calls.
fn three(budget: &Value, late: usize) -> Sim {
    let extra = json!({"budget": budget, "steps": [{"id": "g", "parallel": [
        {"id": "a", "title": "walk through cellars"},
        {"id": "b", "title": "paint a door", "budget": {"model_calls": 3}},
        {"id": "c", "title": "count swallows"},
    ]}]});
    let mut sim = goal_with("survey the house", &extra, equipment(), move |ask| match ask.purpose {
        // One of them does not get an answer at first.
        Purpose::Decide if ask.call == 1 && task_named(ask).len() % 3 == late => {
            ModelAnswer::Failed(ModelFailure::new(ModelFailureKind::Unavailable, "away"))
        }
        Purpose::Decide => execute("echo", json!({"text": "a"})),
        Purpose::Work => finish("done"),
        _ => reply_answer(Reply {
            text: "{\"notes\": \"handed back\"}".to_owned(),
            calls: Vec::new(),
            stop: Stop::Done,
            permissions: Vec::new(),
        }),
    });
    sim.concurrency = 3;
    sim
}

/// Goes through every order in which the calls of `begin` can end; returns how many there are.
fn in_every_order(begin: impl Fn() -> Sim, mut look: impl FnMut(&Sim)) -> usize {
    let (mut orders, mut picks) = (0, Vec::<(usize, usize)>::new());
    loop {
        let (mut sim, mut at) = (begin(), 0);
        loop {
            sim.derive_whole();
            if sim.run.result().is_some() {
                break;
            }
            let choices = sim.under_way.len() + sim.asking.len();
            if choices == 0 {
                sim.now = sim.run.wakes_at().expect("it waits for something");
                continue;
            }
            if at == picks.len() {
                picks.push((0, choices));
            }
            assert_eq!(picks[at].1, choices, "the same order gives the same choices");
            sim.end_nth(picks[at].0);
            at += 1;
        }
        look(&sim);
        orders += 1;
        assert!(orders <= 60_000, "too many orders to go through");
        // The next order: the last choice that has another.
        while picks.last().is_some_and(|(pick, choices)| pick + 1 == *choices) {
            picks.pop();
        }
        match picks.last_mut() {
            Some((pick, _)) => *pick += 1,
            None => return orders,
        }
    }
}

#[test]
fn limits_hold_in_every_completion_order_of_three_branches_e9_10() {
    let mut orders = 0;
    // Nobody is late with remainder 9. With a late answer there are several times as many orders, so that is tried with
    // one budget for each kind of limit.
    for (budget, late) in [
        (json!({"model_calls": 5}), &[0, 9][..]),
        (json!({"model_calls": 7}), &[9]),
        (json!({"tokens": 9_000}), &[0, 9]),
        (json!({"tool_calls": 2}), &[0, 9]),
        (json!({"usd": 0.03, "model_calls": 9}), &[9]),
    ] {
        for late in late {
            let begin = || Sim {
                skips_records: true,
                ..three(&budget, *late)
            };
            orders += in_every_order(begin, |sim| drop(check_accounts(&sim.journal)));
        }
    }
    assert!(orders > 300, "{orders} orders");
}

#[test]
fn simultaneously_due_calls_are_budgeted_one_by_one_e9_10() {
    // Four calls are due at once, and two are allowed besides the one that is kept. The others have nothing to hand back.
    let task = |title: &&str| json!({"title": title, "needs": []});
    let steps: Vec<Value> = TITLES[..4].iter().map(task).collect();
    let extra = json!({"budget": {"model_calls": 3}, "steps": steps});
    let begin = || {
        goal_with("survey the house", &extra, equipment(), |_| {
            execute("finish", json!({"notes": "a"}))
        })
    };
    let mut sim = begin();
    sim.derive_whole();
    assert_eq!(purposes(&sim), [Purpose::Decide, Purpose::Decide]);
    let orders = in_every_order(begin, |sim| drop(check_accounts(&sim.journal)));
    assert!(orders > 1);
}

#[test]
fn group_reserves_budget_for_all_members_before_the_first_begins_e9_10() {
    let mut sim = three(&json!({"tokens": 100_000, "model_calls": 20}), 9);
    sim.concurrency = 1;
    sim.derive_whole();
    let purse = *sim.run.purse().unwrap();
    // One call is under way, with what it may come to; two members have not begun.
    assert_eq!(purse.reserved.model_calls, 1);
    assert_eq!(purse.held.get(Dimension::ModelCalls), 2);
    assert_eq!(
        purse.held.get(Dimension::Tokens),
        3 * part_of_task(&sim.journal) - purse.reserved.tokens()
    );
    let sim = sim.driven_on();
    assert_eq!(root(&sim).status, Outcome::Ok);
    assert!(sim.run.purse().unwrap().held.is_nothing());
}

#[test]
fn budget_reserved_for_a_member_is_unavailable_to_others_e9_10() {
    // The first takes whatever it can get; the second begins when the first has ended.
    let extra = json!({"budget": {"model_calls": 8}, "steps": [{"id": "g", "parallel": [
        {"id": "a", "title": "walk through cellars"},
        {"id": "b", "title": "count swallows"},
    ]}]});
    let mut sim = goal_with("survey the house", &extra, equipment(), |ask| {
        match (ask.purpose, ask.call) {
            (Purpose::Decide, _) if task_named(ask).contains("swallows") => {
                execute("finish", json!({"notes": "seven"}))
            }
            (Purpose::Decide, _) => execute("echo", json!({"text": "a"})),
            (Purpose::Work, call) => calls_answer(&[("echo", json!({"text": call}))]),
            _ => text_answer("{\"notes\": \"what there is\"}"),
        }
    });
    sim.concurrency = 1;
    let sim = sim.driven_on();
    assert_eq!(
        sim.run.node_at("g/a").unwrap().result.unwrap().stop_reason,
        Some(StopReason::BudgetModelCalls)
    );
    assert_eq!(sim.status("g/b"), Outcome::Ok, "its call was kept for it");
    drop(check_accounts(&sim.journal));
}

#[test]
fn scarce_budget_limits_how_many_items_run_at_once_e9_10() {
    let items: Vec<u32> = (0..6).collect();
    let extra = json!({"budget": {"tokens": 9_000}, "steps": [
        {"id": "each", "for_each": items, "step": {"id": "one", "title": "look at {{ item }}"}},
    ]});
    let mut sim = goal_with("survey the house", &extra, equipment(), |ask| match ask.purpose {
        Purpose::Decide => execute("finish", json!({"notes": "seen"})),
        _ => finish("seen"),
    });
    let most = std::rc::Rc::new(std::cell::Cell::new(0));
    sim.concurrency = 6;
    loop {
        sim.derive_whole();
        most.set(most.get().max(sim.asking.len()));
        if sim.run.result().is_some() {
            break;
        }
        assert!(sim.end_one());
    }
    // More than 3,000 tokens for each, of 9,000 without the tenth that is kept.
    assert_eq!(most.get(), 2);
    assert_eq!(root(&sim).status, Outcome::Ok, "{:?}", root(&sim));
    drop(check_accounts(&sim.journal));
}

#[test]
fn group_exceeding_its_budget_fails_before_any_member_begins_e9_10() {
    for (budget, reason) in [
        (json!({"tool_calls": 3}), StopReason::BudgetToolCalls),
        (json!({"tool_calls": 4, "model_calls": 1}), StopReason::BudgetModelCalls),
        (json!({"tokens": 2_000}), StopReason::BudgetTokens),
    ] {
        let mut steps: Vec<Value> = (0..4)
            .map(|n| json!({"id": format!("t{n}"), "do": {"tool": "echo", "args": {}}}))
            .collect();
        steps.push(json!({"id": "m", "title": "count swallows"}));
        let extra = json!({"budget": budget, "steps": [{"id": "g", "parallel": steps}]});
        let sim = goal_with("survey the house", &extra, equipment(), |ask| {
            panic!("{:?}", ask.purpose)
        })
        .driven_on();
        assert!(sim.calls.is_empty(), "{budget}");
        let group = sim.run.node_at("g").unwrap().result.unwrap();
        assert_eq!(group.stop_reason, Some(reason), "{budget}");
        assert!(group.notes.contains("none was begun"), "{}", group.notes);
        let skipped = sim.run.tree().iter().filter(|node| node.depth == 2).count();
        assert_eq!(skipped, 5, "every member has a record of its own");
    }
}

#[test]
fn unreached_model_call_costs_nothing_e9_10() {
    let failing = |kind| {
        let mut sim = goal("say hello", &json!({}), move |ask| match ask.call {
            1 => ModelAnswer::Failed(ModelFailure::new(kind, "away")),
            _ => execute("finish", json!({"notes": "hello"})),
        });
        sim.derive();
        assert!(sim.end_one());
        check_accounts(&sim.journal);
        let spent = sim.run.purse().unwrap().spent;
        assert_eq!(root(&sim.driven_on()).status, Outcome::Ok);
        spent
    };
    assert_eq!(failing(ModelFailureKind::Unreached), Spend::default());
    assert_eq!(
        failing(ModelFailureKind::Unavailable).model_calls,
        1,
        "nobody knows how far it came"
    );
}
