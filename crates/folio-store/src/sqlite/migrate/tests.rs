//! The way from one format to the next, with steps made up for the test.

use super::*;
use crate::sqlite::{OpenOptions, SqliteStore};

/// A step that changes what is there.
const CHANGING: Migration = Migration {
    then: None,
    sql: "UPDATE space SET name = name || '-2'",
    changes_data: true,
};
/// A step that only adds.
const ADDING: Migration = Migration {
    then: None,
    sql: "CREATE TABLE extra (id INTEGER PRIMARY KEY) STRICT",
    changes_data: false,
};
/// A step that cannot be taken.
const BROKEN: Migration = Migration {
    then: None,
    sql: "UPDATE space SET name = 'half'; UPDATE nowhere SET x = 1",
    changes_data: true,
};

/// A file of the present format with the space `main` in it.
fn old_file(folder: &Path) -> Target {
    let options = OpenOptions::at(folder.join("folio.db"));
    drop(SqliteStore::open(&options).unwrap());
    let target = Target::of(&options);
    let conn = target.prepare().unwrap();
    conn.execute("INSERT INTO space (id, name) VALUES (1, 'main')", [])
        .unwrap();
    target
}

fn steps(more: &[Migration]) -> Vec<Migration> {
    [MIGRATIONS, more].concat()
}

fn space(conn: &Connection) -> String {
    conn.query_row("SELECT name FROM space", [], |row| row.get(0)).unwrap()
}

fn format(conn: &Connection) -> usize {
    conn.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))
        .unwrap()
        .try_into()
        .unwrap()
}

fn backup_of(target: &Target) -> PathBuf {
    backup_path(
        target.file.as_deref().unwrap(),
        u32::try_from(MIGRATIONS.len()).unwrap(),
    )
}

#[test]
fn data_changing_migration_backs_up_the_original_file() {
    let folder = tempfile::tempdir().unwrap();
    let target = old_file(folder.path());
    let conn = target.prepare_with(&steps(&[ADDING, CHANGING])).unwrap();
    assert_eq!((space(&conn).as_str(), format(&conn)), ("main-2", MIGRATIONS.len() + 2));
    let backup = Connection::open(backup_of(&target)).unwrap();
    assert_eq!((space(&backup).as_str(), format(&backup)), ("main", MIGRATIONS.len()));
    assert!(
        identify(&backup, "the copy", MIGRATIONS).is_ok(),
        "the copy can be opened by the version that wrote it"
    );
}

#[test]
fn additive_migration_makes_no_backup() {
    let folder = tempfile::tempdir().unwrap();
    let target = old_file(folder.path());
    target.prepare_with(&steps(&[ADDING])).unwrap();
    assert!(!backup_of(&target).exists());
}

#[test]
fn failed_migration_leaves_the_file_at_its_old_format() {
    let folder = tempfile::tempdir().unwrap();
    let target = old_file(folder.path());
    let failed = target.prepare_with(&steps(&[ADDING, BROKEN])).unwrap_err();
    assert!(format!("{failed:?}").contains("no such table: nowhere"), "{failed:?}");
    let conn = target.prepare().unwrap();
    assert_eq!((space(&conn).as_str(), format(&conn)), ("main", MIGRATIONS.len()));
    assert!(
        !conn.table_exists(None, "extra").unwrap(),
        "the step before it is undone"
    );
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|f| f.unwrap().file_name())
        .collect();
    let unfinished = format!("backup-v{}-", MIGRATIONS.len());
    assert!(
        left.iter().all(|name| !name.to_string_lossy().contains(&unfinished)),
        "{left:?}"
    );
}

#[test]
fn two_processes_migrating_at_once_apply_each_step_once() {
    let folder = tempfile::tempdir().unwrap();
    let target = old_file(folder.path());
    let steps = steps(&[CHANGING]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| target.prepare_with(&steps).unwrap());
        }
    });
    assert_eq!(space(&target.prepare_with(&steps).unwrap()), "main-2");
}
