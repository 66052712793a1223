//! Pages of the tree.

use std::sync::Arc;

use folio_memory::id::Ref;
use folio_memory::page_tree::ParentOf;
use folio_memory::{Change, NewPage, PageHandle, PageId, PageQuery, PageRole, RunId, Seq, ThreadKey};
use folio_store::ErrorKind;

use super::Home;
use super::scene::Scene;

fn ensure(page: &NewPage) -> Change {
    Change::EnsurePage(Box::new(page.clone()))
}

/// An existing page is left unchanged by later writers that need it.
pub async fn ensuring_an_existing_page_leaves_it_unchanged(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.page(PageRole::Scratchbook);
    let first = scene.commit(vec![ensure(&page)]).await;
    let mut other = page.clone();
    "Another title".clone_into(&mut other.fields.title);
    let again = scene.commit(vec![ensure(&other), ensure(&page)]).await;
    assert_eq!(first.pages, [(page.id, PageHandle(1))]);
    assert_eq!(again.pages, [(page.id, PageHandle(1)), (page.id, PageHandle(1))]);
    let found = scene
        .store
        .page(&scene.space, Ref::Handle(PageHandle(1)))
        .await
        .expect("a page");
    assert_eq!(
        (found.id, &found.fields, found.version, found.created_seq),
        (page.id, &page.fields, 1, Seq(1))
    );
    assert_eq!(
        scene.store.page(&scene.space, Ref::Id(page.id)).await.expect("a page"),
        found
    );
}

/// A page that stays from one iteration of a run to the next names the last one. Nothing else about it changes.
pub async fn ensuring_a_page_in_a_later_iteration_gives_it_that_iteration(home: &dyn Home) {
    let scene = Scene::of(home);
    let of = |role, iteration| {
        let mut page = scene.page(role);
        page.id = PageId::derived(&[role.as_str()]);
        page.fields.run = Some(RunId::derived(&["run"]));
        page.fields.iteration = Some(iteration);
        page
    };
    for role in [PageRole::Plan, PageRole::ScratchpadRoot, PageRole::ScratchpadExec] {
        let stays = role != PageRole::ScratchpadExec;
        let found = async || {
            scene
                .store
                .page(&scene.space, Ref::Id(of(role, 1).id))
                .await
                .expect("a page")
        };
        scene.commit(vec![ensure(&of(role, 1))]).await;
        let mut later = of(role, 3);
        "Another title".clone_into(&mut later.fields.title);
        scene.commit(vec![ensure(&later)]).await;
        let expected = if stays { of(role, 3) } else { of(role, 1) };
        let page = found().await;
        assert_eq!((&page.fields, page.version), (&expected.fields, 1 + u32::from(stays)));
        scene.commit(vec![ensure(&of(role, 2)), ensure(&of(role, 3))]).await;
        assert_eq!(found().await, page);
    }
    assert_eq!(
        scene.store.check().await.expect("a checkup").problems,
        Vec::<String>::new()
    );
}

/// This is the case of two writers that need the same page.
pub async fn concurrent_writers_create_a_shared_page_once(home: &dyn Home) {
    let scene = Arc::new(Scene::of(home));
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let scene = Arc::clone(&scene);
            tokio::spawn(async move {
                let page = NewPage {
                    id: PageId::derived(&["book"]),
                    ..scene.page(PageRole::Scratchbook)
                };
                let note = scene.note(page.id, "mine");
                scene
                    .commit(vec![ensure(&page), Change::AddEntry(Box::new(note))])
                    .await
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.expect("a writer").pages[0].1, PageHandle(1));
    }
    assert_eq!(
        scene
            .store
            .pages(&scene.space, &PageQuery::default())
            .await
            .expect("pages")
            .len(),
        1
    );
}

/// A tree is made of which page contains which, of a part of the pages or of all.
pub async fn parents_of_pages_are_those_that_the_pages_have(home: &dyn Home) {
    let scene = Scene::of(home);
    let other = scene.other_space("other");
    other.a_page().await;
    let mut pages: Vec<NewPage> = Vec::new();
    // More pages than one question answers, below others that were added before, at three levels.
    for number in 0..1_200_usize {
        let mut page = scene.page(PageRole::Note);
        page.fields.parent = match number {
            0 | 7 => None,
            1..7 => Some(pages[0].id),
            _ => Some(pages[number % 8].id),
        };
        pages.push(page);
    }
    scene.commit(pages.iter().map(ensure).collect()).await;
    let number_of = |id: PageId| pages.iter().position(|page| page.id == id).expect("a page") as u64 + 1;
    let expected = |is_in: &dyn Fn(u64) -> bool| {
        let all = pages.iter().enumerate().map(|(at, page)| ParentOf {
            page: PageHandle(at as u64 + 1),
            parent: page.fields.parent.map(|parent| PageHandle(number_of(parent))),
        });
        all.filter(|place| is_in(place.page.0)).collect::<Vec<_>>()
    };
    let found = async |scene: &Scene, root: Option<u64>| {
        let found = scene.store.page_parents(&scene.space, root.map(PageHandle)).await;
        let mut found = found.expect("parents");
        found.sort_by_key(|place| place.page);
        found
    };
    assert_eq!(found(&scene, None).await, expected(&|_| true));
    // The pages below the second one, and that page itself.
    let mut below = vec![2];
    for (at, page) in pages.iter().enumerate() {
        let parent = page.fields.parent.map(number_of);
        if parent.is_some_and(|parent| below.contains(&parent)) {
            below.push(at as u64 + 1);
        }
    }
    assert!((100..1_000).contains(&below.len()), "{} pages", below.len());
    assert_eq!(
        found(&scene, Some(2)).await,
        expected(&|number| below.contains(&number))
    );
    assert_eq!(found(&scene, Some(9_999)).await, []);
    assert_eq!(found(&scene.other_space("unknown"), None).await, []);
    assert_eq!(found(&other, None).await.len(), 1);
}

/// Filters work alone and together.
pub async fn page_queries_filter_by_role_parent_run_and_thread(home: &dyn Home) {
    let scene = Scene::of(home);
    let run = RunId::derived(&["run"]);
    let mut root = scene.page(PageRole::Workspace);
    root.fields.run = Some(run);
    let mut branch = scene.page(PageRole::ScratchpadExec);
    branch.fields.run = Some(run);
    branch.fields.parent = Some(root.id);
    let mut book = scene.page(PageRole::Scratchbook);
    book.fields.thread = Some(ThreadKey("t/1".to_owned()));
    scene.commit(vec![ensure(&root), ensure(&branch), ensure(&book)]).await;
    let found = async |query: PageQuery| {
        let pages = scene.store.pages(&scene.space, &query).await.expect("pages");
        pages.into_iter().map(|page| page.id).collect::<Vec<_>>()
    };
    let none = PageQuery::default;
    assert_eq!(found(none()).await, [root.id, branch.id, book.id]);
    assert_eq!(
        found(PageQuery {
            roles: vec![PageRole::Workspace, PageRole::Scratchbook],
            ..none()
        })
        .await,
        [root.id, book.id]
    );
    assert_eq!(
        found(PageQuery {
            parent: Some(root.id),
            ..none()
        })
        .await,
        [branch.id]
    );
    assert_eq!(
        found(PageQuery {
            run: Some(run),
            ..none()
        })
        .await,
        [root.id, branch.id]
    );
    assert_eq!(
        found(PageQuery {
            thread: Some(ThreadKey("t/1".to_owned())),
            ..none()
        })
        .await,
        [book.id]
    );
    assert_eq!(
        found(PageQuery {
            run: Some(run),
            roles: vec![PageRole::ScratchpadExec],
            ..none()
        })
        .await,
        [branch.id]
    );
    let newest = PageQuery {
        newest_first: true,
        limit: 2,
        ..none()
    };
    assert_eq!(found(newest.clone()).await, [book.id, branch.id]);
    let behind = PageQuery {
        after: Some(2),
        ..newest.clone()
    };
    assert_eq!(found(behind.clone()).await, [root.id]);
    let count = async |query: PageQuery| scene.store.page_count(&scene.space, &query).await.expect("a count");
    assert_eq!(count(newest).await, 3);
    assert_eq!(
        count(behind).await,
        3,
        "however many are wanted, and wherever it goes on"
    );
    let of_run = PageQuery {
        run: Some(run),
        roles: vec![PageRole::ScratchpadExec],
        ..none()
    };
    assert_eq!(count(of_run).await, 1);
    let nowhere = PageQuery {
        parent: Some(PageId::derived(&["nowhere"])),
        ..none()
    };
    assert_eq!(count(nowhere).await, 0);
    assert!(
        found(PageQuery {
            parent: Some(PageId::derived(&["nowhere"])),
            ..none()
        })
        .await
        .is_empty()
    );
    assert!(
        found(PageQuery {
            thread: Some(ThreadKey("t_1".to_owned())),
            ..none()
        })
        .await
        .is_empty()
    );
}

/// The pages can be read in any number of steps.
pub async fn pages_are_listed_in_the_order_they_were_added(home: &dyn Home) {
    let scene = Scene::of(home);
    for _ in 0..5 {
        scene.a_page().await;
    }
    let mut after = None;
    let mut numbers = Vec::new();
    loop {
        let query = PageQuery {
            after,
            limit: 2,
            ..PageQuery::default()
        };
        let pages = scene.store.pages(&scene.space, &query).await.expect("pages");
        let Some(last) = pages.last() else { break };
        after = Some(last.handle.0);
        numbers.extend(pages.iter().map(|page| page.handle.0));
    }
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
}

/// Setting the same status again is not a revision.
pub async fn setting_a_new_page_status_makes_a_revision(home: &dyn Home) {
    let scene = Scene::of(home);
    let page = scene.a_page().await;
    scene.clock.advance(std::time::Duration::from_secs(1));
    for _ in 0..2 {
        scene
            .commit(vec![Change::SetPageStatus {
                page,
                status: "failed".to_owned(),
            }])
            .await;
    }
    let found = scene.store.page(&scene.space, Ref::Id(page)).await.expect("a page");
    assert_eq!(
        (found.fields.status.as_str(), found.version, found.updated_at),
        ("failed", 2, scene.now())
    );
    assert!(found.created_at < found.updated_at);
}

/// The parent must exist already or be added in the same commit.
pub async fn adding_a_page_requires_its_parent(home: &dyn Home) {
    let scene = Scene::of(home);
    let root = scene.page(PageRole::Workspace);
    let mut branch = scene.page(PageRole::ScratchpadExec);
    branch.fields.parent = Some(root.id);
    let error = scene.try_commit(vec![ensure(&branch)]).await.expect_err("no parent");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    scene.commit(vec![ensure(&root), ensure(&branch)]).await;
}

/// This is the boundary between tenants (M7.6.51).
pub async fn page_of_another_space_is_not_found(home: &dyn Home) {
    let scene = Scene::of(home);
    let other = scene.other_space("other");
    let page = scene.a_page().await;
    assert_eq!(
        other
            .store
            .page(&other.space, Ref::Id(page))
            .await
            .expect_err("elsewhere")
            .kind(),
        ErrorKind::NotFound
    );
    let note = Change::AddEntry(Box::new(other.note(page, "smuggled")));
    assert_eq!(
        other.try_commit(vec![note]).await.expect_err("elsewhere").kind(),
        ErrorKind::NotFound
    );
    let mut child = other.page(PageRole::Note);
    child.fields.parent = Some(page);
    assert_eq!(
        other
            .try_commit(vec![ensure(&child)])
            .await
            .expect_err("elsewhere")
            .kind(),
        ErrorKind::NotFound
    );
    // The same id may name a page in this space as well.
    let same = NewPage {
        id: page,
        ..other.page(PageRole::Note)
    };
    assert_eq!(other.commit(vec![ensure(&same)]).await.pages, [(page, PageHandle(1))]);
}
