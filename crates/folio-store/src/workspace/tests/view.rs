use folio_memory::tokens::Estimate;

use super::super::view::ViewRequest;
use super::*;

fn at_once(f: &Fixture, changes: Vec<Change>) -> Commit {
    Commit {
        space: SpaceName::main(),
        at: f.workspace.now(),
        actor: person(),
        idempotency_key: None,
        expected: Vec::new(),
        record: Record::of(changes),
        blobs: Vec::new(),
    }
}

#[tokio::test]
async fn item_changed_while_a_view_is_built_is_shown_once_m7_8_v2() {
    for has_marks in [false, true] {
        for questions in 0..16 {
            let f = fixture();
            f.store.has_marks.store(has_marks, Ordering::Relaxed);
            let item = f.todo("Mend the roof").await;
            let begun = Change::PatchEntry {
                entry: item.id,
                fields: vec![FieldChange::Status(Status::InProgress)],
                expected_version: None,
                base_version: None,
            };
            // The first is made after the last question before the change.
            let mut meanwhile = vec![at_once(&f, vec![begun])];
            meanwhile.extend((0..questions).map(|_| at_once(&f, Vec::new())));
            *f.store.meanwhile.lock().unwrap() = meanwhile;
            let view = f.workspace.view(ViewRequest::of(ThreadKey::main()), &Estimate).await;
            let text = &view.unwrap().rendered.text;
            assert_eq!(text.matches("e1 [todo/").count(), 1, "after {questions}: {text}");
        }
    }
}

#[tokio::test]
async fn only_lines_above_that_entries_of_a_view_have_make_it_another_view_m7_8_v7() {
    let f = fixture();
    f.store.has_marks.store(true, Ordering::Relaxed);
    f.todo("Mend the roof").await;
    f.todo("Paint the door").await;
    let view = async |above: &str| {
        let request = ViewRequest {
            above: above.to_owned(),
            ..ViewRequest::of(ThreadKey::main())
        };
        f.workspace.view(request, &Estimate).await.unwrap().rendered
    };
    let whole = view("What the first step found").await;
    let line = whole
        .text
        .lines()
        .find(|line| line.contains("[todo/open] Mend the roof"))
        .unwrap();
    let second = view("What the second step found").await;
    assert!(Arc::ptr_eq(&whole, &second), "nothing was rendered for another text");
    let without = view(&format!("What the first step found\n{line}")).await;
    assert!(
        !without.text.contains("[todo/open] Mend the roof") && without.text.contains("[todo/open] Paint the door"),
        "{}",
        without.text
    );
    let again = view(&format!("{line}\nWhat the third step found")).await;
    assert!(Arc::ptr_eq(&without, &again), "the same line is left out");
    assert!(Arc::ptr_eq(&whole, &view("").await));
    f.todo("Sweep the yard").await;
    let later = view("What the first step found").await;
    assert!(
        later.text.contains("yard") && later.text.contains("roof"),
        "{}",
        later.text
    );
}
