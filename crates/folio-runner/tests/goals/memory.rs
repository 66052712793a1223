//! What tools in a run see of memory, and what is stored of their answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use folio_engine::{Outcome, plan};
use folio_memory::observation::ObservationInput;
use folio_memory::policy::MAX_TYPES;
use folio_memory::{
    Actor, Clock as _, Entry, EntryKind, EntryQuery, PageRole, Role, RunId, SpaceName, SpacePolicy, ThreadKey, Trust,
};
use folio_runner::{NewRun, Runner, RunnerError, RunnerOptions};
use folio_store::Workspace;
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::{BookFilter, IngestContext, TraceEntry, TraceQuery};
use folio_testkit::{SeededIds, SimClock};
use folio_tools::response::FailureKind;
use folio_tools::{Effect, Registry, ToolError, ToolResponse, ToolSpec};
use serde_json::{Value, json};

const PLAN: &str = "title: Recommend\nsteps: [{id: ask, do: {tool: recommend}}]";

struct House {
    workspace: Workspace,
    runner: Runner,
    clock: SimClock,
    told: Arc<Mutex<Vec<Value>>>,
}

/// A house with a tool that queries observations about wine and returns `answer`.
fn house(answer: Value) -> House {
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let (clock, ids) = (SimClock::default(), Arc::new(SeededIds::default()));
    let workspace = Workspace::new(store, Arc::new(clock.clone()), ids, SpaceName::main());
    let told: Arc<Mutex<Vec<Value>>> = Arc::default();
    let spec = ToolSpec::new("recommend", Effect::Read, "Recommends a wine.");
    let spec = spec.asks(json!({"filters": {"tags": ["wine"]}, "limit": 5}));
    let mut registry = Registry::with_builtins();
    let is_told = Arc::clone(&told);
    registry.register_fn(spec, move |request, _| {
        is_told.lock().unwrap().clone_from(&request.scratch_page_context);
        let items = |name: &str| answer[name].as_array().cloned().unwrap_or_default();
        let error = (answer["fails"] == true).then(|| ToolError::new(FailureKind::Denied, "no", "it may not"));
        let mut response = match error {
            Some(error) => ToolResponse::failed(&request, error),
            None => ToolResponse::ok(&request, json!({"found": 1}), ""),
        };
        response.observations = items("observations");
        response.scratch_page_writes = items("scratch_page_writes");
        response.memory_writes = items("memory_writes");
        std::future::ready(Ok(response))
    });
    let runner = Runner::new(workspace.clone(), registry, RunnerOptions::default());
    House {
        workspace,
        runner,
        clock,
        told,
    }
}

impl House {
    async fn notice(&self, observation: Value) {
        let input: ObservationInput = serde_json::from_value(observation).unwrap();
        self.workspace.add_observation(&person(), input, None).await.unwrap();
    }

    async fn set_policy(&self, policy: Value) {
        let policy: SpacePolicy = serde_json::from_value(policy).unwrap();
        self.workspace.set_policy(&person(), policy, None, None).await.unwrap();
    }

    async fn submit(&self, actor: Actor) -> Result<RunId, RunnerError> {
        self.submit_plan(PLAN, actor).await
    }

    async fn submit_plan(&self, text: &str, actor: Actor) -> Result<RunId, RunnerError> {
        let new = NewRun {
            thread: work(),
            ..NewRun::of(
                plan::parse(text, &self.runner.known()).unwrap_or_else(|errors| panic!("{errors}")),
                actor,
            )
        };
        self.runner.submit(new).await.map(|(run, _)| run)
    }

    async fn run(&self) -> Outcome {
        let run = self.submit(person()).await.unwrap();
        self.runner.drive(run).await.unwrap().status
    }

    async fn memory_texts(&self) -> Vec<String> {
        let told = self.told.lock().unwrap();
        told.iter()
            .map(|item| item["content"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn noticed_by_tool(&self) -> Vec<Entry> {
        let mut found = self.workspace.observations(EntryQuery::default()).await.unwrap().items;
        found.retain(|entry| entry.fields.source.tool.is_some());
        found
    }

    async fn traced(&self, operation: &str) -> Vec<TraceEntry> {
        let mut lines = self.workspace.trace(TraceQuery::default()).await.unwrap();
        lines.retain(|line| line.operation == operation);
        lines
    }
}

fn person() -> Actor {
    Actor::new(Role::Human, "ada")
}

fn work() -> ThreadKey {
    ThreadKey("work".to_owned())
}

#[tokio::test]
async fn tool_in_a_run_receives_the_observations_it_requests() {
    let house = house(json!({}));
    house
        .notice(json!({"content": "likes Burgundy", "tags": ["wine"]}))
        .await;
    house
        .notice(json!({"content": "likes trains", "tags": ["travel"]}))
        .await;
    assert_eq!(house.run().await, Outcome::Ok);
    assert_eq!(house.memory_texts().await, ["likes Burgundy"]);
    let asked = house.traced("list_observations").await;
    let by_tool: Vec<_> = asked.iter().filter(|line| line.source == "recommend").collect();
    assert!(by_tool.len() == 1 && by_tool[0].run.is_some() && by_tool[0].turn.is_some());
}

#[tokio::test]
async fn manifest_limits_what_a_tool_in_a_run_sees_m7_3_23() {
    let house = house(json!({}));
    house
        .notice(json!({"content": "likes Burgundy", "tags": ["wine"]}))
        .await;
    house
        .notice(json!({"content": "the cellar floods", "tags": ["wine"], "type": "risk_alert"}))
        .await;
    let reads = json!({"types": ["risk_alert"]});
    house
        .set_policy(json!({"manifests": {"recommend": {"reads": reads}}}))
        .await;
    assert_eq!(house.run().await, Outcome::Ok);
    assert_eq!(house.memory_texts().await, ["the cellar floods"]);
}

#[tokio::test]
async fn entries_of_external_tools_in_runs_have_lower_trust_m7_8_v11() {
    for (manifest, trust) in [
        (json!({"external": true}), Trust::ToolExternal),
        (json!({}), Trust::ToolInternal),
    ] {
        let house = house(json!({"observations": [{"content": "a"}], "memory_writes": ["b"]}));
        house.set_policy(json!({"manifests": {"recommend": manifest}})).await;
        assert_eq!(house.run().await, Outcome::Ok);
        let mut said = house.noticed_by_tool().await;
        let book = house.workspace.book_items(&work(), BookFilter::default()).await;
        said.extend(book.unwrap().items);
        let found: Vec<_> = said.iter().map(|entry| entry.fields.trust).collect();
        assert_eq!(found, [trust, trust]);
    }
}

/// The trust of what a run of these steps notes, after a step `web` that asks a tool from outside and a step `desk` that
/// asks another one.
async fn trusts_after(steps: &str) -> Vec<Trust> {
    let house = house(json!({}));
    house
        .set_policy(json!({"manifests": {"recommend": {"external": true}}}))
        .await;
    let plan = format!(
        "title: Note\nsteps:\n- {{id: web, do: {{tool: recommend}}}}\n\
         - {{id: desk, do: {{tool: text, args: {{op: lines, value: 'a'}}}}}}\n{steps}"
    );
    let run = house.submit_plan(&plan, person()).await.unwrap();
    assert_eq!(house.runner.drive(run).await.unwrap().status, Outcome::Ok, "{steps}");
    let noted = house.workspace.observations(EntryQuery::default()).await.unwrap().items;
    let mut trusts: Vec<Trust> = noted.iter().map(|entry| entry.fields.trust).collect();
    let logs = EntryQuery {
        kinds: vec![EntryKind::Log],
        ..EntryQuery::default()
    };
    let logged = house.workspace.entries(&logs).await.unwrap().items;
    let appended = logged.iter().filter(|entry| entry.fields.title == "appended");
    trusts.extend(appended.map(|entry| entry.fields.trust));
    trusts
}

#[tokio::test]
async fn what_templates_put_into_memory_is_trusted_no_more_than_who_said_it() {
    use Trust::{ToolExternal, ToolInternal};
    for (steps, trusts) in [
        (
            "- {id: note, do: {tool: observe, args: {content: 'it found {{ results.web.output.found }}'}}}",
            vec![ToolExternal],
        ),
        (
            "- {id: note, do: {tool: observe, args: {content: 'it has {{ results.desk.output | json }}'}}}",
            vec![ToolInternal],
        ),
        (
            "- {id: note, do: {tool: observe, args: {content: 'it is late'}}}",
            vec![ToolInternal],
        ),
        (
            "- {id: sum, do: {tool: text, args: {op: lines, value: '{{ results.web.output | json }}'}}}\n\
             - {id: note, do: {tool: observe, args: {content: '{{ results.sum.output | json }}'}}}",
            vec![ToolExternal],
        ),
        (
            "- id: each\n  for_each: '{{ [results.web.output] }}'\n  step:\n    \
             {id: note, do: {tool: observe, args: {content: '{{ item | json }}'}}}",
            vec![ToolExternal],
        ),
        (
            "- id: each\n  for_each: [one]\n  step:\n    \
             {id: note, do: {tool: observe, args: {content: '{{ item }}'}}}",
            vec![ToolInternal],
        ),
        (
            "- id: inside\n  plan:\n    steps: [{id: ask, do: {tool: recommend}}]\n\
             - {id: note, do: {tool: observe, args: {content: '{{ results.inside.output | json }}'}}}",
            vec![ToolExternal],
        ),
        (
            "- id: sum\n  do: {tool: text, args: {op: lines, value: 'x'}}\n  \
             observe: [{type: risk_alert, content: 'it found {{ results.web.output.found }}'}, \
             {type: risk_alert, content: 'it found nothing'}]",
            vec![ToolExternal, ToolExternal],
        ),
        (
            "- {id: page, do: {tool: page_append, args: {title: appended, body: '{{ results.web.output | json }}'}}}",
            vec![ToolExternal],
        ),
        (
            "- {id: page, do: {tool: page_append, args: {title: appended, body: 'it is late'}}}",
            vec![ToolInternal],
        ),
    ] {
        assert_eq!(trusts_after(steps).await, trusts, "{steps}");
    }
}

#[tokio::test]
async fn tool_memory_writes_become_notes_of_the_run_thread() {
    let house = house(json!({"memory_writes": ["the cellar is cold", {"fact": "x", "kind": "dream"}]}));
    assert_eq!(house.run().await, Outcome::Ok);
    let items = house
        .workspace
        .book_items(&work(), BookFilter::default())
        .await
        .unwrap()
        .items;
    assert_eq!((items.len(), items[0].kind), (1, EntryKind::Note));
    assert_eq!(items[0].fields.body, "the cellar is cold");
    let source = &items[0].fields.source;
    assert_eq!(
        (source.tool.as_deref(), source.channel.as_deref()),
        (Some("recommend"), Some("memory_writes"))
    );
    assert!(source.run.is_some() && source.turn.is_some() && source.node.is_some());
}

#[tokio::test]
async fn corrected_and_rejected_observations_of_a_call_are_traced_m7_10() {
    let secret = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let house = house(json!({"observations": [
        {"content": "sure", "confidence": 7},
        {"content": ""},
        {"content": format!("the key is {secret}")},
    ]}));
    assert_eq!(house.run().await, Outcome::Ok);
    assert_eq!(house.noticed_by_tool().await.len(), 2);
    let lines = house.traced("add_observation").await;
    let with = |status: &str| lines.iter().find(|line| line.status == status).unwrap();
    let (warning, rejected) = (with("warning"), with("rejected"));
    assert_eq!(warning.detail.as_ref().unwrap()["code"], "confidence_clamped");
    assert_eq!(rejected.detail.as_ref().unwrap()["code"], "content_empty");
    for line in [warning, rejected] {
        assert!(line.run.is_some() && line.turn.is_some() && line.node.is_some());
        assert_eq!(line.source, "recommend");
    }
    let redacted = house.traced("commit").await;
    assert_eq!(redacted.len(), 1);
    assert!(!format!("{redacted:?}").contains(&secret));
}

#[tokio::test]
async fn failed_call_keeps_its_observations_but_its_writes_are_rejected() {
    let house = house(json!({
        "fails": true, "observations": [{"content": "no licence"}],
        "scratch_page_writes": [{"content": "x"}], "memory_writes": ["y"],
    }));
    assert_eq!(house.run().await, Outcome::Failed);
    let noticed = house.noticed_by_tool().await;
    assert_eq!(noticed.len(), 1);
    assert_eq!(noticed[0].fields.body, "no licence");
    let items = house
        .workspace
        .book_items(&work(), BookFilter::default())
        .await
        .unwrap()
        .items;
    assert_eq!(items, []);
    let lines = house.traced("add_observation").await;
    let rejected = lines.iter().filter(|line| line.status == "rejected");
    assert_eq!(rejected.count(), 2);
}

#[tokio::test]
async fn submit_by_an_unauthorised_role_is_refused_m7_7() {
    let house = house(json!({}));
    let refused = house.submit(Actor::new(Role::Tool, "t")).await.unwrap_err();
    assert!(matches!(refused, RunnerError::Refused(_)), "{refused}");
    let pages = house.workspace.pages(&Default::default()).await.unwrap();
    assert!(pages.iter().all(|page| page.fields.role != PageRole::Workspace));
    assert_eq!(house.workspace.runs(&Default::default()).await.unwrap(), []);
}

#[tokio::test]
async fn observations_of_a_run_count_toward_the_quota_m7_6_46() {
    let many: Vec<_> = (0..40).map(|n| json!({"content": format!("number {n}")})).collect();
    let house = house(json!({"observations": many}));
    house.set_policy(json!({"quota": {"live_observations": 20}})).await;
    assert_eq!(house.run().await, Outcome::Ok);
    let live = house.workspace.observations(EntryQuery::default()).await.unwrap().total;
    assert!((20..=21).contains(&live), "{live}");
}

/// A policy with as many types as a space registers, but for two.
fn nearly_full() -> Value {
    let types: serde_json::Map<String, Value> = (2..MAX_TYPES)
        .map(|n| (format!("type_{n}"), json!({"class": "insight"})))
        .collect();
    let all = json!({"observes": ["*"]});
    json!({"strict_types": "nobody", "types": types, "manifests": {"recommend": all, "radar": all}})
}

fn of_types(types: &[&str]) -> Value {
    let items = types.iter().enumerate();
    items
        .map(|(n, name)| json!({"content": format!("{n} {name}"), "type": name}))
        .collect()
}

#[tokio::test]
async fn call_with_several_new_types_registers_no_more_than_the_space_may_have_m7_3_22() {
    let noticed = of_types(&["wind", "rain", "snow", "wind", "type_7"]);
    let house = house(json!({ "observations": noticed }));
    house.set_policy(nearly_full()).await;
    assert_eq!(house.run().await, Outcome::Ok);
    assert_eq!(house.noticed_by_tool().await.len(), 4);
    let policy = house.workspace.policy().await.unwrap();
    assert!(policy.types.get("snow").is_none());
    assert_eq!(policy.types.len(), MAX_TYPES);
    let refused = house.traced("add_observation").await;
    let refused = refused.iter().filter(|line| line.status == "rejected");
    assert_eq!(refused.count(), 1);
}

#[tokio::test]
async fn answer_with_several_new_types_registers_no_more_than_the_space_may_have_m7_3_22() {
    let house = house(json!({}));
    house.set_policy(nearly_full()).await;
    let noticed = of_types(&["wind", "rain", "snow", "wind"]);
    let answer = serde_json::from_value(json!({ "observations": noticed })).unwrap();
    let radar = Actor::new(Role::Tool, "radar");
    let taken = house.workspace.ingest(&radar, &answer, &IngestContext::default()).await;
    assert_eq!(
        (taken.stored.len(), taken.rejected.len()),
        (3, 1),
        "{:?}",
        taken.rejected
    );
    assert_eq!((taken.rejected[0].index, &*taken.rejected[0].code), (2, "type_unknown"));
    assert_eq!(house.workspace.policy().await.unwrap().types.len(), MAX_TYPES);
}

#[tokio::test]
async fn observe_reports_its_count_and_the_reason_of_each_rejection() {
    let house = house(json!({}));
    let plan = "
- {id: o, do: {tool: observe, args: {content: xyz, type: nonsense}}}
- {id: p, do: {tool: observe, args: {items: [{content: good}, {content: a, type: rubbish}, {content: b}]}}}
- {id: q, do: {tool: observe, args: {content: fine}}}";
    let plan = plan::parse(plan, &house.runner.known()).unwrap_or_else(|errors| panic!("{errors}"));
    let (run, _) = house.runner.submit(NewRun::of(plan, person())).await.unwrap();
    assert_eq!(house.runner.drive(run).await.unwrap().status, Outcome::Ok);
    let run = house.runner.load(run).await.unwrap();
    let output = |path: &str| {
        let result = run.node_at(path).unwrap().result.unwrap();
        (run.value_of(&result.output).unwrap(), result.notes.clone())
    };
    let (output_o, notes) = output("o");
    assert_eq!(output_o["count"], 0);
    assert!(notes.starts_with("0 observations; 1 rejected, item 1: "), "{notes}");
    let (output_p, _) = output("p");
    assert_eq!(output_p["count"], 2);
    assert!(
        output_p["rejected"][0].as_str().unwrap().starts_with("item 2: "),
        "{output_p}"
    );
    assert_eq!(*output("q").0, json!({"count": 1}));
    assert_eq!(house.noticed_by_tool().await.len(), 3);
}

#[tokio::test]
async fn observations_keep_their_lifetime_after_the_clock_is_set_back_m7_1() {
    let noticed = json!({"observations": [{"content": "it is corked", "ttl_minutes": 5}]});
    let house = house(noticed);
    house.notice(json!({"content": "the cellar is cold"})).await;
    let before = house.clock.now();
    house.clock.set(before.minus(Duration::from_secs(3_600)));
    assert_eq!(house.run().await, Outcome::Ok);
    let found = house.noticed_by_tool().await;
    assert_eq!(found.len(), 1, "it is not over before it begins");
    let ends = found[0].fields.lifetime.expires_at().unwrap();
    assert!(ends >= before.plus(Duration::from_secs(300)), "{ends}");
    // Another process finds the space to be ahead of its clock.
    let workspace = &house.workspace;
    let behind = Arc::new(SimClock::at(before.minus(Duration::from_secs(3_600 * 24 * 365))));
    let (store, ids) = (Arc::clone(workspace.store()), Arc::clone(workspace.ids()));
    let other = Workspace::new(store, behind, ids, SpaceName::main());
    let runner = Runner::new(other, Registry::with_builtins(), RunnerOptions::default());
    let plan = "title: Wait\nsteps: [{id: wait, do: {tool: wait, args: {ms: 1}}}]";
    let new = NewRun::of(plan::parse(plan, &runner.known()).unwrap(), person());
    let (run, _) = runner.submit(new).await.unwrap();
    assert_eq!(runner.drive(run).await.unwrap().status, Outcome::Ok, "it has its time");
}
