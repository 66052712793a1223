//! What goes into a prompt (seed 004, "Working Memory Integration").

use folio_memory::ThreadKey;
use folio_memory::context::Section;
use folio_memory::id::Ref;
use folio_memory::scratchbook::ItemInput;
use folio_memory::tokens::{Estimate, Tokens as _};
use folio_store::workspace::ContextRequest;
use serde_json::{from_value, json};

use crate::scene::{Scene, person};

fn request(prompt: &str, budget: u32) -> ContextRequest {
    ContextRequest {
        thread: ThreadKey::main(),
        turn: None,
        prompt: prompt.to_owned(),
        budget,
        sections: Vec::new(),
    }
}

#[tokio::test]
async fn the_scratch_page_has_a_tenth_and_every_memory_its_section_m7_11_4() {
    let scene = Scene::new();
    for _ in 0..3 {
        let burgundy = json!({"content": "User prefers Burgundy wines", "tags": ["wine"], "confidence": 0.9});
        scene
            .turn_with("Which wine should I get?", "wine_search", burgundy)
            .await;
    }
    let turn = scene.begin("Which wine goes with fish?").await;
    let id = turn.turn.begun.id;
    for n in 0..60 {
        scene
            .notice(
                "scan",
                id,
                json!({"content": format!("Observation number {n} of many")}),
            )
            .await;
    }
    let alert = json!({"type": "risk_alert", "content": "The cellar is flooded", "tags": ["cellar"]});
    scene.notice("scan", id, alert).await;
    for n in 0..60 {
        let item: ItemInput = from_value(json!({"kind": "todo", "title": format!("Todo number {n}")})).unwrap();
        scene
            .workspace
            .add_item(&person(), &ThreadKey::main(), item, None)
            .await
            .unwrap();
    }
    let with_turn = ContextRequest {
        turn: Some(Ref::Id(id)),
        ..request("", 1_000)
    };
    let assembled = scene
        .workspace
        .assemble_context(with_turn.clone(), &Estimate)
        .await
        .unwrap();
    let receipt = &assembled.receipt;
    assert!(
        Estimate.count(&assembled.text) <= 1_000 && receipt.tokens > 800,
        "{}",
        receipt.tokens
    );
    let page = &receipt.sections[0];
    assert_eq!(
        (page.section.as_str(), page.reserved),
        (Section::ScratchPage.as_str(), 100)
    );
    assert!(
        assembled.text.contains("The cellar is flooded"),
        "an alert comes first: {}",
        assembled.text
    );
    assert!(!page.omitted.is_empty(), "what is left out is said");
    assert!(
        assembled.text.contains("[learning/active]"),
        "a fact: {}",
        assembled.text
    );
    assert!(assembled.text.contains("Which wine should I get?"), "an earlier turn");
    let again = scene.workspace.assemble_context(with_turn, &Estimate).await.unwrap();
    assert_eq!(again.text, assembled.text, "the same state gives the same bytes");
}

#[tokio::test]
async fn an_empty_space_and_an_empty_budget_give_nothing_m7_11_4() {
    let scene = Scene::new();
    assert_eq!(
        scene
            .workspace
            .assemble_context(request("x", 500), &Estimate)
            .await
            .unwrap()
            .text,
        ""
    );
    scene.turn_with("one", "t", json!({"content": "x"})).await;
    assert_eq!(
        scene
            .workspace
            .assemble_context(request("x", 0), &Estimate)
            .await
            .unwrap()
            .text,
        ""
    );
}
