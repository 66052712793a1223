//! Runs whose steps ask a model: what each is told of the pages, and in which commits.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use folio_engine::plan;
use folio_engine::run::PlanMode;
use folio_engine::{Event, Outcome, Run};
use folio_memory::tokens::Estimate;
use folio_memory::{Actor, NewPage, Owner, PageFields, Role, RunId, Seq, SpaceName};
use folio_model::{Delta, Model, ModelError, Reply, Request, ScriptedModel, When};
use folio_store::sqlite::OpenOptions;
use folio_store::workspace::{ForgetFilter, Write};
use folio_store::{RandomIds, SqliteStore, SystemClock};
use folio_tools::Registry;
use serde_json::json;

use super::*;
use crate::{NewRun, Runner, RunnerModel, RunnerModels, RunnerOptions};

/// A model that reports its task as done. The first time, somebody writes onto a page meanwhile, or archives the last
/// steps of the plan.
#[derive(Debug)]
struct Finishing {
    beside: Mutex<Option<(Workspace, PageId)>>,
    away: Mutex<Option<(Workspace, PageId)>>,
    says: ScriptedModel,
}

impl Finishing {
    fn new() -> Self {
        let done = json!({"status": "ok", "notes": "swept and dusted", "output": 1});
        Self {
            beside: Mutex::default(),
            away: Mutex::default(),
            says: ScriptedModel::new([When::any().calls([("finish", done)]).always()]),
        }
    }
}

#[async_trait]
impl Model for Finishing {
    async fn reply(&self, request: &Request, delta: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, ModelError> {
        let beside = self.beside.lock().unwrap().take();
        if let Some((workspace, page)) = beside {
            let person = Actor::new(Role::Human, "ada");
            let text = "mind the roof".to_owned();
            let written = workspace.append(&person, Ref::Id(page), "By hand", text, &[], None);
            written.await.unwrap();
        }
        let away = self.away.lock().unwrap().take();
        if let Some((workspace, plan)) = away {
            let person = Actor::new(Role::Human, "ada");
            let steps = workspace.page_entries(Ref::Id(plan)).await.unwrap();
            let [.., archived, forgotten] = &steps[..] else {
                panic!("{steps:?}")
            };
            let done = workspace.archive(&person, Ref::Id(archived.id), None).await;
            done.unwrap();
            let filter = ForgetFilter {
                entries: vec![Ref::Id(forgotten.id)],
                ..ForgetFilter::default()
            };
            workspace.forget(&person, &filter, "asked to").await.unwrap();
        }
        self.says.reply(request, delta).await
    }
}

struct House {
    _folder: tempfile::TempDir,
    workspace: Workspace,
    runner: Runner,
    model: Arc<Finishing>,
}

fn house_with_model() -> House {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
    let ids = Arc::new(RandomIds::default());
    let workspace = Workspace::new(store, Arc::new(SystemClock), ids, SpaceName::main());
    let model = Arc::new(Finishing::new());
    let options = RunnerOptions {
        models: Some(RunnerModels::one(RunnerModel::new(
            "finishing",
            Arc::clone(&model) as _,
        ))),
        ..RunnerOptions::default()
    };
    House {
        _folder: folder,
        runner: Runner::new(workspace.clone(), Registry::with_builtins(), options),
        workspace,
        model,
    }
}

impl House {
    /// A run of four steps in a row, each of which asks the model.
    async fn submit(&self) -> RunId {
        let steps: Vec<_> = ["attic", "hall", "cellar", "shed"]
            .map(|room| json!({"id": room, "description": format!("sweep the {room}")}))
            .into();
        let plan = json!({"version": 1, "title": "Sweep", "steps": steps});
        let plan = plan::from_value(&plan, &plan::Known::default()).unwrap();
        let new = NewRun {
            plan_mode: PlanMode::Never,
            ..NewRun::of(plan, Actor::new(Role::Human, "ada"))
        };
        self.runner.submit(new).await.unwrap().0
    }

    async fn drive(&self, run: RunId) {
        assert_eq!(self.runner.drive(run).await.unwrap().status, Outcome::Ok);
    }

    async fn events(&self, run: RunId) -> Vec<(folio_memory::Timestamp, Event)> {
        self.workspace.journal(run, Seq(0)).await.unwrap().events
    }

    /// What each step was told of memory, in order.
    async fn memory_briefings(&self, run: RunId) -> Vec<String> {
        let events = self.events(run).await.into_iter();
        let told = events.filter_map(|(_, event)| match event {
            Event::Briefed { memory, .. } => Some(memory),
            _ => None,
        });
        told.collect()
    }
}

#[tokio::test]
async fn model_step_is_one_commit_and_briefed_on_earlier_results() {
    let house = house_with_model();
    let run = house.submit().await;
    house.drive(run).await;
    let told = house.memory_briefings(run).await;
    assert_eq!(told.len(), 4);
    assert!(!told[0].contains("swept"), "nothing was done yet: {}", told[0]);
    for (before, told) in ["attic", "hall", "cellar"].iter().zip(&told[1..]) {
        let page = told
            .lines()
            .skip_while(|line| !line.contains(&format!("({before};")))
            .collect::<Vec<_>>();
        assert!(page[0].starts_with('p') && page[0].contains("/ok] "), "{told}");
        assert!(
            page[1..].iter().any(|line| line.contains("ok: swept and dusted")),
            "{told}"
        );
    }
    let rows = house.workspace.changes(Seq(0), 1_000).await.unwrap();
    let of_run = rows.iter().filter_map(|row| row.record.run.as_ref());
    let ends = of_run.filter(|append| {
        let mut events = append.events.iter();
        events.any(|event| matches!(event, Event::Finished { .. }))
    });
    let goes_on = ends.map(|append| {
        let is_told = append.events.iter().any(|event| matches!(event, Event::Briefed { .. }));
        let is_asked = append.events.iter().any(|event| matches!(event, Event::Asked { .. }));
        (is_told, is_asked)
    });
    let goes_on: Vec<_> = goes_on.collect();
    assert_eq!(goes_on, [(true, true), (true, true), (true, true), (false, false)]);
}

#[tokio::test]
async fn cached_run_pages_brief_the_same_as_pages_read_anew() {
    let house = house_with_model();
    let (run, workspace) = (house.submit().await, &house.workspace);
    let begun = house.runner.load(run).await.unwrap();
    let moment = workspace.moment().await.unwrap();
    let mut kept = RunPages::read(workspace, moment, &begun).await.unwrap().unwrap();
    house.drive(run).await;
    let mut folded = Run::new(run, Arc::default());
    for (number, (at, event)) in house.events(run).await.iter().enumerate() {
        folded.apply(*at, event).unwrap();
        for change in projection::changes(&folded, event).iter().filter(|_| number > 0) {
            kept.apply_change(workspace, &folded, change).await.unwrap();
        }
    }
    assert_eq!(
        kept.render_planner_block(2_000, &Estimate),
        Err(MustReread),
        "no page has a handle"
    );
    let pages = workspace.pages(&PageQuery::default()).await.unwrap();
    kept.set_handles(&pages.iter().map(|page| (page.id, page.handle)).collect::<Vec<_>>());
    let moment = workspace.moment().await.unwrap();
    let read = RunPages::read(workspace, moment, &folded).await.unwrap().unwrap();
    for budget in [200, 400, 2_000] {
        assert_eq!(
            kept.render_planner_block(budget, &Estimate),
            read.render_planner_block(budget, &Estimate)
        );
    }
    assert_eq!(kept.ids.len(), 1 + 4);
}

#[tokio::test]
async fn entry_written_by_a_person_reaches_the_next_brief() {
    let house = house_with_model();
    let run = house.submit().await;
    *house.model.beside.lock().unwrap() = Some((house.workspace.clone(), projection::main_page(run)));
    house.drive(run).await;
    let told = house.memory_briefings(run).await;
    let knows: Vec<_> = told.iter().map(|told| told.contains("mind the roof")).collect();
    assert_eq!(knows, [false, true, true, true]);
}

#[tokio::test]
async fn submitted_run_pages_are_cached_until_a_later_write() {
    let house = house_with_model();
    let (_first, run) = (house.submit().await, house.submit().await);
    let workspace = &house.workspace;
    let opened = house.runner.shared.open(run).await.unwrap();
    let kept = opened.pages.unwrap();
    let moment = workspace.moment().await.unwrap();
    assert!(kept.is_current(moment));
    let read = RunPages::read(workspace, moment, &opened.run).await.unwrap().unwrap();
    assert_eq!((&kept.ids, kept.omitted_counts()), (&read.ids, read.omitted_counts()));
    let named = |pages: &RunPages| pages.lines.iter().all(PageLines::has_handle);
    assert!(named(&kept) && named(&read));
    let (person, text) = (Actor::new(Role::Human, "ada"), "mind the roof".to_owned());
    let main = Ref::Id(projection::main_page(run));
    let written = workspace.append(&person, main, "By hand", text, &[], None);
    written.await.unwrap();
    assert!(!kept.is_current(workspace.moment().await.unwrap()));
}

#[tokio::test]
async fn run_continues_after_plan_steps_are_archived_or_erased() {
    let house = house_with_model();
    let run = house.submit().await;
    let plan = projection::plan_page(run);
    *house.model.away.lock().unwrap() = Some((house.workspace.clone(), plan));
    house.drive(run).await;
    let steps = house.workspace.page_entries(Ref::Id(plan)).await.unwrap();
    let statuses: Vec<_> = steps.iter().map(|step| step.fields.status).collect();
    assert_eq!(&statuses[..2], [Status::Done, Status::Done]);
    assert!(house.workspace.store().check().await.unwrap().problems.is_empty());
}

#[tokio::test]
async fn run_pages_count_more_than_a_thousand_pages_e9_16() {
    let house = house_with_model();
    let (run, workspace) = (house.submit().await, &house.workspace);
    let begun = house.runner.load(run).await.unwrap();
    let moment = workspace.moment().await.unwrap();
    let before = RunPages::read(workspace, moment, &begun).await.unwrap().unwrap();
    let pages = (0..1_003).map(|number: u32| {
        let name = format!("room {number}");
        let mut fields = PageFields::new(PageRole::ScratchpadExec, &name, Owner::executor());
        fields.run = Some(run);
        // The oldest has to be looked at.
        fields.status = if number == 0 { "failed" } else { "ok" }.to_owned();
        let id = PageId::derived(&[&name]);
        Change::EnsurePage(Box::new(NewPage { id, fields }))
    });
    let person = Actor::new(Role::Human, "ada");
    workspace.record(&person, Write::of(pages.collect())).await.unwrap();
    let moment = workspace.moment().await.unwrap();
    let read = RunPages::read(workspace, moment, &begun).await.unwrap().unwrap();
    let count = |pages: &RunPages| pages.ids.len() + pages.settled + pages.unsettled.len();
    assert_eq!(count(&read), count(&before) + 1_003);
    assert!(read.ids.contains(&PageId::derived(&["room 0"])));
}
