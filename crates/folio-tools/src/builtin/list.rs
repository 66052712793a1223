//! `list`: the files below a folder, with sizes, languages and sub-folders.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use async_trait::async_trait;
use folio_memory::counted::counted;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Texts;
use crate::arguments::parse;
use crate::blocking::blocking;
use crate::context::{ToolContext, ToolLimits};
use crate::globs::Globs;
use crate::language::language;
use crate::paths::shown;
use crate::response::{ToolError, ToolResponse};
use crate::roots::{Located, open_regular};
use crate::tool::{ArgKind, CallArgs, Effect, Mistake, Tool, ToolRequest, ToolSpec};
use crate::walk::{Found, FoundKind, WalkGaps, WalkOptions, walk};

/// The largest number of rows in each summary.
const ROWS_MAX: usize = 200;
/// How many links are named; the rest are only counted.
const LINKS_MAX: usize = 1_000;

/// Lists files.
#[derive(Debug)]
pub(super) struct List {
    spec: ToolSpec,
}

impl Default for List {
    fn default() -> Self {
        Self {
            spec: ToolSpec::new(
                "list",
                Effect::Read,
                "Lists the files below a folder with sizes and languages, in the order of their paths, and sums them up.",
            )
            .returns(
                "Returns `files` [{path, bytes, extension, language, lines?}], `count` and `total_bytes` of all that \
                 match, and three summaries with the largest first: `languages`, `by_extension` and `folders` (the \
                 folders directly below). Links are named in `links` and not followed. `truncated` says that `files` \
                 holds only the first `max`.",
            )
            .gives(&[
                ("files", "array"),
                ("count", "integer"),
                ("total_bytes", "integer"),
                ("languages", "array"),
                ("by_extension", "array"),
                ("folders", "array"),
                ("links", "array"),
                ("truncated", "boolean"),
            ])
            .optional("path", ArgKind::Text, "Default: the granted folder.")
            .optional(
                "glob",
                ArgKind::Texts,
                "Files: `*.rs`, `src/**`, `!*.lock`, `!node_modules`.",
            )
            .optional(
                "max",
                ArgKind::Count,
                "How many files; 0: only the sums.",
            )
            .optional("hidden", ArgKind::Flag, "Also names that begin with a dot.")
            .optional(
                "respect_gitignore",
                ArgKind::Flag,
                "Default: true.",
            )
            .optional(
                "details",
                ArgKind::Flag,
                "Also count lines: reads every file.",
            ),
        }
    }
}

#[derive(Deserialize)]
struct Args {
    path: Option<String>,
    glob: Option<Texts>,
    max: Option<usize>,
    hidden: Option<bool>,
    respect_gitignore: Option<bool>,
    details: Option<bool>,
}

#[async_trait]
impl Tool for List {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn mistakes(&self, args: CallArgs<'_>) -> Vec<Mistake> {
        let globs = Globs::mistakes(args.texts("glob"));
        globs.into_iter().map(|why| Mistake::of("glob", why)).collect()
    }

    async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse {
        match list(request, context).await {
            Ok((outputs, notes)) => ToolResponse::ok(request, outputs, notes),
            Err(error) => ToolResponse::failed(request, error),
        }
    }
}

async fn list(request: &ToolRequest, context: &ToolContext) -> Result<(Value, String), ToolError> {
    let args: Args = parse(request)?;
    let globs = Globs::new(&args.glob.unwrap_or_default().0)?;
    let path = args.path.unwrap_or_default();
    let start = context.roots.find(&path, &context.run_folder)?;
    let (roots, run_folder) = (context.roots.clone(), context.run_folder.clone());
    let (hidden, respect_gitignore) = (args.hidden.unwrap_or(false), args.respect_gitignore.unwrap_or(true));
    let limits = context.limits.clone();
    let max = args.max.unwrap_or(limits.list_max).min(limits.list_max);
    let details = args.details.unwrap_or(false);
    blocking(&context.cancel, move |cancel| {
        let mut listing = Listing::new(max, details);
        let options = WalkOptions {
            globs: &globs,
            hidden,
            respect_gitignore,
        };
        let gaps = walk(&start, options, &limits, cancel, &mut |found| {
            listing.add(&start, found, &limits, cancel)
        })
        .map_err(|error| roots.with_run_folder_hint(error, &path, &run_folder))?;
        Ok(listing.finish(&gaps))
    })
    .await
}

#[derive(Serialize)]
struct File {
    path: String,
    bytes: u64,
    extension: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<u64>,
}

#[derive(Serialize)]
struct Link {
    path: String,
    to: String,
}

#[derive(Default, Clone, Copy)]
struct Totals {
    files: u64,
    bytes: u64,
    lines: u64,
}

impl Totals {
    fn add(&mut self, bytes: u64, lines: Option<u64>) {
        self.files += 1;
        self.bytes += bytes;
        self.lines += lines.unwrap_or(0);
    }
}

struct Listing {
    max: usize,
    details: bool,
    files: Vec<File>,
    links: Vec<Link>,
    links_count: u64,
    totals: Totals,
    by_extension: BTreeMap<String, (Totals, Option<&'static str>)>,
    languages: BTreeMap<&'static str, Totals>,
    folders: BTreeMap<String, Totals>,
}

impl Listing {
    fn new(max: usize, details: bool) -> Self {
        Self {
            max,
            details,
            files: Vec::new(),
            links: Vec::new(),
            links_count: 0,
            totals: Totals::default(),
            by_extension: BTreeMap::new(),
            languages: BTreeMap::new(),
            folders: BTreeMap::new(),
        }
    }

    fn add(
        &mut self,
        start: &Located,
        found: &Found<'_>,
        limits: &ToolLimits,
        cancel: &CancellationToken,
    ) -> Result<(), ToolError> {
        let FoundKind::File { bytes } = found.kind else {
            if found.kind == FoundKind::Link {
                self.add_link(start, found);
            }
            return Ok(());
        };
        let lines = if self.details {
            count_lines(found, limits.scan_bytes, cancel)?
        } else {
            None
        };
        let extension = found
            .below
            .extension()
            .map(|extension| shown(extension.as_bytes()).to_lowercase())
            .unwrap_or_default();
        let name = found.below.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let language = language(name, &extension);

        self.totals.add(bytes, lines);
        let (totals, _) = self
            .by_extension
            .entry(extension.clone())
            .or_insert_with(|| (Totals::default(), crate::language::language("", &extension)));
        totals.add(bytes, lines);
        if let Some(language) = language {
            self.languages.entry(language).or_default().add(bytes, lines);
        }
        let mut names = found.below.components();
        if let (Some(Component::Normal(first)), Some(_)) = (names.next(), names.next()) {
            let folder = found
                .path
                .ancestors()
                .nth(found.below.components().count() - 1)
                .unwrap_or(Path::new(first));
            self.folders
                .entry(start.display_path_of(folder.as_os_str().as_bytes()))
                .or_default()
                .add(bytes, lines);
        }
        if self.files.len() < self.max {
            self.files.push(File {
                path: start.display_path_of(found.path.as_os_str().as_bytes()),
                bytes,
                extension,
                language,
                lines,
            });
        }
        Ok(())
    }

    fn add_link(&mut self, start: &Located, found: &Found<'_>) {
        self.links_count += 1;
        if self.links.len() < LINKS_MAX.min(self.max)
            && let Ok(to) = found.dir.read_link_contents(found.name)
        {
            self.links.push(Link {
                path: start.display_path_of(found.path.as_os_str().as_bytes()),
                to: shown(to.as_os_str().as_bytes()),
            });
        }
    }

    fn finish(self, gaps: &WalkGaps) -> (Value, String) {
        let details = self.details;
        let by_extension = rows(&self.by_extension, details, |extension, (totals, language)| {
            (
                *totals,
                match language {
                    Some(language) => json!({"extension": extension, "language": language}),
                    None => json!({"extension": extension}),
                },
            )
        });
        let languages = rows(&self.languages, details, |language, totals| {
            (*totals, json!({"language": language}))
        });
        let folders = rows(&self.folders, details, |folder, totals| {
            (*totals, json!({"path": folder}))
        });
        let truncated = self.totals.files > self.files.len() as u64;
        let mut notes = format!(
            "{}, {}",
            counted(self.totals.files, "file"),
            counted(self.totals.bytes, "byte")
        );
        // A caller that wants only the summaries knows that no file is named.
        if truncated && self.max > 0 {
            notes = format!("{notes}; {} of them named", self.files.len());
        }
        if let Some(missing) = gaps.notes() {
            notes = format!("{notes}; {missing}");
        }
        let mut outputs = json!({
            "files": self.files,
            "count": self.totals.files,
            "total_bytes": self.totals.bytes,
            "languages": languages,
            "by_extension": by_extension,
            "folders": folders,
            "links": self.links,
            "links_count": self.links_count,
            "unreadable": gaps.unreadable,
            "truncated": truncated || gaps.too_many || gaps.too_deep > 0,
        });
        if details {
            outputs["total_lines"] = json!(self.totals.lines);
        }
        (outputs, notes)
    }
}

/// The largest rows of a summary, by bytes, and by name where these are equal.
fn rows<K, V>(table: &BTreeMap<K, V>, details: bool, row: impl Fn(&K, &V) -> (Totals, Value)) -> Vec<Value> {
    let mut rows: Vec<(Totals, Value)> = table.iter().map(|(key, value)| row(key, value)).collect();
    rows.sort_by_key(|(totals, _)| std::cmp::Reverse(totals.bytes));
    rows.truncate(ROWS_MAX);
    rows.into_iter()
        .map(|(totals, mut row)| {
            row["files"] = json!(totals.files);
            row["bytes"] = json!(totals.bytes);
            if details {
                row["lines"] = json!(totals.lines);
            }
            row
        })
        .collect()
}

/// The number of lines of a text file; `None` for a file that is binary, too large or unreadable.
fn count_lines(found: &Found<'_>, bytes_max: u64, cancel: &CancellationToken) -> Result<Option<u64>, ToolError> {
    let Ok(Some((mut file, metadata))) = open_regular(found.dir, found.name) else {
        return Ok(None);
    };
    if metadata.len() > bytes_max {
        return Ok(None);
    }
    let mut buffer = vec![0; 64 * 1024];
    let mut lines = 0;
    let mut last = b'\n';
    loop {
        if cancel.is_cancelled() {
            return Err(ToolError::cancelled());
        }
        let Ok(read) = file.read(&mut buffer) else {
            return Ok(None);
        };
        let Some(end) = buffer[..read].last() else {
            break;
        };
        last = *end;
        if buffer[..read].contains(&0) {
            return Ok(None);
        }
        lines += super::newlines(&buffer[..read]);
    }
    Ok(Some(lines + u64::from(last != b'\n')))
}
