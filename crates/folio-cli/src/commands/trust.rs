//! `folio trust`: trusts a settings file of a folder, once its user has looked at it.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Context;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};

/// `folio trust`.
#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// File, or the folder that contains it [default: this folder]
    path: Option<PathBuf>,
    /// Stop trusting it
    #[arg(long)]
    remove: bool,
}

/// The new state of a file.
#[derive(Debug, Serialize)]
struct Trusted {
    file: String,
    trusted: bool,
    /// The harmful settings in it.
    sets: Map<String, Value>,
    #[serde(skip)]
    words: &'static str,
}

impl Report for Trusted {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        writeln!(out, "{} {}", style.strong(&self.file), self.words)?;
        self.sets
            .iter()
            .try_for_each(|(key, value)| writeln!(out, "  {key} = {value}"))
    }
}

/// Carries out `folio trust`.
pub(crate) fn run(context: &Context<'_>, trust: &Trust) -> Result<Exit, Failure> {
    context.only_people("say which settings are trusted")?;
    let file = context.settings.file_at(trust.path.as_deref())?;
    let (sets, message) = if trust.remove {
        match file.distrust()? {
            true => (Vec::new(), "is no longer trusted"),
            false => (Vec::new(), "was not trusted"),
        }
    } else {
        match file.trust()? {
            sets if sets.is_empty() => (sets, "is now trusted; it sets nothing that needs trust"),
            sets => (sets, "is now trusted; it sets"),
        }
    };
    context.output.report(&Trusted {
        file: file.path.display().to_string(),
        trusted: !trust.remove,
        sets: sets.into_iter().collect(),
        words: message,
    })?;
    Ok(Exit::Done)
}
