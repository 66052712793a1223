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
