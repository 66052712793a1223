//! A space as a folder of markdown: written line by line, and read in the order in which it was written.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use folio::Timestamp;
use folio::memory::Invalid;
use folio::memory::transfer::Line;
use folio::memory::transfer::markdown::{self, PAGES, PageOfFile, Places, ROOT, Writer};
use folio::store::private;

use super::input::opened_if_file;
use crate::error::{Exit, Failure};

/// The longest line of a file, in bytes: longer than any text of an entry.
const LINE_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// Takes the lines of a space, and writes each to the file where it belongs.
#[derive(Debug)]
pub(super) struct MarkdownFolder {
    root: PathBuf,
    writer: Writer,
    /// A line that is not complete yet.
    rest: Vec<u8>,
    /// The file that was written to last.
    open: Option<(String, BufWriter<File>)>,
    files: BTreeSet<String>,
}

impl MarkdownFolder {
    /// Writes to `partial` what will become `folder`, which must not exist, or be empty.
    ///
    /// # Errors
    ///
    /// `folder_unusable` if something is in it; an I/O error if the folder cannot be created.
    pub(super) fn new(folder: &Path, partial: &Path) -> Result<Self, Failure> {
        let is_free = match std::fs::read_dir(folder) {
            Ok(mut inside) => inside.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(Failure::file("write", folder, &error)),
        };
        if !is_free {
            let message = format!("the folder {} is not empty", folder.display());
            let failure = Failure::new(Exit::Refused, "folder_unusable", message);
            return Err(failure.hint("name a folder that does not exist yet"));
        }
        let removed = match std::fs::remove_dir_all(partial) {
            // Left behind by an interrupted export.
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        removed
            .and_then(|()| private::make_folders(&partial.join(PAGES)))
            .map_err(|error| Failure::file("write", partial, &error))?;
        Ok(Self {
            root: partial.to_owned(),
            writer: Writer::default(),
            rest: Vec::new(),
            open: None,
            files: BTreeSet::new(),
        })
    }

    /// Renames the folder to its final name, and returns the files in it.
    pub(super) fn finish(mut self, folder: &Path) -> io::Result<BTreeSet<String>> {
        self.close()?;
        for file in &self.files {
            File::open(self.root.join(file))?.sync_all()?;
        }
        // An empty folder may exist there.
        match std::fs::remove_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::fs::rename(&self.root, folder)?;
        Ok(self.files)
    }

    fn close(&mut self) -> io::Result<()> {
        self.open.take().map_or(Ok(()), |(_, mut file)| file.flush())
    }

    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let text = std::str::from_utf8(line).map_err(io::Error::other)?;
        let line = Line::parse(text).map_err(io::Error::other)?;
        let (name, section) = self.writer.section(&line).map_err(io::Error::other)?;
        if self.open.as_ref().is_none_or(|(open, _)| *open != name) {
            self.close()?;
            let file = private::options()
                .create(true)
                .append(true)
                .open(self.root.join(&name))?;
            self.files.insert(name.clone());
            self.open = Some((name, BufWriter::new(file)));
        }
        match &mut self.open {
            Some((_, file)) => file.write_all(section.as_bytes()),
            None => Ok(()),
        }
    }
}

impl Write for MarkdownFolder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let rest = self.rest.split_off(end + 1);
            let line = std::mem::replace(&mut self.rest, rest);
            self.line(&line[..end])?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open.as_mut().map_or(Ok(()), |(_, file)| file.flush())
    }
}

/// One section: its position in the order, its file, and its first and last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Section {
    n: u64,
    file: usize,
    from: u64,
    to: u64,
}

/// The lines of a folder, one after the other. Remembers where they are, and holds one at a time.
#[derive(Debug)]
pub(super) struct MarkdownLines {
    files: Vec<PathBuf>,
    /// The page of each file, for what was added to it by hand.
    pages: Vec<Option<PageOfFile>>,
    now: Timestamp,
    /// The number of new entries that were read: the last line does not count them.
    added: u64,
    sections: std::vec::IntoIter<Section>,
    open: Option<(usize, File)>,
    /// The unread rest of the line that was read last.
    line: io::Cursor<Vec<u8>>,
}

impl MarkdownLines {
    /// Opens the lines of `folder`. What somebody added there is dated `now`.
    pub(super) fn of(folder: &Path, now: Timestamp) -> Result<Self, Failure> {
        let pages = folder.join(PAGES);
        let unreadable = |error: io::Error| Failure::file("read", &pages, &error);
        let mut files = vec![folder.join(ROOT)];
        for entry in std::fs::read_dir(&pages).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                files.push(path);
            }
        }
        // The root stays first.
        files[1..].sort();
        let (mut sections, mut pages) = (Vec::new(), Vec::new());
        for (file, path) in files.iter().enumerate() {
            let places = places_in(path)?;
            pages.push(places.page());
            let (has_text_before, bytes) = (places.has_text_before(), places.bytes());
            let places = places.all();
            if has_text_before {
                // Somebody wrote this by hand. It is refused, with its place.
                sections.push(Section {
                    n: u64::MAX - 1,
                    file,
                    from: 0,
                    to: places.first().map_or(bytes, |place| place.from) as u64,
                });
            }
            sections.extend(places.into_iter().map(|place| Section {
                n: place.n.unwrap_or(u64::MAX - 1),
                file,
                from: place.from as u64,
                to: place.to as u64,
            }));
        }
        // What was added by hand is read before the last line.
        let is_end = |section: &Section| section.file == 0 && section.n != u64::MAX - 1;
        if let Some(last) = sections.iter_mut().filter(|section| is_end(section)).max() {
            last.n = u64::MAX;
        }
        sections.sort_unstable();
        Ok(Self {
            files,
            pages,
            now,
            added: 0,
            sections: sections.into_iter(),
            open: None,
            line: io::Cursor::default(),
        })
    }

    /// How many lines are left.
    pub(super) fn len(&self) -> u64 {
        self.sections.len() as u64
    }

    fn text(&mut self, section: Section) -> io::Result<String> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != section.file) {
            self.open = Some((section.file, opened_if_file(&self.files[section.file])?));
        }
        let mut text = String::new();
        if let Some((_, file)) = &mut self.open {
            file.seek(SeekFrom::Start(section.from))?;
            file.take(section.to - section.from).read_to_string(&mut text)?;
        }
        Ok(text)
    }
}

/// Finds the sections of the file at `path`. The file is read line by line: a page may be larger than a program should
/// hold in memory.
fn places_in(path: &Path) -> Result<Places, Failure> {
    let unreadable = |error: io::Error| Failure::file("read", path, &error);
    let mut file = BufReader::new(opened_if_file(path).map_err(unreadable)?);
    let (mut places, mut line) = (Places::default(), Vec::new());
    loop {
        line.clear();
        let read_result = (&mut file).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read_result.map_err(unreadable)? == 0 {
            return Ok(places);
        }
        if line.len() as u64 == LINE_BYTES_MAX {
            let message = format!("{} has a line of more than {LINE_BYTES_MAX} bytes", path.display());
            return Err(Failure::usage("input_too_large", message));
        }
        let text = std::str::from_utf8(&line)
            .map_err(|_| Failure::usage("input_not_text", format!("{} is not valid UTF-8", path.display())))?;
        places.line(text);
    }
}

impl MarkdownLines {
    /// The line that a section stands for.
    fn line_of(&mut self, section: Section, text: &str) -> Result<Line, Invalid> {
        if let Some(line) = markdown::added(text, self.pages[section.file].as_ref(), self.now) {
            self.added += u64::from(line.is_ok());
            return line;
        }
        let mut line = markdown::line(text)?;
        if let Line::End { entries, .. } = &mut line {
            *entries += self.added;
        }
        Ok(line)
    }

    /// A line that stands for something that is not one: it is refused like a wrong line, with the reason and the
    /// place.
    fn refused(&self, section: Section, invalid: &Invalid) -> String {
        let file = self.files[section.file].display();
        serde_json::Value::from(format!("{file}: {}", invalid.message)).to_string()
    }
}

impl Read for MarkdownLines {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let byte_count = self.line.read(into)?;
            if byte_count > 0 || into.is_empty() {
                return Ok(byte_count);
            }
            let Some(section) = self.sections.next() else {
                return Ok(0);
            };
            let text = self.text(section)?;
            let mut line = match self.line_of(section, &text) {
                Ok(line) => match markdown::written_below(&text) {
                    None => line.to_json(),
                    Some(invalid) => format!("{}\n{}", line.to_json(), self.refused(section, &invalid)),
                },
                Err(invalid) => self.refused(section, &invalid),
            };
            line.push('\n');
            self.line = io::Cursor::new(line.into_bytes());
        }
    }
}
