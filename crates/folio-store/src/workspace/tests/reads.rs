use folio_memory::text::TextMatch;

use super::*;

#[tokio::test]
async fn words_that_are_not_looked_for_let_nothing_more_through_m7_2_12() {
    let f = fixture();
    let words: Vec<String> = (0..64).map(|n| format!("word{n}")).collect();
    let (most, more) = (words.join(" "), format!("{} nowhere", words.join(" ")));
    f.workspace
        .add_observation(&person(), saying(&most), None)
        .await
        .unwrap();
    let asking = |text: &str, text_match| EntryQuery {
        text: Some(text.to_owned()),
        text_match,
        ..EntryQuery::default()
    };
    let total = async |query| f.workspace.observations(query).await.map(|answer| answer.total);
    assert_eq!(total(asking(&most, TextMatch::All)).await.unwrap(), 1);
    let refused = total(asking(&more, TextMatch::All)).await.unwrap_err();
    assert!(
        matches!(&refused, WorkspaceError::Invalid(invalid) if invalid.code == "text_too_long"),
        "{refused}"
    );
    assert_eq!(total(asking(&more, TextMatch::Any)).await.unwrap(), 1);
    // Who searches in many words is told that not all of them are there.
    let (found, how) = f.workspace.search(&asking(&more, TextMatch::All)).await.unwrap();
    assert_eq!((found.total, how), (1, TextMatch::Any));
}
