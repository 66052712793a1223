//! `folio restore` with obstacles: leftovers of another file, a damaged store, a full disk, a mistyped name.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::{Called, Folio};
use serde_json::json;

const STORE: [&str; 2] = ["--store", "sqlite:f.db"];

fn at_store<'a>(store: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    [arguments, &["--store", store]].concat()
}

fn refusal(called: &Called, code: i32) -> &str {
    assert_eq!(called.code, code, "{}{}", called.stdout, called.stderr);
    &called.stderr
}

impl Folio {
    /// Creates a store that contains `content`.
    fn with_store(&self, url: &str, content: &str) {
        self.ok(&at_store(url, &["observe", "add", content]));
    }

    /// Creates a copy, `copy.db`, of a store that contains `copied`.
    fn create_copy(&self) {
        self.with_store("sqlite:c.db", "copied");
        self.ok(&at_store("sqlite:c.db", &["backup", "copy.db"]));
    }

    /// What is in the store, in which the doctor finds nothing.
    fn contents_of_sound(&self, url: &str) -> Vec<String> {
        assert_eq!(self.json(&at_store(url, &["doctor"]))["problems"], json!([]));
        let list = self.json(&at_store(url, &["observe", "list"]));
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["content"].as_str().unwrap().to_owned()).collect()
    }

    /// The files whose names begin with `name`, sorted.
    fn files_beginning(&self, name: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|found| found.starts_with(name)).collect();
        names.sort();
        names
    }

    fn file_path(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Creates a store at `name` in the state that a killed process leaves: part of it is in its write-ahead log.
    fn create_unclosed_store(&self, name: &str) {
        let url = format!("sqlite:{}", self.file_path(name).display());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let open = runtime.block_on(folio::Folio::open(&url)).unwrap();
        self.ok(&at_store(&url, &["observe", "add", "in the log"]));
        let files = [name.to_owned(), format!("{name}-wal")].map(|name| self.file_path(&name));
        let left = files.clone().map(|file| std::fs::read(file).unwrap());
        drop(open);
        for (file, left) in files.iter().zip(left) {
            std::fs::write(file, left).unwrap();
        }
    }
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

#[test]
fn ended_process_leaves_no_write_ahead_log() {
    let folio = Folio::new();
    let step = "{id: s, do: {tool: text, args: {op: echo, value: 1}}}";
    folio.file("plan.yaml", format!("title: One\nsteps:\n  - {step}\n"));
    for _ in 0..5 {
        folio.ok(&[&["run", "--plan", "plan.yaml"], &STORE[..]].concat());
        assert_eq!(folio.files_beginning("f.db"), ["f.db"]);
    }
}

#[test]
fn write_ahead_log_of_another_store_blocks_restore_and_backup() {
    let folio = Folio::new();
    folio.create_copy();
    folio.create_unclosed_store("f.db");
    assert!(size(&folio.file_path("f.db-wal")) > 0);
    std::fs::rename(folio.file_path("f.db"), folio.file_path("moved.db")).unwrap();

    for arguments in [
        vec!["restore", "copy.db"],
        vec!["--store", "sqlite:copy.db", "backup", "f.db"],
    ] {
        let arguments = if arguments[0] == "restore" {
            at_store("sqlite:f.db", &arguments)
        } else {
            arguments
        };
        let called = folio.call(&arguments);
        let told = refusal(&called, 2);
        assert!(told.contains("f.db-wal belongs to another store"), "{told}");
    }
    assert!(!folio.file_path("f.db").exists());

    let restored = folio.json(&at_store("sqlite:f.db", &["restore", "copy.db", "--replace"]));
    let replaced = restored["replaced"].as_str().unwrap();
    assert!(replaced.ends_with("f.db.replaced-1-wal"), "{replaced}");
    assert_eq!(folio.contents_of_sound("sqlite:f.db"), ["copied"]);
    // It is still of use to whoever puts it where it belongs.
    std::fs::rename(replaced, folio.file_path("moved.db-wal")).unwrap();
    assert_eq!(folio.contents_of_sound("sqlite:moved.db"), ["in the log"]);
}

#[test]
fn restore_over_a_damaged_store_keeps_its_remains() {
    let folio = Folio::new();
    folio.create_copy();
    let whole = std::fs::read(folio.file_path("copy.db")).unwrap();
    let mut torn = whole.clone();
    torn[4096..].fill(0xA5);
    let damages = [
        b"no store, but a text that is as long as the header of one; twice over: no store, but a text".to_vec(),
        [&[0; 4096], &whole[4096..]].concat(),
        whole[..whole.len() / 2].to_vec(),
        whole[..2000].to_vec(),
        torn,
        Vec::new(),
    ];
    for (number, damaged) in damages.iter().enumerate() {
        let name = format!("d{number}.db");
        let url = format!("sqlite:{name}");
        folio.file(&name, damaged);
        folio.file(&format!("{name}-wal"), "left");
        let replaced = folio.json(&at_store(&url, &["restore", "copy.db", "--replace"]));
        let replaced = Path::new(replaced["replaced"].as_str().unwrap()).to_owned();
        assert_eq!(std::fs::read(&replaced).unwrap(), *damaged, "{name}");
        assert_eq!(folio.contents_of_sound(&url), ["copied"], "{name}");
    }
}

/// Calls the program with a limit of `blocks` blocks of 512 bytes per file.
fn with_little_room(folio: &Folio, blocks: u32, arguments: &[&str]) -> Output {
    let program = assert_cmd::cargo::cargo_bin!("folio");
    let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).arg(program).args(arguments);
    command
        .env_clear()
        .current_dir(folio.path())
        .env("HOME", folio.file_path("home"));
    command.output().unwrap()
}

#[test]
fn restore_without_disk_space_keeps_the_store() {
    let folio = Folio::new();
    folio.with_store("sqlite:f.db", "kept");
    folio.file("long.txt", "copied ".repeat(30_000));
    folio.ok(&at_store("sqlite:c.db", &["evict", "long.txt"]));
    folio.ok(&at_store("sqlite:c.db", &["backup", "copy.db"]));
    let blocks = u32::try_from(size(&folio.file_path("copy.db")) / 512 - 64).unwrap();
    let called = with_little_room(
        &folio,
        blocks,
        &at_store("sqlite:f.db", &["restore", "copy.db", "--replace"]),
    );
    let told = String::from_utf8_lossy(&called.stderr);
    assert_eq!(called.status.code(), Some(5), "{told}");
    assert!(told.contains("error[store_unavailable]: "), "{told}");
    assert_eq!(folio.files_beginning("f.db"), ["f.db"]);
    assert_eq!(folio.contents_of_sound("sqlite:f.db"), ["kept"]);
}

#[test]
fn mistyped_store_file_name_creates_nothing() {
    let folio = Folio::new();
    folio.with_store("sqlite:f.db", "kept");
    for arguments in [
        vec!["backup", "copy.db", "--store", "sqlite:typo.db"],
        vec!["migrate", "--to", "sqlite:copy.db", "--store", "sqlite:typo.db"],
        vec!["doctor", "--store", "sqlite://typo.db"],
        vec!["restore", "typo.db", "--store", "sqlite:copy.db"],
    ] {
        let called = folio.call(&arguments);
        let told = refusal(&called, 3);
        assert!(told.starts_with("error[not_found]: there is no file "), "{told}");
        assert!(told.contains("typo.db\n"), "{told}");
    }
    let no_files: [&str; 0] = [];
    assert_eq!(folio.files_beginning("typo"), no_files);
    assert_eq!(folio.files_beginning("copy"), no_files);
}

#[test]
fn restore_refuses_folders_and_the_store_itself() {
    let folio = Folio::new();
    folio.with_store("sqlite:f.db", "kept");
    folio.ok(&at_store("sqlite:f.db", &["backup", "copy.db"]));
    std::fs::create_dir(folio.file_path("folder")).unwrap();
    for (from, to, reason) in [
        (".", "sqlite:g.db", ". is a folder, not a file"),
        ("copy.db", "sqlite:folder", "folder is a folder, not a file"),
        ("./f.db", "sqlite:f.db", "cannot replace itself"),
    ] {
        let called = folio.call(&at_store(to, &["restore", from, "--replace"]));
        let told = refusal(&called, 2);
        assert!(told.contains(reason), "{told}");
    }
    assert_eq!(folio.contents_of_sound("sqlite:f.db"), ["kept"]);
}

#[test]
fn restoring_leaves_no_files_beside_the_backup() {
    let folio = Folio::new();
    folio.with_store("sqlite:c.db", "copied");
    std::fs::copy(folio.file_path("c.db"), folio.file_path("copy.db")).unwrap();
    folio.ok(&at_store("sqlite:f.db", &["restore", "copy.db"]));
    assert_eq!(folio.contents_of_sound("sqlite:f.db"), ["copied"]);
    assert_eq!(folio.files_beginning("copy.db"), ["copy.db"]);
}

#[test]
fn failed_backup_does_not_name_an_empty_folder() {
    let folio = Folio::new();
    folio.with_store("sqlite:c.db", "copied");
    let long = format!("{}.db", "n".repeat(240));
    let called = folio.call(&at_store("sqlite:c.db", &["backup", &long]));
    let told = refusal(&called, 5);
    assert!(told.contains("name too long"), "{told}");
    assert!(!told.contains("cannot write to :"), "{told}");
}

#[test]
fn restore_in_place_of_a_symlink_replaces_what_it_leads_to() {
    let folio = Folio::new();
    folio.create_copy();
    folio.with_store("sqlite:real.db", "before");
    std::os::unix::fs::symlink("real.db", folio.file_path("link.db")).unwrap();
    folio.ok(&at_store("sqlite:link.db", &["restore", "copy.db", "--replace"]));
    assert!(folio.file_path("link.db").is_symlink());
    for url in ["sqlite:link.db", "sqlite:real.db"] {
        assert_eq!(folio.contents_of_sound(url), ["copied"]);
    }
    assert_eq!(folio.contents_of_sound("sqlite:real.db.replaced-1"), ["before"]);
}
