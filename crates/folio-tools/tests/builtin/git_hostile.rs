//! `git` on repositories that were made to harm whoever looks at them: no setting, attribute or link in one may run a
//! program, write a file or reveal a file from outside.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::support::{World, git, put};
use folio_tools::{Access, FailureKind, Root, Roots};
use serde_json::{Value, json};

const READERS: &[(&str, &[&str])] = &[
    ("summary", &[]),
    ("hot_files", &[]),
    ("log", &["-p", "-3"]),
    ("log", &["-p", "-m", "-3", "--stat"]),
    ("log", &["-L1,1:a.txt"]),
    ("show", &["HEAD"]),
    ("show", &["HEAD:a.txt"]),
    ("show", &["-m", "HEAD"]),
    ("diff", &[]),
    ("diff", &["HEAD~1"]),
    ("diff", &["--cached"]),
    ("status", &[]),
    ("status", &["--ignored"]),
    ("ls-files", &["-m", "-o", "-t"]),
    ("blame", &["a.txt"]),
    ("blame", &["HEAD", "--", "a.txt"]),
    ("cat-file", &["-p", "HEAD:a.txt"]),
    ("shortlog", &["-sne"]),
    ("branch", &["-vv", "-a"]),
    ("tag", &["-n"]),
    ("describe", &["--always", "--all"]),
    ("rev-list", &["--all"]),
];

/// A repository with a merge, and a program that leaves a mark when it is run.
fn world() -> (World, PathBuf) {
    let world = World::new();
    world.git(&["init", "--quiet"]);
    world.file("a.txt", "one\n");
    world.file(".gitattributes", "* filter=evil diff=evil merge=evil\n");
    world.commit("first");
    world.git(&["checkout", "--quiet", "-b", "side"]);
    world.file("a.txt", "side\n");
    world.commit("side");
    world.git(&["checkout", "--quiet", "main"]);
    world.file("a.txt", "main\n");
    world.commit("main");
    world.git(&["merge", "--quiet", "-s", "ours", "side", "-m", "merged"]);
    let program = world.folder.path().join("evil.sh");
    let mark = world.folder.path().join("mark");
    put(
        &program,
        format!("#!/bin/sh\necho \"$0 $@\" >> {}\ncat\n", mark.display()),
    );
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    (world, program)
}

/// Puts something that looks like a signature into the newest commit.
fn sign_newest_commit(world: &World) {
    let script = "git cat-file commit HEAD | awk '!done && /^$/ {print \"gpgsig -----BEGIN PGP SIGNATURE-----\\n \\n x\\n -----END PGP SIGNATURE-----\"; done=1} {print}' \
        > ../signed && git update-ref HEAD $(git hash-object -t commit -w ../signed)";
    let done = std::process::Command::new("sh")
        .args(["-c", script])
        .current_dir(world.repo())
        .status()
        .unwrap();
    assert!(done.success());
}

async fn run_all_read_commands(world: &World) -> String {
    // A file that changed must be filtered before it can be compared.
    world.file("a.txt", "changed\n");
    world.file("untracked.txt", "x\n");
    let mut all = String::new();
    for (command, args) in READERS {
        let mut call = json!({"command": command});
        if !args.is_empty() {
            call["args"] = json!(args);
        }
        let response = world.call("git", call).await;
        all.push_str(&serde_json::to_string(&response).unwrap());
        let mark = world.folder.path().join("mark");
        assert!(
            !mark.exists(),
            "git {command} {args:?} ran {}",
            std::fs::read_to_string(mark).unwrap()
        );
    }
    all
}

#[tokio::test]
async fn repository_config_hooks_and_attributes_never_execute_programs() {
    let (world, program) = world();
    let evil = program.to_str().unwrap();
    let settings = [
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.askPass",
        "core.editor",
        "core.gitProxy",
        "core.alternateRefsCommand",
        "pager.log",
        "pager.show",
        "pager.diff",
        "pager.branch",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "filter.e=v\"i l.clean",
        "merge.evil.driver",
        "gpg.program",
        "gpg.openpgp.program",
        "gpg.ssh.program",
        "gpg.ssh.defaultKeyCommand",
        "credential.helper",
        "interactive.diffFilter",
        "uploadpack.packObjectsHook",
        "trailer.x.command",
        "trailer.x.cmd",
        "alias.log",
        "alias.status",
        "diff.tool",
        "browser.x.cmd",
        "remote.origin.uploadpack",
        "sequence.editor",
    ];
    for setting in settings {
        world.git(&["config", setting, evil]);
    }
    for (setting, value) in [
        ("filter.evil.required", "true"),
        ("log.showSignature", "true"),
        ("log.diffMerges", "remerge"),
        ("diff.submodule", "diff"),
        ("submodule.recurse", "true"),
        ("status.submoduleSummary", "true"),
        ("core.hooksPath", world.folder.path().to_str().unwrap()),
        ("diff.evil.cachetextconv", "true"),
    ] {
        world.git(&["config", setting, value]);
    }
    sign_newest_commit(&world);
    for hook in [
        "post-index-change",
        "fsmonitor-watchman",
        "reference-transaction",
        "post-checkout",
    ] {
        std::fs::copy(&program, world.folder.path().join(hook)).unwrap();
        std::fs::copy(&program, world.repo().join(".git/hooks").join(hook)).unwrap();
    }
    world.file(
        ".gitattributes",
        "a.txt filter=evil diff=evil merge=evil\n*.md filter=e=v\"i\n",
    );
    run_all_read_commands(&world).await;
}

#[tokio::test]
async fn included_and_worktree_git_config_never_executes_programs() {
    let (world, program) = world();
    let included = world.folder.path().join("included");
    put(
        &included,
        format!(
            "[filter \"evil\"]\n\tclean = {0}\n[diff \"evil\"]\n\ttextconv = {0}\n",
            program.display()
        ),
    );
    world.git(&["config", "include.path", included.to_str().unwrap()]);
    world.git(&["config", "extensions.worktreeConfig", "true"]);
    put(
        &world.repo().join(".git/config.worktree"),
        format!("[filter \"evil\"]\n\tprocess = {}\n", program.display()),
    );
    run_all_read_commands(&world).await;
}

#[tokio::test]
async fn missing_git_object_of_a_partial_clone_is_not_fetched() {
    let (world, program) = world();
    for (setting, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", &format!("ext::{} %S", program.display())),
        ("protocol.ext.allow", "always"),
        ("core.sshCommand", program.to_str().unwrap()),
    ] {
        world.git(&["config", setting, value]);
    }
    let blob = std::process::Command::new("git")
        .args(["rev-parse", "HEAD:a.txt"])
        .current_dir(world.repo())
        .output()
        .unwrap();
    let hash = String::from_utf8(blob.stdout).unwrap();
    std::fs::remove_file(
        world
            .repo()
            .join(".git/objects")
            .join(&hash[..2])
            .join(hash[2..].trim()),
    )
    .unwrap();
    run_all_read_commands(&world).await;
    let error = world
        .error("git", json!({"command": "show", "args": ["HEAD:a.txt"]}))
        .await;
    assert!(
        matches!(error.kind, FailureKind::Failed | FailureKind::NotFound),
        "{error:?}"
    );
}

#[tokio::test]
async fn git_submodule_config_is_never_used() {
    let (world, program) = world();
    let inner = world.repo().join("inner");
    std::fs::create_dir(&inner).unwrap();
    git(&inner, &["init", "--quiet"]);
    put(&inner.join("x.txt"), "x\n");
    git(&inner, &["add", "--all"]);
    git(&inner, &["commit", "--quiet", "-m", "inner"]);
    put(
        &world.repo().join(".gitmodules"),
        "[submodule \"inner\"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n",
    );
    world.git(&["-c", "filter.evil.clean=", "add", "inner", ".gitmodules"]);
    world.git(&["commit", "--quiet", "-m", "with inner"]);
    world.git(&["config", "submodule.inner.ignore", "none"]);
    git(&inner, &["config", "core.fsmonitor", program.to_str().unwrap()]);
    put(&inner.join("x.txt"), "changed\n");
    run_all_read_commands(&world).await;
}

#[tokio::test]
async fn core_worktree_setting_cannot_expose_outside_files() {
    let (world, _) = world();
    put(&world.folder.path().join("outside/a.txt"), "the secret\n");
    world.git(&[
        "config",
        "core.worktree",
        world.folder.path().join("outside").to_str().unwrap(),
    ]);
    assert!(!run_all_read_commands(&world).await.contains("the secret"));
}

#[tokio::test]
async fn bare_repository_cannot_point_its_worktree_outside() {
    let (mut world, _) = world();
    let outside = world.folder.path().join("outside");
    put(&outside.join("a.txt"), "the secret\n");
    // In no folder of the other one, which would be found there.
    let bare = world.folder.path().join("bare");
    world.git(&["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    world.context.roots = Roots::new(vec![Root::open("bare", &bare, Access::Read).unwrap()]).unwrap();
    git(&bare, &["config", "core.bare", "false"]);
    git(&bare, &["config", "core.worktree", outside.to_str().unwrap()]);
    std::fs::copy(world.repo().join(".git/index"), bare.join("index")).unwrap();
    let mut all = String::new();
    for (command, args) in READERS {
        let call = match args.is_empty() {
            true => json!({"command": command}),
            false => json!({"command": command, "args": args}),
        };
        all.push_str(&serde_json::to_string(&world.call("git", call).await).unwrap());
    }
    assert!(all.contains("main"), "{all}");
    assert!(!all.contains("the secret"), "{all}");
}

/// Settings that change after the check would make git run a program.
#[tokio::test]
async fn git_folder_writable_by_the_run_is_denied() {
    let (mut world, _) = world();
    let own = world.folder.path().join("runs/1");
    let granted = world.folder.path().join("granted");
    for folder in [&own, &granted] {
        std::fs::create_dir_all(folder).unwrap();
        git(
            &world.repo(),
            &["clone", "--quiet", "--bare", ".", folder.join("bare").to_str().unwrap()],
        );
        // The way round: a file that leads to what is in no folder called `.git`.
        put(&folder.join("led/.git"), "gitdir: ../bare\n");
        git(
            &world.repo(),
            &["clone", "--quiet", ".", folder.join("usual").to_str().unwrap()],
        );
    }
    let root = |name: &str, access| Root::open(name, &granted, access).unwrap();
    world.context.roots = Roots::new(vec![root("read", Access::Read)]).unwrap();
    let refused = async |world: &World, repo: &str| {
        let error = world.error("git", json!({"command": "summary", "repo": repo})).await;
        (error.kind, error.code)
    };
    let never = (FailureKind::Denied, "git_folder".to_owned());
    for repo in ["run:bare", "run:led"] {
        assert_eq!(refused(&world, repo).await, never, "{repo}");
    }
    for repo in ["run:usual", "read:bare", "read:led", "read:usual"] {
        world.outputs("git", json!({"command": "summary", "repo": repo})).await;
    }
    // The same folder under another name that may be written.
    world.context.roots = Roots::new(vec![root("read", Access::Read), root("write", Access::ReadWrite)]).unwrap();
    for repo in ["read:bare", "write:bare", "write:led"] {
        assert_eq!(refused(&world, repo).await, never, "{repo}");
    }
    world
        .outputs("git", json!({"command": "summary", "repo": "write:usual"}))
        .await;
}

#[tokio::test]
async fn git_settings_and_links_never_show_outside_files() {
    let (world, _) = world();
    let secret = world.folder.path().join("secret.txt");
    put(&secret, "the secret\n");
    for setting in [
        "blame.ignoreRevsFile",
        "mailmap.file",
        "diff.orderFile",
        "core.attributesFile",
        "core.excludesFile",
        "commit.template",
    ] {
        world.git(&["config", setting, secret.to_str().unwrap()]);
    }
    symlink(&secret, world.repo().join("link.txt")).unwrap();
    symlink(world.folder.path(), world.repo().join("up")).unwrap();
    let mut all = run_all_read_commands(&world).await;
    for args in [
        json!(["link.txt", "a.txt"]),
        json!(["--", "up/secret.txt", "a.txt"]),
        json!(["up/secret.txt", "/dev/null"]),
    ] {
        let response = world.call("git", json!({"command": "diff", "args": args})).await;
        all.push_str(&serde_json::to_string(&response).unwrap());
    }
    assert!(!all.contains("the secret"), "{all}");
}

/// These of the allowed commands would open files of the working tree by their paths: `diff` with a blob and a file,
/// which is refused, and `blame` without a revision, which gets the content. The others either read only objects (`log`, also with `-L` and `--follow`, `show`, `cat-file`,
/// `rev-list`, `shortlog`, `describe`, `branch`, `tag`, `rev-parse`), or do not follow links (`status`, `diff` without
/// a blob, `ls-files -o`). `ls-files -m` only says whether a file is as it was recorded. All of them get the names
/// here all the same.
#[tokio::test]
async fn git_path_arguments_through_symlinks_to_outside_are_denied() {
    let (world, _) = world();
    world.file("link/secret.txt", "tracked\n");
    world.file("inner/b.txt", "inside\n");
    symlink("inner", world.repo().join("alias")).unwrap();
    symlink(world.folder.path().join("outside"), world.repo().join("up")).unwrap();
    world.commit("tracked");
    put(&world.folder.path().join("outside/secret.txt"), "the secret\n");
    std::fs::remove_dir_all(world.repo().join("link")).unwrap();
    symlink("../outside", world.repo().join("link")).unwrap();
    for (command, args) in [
        ("diff", &["HEAD:a.txt", "up/secret.txt"][..]),
        ("diff", &["HEAD:a.txt", "--", "up/secret.txt"]),
        ("diff", &["HEAD:a.txt", "./alias/../up/secret.txt"]),
        ("diff", &["HEAD:a.txt", "alias/../up/secret.txt"]),
        ("diff", &["HEAD:a.txt", "up"]),
        ("diff", &["HEAD:a.txt", "up/"]),
        ("diff", &["HEAD:a.txt", "link/secret.txt"]),
        ("blame", &["link/secret.txt"]),
        ("blame", &["-L1,1", "--", "link/secret.txt"]),
        ("log", &["-p", "--follow", "--", "link/secret.txt"]),
        ("ls-files", &["-o", "--", "link/"]),
        ("status", &["--", "link/secret.txt"]),
    ] {
        let error = world.error("git", json!({"command": command, "args": args})).await;
        assert_eq!(error.kind, FailureKind::Denied, "{command} {args:?}: {error:?}");
        assert_eq!(error.code, "path_outside_root", "{command} {args:?}");
    }
    let mut all = run_all_read_commands(&world).await;
    for (command, args) in [
        ("log", &["-L1,1:link/secret.txt"][..]),
        ("diff", &["HEAD:a.txt", ":(top)up/secret.txt"]),
        ("diff", &["HEAD:a.txt", ":/up/secret.txt"]),
        ("diff", &["HEAD", "--stat"]),
        ("show", &["HEAD:link/secret.txt"]),
        ("blame", &["@link/secret.txt"]),
    ] {
        let response = world.call("git", json!({"command": command, "args": args})).await;
        all.push_str(&serde_json::to_string(&response).unwrap());
    }
    assert!(!all.contains("the secret"), "{all}");
    world.git(&["tag", "-a", "tagged", "-m", "a blob", "HEAD:a.txt"]);
    // A link inside the granted folder could lead elsewhere a moment later.
    for args in [
        json!(["HEAD:a.txt", "alias/b.txt"]),
        json!(["HEAD:a.txt", "--", "inner/b.txt"]),
        json!([":a.txt", "a.txt"]),
        json!(["^HEAD:a.txt", "a.txt"]),
        json!(["^HEAD:a.txt", "--", "a.txt"]),
        json!(["tagged", "a.txt"]),
        json!(["HEAD:a.txt", "main~2^@", "a.txt"]),
        json!(["HEAD:a.txt", "--", "HEAD:a.txt"]),
    ] {
        let error = world.error("git", json!({"command": "diff", "args": args})).await;
        assert_eq!(
            (error.kind, &*error.code),
            (FailureKind::Denied, "git_blob_and_file"),
            "{args}"
        );
    }
    for args in [
        json!(["HEAD:a.txt", "HEAD:inner/b.txt"]),
        json!(["HEAD", "--", "inner/b.txt"]),
    ] {
        world.outputs("git", json!({"command": "diff", "args": args})).await;
    }
}

#[tokio::test]
async fn blame_reads_no_file_through_a_folder_that_becomes_a_link_meanwhile() {
    let mut world = World::new();
    world.git(&["init", "--quiet"]);
    world.file("inner/b.txt", "inside\n");
    world.commit("first");
    world.file("inner/b.txt", "inside\nchanged\n");
    let outside = world.folder.path().join("outside");
    put(&outside.join("b.txt"), "the secret\n");
    // In place of git, a program that swaps the folder before git looks at it.
    let bin = world.folder.path().join("bin");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *blame*) mv inner was; ln -s {} inner;; esac\nPATH=/usr/local/bin:/usr/bin:/bin\nexec git \"$@\"\n",
        outside.display()
    );
    put(&bin.join("git"), &script);
    std::fs::set_permissions(bin.join("git"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    world.context.environment = vec![("PATH".to_owned(), path)].into();
    for args in [
        json!(["inner/b.txt"]),
        json!(["--", "inner/b.txt"]),
        json!(["-s", "^HEAD", "inner/b.txt"]),
        // No revision is left to begin with.
        json!(["HEAD..HEAD", "inner/b.txt"]),
        json!(["HEAD...HEAD", "--", "inner/b.txt"]),
        json!(["^HEAD", "HEAD", "inner/b.txt"]),
        json!(["HEAD^@", "inner/b.txt"]),
    ] {
        let told = world.call("git", json!({"command": "blame", "args": args})).await;
        let told = serde_json::to_string(&told).unwrap();
        assert!(!told.contains("the secret"), "{args}: {told}");
        assert!(
            told.contains("changed") || told.contains("must be run in a work tree"),
            "{args}: {told}"
        );
        std::fs::remove_file(world.repo().join("inner")).unwrap();
        std::fs::rename(world.repo().join("was"), world.repo().join("inner")).unwrap();
    }
}

#[tokio::test]
async fn blame_of_a_link_shows_where_it_leads_as_git_does() {
    let world = World::new();
    world.git(&["init", "--quiet"]);
    world.file("a.txt", "one\n");
    symlink("a.txt", world.repo().join("link")).unwrap();
    world.commit("first");
    let told = world
        .outputs("git", json!({"command": "blame", "args": ["-s", "link"]}))
        .await;
    let text = told["text"].as_str().unwrap();
    assert!(text.ends_with("1) a.txt\n") && !text.starts_with("00000000"), "{text}");
    let told = world
        .outputs("git", json!({"command": "blame", "args": ["-s", "a.txt"]}))
        .await;
    let text = told["text"].as_str().unwrap();
    assert!(text.ends_with("1) one\n") && !text.starts_with("00000000"), "{text}");
    let error = world
        .error("git", json!({"command": "blame", "args": ["none.txt"]}))
        .await;
    assert_eq!(error.kind, FailureKind::NotFound, "{error:?}");
}

/// Another repository beside the granted folder, with a secret in it.
fn add_ungranted_repository(world: &World) -> PathBuf {
    let other = world.folder.path().join("other");
    put(&other.join("secret.txt"), "the secret\n");
    git(&other, &["init", "--quiet"]);
    git(&other, &["add", "--all"]);
    git(&other, &["commit", "--quiet", "-m", "the secret"]);
    other
}

async fn refused(world: &World) {
    let args: Value = json!({"command": "log"});
    let error = world.error("git", args).await;
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::Denied, "path_outside_root"),
        "{error:?}"
    );
}

fn replace_with_link(path: &Path, to: &Path) {
    std::fs::rename(path, path.with_extension("old")).unwrap();
    symlink(to, path).unwrap();
}

#[tokio::test]
async fn git_folder_outside_the_root_is_refused() {
    let world = World::new();
    let other = add_ungranted_repository(&world);
    world.file(".git", format!("gitdir: {}/.git\n", other.display()));
    refused(&world).await;
    std::fs::remove_file(world.repo().join(".git")).unwrap();
    symlink(other.join(".git"), world.repo().join(".git")).unwrap();
    refused(&world).await;
}

#[tokio::test]
async fn forged_worktree_of_an_outside_repository_is_refused() {
    let world = World::new();
    let other = add_ungranted_repository(&world);
    let honest = world.folder.path().join("honest");
    git(&other, &["worktree", "add", "--quiet", honest.to_str().unwrap()]);
    // Points to where another folder is the worktree.
    world.file(".git", format!("gitdir: {}/.git/worktrees/honest\n", other.display()));
    refused(&world).await;
    // Points inside, to a folder that borrows the rest.
    world.file("fake/gitdir", format!("{}/.git\n", world.repo().display()));
    world.file("fake/commondir", format!("{}/.git\n", other.display()));
    world.file("fake/HEAD", "ref: refs/heads/main\n");
    world.file(".git", "gitdir: fake\n");
    refused(&world).await;
}

#[tokio::test]
async fn git_folder_parts_linked_from_outside_are_refused() {
    for part in ["objects", "refs", "HEAD", "config", "objects/info", "objects/pack"] {
        let (world, _) = world();
        let other = add_ungranted_repository(&world);
        replace_with_link(&world.repo().join(".git").join(part), &other.join(".git").join(part));
        refused(&world).await;
    }
    let (world, _) = world();
    let other = add_ungranted_repository(&world);
    world.file(
        ".git/objects/info/alternates",
        format!("{}/.git/objects\n", other.display()),
    );
    refused(&world).await;
}

#[tokio::test]
async fn ambiguous_git_alternates_file_is_refused() {
    let (world, _) = world();
    let other = add_ungranted_repository(&world);
    let outside = other.join(".git/objects");
    let outside = outside.display();
    symlink(&*outside.to_string(), world.repo().join("in\r")).unwrap();
    std::fs::create_dir(world.repo().join("in")).unwrap();
    let inside = world.repo().join("in");
    for list in [
        format!("\"{outside}\"\n").into_bytes(),
        format!("{}\r\n", inside.display()).into_bytes(),
        [b"\xff\n", format!("{outside}\n").as_bytes()].concat(),
        format!("{}{outside}\n", "#\n".repeat(40_000)).into_bytes(),
    ] {
        world.file(".git/objects/info/alternates", list);
        refused(&world).await;
    }
}

fn pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[tokio::test]
async fn named_pipe_in_place_of_a_git_file_does_not_block() {
    let (world, _) = world();
    let log = json!({"command": "log"});
    let common = world.repo().join(".git/commondir");
    pipe(&common);
    assert_eq!(world.error("git", log.clone()).await.code, "not_a_repository");
    std::fs::remove_file(common).unwrap();
    pipe(&world.repo().join(".git/objects/info/alternates"));
    refused(&world).await;
}

#[tokio::test]
async fn symlink_inside_git_folder_to_another_repository_is_refused() {
    for (link, to) in [
        ("refs/remotes", "refs/heads"),
        ("refs/heads/x", "refs/heads/main"),
        ("objects/ab", "objects/info"),
        ("objects/ff/0123", "HEAD"),
        ("objects/pack/pack-1.idx", "HEAD"),
        ("objects/info/commit-graph", "HEAD"),
        ("logs/refs/heads/x", "HEAD"),
        // git shows the line of these that it cannot read, or the whole file.
        ("shallow", "description"),
        ("worktrees/w/gitdir", "HEAD"),
    ] {
        let (world, _) = world();
        let other = add_ungranted_repository(&world);
        let link = world.repo().join(".git").join(link);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(other.join(".git").join(to), &link).unwrap();
        refused(&world).await;
        // Inside it is nobody's business.
        std::fs::remove_file(&link).unwrap();
        symlink(world.repo().join(".git/description"), &link).unwrap();
        let response = world.call("git", json!({"command": "summary"})).await;
        assert_ne!(
            response.error.map(|error| error.code).as_deref(),
            Some("path_outside_root")
        );
    }
}
