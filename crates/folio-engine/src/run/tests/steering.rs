//! Approval, rejection, and changed limits (E9.10, E9.14).

use super::judged::{answer_question, drive_to_question};
use super::models::{
    equipment, execute, finish, goal_with, house, nested, plan_answer, prompt_text, purposes, root, task_named,
    text_answer,
};
use super::*;
use crate::event::{Always, NewLimits};
use crate::run::{GrantedApproval, RequiredApproval};
use crate::spend::Allowance;
use crate::talk::Purpose;

const TWO: &str = "- parallel:
    - {id: ask, do: {tool: write, args: {to: a}}}
    - {id: free, do: {tool: echo, args: {}}}
- {id: again, do: {tool: write, args: {to: a}}}
- {id: other, do: {tool: write, args: {to: b}}}";

pub(super) fn ask_before_writes() -> Option<ApprovalPolicy> {
    Some(Arc::new(|tool: &str, _: &Value| (tool == "write").into()))
}

fn sim(plan: &str) -> Sim {
    let mut sim = Sim::new(plan);
    sim.run.set_approval_policy(ask_before_writes());
    sim
}

impl Sim {
    pub(super) fn waiting_paths(&self) -> Vec<String> {
        let waiting = self.run.pending_approvals();
        waiting
            .iter()
            .map(|(node, _)| self.run.node(*node).unwrap().path.to_owned())
            .collect()
    }

    pub(super) fn approve_call(&mut self, path: &str, always: Option<Always>) {
        let node = self.run.node_at(path).unwrap().id;
        self.record(Event::CallApproved {
            node,
            always,
            by: "ada".to_owned(),
        });
    }

    pub(super) fn reject_call(&mut self, path: &str) {
        let node = self.run.node_at(path).unwrap().id;
        self.record(Event::CallRejected {
            node,
            reason: "not today".to_owned(),
            by: "ada".to_owned(),
        });
    }

    /// Continues until only people can advance it.
    pub(super) fn settled(&mut self) {
        self.derive();
        while self.end_one() {
            self.derive();
        }
    }
}

#[test]
fn unapproved_call_waits_and_blocks_only_its_dependents_e9_14() {
    let mut sim = sim(TWO);
    sim.settled();
    assert_eq!(sim.waiting_paths(), ["group-1/ask"]);
    assert_eq!(sim.status("group-1/free"), Outcome::Ok, "what runs beside it goes on");
    let (_, PendingApproval::Call(approval)) = sim.run.pending_approvals()[0] else {
        panic!("no call")
    };
    assert_eq!((approval.tool.as_str(), &approval.args), ("write", &json!({"to": "a"})));
    sim.approve_call("group-1/ask", None);
    sim.derive();
    assert_eq!(
        sim.under_way[0].granted,
        GrantedApproval::Call,
        "the tool is told that somebody said yes"
    );
    sim.settled();
    assert_eq!(sim.waiting_paths(), ["again"], "a yes is for one call");
    sim.approve_call("again", None);
    sim.settled();
    sim.approve_call("other", None);
    let sim = sim.driven_on();
    assert_eq!(sim.status(""), Outcome::Ok);
}

#[test]
fn approval_may_cover_the_same_arguments_or_the_whole_tool_e9_14() {
    let mut same = sim(TWO);
    same.settled();
    same.approve_call("group-1/ask", Some(Always::Arguments));
    same.settled();
    assert_eq!(same.waiting_paths(), ["other"]);
    let mut all = sim(TWO);
    all.settled();
    all.approve_call("group-1/ask", Some(Always::Tool));
    // Of the call that it was said of the arguments were seen; of others of the tool they were not.
    let mut leaves = Vec::new();
    loop {
        all.derive();
        leaves.extend(all.under_way.iter().map(|call| (call.args["to"].clone(), call.granted)));
        if !all.end_one() {
            break;
        }
    }
    let expected = [
        ("a", GrantedApproval::Call),
        ("a", GrantedApproval::Tool),
        ("b", GrantedApproval::Tool),
    ];
    assert_eq!(leaves, expected.map(|(to, leave)| (json!(to), leave)));
    let all = all.driven_on();
    assert_eq!(all.status(""), Outcome::Ok);
    // What was allowed stays so, whoever drives the run next.
    let cut = all
        .journal
        .iter()
        .position(|(_, e)| matches!(e, Event::CallApproved { .. }))
        .unwrap();
    for cut in cut + 1..=all.journal.len() {
        let mut resumed = Sim::resumed(&all.journal[..cut]);
        resumed.run.set_approval_policy(ask_before_writes());
        assert_eq!(resumed.driven_on().outcome(), all.outcome(), "cut at {cut}");
    }
}

#[test]
fn approval_of_a_tool_excludes_calls_needing_their_own_e9_14() {
    let write = |to: &str| format!("{{id: {to}, do: {{tool: write, args: {{to: {to}}}}}}}");
    let plan = format!(
        "steps: [{{parallel: [{}, {}, {}]}}]",
        write("a"),
        write("b"),
        write("private")
    );
    let mut sim = Sim::new(&plan);
    sim.run
        .set_approval_policy(Some(Arc::new(|_: &str, args: &Value| match args["to"].as_str() {
            Some("private") => RequiredApproval::ItsOwn,
            _ => RequiredApproval::AnyYes,
        })));
    sim.settled();
    assert_eq!(sim.waiting_paths(), ["group-1/a", "group-1/b", "group-1/private"]);
    sim.approve_call("group-1/a", Some(Always::Tool));
    sim.derive();
    let leaves = sim.under_way.iter().map(|call| (call.args["to"].clone(), call.granted));
    let leaves: Vec<_> = leaves.collect();
    assert_eq!(
        leaves,
        [(json!("a"), GrantedApproval::Call), (json!("b"), GrantedApproval::Tool)]
    );
    sim.settled();
    assert_eq!(sim.waiting_paths(), ["group-1/private"], "it is asked about once more");
    sim.approve_call("group-1/private", None);
    sim.derive();
    assert_eq!(sim.under_way[0].granted, GrantedApproval::Call);
    assert_eq!(sim.driven_on().status(""), Outcome::Ok);
}

#[test]
fn approval_is_held_until_its_call_has_ended_e9_14() {
    let mut once = sim(TWO);
    once.settled();
    assert!(!once.run.has_outstanding_approval());
    once.approve_call("group-1/ask", None);
    once.derive();
    assert!(once.run.has_outstanding_approval(), "while it is under way");
    once.settled();
    assert!(
        !once.run.has_outstanding_approval(),
        "it is done, and the next one waits"
    );
    once.approve_call("again", Some(Always::Arguments));
    once.settled();
    assert!(once.run.has_outstanding_approval(), "it holds for the rest of the run");
}

#[test]
fn approval_of_a_tool_does_not_revive_a_cancelled_call_e9_14() {
    let write = |id: &str| format!("{{id: {id}, do: {{tool: write, args: {{to: {id}}}}}}}");
    let mut sim = sim(&format!(
        "steps: [{{parallel: [{}, {}, {}]}}]",
        write("a"),
        write("b"),
        write("c")
    ));
    sim.settled();
    assert_eq!(sim.waiting_paths(), ["group-1/a", "group-1/b", "group-1/c"]);
    // Whoever drives it has not written down yet that it is stopped.
    let node = Some(sim.run.node_at("group-1/b").unwrap().id);
    sim.record(Event::CancelRequested {
        node,
        by: "ada".to_owned(),
    });
    sim.approve_call("group-1/a", Some(Always::Tool));
    let sim = sim.driven_on();
    assert_eq!(
        ["a", "b", "c"].map(|id| sim.status(&format!("group-1/{id}"))),
        [Outcome::Ok, Outcome::Cancelled, Outcome::Ok]
    );
}

#[test]
fn rejected_call_fails_its_plan_task_hard_e9_14() {
    let mut sim = sim(TWO);
    sim.settled();
    sim.reject_call("group-1/ask");
    let sim = sim.driven_on();
    let ask = sim.run.node_at("group-1/ask").unwrap().result.unwrap();
    assert_eq!(
        (ask.stop_reason, ask.severity),
        (Some(StopReason::PolicyDenied), Some(Severity::Hard))
    );
    assert_eq!(ask.notes, "ada rejected it: not today");
    assert_eq!(sim.status("again"), Outcome::Skipped);
}

#[test]
fn waiting_call_is_denied_when_resumed_without_a_person_e9_14() {
    let mut sim = sim(TWO);
    sim.settled();
    let sim = Sim::resumed(&sim.journal).driven_on();
    let ask = sim.run.node_at("group-1/ask").unwrap().result.unwrap();
    assert_eq!(ask.stop_reason, Some(StopReason::PolicyDenied));
    assert!(sim.calls.is_empty());
}

#[test]
fn model_is_told_of_a_rejected_call_and_goes_on_e9_14() {
    let equipment = Equipment {
        has_person: true,
        ..equipment()
    };
    let mut sim = goal_with("tidy up", &json!({}), equipment, |ask| match ask.purpose {
        Purpose::Decide => execute("write", json!({"text": "x"})),
        _ => finish("left as it was"),
    });
    sim.run.set_approval_policy(ask_before_writes());
    sim.settled();
    assert_eq!(sim.waiting_paths(), ["call-1"]);
    sim.reject_call("call-1");
    let sim = sim.driven_on();
    let told = prompt_text(&sim, 1);
    assert!(
        told.contains("failed (policy_denied). ada rejected it: not today"),
        "{told}"
    );
    assert_eq!(root(&sim).status, Outcome::Partial, "nothing that it called was done");
}

/// A goal whose plan waits for approval.
fn gated(gate: &str, model: impl Fn(&AskAction) -> ModelAnswer + 'static) -> Sim {
    let equipment = Equipment {
        has_person: true,
        ..equipment()
    };
    let mut sim = Sim::empty();
    sim.run.equip(Arc::new(equipment));
    sim.model = Arc::new(model);
    sim.concurrency = 1;
    let mut plan = json!({"version": 1, "title": "survey the house", "goal": "survey the house", "steps": []});
    plan["criteria"] = house()["criteria"].clone();
    sim.record(Event::RunStarted {
        format: FORMAT,
        goal: "survey the house".to_owned(),
        plan,
        inputs: BTreeMap::new(),
        deadline: None,
        run: json!({"plan_gate": gate}),
    });
    sim
}

impl Sim {
    fn root_id(&self) -> NodeId {
        NodeId::root(self.run.id())
    }

    fn approve_plan(&mut self, node: NodeId) {
        let Some(PendingApproval::Plan(version)) = self.run.pending_approval_at(node) else {
            panic!("no plan waits")
        };
        self.record(Event::PlanApproved {
            node,
            version,
            by: "ada".to_owned(),
        });
    }

    fn reject_plan(&mut self, node: NodeId) {
        let Some(PendingApproval::Plan(version)) = self.run.pending_approval_at(node) else {
            panic!("no plan waits")
        };
        self.record(Event::PlanRejected {
            node,
            version,
            reason: "the cellar is locked".to_owned(),
            by: "ada".to_owned(),
        });
    }
}

#[test]
fn gated_plan_begins_no_step_before_its_approval_e9_14() {
    let mut sim = gated("root", nested);
    sim.settled();
    assert_eq!(sim.waiting_paths(), [""]);
    assert_eq!(sim.run.node(sim.root_id()).unwrap().state, NodeState::AwaitingApproval);
    assert_eq!(purposes(&sim), [Purpose::Decide]);
    sim.approve_plan(sim.root_id());
    let sim = sim.driven_on();
    assert_eq!(root(&sim).status, Outcome::Ok);
    let cut = sim
        .journal
        .iter()
        .position(|(_, e)| matches!(e, Event::PlanApproved { .. }))
        .unwrap();
    for cut in cut + 1..=sim.journal.len() {
        let equipment = Equipment {
            has_person: true,
            ..equipment()
        };
        let mut resumed = Sim::resumed_with(&sim.journal[..cut], equipment, Arc::new(nested));
        resumed.concurrency = 1;
        assert_eq!(resumed.driven_on().outcome(), sim.outcome(), "cut at {cut}");
    }
}

#[test]
fn plan_gate_decides_which_plans_wait_for_approval_e9_14() {
    let waits = |gate: &str| {
        let mut sim = gated(gate, nested);
        let mut seen = Vec::new();
        loop {
            sim.settled();
            let Some((node, _)) = sim.run.pending_approvals().first().copied() else {
                break;
            };
            seen.push(sim.run.node(node).unwrap().path.to_owned());
            sim.approve_plan(node);
        }
        assert_eq!(root(&sim).status, Outcome::Ok);
        seen
    };
    assert_eq!(waits("never"), Vec::<String>::new());
    assert_eq!(waits("root"), [""]);
    assert_eq!(waits("depth<=1"), [""]);
    assert_eq!(waits("depth<=2"), ["", "group-2/roof"]);
    assert_eq!(waits("always"), ["", "group-2/roof"]);
    assert_eq!(waits("if_cost>100"), Vec::<String>::new());
    assert_eq!(waits("if_cost>0.0001"), ["", "group-2/roof"]);
    for gate in ["never", "root", "depth<=3", "always", "if_cost>0.500000"] {
        assert_eq!(gate.parse::<PlanGate>().unwrap().to_string(), gate);
    }
    assert!("depth<=x".parse::<PlanGate>().is_err() && "if_cost>".parse::<PlanGate>().is_err());
}

#[test]
fn plan_gate_by_cost_waits_if_a_price_is_unknown_e9_14() {
    let named = |model| NamedExecutor {
        model,
        about: String::new(),
        offered: OfferedTools::default(),
    };
    // Whether the plan of a goal waits, whose second step is for `executor`, if the cost of some calls is unknown.
    let waits = |executor: &'static str, unpriced: &[&str]| {
        let mut equipment = Equipment {
            has_person: true,
            human: Some("at home".to_owned()),
            ..equipment()
        };
        let free = ModelSpec {
            price: None,
            ..equipment.executor.clone()
        };
        equipment
            .executors
            .insert("priced".to_owned(), named(equipment.judge.clone()));
        equipment.executors.insert("free".to_owned(), named(free.clone()));
        if unpriced.contains(&"executor") {
            equipment.executor = free;
        }
        let is_answer_unpriced = unpriced.contains(&"answer");
        let mut sim = goal_with(
            "tidy up",
            &json!({"run": {"plan_gate": "if_cost>100"}}),
            equipment,
            move |_| {
                let step = |id: &str| match executor {
                    "tool" => json!({"id": id, "do": {"tool": "echo", "args": {"text": id}}}),
                    "" => json!({"id": id, "title": format!("clean the {id}"), "criteria": ["clean"]}),
                    name => {
                        json!({"id": id, "title": format!("clean the {id}"), "criteria": ["clean"], "executor": name})
                    }
                };
                let mut answer = plan_answer(json!([step("floor"), step("roof")]));
                if let (true, ModelAnswer::Replied { used: Some(used), .. }) = (is_answer_unpriced, &mut answer) {
                    used.unpriced_calls = 1;
                }
                answer
            },
        );
        sim.derive();
        sim.end_one();
        sim.derive();
        sim.run.node(sim.root_id()).unwrap().state == NodeState::AwaitingApproval
    };
    assert!(!waits("", &[]) && waits("", &["executor"]) && waits("", &["answer"]));
    assert!(!waits("priced", &["executor"]) && waits("free", &[]));
    assert!(!waits("human", &["executor"]) && !waits("tool", &["executor"]));
}

#[test]
fn editing_a_waiting_plan_approves_the_edited_version_e9_14() {
    let mut sim = gated("root", nested);
    sim.settled();
    let shown = sim.run.shown_plan(sim.root_id()).unwrap();
    let text = plan::to_markdown(&shown.steps).replace("- [ ] walk through {#look}", "- [-] walk through {#look}");
    let event = sim
        .run
        .edit_plan(sim.root_id(), &text, None, &Known::default(), "ada")
        .unwrap()
        .unwrap();
    sim.record(event);
    assert!(sim.waiting_paths().is_empty());
    let sim = sim.driven_on();
    assert_eq!(sim.status("look"), Outcome::Skipped);
    assert_eq!(root(&sim).status, Outcome::Ok, "{}", root(&sim).notes);
}

fn another(ask: &AskAction) -> ModelAnswer {
    match (ask.purpose, task_named(ask).as_str()) {
        (Purpose::Replan, _) => text_answer(
            &json!({"root_cause": "it is locked", "changes": "only the roof", "steps": [
                {"id": "ladder", "title": "fetch a ladder", "criteria": ["it stands"]},
                {"id": "top", "title": "look at the top", "criteria": ["seen"], "satisfies": ["c1"]}]})
            .to_string(),
        ),
        (Purpose::Work, "survey the house") => finish("seen from outside"),
        _ => nested(ask),
    }
}

#[test]
fn rejected_plan_leads_to_one_replan_and_then_direct_work_e9_8() {
    let mut sim = gated("root", another);
    sim.settled();
    sim.reject_plan(sim.root_id());
    sim.settled();
    assert_eq!(purposes(&sim), [Purpose::Decide, Purpose::Replan]);
    assert!(
        prompt_text(&sim, 1).contains("ada: the cellar is locked"),
        "{}",
        prompt_text(&sim, 1)
    );
    assert_eq!(
        sim.status("look"),
        Outcome::Skipped,
        "the steps of the rejected plan are not begun"
    );
    assert_eq!(sim.waiting_paths(), [""], "the other plan waits, too");
    let mut approved = Sim::resumed_with(
        &sim.journal,
        Equipment {
            has_person: true,
            ..equipment()
        },
        Arc::new(another),
    );
    approved.approve_plan(approved.root_id());
    let approved = approved.driven_on();
    assert_eq!(
        (root(&approved).status, approved.status("top")),
        (Outcome::Ok, Outcome::Ok)
    );
    sim.reject_plan(sim.root_id());
    let sim = sim.driven_on();
    assert_eq!(sim.asks[2].purpose, Purpose::Work, "no third plan");
    assert_eq!(
        (root(&sim).status, root(&sim).notes.as_str()),
        (Outcome::Ok, "seen from outside")
    );
}

#[test]
fn rejected_plan_without_replans_left_leads_to_direct_work_e9_8() {
    let mut sim = gated("root", another);
    sim.run.limits.replans_max = 0;
    sim.settled();
    sim.reject_plan(sim.root_id());
    let sim = sim.driven_on();
    assert_eq!(
        purposes(&sim),
        [Purpose::Decide, Purpose::Work, Purpose::Judge],
        "no other plan is asked for"
    );
    assert_eq!(
        (root(&sim).status, root(&sim).notes.as_str()),
        (Outcome::Ok, "seen from outside")
    );
}

#[test]
fn waiting_plan_without_a_person_ends_with_needs_input_e9_14() {
    let mut sim = gated("root", nested);
    sim.settled();
    let sim = Sim::resumed_with(&sim.journal, equipment(), Arc::new(nested)).driven_on();
    let result = root(&sim);
    assert_eq!(
        (result.status, result.severity, result.stop_reason),
        (Outcome::Failed, Some(Severity::Soft), Some(StopReason::NeedsInput))
    );
    assert_eq!(
        (purposes(&sim), sim.calls.len()),
        (Vec::new(), 0),
        "its steps are not begun"
    );
}

#[test]
fn raised_limit_continues_a_task_during_its_hand_back_e9_10() {
    let model = |ask: &AskAction| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"n": 1})),
        Purpose::Work if ask.messages.len() < 6 => models::calls_answer(&[("echo", json!({"n": ask.call}))]),
        Purpose::Work => finish("counted"),
        Purpose::HandBack => text_answer("{\"notes\": \"some\"}"),
        other => panic!("{other:?}"),
    };
    let extra = json!({"budget": {"model_calls": 3}});
    let mut sim = goal_with("count", &extra, equipment(), model);
    sim.concurrency = 1;
    while purposes(&sim).last() != Some(&Purpose::HandBack) {
        sim.derive();
        if purposes(&sim).last() != Some(&Purpose::HandBack) {
            assert!(sim.end_one());
        }
    }
    let refused = sim.run.change_limits(
        None,
        NewLimits::from(Allowance {
            model_calls: Some(2),
            ..Allowance::default()
        }),
        "ada",
        sim.now,
    );
    assert!(
        matches!(refused, Err(LimitError::Used { wanted: 2, used: 3, .. })),
        "{refused:?}"
    );
    let event = sim.run.change_limits(
        None,
        NewLimits::from(Allowance {
            model_calls: Some(30),
            ..Allowance::default()
        }),
        "ada",
        sim.now,
    );
    sim.record(event.unwrap());
    let raised = sim.journal.len();
    let sim = sim.driven_on();
    assert_eq!((root(&sim).status, root(&sim).notes.as_str()), (Outcome::Ok, "counted"));
    for cut in raised..=sim.journal.len() {
        let mut resumed = Sim::resumed_with(&sim.journal[..cut], equipment(), Arc::new(model));
        resumed.concurrency = 1;
        let resumed = resumed.driven_on();
        assert_eq!(root(&resumed).notes, "counted", "cut at {cut}");
    }
}

#[test]
fn raised_limit_can_be_reached_again_e9_10() {
    let model = |ask: &AskAction| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"n": 1})),
        Purpose::Work => models::calls_answer(&[("echo", json!({"n": ask.call}))]),
        Purpose::HandBack => text_answer("{\"notes\": \"some\"}"),
        other => panic!("{other:?}"),
    };
    let mut sim = goal_with("count", &json!({"budget": {"model_calls": 3}}), equipment(), model);
    sim.concurrency = 1;
    while purposes(&sim).last() != Some(&Purpose::HandBack) {
        sim.derive();
        if purposes(&sim).last() != Some(&Purpose::HandBack) {
            assert!(sim.end_one());
        }
    }
    let more = NewLimits::from(Allowance {
        model_calls: Some(6),
        ..Allowance::default()
    });
    let event = sim.run.change_limits(None, more, "ada", sim.now);
    sim.record(event.unwrap());
    let sim = sim.driven_on();
    let reached = sim.journal.iter().filter(|(_, event)| event.name() == "spent");
    assert_eq!(reached.count(), 2);
    assert_eq!(root(&sim).stop_reason, Some(StopReason::BudgetModelCalls));
}

#[test]
fn impossible_limit_changes_are_refused_and_valid_ones_apply_e9_10() {
    let mut sim = Sim::new(TWO);
    sim.derive();
    let node = sim.run.node_at("again").unwrap().id;
    let tokens = NewLimits::from(Allowance {
        tokens: Some(5),
        ..Allowance::default()
    });
    assert!(matches!(
        sim.run.change_limits(Some(node), tokens, "ada", sim.now),
        Err(LimitError::None { .. })
    ));
    let nodes = NewLimits {
        nodes: Some(2),
        ..NewLimits::default()
    };
    assert!(matches!(
        sim.run.change_limits(None, nodes, "ada", sim.now),
        Err(LimitError::Used { what: "nodes", .. })
    ));
    let over = NewLimits {
        deadline: Some(sim.now),
        ..NewLimits::default()
    };
    assert!(matches!(
        sim.run.change_limits(None, over, "ada", sim.now),
        Err(LimitError::Past { .. })
    ));
    let longer = NewLimits {
        nodes: Some(900),
        deadline: Some(sim.now.plus(Duration::from_secs(9))),
        ..NewLimits::default()
    };
    let event = sim.run.change_limits(None, longer, "ada", sim.now).unwrap();
    sim.record(event);
    assert_eq!(sim.run.limits().nodes_max, 900);
    assert_eq!(sim.run.wakes_at(), longer.deadline);
}

#[test]
fn output_larger_than_output_bytes_ends_its_task_e9_10() {
    let sim = Sim::new("budget: {output_bytes: 20}\nsteps:\n  - {id: small, do: {tool: echo, args: {a: 1}}}\n  - {id: large, do: {tool: echo, args: {a: 'a text that is too long'}}}")
        .driven_on();
    assert_eq!(sim.status("small"), Outcome::Ok);
    let large = sim.run.node_at("large").unwrap().result.unwrap();
    assert_eq!(large.stop_reason, Some(StopReason::BudgetBytes));
}

#[test]
fn same_question_of_two_tasks_is_asked_once_e9_14() {
    let mut equipment = equipment();
    equipment.has_person = true;
    let mut sim = goal_with("paint", &json!({}), equipment, |ask| {
        let task = task_named(ask);
        let asks = |question: &str| execute("ask_person", json!({"question": question, "default": "green"}));
        match (ask.purpose, task.as_str()) {
            (Purpose::Decide, "paint") => plan_answer(json!([
                [{"id": "door", "title": "the door", "criteria": ["x"]}, {"id": "wall", "title": "a wall", "criteria": ["x"]}]
            ])),
            (Purpose::Decide, "the door") => asks("Which  Colour?"),
            (Purpose::Decide, _) => asks("which colour?"),
            (Purpose::Work, task) => {
                let said = &ask.messages.last().unwrap().text;
                finish(&format!("{task}: {}", said.lines().next().unwrap()))
            }
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    });
    let (node, _) = drive_to_question(&mut sim).unwrap();
    while sim.end_one() {
        sim.derive();
    }
    let waiting = sim
        .journal
        .iter()
        .filter(|(_, event)| event.name() == "questioned")
        .count();
    assert_eq!((waiting, sim.run.questions().len()), (2, 1));
    answer_question(&mut sim, node, "red");
    assert_eq!(drive_to_question(&mut sim), None);
    for (path, notes) in [("group-1/door", "the door: red"), ("group-1/wall", "a wall: red")] {
        let found = sim.run.node_at(path).unwrap().result.unwrap();
        assert!(found.notes.starts_with(notes), "{}", found.notes);
    }
}

#[test]
fn approved_call_waiting_for_a_resource_needs_no_input_e9_19() {
    let mut sim = sim(TWO);
    sim.run
        .set_declared_writes(Some(Arc::new(|_, _| vec!["desk".to_owned()])));
    sim.derive();
    let stands = |sim: &Sim| sim.run.node_at("group-1/ask").unwrap().state;
    assert_eq!(stands(&sim), NodeState::WaitingInput);
    assert_eq!(sim.under_way.len(), 1, "what it is to write is being written");
    sim.approve_call("group-1/ask", None);
    sim.derive();
    assert_eq!((stands(&sim), sim.under_way.len()), (NodeState::Created, 1));
    sim.end_one();
    sim.derive();
    assert_eq!(stands(&sim), NodeState::Executing);
    assert_eq!(sim.waiting_paths(), Vec::<String>::new());
}

#[test]
fn hard_failure_skips_calls_waiting_for_approval_or_a_resource_e9_5() {
    const PLAN: &str = "- parallel:
    - {id: ask, do: {tool: write, args: {to: a}}}
    - {id: allowed, do: {tool: write, args: {to: b}}}
    - {id: bad, do: {tool: deny, args: {}}}";
    let mut sim = sim(PLAN);
    sim.run
        .set_declared_writes(Some(Arc::new(|_, _| vec!["desk".to_owned()])));
    sim.derive();
    sim.approve_call("group-1/allowed", None);
    sim.derive();
    assert_eq!(sim.waiting_paths(), ["group-1/ask"]);
    let sim = sim.driven_on();
    let ended = ["ask", "allowed", "bad"].map(|slug| sim.status(&format!("group-1/{slug}")));
    assert_eq!(ended, [Outcome::Skipped, Outcome::Skipped, Outcome::Failed]);
    assert_eq!(sim.waiting_paths(), Vec::<String>::new());
}

#[test]
fn old_journal_with_call_begun_after_hard_failure_folds_e9_9() {
    let mut sim = sim(TWO);
    sim.derive();
    sim.approve_call("group-1/ask", None);
    let ask = sim.run.node_at("group-1/ask").unwrap().id;
    let free = sim.run.node_at("group-1/free").unwrap().id;
    sim.record(Event::Finished {
        node: free,
        result: Box::new(crate::NodeResult::failed(
            Severity::Hard,
            StopReason::PolicyDenied,
            "no",
        )),
    });
    // As an earlier version went on.
    sim.record(Event::Started {
        node: ask,
        attempt: 1,
        call: "write to=a".to_owned(),
        writes: Vec::new(),
        limits: None,
    });
    assert_eq!(sim.run.node(ask).unwrap().state, NodeState::Executing);
    sim.under_way.clear();
    sim.derive();
    assert!(sim.run.node(ask).unwrap().result.is_none(), "it is at work");
}
