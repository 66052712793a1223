//! `folio evict`: stores a large result and prints a preview of it.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use folio::memory::evict::ResultOf;
use folio::store::WorkspaceError;
use folio::store::workspace::Eviction;
use folio_server::wire::EvictedShape;

use super::Context;
use super::context::ModelArgument;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};

/// `folio evict`.
#[derive(Debug, Args)]
pub(crate) struct Evict {
    /// File with the result; - reads it from standard input, at any length
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Maximum tokens of the result; a longer one is stored and a preview of at most this size printed
    #[arg(long, value_name = "TOKENS", default_value_t = folio::memory::evict::LIMIT_TOKENS)]
    limit: u32,
    /// Tool that returned the result
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    tool: String,
    /// Where the result comes from; results that can be read again there are never stored
    #[arg(long, value_enum, default_value_t = Of::Tool)]
    of: Of,
    #[command(flatten)]
    model: ModelArgument,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Of {
    Tool,
    File,
    Memory,
}

impl From<Of> for ResultOf {
    fn from(of: Of) -> Self {
        match of {
            Of::Tool => Self::Tool,
            Of::File => Self::File,
            Of::Memory => Self::Memory,
        }
    }
}

impl Report for EvictedShape {
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        out.write_str(&self.preview)?;
        let is_notice = self.reference.is_some() && !self.preview.is_empty();
        if is_notice && !self.preview.ends_with('\n') {
            out.push('\n');
        }
        Ok(())
    }

    /// A result that is small enough is printed unchanged.
    fn is_source(&self) -> bool {
        true
    }
}

/// Opens a file, or standard input, for reading.
pub(super) fn source(file: &Path) -> Result<Box<dyn Read + Send>, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(std::io::stdin()));
    }
    let opened = File::open(file).map_err(|error| Failure::file("read", file, &error))?;
    Ok(Box::new(opened))
}

/// Carries out `folio evict`.
pub(crate) async fn run(context: &Context<'_>, evict: Evict) -> Result<Exit, Failure> {
    let source = source(&evict.file)?;
    let workspace = context.workspace().await?;
    let options = Eviction {
        tool: evict.tool,
        of: evict.of.into(),
        limit_tokens: evict.limit,
        tokens: Arc::new(evict.model.counter(context)),
    };
    let evicted = workspace
        .evict(&context.actor(), source, options)
        .await
        .map_err(|error| match error {
            WorkspaceError::Input(error) => Failure::file("read", &evict.file, &error),
            error => error.into(),
        })?;
    context.output.warnings(&evicted.warnings);
    if let Some(kept) = &evicted.kept {
        let again = context.settings.repeated();
        context
            .output
            .note(format_args!("stored; read it with `folio blob {}{again}`", kept.handle));
    }
    context.output.report(&EvictedShape::of(evicted))?;
    Ok(Exit::Done)
}
