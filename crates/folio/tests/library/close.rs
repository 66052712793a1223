//! Closing a store on purpose.

use std::time::Duration;

use folio::engine::plan;
use folio::runner::{NewRun, Runner, RunnerOptions};
use folio::store::workspace::TraceQuery;
use folio::tools::Registry;
use folio::{Actor, EntryQuery, Folio, Role, SpaceName};

const PLAN: &str = "title: One\nsteps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]";
/// Nothing takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn closed_store_has_written_everything_and_released_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("folio.db").display());
    let folio = Folio::open(&url).await.unwrap();
    let space = folio.workspace(SpaceName::main());
    let runner = Runner::new(space.clone(), Registry::with_builtins(), RunnerOptions::default());
    let plan = plan::parse(PLAN, &runner.known()).unwrap();
    let (run, _) = runner
        .submit(NewRun::of(plan, Actor::new(Role::Human, "ada")))
        .await
        .unwrap();
    runner.drive(run).await.unwrap();
    let reads = async |space: &folio::Workspace| {
        let notes = space.trace(TraceQuery::default()).await.unwrap();
        notes
            .iter()
            .filter(|note| note.operation == "list_observations")
            .count()
    };
    let before = reads(&space).await;
    for _ in 0..10 {
        space.observations(EntryQuery::default()).await.unwrap();
    }
    assert!(!folio.clone().close(Duration::ZERO).await, "others use it");
    drop((runner, space));
    assert!(folio.close(PATIENCE).await);
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap().file_name())
        .collect();
    assert_eq!(left, ["folio.db"]);
    let folio = Folio::open_existing(&url).await.unwrap();
    assert_eq!(reads(&folio.workspace(SpaceName::main())).await, before + 10);
}
