//! The files in a run folder, copied for a fork of the run.
//!
//! They are copied and not linked: what one run writes in place must not be seen by the other. Where the file system
//! can, it shares what neither has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};

use crate::builtin::is_own_record;
use crate::paths::shown;
use crate::roots::{make_private_folder, open_regular};
use crate::sha256::ContentHash;

/// The largest number of files, folders and links that are looked at.
const NAMES_MAX: usize = 20_000;
/// The largest number of bytes that are copied in all.
const BYTES_MAX: u64 = 1 << 30;
/// How many names of missing or changed files are listed.
const TOLD_MAX: usize = 5;

/// What is known of the files in a run folder at the moment from which the fork goes on.
#[derive(Debug, Clone, Default)]
pub struct Takeover {
    /// Files as a call that had ended by then left them: size in bytes, and hash as `sha256:` and hexadecimal digits.
    pub known: BTreeMap<PathBuf, (u64, String)>,
    /// Files that were written only by calls that had not ended by then.
    pub later: BTreeSet<PathBuf>,
    /// Files and folders that were written by then and that later calls said to write again. Nobody knows what they were
    /// like then, whatever their times say.
    pub rewritten: BTreeSet<PathBuf>,
    /// The time of that moment, by a clock that need not agree with that of the file system; `None` if nothing happened
    /// since.
    pub moment: Option<SystemTime>,
}

/// How much two clocks may differ without being told apart: some file systems keep times to two seconds.
const TICK: Duration = Duration::from_secs(2);

/// `moment` by the clock of the file system, which said `file_now` when the clock of `moment` said something between
/// `before` and `after`. If somebody set one of the clocks since the moment, it is wrong by as much.
fn by_files(moment: SystemTime, file_now: SystemTime, [before, after]: [SystemTime; 2]) -> SystemTime {
    let ahead = file_now.duration_since(after).unwrap_or_default();
    let behind = before.duration_since(file_now).unwrap_or_default();
    let moved = match (ahead > TICK, behind > TICK) {
        (true, _) => moment.checked_add(ahead),
        (_, true) => moment.checked_sub(behind),
        (false, false) => None,
    };
    moved.unwrap_or(moment)
}

/// Which files were copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// The number of files copied.
    pub files: u64,
    /// The number of bytes copied.
    pub bytes: u64,
    /// Files that were not copied, and why.
    pub missing: Named,
    /// Files that were copied in their present form, but have changed since that moment.
    pub changed: Named,
}

/// The first few of some names, and how many there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    first: Vec<String>,
    count: usize,
}

impl Named {
    /// Whether there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first names, and how many more there are.
    #[must_use]
    pub fn in_words(&self) -> String {
        let first = self.first.join(", ");
        match self.count - self.first.len() {
            0 => first,
            left_count => format!("{first} and {left_count} more"),
        }
    }

    fn add(&mut self, name: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < TOLD_MAX {
            self.first.push(name());
        }
    }
}

impl Takeover {
    /// Copies the contents of the folder `from` to `to`, which then exists whole or not at all. Returns `None` if
    /// there is no folder `from`. Blocks on the disk. `clock` is that of the moment.
    ///
    /// A file that was only appended to since is copied with what it had then. Records of the tool `write` are left
    /// out: they belong to calls of the other run.
    ///
    /// # Errors
    ///
    /// If `from` cannot be opened, or `to` cannot be created. A single file that cannot be copied is named in the
    /// result instead.
    pub fn copy(&self, from: &Path, to: &Path, clock: &dyn Fn() -> SystemTime) -> io::Result<Option<TakenOver>> {
        let from = match Dir::open_ambient_dir(from, ambient_authority()) {
            Ok(from) => from,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let (Some(parent_folder), Some(name)) = (to.parent(), to.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut temp_name = name.to_owned();
        temp_name.push(".new");
        let temp_path = parent_folder.join(temp_name);
        let before = clock();
        make_private_folder(&temp_path)?;
        let clock = [before, clock()];
        let result = Dir::open_ambient_dir(&temp_path, ambient_authority()).and_then(|into| {
            // The folder was made just now.
            let file_now = std::fs::metadata(&temp_path)?.modified().ok();
            let moment = self
                .moment
                .map(|moment| file_now.map_or(moment, |now| by_files(moment, now, clock)));
            let taken_over = self.copy_all(&from, &into, moment)?;
            std::fs::rename(&temp_path, to)?;
            Ok(taken_over)
        });
        if result.is_err() {
            // The first failure is the one to report.
            std::fs::remove_dir_all(&temp_path).unwrap_or_default();
        }
        result.map(Some)
    }

    /// Copies everything; `moment` is by the clock of the file system.
    fn copy_all(&self, from: &Dir, into: &Dir, moment: Option<SystemTime>) -> io::Result<TakenOver> {
        let mut taken_over = TakenOver::default();
        let mut name_count = 0;
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            let open_in = |dir: &Dir| match folder.as_os_str().is_empty() {
                true => dir.try_clone(),
                false => dir.open_dir(&folder),
            };
            let (source, target) = match open_in(from).and_then(|source| Ok((source, open_in(into)?))) {
                Ok(both) => both,
                Err(error) => {
                    taken_over.missing.add(|| missing_file_note(&folder, &error));
                    continue;
                }
            };
            let mut entries = source.entries()?.collect::<io::Result<Vec<_>>>()?;
            entries.sort_by_key(cap_std::fs::DirEntry::file_name);
            for entry in entries {
                let name = PathBuf::from(entry.file_name());
                let path = folder.join(&name);
                if is_own_record(&name) || self.later.contains(&path) {
                    continue;
                }
                name_count += 1;
                if name_count > NAMES_MAX {
                    let message = format!("there are more than {NAMES_MAX} files");
                    taken_over
                        .missing
                        .add(|| missing_file_note(&path, &io::Error::other(message)));
                    continue;
                }
                let copied = match entry.file_type() {
                    Ok(kind) if kind.is_dir() => target.create_dir(&name).map(|()| folders.push(path.clone())),
                    Ok(kind) if kind.is_symlink() => copy_link(&source, &target, &name, &path),
                    Ok(kind) if kind.is_file() => {
                        self.copy_file((&source, &target), (&name, &path), moment, &mut taken_over)
                    }
                    Ok(_) => Err(io::Error::other("it is not a regular file")),
                    Err(error) => Err(error),
                };
                if let Err(error) = copied {
                    taken_over.missing.add(|| missing_file_note(&path, &error));
                }
            }
        }
        Ok(taken_over)
    }

    fn copy_file(
        &self,
        (source, target): (&Dir, &Dir),
        (name, path): (&Path, &Path),
        moment: Option<SystemTime>,
        taken_over: &mut TakenOver,
    ) -> io::Result<()> {
        let Some((file, metadata)) = open_regular(source, name)? else {
            return Err(io::Error::other("it is not a regular file"));
        };
        let mut file = file.into_std();
        let is_later = |at: SystemTime| moment.is_some_and(|moment| at > moment);
        let is_rewritten = || path.ancestors().any(|part| self.rewritten.contains(part));
        let changed_at = file.metadata()?.modified().ok();
        let (bytes, is_changed) = match self.known.get(path) {
            Some((bytes, hash)) if prefix_has_hash(&mut file, *bytes, hash)? => (*bytes, false),
            Some(_) => (metadata.len(), true),
            None => (metadata.len(), is_rewritten() || changed_at.is_some_and(is_later)),
        };
        if bytes > BYTES_MAX - taken_over.bytes {
            return Err(io::Error::other(format!(
                "all of it would be more than {BYTES_MAX} bytes"
            )));
        }
        let mut target_file = target
            .open_with(name, OpenOptions::new().write(true).create_new(true))?
            .into_std();
        let copied = io::copy(&mut (&file).take(bytes), &mut target_file)
            .and_then(|_| target_file.set_permissions(file.metadata()?.permissions()))
            .and_then(|()| changed_at.map_or(Ok(()), |at| target_file.set_modified(at)));
        if let Err(error) = copied {
            // Half a file would be taken for the whole.
            target.remove_file(name).unwrap_or_default();
            return Err(error);
        }
        taken_over.files += 1;
        taken_over.bytes += bytes;
        if is_changed {
            taken_over.changed.add(|| run_path(path));
        }
        Ok(())
    }
}

/// Whether the first `bytes` of `file` have `hash`. Afterwards the file is read from its beginning again.
fn prefix_has_hash(file: &mut File, bytes: u64, hash: &str) -> io::Result<bool> {
    let (mut hasher, mut left) = (ContentHash::default(), bytes);
    let mut piece = vec![0; 64 << 10];
    while left > 0 {
        let piece_len = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        let read = file.read(&mut piece[..piece_len])?;
        if read == 0 {
            break;
        }
        hasher.update(&piece[..read]);
        left -= read as u64;
    }
    io::Seek::rewind(file)?;
    Ok(left == 0 && hasher.finish() == hash)
}

/// Creates a link with the same target as the original, if that is inside the folder.
fn copy_link(source: &Dir, target: &Dir, name: &Path, path: &Path) -> io::Result<()> {
    let leads_to = source.read_link_contents(name)?;
    let mut depth = path.components().count().saturating_sub(1);
    for part in leads_to.components() {
        let deeper = match part {
            Component::Normal(_) => depth.checked_add(1),
            Component::CurDir => Some(depth),
            Component::ParentDir => depth.checked_sub(1),
            Component::RootDir | Component::Prefix(_) => None,
        };
        depth = deeper.ok_or_else(|| io::Error::other("it is a link that leads out of the folder"))?;
    }
    target.symlink_contents(leads_to, name)
}

fn run_path(path: &Path) -> String {
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
    format!("run:{}", shown(bytes))
}

fn missing_file_note(path: &Path, error: &io::Error) -> String {
    format!("{} ({error})", run_path(path))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;
    use crate::sha256::content_hash;

    fn folder(files: &[(&str, &str)]) -> TempDir {
        let home = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = home.path().join("old").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        home
    }

    #[expect(clippy::disallowed_methods, reason = "the time of files cannot be simulated")]
    fn real_time() -> SystemTime {
        SystemTime::now()
    }

    fn known_state(content: &str) -> (u64, String) {
        (content.len() as u64, content_hash(content.as_bytes()))
    }

    #[test]
    fn takeover_restores_known_file_contents_and_skips_later_files() {
        let home = folder(&[
            ("a/log.md", "first second"),
            ("replaced.md", "another"),
            ("same.md", "same"),
            ("later.md", "later"),
            ("made.bin", "by a program"),
            (".folio-appends/1", "0"),
            ("a/.folio-0123456789abcdef.tmp", "half"),
        ]);
        let takeover = Takeover {
            known: [
                ("a/log.md".into(), known_state("first")),
                ("replaced.md".into(), known_state("one")),
                ("same.md".into(), known_state("same")),
            ]
            .into(),
            later: [PathBuf::from("later.md")].into(),
            ..Takeover::default()
        };
        let to = home.path().join("new");
        let taken = takeover
            .copy(&home.path().join("old"), &to, &real_time)
            .unwrap()
            .unwrap();
        let read = |path: &str| std::fs::read_to_string(to.join(path)).ok();
        assert_eq!(read("a/log.md").as_deref(), Some("first"));
        assert_eq!(read("replaced.md").as_deref(), Some("another"));
        assert_eq!(read("same.md").as_deref(), Some("same"));
        assert_eq!(read("made.bin").as_deref(), Some("by a program"));
        for gone in ["later.md", ".folio-appends/1", "a/.folio-0123456789abcdef.tmp"] {
            assert_eq!(read(gone), None, "{gone}");
        }
        assert_eq!((taken.files, taken.bytes), (4, 5 + 7 + 4 + 12));
        assert!(taken.missing.is_empty());
        assert_eq!(taken.changed.in_words(), "run:replaced.md");
        assert_eq!(
            std::fs::read_dir(home.path()).unwrap().count(),
            2,
            "nothing is left beside it"
        );
    }

    #[test]
    fn takeover_copy_is_independent_of_the_original() {
        let home = folder(&[("a.md", "one")]);
        let (from, to) = (home.path().join("old"), home.path().join("new"));
        Takeover::default().copy(&from, &to, &real_time).unwrap().unwrap();
        // In place, as a program may.
        let mut file = std::fs::OpenOptions::new().append(true).open(to.join("a.md")).unwrap();
        io::Write::write_all(&mut file, b" more").unwrap();
        assert_eq!(std::fs::read_to_string(from.join("a.md")).unwrap(), "one");
        assert_eq!(
            Takeover::default()
                .copy(&home.path().join("none"), &to, &real_time)
                .unwrap(),
            None
        );
    }

    #[test]
    fn takeover_reports_escaping_links_and_sockets_as_missing() {
        let home = folder(&[("a/one.md", "one"), ("b.md", "two")]);
        let from = home.path().join("old");
        let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, from.join(at)).unwrap();
        link("../b.md", "a/in");
        link("../../secret", "a/out");
        link("/etc/passwd", "absolute");
        let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
        let to = home.path().join("new");
        let taken = Takeover::default().copy(&from, &to, &real_time).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(to.join("a/in")).unwrap(), "two");
        let missing = taken.missing.in_words();
        assert_eq!(
            missing,
            "run:absolute (it is a link that leads out of the folder), run:socket (it is not a regular file), \
             run:a/out (it is a link that leads out of the folder)"
        );
        assert_eq!(taken.files, 2);
    }

    #[test]
    fn takeover_reports_files_modified_after_the_fork_moment_whatever_the_clock_says() {
        let home = folder(&[("before", "1"), ("after", "2")]);
        let from = home.path().join("old");
        let hour = Duration::from_secs(3_600);
        let ago = |seconds| real_time() - Duration::from_secs(seconds);
        for (name, seconds) in [("before", 1_010), ("after", 990)] {
            let file = File::options().write(true).open(from.join(name)).unwrap();
            file.set_modified(ago(seconds)).unwrap();
        }
        // The clock is right, an hour behind, or an hour ahead.
        let clocks: [&dyn Fn() -> SystemTime; 3] = [&real_time, &|| real_time() - hour, &|| real_time() + hour];
        for clock in clocks {
            let takeover = Takeover {
                moment: Some(clock() - Duration::from_secs(1_000)),
                ..Takeover::default()
            };
            let to = tempfile::tempdir().unwrap();
            let taken = takeover.copy(&from, &to.path().join("new"), clock).unwrap().unwrap();
            assert_eq!(taken.changed.in_words(), "run:after");
            let modified = |path: &Path| std::fs::metadata(path.join("before")).unwrap().modified().unwrap();
            assert_eq!(modified(&to.path().join("new")), modified(&from));
        }
    }

    #[test]
    fn takeover_reports_files_that_later_calls_said_to_write_whatever_their_times_say() {
        let home = folder(&[("a/one", "1"), ("two", "2")]);
        let takeover = Takeover {
            rewritten: [PathBuf::from("a")].into(),
            ..Takeover::default()
        };
        let (from, to) = (home.path().join("old"), home.path().join("new"));
        let taken = takeover.copy(&from, &to, &real_time).unwrap().unwrap();
        assert_eq!(taken.changed.in_words(), "run:a/one");
    }
}
