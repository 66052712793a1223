//! `folio doctor`: checks the store for damage, and whether the configured MCP servers answer.

use std::fmt::{self, Write as _};

use clap::Args;
use folio::runner::{check_journals, left_folders};
use serde::Serialize;

use super::Context;
use crate::counting::{untold, while_working};
use crate::error::{Exit, Failure};
use crate::noticed::note_clocks_behind;
use crate::output::{Report, Style};
use crate::servers::{self, LookedAt};
use crate::settings::Unseen;

/// `folio doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {}

/// What was found.
#[derive(Debug, Serialize)]
struct Findings {
    store: String,
    healthy: bool,
    checked: Vec<String>,
    problems: Vec<String>,
    /// The MCP servers of the settings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<LookedAt>,
    /// The settings file that was ignored, since nobody has looked at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    untrusted: Option<Unseen>,
}

impl Report for Findings {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        writeln!(out, "{}", style.strong(&self.store))?;
        for line in &self.checked {
            writeln!(out, "  {} {line}", style.good("looked at"))?;
        }
        for line in &self.problems {
            writeln!(out, "  {} {line}", style.bad("problem"))?;
        }
        if let Some(mistake) = self.untrusted.as_ref().and_then(Unseen::mistake) {
            writeln!(out, "  {} {mistake}", style.warning("settings"))?;
        }
        self.servers.iter().try_for_each(|server| server.text(out, style))?;
        if self.healthy {
            writeln!(out, "  no problems found")?;
        }
        Ok(())
    }
}

/// Carries out `folio doctor`.
pub(crate) async fn run(context: &Context<'_>, _: Doctor) -> Result<Exit, Failure> {
    // A store that was just created has no damage, so none is created.
    let folio = match context.existing().await {
        Err(failure) if failure.exit() == Exit::NotFound => return without_store(context, failure).await,
        folio => folio?,
    };
    let mut found = while_working(context.output, "checking the store", untold, folio.store().check()).await?;
    let journals = check_journals(folio.store(), &mut found);
    match while_working(context.output, "checking the journals", untold, journals).await {
        // A store that is known to be damaged need not be read to the end.
        Err(error) if found.problems.is_empty() => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    let servers = servers::look_at(&context.settings).await;
    let exit = match found.problems.is_empty() {
        false => Exit::Damaged,
        // Every other command refuses to go by them.
        true if has_mistake(context) => Exit::Usage,
        true if !servers.iter().all(LookedAt::is_reached) => Exit::Unavailable,
        true => Exit::Done,
    };
    let is_damaged = exit == Exit::Damaged;
    let spaces = folio.store().spaces().await.unwrap_or_default();
    let workspaces: Vec<_> = spaces.into_iter().map(|space| folio.workspace(space)).collect();
    let location = folio.store().location();
    let findings = Findings {
        store: location.clone(),
        healthy: exit == Exit::Done,
        checked: found.checked,
        problems: found.problems,
        servers,
        untrusted: context.settings.passed_over.clone(),
    };
    let final_exit = context.output.report_ending(&findings, exit)?;
    let left = match &context.settings.run_folders {
        Some(folders) if !is_damaged => left_folders(folders, &**folio.store(), None).await?,
        _ => Vec::new(),
    };
    for folder in &left {
        let folder = folder.path.display();
        context.output.advise(format_args!(
            "{folder} was left by a fork that never began; `folio tidy` removes it"
        ));
    }
    note_clocks_behind(&workspaces, context.output).await;
    if is_damaged {
        let copy = restore_hint(&location);
        context
            .output
            .advise(format_args!("`folio export` saves what is still readable; {copy}"));
    }
    Ok(final_exit)
}

/// Whether the settings of this folder cannot be read.
fn has_mistake(context: &Context<'_>) -> bool {
    let passed_over = context.settings.passed_over.as_ref();
    passed_over.is_some_and(|unseen| unseen.mistake().is_some())
}

/// Looks at what does not need the store, which is `missing`.
async fn without_store(context: &Context<'_>, missing: Failure) -> Result<Exit, Failure> {
    // Settings with a mistake may be why it is missing, and every other command refuses to go by them.
    let missing = match has_mistake(context) {
        true => missing.with_exit(Exit::Usage),
        false => missing,
    };
    let findings = Findings {
        store: context.settings.store_in_words().to_owned(),
        healthy: false,
        checked: Vec::new(),
        problems: vec![missing.message().to_owned()],
        servers: servers::look_at(&context.settings).await,
        untrusted: context.settings.passed_over.clone(),
    };
    context.output.report_ending(&findings, missing.exit())?;
    Err(missing)
}

/// How to replace the damaged store at `location` by a copy.
fn restore_hint(location: &str) -> &'static str {
    if ["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| location.starts_with(scheme))
    {
        "docs/postgres.md explains how to restore a copy of the database"
    } else {
        "`folio restore FILE --replace` restores a backup in its place"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_advice_suggests_restore_only_for_file_stores() {
        let of_a_database = restore_hint("postgres://db:5432/memory");
        assert!(of_a_database.contains("docs/postgres.md") && !of_a_database.contains("folio restore"));
        for file in ["/home/me/postgres.db", "postgres.db"] {
            assert!(restore_hint(file).contains("folio restore"));
        }
    }
}
