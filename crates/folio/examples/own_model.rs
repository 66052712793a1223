//! A goal, done by a model of your own.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use folio::engine::plan::Plan;
use folio::model::{self, Delta, Model, ModelError, Reply, Request, Usage};
use folio::runner::{NewRun, Runner, RunnerModel, RunnerModels, RunnerOptions};
use folio::tools::Registry;
use folio::{Actor, Folio, Role, SpaceName, async_trait};
use serde_json::json;

/// Answers without thinking.
#[derive(Debug)]
struct Sommelier;

#[async_trait]
impl Model for Sommelier {
    // Send the request to wherever your model is. A failure is a `ModelError`, whose kind decides whether the runner
    // asks again. Work that computes or blocks belongs into `spawn_blocking`: nothing else of the run proceeds here.
    async fn reply(&self, request: &Request, pieces: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        pieces(Delta::Text("Volnay, of course.".to_owned()));
        let reply = match request.role {
            // Do the task, or plan it? The answer is JSON of the form `request.answer_schema`.
            model::Role::Planner => {
                let decision = json!({"decision": "execute", "reason": "one look is enough", "low_complexity": true,
                    "resources_available": true, "criteria_testable": true});
                Reply::text(decision.to_string())
            }
            // Do it, with `request.tools`; `request.messages` say what was done so far. The tool `finish` ends the task.
            _ => Reply::calls([("finish", json!({"output": "Volnay", "notes": "Six bottles are left."}))]),
        };
        // What it cost, if you know; otherwise the runner estimates it.
        Ok(reply.with_usage(Usage {
            tokens_in: 120,
            tokens_out: 20,
            ..Usage::default()
        }))
    }
}

/// Runs a goal with it.
#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    let model = RunnerModel::new("own:sommelier", Arc::new(Sommelier))
        .with_window(8_192)
        .answers_within(Duration::from_secs(30));
    let options = RunnerOptions {
        models: Some(RunnerModels::one(model)),
        ..RunnerOptions::default()
    };
    let folio = Folio::open("memory:").await?;
    let runner = Runner::new(folio.workspace(SpaceName::main()), Registry::with_builtins(), options);
    let plan = Plan::of_goal("Say which wine goes with the dinner");
    let (run, _) = runner.submit(NewRun::of(plan, Actor::new(Role::Human, "ada"))).await?;
    let result = runner.drive(run).await?;
    assert_eq!(*runner.output(&result).await?, json!("Volnay"));
    Ok(())
}
