//! What goes into a prompt (seed 004, "Working Memory Integration").

use folio_memory::context::Section;
use folio_memory::id::Ref;
use folio_memory::patterns::{CHANNEL, PATTERN};
use folio_memory::scratchbook::ItemInput;
use folio_memory::tokens::{Estimate, Tokens as _};
use folio_memory::{Change, EntryFields, EntryId, EntryKind, NewEntry, Owner, ThreadKey, Trust};
use folio_store::workspace::{ContextRequest, Write};
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
async fn context_gives_the_scratch_page_a_tenth_beside_every_memory_m7_11_4() {
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
        assembled
            .text
            .contains("User prefers Burgundy wines #wine (seen 3× in 3 turns"),
        "a fact is said once, with how often it was seen: {}",
        assembled.text
    );
    assert!(!assembled.text.contains("[learning/active]"), "{}", assembled.text);
    assert!(assembled.text.contains("Which wine should I get?"), "an earlier turn");
    let again = scene.workspace.assemble_context(with_turn, &Estimate).await.unwrap();
    assert_eq!(again.text, assembled.text, "the same state gives the same bytes");
}

#[tokio::test]
async fn observations_that_concern_the_prompt_are_chosen_among_all_m7_11_4() {
    for newer in [20, 300] {
        let scene = Scene::new();
        let turn = scene.begin("What is there?").await.turn.begun.id;
        let workspace = &scene.workspace;
        let port = json!({"content": "The zebra service uses port 9123", "tags": ["zebra"]});
        scene.notice("scan", turn, port).await;
        for n in 0..newer {
            let other = json!({"content": format!("Unrelated fact number {n}: the weather in city {n} was nice")});
            scene.notice("scan", turn, other).await;
        }
        let of_prompt = async |prompt: &str| {
            let observations = ContextRequest {
                sections: vec![(Section::ScratchPage, 100)],
                ..request(prompt, 200)
            };
            workspace.assemble_context(observations, &Estimate).await.unwrap()
        };
        let assembled = of_prompt("Which port does the zebra service use?").await;
        let first = assembled.text.lines().nth(1).unwrap_or_default();
        assert!(first.contains("port 9123"), "{newer}: {}", assembled.text);
        // Every observation is either shown or counted.
        let shown = assembled.receipt.shown().count() as u64;
        assert_eq!(assembled.receipt.omitted() + shown, newer + 1, "{}", assembled.text);
        let again = of_prompt("Which port does the zebra service use?").await;
        assert_eq!(again.text, assembled.text);
        // Without a prompt, and with one that nothing concerns, what matters most comes first: here, what is newest.
        let newest = format!("Unrelated fact number {}:", newer - 1);
        for prompt in ["", "Bonjour"] {
            let assembled = of_prompt(prompt).await;
            let first = assembled.text.lines().nth(1).unwrap_or_default();
            assert!(first.contains(&newest), "{newer}: {}", assembled.text);
        }
    }
}

#[tokio::test]
async fn patterns_are_not_counted_as_omitted_observations_m7_11_4() {
    let scene = Scene::new();
    let turn = scene.begin("What is there?").await.turn.begun.id;
    let workspace = &scene.workspace;
    scene.notice("scan", turn, json!({"content": "It rains"})).await;
    let (page, _) = workspace.scratch_page().await.unwrap();
    let patterns = (0..150).map(|number| {
        let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::User);
        fields.body = format!("pattern number {number}");
        fields.type_name = Some(PATTERN.to_owned());
        fields.source.channel = Some(CHANNEL.to_owned());
        let id = EntryId::derived(&["pattern", &number.to_string()]);
        let kind = EntryKind::Observation;
        Change::AddEntry(Box::new(NewEntry { id, page, kind, fields }))
    });
    workspace
        .record(&person(), Write::of(patterns.collect()))
        .await
        .unwrap();
    // Of so many not all are looked at.
    scene.notice("scan", turn, json!({"content": "It snows"})).await;
    let observations = ContextRequest {
        sections: vec![(Section::ScratchPage, 100)],
        ..request("x", 4_000)
    };
    let assembled = workspace.assemble_context(observations, &Estimate).await.unwrap();
    assert!(assembled.text.contains("It snows"), "{}", assembled.text);
    let shown = ["It rains", "It snows"].map(|text| u64::from(assembled.text.contains(text)));
    assert_eq!(
        assembled.receipt.omitted() + shown.iter().sum::<u64>(),
        2,
        "{}",
        assembled.text
    );
}

#[tokio::test]
async fn receipt_of_a_context_names_its_thread_and_what_was_not_in_it_m7_8() {
    let scene = Scene::new();
    let turn = scene.begin("Which wine?").await.turn.begun.id;
    let item: ItemInput = from_value(json!({"kind": "todo", "title": "Buy it"})).unwrap();
    let todo = scene
        .workspace
        .add_item(&person(), &ThreadKey::main(), item, None)
        .await
        .unwrap();
    let noticed = scene.notice("scan", turn, json!({"content": "It rains"})).await;
    for section in [Section::ScratchPage, Section::Scratchbook] {
        let request = ContextRequest {
            turn: Some(Ref::Id(turn)),
            sections: vec![(section, 100)],
            ..request("x", 500)
        };
        scene.workspace.assemble_context(request, &Estimate).await.unwrap();
    }
    let fates = |id| scene.workspace.shown(Ref::Id(id), Ref::Id(turn));
    let of_todo = fates(todo.entry.id).await.unwrap();
    assert!(of_todo.iter().all(|(kept, _)| kept.thread.as_deref() == Some("main")));
    let said = |fates: &[(_, String)]| fates.iter().map(|(_, fate)| fate.clone()).collect::<Vec<_>>();
    assert_eq!(
        said(&of_todo),
        [
            "not considered: the context has no section for it",
            "shown (scratchbook/todos)"
        ]
    );
    assert_eq!(said(&fates(noticed.id).await.unwrap())[0], "shown (scratch_page)");
}

#[tokio::test]
async fn context_of_an_empty_space_or_zero_budget_is_empty_m7_11_4() {
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
