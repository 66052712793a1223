//! `grep`: lines of files that match a pattern.

mod patterns;
mod search;

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;

use self::patterns::{NamedPattern, Patterns};
use self::search::{DisplayOptions, Search};
use super::Texts;
use crate::arguments::parse;
use crate::blocking::blocking;
use crate::context::ToolContext;
use crate::globs::Globs;
use crate::patterns::pattern_error;
use crate::response::{EvidenceRef, ToolError, ToolResponse};
use crate::tool::{ArgKind, CallArgs, Effect, Mistake, Tool, ToolRequest, ToolSpec};
use crate::walk::WalkOptions;

/// The largest number of lines of context around a match.
const CONTEXT_MAX: u64 = 20;

/// Finds lines that match patterns.
#[derive(Debug)]
pub(super) struct Grep {
    spec: ToolSpec,
}

impl Default for Grep {
    fn default() -> Self {
        Self {
            spec: ToolSpec::new(
                "grep",
                Effect::Read,
                "Finds lines of text files that match a regular expression, in the order of paths and lines.",
            )
            .returns(
                "Returns `matches` [{path, line, column, text, name?}], `count` of all matching lines, `files` with at \
                 least one and `truncated` (`matches` holds only the first `max`). A line counts once per pattern. \
                 Binary files and those over the size limit are skipped and counted.",
            )
            .gives(&[("matches", "array"), ("count", "integer"), ("truncated", "boolean")])
            .optional("pattern", ArgKind::Text, "No look-around, no back-references.")
            .optional("patterns", ArgKind::List, "Several: [{name, pattern}].")
            .one_of(&["pattern", "patterns"])
            .optional("path", ArgKind::Text, "A file or folder; default: the granted one.")
            .optional("paths", ArgKind::Words, "Several, instead of `path`.")
            .optional(
                "glob",
                ArgKind::Texts,
                "Files: `*.rs`, `src/**`, `!*.lock`, `!node_modules`.",
            )
            .optional("max", ArgKind::Count, "How many matches; 0 only counts.")
            .optional("ignore_case", ArgKind::Flag, "Whether case is ignored.")
            .optional("fixed", ArgKind::Flag, "Plain text.")
            .optional(
                "context",
                ArgKind::UpTo(CONTEXT_MAX),
                "Lines before and after, up to 20.",
            )
            .optional("hidden", ArgKind::Flag, "Also names that begin with a dot.")
            .optional("respect_gitignore", ArgKind::Flag, "Default: true.")
            .optional(
                "redact",
                ArgKind::Flag,
                "Show `[name]` instead of the match: for secrets.",
            ),
        }
    }
}

#[derive(Deserialize)]
struct Args {
    pattern: Option<String>,
    patterns: Option<Vec<NamedPattern>>,
    path: Option<String>,
    paths: Option<Vec<String>>,
    glob: Option<Texts>,
    max: Option<usize>,
    ignore_case: Option<bool>,
    fixed: Option<bool>,
    context: Option<usize>,
    hidden: Option<bool>,
    respect_gitignore: Option<bool>,
    redact: Option<bool>,
}

#[async_trait]
impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn mistakes(&self, args: CallArgs<'_>) -> Vec<Mistake> {
        let mut found = Vec::new();
        if args.gives_several(&["path", "paths"]) {
            found.push(Mistake::of("paths", "give `path` or `paths`, not both"));
        }
        let globs = Globs::mistakes(args.texts("glob"));
        found.extend(globs.into_iter().map(|why| Mistake::of("glob", why)));
        let mut patterns: Vec<(&str, String)> = Vec::new();
        patterns.extend(args.text("pattern").map(|text| ("pattern", text.to_owned())));
        if let Some(Value::Array(items)) = args.literal("patterns") {
            if items.is_empty() {
                found.push(Mistake::of("patterns", "`patterns` is empty"));
            }
            for (at, item) in items.iter().enumerate() {
                match NamedPattern::deserialize(item) {
                    Ok(named_pattern) => patterns.push(("patterns", named_pattern.pattern)),
                    Err(error) => {
                        let reason = format!("`patterns`: item {}: {error}", at + 1);
                        found.push(Mistake::of("patterns", reason));
                    }
                }
            }
        }
        let is_fixed = args.has("fixed") && args.literal("fixed") != Some(&Value::Bool(false));
        if !is_fixed {
            let to_mistake = |(argument, text): (&str, String)| Some(Mistake::of(argument, pattern_error(&text)?));
            found.extend(patterns.into_iter().filter_map(to_mistake));
        }
        found
    }

    async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse {
        match grep(request, context).await {
            Ok((outputs, notes, evidence)) => ToolResponse {
                evidence,
                ..ToolResponse::ok(request, outputs, notes)
            },
            Err(error) => ToolResponse::failed(request, error),
        }
    }
}

async fn grep(request: &ToolRequest, context: &ToolContext) -> Result<(Value, String, Vec<EvidenceRef>), ToolError> {
    let args: Args = parse(request)?;
    let redact = args.redact.unwrap_or(false);
    let context_lines = args.context.unwrap_or(0);
    if redact && context_lines > 0 {
        return Err(ToolError::invalid(
            "grep: `redact` cannot be combined with `context`: the lines around a secret may contain more of it",
        ));
    }
    let globs = Globs::new(&args.glob.unwrap_or_default().0)?;
    let paths = match (args.path, args.paths) {
        (Some(_), Some(_)) => {
            return Err(ToolError::invalid("grep: give `path` or `paths`, not both"));
        }
        (Some(path), None) => vec![path],
        (None, Some(paths)) => paths,
        (None, None) => vec![String::new()],
    };
    let starts = paths
        .iter()
        .map(|path| context.roots.find(path, &context.run_folder))
        .collect::<Result<Vec<_>, _>>()?;
    let limits = Arc::clone(&context.limits);
    let (roots, run_folder) = (context.roots.clone(), context.run_folder.clone());
    let max = args.max.unwrap_or(limits.matches).min(limits.matches_max);
    let shows = DisplayOptions {
        max,
        context_lines,
        redact,
    };
    let (hidden, respect_gitignore) = (args.hidden.unwrap_or(false), args.respect_gitignore.unwrap_or(true));
    let (fixed, ignore_case) = (args.fixed.unwrap_or(false), args.ignore_case.unwrap_or(false));
    blocking(&context.cancel, move |cancel| {
        // Some short patterns take long to read.
        let patterns = Patterns::new(args.pattern, args.patterns, fixed, ignore_case, cancel)?;
        let options = WalkOptions {
            globs: &globs,
            hidden,
            respect_gitignore,
        };
        let mut search = Search::new(patterns, shows, &limits, cancel);
        for (start, path) in starts.iter().zip(&paths) {
            let searched = search.search_below(start, options);
            searched.map_err(|error| roots.with_run_folder_hint(error, path, &run_folder))?;
        }
        Ok(search.finish())
    })
    .await
}
