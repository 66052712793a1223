//! The published schema of plans accepts what the reader accepts, and refuses what it refuses.

use folio_engine::plan::{Known, parse, schema};
use serde_json::Value;

/// Plans, without the steps that each needs, as `KEYS`.
const RIGHT_PLANS: &[&str] = &[
    r#""version": 1"#,
    r#""version": 1.0"#,
    r#""version": null, "title": null, "goal": null, "description": null, "inputs": null, "criteria": null"#,
    r#""budget": null, "report": null, "output": null"#,
    r#""inputs": {"a": null, "b": {"type": null, "description": null, "default": null}}"#,
    r#""report": {"title": null, "body": "x"}"#,
    r#""budget": {"depth": null, "nodes": null, "concurrency": null, "deadline": null, "tokens": null, "usd": null}"#,
    r#""budget": {"children": 4294967295, "fan_in": 2.0, "tokens": 18446744073709551615, "usd": 1000000000}"#,
    r#""budget": {"deadline": "1h30m"}"#,
    r#""budget": {"deadline": "1h 30m 5ms"}"#,
    r#""budget": {"deadline": ".5s"}"#,
    r#""budget": {"deadline": "+90"}"#,
    r#""budget": {"deadline": 315360000}"#,
    r#""criteria": [{"id": null, "text": "a", "check": null, "required": null}]"#,
    r#""criteria": [{"text": null, "check": {"command": ["true"]}}]"#,
    r#""criteria": [{"check": {"command": {"argv": ["true"], "exit": null}}}]"#,
    r#""criteria": [{"check": {"command": {"argv": ["true"], "exit": -2147483648}}}]"#,
    r#""criteria": [{"check": {"command": {"argv": ["true"], "exit": 1.0}}}]"#,
    r#""criteria": [{"check": {"regex": {"pattern": "a", "of": null}}}]"#,
    r#""criteria": [{"check": {"json_schema": {"schema": true, "of": null}}}]"#,
];

const WRONG_PLANS: &[&str] = &[
    r#""version": 2"#,
    r#""version": 1.5"#,
    r#""version": "1""#,
    r#""report": {"title": "t", "body": ""}"#,
    r#""report": {"body": null}"#,
    r#""inputs": {"a b": null}"#,
    r#""budget": {"children": 4294967296}"#,
    r#""budget": {"children": 1.5}"#,
    r#""budget": {"concurrency": 0}"#,
    r#""budget": {"tokens": -1}"#,
    r#""budget": {"usd": 1000000001}"#,
    r#""budget": {"deadline": 315360001}"#,
    r#""budget": {"deadline": -1}"#,
    r#""budget": {"deadline": "30 s"}"#,
    r#""budget": {"deadline": "1.2.3s"}"#,
    r#""budget": {"deadline": "0.5ms"}"#,
    r#""budget": {"deadline": ""}"#,
    r#""criteria": [""]"#,
    r#""criteria": [null]"#,
    r#""criteria": [{"text": null, "check": "judge"}]"#,
    r#""criteria": [{"text": "a", "check": {"command": null}}]"#,
    r#""criteria": [{"text": "a", "check": {"command": "true"}}]"#,
    r#""criteria": [{"check": {"command": {"argv": ["true"], "exit": 2147483648}}}]"#,
    r#""criteria": [{"check": {"command": {"argv": ["true"], "exit": 1.5}}}]"#,
    r#""criteria": [{"check": {"json_schema": {"schema": null}}}]"#,
];

const RIGHT_STEPS: &[&str] = &[
    r#"{"id": null, "title": "Look around"}"#,
    r#"{"id": "a", "title": null, "description": null, "reason": null, "criteria": null, "satisfies": null}"#,
    r#"{"id": "a", "needs": null, "executor": null, "optional": null, "atomic": null, "do": null, "plan": null}"#,
    r#"{"id": "a", "observe": null, "retry": null, "timeout": null, "budget": null, "budget_share": null}"#,
    r#"{"id": 7}"#,
    r#"{"id": 7.0}"#,
    r#"{"description": "Look around"}"#,
    r#"{"id": "a", "do": null, "plan": ["b"]}"#,
    r#"{"id": "a", "plan": {"steps": ["b"], "output": null}, "retry": null, "timeout": null}"#,
    r#"{"id": "a", "do": {"tool": "wait", "args": null}}"#,
    r#"{"id": "a", "do": {"tool": "wait"}, "retry": 3.0}"#,
    r#"{"id": "a", "do": {"tool": "wait"}, "retry": {"max_attempts": null, "delay": null, "factor": null}}"#,
    r#"{"id": "a", "do": {"tool": "wait"}, "retry": 4294967295}"#,
    r#"{"id": "a", "do": {"tool": "wait"}, "timeout": 0.5}"#,
    r#"{"id": "a", "budget_share": 1}"#,
    r#"{"id": "a", "tools": ["grep", "desk.*"]}"#,
    r#"{"id": "a", "tools": []}"#,
    r#"{"id": "a", "tools": null}"#,
    r#"{"id": "a", "tools": "grep"}"#,
    r#"{"parallel": ["a"], "tools": ["grep"]}"#,
    r#"{"sequence": ["a"], "tools": ["grep"]}"#,
    r#"{"id": "a", "for_each": [1], "tools": ["grep"]}"#,
    r#"{"id": "a", "observe": {"type": "t", "content": "c", "confidence": null, "tags": null, "ttl_minutes": null}}"#,
    r#"{"id": "a", "observe": {"type": "t", "content": "c", "context": null, "for_each": null, "when": null}}"#,
    r#"{"id": "a", "observe": {"type": "t", "content": "c", "ttl_minutes": 525600}}"#,
    r#"{"parallel": ["a", "b"], "id": null, "title": null, "on_hard": null, "join": null, "optional": null}"#,
    r#"{"parallel": ["a", "b"], "join": "quorum( +2 )"}"#,
    r#"{"parallel": ["a", "b"], "join": {"quorum": 2}}"#,
    r#"{"sequence": ["a"], "id": null, "title": null, "optional": null}"#,
    r#"{"id": "a", "for_each": [1], "step": "b", "as": null, "max_items": null, "on_item": null, "concurrency": null}"#,
    r#"{"id": "a", "for_each": [1], "step": "b", "do": null, "plan": null, "criteria": null, "needs": null}"#,
    r#"{"id": "a", "for_each": [1], "step": null, "do": {"tool": "wait"}}"#,
    r#"{"id": "a", "for_each": [1], "reason": "b"}"#,
    r#"{"id": "a", "for_each": [1], "step": "b", "max_items": 10000}"#,
];

const WRONG_STEPS: &[&str] = &[
    r#"{"id": null}"#,
    r#"{"title": null}"#,
    r#"{"id": 7.5}"#,
    r#"{"id": -7}"#,
    r#"{"id": "a", "task_id": null}"#,
    r#"{"id": "a", "criteria": ["b"], "success_criteria": null}"#,
    r#"{"description": "Look\naround"}"#,
    r#"{"id": "a", "needs": [null]}"#,
    r#"{"id": "a", "do": {"tool": null}}"#,
    r#"{"id": "a", "do": {"tool": "wait"}, "plan": ["b"]}"#,
    r#"{"id": "a", "atomic": true, "plan": ["b"]}"#,
    r#"{"id": "a", "plan": {"steps": null}}"#,
    r#"{"id": "a", "plan": ["b"], "timeout": 5}"#,
    r#"{"id": "a", "retry": 3}"#,
    r#"{"id": "a", "do": {"tool": "wait"}, "retry": 0}"#,
    r#"{"id": "a", "do": {"tool": "wait"}, "retry": 4294967296}"#,
    r#"{"id": "a", "do": {"tool": "wait"}, "timeout": 0}"#,
    r#"{"id": "a", "do": {"tool": "wait"}, "timeout": "0s"}"#,
    r#"{"id": "a", "budget_share": 0}"#,
    r#"{"id": "a", "tools": 1}"#,
    r#"{"id": "a", "tools": [1]}"#,
    r#"{"id": "a", "for_each": [1], "step": "b", "tools": ["grep"]}"#,
    r#"{"id": "a", "observe": {"type": "t", "content": null}}"#,
    r#"{"id": "a", "observe": {"type": "t", "content": "c", "ttl_minutes": 0}}"#,
    r#"{"id": "a", "observe": {"type": "t", "content": "c", "ttl_minutes": 525601}}"#,
    r#"{"parallel": null}"#,
    r#"{"parallel": []}"#,
    r#"{"sequence": null}"#,
    "[]",
    r#"{"parallel": ["a", "b"], "join": "quorum(0)"}"#,
    r#"{"parallel": ["a", "b"], "join": {"quorum": null}}"#,
    r#"{"id": "a", "for_each": null, "step": "b"}"#,
    r#"{"id": "a", "for_each": [1], "step": null}"#,
    r#"{"id": "a", "for_each": [1], "step": "b", "reason": "c"}"#,
    r#"{"id": "a", "for_each": [1], "step": "b", "body": null}"#,
    r#"{"id": "a", "for_each": [1], "step": "b", "as": "loop"}"#,
    r#"{"id": "a", "for_each": [1], "step": "b", "max_items": 10001}"#,
    "null",
    "\"\"",
];

#[test]
fn plan_schema_and_reader_agree() {
    let schema: Value = serde_json::from_str(schema()).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let plan = |keys: &&str| format!(r#"{{"steps": ["a"], {keys}}}"#);
    let step = |step: &&str| format!(r#"{{"steps": [{step}]}}"#);
    let right = RIGHT_PLANS.iter().map(plan).chain(RIGHT_STEPS.iter().map(step));
    let wrong = WRONG_PLANS.iter().map(plan).chain(WRONG_STEPS.iter().map(step));
    let mut mistakes = Vec::new();
    for (text, is_right) in right.map(|text| (text, true)).chain(wrong.map(|text| (text, false))) {
        let read = parse(&text, &Known::default());
        if read.is_ok() != is_right {
            mistakes.push(format!(
                "the reader: {text}: {}",
                read.err().map_or_else(String::new, |errors| errors.to_string())
            ));
        }
        if validator.is_valid(&serde_json::from_str(&text).unwrap()) != is_right {
            mistakes.push(format!("the schema: {text}"));
        }
    }
    assert_eq!(mistakes, [""; 0], "{mistakes:#?}");
}
