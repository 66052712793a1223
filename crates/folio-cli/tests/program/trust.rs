//! A `folio.toml` of a folder, until its user has looked at it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::{Called, Folio, session};

/// A server that leaves a mark when it is started, and does nothing else.
const STARTS_A_PROGRAM: &str = "[mcp.helper]\ncommand = [\"sh\", \"-c\", \"touch started\"]\n";

/// A worktree with a `folio.toml` that contains `settings`.
fn repository(settings: &str) -> Folio {
    let folio = Folio::new();
    folio.file(".git/HEAD", "ref: refs/heads/main\n");
    folio.file("folio.toml", settings);
    folio
}

fn hook(folio: &Folio, name: &str) -> Called {
    let mut command = folio.command(&["hook", name]);
    Called::of(command.write_stdin(r#"{"prompt": "What now?"}"#).output().unwrap())
}

#[test]
fn repository_settings_are_refused_until_trusted_and_after_changes() {
    let folio = repository(&format!(
        "{STARTS_A_PROGRAM}[telemetry]\nendpoint = \"http://me:hunter2@h\"\n"
    ));
    for arguments in [&["tool", "list"][..], &["observe", "list"], &["mcp", "--tools", "run"]] {
        let called = folio.call(arguments);
        assert_eq!(called.code, 2, "{arguments:?}: {}", called.stderr);
        assert!(called.stderr.contains("settings_untrusted"), "{}", called.stderr);
    }
    insta::assert_snapshot!(session(&folio, &["tree", "trust", "tree"]), @r#"
    $ folio tree
    ! error[settings_untrusted]: FOLDER/folio.toml, which is in a repository and sets mcp.helper, telemetry.endpoint, is not trusted
    !   hint: look at the file, then run `folio trust`
    = 2
    $ folio trust
    FOLDER/folio.toml is now trusted; it sets
      mcp.helper = {"command":["sh","-c","touch started"]}
      telemetry.endpoint = "http://…@h"
    $ folio tree
    ! there is no file FOLDER/home/.local/share/folio/folio.db yet
    ! there are no pages yet
    "#);
    // The servers of the file are started from now on.
    folio.call(&["tool", "list"]);
    assert!(folio.path().join("started").exists());

    folio.file("folio.toml", STARTS_A_PROGRAM.replace("started", "again"));
    insta::assert_snapshot!(session(&folio, &["tree"]), @"
    $ folio tree
    ! error[settings_untrusted]: FOLDER/folio.toml, which is in a repository and sets mcp.helper, has changed since it was trusted
    !   hint: look at the file, then run `folio trust`
    = 2
    ");
    folio.ok(&["trust", "folio.toml"]);
    folio.ok(&["tree"]);
    insta::assert_snapshot!(session(&folio, &["trust --remove", "trust --remove", "tree"]), @"
    $ folio trust --remove
    FOLDER/folio.toml is no longer trusted
    $ folio trust --remove
    FOLDER/folio.toml was not trusted
    $ folio tree
    ! error[settings_untrusted]: FOLDER/folio.toml, which is in a repository and sets mcp.helper, is not trusted
    !   hint: look at the file, then run `folio trust`
    = 2
    ");
    assert!(!folio.path().join("again").exists());
}

#[test]
fn all_but_harmless_settings_keys_need_trust() {
    for settings in [
        "store = \"sqlite:notes.db\"",
        "model = \"openai+http://127.0.0.1:1/v1:x\"",
        "models.default = \"openai:x\"",
        "agents.a.command = [\"a\"]",
        "http.allow = [\"example.com\"]",
        "telemetry.endpoint = \"http://127.0.0.1:1\"",
        "lost_calls.\"desk.*\" = \"rerun\"",
        "mcp.desk.command = [\"a\"]",
    ] {
        let called = repository(settings).call(&["tree"]);
        let is_refused = called.stderr.contains("settings_untrusted");
        assert!(is_refused && called.code == 2, "{settings}: {called}");
    }
    let folio = repository("space = \"work\"\nthread = \"t\"\ncolor = \"never\"\n");
    folio.ok(&["tree"]);
    let said = folio.ok(&["trust"]);
    assert!(said.contains("sets nothing that needs trust"), "{said}");
}

#[test]
fn trust_is_bound_to_path_and_content_and_stored_privately() {
    let folio = repository("store = \"sqlite:notes.db\"\n");
    folio.file("inner/folio.toml", "store = \"sqlite:notes.db\"\n");
    let below = |folder: &str| {
        let mut command = folio.command(&["tree"]);
        command
            .current_dir(folio.path().join(folder))
            .output()
            .unwrap()
            .status
            .code()
    };
    folio.ok(&["trust", "inner"]);
    assert_eq!(
        (below("inner"), below(".")),
        (Some(0), Some(2)),
        "the same text elsewhere"
    );
    let notes = folio.path().join("home/.local/share/folio/trusted");
    let note = std::fs::read_dir(&notes).unwrap().next().unwrap().unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&note.path()), 0o600);
    // Where it is the first command of its user, memory will stand there, too.
    assert_eq!(mode(notes.parent().unwrap()), 0o700);
    assert_eq!(
        std::fs::read_dir(&notes).unwrap().count(),
        1,
        "nothing else is left there"
    );
    let nowhere = folio.call(&["trust", "nowhere"]);
    assert_eq!(nowhere.code, 3, "{nowhere}");
    assert!(nowhere.stderr.contains("cannot read the settings in "), "{nowhere}");
    // A folder that is gone leaves no trust for one that comes to its place.
    std::fs::remove_dir_all(folio.path().join("inner")).unwrap();
    std::os::unix::fs::symlink(folio.path(), folio.path().join("link")).unwrap();
    let said = folio.ok(&["trust", "--remove", "link/inner"]);
    assert!(said.contains("inner/folio.toml is no longer trusted"), "{said}");
    assert_eq!(std::fs::read_dir(&notes).unwrap().count(), 0);
    let refused = folio.call(&["--role", "client", "trust"]);
    assert_eq!(refused.code, 4, "{refused}");
    assert!(refused.stderr.contains("error[role_denied]"), "{refused}");
}

#[test]
fn named_and_personal_settings_need_no_trust() {
    let settings = "store = \"sqlite:notes.db\"\n";
    let folio = repository(settings);
    folio.ok(&["--config", "folio.toml", "tree"]);
    folio
        .command(&["tree"])
        .env("FOLIO_CONFIG", "folio.toml")
        .assert()
        .success();
    // The user's home may be a worktree, too.
    folio.file("home/.config/folio/folio.toml", settings);
    let mut at_home = folio.command(&["tree"]);
    at_home
        .current_dir(folio.path().join("home/.config/folio"))
        .assert()
        .success();
    let outside = Folio::new();
    outside.file("folio.toml", settings);
    outside.ok(&["--config", "folio.toml", "tree"]);
}

#[test]
fn settings_outside_of_worktrees_are_refused_until_trusted() {
    let folio = Folio::new();
    folio.file("folio.toml", STARTS_A_PROGRAM);
    insta::assert_snapshot!(session(&folio, &["tree", "trust", "tree"]), @r#"
    $ folio tree
    ! error[settings_untrusted]: FOLDER/folio.toml, which sets mcp.helper, is not trusted
    !   hint: look at the file, then run `folio trust`
    = 2
    $ folio trust
    FOLDER/folio.toml is now trusted; it sets
      mcp.helper = {"command":["sh","-c","touch started"]}
    $ folio tree
    ! there is no file FOLDER/home/.local/share/folio/folio.db yet
    ! there are no pages yet
    "#);
    // A hook sends no key to where the file of a stranger says.
    let folio = Folio::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    folio.file(
        "folio.toml",
        format!("[models]\nadvisor = \"openai+http://{address}/v1:m\"\n"),
    );
    let mut prompt = folio.command(&["hook", "user-prompt"]);
    let prompt = prompt
        .env("OPENAI_API_KEY", "sk-of-the-user")
        .write_stdin(r#"{"prompt": "What now?"}"#);
    let called = Called::of(prompt.output().unwrap());
    assert_eq!(called.code, 0, "{called}");
    assert!(called.stderr.contains("is not trusted, so it is ignored"), "{called}");
    assert_eq!(
        listener.accept().unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock,
        "nobody was asked"
    );
}

#[test]
fn settings_that_others_wrote_or_may_write_are_refused_until_trusted() {
    let folio = Folio::new();
    let shared = folio.path().join("shared");
    folio.file("shared/folio.toml", "store = \"sqlite:notes.db\"\n");
    let file = shared.join("folio.toml");
    let open_to_all =
        |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    open_to_all(&shared, 0o1777);
    open_to_all(&file, 0o666);
    // Only who may do everything can give a file away.
    let _given_away = std::os::unix::fs::chown(&file, Some(65_534), None);
    let call = |arguments: &[&str]| {
        let mut command = folio.command(arguments);
        Called::of(command.current_dir(&shared).output().unwrap())
    };
    let refused = call(&["tree"]);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(refused.stderr.contains("which sets store, is not trusted"), "{refused}");
    assert_eq!(call(&["trust"]).code, 0);
    assert_eq!(call(&["tree"]).code, 0);
    // What was trusted is what stood there.
    folio.file("shared/folio.toml", "store = \"sqlite:other.db\"\n");
    let refused = call(&["tree"]);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(refused.stderr.contains("has changed since it was trusted"), "{refused}");
}

#[test]
fn commands_that_use_no_settings_ignore_untrusted_ones() {
    let folio = repository("store = \"sqlite:notes.db\"\n");
    for call in [&["completions", "bash"][..], &["plan", "schema"], &["plan", "example"]] {
        let called = folio.call(call);
        assert_eq!((called.code, called.stderr.as_str()), (0, ""), "{called}");
    }
    // What looks into the store needs them.
    let refused = folio.call(&["plan", "show", "r1"]);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(refused.stderr.contains("settings_untrusted"), "{refused}");
}

#[test]
fn hooks_and_doctor_ignore_untrusted_settings_with_a_note() {
    let folio = repository("store = \"sqlite:notes.db\"\n");
    for name in ["session-start", "user-prompt", "stop"] {
        let called = hook(&folio, name);
        assert_eq!(called.code, 0, "{called}");
        assert!(called.stderr.contains("is not trusted, so it is ignored"), "{called}");
    }
    assert!(!folio.path().join("notes.db").exists());
    assert!(folio.path().join("home/.local/share/folio/folio.db").exists());
    let found = folio.json(&["doctor"]);
    assert_eq!(found["untrusted"]["sets"][0], "store");
    folio.ok(&["trust"]);
    assert_eq!(hook(&folio, "user-prompt").stderr, "");
    assert!(folio.path().join("notes.db").exists());
    assert_eq!(folio.json(&["doctor"]).get("untrusted"), None);
}

#[test]
fn invalid_untrusted_settings_do_not_block_hooks_or_completions() {
    for settings in [
        "store = \"sqlite:notes.db\"\nnewkey = 1\n",
        "space = 5\n",
        "no settings",
    ] {
        let folio = repository(settings);
        for name in ["session-start", "user-prompt", "stop"] {
            let called = hook(&folio, name);
            assert_eq!(called.code, 0, "{settings}: {called}");
            assert!(called.stderr.contains("is not trusted, so it is ignored"), "{called}");
        }
        assert!(!folio.path().join("notes.db").exists());
        for call in [&["completions", "bash"][..], &["plan", "schema"], &["plan", "example"]] {
            let called = folio.call(call);
            assert_eq!((called.code, called.stderr.as_str()), (0, ""), "{settings}: {called}");
        }
        let found = folio.call(&["doctor", "--json"]);
        assert_eq!(found.code, 2, "{found}");
        let found: serde_json::Value = serde_json::from_str(&found.stdout).unwrap();
        assert_eq!(found["healthy"], false);
        let mistake = found["untrusted"]["mistake"].as_str().unwrap();
        assert!(mistake.contains("folio.toml:"), "{found}");
        let told = folio.call(&["doctor"]).stdout;
        assert!(told.contains(mistake) && !told.contains("no problems"), "{told}");
        // Without a store, that is still what is wrong.
        let bare = folio.call(&["--store", "sqlite:none.db", "doctor"]);
        assert_eq!(bare.code, 2, "{bare}");
        // Whoever would obey it is told what is wrong with it.
        for arguments in [&["tree"][..], &["trust"]] {
            let called = folio.call(arguments);
            assert_eq!(called.code, 2, "{called}");
            assert!(called.stderr.contains("settings_invalid"), "{called}");
        }
    }
}
