//! `folio bench fanout`: questions that people decomposed, run as plans whose answers are known.
//!
//! It shows that the structure of plans and the passing of results work on data that was not made for Folio: every
//! question becomes a task, its decomposition becomes the task's plan, and what depends on something comes after it
//! and reads it.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use folio::engine::plan::{self, Known, Limits};
use folio::engine::{Outcome, Output};
use folio::memory::excerpt::cut;
use folio::memory::wrong_field::in_plain_words;
use folio::runner::{NewRun, Runner, RunnerOptions};
use folio::store::BlobHash;
use folio::tools::Registry;
use folio::{Folio, SpaceName};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{millis, shapes};
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::report::first_line;

/// How deeply questions may be nested.
const DEPTH_MAX: usize = 7;
/// How many characters of a question become the title of its task.
const TITLE_CHARS: usize = 200;

/// A question, its decomposition and its answer, in the format of FanOutQA.
#[derive(Debug, Deserialize)]
struct Question {
    #[serde(default)]
    id: Value,
    question: String,
    #[serde(default, deserialize_with = "or_none")]
    decomposition: Vec<Self>,
    #[serde(default, deserialize_with = "or_none")]
    depends_on: Vec<Value>,
    #[serde(default)]
    answer: Value,
}

/// Reads a list that some files write as `null` when it is empty.
fn or_none<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The outcome for the questions of a file.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Fanout {
    questions: usize,
    /// The questions that cannot be made a plan, and why.
    refused: Vec<String>,
    /// The number of plans, counting those within plans.
    plans: usize,
    nodes: usize,
    depth: u32,
    groups: usize,
    /// How many tasks had to wait for another, and how often one did not.
    dependencies: usize,
    out_of_order: usize,
    /// How many answers came back from where they were found, through every plan around, and which did not.
    answers: usize,
    wrong: Vec<String>,
    ms_per_node: f64,
}

impl Fanout {
    /// Success if everything came out as expected.
    pub(crate) fn exit(&self) -> Exit {
        if self.out_of_order == 0 && self.wrong.is_empty() && self.refused.is_empty() {
            Exit::Done
        } else {
            Exit::RunNotOk
        }
    }
}

impl Report for Fanout {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let (questions, plans, nodes, depth) = (self.questions, self.plans, self.nodes, self.depth);
        writeln!(
            out,
            "{questions} questions: {plans} plans, {} groups, {nodes} nodes, {depth} deep",
            self.groups
        )?;
        writeln!(out, "{} answers came back, {} did not", self.answers, self.wrong.len())?;
        writeln!(out, "{} had to wait, {} did not", self.dependencies, self.out_of_order)?;
        writeln!(out, "{:.3} ms a node, every one durable", self.ms_per_node)?;
        for line in self.wrong.iter().take(20) {
            writeln!(out, "{} {line}", style.bad("wrong"))?;
        }
        for line in self.refused.iter().take(20) {
            writeln!(out, "{} {line}", style.warning("refused"))?;
        }
        Ok(())
    }
}

/// A plan that is being built from a question.
#[derive(Default)]
struct PlanBuilder {
    /// The answer of each task that has one, by its id.
    answers: Map<String, Value>,
    /// Which task waits for which.
    waits: Vec<(String, String)>,
    plans: usize,
    groups: usize,
    next: usize,
    /// The ids of questions that are answered before those being read, because something around them depends on it.
    around: Vec<Value>,
}

impl PlanBuilder {
    /// The steps for `questions`: consecutive groups, each of what depends only on earlier groups.
    fn steps(&mut self, questions: &[Question], depth: usize) -> Result<Vec<Value>, String> {
        if depth > DEPTH_MAX {
            return Err(format!("is decomposed more than {DEPTH_MAX} times"));
        }
        self.plans += 1;
        let names: Vec<String> = questions
            .iter()
            .map(|_| {
                self.next += 1;
                format!("q{}", self.next)
            })
            .collect();
        let mut known: HashMap<&Value, usize> = HashMap::new();
        for (at, question) in questions.iter().enumerate() {
            if !question.id.is_null() && known.insert(&question.id, at).is_some() {
                return Err(format!("has two questions with the id {}", question.id));
            }
        }
        let mut needs: Vec<Vec<usize>> = Vec::with_capacity(questions.len());
        for question in questions {
            let mut first = Vec::new();
            for id in &question.depends_on {
                match known.get(id) {
                    Some(at) if first.contains(at) => {}
                    Some(at) => first.push(*at),
                    // What the surrounding questions name comes before all of these; an unknown id is a mistake.
                    None if self.around.contains(id) => {}
                    None => {
                        return Err(format!(
                            "has a question that depends on {id}, which is neither beside it nor before it"
                        ));
                    }
                }
            }
            needs.push(first);
        }
        let mut levels: Vec<Vec<usize>> = Vec::new();
        let mut done = vec![false; questions.len()];
        while done.contains(&false) {
            let is_ready = |at: &usize| !done[*at] && needs[*at].iter().all(|first| done[*first]);
            let ready: Vec<usize> = (0..questions.len()).filter(is_ready).collect();
            if ready.is_empty() {
                return Err("has questions that wait for one another".to_owned());
            }
            ready.iter().for_each(|at| done[*at] = true);
            levels.push(ready);
        }
        let mut steps = Vec::new();
        for level in levels {
            let mut tasks = Vec::new();
            for at in level {
                let first: Vec<&str> = needs[at].iter().map(|first| names[*first].as_str()).collect();
                let outside = self.around.len();
                self.around
                    .extend(needs[at].iter().map(|first| questions[*first].id.clone()));
                tasks.push(self.task(&questions[at], &names[at], &first, depth)?);
                self.around.truncate(outside);
            }
            steps.push(match tasks.len() {
                1 => tasks.remove(0),
                _ => {
                    self.groups += 1;
                    json!({ "parallel": tasks })
                }
            });
        }
        Ok(steps)
    }

    /// A task that gives its answer once those that it waits for have given theirs.
    fn task(&mut self, question: &Question, name: &str, first: &[&str], depth: usize) -> Result<Value, String> {
        self.waits
            .extend(first.iter().map(|first| (name.to_owned(), (*first).to_owned())));
        let title = cut(&question.question, TITLE_CHARS);
        let seen: Vec<String> = first
            .iter()
            .map(|first| format!("{{{{ results.{first}.output.value.answer }}}}"))
            .collect();
        let read: Vec<Value> = first
            .iter()
            .map(|first| self.answers.get(*first).cloned().unwrap_or_default())
            .collect();
        self.answers.insert(name.to_owned(), question.answer.clone());
        self.answers.insert(format!("{name}-seen"), read.into());
        let value = json!({"answer": format!("{{{{ inputs.answers.{name} }}}}"), "seen": seen});
        let echo = json!({"tool": "text", "args": {"op": "echo", "value": value}});
        if question.decomposition.is_empty() {
            return Ok(json!({"id": name, "title": raw(&title), "do": echo}));
        }
        let inner = format!("{name}-own");
        let mut steps = self.steps(&question.decomposition, depth + 1)?;
        let own = json!({"answer": format!("{{{{ inputs.answers.{name} }}}}"), "seen": []});
        steps.push(json!({"id": inner, "do": {"tool": "text", "args": {"op": "echo", "value": own}}}));
        let answer = format!("{{{{ results['{inner}'].output.value.answer }}}}");
        let output = json!({"value": {"answer": answer, "seen": seen}});
        Ok(json!({"id": name, "title": raw(&title), "plan": {"steps": steps, "output": output}}))
    }
}

/// `text` as a template that evaluates to the text itself.
fn raw(text: &str) -> String {
    format!("{{% raw %}}{}{{% endraw %}}", text.replace("{%", "{ %"))
}

/// Runs every question of `file` in a store in `folder`.
pub(crate) async fn measure(folder: &Path, file: &Path) -> Result<Fanout, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| Failure::file("read", file, &error))?;
    let questions: Vec<Question> = serde_json::from_str(&text).map_err(|error| {
        let problem = in_plain_words(&error, "an object");
        let message = format!("{} is not a list of questions: {problem}", file.display());
        Failure::usage("input_not_json", message)
    })?;
    if questions.is_empty() {
        let nothing = format!("{} has no questions", file.display());
        return Err(
            Failure::usage("input_not_json", nothing).hint("a list with at least one object that has a `question`")
        );
    }
    let folio = Folio::open(&format!("sqlite:{}", folder.join("fanout.db").display())).await?;
    let space = folio.workspace(SpaceName::main());
    let runner = Runner::new(space, Registry::with_builtins(), RunnerOptions::default());
    let mut found = Fanout::default();
    let mut elapsed = Duration::ZERO;
    for (number, question) in (1..).zip(&questions) {
        found.questions += 1;
        let name = format!("question {number}");
        match new_run(question) {
            Ok((new, expectations)) => elapsed += run(&runner, new, &expectations, &name, &mut found).await?,
            Err(problem) => found.refused.push(format!("{name} {problem}")),
        }
    }
    found.ms_per_node = millis(elapsed) / f64::from(u32::try_from(found.nodes.max(1)).unwrap_or(u32::MAX));
    Ok(found)
}

fn new_run(question: &Question) -> Result<(NewRun, PlanBuilder), String> {
    let mut expectations = PlanBuilder::default();
    let alone = std::slice::from_ref(question);
    let steps = expectations.steps(alone, 0)?;
    let mut plan = shapes::plan(&steps.into());
    plan["inputs"] = json!({"answers": "object"});
    let known = Known {
        limits: Limits {
            children: 1_000,
            ..Limits::default()
        },
        ..Known::default()
    };
    let plan = plan::from_value(&plan, &known).map_err(|mistakes| format!("is not a plan: {mistakes}"))?;
    let inputs = BTreeMap::from([("answers".to_owned(), Value::Object(expectations.answers.clone()))]);
    Ok((shapes::run_of(plan, inputs), expectations))
}

async fn run(
    runner: &Runner,
    new: NewRun,
    expectations: &PlanBuilder,
    name: &str,
    found: &mut Fanout,
) -> Result<Duration, Failure> {
    let began = Instant::now();
    let (run, _) = runner.submit(new).await?;
    let result = runner.drive(run).await?;
    let elapsed = began.elapsed();
    if result.status != Outcome::Ok {
        found
            .wrong
            .push(format!("{name} ended {}: {}", result.status, result.notes));
    }
    let run = runner.load(run).await?;
    let tree = run.tree();
    let nodes: HashMap<&str, _> = tree.iter().map(|node| (node.slug(), node)).collect();
    found.nodes += run.len();
    found.plans += expectations.plans;
    found.groups += expectations.groups;
    found.depth = tree.iter().map(|node| node.depth).fold(found.depth, u32::max);
    for (later, first) in &expectations.waits {
        found.dependencies += 1;
        let finished_at = nodes.get(first.as_str()).and_then(|node| node.finished_at);
        let started_at = nodes.get(later.as_str()).and_then(|node| node.started_at);
        let is_in_order = finished_at
            .zip(started_at)
            .is_some_and(|(finished_at, started_at)| finished_at <= started_at);
        found.out_of_order += usize::from(!is_in_order);
    }
    for (task, answer) in expectations.answers.iter().filter(|(task, _)| !task.ends_with("-seen")) {
        let expected = json!({"value": {"answer": answer, "seen": expectations.answers.get(&format!("{task}-seen"))}});
        let output = nodes.get(task.as_str()).and_then(|node| node.result);
        let output = match output.map(|result| &result.output) {
            Some(Output::Inline(inline)) => Value::clone(&inline.value()),
            // A long output is kept beside the journal.
            Some(Output::Blob { hash, .. }) => {
                let bytes = runner.workspace().blob(&BlobHash(hash.clone())).await?;
                serde_json::from_slice(&bytes).unwrap_or_default()
            }
            None => Value::Null,
        };
        if output == expected {
            found.answers += 1;
        } else {
            let excerpt = |value: &Value| first_line(&value.to_string(), TITLE_CHARS);
            found.wrong.push(format!(
                "{name}, {task}: {} instead of {}",
                excerpt(&output),
                excerpt(&expected)
            ));
        }
    }
    Ok(elapsed)
}
