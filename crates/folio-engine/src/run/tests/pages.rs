//! The pages of a run: what each event writes, combined as in a store (E9.16, seed 000).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use folio_memory::markdown::render_page;
use folio_memory::{Entry, EntryHandle, EntryId, Page, PageHandle, PageId, Seq};
use insta::assert_snapshot;

use super::models::{execute, goal, nested, plan_answer, task_named, text_answer};
use super::*;
use crate::projection::{self, branch_page, main_page, plan_page};
use crate::talk::Purpose;

/// The pages of a run and their entries. It refuses what a store refuses.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Pages {
    pages: Vec<Page>,
    entries: Vec<Entry>,
    page_at: HashMap<PageId, usize>,
    entry_at: HashMap<EntryId, usize>,
}

impl Pages {
    /// The pages that the journal writes, as if read from a store.
    pub(super) fn of(run: RunId, journal: &[(Timestamp, Event)]) -> Self {
        let mut run = Run::new(run, Arc::new(Templates::new()));
        let mut pages = Self::default();
        for (at, event) in journal {
            let event: Event = serde_json::from_str(&serde_json::to_string(event).unwrap()).unwrap();
            run.apply(*at, &event).unwrap();
            pages.write(&run, &event, *at);
        }
        pages
    }

    /// Writes the effects of `event`, which was just applied to `run`.
    /// The iterations of the blocks with this title.
    pub(super) fn iterations_of(&self, title: &str) -> Vec<Option<u32>> {
        let blocks = self.entries.iter().filter(|entry| entry.fields.title == title);
        blocks.map(|entry| entry.fields.iteration).collect()
    }

    pub(super) fn write(&mut self, run: &Run, event: &Event, at: Timestamp) {
        for change in projection::changes(run, event) {
            match change {
                Change::EnsurePage(new) => {
                    let parent = new.fields.parent;
                    assert!(
                        parent.is_none_or(|parent| self.page_at.contains_key(&parent)),
                        "a page before its parent: {new:?}"
                    );
                    if let Some(place) = self.page_at.get(&new.id) {
                        self.pages[*place].ensure(&new.fields, at);
                    } else {
                        let handle = PageHandle(self.pages.len() as u64 + 1);
                        self.page_at.insert(new.id, self.pages.len());
                        self.pages.push(Page::added(*new, handle, Seq(1), at));
                    }
                }
                Change::AddEntry(new) => {
                    assert!(
                        self.page_at.contains_key(&new.page),
                        "an entry before its page: {new:?}"
                    );
                    let twice = self.entry_at.insert(new.id, self.entries.len());
                    assert_eq!(twice, None, "twice: {new:?}, at last by {event:?}");
                    let handle = EntryHandle(self.entries.len() as u64 + 1);
                    self.entries.push(Entry::added(*new, handle, Seq(1), at));
                }
                Change::PatchEntry { entry, fields, .. } => {
                    let place = self.entry_at.get(&entry);
                    let place = place.unwrap_or_else(|| panic!("a patch before its entry, by {event:?}"));
                    self.entries[*place].patch(&fields, Seq(1), at);
                }
                Change::SetPageStatus { page, status } => {
                    let place = self.page_at.get(&page);
                    let place = place.unwrap_or_else(|| panic!("a status before its page, by {event:?}"));
                    self.pages[*place].set_status(&status, at);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// All entries on the pages.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// A page as people read it.
    pub(super) fn read(&self, page: PageId) -> String {
        let page = &self.pages[self.page_at[&page]];
        let entries: Vec<Entry> = self
            .entries
            .iter()
            .filter(|entry| entry.page == page.id)
            .cloned()
            .collect();
        let below = |below: &&Page| below.fields.parent == Some(page.id);
        let children: Vec<Page> = self.pages.iter().filter(below).cloned().collect();
        render_page(page, &entries, &children)
    }
}

/// A goal with three plans, of which the first two fail, and the second meets more criteria than the first.
fn planned_thrice() -> Sim {
    let step = |title: &str| {
        let id = title.split(' ').next_back().unwrap();
        json!({"id": id, "title": title, "satisfies": ["c1", "c2"]})
    };
    let plans = [
        json!([[step("well a"), step("badly b")], [step("well c"), step("well d")]]),
        json!([[step("badly x"), step("well y")], step("well z")]),
        json!([step("well last"), step("well end")]),
    ];
    let (planned, judged) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let next = move || plans[planned.fetch_add(1, Ordering::Relaxed)].clone();
    let criteria = json!(["half of it", "all of it"]);
    goal("mend it", &json!({"criteria": criteria}), move |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "mend it") => plan_answer(next()),
            (Purpose::Replan, _) => {
                text_answer(&json!({"root_cause": "so", "changes": "this", "steps": next()}).to_string())
            }
            (Purpose::Decide, task) => {
                let status = if task.starts_with("well") { "ok" } else { "failed" };
                execute("finish", json!({"status": status, "notes": task}))
            }
            (Purpose::Judge, _) => {
                let met = judged.fetch_add(1, Ordering::Relaxed);
                let finding = |at: usize| if at < met { "met" } else { "unmet" };
                let verdicts = ["c1", "c2"].iter().enumerate();
                let verdicts = verdicts.map(|(at, id)| json!({"criterion": id, "finding": finding(at), "gap": "that"}));
                text_answer(&json!({"verdicts": verdicts.collect::<Vec<_>>()}).to_string())
            }
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    })
    .driven_on()
}

#[test]
fn plan_page_after_a_replan_is_accepted_back_unchanged_e9_16() {
    let sim = planned_thrice();
    let root = NodeId::root(sim.run.id());
    let mut read = Vec::new();
    for (at, (_, event)) in sim.journal.iter().enumerate() {
        let Event::Planned { version: 2.., node, .. } = event else {
            continue;
        };
        assert_eq!(*node, root);
        let then = Sim::resumed(&sim.journal[..=at]);
        let page = then.pages.read(plan_page(sim.run.id()));
        let edit = then.run.edit_plan(root, &page, None, &Known::default(), "ada");
        assert_eq!(edit.map_err(|error| error.to_string()), Ok(None), "{page}");
        read.push(page);
    }
    assert_eq!(read.len(), 2);
    assert_snapshot!(read[1], @r"
    # Plan

    <!-- p3 plan · planner · open · iteration 3 -->

    - [x] well a {#a} · ok
    - [x] group-4 {#group-4 .parallel} · ok
      - [x] well c {#c} · ok
      - [x] well d {#d} · ok
    - [x] well y {#y} · ok
    - [x] well z {#z} · ok
    - [ ] well last {#last}
    - [ ] well end {#end}
    - [-] group-1 {#group-1 .parallel} · superseded
      - [-] badly b {#b} · superseded
    - [-] group-1 {#group-1 .parallel} · superseded
      - [-] badly x {#x} · superseded
    ");
}

#[test]
fn pages_of_a_model_run_can_be_rebuilt_e9_16() {
    let judged = goal("survey the house", &models::house(), nested).driven_on();
    for sim in [judged, planned_thrice()] {
        assert_eq!(Pages::of(sim.run.id(), &sim.journal), sim.pages);
    }
}

#[test]
fn last_roll_up_names_each_branch_with_its_page_seed_000() {
    let sim = goal("survey the house", &models::house(), nested).driven_on();
    let main = sim.pages.read(main_page(sim.run.id()));
    let (_, roll_up) = main.split_once("## Branch roll-up\n").unwrap();
    for (path, line) in [
        ("look", "look ok: walk through done"),
        ("group-2/cellar", "cellar ok: check cellar beams done"),
        ("group-2/roof", "roof ok: all of check roof tiles"),
    ] {
        let page = branch_page(&sim.run, sim.run.node_at(path).unwrap().id);
        // The page is named by its handle, as in the list of pages below.
        let (_, handle) = roll_up.split_once(&format!("- {line} [")).unwrap();
        let (handle, _) = handle.split_once("]\n").unwrap();
        let title = sim.run.title(sim.run.node_at(path).unwrap().id);
        assert!(
            roll_up.contains(&format!("\n- {handle} {title} (ok)\n")),
            "{path} in\n{roll_up}"
        );
        assert!(sim.pages.read(page).contains("scratchpad_exec"));
    }
    assert!(!roll_up.contains("group-2"), "{roll_up}");
}

#[test]
fn pages_title_single_item_lists_and_pauses_correctly_e9_16() {
    let step = "{id: look, do: {tool: echo, args: {}}}";
    let mut sim = Sim::new(&format!(
        "steps: [{{id: each, title: Look, for_each: [1], as: it, step: {step}}}]"
    ));
    let by = || "ada".to_owned();
    sim.record(Event::Paused { node: None, by: by() });
    sim.record(Event::Continued { node: None, by: by() });
    let sim = sim.driven_on();
    let titles = |page: PageId| {
        let on_it = sim.pages.entries().iter().filter(move |entry| entry.page == page);
        on_it.map(|entry| entry.fields.title.clone()).collect::<Vec<_>>()
    };
    let main = titles(main_page(sim.run.id()));
    let (paused, continued) = (
        main.iter().position(|title| title == "Paused"),
        main.iter().position(|title| title == "Continued"),
    );
    assert!(paused.is_some() && paused < continued, "{main:?}");
    let each = titles(branch_page(&sim.run, sim.run.node_at("each").unwrap().id));
    assert!(each.contains(&"Look: 1 item".to_owned()), "{each:?}");
}
