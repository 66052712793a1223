//! The fold as a whole: driven without a runner, in any order of completion, cut off anywhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::{Change, RunId, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::event::{BookView, Event, FORMAT};
use crate::node::{NodeId, NodeState};
use crate::plan::{self, Known};
use crate::result::{Failure, Finding, Outcome, Severity, StopReason};
use crate::spend::Spend;
use crate::template::Templates;

mod after_no;
mod again;
mod answers;
mod budgets;
mod cancel;
mod careless;
mod checks;
mod compact;
mod counted;
mod cut_off;
mod digests;
mod directly;
mod edits;
mod edits_of_begun;
mod evidence;
mod extents;
mod fallback;
mod foreign;
mod forks;
mod group_budgets;
mod groups;
mod hand_back;
mod human;
mod iterations;
mod judged;
mod late;
mod lists;
mod lost;
pub(super) mod models;
mod models_limits;
mod moments;
mod narrow;
mod needs;
mod observed;
mod order;
mod pages;
mod paused;
mod paused_inside;
mod programs;
mod prompts;
mod properties;
mod readable;
mod reasons;
mod recorded;
mod regressions;
mod rejected;
mod repeated;
mod replans;
mod replies;
mod resources;
mod retry;
mod roll_ups;
mod room;
mod set_limits;
mod shares;
mod small_windows;
mod spoken;
mod steering;
mod stuck;
mod table;
mod told;
mod tool_text;
mod tools;
mod under_way;
mod undriven;
mod unheard;
mod unplanned;
mod waiting;
mod words;

/// A run without a runner: calls are answered by a function, in an order that a seed decides.
struct Sim {
    run: Run,
    journal: Vec<(Timestamp, Event)>,
    /// What was written meanwhile.
    pages: pages::Pages,
    /// Arguments of every call, by path, in the order of the calls.
    calls: Vec<(String, Value)>,
    under_way: Vec<CallAction>,
    /// Every call of a model that was begun.
    asks: Vec<AskAction>,
    asking: Vec<AskAction>,
    /// What compactors are asked to put away.
    compacting: Vec<CompactAction>,
    /// What commands check.
    checking: Vec<CheckAction>,
    model: Script,
    /// What stands in the scratchbook whenever somebody looks.
    book: Option<BookView>,
    /// What memory holds whenever a task is briefed.
    memory: String,
    concurrency: usize,
    now: Timestamp,
    seed: u64,
    /// Whether events are not read back and pages are not written: a search through thousands of runs that differ only
    /// in their order would do both for the same events again and again.
    skips_records: bool,
}

/// What a model answers.
type Script = Arc<dyn Fn(&AskAction) -> ModelAnswer>;

fn no_model() -> Script {
    Arc::new(|ask| panic!("no model was expected to be asked to {:?}", ask.purpose))
}

/// `echo` answers with its arguments; `fail` fails; `deny` is refused; `flaky` fails until its second attempt.
fn answer(call: &CallAction) -> CallOutcome {
    let failed = |reason, may_retry| {
        let failure = Failure {
            code: "failed".to_owned(),
            message: format!("{} failed", call.tool),
            reason,
            may_retry,
        };
        CallOutcome::from(failure)
    };
    match call.tool.as_str() {
        "fail" => failed(StopReason::RetriesExhausted, true),
        "deny" => failed(StopReason::PolicyDenied, false),
        // As tools do that say how much there is.
        "noted" => CallOutcome::Answered(CallAnswer {
            output: Arc::new(call.args.clone()),
            notes: "0 items".to_owned(),
            ..CallAnswer::default()
        }),
        "flaky" if call.attempt < 2 => failed(StopReason::RetriesExhausted, true),
        _ => CallOutcome::Answered(CallAnswer {
            output: Arc::new(call.args.clone()),
            ..CallAnswer::default()
        }),
    }
}

impl Sim {
    fn new(plan: &str) -> Self {
        Self::with_inputs(plan, json!({}))
    }

    fn with_inputs(plan: &str, inputs: Value) -> Self {
        let plan = plan::parse(plan, &Known::default()).unwrap_or_else(|errors| panic!("{errors}"));
        let mut sim = Self::empty();
        let inputs: BTreeMap<String, Value> = serde_json::from_value(inputs).unwrap();
        let goal = plan.goal.clone();
        sim.record(Event::RunStarted {
            format: FORMAT,
            goal,
            plan: json!(plan),
            inputs,
            deadline: None,
            run: Value::Null,
        });
        sim
    }

    /// Nothing has happened yet.
    fn empty() -> Self {
        let id = RunId::derived(&["test"]);
        Self {
            run: Run::new(id, Arc::new(Templates::new())),
            journal: Vec::new(),
            pages: pages::Pages::default(),
            calls: Vec::new(),
            under_way: Vec::new(),
            asks: Vec::new(),
            asking: Vec::new(),
            compacting: Vec::new(),
            checking: Vec::new(),
            model: no_model(),
            book: None,
            memory: "nothing yet".to_owned(),
            concurrency: 4,
            now: Timestamp::from_millis(1_000),
            seed: 0,
            skips_records: false,
        }
    }

    fn record(&mut self, event: Event) {
        self.run
            .apply(self.now, &event)
            .unwrap_or_else(|error| panic!("{error}: {event:?}"));
        under_way::only_what_has_begun_is_under_way(&self.run, &event);
        if !self.skips_records {
            self.pages.write(&self.run, &event, self.now);
            // What is written down must be read back as the same.
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
        }
        self.journal.push((self.now, event));
    }

    /// Records all that follows and begins all that may begin.
    fn derive(&mut self) {
        loop {
            let slots = self.concurrency - self.under_way_count();
            let Some(action) = self
                .run
                .due(self.now, slots)
                .into_iter()
                .find(|action| !matches!(action, Action::Stop(_)))
            else {
                return;
            };
            self.take(action);
        }
    }

    /// Records what `action` says, and begins it if it is a call.
    fn take(&mut self, action: Action) {
        match action {
            Action::Record(event) => self.record(event),
            Action::Call(call) => {
                self.record(call.started());
                let path = self.run.node(call.node).unwrap().path.to_owned();
                self.calls.push((path, call.args.clone()));
                self.under_way.push(*call);
            }
            Action::Verify(check) => match check.begins() {
                Some(event) => {
                    self.record(event);
                    self.checking.push(*check);
                }
                None => self.check_ends(*check),
            },
            Action::Ask(ask) => {
                self.record(ask.asked());
                self.asks.push((*ask).clone());
                self.asking.push(*ask);
            }
            Action::Brief(node) => self.record(Event::Briefed {
                node,
                memory: self.memory.clone(),
                book: self.book.clone().map(Box::new),
                limits: self.run.share_of(node),
            }),
            Action::Compact(compact) => match compact.compacting() {
                Some(event) => {
                    self.record(event);
                    self.compacting.push(*compact);
                }
                None => self.put_away(&compact, Spend::default()),
            },
            Action::Load(hash) => panic!("nothing is kept beside this journal, but {hash} is asked for"),
            Action::Stop(_) => unreachable!("filtered above"),
        }
    }

    fn put_away(&mut self, compact: &CompactAction, spent: Spend) {
        self.record(Event::Compacted {
            node: compact.node,
            pieces: compact.pieces,
            text: format!("{} messages came to something", compact.messages.len()),
            book: self.book.clone().map(Box::new),
            spent,
        });
    }

    fn under_way_count(&self) -> usize {
        self.under_way.len() + self.asking.len() + self.compacting.len() + self.checking.len()
    }

    /// Ends one of the calls under way: which one, the seed says.
    fn end_one(&mut self) -> bool {
        if self.under_way_count() == 0 {
            return false;
        }
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let index = usize::try_from(self.seed >> 33).unwrap() % self.under_way_count();
        self.end_nth(index);
        true
    }

    /// All that was to be checked is met.
    fn check_ends(&mut self, check: CheckAction) {
        let met = |call: CheckCall| CheckFinding {
            criterion: call.criterion,
            finding: Finding::Met,
        };
        let found: Vec<CheckFinding> = check.calls.into_iter().map(met).collect();
        let event = self.run.check_findings_event(check.node, &found).unwrap();
        self.record(event);
    }

    /// Ends one of the calls under way: those of tools come first, then those of models, those of compactors, and
    /// commands that check.
    fn end_nth(&mut self, index: usize) {
        if let Some(index) = index.checked_sub(self.under_way.len() + self.asking.len() + self.compacting.len()) {
            let check = self.checking.remove(index);
            return self.check_ends(check);
        }
        if let Some(index) = index.checked_sub(self.under_way.len() + self.asking.len()) {
            let compact = self.compacting.remove(index);
            match self.run.compaction_stopped(compact.node) {
                Some(event) => self.record(event),
                None => {
                    let spent = Spend {
                        tokens_in: 300,
                        tokens_out: 40,
                        model_calls: 1,
                        ..Spend::default()
                    };
                    self.put_away(&compact, spent);
                }
            }
            return;
        }
        if let Some(index) = index.checked_sub(self.under_way.len()) {
            let ask = self.asking.remove(index);
            let answer = (self.model)(&ask);
            let event = self
                .run
                .model_answered(ask.node, answer, Duration::from_millis(1), self.now);
            self.record(event.unwrap());
            return;
        }
        let call = self.under_way.remove(index);
        let cancelled = self.run.node(call.node).unwrap().state == NodeState::Cancelling;
        let outcome = if cancelled {
            CallOutcome::Stopped { may_have_changed: true }
        } else {
            answer(&call)
        };
        let event = self
            .run
            .conclude(call.node, outcome, Duration::from_millis(1), self.now);
        self.record(event);
    }

    fn driven_on(mut self) -> Self {
        for _ in 0..100_000 {
            self.derive();
            if self.run.result().is_some() {
                return self;
            }
            if !self.end_one() {
                self.now = self
                    .run
                    .wakes_at()
                    .expect("a run that is owed nothing and waits for nothing has ended");
            }
        }
        panic!("the run does not end");
    }

    /// Takes a journal up in another process.
    fn resumed(journal: &[(Timestamp, Event)]) -> Self {
        let mut sim = Self {
            now: Timestamp::from_millis(2_000),
            seed: 7,
            ..Self::empty()
        };
        for (at, event) in journal {
            sim.run
                .apply(*at, event)
                .unwrap_or_else(|error| panic!("{error}: {event:?}"));
            sim.pages.write(&sim.run, event, *at);
        }
        sim.journal = journal.to_vec();
        let in_flight = sim.run.in_flight();
        if !in_flight.is_empty() {
            sim.record(Event::Resumed {
                in_flight,
                uncounted_us: 0,
            });
        }
        sim
    }

    /// As [`Sim::resumed`], with a model.
    fn resumed_with(journal: &[(Timestamp, Event)], equipment: Equipment, model: Script) -> Self {
        let mut sim = Self::resumed(journal);
        sim.run.equip(Arc::new(equipment));
        sim.model = model;
        sim
    }

    fn status(&self, path: &str) -> Outcome {
        let node = self.run.node_at(path).unwrap_or_else(|| panic!("no node {path}"));
        node.result.unwrap_or_else(|| panic!("{path} has no result")).status
    }

    fn severity(&self, path: &str) -> Option<Severity> {
        self.run
            .node_at(path)
            .and_then(|node| node.result)
            .and_then(|result| result.severity)
    }

    fn args(&self, path: &str) -> Value {
        let found = self.calls.iter().find(|(called, _)| called == path);
        found
            .unwrap_or_else(|| panic!("{path} was not called: {:?}", self.calls))
            .1
            .clone()
    }

    /// Every node with what it came to, times aside.
    fn outcome(&self) -> BTreeMap<String, Value> {
        self.run
            .tree()
            .into_iter()
            .map(|node| {
                let mut result = json!(node.result.expect("every node of a finished run has a result"));
                result["duration_us"] = Value::Null;
                (node.path.to_owned(), result)
            })
            .collect()
    }
}

#[test]
fn template_reference_keeps_the_type_of_an_earlier_output_e9_2() {
    let sim = Sim::new(
        "steps:
          - {id: list, do: {tool: echo, args: {files: [a, b], count: 2}}}
          - {id: use, do: {tool: echo, args: {n: '{{ results.list.output.count }}', text: 'has {{ results.list.output.files[1] }}'}}}",
    )
    .driven_on();
    assert_eq!(sim.args("use"), json!({"n": 2, "text": "has b"}));
    assert_eq!(sim.status(""), Outcome::Ok);
}

#[test]
fn plan_written_as_nested_arrays_runs_in_order_e9_1() {
    let task = |id: &str| json!({"id": id, "do": {"tool": "echo", "args": {}}});
    let plan = json!([task("t1"), task("t2"), [task("t3"), task("t4")], task("t5")]).to_string();
    let mut sim = Sim::new(&plan);
    // How many calls are under way at one time: the members of the inner array run together, everything else alone.
    let mut together = Vec::new();
    sim.derive();
    while !sim.under_way.is_empty() {
        together.push(sim.under_way.len());
        sim.end_nth(0);
        sim.derive();
    }
    assert_eq!(together, [1, 1, 2, 1, 1]);
    assert_eq!(sim.status(""), Outcome::Ok);
    let order: Vec<&str> = sim
        .calls
        .iter()
        .map(|(path, _)| path.rsplit('/').next().unwrap())
        .collect();
    assert_eq!(order, ["t1", "t2", "t3", "t4", "t5"]);
}

#[test]
fn for_each_runs_one_child_per_item_and_orders_outputs() {
    let sim = Sim::new(
        "steps:
          - {id: list, do: {tool: echo, args: {files: [c, a, b]}}}
          - id: each
            for_each: results.list.output.files
            as: file
            step: {id: look, do: {tool: echo, args: {file: '{{ file }}', at: '{{ index }}'}}}
          - {id: sum, do: {tool: echo, args: {all: '{{ results.each.output }}'}}}",
    )
    .driven_on();
    let all = json!([{"file": "c", "at": 0}, {"file": "a", "at": 1}, {"file": "b", "at": 2}]);
    assert_eq!(sim.args("sum"), json!({"all": all}));
}

#[test]
fn for_each_over_max_items_fails_and_begins_no_item_e9_1() {
    let sim = Sim::new(
        "steps:
          - {id: list, do: {tool: echo, args: {files: [a, b, c]}}}
          - id: each
            for_each: results.list.output.files
            max_items: 2
            step: {id: look, do: {tool: echo, args: {}}}",
    );
    let sim = sim.driven_on();
    assert_eq!(sim.status("each"), Outcome::Failed);
    assert_eq!(sim.calls.len(), 1);
}

#[test]
fn for_each_concurrency_limits_running_items() {
    let mut sim = Sim::new(
        "steps:
          - id: each
            for_each: [1, 2, 3, 4, 5]
            concurrency: 2
            step: {id: look, do: {tool: echo, args: {}}}",
    );
    let mut most = 0;
    loop {
        sim.derive();
        most = most.max(sim.under_way.len());
        if !sim.end_one() {
            break;
        }
    }
    assert_eq!((most, sim.status("each")), (2, Outcome::Ok));
}

#[test]
fn sub_plan_reads_outer_results_and_returns_its_output() {
    let sim = Sim::new(
        "steps:
          - {id: base, do: {tool: echo, args: {x: 1}}}
          - id: sub
            plan:
              steps:
                - {id: inner, do: {tool: echo, args: {x: '{{ results.base.output.x }}'}}}
              output: {from_inner: '{{ results.inner.output.x }}'}
          - {id: after, do: {tool: echo, args: {got: '{{ results.sub.output.from_inner }}'}}}",
    )
    .driven_on();
    assert_eq!(sim.args("after"), json!({"got": 1}));
}

#[test]
fn failed_referenced_step_is_hard_and_skips_later_steps_e9_4() {
    let sim = Sim::new(
        "steps:
          - {id: a, do: {tool: fail, args: {}}}
          - {id: b, do: {tool: echo, args: {x: '{{ results.a.output }}'}}}
          - {id: c, do: {tool: echo, args: {}}}",
    )
    .driven_on();
    assert_eq!(sim.severity("a"), Some(Severity::Hard));
    assert_eq!((sim.status("b"), sim.status("c")), (Outcome::Skipped, Outcome::Skipped));
    assert_eq!(sim.status(""), Outcome::Failed);
}

#[test]
fn failed_unreferenced_step_is_soft_and_later_steps_run_e9_4() {
    let sim = Sim::new(
        "steps:
          - {id: a, do: {tool: fail, args: {}}}
          - {id: b, do: {tool: echo, args: {}}}",
    )
    .driven_on();
    assert_eq!(
        (sim.severity("a"), sim.status("b"), sim.status("")),
        (Some(Severity::Soft), Outcome::Ok, Outcome::Partial)
    );
}

#[test]
fn failed_optional_step_leaves_the_plan_ok_e9_4() {
    let sim = Sim::new(
        "steps:
          - {id: a, optional: true, do: {tool: deny, args: {}}}
          - {id: b, do: {tool: echo, args: {}}}",
    )
    .driven_on();
    assert_eq!(
        (sim.status("a"), sim.status("b"), sim.status("")),
        (Outcome::Failed, Outcome::Ok, Outcome::Ok)
    );
}

#[test]
fn sub_plan_hard_failure_is_soft_for_its_task_e9_4() {
    let sim = Sim::new(
        "steps:
          - id: sub
            plan: {steps: [{id: x, do: {tool: deny, args: {}}}, {id: y, do: {tool: echo, args: {}}}]}
          - {id: after, do: {tool: echo, args: {}}}",
    )
    .driven_on();
    assert_eq!(
        (sim.status("sub/y"), sim.severity("sub"), sim.status("after")),
        (Outcome::Skipped, Some(Severity::Soft), Outcome::Ok)
    );
}

#[test]
fn unmet_required_criterion_fails_the_task_e9_6() {
    let sim = Sim::new(
        "steps:
          - id: a
            do: {tool: echo, args: {text: nothing here}}
            criteria: [{text: it names a file, check: {regex: {pattern: 'file', of: result.output.text}}}]
          - id: b
            do: {tool: echo, args: {text: a file}}
            criteria: [{text: it names a file, check: {regex: {pattern: 'file', of: result.output.text}}}]",
    )
    .driven_on();
    assert_eq!((sim.status("a"), sim.status("b")), (Outcome::Failed, Outcome::Ok));
    let result = sim.run.node_at("a").unwrap().result.unwrap();
    assert_eq!(result.stop_reason, Some(StopReason::CriteriaUnmet));
    assert!(result.notes.contains("it names a file"), "{}", result.notes);
}

#[test]
fn unjudged_criterion_makes_the_task_partial_e9_6() {
    let sim = Sim::new("steps: [{id: a, do: {tool: echo, args: {}}, criteria: [it is beautiful]}]").driven_on();
    assert_eq!(sim.status("a"), Outcome::Partial);
    let result = sim.run.node_at("a").unwrap().result.unwrap();
    let findings: Vec<&Finding> = result.verdicts.iter().map(|verdict| &verdict.finding).collect();
    assert!(matches!(findings[..], [Finding::Unverifiable(_)]), "{findings:?}");
}

#[test]
fn plan_output_with_criteria_met_becomes_the_run_result() {
    let sim = Sim::new(
        "steps: [{id: a, do: {tool: echo, args: {n: 3}}}]
output: {n: '{{ results.a.output.n }}'}
criteria: [{text: at least three, check: {json_schema: {schema: {properties: {n: {minimum: 3}}}}}}]",
    )
    .driven_on();
    let result = sim.run.result().unwrap();
    assert_eq!(
        (result.status, json!(result.output)),
        (Outcome::Ok, json!({"inline": {"n": 3}}))
    );
}

#[test]
fn report_template_reads_the_run_result() {
    let sim = Sim::new(
        "steps: [{id: a, do: {tool: echo, args: {n: 3}}}]
output: {n: '{{ results.a.output.n }}'}
report: {title: Done, body: '{{ result.status }} with {{ result.output.n }}'}",
    )
    .driven_on();
    assert_eq!(sim.run.report(), Some(("Done".to_owned(), "ok with 3".to_owned())));
}

#[test]
fn failed_report_template_makes_the_run_partial_and_says_why() {
    let sim = Sim::new(
        "steps: [{id: a, do: {tool: echo, args: {}}}]
report: 'it says {{ results.a.output.missing }}'",
    )
    .driven_on();
    assert_eq!(sim.status(""), Outcome::Partial);
    let (_, body) = sim.run.report().unwrap();
    assert!(body.starts_with("The report could not be written: "), "{body}");
}

#[test]
fn observe_rule_makes_one_observation_per_matching_item_e9_6() {
    let sim = Sim::new(
        "steps:
          - id: a
            do: {tool: echo, args: {hits: [{path: x, bad: true}, {path: y, bad: false}]}}
            observe:
              - {type: alert, content: 'look at {{ item.path }}', for_each: result.output.hits, when: item.bad, tags: [secret], confidence: 0.8}",
    )
    .driven_on();
    let node = sim.run.node_at("a").unwrap();
    let (made, problems) = sim.run.observations(node.id, node.result.unwrap(), &sim.args("a"));
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(
        made,
        [json!({"type": "alert", "content": "look at x", "confidence": 0.8, "tags": ["secret"]})]
    );
}

#[test]
fn journal_must_begin_with_run_started_exactly_once() {
    let sim = Sim::new("steps: [{id: a, do: {tool: echo, args: {}}}]").driven_on();
    let mut run = Run::new(RunId::derived(&["test"]), Arc::new(Templates::new()));
    assert_eq!(run.apply(sim.now, &sim.journal[1].1), Err(JournalError::Start));
    run.apply(sim.now, &sim.journal[0].1).unwrap();
    assert_eq!(run.apply(sim.now, &sim.journal[0].1), Err(JournalError::Start));
}

#[test]
fn journal_of_a_newer_format_is_refused_with_its_number_e9_9() {
    let event = Event::RunStarted {
        format: FORMAT + 1,
        goal: String::new(),
        plan: json!({}),
        inputs: BTreeMap::new(),
        deadline: None,
        run: Value::Null,
    };
    let mut run = Run::new(RunId::derived(&["test"]), Arc::new(Templates::new()));
    assert_eq!(
        run.apply(Timestamp::from_millis(0), &event),
        Err(JournalError::TooNew { found: FORMAT + 1 })
    );
}

#[test]
fn event_against_the_transition_table_is_refused_e9_19() {
    let sim = Sim::new("steps: [{id: a, do: {tool: echo, args: {}}}]").driven_on();
    let mut run = sim.run;
    let state = |run: &Run| format!("{:?} {:?} {:?}", run.tree(), run.result(), run.due(sim.now, 4));
    let before = state(&run);
    let again = sim.journal.last().unwrap();
    assert!(matches!(
        run.apply(again.0, &again.1),
        Err(JournalError::Transition { event: "finished", .. })
    ));
    let unknown = NodeId::root(RunId::derived(&["another"]));
    let event = Event::Started {
        node: unknown,
        attempt: 1,
        call: String::new(),
        writes: Vec::new(),
        limits: None,
    };
    assert_eq!(run.apply(again.0, &event), Err(JournalError::UnknownNode(unknown)));
    assert_eq!(state(&run), before, "a refused event changes nothing");
}
