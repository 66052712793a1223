//! Trust in settings files that are found in a folder: they may have come with a repository, in an archive, or from
//! whoever else may write there, and they start programs, and say where memory is kept and where keys are sent.
//!
//! Trust is recorded as a file in the user's own data folder, one for each place. It holds a digest of the place and
//! of the contents, so that a file that changed afterwards is not trusted.

use std::fmt;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use folio::memory::canonical::{digest_of, hex};
use folio::store::private;
use serde::Serialize;
use serde_json::Value;

use super::file::{FILE_NAME, HARMLESS, parsed, read_text, unreadable};
use super::sources::worktree_of;
use super::surroundings::Surroundings;
use crate::error::{Failure, without_passwords};

/// What an unreadable file is said to set.
const UNREADABLE: &str = "what cannot be read";

/// A settings file of a folder that its user has not looked at, or not since it was changed.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Unseen {
    file: String,
    /// Whether it is in a worktree.
    #[serde(skip)]
    is_in_repository: bool,
    /// The harmful keys that it sets.
    sets: Vec<String>,
    /// Whether somebody has looked at an earlier version.
    changed: bool,
    /// Why it could not be used even if it were trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    mistake: Option<String>,
}

impl Unseen {
    /// Returns the file of `folder`, which contains `text`, if it must not be used. `None` if it is the user's own, is
    /// harmless, or somebody has looked at it. A file that is not `readable` as settings counts as harmful: it decides
    /// which other file is used.
    pub(super) fn find_untrusted(
        text: &str,
        folder: &Path,
        surroundings: &Surroundings<'_>,
        readable: bool,
    ) -> Option<Self> {
        let mut sets: Vec<_> = harmful(text).into_iter().map(|(key, _)| key).collect();
        if sets.is_empty() && !readable {
            sets.push(UNREADABLE.to_owned());
        }
        let is_own = |(_, config): &(PathBuf, PathBuf)| resolve_links(&config.join("folio")) == resolve_links(folder);
        if sets.is_empty() || surroundings.folders.as_ref().is_some_and(is_own) {
            return None;
        }
        let data = surroundings.folders.as_ref().map(|(data, _)| data.join("folio"));
        let file = resolve_links(folder).join(FILE_NAME);
        let noted = data.and_then(|data| std::fs::read_to_string(note_for(&file, &data)).ok());
        let changed = noted.is_some();
        let is_seen = noted.is_some_and(|noted| noted.lines().next() == Some(&digest(&file, text)));
        (!is_seen).then(|| Self {
            file: file.display().to_string(),
            is_in_repository: worktree_of(folder).is_some(),
            sets,
            changed,
            mistake: None,
        })
    }

    /// Adds the mistake of a file that cannot be read as settings.
    pub(super) fn with_mistake(mut self, mistake: Option<Failure>) -> Self {
        self.mistake = mistake.map(|failure| failure.message().to_owned());
        self
    }

    /// Why it could not be used even if it were trusted, if so.
    pub(crate) fn mistake(&self) -> Option<&str> {
        self.mistake.as_deref()
    }

    pub(super) fn refused(&self) -> Failure {
        Failure::usage("settings_untrusted", self.to_string()).hint("look at the file, then run `folio trust`")
    }
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, sets) = (&self.file, self.sets.join(", "));
        let state = match self.changed {
            true => "has changed since it was trusted",
            false => "is not trusted",
        };
        let place = if self.is_in_repository {
            "is in a repository and "
        } else {
            ""
        };
        write!(f, "{file}, which {place}sets {sets}, {state}")
    }
}

/// A settings file, and where trust in it is recorded.
#[derive(Debug)]
pub(crate) struct SettingsFile {
    pub(crate) path: PathBuf,
    note: PathBuf,
}

impl SettingsFile {
    /// The file at `path`, or in the folder at `path`.
    pub(super) fn at(path: &Path, data: Option<&Path>) -> Result<Self, Failure> {
        let data = data.ok_or_else(|| {
            Failure::usage(
                "no_home",
                "the user has no home folder, so there is no place to note what is trusted",
            )
            .hint("name the file with --config FILE or FOLIO_CONFIG")
        })?;
        // A missing path can only be judged by its name. Only a folder has a name other than that of the file.
        let is_gone_folder = !path.exists() && path.file_name().is_some_and(|name| name != FILE_NAME);
        let path = match path.is_dir() || is_gone_folder {
            true => path.join(FILE_NAME),
            false => path.to_owned(),
        };
        // Two names of a folder mean the same file. The target of a link in it may change, and is read each time.
        let folder = path.parent().map(resolve_links).unwrap_or_default();
        let path = folder.join(path.file_name().unwrap_or_default());
        Ok(Self {
            note: note_for(&path, data),
            path,
        })
    }

    /// Records that somebody has looked at the present contents, and returns the harmful settings.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not a settings file, or trust cannot be recorded.
    pub(crate) fn trust(&self) -> Result<Vec<(String, Value)>, Failure> {
        let text = read_text(&self.path, false).map_err(|error| unreadable(&self.path, &error))?;
        parsed(&text, &self.path)?;
        let line = format!("{}\n{}\n", digest(&self.path, &text), self.path.display());
        write_atomically(&self.note, &line)
            .map_err(|error| Failure::file("note what is trusted in", &self.note, &error))?;
        Ok(harmful(&text))
    }

    /// Removes the trust, and returns whether there was any.
    ///
    /// # Errors
    ///
    /// If that cannot be recorded.
    pub(crate) fn distrust(&self) -> Result<bool, Failure> {
        match std::fs::remove_file(&self.note) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Failure::file("remove", &self.note, &error)),
        }
    }
}

/// The harmful settings in `text`: one per key, and one per key of a table.
fn harmful(text: &str) -> Vec<(String, Value)> {
    let Ok(table) = toml::from_str::<toml::Table>(text) else {
        return vec![(UNREADABLE.to_owned(), Value::Null)];
    };
    let of_key = |(key, value): (String, toml::Value)| match value {
        toml::Value::Table(table) if !table.is_empty() => {
            let inner = table.into_iter();
            inner.map(|(name, value)| (format!("{key}.{name}"), value)).collect()
        }
        value => vec![(key, value)],
    };
    let entries = table.into_iter().filter(|(key, _)| !HARMLESS.contains(&key.as_str()));
    entries
        .flat_map(of_key)
        .map(|(key, value)| (key, value_without_passwords(&value)))
        .collect()
}

/// `value` without passwords, for display.
fn value_without_passwords(value: &toml::Value) -> Value {
    fn without(value: &mut Value) {
        match value {
            Value::String(text) => *text = without_passwords(text).into_owned(),
            Value::Array(items) => items.iter_mut().for_each(without),
            Value::Object(fields) => fields.values_mut().for_each(without),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut value = serde_json::to_value(value).unwrap_or_default();
    without(&mut value);
    value
}

/// `folder` with links resolved, as far as it exists.
fn resolve_links(folder: &Path) -> PathBuf {
    let from = |ancestor: &Path| Some(ancestor.canonicalize().ok()?.join(folder.strip_prefix(ancestor).ok()?));
    folder.ancestors().find_map(from).unwrap_or_else(|| folder.to_owned())
}

fn note_for(file: &Path, data: &Path) -> PathBuf {
    let name = digest_of([file.as_os_str().as_bytes()]);
    data.join("trusted").join(hex(&name[..16]))
}

fn digest(file: &Path, text: &str) -> String {
    hex(&digest_of([file.as_os_str().as_bytes(), text.as_bytes()]))
}

/// Writes `text` to the file at `path`, which is readable by its owner alone, and is replaced whole or not at all.
fn write_atomically(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new(""));
    private::make_folders(folder)?;
    let mut beside = tempfile::NamedTempFile::new_in(folder)?;
    beside.write_all(text.as_bytes())?;
    beside.persist(path)?;
    Ok(())
}
