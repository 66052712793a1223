//! References of results: to what a step did, and to what it was given (E9.7).

use super::models::*;
use super::*;
use crate::talk::Purpose;

/// A plan whose step `a` names a file from one of its calls. The answer of `last`, which has `needs` if given, names
/// that file, the call of `a`, and `a`. Returns what of that becomes its evidence, and its notes.
fn cited(needs: &str, group: bool) -> (Vec<(String, String)>, String) {
    let step = |id: &str, needs: &str| format!("{{id: {id}, title: do {id}, criteria: [done]{needs}}}");
    let steps = match group {
        true => format!(
            "[{{id: g, parallel: [{}, {}]}}, {}]",
            step("a", ""),
            step("b", ""),
            step("last", needs)
        ),
        false => format!("[{}, {}, {}]", step("a", ""), step("b", ""), step("last", needs)),
    };
    let ids = Arc::new(std::sync::Mutex::new(Vec::<String>::new()));
    let known = Arc::clone(&ids);
    let mut sim = Sim::new(&format!("steps: {steps}"));
    sim.run.equip(Arc::new(equipment()));
    sim.model = Arc::new(move |ask| {
        let finished = |notes: &str, evidence: Value| {
            calls_answer(&[("finish", json!({"status": "ok", "notes": notes, "evidence": evidence}))])
        };
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Judge, _) => verdict_answer("met"),
            (Purpose::Decide, "do a") => execute("echo", json!({"text": "files"})),
            (_, "do a") => finished("looked", json!([{"kind": "file", "id": "a.rs"}])),
            (Purpose::Decide, "do last") => {
                let known = known.lock().unwrap();
                let named = known.iter().map(|id| json!({"kind": "node", "id": id}));
                let all: Vec<Value> = named.chain([json!({"kind": "file", "id": "a.rs"})]).collect();
                execute("finish", json!({"status": "ok", "notes": "so", "evidence": all}))
            }
            (Purpose::Decide, _) => execute("finish", json!({"status": "ok", "notes": "nothing"})),
            (purpose, task) => panic!("{purpose:?} of {task}"),
        }
    });
    for _ in 0..100 {
        sim.derive();
        if let Some(call) = sim.under_way.iter().position(|call| call.tool == "echo") {
            let node = sim.under_way.remove(call).node;
            let evidence = vec![crate::Evidence {
                kind: "file".to_owned(),
                id: "a.rs".to_owned(),
                hash: None,
                span: None,
            }];
            let answer = CallOutcome::Answered(CallAnswer {
                evidence,
                ..CallAnswer::default()
            });
            let ended = sim.run.conclude(node, answer, Duration::ZERO, sim.now);
            sim.record(ended);
            let a = sim.run.node(node).unwrap().parent.unwrap();
            ids.lock().unwrap().extend([node.to_string(), a.to_string()]);
        } else if !sim.end_one() {
            break;
        }
    }
    let result = sim.run.node_at("last").unwrap().result.unwrap();
    let kinds = result
        .evidence
        .iter()
        .map(|evidence| (evidence.kind.clone(), evidence.id.clone()));
    let mut ids = ids.lock().unwrap().clone();
    ids.push("a.rs".to_owned());
    let named = kinds.map(|(kind, id)| (kind, format!("{}", ids.iter().position(|known| *known == id).unwrap())));
    (named.collect(), result.notes.clone())
}

#[test]
fn step_evidence_cites_only_steps_it_waited_for_e9_7() {
    let all = [("tool_call", "0"), ("node", "1"), ("file", "2")].map(|(kind, id)| (kind.to_owned(), id.to_owned()));
    for (needs, group) in [
        ("", false),
        (", needs: [a]", false),
        ("", true),
        (", needs: [g]", true),
        (", needs: [a]", true),
    ] {
        let (evidence, notes) = cited(needs, group);
        assert_eq!(evidence, all, "{needs} {group}");
        assert_eq!(notes, "so", "{needs} {group}");
    }
    // What it does not wait for, it was not given.
    for group in [false, true] {
        let (evidence, notes) = cited(", needs: [b]", group);
        assert_eq!(evidence, [], "{group}");
        assert!(notes.contains("3 references to unknown evidence"), "{notes}");
    }
}

#[test]
fn unknown_evidence_among_thousands_is_counted_and_known_evidence_kept_e9_7() {
    let mut sim = goal("look around", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "files"})),
        _ => {
            let made_up = (0..10_000).map(|n| json!({"kind": "file", "id": format!("no-{n}.rs")}));
            let known = [
                json!({"kind": "file", "id": "a.rs"}),
                json!({"kind": "file", "id": "a.rs"}),
            ];
            let all: Vec<Value> = made_up.chain(known).chain([json!("nothing")]).collect();
            calls_answer(&[("finish", json!({"status": "ok", "notes": "looked", "evidence": all}))])
        }
    });
    while sim.under_way.is_empty() {
        sim.derive();
        if sim.under_way.is_empty() {
            assert!(sim.end_one());
        }
    }
    let a = crate::Evidence {
        kind: "file".to_owned(),
        id: "a.rs".to_owned(),
        hash: None,
        span: None,
    };
    let answer = CallOutcome::Answered(CallAnswer {
        evidence: vec![a.clone()],
        ..CallAnswer::default()
    });
    let call = sim.under_way.remove(0).node;
    let ended = sim.run.conclude(call, answer, Duration::ZERO, sim.now);
    sim.record(ended);
    let sim = sim.driven_on();
    assert_eq!(root(&sim).evidence, [a]);
    let notes = &root(&sim).notes;
    assert!(notes.contains("10001 references to unknown evidence"), "{notes}");
}
