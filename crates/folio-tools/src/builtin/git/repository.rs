//! A repository that may be looked at, and how git is run on it.

mod links;
mod place;
mod worktree;

use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use bstr::ByteSlice as _;
use folio_process::{Ended, Finished, Limits, Program, Sink};

use self::place::{Granted, Place};
use crate::blocking::blocking;
use crate::capture::{Captured, HeadAndTail};
use crate::context::ToolContext;
use crate::process::run_with;
use crate::response::{FailureKind, ToolError};
use crate::roots::{Access, Located, Root, io_failure};

/// How many bytes of error output are kept.
const ERRORS_BYTES: usize = 16 * 1024;

/// Settings that override those of the repository, which may come from anybody: no setting may run a program, read a
/// file outside of the repository, or reach the network.
const SETTINGS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.quotePath", "false"),
    ("core.sshCommand", "/dev/null"),
    ("core.askPass", "/dev/null"),
    ("core.gitProxy", "/dev/null"),
    ("core.alternateRefsCommand", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.attributesFile", "/dev/null"),
    ("credential.helper", ""),
    ("protocol.allow", "never"),
    ("diff.external", ""),
    ("diff.orderFile", "/dev/null"),
    ("diff.ignoreSubmodules", "all"),
    ("diff.submodule", "short"),
    ("submodule.recurse", "false"),
    ("status.submoduleSummary", "false"),
    ("log.showSignature", "false"),
    ("log.follow", "false"),
    // `remerge` runs the merge programs of the repository.
    ("log.diffMerges", "separate"),
    ("gpg.program", "/dev/null"),
    ("gpg.openpgp.program", "/dev/null"),
    ("gpg.x509.program", "/dev/null"),
    ("gpg.ssh.program", "/dev/null"),
    ("gpg.ssh.defaultKeyCommand", ""),
    ("mailmap.file", "/dev/null"),
    ("i18n.logOutputEncoding", "UTF-8"),
    ("color.ui", "false"),
    ("column.ui", "never"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // The folder was granted, no matter who owns it.
    ("safe.directory", "*"),
    ("safe.bareRepository", "all"),
];

const ENVIRONMENT: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_PAGER", "cat"),
];

/// A repository that lies within the granted folders.
#[derive(Debug)]
pub(super) struct Repository<'a> {
    context: &'a ToolContext,
    located: Located,
    place: Place,
    /// Names of settings of the repository that are set to nothing, since each would run a program.
    cleared_settings: Vec<String>,
}

impl<'a> Repository<'a> {
    /// Finds the repository that `located` is in.
    pub(super) async fn open(located: &Located, context: &'a ToolContext) -> Result<Self, ToolError> {
        let from = located.clone();
        let roots = || context.roots.iter().chain([&*located.root]);
        let path_of = |root: &Root| root.path().to_owned();
        let granted = Granted {
            all: roots().map(path_of).collect(),
            to_write: roots()
                .filter(|root| root.access() == Access::ReadWrite)
                .map(path_of)
                .collect(),
        };
        let run_folder = context.run_folder.path().map(Path::to_owned);
        let find = move || {
            let mut granted = granted;
            granted
                .to_write
                .extend(run_folder.and_then(|folder| folder.canonicalize().ok()));
            Place::find(&from, &granted)
        };
        let place = blocking(&context.cancel, move |_| find()).await?;
        let mut repository = Self {
            context,
            located: located.clone(),
            place,
            cleared_settings: Vec::new(),
        };
        let names = repository.settings().await?;
        repository.cleared_settings = settings_that_run_programs(&names)?;
        if names.split(|byte| *byte == 0).any(|name| name == b"core.worktree") {
            repository.place.use_folder_as_worktree();
        }
        Ok(repository)
    }

    /// Refuses names of files that a symbolic link in the working tree leads out of the granted folder, be it the file
    /// itself or a folder on the way to it.
    ///
    /// Only git finds out which of the names are files, so all of them are checked.
    pub(super) async fn check_paths_inside_root(&self, names: &[String]) -> Result<(), ToolError> {
        let root = Arc::clone(&self.located.root);
        let paths = names.iter().map(|name| (name.clone(), self.path_in_root(name)));
        let paths: Vec<_> = paths.collect();
        blocking(&self.context.cancel, move |_| {
            for (name, path) in paths {
                let found = root.dir().metadata(path);
                // This is how the handle of the root reports a path that leads out of it. If nothing is there, git
                // says so.
                if let Err(error) = found
                    && error.kind() == io::ErrorKind::PermissionDenied
                {
                    return Err(io_failure("look at", &name, &error));
                }
            }
            Ok(())
        })
        .await
    }

    /// Whether the repository is a shallow clone, which has only the newest part of its history.
    pub(super) fn is_shallow(&self) -> bool {
        self.place.is_shallow
    }

    /// Runs a command, which reads `input`, and returns its output; `None` if the repository has no commits yet.
    pub(super) async fn text(
        &self,
        command: &str,
        args: Vec<String>,
        input: Option<Vec<u8>>,
    ) -> Result<Option<Captured>, ToolError> {
        let mut sink = HeadAndTail::new(self.context.limits.process_output_bytes);
        let args = args.into_iter().map(OsString::from).collect();
        match self.stream_with(command, args, input, &mut sink).await {
            Ok(()) => Ok(Some(sink.finish())),
            Err(error) if error.kind == FailureKind::Cancelled => Err(error),
            Err(_) if self.head().await?.is_none() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The newest commit; `None` if there are no commits yet.
    pub(super) async fn head(&self) -> Result<Option<String>, ToolError> {
        let args = ["--verify", "--quiet", "HEAD"].map(OsString::from).to_vec();
        self.output_line("rev-parse", args).await
    }

    /// The one line that a command prints; `None` if the command fails.
    pub(super) async fn output_line(&self, command: &str, args: Vec<OsString>) -> Result<Option<String>, ToolError> {
        let mut sink = HeadAndTail::new(ERRORS_BYTES);
        let (finished, _) = self.run(command, args, None, &mut sink).await?;
        if finished.ended == Ended::Cancelled {
            return Err(ToolError::cancelled());
        }
        let text = sink.finish().text.trim().to_owned();
        Ok((finished.exit_code() == Some(0) && !text.is_empty()).then_some(text))
    }

    /// Runs a command and passes its output to `sink`, which may end the command.
    pub(super) async fn stream(
        &self,
        command: &str,
        args: Vec<OsString>,
        sink: &mut dyn Sink,
    ) -> Result<(), ToolError> {
        self.stream_with(command, args, None, sink).await
    }

    async fn stream_with(
        &self,
        command: &str,
        args: Vec<OsString>,
        input: Option<Vec<u8>>,
        sink: &mut dyn Sink,
    ) -> Result<(), ToolError> {
        let (finished, errors) = self.run(command, args, input, sink).await?;
        match (finished.ended, finished.exit_code()) {
            (Ended::Stopped, _) | (Ended::ByItself, Some(0)) => Ok(()),
            (Ended::Cancelled, _) => Err(ToolError::cancelled()),
            (Ended::TimedOut, _) => Err(ToolError::new(
                FailureKind::TimedOut,
                "timed_out",
                format!(
                    "git {command} took longer than {} s and was ended",
                    self.context.limits.git_timeout.as_secs()
                ),
            )),
            (Ended::ByItself, code) => Err(explained(command, code, &errors)),
        }
    }

    async fn run(
        &self,
        command: &str,
        args: Vec<OsString>,
        input: Option<Vec<u8>>,
        sink: &mut dyn Sink,
    ) -> Result<(Finished, String), ToolError> {
        let mut all: Vec<OsString> = vec!["--no-pager".into(), "--literal-pathspecs".into(), command.into()];
        all.extend(args);
        let program = Program {
            name: "git".to_owned(),
            args: all,
            folder: self.place.folder.clone(),
            // `blame` would open a file by its path; it gets the content instead, whichever way it is asked.
            environment: self.environment(command != "blame"),
        };
        let limits = Limits {
            time: self.context.limits.git_timeout,
            grace: self.context.limits.kill_grace,
        };
        let mut errors = HeadAndTail::new(ERRORS_BYTES);
        let finished = run_with(&program, input, limits, &self.context.cancel, (sink, &mut errors))
            .await
            .map_err(|error| match error.code.as_str() {
                "no_such_program" => ToolError::new(
                    FailureKind::Unavailable,
                    "git_missing",
                    "cannot run git: it is not installed, or not on the PATH",
                )
                .hint("install git"),
                _ => error,
            })?;
        Ok((finished, errors.finish().text))
    }

    fn environment(&self, opens_files: bool) -> Vec<(OsString, OsString)> {
        // Of the run's environment, only what is needed to find the program: no home folder, so no settings of the
        // user.
        let path = self.context.environment.iter().filter(|(name, _)| name == "PATH");
        let mut environment: Vec<(OsString, OsString)> =
            path.map(|(name, value)| (name.into(), value.into())).collect();
        environment.extend(ENVIRONMENT.iter().map(|(name, value)| (name.into(), value.into())));
        environment.extend(self.place.environment(opens_files));
        let emptied = self.cleared_settings.iter().map(|name| (name.as_str(), ""));
        let mut count = 0;
        for (name, value) in SETTINGS.iter().copied().chain(emptied) {
            environment.push((format!("GIT_CONFIG_KEY_{count}").into(), name.into()));
            environment.push((format!("GIT_CONFIG_VALUE_{count}").into(), value.into()));
            count += 1;
        }
        environment.push(("GIT_CONFIG_COUNT".into(), count.to_string().into()));
        environment
    }

    /// The names of the repository's settings, each followed by a zero byte.
    async fn settings(&self) -> Result<Vec<u8>, ToolError> {
        let mut names = Names::default();
        let args = ["--list", "--name-only", "-z"].map(OsString::from).to_vec();
        self.stream("config", args, &mut names).await?;
        if names.too_many {
            return Err(ToolError::new(
                FailureKind::Denied,
                "git_settings",
                "the settings of the repository are too large to be checked",
            ));
        }
        Ok(names.text)
    }
}

/// Finds drivers that the settings of the repository name: they would run for any file whose attributes ask for them.
fn settings_that_run_programs(names: &[u8]) -> Result<Vec<String>, ToolError> {
    let mut found = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| runs_a_program(name)) {
        let Ok(name) = std::str::from_utf8(name) else {
            return Err(ToolError::new(
                FailureKind::Denied,
                "git_settings",
                "a setting of the repository that runs a program has a name that is not valid UTF-8",
            ));
        };
        found.push(name.to_owned());
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn runs_a_program(name: &[u8]) -> bool {
    let ends_with_any = |suffixes: &[&str]| suffixes.iter().any(|end| name.ends_with(end.as_bytes()));
    (name.starts_with(b"filter.") && ends_with_any(&[".clean", ".smudge", ".process"]))
        || (name.starts_with(b"diff.") && ends_with_any(&[".command", ".textconv"]))
        || (name.starts_with(b"merge.") && ends_with_any(&[".driver"]))
        // If the filter is set to nothing, this setting makes git fail.
        || (name.starts_with(b"filter.") && ends_with_any(&[".required"]))
}

/// Collects names of settings, up to a limit.
#[derive(Default)]
struct Names {
    text: Vec<u8>,
    too_many: bool,
}

impl Sink for Names {
    fn take(&mut self, piece: &[u8]) -> ControlFlow<()> {
        self.text.extend_from_slice(piece);
        self.too_many = self.text.len() > 1024 * 1024;
        if self.too_many {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

fn explained(command: &str, code: Option<i32>, errors: &str) -> ToolError {
    let first = errors.lines().find(|line| !line.trim().is_empty());
    let reason = first.unwrap_or_default();
    let reason = reason.strip_prefix("fatal: ").unwrap_or(reason);
    let reason: String = reason.chars().take(300).collect();
    let unknown = [
        "unknown revision",
        "Not a valid object name",
        "no such path",
        "does not exist in",
    ];
    if unknown.iter().any(|text| errors.contains(text)) {
        return ToolError::new(
            FailureKind::NotFound,
            "git_not_found",
            format!("git {command}: {reason}"),
        );
    }
    let error = ToolError::new(
        FailureKind::Failed,
        "git_failed",
        match (reason.is_empty(), code) {
            (true, Some(code)) => format!("git {command} ended with exit code {code}"),
            (true, None) => format!("git {command} was ended"),
            (false, _) => format!("git {command}: {reason}"),
        },
    );
    if errors.as_bytes().contains_str("promisor") || errors.contains("lazy fetching") {
        return error.hint("this repository holds only a part of its files, and nothing is fetched");
    }
    error
}
