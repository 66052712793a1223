//! What programs outside of this repository rely on: names, and what answers can do.

use folio::engine::run::ForkError;
use folio::memory::Ulid;
use folio::memory::turn::Turn;
use folio::model::Place;
use folio::runner::{Forked, HeldUp, Replayed, Submitted};
use folio::store::copy::CopyError;
use folio::store::workspace::{
    Consolidated, Delivered, Episodes, Evicted, Forgotten, GoalState, Ingested, Offloaded, ReadyWork, Said, TracePart,
    TreeNode, View, ViewRequest,
};
use folio::store::{ErrorKind, StoreError};
use folio::tools::Url;
use folio::{Actor, CancellationToken, Folio, ObservationInput, Page, Role, SpaceName, ThreadKey};
use serde_json::{Value, json};

#[tokio::test]
async fn answers_become_json_with_the_names_that_they_have_in_rust() {
    let space = Folio::open("memory:").await.unwrap().workspace(SpaceName::main());
    let input = ObservationInput {
        content: "likes Burgundy".to_owned(),
        ..ObservationInput::default()
    };
    let tool = Actor::new(Role::Tool, "wine_search");
    let written = space.add_observation(&tool, input, None).await.unwrap();
    let written = serde_json::to_value(&written).unwrap();
    assert_eq!(written["entry"]["handle"], json!("e1"));
    assert_eq!(written["entry"]["fields"]["body"], json!("likes Burgundy"));
    assert_eq!(written["replayed"], json!(false));

    let view = space
        .view(ViewRequest::of(ThreadKey::main()), &folio::memory::tokens::Estimate)
        .await
        .unwrap();
    let json = serde_json::to_value(&view).unwrap();
    assert_eq!(json["rendered"]["text"], json!(view.rendered.text));
    assert_eq!(json["rendered"]["receipt"]["hash"], json!(view.rendered.receipt.hash));
}

/// That these become JSON is checked by the compiler.
#[test]
fn every_answer_that_a_program_may_log_becomes_json() {
    fn checked<T>(_: fn(T) -> serde_json::Result<Value>) {}
    checked(serde_json::to_value::<Page>);
    checked(serde_json::to_value::<Turn>);
    checked(serde_json::to_value::<View>);
    checked(serde_json::to_value::<Evicted>);
    checked(serde_json::to_value::<Offloaded>);
    checked(serde_json::to_value::<Said>);
    checked(serde_json::to_value::<Forgotten>);
    checked(serde_json::to_value::<Consolidated>);
    checked(serde_json::to_value::<Ingested>);
    checked(serde_json::to_value::<Delivered>);
    checked(serde_json::to_value::<GoalState>);
    checked(serde_json::to_value::<Episodes>);
    checked(serde_json::to_value::<ReadyWork>);
    checked(serde_json::to_value::<TracePart>);
    checked(serde_json::to_value::<TreeNode>);
    checked(serde_json::to_value::<Submitted>);
    checked(serde_json::to_value::<Forked>);
    checked(serde_json::to_value::<Replayed>);
    checked(serde_json::to_value::<HeldUp>);
}

#[test]
fn types_of_other_crates_in_signatures_need_no_further_dependency() {
    let place = Place {
        stop: CancellationToken::new(),
        ..Place::default()
    };
    let agent = place.clone();
    place.stop.cancel();
    assert!(agent.stop.is_cancelled());
    assert_eq!(Ulid::nil().to_string().len(), 26);
    assert!(!folio::tools::HostList::default().allows(&Url::parse("https://example.com").unwrap()));
}

#[test]
fn an_error_that_a_program_does_not_know_still_has_a_code_and_a_kind() {
    // Without the last arms this does not compile outside of the crates that define them.
    let code = |error: &CopyError| match error {
        CopyError::Store(StoreError::KeyReused) => "reused".to_owned(),
        other => format!("{} {:?}", other.code(), other.kind()),
    };
    assert_eq!(code(&CopyError::Store(StoreError::KeyReused)), "reused");
    let invalid = StoreError::Invalid("it says two things".to_owned());
    assert_eq!(code(&CopyError::Store(invalid)), "invalid Invalid");
    let fork = folio::runner::RunnerError::from(ForkError::Unlimited);
    assert_eq!(
        (fork.code(), fork.kind()),
        (ForkError::Unlimited.code(), ErrorKind::Conflict)
    );
}
