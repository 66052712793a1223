//! What wins over what, and what is read of the surroundings.

use std::ffi::OsString;
use std::time::Duration;

use super::file::FILE_NAME;
use super::*;

/// The settings in the folder `current`, whose file is named, and so needs no trust.
fn resolve(flags: &Global, variables: &[(&str, &str)], current: &Path) -> Result<Settings, Failure> {
    let file = current.join(FILE_NAME);
    let variable = |name: &str| {
        let known = variables.iter().find(|(known, _)| *known == name);
        match known {
            Some((_, value)) => Some(OsString::from(value)),
            None if name == "FOLIO_CONFIG" && file.exists() => Some(file.clone().into_os_string()),
            None => None,
        }
    };
    let folders = Some((PathBuf::from("/data"), PathBuf::from("/nowhere")));
    resolve_around(
        flags,
        &Surroundings {
            variable: &variable,
            folders,
            current: current.to_owned(),
        },
    )
}

fn resolve_around(flags: &Global, around: &Surroundings<'_>) -> Result<Settings, Failure> {
    Settings::resolve_in(flags, around, Untrusted::Refused)
}

fn folder_with(settings: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILE_NAME), settings).unwrap();
    folder
}

#[test]
fn settings_precedence_is_flag_environment_file_default() {
    let with_file = folder_with("space = \"file\"");
    let without = tempfile::tempdir().unwrap();
    let flags = Global {
        space: Some("flag".to_owned()),
        ..Global::default()
    };
    let (none, variable) = (Global::default(), [("FOLIO_SPACE", "environment")]);
    let space = |flags: &Global, variables: &[(&str, &str)], folder: &tempfile::TempDir| {
        resolve(flags, variables, folder.path()).unwrap().space.to_string()
    };
    assert_eq!(space(&flags, &variable, &with_file), "flag");
    assert_eq!(space(&none, &variable, &with_file), "environment");
    assert_eq!(space(&none, &[("FOLIO_SPACE", "")], &with_file), "file");
    assert_eq!(space(&none, &[], &without), "main");
}

#[test]
fn default_store_is_a_file_in_the_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        resolve(&Global::default(), &[], folder.path()).unwrap().store,
        "sqlite:/data/folio/folio.db"
    );
}

#[test]
fn outbox_of_a_database_is_in_the_data_folder_m7_3_26() {
    let folder = tempfile::tempdir().unwrap();
    let settings = resolve(&Global::default(), &[], folder.path()).unwrap();
    let of = |location| settings.outbox_for(location).map(|file| file.display().to_string());
    let one = of("postgres://db.example:5432/memory").unwrap();
    assert!(
        one.starts_with("/data/folio/") && one.ends_with("-outbox.jsonl"),
        "{one}"
    );
    assert!(!one.contains("db.example"), "{one}");
    assert_ne!(of("postgres://db.example:5432/other"), Some(one));
    assert_eq!((of("/data/folio/folio.db"), of("memory:")), (None, None));
}

#[test]
fn relative_store_path_resolves_beside_the_settings_file() {
    let folder = folder_with("store = \"sqlite:notes/f.db\"");
    let store = resolve(&Global::default(), &[], folder.path()).unwrap().store;
    assert_eq!(store, format!("sqlite:{}", folder.path().join("notes/f.db").display()));
}

#[test]
fn key_and_token_files_resolve_beside_the_settings_file() {
    let folder = folder_with(
        "[models.executors.mender]\nmodel = \"openai:m\"\nkey_file = \"a\"\n\
         fallback = { model = \"openai:n\", key_file = \"b\" }\n\
         [agents.far]\nform = \"a2a\"\nurl = \"https://x\"\ntoken_file = \"c\"\n",
    );
    let settings = resolve(&Global::default(), &[], folder.path()).unwrap();
    let mender = &settings.models.executors["mender"];
    let fallback = mender.fallback.as_ref().unwrap();
    let far = &settings.agents["far"].settings;
    for (file, name) in [
        (&mender.key_file, "a"),
        (&fallback.key_file, "b"),
        (&far.token_file, "c"),
    ] {
        assert_eq!(file.as_deref(), Some(&*folder.path().join(name)));
    }
}

#[test]
fn agent_without_its_token_variable_is_unusable() {
    let folder = folder_with("[agents.far]\nform = \"a2a\"\nurl = \"https://x\"\ntoken = \"FAR\"\n");
    let of = |variables: &[(&str, &str)]| {
        let far = resolve(&Global::default(), variables, folder.path()).unwrap().agents["far"].clone();
        (far.token.map(|token| token.reveal().to_owned()), far.unusable)
    };
    assert_eq!(of(&[("FAR", " t\n")]), (Some("t".to_owned()), None));
    let (token, why) = of(&[("FAR", " ")]);
    assert!(token.is_none() && why.unwrap().contains("FAR"));
}

#[test]
fn invalid_agent_is_reported_with_its_file_and_table() {
    let folder = folder_with("[agents.fine]\ncommand = [\"a\"]\n[agents.empty]\n");
    let error = resolve(&Global::default(), &[], folder.path()).unwrap_err();
    let words = error.to_string();
    for part in ["folio.toml", "[agents.empty]", "`command`"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert_eq!(error.problem()["code"], "agent_unusable", "{}", error.problem());
}

#[test]
fn unknown_settings_key_is_reported_with_line_and_column() {
    let folder = folder_with("space = \"x\"\n  colour = \"auto\"\n");
    let error = resolve(&Global::default(), &[], folder.path()).unwrap_err().to_string();
    assert!(error.contains("folio.toml:2:3") && error.contains("colour"), "{error}");
}

#[test]
fn collector_timeout_comes_from_the_environment() {
    let folder = folder_with("[telemetry]\nendpoint = \"http://h\"\n");
    let (all, traces, endpoint) = (
        "OTEL_EXPORTER_OTLP_TIMEOUT",
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://e"),
    );
    for (variables, ms) in [
        (vec![], 10_000),
        (vec![(all, "1500")], 1_500),
        (vec![(all, "1500"), (traces, "200"), endpoint], 200),
        (vec![(all, "soon"), (traces, "0"), endpoint], 10_000),
    ] {
        let telemetry = resolve(&Global::default(), &variables, folder.path())
            .unwrap()
            .telemetry;
        assert_eq!(telemetry.unwrap().within, Duration::from_millis(ms), "{variables:?}");
    }
}

#[test]
fn unreadable_collector_variables_are_reported_without_their_values() {
    let folder = folder_with("[telemetry]\nendpoint = \"http://h\"\n");
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://e");
    let headers = "OTEL_EXPORTER_OTLP_HEADERS";
    let timeout = "OTEL_EXPORTER_OTLP_TIMEOUT";
    for (variables, told) in [
        (vec![endpoint, (headers, "a=b, x-key=c=d,"), (timeout, "1500")], vec![]),
        // They are for the address of the environment.
        (vec![(headers, "hunter2")], vec![]),
        (
            vec![endpoint, (headers, "a=b,hunter2"), (timeout, "abc")],
            vec![
                "OTEL_EXPORTER_OTLP_TIMEOUT is ignored: it is not a number of milliseconds",
                "header 2 of OTEL_EXPORTER_OTLP_HEADERS is not sent: it is not written as NAME=VALUE",
            ],
        ),
    ] {
        let settings = resolve(&Global::default(), &variables, folder.path()).unwrap();
        assert_eq!(settings.telemetry.unwrap().unread, told, "{variables:?}");
    }
}

#[test]
fn default_thread_is_the_worktree_root_m7_4_38() {
    let folder = tempfile::tempdir().unwrap();
    let thread = |folder: &Path| resolve(&Global::default(), &[], folder).unwrap().thread.0;
    for name in ["one", "two"] {
        let worktree = folder.path().join(name);
        let inner = worktree.join("src");
        std::fs::create_dir_all(&inner).unwrap();
        // What a worktree of the same repository has instead of a folder.
        std::fs::write(worktree.join(".git"), "gitdir: elsewhere").unwrap();
        assert_eq!(thread(&inner), worktree.to_string_lossy());
    }
}

#[test]
fn dumb_terminal_has_no_colours_unless_a_flag_asks_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let settings = |color, terminal| {
        let flags = Global {
            color,
            ..Global::default()
        };
        let settings = resolve(&flags, &[("TERM", terminal)], folder.path()).unwrap();
        (settings.color, settings.is_dumb_terminal)
    };
    assert_eq!(settings(None, "dumb"), (Color::Never, true));
    assert_eq!(settings(Some(Color::Auto), "dumb"), (Color::Never, true));
    assert_eq!(settings(Some(Color::Always), "dumb"), (Color::Always, true));
    assert_eq!(settings(None, "xterm"), (Color::Auto, false));
}

#[test]
fn no_color_is_obeyed_unless_a_flag_overrides_it() {
    let folder = tempfile::tempdir().unwrap();
    let color = |flag| {
        let flags = Global {
            color: flag,
            ..Global::default()
        };
        resolve(&flags, &[("NO_COLOR", "1")], folder.path()).unwrap().color
    };
    assert_eq!(color(None), Color::Never);
    assert_eq!(color(Some(Color::Always)), Color::Always);
}

#[test]
fn slashed_store_and_script_paths_resolve_beside_the_settings_file() {
    for (settings, store) in [
        ("store = \"sqlite://f.db\"", Some("f.db")),
        ("store = \"sqlite:///f.db\"", Some("/f.db")),
        ("store = \"sqlite:\"", None),
    ] {
        let folder = folder_with(settings);
        let found = resolve(&Global::default(), &[], folder.path()).unwrap().store;
        let wanted = store.map_or_else(String::new, |store| folder.path().join(store).display().to_string());
        assert_eq!(found, format!("sqlite:{wanted}"));
    }
    let folder = folder_with(
        "model = \"scripted:a.json\"\n[models]\ndefault = { model = \"scripted:b.json\", fallback = \"scripted:c.json\" }\n\
         planner = \"ollama:d\"\nexecutors = { x = \"scripted:/e.json\" }\n",
    );
    let file = folder.path().join(FILE_NAME);
    let flags = Global {
        config: Some(file),
        ..Global::default()
    };
    let settings = resolve(&flags, &[], Path::new("/elsewhere")).unwrap();
    let default = settings.models.default.as_ref().unwrap();
    let beside = |name: &str| format!("scripted:{}", folder.path().join(name).display());
    let said = [
        settings.model.as_ref().unwrap().text.clone(),
        default.model.to_string(),
        default.fallback.as_ref().unwrap().model.to_string(),
        settings.models.planner.as_ref().unwrap().model.to_string(),
        settings.models.executors["x"].model.to_string(),
    ];
    assert_eq!(
        said,
        [
            beside("a.json"),
            beside("b.json"),
            beside("c.json"),
            "ollama:d".to_owned(),
            "scripted:/e.json".to_owned()
        ]
    );
    // What is said elsewhere is beside nothing.
    let model = |flags: &Global, variables: &[(&str, &str)], current: &Path| {
        resolve(flags, variables, current).unwrap().model.unwrap().text
    };
    let said = model(&flags, &[("FOLIO_MODEL", "scripted:a.json")], Path::new("/elsewhere"));
    assert_eq!(said, "scripted:a.json");
    // Nobody needs to be told the folder that everybody is in.
    assert_eq!(model(&Global::default(), &[], folder.path()), "scripted:a.json");
}

#[test]
fn flags_to_repeat_are_quoted_for_the_shell() {
    let folder = folder_with("");
    std::fs::write(folder.path().join("it's.toml"), "").unwrap();
    let config = folder.path().join("it's.toml");
    let flags = Global {
        config: Some(config.clone()),
        store: Some("sqlite:a b$(c).db".to_owned()),
        space: Some("plain-1".to_owned()),
        ..Global::default()
    };
    let repeated = resolve(&flags, &[], folder.path()).unwrap().repeated;
    let said = std::process::Command::new("sh")
        .args(["-c", &format!("printf '%s\\n'{repeated}")])
        .output()
        .unwrap();
    let config = config.display().to_string();
    let words = [
        "--config",
        &config,
        "--store",
        "sqlite:a b$(c).db",
        "--space",
        "plain-1",
        "",
    ];
    assert_eq!(String::from_utf8(said.stdout).unwrap(), words.join("\n"));
    assert!(repeated.ends_with(" --space plain-1"), "{repeated}");
}

#[test]
fn path_like_store_name_means_a_file_store() {
    let folder = folder_with("store = \"../kept.db\"\n");
    let store_of = |flag: Option<&str>, variables: &[(&str, &str)]| {
        let flags = Global {
            store: flag.map(str::to_owned),
            ..Global::default()
        };
        resolve(&flags, variables, folder.path()).unwrap()
    };
    let absolute = store_of(Some("/tmp/a.db"), &[]);
    assert_eq!(absolute.store, "sqlite:/tmp/a.db");
    assert_eq!(absolute.repeated, " --store sqlite:/tmp/a.db");
    assert_eq!(store_of(None, &[("FOLIO_STORE", "./a.db")]).store, "sqlite:./a.db");
    let beside_the_file = format!("sqlite:{}", folder.path().join("../kept.db").display());
    assert_eq!(store_of(None, &[]).store, beside_the_file);
    // Any other word may be a kind of store that was misspelt.
    assert_eq!(store_of(Some("memory"), &[]).store, "memory");
}
