//! Isolation by the database itself: rows of a space are visible to those who named it, and to nobody else (M7.6.51).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use folio_memory::{EntryQuery, SpaceName};
use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_store::{AccessToken, Store};
use folio_testkit::contract::scene::{Scene, tag};
use folio_testkit::postgres::Database;

const TABLES: [&str; 19] = [
    "space_end",
    "log",
    "touch",
    "entry",
    "entry_term",
    "page",
    "link",
    "blob",
    "unclaimed",
    "run",
    "policy",
    "trace",
    "last_note",
    "turn",
    "watch",
    "text_index",
    "entry_text",
    "word",
    "written",
];

/// Two spaces with a note each, the second of which only its own users may see.
async fn two_spaces(database: &Database) -> Arc<PostgresStore> {
    let store = PostgresStore::open(&OpenOptions::at(database.url())).expect("a store");
    let scene = Scene::on(Arc::<PostgresStore>::clone(&store));
    for scene in [&scene, &scene.other_space("secret")] {
        let page = scene.a_page().await;
        let mut note = scene.note(page, "what only we know");
        note.fields.tags = vec![tag("mine")];
        scene.add(note).await;
        let words = EntryQuery {
            text: Some("know".to_owned()),
            ..EntryQuery::default()
        };
        assert_eq!(scene.list(&words).await.expect("a list").total, 1);
    }
    store
}

/// One of the SQL snippets in the documentation.
fn documented(number: usize) -> &'static str {
    let text = include_str!("../../../../docs/postgres.md");
    let piece = text.split("```sql").nth(number);
    piece
        .and_then(|rest| rest.split("```").next())
        .expect("as the documents have it")
}

/// A role with the program's rights to the tables, but not their owner; its password is its name.
fn hostile(database: &Database) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "hostile_{}_{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    let sql = format!(
        "DROP ROLE IF EXISTS {name};
         CREATE ROLE {name} LOGIN PASSWORD '{name}';
         GRANT USAGE ON SCHEMA folio TO {name};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA folio TO {name};"
    );
    database.ask(&sql).expect("a role");
    name
}

#[tokio::test(flavor = "multi_thread")]
async fn row_level_security_limits_queries_to_the_named_space_m7_6_51() {
    let database = Database::fresh();
    let store = two_spaces(&database).await;
    let name = hostile(&database);
    let url = database.url_as(&name, &name);
    let ask = |sql: &str| folio_testkit::postgres::ask(&url, sql);
    for table in TABLES {
        // Whoever has named no space sees none.
        assert_eq!(ask(&format!("SELECT count(*) FROM {table}")).unwrap(), "0", "{table}");
        // Whoever has named one sees it, whatever the query forgets to say.
        let sql =
            format!("SELECT set_config('folio.space', '1', false); SELECT count(*) FROM {table} WHERE space <> 1");
        assert_eq!(ask(&sql).unwrap().lines().last(), Some("0"), "{table}");
        let deleted = format!("SELECT set_config('folio.space', '1', false); DELETE FROM {table}");
        ask(&deleted).unwrap();
        let moved = format!("SELECT set_config('folio.space', '2', false); UPDATE {table} SET space = 1");
        let moved = ask(&moved);
        let is_empty = matches!(
            table,
            "touch"
                | "link"
                | "blob"
                | "unclaimed"
                | "run"
                | "policy"
                | "trace"
                | "last_note"
                | "turn"
                | "watch"
                | "written"
        );
        assert!(is_empty || moved.unwrap_err().contains("row-level security"), "{table}");
    }
    let sql = "SELECT set_config('folio.space', '1', false); INSERT INTO link VALUES (2, 'a', 'b', 'c')";
    assert!(ask(sql).unwrap_err().contains("row-level security"));
    // What was deleted there is not gone here.
    let other = Scene {
        space: SpaceName::parse("secret").unwrap(),
        ..Scene::on(store)
    };
    assert_eq!(other.list(&EntryQuery::default()).await.unwrap().total, 1);
    drop(other);
    database
        .ask(&format!("DROP OWNED BY {name}; DROP ROLE {name}"))
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn row_level_security_cannot_be_disabled_or_bypassed_m7_6_51() {
    let database = Database::fresh();
    let store = two_spaces(&database).await;
    let token = AccessToken::draw();
    let kept = token.kept(
        SpaceName::parse("secret").unwrap(),
        folio_memory::Role::Client,
        String::new(),
        folio_memory::Timestamp::default(),
        None,
    );
    store.keep_token(kept).await.unwrap();
    let name = hostile(&database);
    let url = database.url_as(&name, &name);
    let ask = |sql: &str| folio_testkit::postgres::ask(&url, sql);
    for (sql, answer) in [
        (
            "SET row_security = off; SELECT count(*) FROM entry",
            "row-level security",
        ),
        ("ALTER TABLE entry DISABLE ROW LEVEL SECURITY", "must be owner"),
        ("DROP POLICY of_one_space ON entry", "must be owner"),
        ("CREATE POLICY all_of_it ON entry USING (true)", "must be owner"),
        ("SELECT * FROM all_spaces()", "permission denied"),
        ("SELECT * FROM all_tokens()", "permission denied"),
        ("SELECT space_called('secret')", "permission denied"),
        ("TRUNCATE entry", "permission denied"),
    ] {
        let error = ask(sql).expect_err(sql);
        assert!(error.contains(answer), "{sql}: {error}");
    }
    // Names of spaces, and tokens, are of no space: without the functions for them there are none.
    for table in ["space", "token"] {
        assert_eq!(ask(&format!("SELECT count(*) FROM {table}")).unwrap(), "0", "{table}");
    }
    // A function that acts for the owner is not led astray by a table of the same name.
    database
        .ask(&format!("GRANT EXECUTE ON FUNCTION all_spaces() TO {name}"))
        .unwrap();
    let sql = "CREATE TEMP TABLE space (id bigint, name text); INSERT INTO pg_temp.space VALUES (7, 'false'); \
               SELECT count(*) FROM all_spaces() WHERE name = 'false'";
    assert_eq!(ask(sql).unwrap().lines().last(), Some("0"));
    drop(store);
    database
        .ask(&format!("DROP OWNED BY {name}; DROP ROLE {name}"))
        .unwrap();
}

/// A program that does not own the tables can do its work with the rights that the documentation lists.
#[tokio::test(flavor = "multi_thread")]
async fn non_owner_role_with_documented_grants_can_use_the_store() {
    let database = Database::fresh();
    drop(PostgresStore::open(&OpenOptions::at(database.url())).unwrap());
    let name = hostile(&database);
    let grants = documented(1).replace("folio_app", &name);
    database.ask(&grants).unwrap();
    // What was granted before a table came holds for that one, too.
    database
        .ask(
            "DROP INDEX entry_there, entry_pinned, turn_open, trace_at;
             ALTER TABLE turn DROP COLUMN thread_hash; CREATE INDEX turn_thread ON turn (space, thread, number);
             ALTER TABLE page DROP COLUMN thread_hash; CREATE INDEX page_thread ON page (space, thread, number);
             DROP TABLE folio.written; UPDATE folio.format SET version = 2",
        )
        .unwrap();
    drop(PostgresStore::open(&OpenOptions::at(database.url())).unwrap());
    let url = database.url_as(&name, &name);
    let sql = "SELECT set_config('folio.space', '1', false); DELETE FROM written";
    folio_testkit::postgres::ask(&url, sql).unwrap();
    let store = PostgresStore::open(&OpenOptions::at(database.url_as(&name, &name))).unwrap();
    let scene = Scene::on(Arc::<PostgresStore>::clone(&store));
    let id = scene.a_note("by another role").await;
    assert_eq!(scene.read(id).await.fields.title, "by another role");
    assert_eq!(store.tokens().await.unwrap(), Vec::new());
    let checkup = store.check().await.unwrap();
    assert_eq!(checkup.problems, Vec::<String>::new());
    drop((scene, store));
    database
        .ask(&format!("DROP OWNED BY {name}; DROP ROLE {name}"))
        .unwrap();
}

#[tokio::test]
async fn documented_dump_role_reads_the_rows_of_every_space() {
    let database = Database::fresh();
    two_spaces(&database).await;
    let (owner, name) = (hostile(&database), format!("dump_{}", std::process::id()));
    let made = documented(2).replace("folio_dump", &name).replace('…', &name);
    database.ask(&made).unwrap();
    let sql = "SET row_security = off; SELECT count(*) FROM folio.entry";
    let refused = folio_testkit::postgres::ask(&database.url_as(&owner, &owner), sql).unwrap_err();
    assert!(refused.contains("row-level security"), "{refused}");
    let seen = folio_testkit::postgres::ask(&database.url_as(&name, &name), sql).unwrap();
    assert!(seen.ends_with('2'), "{seen}");
    for role in [owner, name] {
        database
            .ask(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
            .unwrap();
    }
}
