//! Tasks that are done directly because no plan was approved: the rejected plans no longer count (E9.8, E9.14).

use super::models::*;
use super::*;
use crate::result::Finding;
use crate::run::PendingApproval;
use crate::talk::Purpose;

fn attended() -> Equipment {
    Equipment {
        has_person: true,
        ..equipment()
    }
}

fn two_steps(name: &str) -> Value {
    json!([
        {"id": format!("{name}a"), "title": format!("look at {name} walls"), "criteria": ["seen"], "satisfies": ["c1"]},
        {"id": format!("{name}b"), "title": format!("climb the {name} roof"), "criteria": ["seen"], "satisfies": ["c2"]},
    ])
}

/// A task whose plans a person has rejected twice. `model` says what is done then; `task` adds to its definition.
fn rejected(task: &Value, model: impl Fn(&AskAction) -> ModelAnswer + 'static) -> Sim {
    let mut step = json!({"id": "house", "title": "survey the house", "criteria": [
        {"id": "c1", "text": "walls are told of"}, {"id": "c2", "text": "the roof is told of"},
    ]});
    for (key, value) in task.as_object().unwrap() {
        step[key] = value.clone();
    }
    let extra = json!({"run": {"plan_gate": "always"}, "steps": [step]});
    let mut sim = goal_with("a house", &extra, attended(), move |ask| match ask.purpose {
        Purpose::Decide => plan_answer(two_steps("one")),
        Purpose::Replan => text_answer(
            &json!({"root_cause": "x", "changes": "y", "steps": two_steps(&format!("no{}", ask.call))}).to_string(),
        ),
        _ => model(ask),
    });
    for _ in 0..2 {
        sim.settled();
        let Some((node, PendingApproval::Plan(version))) = sim.run.pending_approvals().first().copied() else {
            panic!("no plan waits")
        };
        sim.record(Event::PlanRejected {
            node,
            version,
            reason: "nobody climbs".to_owned(),
            by: "ada".to_owned(),
        });
    }
    sim
}

/// Looks at the walls, and at the roof once a judge finds that it is missing.
fn walls_first(ask: &AskAction) -> ModelAnswer {
    let has_read = |what: &str| ask.messages.iter().any(|message| message.text.contains(what));
    match ask.purpose {
        Purpose::Work if ask.call == 3 => calls_answer(&[("echo", json!({"text": "walls"}))]),
        Purpose::Work if has_read("c2 (the roof is told of) is not met") => finish("walls and roof"),
        Purpose::Work => finish("walls alone"),
        Purpose::Judge => {
            let roof = if has_read("walls and roof") { "met" } else { "unmet" };
            let verdicts =
                json!([{"criterion": "c1", "finding": "met"}, {"criterion": "c2", "finding": roof, "gap": "the roof"}]);
            text_answer(&json!({"verdicts": verdicts}).to_string())
        }
        purpose => panic!("{purpose:?}"),
    }
}

fn house(sim: &Sim) -> &crate::NodeResult {
    sim.run.node_at("house").unwrap().result.unwrap()
}

#[test]
fn direct_work_with_unmet_criteria_is_repeated_once_e9_8() {
    let mut sim = rejected(&json!({}), walls_first);
    let from = sim.journal.len();
    sim = sim.driven_on();
    let (work, judge) = (Purpose::Work, Purpose::Judge);
    assert_eq!(
        purposes(&sim)[2..],
        [work, work, judge, work, judge],
        "no third plan is asked for"
    );
    assert_eq!(
        (house(&sim).status, house(&sim).notes.as_str()),
        (Outcome::Ok, "walls and roof")
    );
    assert!(house(&sim).verdicts.iter().all(|v| v.finding == Finding::Met));
    // It gave none, and steps that never began are none.
    assert_eq!(house(&sim).evidence, []);
    // Whoever takes it up at any of these moments comes to the same, also where an earlier version left it.
    for cut in from..sim.journal.len() {
        let resumed = Sim::resumed_with(&sim.journal[..cut], attended(), Arc::clone(&sim.model)).driven_on();
        assert_eq!(house(&resumed).notes, "walls and roof", "cut at {cut}");
    }
}

#[test]
fn direct_work_unmet_twice_fails_without_a_third_plan_e9_8() {
    let sim = rejected(&json!({}), |ask| match ask.purpose {
        Purpose::Work => finish("walls alone"),
        _ => {
            let verdicts = json!([{"criterion": "c1", "finding": "met"}, {"criterion": "c2", "finding": "unmet", "gap": "the roof"}]);
            text_answer(&json!({"verdicts": verdicts}).to_string())
        }
    })
    .driven_on();
    assert_eq!(
        (house(&sim).status, house(&sim).stop_reason),
        (Outcome::Failed, Some(StopReason::CriteriaUnmet))
    );
    assert_eq!(
        purposes(&sim)
            .iter()
            .filter(|purpose| **purpose == Purpose::Replan)
            .count(),
        1
    );
}

#[test]
fn direct_work_stopped_by_a_limit_keeps_calls_as_evidence_e9_10() {
    // Two plans, one call for the work, and one that is kept for the end.
    let sim = rejected(&json!({"budget": {"model_calls": 4}}), |ask| match ask.purpose {
        Purpose::Work => calls_answer(&[("echo", json!({"text": "walls"}))]),
        _ => ModelAnswer::Failed(ModelFailure::new(ModelFailureKind::Refused, "no")),
    })
    .driven_on();
    assert_eq!(purposes(&sim).last(), Some(&Purpose::HandBack));
    let (result, call) = (house(&sim), sim.run.node_at("house/call-1").unwrap().id.to_string());
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Partial, Some(StopReason::BudgetModelCalls)),
        "{}",
        result.notes
    );
    assert!(
        result.notes.contains("1 ok") && !result.notes.contains("skipped"),
        "{}",
        result.notes
    );
    let evidence: Vec<&str> = result.evidence.iter().map(|evidence| evidence.id.as_str()).collect();
    assert_eq!(evidence, [call]);
}

#[test]
fn direct_work_stopped_by_its_deadline_is_partial_e9_10() {
    let mut sim = rejected(&json!({"budget": {"deadline": "100s"}}), |ask| match ask.call {
        3 => calls_answer(&[("echo", json!({"text": "walls"}))]),
        _ => ModelAnswer::Stopped { used: None },
    });
    while sim.asks.len() < 4 {
        sim.derive();
        assert!(sim.asks.len() == 4 || sim.end_one());
    }
    sim.now = sim.now.plus(Duration::from_secs(100));
    let sim = sim.driven_on();
    assert_eq!(
        (house(&sim).status, house(&sim).stop_reason),
        (Outcome::Partial, Some(StopReason::Deadline)),
        "{}",
        house(&sim).notes
    );
    let call = sim.run.node_at("house/call-1").unwrap().id.to_string();
    let evidence: Vec<&str> = house(&sim)
        .evidence
        .iter()
        .map(|evidence| evidence.id.as_str())
        .collect();
    assert_eq!(evidence, [call], "what its call came to is kept");
}
