//! `folio token`: access tokens, which identify programs to `folio serve`.

use std::fmt;
use std::time::Duration;

use clap::{Args, Subcommand};
use folio::memory::roles::may_steer;
use folio::store::{AccessToken, KeptToken};
use folio::{Actor, Role, Timestamp};
use serde::Serialize;

use super::Context;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::report::list::{List, remark};
use crate::report::{instant, printable};

/// The longest lifetime of a token that expires, in seconds: a hundred years.
const LIFETIME_MAX: u64 = 36_500 * 86_400;

/// `folio token`.
#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Create a token for the space and print it
    ///
    /// Folio stores only a hash: this is the only time that the token is shown.
    New(New),
    /// List the tokens of the space, without their secrets
    List(ListTokens),
    /// Revoke a token
    Revoke(Revoke),
}

/// `folio token new`.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// Role of its holder: client for a model, human for a person, tool, planner, …
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Role,
    /// Name of its holder; for the role tool, the name of the tool
    #[arg(long, default_value = "", hide_default_value = true)]
    name: String,
    /// Lifetime, such as 12h or 30d [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    expires: Option<Duration>,
}

/// `folio token list`.
#[derive(Debug, Args)]
pub(crate) struct ListTokens {
    /// Include tokens that are revoked or expired
    #[arg(long)]
    all: bool,
}

/// `folio token revoke`.
#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// Id of the token, as `folio token list` prints it
    id: String,
}

fn role(text: &str) -> Result<Role, String> {
    Role::parse(text).ok_or_else(|| {
        let roles: Vec<_> = Role::ALL.into_iter().map(Role::as_str).collect();
        format!("not one of {}", roles.join(", "))
    })
}

/// Parses a lifetime such as `90m`, `12h` or `30d`.
fn lifetime(text: &str) -> Result<Duration, String> {
    let invalid = || "not of the form 90m, 12h or 30d".to_owned();
    let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];
    let mut candidates = units
        .into_iter()
        .filter_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, seconds) = candidates.next().ok_or_else(invalid)?;
    let number: u64 = number.parse().map_err(|_| invalid())?;
    let seconds = number
        .checked_mul(seconds)
        .filter(|seconds| *seconds > 0)
        .ok_or_else(invalid)?;
    if seconds > LIFETIME_MAX {
        return Err("longer than 36500d; leave it out for a token that lasts until it is revoked".to_owned());
    }
    Ok(Duration::from_secs(seconds))
}

/// A token for lists.
#[derive(Debug, Serialize)]
struct TokenShape {
    id: String,
    space: String,
    role: &'static str,
    name: String,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    /// Whether it is valid now.
    valid: bool,
}

impl TokenShape {
    fn of(kept: &KeptToken, now: Timestamp) -> Self {
        Self {
            id: kept.id.clone(),
            space: kept.space.to_string(),
            role: kept.role.as_str(),
            name: kept.name.clone(),
            created_at: kept.created_at,
            expires_at: kept.expires_at,
            revoked_at: kept.revoked_at,
            valid: kept.is_valid(now),
        }
    }
}

impl Report for TokenShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        use std::fmt::Write as _;
        let ends = match (self.revoked_at, self.expires_at) {
            (Some(at), _) => format!("revoked {}", instant(at)),
            (None, Some(at)) => format!("until {}", instant(at)),
            (None, None) => "until it is revoked".to_owned(),
        };
        let (id, name) = (style.strong(&self.id), printable(&self.name));
        writeln!(out, "{id} {} {name} {}", self.role, style.faint(ends))
    }
}

/// A token that was just created.
#[derive(Debug, Serialize)]
struct NewToken {
    /// The secret that its holder sends.
    token: String,
    #[serde(flatten)]
    kept: TokenShape,
}

impl Report for NewToken {
    /// The token and nothing else, so that it can be piped on.
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        use std::fmt::Write as _;
        writeln!(out, "{}", self.token)
    }
}

/// Carries out `folio token`.
pub(crate) async fn run(context: &Context<'_>, token: Token) -> Result<Exit, Failure> {
    context.only_people("see, make or revoke tokens")?;
    let workspace = match token {
        Token::New(_) => context.workspace_outside_turn().await?,
        _ => context.workspace_outside_turn_if_any().await?,
    };
    let (store, now) = (workspace.store(), workspace.now());
    match token {
        Token::New(new) => {
            let token = AccessToken::draw();
            let mut kept = token.kept(workspace.space().clone(), new.role, new.name, now, new.expires);
            store.keep_token(kept.clone()).await?;
            let reported = context.output.report(&NewToken {
                token: token.reveal().to_owned(),
                kept: TokenShape::of(&kept, now),
            });
            if let Err(unwritten) = reported {
                // Nobody was shown the token, so it is revoked.
                kept.revoked_at = Some(now);
                store.keep_token(kept).await?;
                return Err(unwritten.always_reported("the token was not shown, and is revoked"));
            }
            if may_steer(&Actor::new(kept.role, kept.name)).is_ok() {
                context.output.note(
                    "its holder can start runs, and with them read every file below the folder in which `folio serve` runs",
                );
            }
            let (id, again) = (kept.id, context.settings.repeated());
            context.output.note(format_args!(
                "this is the only time that it is shown; to revoke it: `folio token revoke {id}{again}`"
            ));
        }
        Token::List(list) => {
            let as_of = workspace.head().await?.0;
            let kept = store.tokens().await?;
            let own_tokens = kept.iter().filter(|kept| kept.space == *workspace.space());
            let shown = own_tokens.filter(|kept| list.all || kept.is_valid(now));
            let list = List::whole(shown.map(|kept| TokenShape::of(kept, now)).collect(), as_of);
            context.output.report(&list)?;
            if let Some(remark) = remark(
                &list,
                "there are no tokens for this space; create one with `folio token new`",
            ) {
                context.output.advise(remark);
            }
        }
        Token::Revoke(revoke) => {
            let found = store.tokens().await?.into_iter();
            let mut found = found.filter(|kept| kept.space == *workspace.space() && kept.id == revoke.id);
            let mut kept = found.next().ok_or_else(|| {
                let message = format!("there is no token {} for the space {}", revoke.id, workspace.space());
                Failure::new(Exit::NotFound, "not_found", message).hint("`folio token list` lists the tokens")
            })?;
            kept.revoked_at.get_or_insert(now);
            store.keep_token(kept.clone()).await?;
            context.output.report(&TokenShape::of(&kept, now))?;
        }
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_lifetime_is_a_number_with_a_unit() {
        assert_eq!(lifetime("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(lifetime("90m"), Ok(Duration::from_secs(5_400)));
        for wrong in ["", "d", "0d", "5", "-1h", "5y", "1ü", "30dd"] {
            let refused = lifetime(wrong);
            assert_eq!(refused, Err("not of the form 90m, 12h or 30d".to_owned()), "{wrong}");
        }
        let longest = Duration::from_secs(LIFETIME_MAX);
        assert_eq!(lifetime("36500d"), Ok(longest));
        let refused = lifetime("36501d").unwrap_err();
        assert!(refused.starts_with("longer than 36500d;"), "{refused}");
    }
}
