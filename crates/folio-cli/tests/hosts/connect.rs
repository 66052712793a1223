//! The instructions in docs/connect work with the program as built.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use crate::support::Folio;
use crate::support::mcp::Host;
use serde_json::{Value, json};

/// The pages, by name.
fn pages() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/connect");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut pages: Vec<_> = files
        .map(|file| {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&file).unwrap())
        })
        .collect();
    pages.sort();
    pages
}

/// The blocks of `page` in the language `language`.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let blocks = page.split(&fence).skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

/// Collects every command in `value` that starts the program, and every address.
fn collect_commands(value: &Value, commands: &mut Vec<Vec<String>>, addresses: &mut Vec<String>) {
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().into_iter().flatten();
        list.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let Value::Object(fields) = value else { return };
    match fields.get("command") {
        Some(Value::String(program)) => {
            let mut command = vec![program.clone()];
            command.extend(texts(fields.get("args").unwrap_or(&Value::Null)));
            commands.push(command);
        }
        Some(list @ Value::Array(_)) => commands.push(texts(list)),
        _ => {}
    }
    for name in ["url", "httpUrl"] {
        addresses.extend(fields.get(name).and_then(Value::as_str).map(str::to_owned));
    }
    for inner in fields.values() {
        collect_commands(inner, commands, addresses);
    }
}

#[test]
fn every_documented_client_configuration_starts_a_server() {
    let pages = pages();
    // Where `folio serve` is when nobody says anything else.
    let usual = format!("http://{}/mcp", folio_server::ServeOptions::default().listen);
    let (mut started, mut addressed) = (0, 0);
    for (name, page) in &pages {
        let (mut commands, mut addresses) = (Vec::new(), Vec::new());
        for block in blocks(page, "json") {
            let value: Value = serde_json::from_str(&block).unwrap_or_else(|error| panic!("{name}: {error}"));
            collect_commands(&value, &mut commands, &mut addresses);
        }
        for block in blocks(page, "toml") {
            let value: Value = toml::from_str(&block).unwrap_or_else(|error| panic!("{name}: {error}"));
            collect_commands(&value, &mut commands, &mut addresses);
        }
        for block in blocks(page, "sh") {
            for line in block.lines() {
                let (_, command) = line.split_once(" -- ").unwrap_or_else(|| panic!("{name}: {line}"));
                commands.push(command.split_whitespace().map(str::to_owned).collect());
            }
        }
        // Hooks have a test of their own.
        if !["README.md", "hooks.md"].contains(&name.as_str()) {
            assert!(!commands.is_empty() && !addresses.is_empty(), "{name} says too little");
        }
        for command in commands {
            assert_eq!(command[0], "folio", "{name}");
            let folio = Folio::new();
            let arguments: Vec<&str> = command[1..].iter().map(String::as_str).collect();
            let mut host = Host::start(folio.process(&arguments));
            let tools = host.ask("tools/list", json!({}));
            assert_eq!(tools["tools"].as_array().unwrap().len(), 6, "{name}: {command:?}");
            assert!(
                host.call("scratch_add", json!({"kind": "note", "title": "x"}))
                    .starts_with("e1 "),
                "{name}"
            );
            assert_eq!(host.end().0, Some(0), "{name}");
            started += 1;
        }
        for address in addresses {
            assert_eq!(address, usual, "{name}");
            addressed += 1;
        }
    }
    assert!(
        started >= 8 && addressed >= 6,
        "{started} commands, {addressed} addresses"
    );
}

/// What `folio connect` adds is what the pages say.
#[test]
fn connect_adds_what_the_pages_document() {
    let pages = pages();
    let documented = |name: &str| -> Value {
        let (_, page) = pages.iter().find(|(page, _)| page == name).unwrap();
        serde_json::from_str(&blocks(page, "json")[0]).unwrap()
    };
    let folio = Folio::new();
    for (program, arguments, page) in [
        ("claude-code", &[][..], "claude-code.md"),
        ("claude-code", &["--hooks"], "hooks.md"),
        ("cursor", &["--thread", "my-project"], "cursor.md"),
        ("gemini-cli", &[], "gemini-cli.md"),
        ("opencode", &[], "opencode.md"),
        ("vscode", &[], "vscode.md"),
    ] {
        let told = folio.json(&[&["connect", program], arguments].concat());
        assert_eq!(told["adds"], documented(page), "{program}");
        let file = told["file"].as_str().unwrap();
        assert_eq!(
            (&told["changes"], &told["written"]),
            (&json!(true), &json!(false)),
            "{told}"
        );
        assert!(!folio.path().join(file).exists(), "{file} is only shown");
        folio.ok(&[&["connect", program, "--write"], arguments].concat());
        let written: Value = serde_json::from_slice(&std::fs::read(folio.path().join(file)).unwrap()).unwrap();
        assert_eq!(written, documented(page), "{program}");
        let again = folio.json(&[&["connect", program, "--write"], arguments].concat());
        assert_eq!(
            (&again["changes"], again.get("backup")),
            (&json!(false), None),
            "{again}"
        );
    }
    for (arguments, hint) in [
        (&["connect", "codex"][..], "codex mcp add folio -- folio mcp"),
        (&["connect", "cursor", "--hooks"], "docs/connect/hooks.md"),
    ] {
        let told = folio.call(arguments);
        assert_eq!(told.code, 2, "{told}");
        assert!(told.stderr.contains(hint), "{told}");
    }
}

#[test]
fn connect_keeps_what_a_file_has_and_a_copy_of_it() {
    let folio = Folio::new();
    let settings = folio.path().join(".claude/settings.json");
    std::fs::create_dir(folio.path().join(".claude")).unwrap();
    let other = "{\n\t\"model\": \"opus\", \"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]},\n\
        {\"hooks\": [{\"type\": \"command\", \"command\": \"folio --thread t hook stop\"}]}]}}\n";
    std::fs::write(&settings, other).unwrap();
    let told = folio.json(&[
        "connect",
        "claude-code",
        "--hooks",
        "--write",
        "--store",
        "sqlite:my store.db",
    ]);
    assert_eq!(told["backup"], ".claude/settings.json.before-folio-1", "{told}");
    let kept = std::fs::read_to_string(folio.path().join(".claude/settings.json.before-folio-1")).unwrap();
    assert_eq!(kept, other);
    let written: Value = serde_json::from_slice(&std::fs::read(&settings).unwrap()).unwrap();
    let before: Value = serde_json::from_str(other).unwrap();
    assert_eq!(written["model"], "opus");
    assert_eq!(
        written["hooks"]["Stop"], before["hooks"]["Stop"],
        "there is such a hook, with options of its own"
    );
    let store = folio.path().canonicalize().unwrap().join("my store.db");
    let begins = format!("folio --store 'sqlite:{}' hook session-start", store.display());
    assert_eq!(written["hooks"]["SessionStart"][0]["hooks"][0]["command"], begins);
    // Only what was added is told, and what was left.
    assert_eq!(told["left"], json!(["Stop"]), "{told}");
    let added = told["adds"]["hooks"].as_object().unwrap();
    assert!(added.len() == 3 && !added.contains_key("Stop"), "{told}");
    // What cannot be read is left alone.
    for unreadable in ["// mine\n{}", "[]", "{\"hooks\": 1}"] {
        std::fs::write(&settings, unreadable).unwrap();
        let told = folio.call(&["connect", "claude-code", "--hooks", "--write"]);
        assert_eq!(told.code, 4, "{told}");
        assert!(told.stderr.contains("add this by hand: {\"hooks\":"), "{told}");
        assert_eq!(std::fs::read_to_string(&settings).unwrap(), unreadable);
    }
    let told = folio.call(&["--role", "client", "connect", "gemini-cli", "--write"]);
    assert_eq!(told.code, 4, "{told}");
}

#[test]
fn connect_names_files_so_that_they_are_found_from_every_folder() {
    let folio = Folio::new();
    folio.settings("");
    let here = folio.path().canonicalize().unwrap();
    let at = |name: &str| here.join(name).display().to_string();
    for (store, named) in [
        ("sqlite:./f.db", at("f.db")),
        ("sqlite:../f.db", at("../f.db")),
        ("./a/./f.db", at("a/f.db")),
        ("sqlite:///tmp/f.db", "/tmp/f.db".to_owned()),
    ] {
        let told = folio.json(&["connect", "cursor", "--thread", "t", "--space", "s", "--store", store]);
        let store = format!("sqlite:{named}");
        let args = json!(["mcp", "--store", store, "--space", "s", "--thread", "t"]);
        assert_eq!(told["adds"]["mcpServers"]["folio"]["args"], args, "{told}");
    }
    let told = folio.json(&["connect", "opencode", "--config", "./folio.toml"]);
    let command = json!(["folio", "mcp", "--config", at("folio.toml")]);
    assert_eq!(told["adds"]["mcp"]["folio"]["command"], command, "{told}");
}

#[test]
fn connect_tells_what_it_adds_and_what_it_leaves_with_other_options() {
    let folio = Folio::new();
    let server = ["connect", "claude-code", "--write"];
    folio.ok(&server);
    assert_eq!(folio.ok(&server), ".mcp.json has it already\n");
    let other = [&server[..], &["--space", "s"]].concat();
    let left = ".mcp.json has with other options, left as they are: folio\n";
    assert_eq!(folio.ok(&other), left);
    assert_eq!(folio.json(&other)["left"], json!(["folio"]));
    folio.file(
        ".claude/settings.json",
        r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "folio --space s hook stop"}]}]}}"#,
    );
    let told = folio.ok(&["connect", "claude-code", "--hooks"]);
    assert!(
        told.contains("folio hook pre-compact") && !told.contains("hook stop"),
        "{told}"
    );
    let left = "\n.claude/settings.json has with other options, left as they are: Stop\n";
    assert!(told.ends_with(left), "{told}");
}

#[test]
fn connect_replaces_a_file_whole_and_keeps_its_permissions_and_links() {
    let folio = Folio::new();
    folio.file("kept/mcp.json", "{}");
    let (kept, link) = (folio.path().join("kept/mcp.json"), folio.path().join(".mcp.json"));
    std::fs::set_permissions(&kept, Permissions::from_mode(0o640)).unwrap();
    let inode = |file: &Path| std::fs::metadata(file).unwrap().ino();
    let before = inode(&kept);
    std::os::unix::fs::symlink("kept/mcp.json", &link).unwrap();
    folio.ok(&["connect", "claude-code", "--write"]);
    assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("kept/mcp.json"));
    assert!(std::fs::read_to_string(&kept).unwrap().contains("mcpServers"));
    assert_ne!(inode(&kept), before, "another file took its place");
    assert_eq!(std::fs::metadata(&kept).unwrap().mode() & 0o777, 0o640);
    let names = |folder: &Path| -> Vec<_> {
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    assert_eq!(
        names(&folio.path().join("kept")),
        ["mcp.json"],
        "nothing stays beside it"
    );
    // A new file is one as any other program makes it.
    folio.file("usual", "");
    folio.ok(&["connect", "opencode", "--write"]);
    let mode = |name: &str| std::fs::metadata(folio.path().join(name)).unwrap().mode();
    assert_eq!(mode("opencode.json"), mode("usual"));
}

#[test]
fn connect_does_not_follow_a_link_to_nowhere() {
    let folio = Folio::new();
    std::os::unix::fs::symlink("nowhere.json", folio.path().join(".mcp.json")).unwrap();
    let told = folio.call(&["connect", "claude-code", "--write"]);
    assert_ne!(told.code, 0, "{told}");
    assert!(
        told.stderr.contains("it is a link to a file that is not there"),
        "{told}"
    );
    assert!(!folio.path().join("nowhere.json").exists());
}

#[test]
fn connect_refuses_a_store_that_it_would_have_to_leave_out() {
    let folio = Folio::new();
    for store in ["postgres://ada:secret@127.0.0.1/folio", "memory:"] {
        for program in [&["claude-code"][..], &["claude-code", "--hooks"], &["codex"]] {
            let told = folio.call(&[&["connect"], program, &["--write", "--store", store]].concat());
            assert_eq!(told.code, 2, "{told}");
            assert!(told.stderr.contains("name the store in your folio.toml"), "{told}");
            assert!(!told.stderr.contains("secret"), "{told}");
        }
    }
    assert!(!folio.path().join(".mcp.json").exists() && !folio.path().join(".claude").exists());
}

#[test]
fn connect_readme_lists_every_page() {
    let pages = pages();
    let (_, list) = pages.iter().find(|(name, _)| name == "README.md").unwrap();
    for (name, _) in &pages {
        assert!(
            name == "README.md" || list.contains(&format!("[{name}]({name})")),
            "{name}"
        );
    }
}
