//! `write`: a file in the run's folder.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use async_trait::async_trait;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, OpenOptions, OpenOptionsExt as _};
use folio_memory::counted::counted;
use rustix::fs::RenameFlags;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::parse;
use crate::blocking::blocking;
use crate::context::{ToolContext, ToolLimits};
use crate::response::{EvidenceRef, FailureKind, ToolError, ToolResponse};
use crate::roots::{Located, RUN, io_failure, open_regular, read_small};
use crate::sha256::content_hash;
use crate::tool::{ArgKind, Effect, Need, Tool, ToolRequest, ToolSpec};

/// The folder that records, for every call that appends, where the file ended before it: a call that is repeated after
/// a crash learns from it whether it took effect.
const APPEND_RECORDS_FOLDER: &str = ".folio-appends";

/// The prefix and suffix around the digits in the name of a file that is being written.
const TEMP_NAME_AFFIXES: (&str, &str) = (".folio-", ".tmp");

/// Whether a file or folder of this name is a record that the tool keeps for its calls, and not a user's file.
pub(crate) fn is_own_record(name: &Path) -> bool {
    let (before, after) = TEMP_NAME_AFFIXES;
    let digits = |name: &str| name.strip_prefix(before)?.strip_suffix(after).map(str::to_owned);
    name.to_str().is_some_and(|name| {
        let is_key = |digits: String| digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        name == APPEND_RECORDS_FOLDER || digits(name).is_some_and(is_key)
    })
}

/// Makes, replaces or extends a file.
#[derive(Debug)]
pub(super) struct Write {
    spec: ToolSpec,
}

impl Default for Write {
    fn default() -> Self {
        Self {
            spec: ToolSpec::new(
                "write",
                Effect::Idempotent,
                "Writes a file in the folder of the run; folders on the way are made.",
            )
            .returns(
                "The file is there whole or not at all. Returns the `path` to read it by, its `bytes` and its `sha256`. \
                 The same call again changes nothing more.",
            )
            .needed(Need::Always)
            .gives(&[("path", "string"), ("bytes", "integer"), ("sha256", "string")])
            .required("path", ArgKind::Text, "Relative to that folder.")
            .required("content", ArgKind::Text, "The text.")
            .optional(
                "mode",
                ArgKind::one_of(&["create", "replace", "append"]),
                "Default: `replace`. `create` fails if there is another file.",
            ),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Create,
    #[default]
    Replace,
    Append,
}

#[derive(Deserialize)]
struct Args {
    path: String,
    content: String,
    mode: Option<Mode>,
}

#[async_trait]
impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resources(&self, args: &Value, context: &ToolContext) -> Vec<String> {
        let path = args.get("path").and_then(Value::as_str);
        let to_resource = |path| context.roots.full_path_to_write(path, &context.run_folder);
        path.and_then(to_resource).into_iter().collect()
    }

    async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse {
        match write(request, context).await {
            Ok((outputs, notes, evidence)) => ToolResponse {
                evidence: vec![evidence],
                ..ToolResponse::ok(request, outputs, notes)
            },
            Err(error) => ToolResponse::failed(request, error),
        }
    }
}

async fn write(request: &ToolRequest, context: &ToolContext) -> Result<(Value, String, EvidenceRef), ToolError> {
    let args: Args = parse(request)?;
    let (roots, run_folder) = (context.roots.clone(), context.run_folder.clone());
    let limits = context.limits.clone();
    let key = content_hash(request.request_id.as_bytes()).split_off("sha256:".len());
    blocking(&context.cancel, move |_| {
        let located = roots.find_to_write(&args.path, &run_folder)?;
        let target = Target::open(located, &key)?;
        let written = target.write(args.content.as_bytes(), args.mode.unwrap_or_default(), &limits)?;
        let outputs = json!({
            "path": target.shown,
            "bytes": written.bytes,
            "sha256": written.hash.trim_start_matches("sha256:"),
        });
        let notes = format!("{}: {} written", target.shown, counted(written.bytes, "byte"));
        let evidence = EvidenceRef {
            kind: "file".to_owned(),
            id: target.shown,
            hash: Some(written.hash),
            span: None,
        };
        Ok((outputs, notes, evidence))
    })
    .await
}

struct Written {
    bytes: u64,
    hash: String,
}

impl Written {
    fn of(content: &[u8]) -> Self {
        Self {
            bytes: content.len() as u64,
            hash: content_hash(content),
        }
    }
}

/// A name in an open folder, so that the target stays the same even if folders are moved meanwhile.
struct Target {
    dir: Dir,
    name: OsString,
    shown: String,
    /// Hexadecimal digits that identify the call.
    key: String,
    /// Whether it is in the run folder, which belongs to its owner alone. A granted folder may be shared with others.
    is_private: bool,
}

impl Target {
    fn open(located: Located, key: &str) -> Result<Self, ToolError> {
        let shown_path = located.display_path();
        refuse_git_folder(&located.relative, &shown_path)?;
        let Some(name) = located.relative.file_name() else {
            return Err(ToolError::invalid(format!("cannot write {shown_path}: it is a folder")));
        };
        let folder = match located.relative.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let root = located.root.dir();
        let is_private = located.root.name() == RUN;
        let opened = make_folder(root, folder, is_private).and_then(|()| root.open_dir(folder));
        Ok(Self {
            dir: opened.map_err(|error| located.failure("make the folder of", &error))?,
            name: name.to_owned(),
            shown: shown_path,
            key: key.to_owned(),
            is_private,
        })
    }

    fn write(&self, content: &[u8], mode: Mode, limits: &ToolLimits) -> Result<Written, ToolError> {
        self.check_size(content.len() as u64, limits)?;
        match mode {
            Mode::Replace => {
                if self.has_content(content)? {
                    return Ok(Written::of(content));
                }
                self.replace_atomically(content, RenameFlags::empty())
                    .map_err(|error| self.failure(&error))?;
                Ok(Written::of(content))
            }
            Mode::Create => {
                if self.has_content(content)? {
                    return Ok(Written::of(content));
                }
                self.replace_atomically(content, RenameFlags::NOREPLACE)
                    .map_err(|error| match error.kind() {
                        io::ErrorKind::AlreadyExists => ToolError::new(
                            FailureKind::Failed,
                            "already_exists",
                            format!("cannot create {}: it already exists", self.shown),
                        )
                        .hint("give `mode: replace` to overwrite it"),
                        _ => self.failure(&error),
                    })?;
                Ok(Written::of(content))
            }
            Mode::Append => self.append(content, limits),
        }
    }

    /// Whether the file exists with exactly this content.
    fn has_content(&self, content: &[u8]) -> Result<bool, ToolError> {
        let name = Path::new(&self.name);
        // A link is replaced, not followed.
        match self.dir.symlink_metadata(name) {
            Ok(found) if found.is_dir() => {
                return Err(ToolError::invalid(format!(
                    "cannot write {}: it is a folder",
                    self.shown
                )));
            }
            Ok(found) if !found.is_file() || found.len() != content.len() as u64 => {
                return Ok(false);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(self.failure(&error)),
        }
        let current = read_small(&self.dir, name, content.len() as u64);
        Ok(current.is_ok_and(|current| current.as_deref() == Some(content)))
    }

    fn append(&self, content: &[u8], limits: &ToolLimits) -> Result<Written, ToolError> {
        let name = Path::new(&self.name);
        let mut new_content = match open_regular(&self.dir, name) {
            Ok(Some((_, metadata))) => {
                self.check_size(metadata.len() + content.len() as u64, limits)?;
                read_small(&self.dir, name, limits.write_bytes)
                    .map_err(|error| self.failure(&error))?
                    .unwrap_or_default()
            }
            Ok(None) => {
                return Err(ToolError::invalid(format!(
                    "cannot append to {}: it is not a regular file",
                    self.shown
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(self.failure(&error)),
        };
        let record = self.append_record();
        if let Some(end_before) = self.recorded_end(&record)
            && new_content
                .get(end_before..)
                .is_some_and(|after| after.starts_with(content))
        {
            return Ok(Written::of(&new_content));
        }
        self.record_end(&record, new_content.len())
            .map_err(|error| self.failure(&error))?;
        new_content.extend_from_slice(content);
        self.replace_atomically(&new_content, RenameFlags::empty())
            .map_err(|error| self.failure(&error))?;
        Ok(Written::of(&new_content))
    }

    fn append_record(&self) -> OsString {
        let mut hash_input = self.key.clone().into_bytes();
        hash_input.extend_from_slice(self.name.as_bytes());
        OsString::from(&content_hash(&hash_input)["sha256:".len()..])
    }

    fn recorded_end(&self, record: &OsStr) -> Option<usize> {
        let text = read_small(&self.dir, &Path::new(APPEND_RECORDS_FOLDER).join(record), 32).ok()??;
        std::str::from_utf8(&text).ok()?.parse().ok()
    }

    fn record_end(&self, record: &OsStr, end: usize) -> io::Result<()> {
        make_folder(&self.dir, Path::new(APPEND_RECORDS_FOLDER), self.is_private)?;
        let records = Self {
            dir: self.dir.open_dir(APPEND_RECORDS_FOLDER)?,
            name: record.to_owned(),
            shown: String::new(),
            key: self.key.clone(),
            is_private: self.is_private,
        };
        records.replace_atomically(end.to_string().as_bytes(), RenameFlags::empty())
    }

    /// Puts the content in place atomically: it is written to a temporary file, made durable and renamed.
    fn replace_atomically(&self, content: &[u8], flags: RenameFlags) -> io::Result<()> {
        // The same call uses the same temporary file, so one that a crash left behind is reused.
        let (prefix, suffix) = TEMP_NAME_AFFIXES;
        let temp_name = OsString::from(format!("{prefix}{}{suffix}", &self.key[..16]));
        let result = self.write_and_rename(&temp_name, content, flags);
        if result.is_err() {
            // The first failure is the one to report.
            self.dir.remove_file(&temp_name).unwrap_or_default();
        }
        result
    }

    fn write_and_rename(&self, temp_name: &OsStr, content: &[u8], flags: RenameFlags) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if self.is_private {
            options.mode(0o600);
        }
        let mut file = match self.dir.open_with(temp_name, &options) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.dir.remove_file(temp_name)?;
                self.dir.open_with(temp_name, &options)?
            }
            other => other?,
        };
        file.write_all(content)?;
        file.sync_all()?;
        drop(file);
        match rustix::fs::renameat_with(&self.dir, temp_name, &self.dir, &*self.name, flags) {
            Ok(()) => {}
            // On a file system without this flag: a hard link fails if the name is taken.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if !flags.is_empty() => {
                self.dir.hard_link(temp_name, &self.dir, &self.name)?;
                self.dir.remove_file(temp_name)?;
            }
            Err(error) => return Err(error.into()),
        }
        // Otherwise a power loss may lose the name, though not the content.
        self.dir.open(".")?.sync_all()
    }

    fn check_size(&self, bytes: u64, limits: &ToolLimits) -> Result<(), ToolError> {
        if bytes <= limits.write_bytes {
            return Ok(());
        }
        Err(ToolError::new(
            FailureKind::TooLarge,
            "file_too_large",
            format!(
                "cannot write {}: {bytes} bytes are more than the limit of {}",
                self.shown, limits.write_bytes
            ),
        ))
    }

    fn failure(&self, error: &io::Error) -> ToolError {
        io_failure("write", &self.shown, error)
    }
}

/// Creates a folder and its missing parents.
fn make_folder(dir: &Dir, folder: &Path, is_private: bool) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    if is_private {
        builder.mode(0o700);
    }
    dir.create_dir_with(folder, &builder)
}

/// Refuses to write into `.git`: what is there can make git run programs.
fn refuse_git_folder(path: &Path, shown_path: &str) -> Result<(), ToolError> {
    let in_git = path
        .components()
        .any(|part| matches!(part, Component::Normal(name) if name.as_bytes().eq_ignore_ascii_case(b".git")));
    if !in_git {
        return Ok(());
    }
    Err(ToolError::new(
        FailureKind::Denied,
        "git_folder",
        format!("cannot write {shown_path}: what is in .git can make git run programs"),
    ))
}
