//! Generates plans for property tests: any shape, with every name correct.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use folio_engine::plan::{
    Budget, Call, Check, Criterion, ForEach, Group, InputKind, InputSpec, Join, Observe, OnHard, PLAN_VERSION, Plan,
    Report, Retry, Sequence, Share, Slug, Step, SubPlan, Task, ToolNames, Work,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A step before it has a name and a place.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Task(Detail),
    Planned(Detail, Vec<Self>),
    Parallel(Detail, Vec<Self>),
    Sequence(Detail, Vec<Self>),
    ForEach(Detail, Box<Self>),
}

/// Random choices that every kind of step uses as it likes.
#[derive(Debug, Clone)]
pub(crate) struct Detail {
    pub(crate) words: String,
    pub(crate) bits: u32,
    pub(crate) number: u32,
    pub(crate) value: Value,
}

fn words() -> impl Strategy<Value = String> {
    // Also what YAML and JSON have their troubles with; no braces, which would be templates.
    prop_oneof![
        "[a-zA-Z0-9 ,.:#'\"&*!|>%@`\\[\\]?-]{1,30}",
        "[\\PC&&[^{}]]{1,12}",
        Just("true".to_owned()),
        Just("- x\n  y: 'z'\t\\".to_owned()),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has no infinity", |number| number.is_finite())
            .prop_map(Value::from),
        words().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(words(), inner, 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn detail() -> impl Strategy<Value = Detail> {
    (words(), any::<u32>(), 0_u32..1000, value()).prop_map(|(words, bits, number, value)| Detail {
        words,
        bits,
        number,
        value,
    })
}

fn shape() -> impl Strategy<Value = Shape> {
    detail().prop_map(Shape::Task).prop_recursive(4, 24, 5, |inner| {
        let many = prop::collection::vec(inner.clone(), 1..5);
        prop_oneof![
            (detail(), many.clone()).prop_map(|(detail, steps)| Shape::Planned(detail, steps)),
            (detail(), many.clone()).prop_map(|(detail, steps)| Shape::Parallel(detail, steps)),
            (detail(), many).prop_map(|(detail, steps)| Shape::Sequence(detail, steps)),
            (detail(), inner).prop_map(|(detail, body)| Shape::ForEach(detail, Box::new(body))),
        ]
    })
}

/// Any plan that has no mistakes.
pub(crate) fn plan() -> impl Strategy<Value = Plan> {
    (detail(), prop::collection::vec(shape(), 1..6)).prop_map(|(detail, shapes)| {
        let mut builder = Builder { next: 0 };
        let steps = builder.sequence(&shapes, &[], &[]);
        let has = |bit: u32| detail.bits & (1 << bit) != 0;
        let last = steps.last().and_then(|step| step.id().cloned());
        Plan {
            version: PLAN_VERSION,
            title: if has(0) { detail.words.clone() } else { String::new() },
            goal: if has(1) {
                "Look at {{ inputs.repo }}".to_owned()
            } else {
                String::new()
            },
            description: if has(2) { detail.words.clone() } else { String::new() },
            inputs: BTreeMap::from([
                (
                    "repo".to_owned(),
                    InputSpec {
                        kind: InputKind::Path,
                        description: String::new(),
                        default: None,
                    },
                ),
                (
                    "limit".to_owned(),
                    InputSpec {
                        kind: InputKind::Number,
                        description: detail.words.clone(),
                        default: Some(json!(detail.number)),
                    },
                ),
            ]),
            criteria: criteria(&detail),
            budget: budget(&detail),
            steps,
            report: has(3).then(|| Report {
                title: String::new(),
                body: detail.words.clone(),
            }),
            output: last.map(|last| json!({"last": format!("{{{{ results.{last}.output }}}}"), "n": detail.number})),
        }
    })
}

struct Builder {
    next: u32,
}

impl Builder {
    fn name(&mut self) -> Slug {
        self.next += 1;
        // With and without the characters that mean something in templates.
        Slug::parse(&format!(
            "{}{}",
            ["s", "step-", "x_"][self.next as usize % 3],
            self.next
        ))
        .unwrap()
    }

    /// `before` are the names that a step may read and need here, `outer` those it may only read.
    fn sequence(&mut self, shapes: &[Shape], before: &[Slug], outer: &[Slug]) -> Vec<Step> {
        let mut before = before.to_vec();
        let mut steps = Vec::new();
        for shape in shapes {
            let step = self.step(shape, &before, outer);
            before.extend(step.id().cloned());
            steps.push(step);
        }
        steps
    }

    fn step(&mut self, shape: &Shape, before: &[Slug], outer: &[Slug]) -> Step {
        match shape {
            Shape::Task(detail) => Step::Task(Arc::new(self.task(detail, before, outer))),
            Shape::Planned(detail, inner) => {
                let mut task = self.task(detail, before, outer);
                let seen = seen(task.needs.as_deref(), before, outer);
                let steps = self.sequence(inner, &[], &seen);
                task.atomic = false;
                // These are of calls.
                (task.timeout, task.retry) = (None, Retry::default());
                task.work = Work::Plan(SubPlan { steps, output: None });
                Step::Task(Arc::new(task))
            }
            Shape::Parallel(detail, inner) => {
                let id = (detail.bits & 1 != 0).then(|| self.name());
                let steps: Vec<Step> = inner.iter().map(|shape| self.step(shape, before, outer)).collect();
                let branches = u32::try_from(steps.len()).unwrap();
                let join = [
                    Join::AllSettled,
                    Join::FirstOk,
                    Join::Quorum(1 + detail.number % branches),
                ];
                // Branches that race may not both run a command.
                let runs = |step: &&Step| json!(step).to_string().contains("\"command\":");
                let may_race = steps.iter().filter(runs).count() < 2;
                let join = join[detail.number as usize % 3];
                Step::Parallel(Arc::new(Group {
                    id,
                    title: detail.words.clone(),
                    steps,
                    on_hard: on_hard(detail),
                    join: if may_race { join } else { Join::AllSettled },
                    optional: detail.bits & 2 != 0,
                    tools: tools(detail),
                }))
            }
            Shape::Sequence(detail, inner) => {
                let id = (detail.bits & 1 != 0).then(|| self.name());
                let steps = self.sequence(inner, before, outer);
                Step::Sequence(Arc::new(Sequence {
                    id,
                    title: String::new(),
                    steps,
                    optional: detail.bits & 2 != 0,
                    tools: tools(detail),
                }))
            }
            Shape::ForEach(detail, body) => {
                let needs = needs(detail, before);
                let seen = seen(needs.as_deref(), before, outer);
                let id = self.name();
                let over = match seen.last() {
                    Some(slug) if detail.bits & 4 != 0 => {
                        json!(format!("results.{slug}.output.items"))
                    }
                    Some(slug) if detail.bits & 8 != 0 => {
                        json!(format!("{{{{ results.{slug}.output | list }}}}"))
                    }
                    _ => json!([1, detail.value]),
                };
                let body = self.step(body, &[], &seen);
                Step::ForEach(Arc::new(ForEach {
                    id,
                    title: detail.words.clone(),
                    over,
                    item_name: ["item", "file"][detail.number as usize % 2].to_owned(),
                    body,
                    max_items: 2 + detail.number,
                    on_item: on_hard(detail),
                    concurrency: (detail.bits & 16 != 0).then_some(1 + detail.number),
                    optional: detail.bits & 2 != 0,
                    needs,
                }))
            }
        }
    }

    fn task(&mut self, detail: &Detail, before: &[Slug], outer: &[Slug]) -> Task {
        let has = |bit: u32| detail.bits & (1 << bit) != 0;
        let needs = needs(detail, before);
        let readable = seen(needs.as_deref(), before, outer);
        let args = match readable.get(detail.number as usize % readable.len().max(1)) {
            Some(slug) => {
                json!({"of": format!("{{{{ results.{slug}.notes }}}}"), "value": detail.value})
            }
            None => json!({"value": detail.value}),
        };
        let work = if has(5) {
            Work::Do(Call {
                tool: "list".to_owned(),
                args,
            })
        } else {
            Work::Model
        };
        // Only calls are made again.
        let retry = if has(5) {
            Retry {
                max_attempts: 1 + detail.number,
                delay: Duration::from_millis(u64::from(detail.bits >> 8)),
                #[expect(clippy::cast_precision_loss, reason = "any factor will do")]
                factor: 1.0 + detail.number as f32 / 7.0,
                delay_max: Duration::from_secs(u64::from(detail.number)),
            }
        } else {
            Retry::default()
        };
        Task {
            id: self.name(),
            title: detail.words.clone(),
            description: if has(6) { detail.words.clone() } else { String::new() },
            reason: if has(7) { detail.words.clone() } else { String::new() },
            criteria: criteria(detail),
            satisfies: if has(21) {
                vec![detail.words.clone()]
            } else {
                Vec::new()
            },
            needs,
            executor: has(8).then(|| detail.words.clone()),
            // Calls name their tool themselves.
            tools: tools(detail).filter(|_| !has(5)),
            optional: has(9),
            atomic: has(10),
            work,
            observe: observations(detail),
            retry,
            timeout: has(11).then(|| Duration::from_millis(1 + u64::from(detail.number) * 37)),
            budget: Arc::new(budget(detail)),
            share: has(10)
                .then(|| Share::of(f64::from(detail.number % 1_000 + 1) / 1_000.0))
                .flatten(),
        }
    }
}

/// What calls in it use, and the tools of a server.
fn tools(detail: &Detail) -> Option<ToolNames> {
    let named = ["list", "desk.*"].map(str::to_owned);
    (detail.bits & (1 << 26) != 0).then(|| named.into())
}

fn needs(detail: &Detail, before: &[Slug]) -> Option<Vec<Slug>> {
    (detail.bits & (1 << 20) != 0).then(|| {
        let chosen = before
            .iter()
            .enumerate()
            .filter(|(at, _)| detail.bits >> (at % 16) & 1 == 1);
        chosen.map(|(_, slug)| slug.clone()).collect()
    })
}

fn seen(needs: Option<&[Slug]>, before: &[Slug], outer: &[Slug]) -> Vec<Slug> {
    needs.unwrap_or(before).iter().chain(outer).cloned().collect()
}

fn on_hard(detail: &Detail) -> OnHard {
    [OnHard::Hold, OnHard::Cancel, OnHard::Continue][detail.number as usize % 3]
}

fn budget(detail: &Detail) -> Budget {
    let has = |bit: u32| detail.bits & (1 << bit) != 0;
    Budget {
        depth: has(12).then_some(8),
        nodes: has(13).then_some(1_000),
        children: has(14).then_some(u32::MAX),
        items: has(15).then_some(2),
        fan_in: has(11).then_some(2 + detail.number),
        concurrency: has(16).then_some(2),
        replans: has(17).then_some(3),
        deadline: has(18).then(|| Duration::from_millis(u64::from(detail.number) * 500)),
        output_bytes: has(19).then_some(u64::from(detail.bits)),
        tokens: has(22).then_some(u64::from(detail.bits)),
        tokens_in: has(22).then_some(u64::from(detail.bits)),
        tokens_cached: has(22).then_some(0),
        tokens_out: has(22).then_some(u64::from(detail.bits)),
        micro_usd: has(23).then_some(u64::from(detail.bits)),
        model_calls: has(24).then_some(0),
        tool_calls: has(25).then_some(u64::from(detail.number)),
        bytes: has(25).then_some(u64::from(detail.bits)),
    }
}

fn criteria(detail: &Detail) -> Vec<Criterion> {
    let schema = json!({"type": "object", "properties": {"a": {"const": detail.value}}});
    let of = (detail.bits & 1 != 0).then(|| "result.output.text".to_owned());
    let checks = [
        Check::Judge,
        Check::Human,
        Check::ResultNonempty,
        Check::Command {
            argv: vec!["test".to_owned(), detail.words.clone()],
            exit: -1,
        },
        Check::FileExists {
            path: detail.words.clone(),
        },
        Check::Regex {
            pattern: "^a[b-d]+".to_owned(),
            of: of.clone(),
        },
        Check::JsonSchema { schema, of },
    ];
    let chosen = checks
        .into_iter()
        .enumerate()
        .filter(|(at, _)| detail.bits >> (at + 22) & 1 == 1);
    chosen
        .map(|(at, check)| Criterion {
            id: format!("k.{at}"),
            text: detail.words.clone(),
            check,
            required: detail.bits & 2 == 0,
        })
        .collect()
}

fn observations(detail: &Detail) -> Vec<Observe> {
    if detail.bits & (1 << 21) == 0 {
        return Vec::new();
    }
    vec![
        Observe {
            kind: "finding".to_owned(),
            content: "{{ item }} at {{ index }}".to_owned(),
            confidence: Some(json!(0.5)),
            tags: vec![detail.words.clone()],
            ttl_minutes: Some(1.5 + f64::from(detail.number)),
            context: Some(json!({"k": detail.value})),
            for_each: Some("result.output.items".to_owned()),
            when: Some("item.ok".to_owned()),
        },
        Observe {
            kind: "note".to_owned(),
            content: detail.words.clone(),
            confidence: Some(json!("{{ result.output.confidence }}")),
            tags: Vec::new(),
            ttl_minutes: None,
            context: None,
            for_each: None,
            when: None,
        },
    ]
}
