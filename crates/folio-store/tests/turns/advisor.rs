//! Advisors, which are asked in turns what rules cannot see (M7.11.1).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use folio_memory::id::Ref;
use folio_memory::turn::{Clarity, Stage, Urgency};
use folio_memory::{Actor, Role};
use folio_store::Workspace;
use folio_store::workspace::{Advice, Advisor, After, Before, ForgetFilter, Questions, TraceQuery, TurnInput};
use serde_json::json;

use crate::scene::{Scene, person};

/// Gives a fixed answer, and records what it was shown.
#[derive(Debug, Default)]
struct FixedAdvisor {
    before: Option<Advice>,
    left: Vec<String>,
    shown: Mutex<Vec<String>>,
}

#[async_trait]
impl Advisor for FixedAdvisor {
    fn name(&self) -> String {
        "owl".to_owned()
    }

    async fn before(&self, before: &Before) -> Result<Advice, String> {
        let handles: Vec<String> = before.at_hand.iter().map(|entry| entry.handle.to_string()).collect();
        self.shown
            .lock()
            .unwrap()
            .push(format!("{}: {}", before.input, handles.join(" ")));
        if before.input == "break" {
            panic!("it broke");
        }
        if before.input == "wait" {
            std::future::pending::<()>().await;
        }
        self.before.clone().ok_or_else(|| "it is asleep".to_owned())
    }

    async fn after(&self, after: &After) -> Result<Vec<String>, String> {
        self.shown
            .lock()
            .unwrap()
            .push(format!("after {}: {}", after.turn.begun.input, after.touched.len()));
        Ok(self.left.clone())
    }
}

fn advised(told: FixedAdvisor) -> (Scene, Arc<FixedAdvisor>) {
    let scene = Scene::new();
    let told = Arc::new(told);
    let workspace = scene
        .workspace
        .with_advisor(Arc::clone(&told) as _, Duration::from_millis(50));
    (Scene { workspace, ..scene }, told)
}

fn advice(urgency: Urgency, question: Option<&str>) -> Option<Advice> {
    Some(Advice {
        urgency,
        why: "money is\n at stake".to_owned(),
        question: question.map(str::to_owned),
    })
}

/// Advises, but panics about itself.
#[derive(Debug)]
struct Nameless;

#[async_trait]
impl Advisor for Nameless {
    fn name(&self) -> String {
        panic!("it has no name")
    }

    fn spent(&self) -> serde_json::Value {
        panic!("it does not count")
    }

    async fn before(&self, _: &Before) -> Result<Advice, String> {
        Ok(advice(Urgency::High, None).unwrap())
    }

    async fn after(&self, _: &After) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn advisor_that_panics_about_itself_spoils_no_turn_m7_11_1() {
    let scene = Scene::new();
    let workspace = scene
        .workspace
        .with_advisor(Arc::new(Nameless), Duration::from_secs(60));
    let scene = Scene { workspace, ..scene };
    let begun = scene.begin("Pay the invoice of ACME as agreed last week").await;
    assert_eq!(begun.assessment.urgency, Urgency::High);
    let kept = scene.workspace.turn(Ref::Handle(begun.turn.handle)).await.unwrap();
    let reasons = &kept.decision(Stage::Router).unwrap().reasons;
    assert!(
        reasons
            .iter()
            .any(|why| why == "the advisor raises it: money is at stake"),
        "{reasons:?}"
    );
    scene.end(&begun).await;
}

#[tokio::test]
async fn advisor_raises_urgency_asks_and_reports_open_work_m7_11_1() {
    let (scene, told) = advised(FixedAdvisor {
        before: advice(Urgency::High, Some("Which of the two invoices?")),
        left: vec!["nobody paid it".to_owned(), " ".to_owned()],
        ..FixedAdvisor::default()
    });
    let begun = scene.begin("Pay the invoice of ACME as agreed last week").await;
    assert_eq!(begun.assessment.urgency, Urgency::High);
    let question = begun.question.as_ref().unwrap();
    assert_eq!(question.fields.body, "Which of the two invoices?");
    // It is no longer waited for, so that the rules find nothing left.
    scene
        .workspace
        .update_observation(
            &person(),
            Ref::Id(question.id),
            serde_json::from_value(json!({"status": "resolved"})).unwrap(),
            None,
        )
        .await
        .unwrap();
    let ended = scene.end(&begun).await;
    assert!(!ended.evaluation.complete);
    let kept = scene.workspace.turn(Ref::Handle(begun.turn.handle)).await.unwrap();
    let said = |stage| {
        let decision = kept.decision(stage).unwrap();
        format!("{}: {}", decision.verdict, decision.reasons.join("; "))
    };
    assert_eq!(
        [Stage::Router, Stage::Clarifier, Stage::Evaluator].map(said),
        [
            "high: owl raises it: money is at stake",
            "ambiguous: owl asks",
            "more_work: owl: nobody paid it"
        ]
    );
    let shown = told.shown.lock().unwrap().clone();
    assert_eq!(shown.len(), 2, "{shown:?}");
    let lines = scene
        .workspace
        .trace(TraceQuery {
            turn: Some(begun.turn.begun.id),
            ..TraceQuery::default()
        })
        .await
        .unwrap();
    let asked: Vec<_> = lines.iter().filter(|line| line.component == "advisor").collect();
    assert_eq!(
        asked
            .iter()
            .map(|line| (line.operation.as_str(), line.status.as_str()))
            .collect::<Vec<_>>(),
        [("before", "success"), ("after", "success")]
    );
}

#[tokio::test]
async fn advisor_cannot_override_the_rules_m7_11_1() {
    let (scene, told) = advised(FixedAdvisor {
        before: advice(Urgency::Low, Some("Really?")),
        ..FixedAdvisor::default()
    });
    // What asks already is not asked by somebody else.
    let begun = scene.begin("fix it").await;
    let Clarity::Ambiguous { question, .. } = &begun.clarity else {
        panic!("{:?}", begun.clarity)
    };
    assert_ne!(question, "Really?");
    // What is open by the rules is left, and nobody is asked.
    let before = told.shown.lock().unwrap().len();
    assert!(!scene.end(&begun).await.evaluation.complete);
    assert_eq!(told.shown.lock().unwrap().len(), before);
    let begun = scene.begin("Pay the invoice immediately").await;
    assert_eq!(begun.assessment.urgency, Urgency::High);
    // Who does not wait is not asked.
    let input = TurnInput {
        background: true,
        ..TurnInput::of(folio_memory::ThreadKey::main(), "Look through the letters of this week")
    };
    let begun = scene.workspace.begin_turn(&person(), input).await.unwrap();
    assert_eq!(begun.question, None);
}

#[tokio::test]
async fn failing_or_hanging_advisor_changes_only_the_trace_m7_11_1() {
    let (scene, _told) = advised(FixedAdvisor::default());
    for (input, why) in [
        ("sleep well and long tonight, my dear", "it is asleep"),
        ("break", "it crashed"),
        ("wait", "it took too long"),
    ] {
        let begun = scene.begin(input).await;
        assert_eq!(begun.assessment.urgency, Urgency::Normal, "{input}");
        let query = TraceQuery {
            turn: Some(begun.turn.begun.id),
            ..TraceQuery::default()
        };
        let lines = scene.workspace.trace(query).await.unwrap();
        let line = lines.iter().find(|line| line.component == "advisor").unwrap();
        assert_eq!(line.status, "failed");
        assert_eq!(line.detail.as_ref().unwrap()["error"], why);
    }
}

#[tokio::test]
async fn replayed_turn_does_not_ask_the_advisor_again_m7_11_1() {
    let (scene, told) = advised(FixedAdvisor {
        before: advice(Urgency::High, None),
        ..FixedAdvisor::default()
    });
    let input = TurnInput::of(folio_memory::ThreadKey::main(), "Pay the invoice of ACME");
    let actor = Actor::new(Role::Human, "ada");
    for replayed in [false, true] {
        let begun = scene
            .workspace
            .begin_turn_under(&actor, input.clone(), Some("k".to_owned()), Questions::Written)
            .await
            .unwrap();
        assert_eq!(begun.replayed, replayed);
    }
    assert_eq!(told.shown.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn checking_whether_a_key_is_recorded_does_not_consume_it() {
    let scene = Scene::new();
    let actor = person();
    assert!(!scene.workspace.is_recorded(&actor, "k").await.unwrap());
    let input = TurnInput::of(folio_memory::ThreadKey::main(), "Pay the invoice");
    let begun = scene
        .workspace
        .begin_turn_under(&actor, input, Some("k".to_owned()), Questions::Written)
        .await
        .unwrap();
    assert!(!begun.replayed);
    assert!(scene.workspace.is_recorded(&actor, "k").await.unwrap());
}

/// Has the input of each turn forgotten while it is asked what is left, and then quotes it.
#[derive(Debug)]
struct Quoting(Workspace);

#[async_trait]
impl Advisor for Quoting {
    fn name(&self) -> String {
        "parrot".to_owned()
    }

    async fn before(&self, _: &Before) -> Result<Advice, String> {
        Err("it is asleep".to_owned())
    }

    async fn after(&self, after: &After) -> Result<Vec<String>, String> {
        let filter = ForgetFilter {
            text: Some("ACME".to_owned()),
            ..ForgetFilter::default()
        };
        self.0.forget(&person(), &filter, "they asked").await.unwrap();
        Ok(vec![format!("nobody did: {}", after.turn.begun.input)])
    }
}

#[tokio::test]
async fn advisor_brings_back_no_input_that_was_forgotten_meanwhile_m7_6_50() {
    let scene = Scene::new();
    let quoting = Arc::new(Quoting(scene.workspace.clone()));
    let workspace = scene.workspace.with_advisor(quoting, Duration::from_secs(60));
    let scene = Scene { workspace, ..scene };
    let begun = scene.begin("Pay the invoice of ACME").await;
    let ended = scene.end(&begun).await;
    assert!(!ended.evaluation.complete);
    let kept = scene.workspace.turn(Ref::Handle(begun.turn.handle)).await.unwrap();
    assert_eq!(kept.begun.input, "");
    assert_eq!(
        kept.decision(Stage::Evaluator).unwrap().reasons,
        ["what the advisor found left to do is forgotten with the input"]
    );
}
