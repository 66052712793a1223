//! The commands and flags of git that may be used.
//!
//! This is an allowlist: git has many flags that write a file, run a program or read outside of the repository, and
//! gets new ones. Flags must be given in full.

mod table;

use std::path::{Component, Path};

use self::table::{COMMANDS, Command};
use crate::arguments::nearest;
use crate::response::{FailureKind, ToolError};

pub(super) fn commands() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.name)
}

/// Arguments that may be given to git, as far as can be decided without looking at the files.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) args: Vec<String>,
    /// The arguments that may name a file.
    pub(super) named: Vec<String>,
    /// How many of these, the first ones, may be revisions instead: the others follow `--`.
    pub(super) maybe_revisions: usize,
}

/// Returns the arguments to give to git, or what is wrong with those that were given.
pub(super) fn checked(command: &str, given_args: &[String]) -> Result<Checked, ToolError> {
    let Some(command) = COMMANDS.iter().find(|known| known.name == command) else {
        return Err(ToolError::invalid(format!("git: `{command}` is not allowed")));
    };
    let mut args: Vec<String> = command.always.iter().map(|arg| (*arg).to_owned()).collect();
    let mut named = Vec::new();
    let mut rest = given_args.iter();
    while let Some(arg) = rest.next() {
        if arg.contains('\0') {
            return Err(ToolError::invalid("git: an argument cannot contain a zero byte"));
        }
        if arg == "--" {
            add_default_revision(command, !named.is_empty(), &mut args);
            args.push(arg.clone());
            let maybe_revisions = named.len();
            for path in rest {
                check_path(command, path)?;
                args.push(path.clone());
                named.push(path.clone());
            }
            return Ok(Checked {
                args,
                named,
                maybe_revisions,
            });
        }
        if arg.starts_with('-') {
            args.push(flag(command, arg, &mut rest)?);
        } else {
            // Either a revision or a path. Git finds out which, so it must be harmless as both.
            check_path(command, arg)?;
            args.push(arg.clone());
            named.push(arg.clone());
        }
    }
    add_default_revision(command, !named.is_empty(), &mut args);
    Ok(Checked {
        args,
        maybe_revisions: named.len(),
        named,
    })
}

fn add_default_revision(command: &Command, names_something: bool, args: &mut Vec<String>) {
    if let Some(revision) = command.default_revision
        && !names_something
        && !args.iter().any(|arg| arg == "--all")
    {
        args.push(revision.to_owned());
    }
}

fn flag<'a>(command: &Command, arg: &str, rest: &mut impl Iterator<Item = &'a String>) -> Result<String, ToolError> {
    let is_flag = |name: &str| names(command.flags).any(|known| known == name);
    let takes_value = |name: &str| names(command.values).any(|known| known == name);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_flag(arg) || (command.number && is_number(&arg[1..])) {
        return Ok(arg.to_owned());
    }
    if let Some((name, value)) = arg.split_once('=')
        && name.starts_with("--")
        && takes_value(name)
    {
        check_value(command, name, value)?;
        return Ok(arg.to_owned());
    }
    let short = !arg.starts_with("--");
    if short
        && let Some((name, value)) = split_short(arg)
        && takes_value(name)
    {
        check_value(command, name, value)?;
        return Ok(arg.to_owned());
    }
    if takes_value(arg) {
        let Some(value) = rest.next() else {
            return Err(ToolError::invalid(format!(
                "git {}: `{arg}` needs a value",
                command.name
            )));
        };
        if value.is_empty() || value.contains('\0') {
            return Err(ToolError::invalid(format!(
                "git {}: the value of `{arg}` cannot be used",
                command.name
            )));
        }
        check_value(command, arg, value)?;
        // As one argument, so that git cannot take the value for a flag.
        return Ok(if short {
            format!("{arg}{value}")
        } else {
            format!("{arg}={value}")
        });
    }
    let name = arg.split('=').next().unwrap_or(arg);
    let known = names(command.flags).chain(names(command.values));
    let error = ToolError::new(
        FailureKind::Denied,
        "git_flag_not_allowed",
        format!("git {}: the flag `{name}` is not allowed", command.name),
    )
    .hint("only flags that change nothing are allowed, written in full");
    Err(match nearest(name, known) {
        Some(suggestion) if suggestion.len() > 2 => error.hint(format!("did you mean `{suggestion}`?")),
        _ => error,
    })
}

/// Splits lists of names into single names.
fn names(lists: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    lists.iter().flat_map(|list| list.split_whitespace())
}

/// Splits `-n5` into `-n` and `5`.
fn split_short(arg: &str) -> Option<(&str, &str)> {
    let (name, value) = arg.split_at_checked(2)?;
    (!value.is_empty()).then_some((name, value))
}

fn check_value(command: &Command, name: &str, value: &str) -> Result<(), ToolError> {
    // To check a signature, git runs another program.
    let checks_signature =
        ["--format", "--pretty"].contains(&name) && (value.contains("%G") || value.contains("%(signature"));
    if checks_signature {
        return Err(ToolError::new(
            FailureKind::Denied,
            "git_flag_not_allowed",
            format!("git {}: signatures are not checked", command.name),
        ));
    }
    // As with `--eol`, git reads the files, even through a symbolic link in place of a folder.
    if name == "--format" && value.contains("%(eolinfo:worktree") {
        return Err(ToolError::new(
            FailureKind::Denied,
            "git_flag_not_allowed",
            format!("git {}: `%(eolinfo:worktree)` is not allowed", command.name),
        ));
    }
    Ok(())
}

fn check_path(command: &Command, path: &str) -> Result<(), ToolError> {
    // With a path outside of the repository, `git diff` compares any two files of the machine.
    if escapes_folder(Path::new(path)) {
        return Err(ToolError::new(
            FailureKind::Denied,
            "path_outside_root",
            format!("git {}: `{path}` leads out of the repository", command.name),
        )
        .hint("name paths from the top of the repository"));
    }
    Ok(())
}

/// Whether a path is absolute or goes upwards anywhere.
pub(super) fn escapes_folder(path: &Path) -> bool {
    path.is_absolute() || path.components().any(|part| part == Component::ParentDir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(command: &str, args: &[&str]) -> Result<Vec<String>, ToolError> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        checked(command, &args).map(|checked| checked.args)
    }

    #[test]
    fn git_flags_that_write_execute_or_read_elsewhere_are_denied() {
        for (command, arg) in [
            ("log", "--output=/tmp/x"),
            ("log", "--outpu=/tmp/x"),
            ("log", "--ext-diff"),
            ("log", "--textconv"),
            ("log", "-O/etc/passwd"),
            ("log", "--show-signature"),
            ("log", "--stdin"),
            ("log", "-"),
            ("diff", "--no-index"),
            ("diff", "--output-indicator-new=x"),
            ("diff", "--submodule=diff"),
            ("show", "-c=core.pager=x"),
            ("show", "--exec=x"),
            ("cat-file", "--batch"),
            ("cat-file", "--textconv"),
            ("cat-file", "--filters"),
            ("ls-files", "--exclude-from=/etc/passwd"),
            ("ls-files", "-X/etc/passwd"),
            ("ls-files", "--recurse-submodules"),
            ("ls-files", "--eol"),
            ("ls-files", "--format=%(path) %(eolinfo:worktree)"),
            ("blame", "--contents=/etc/passwd"),
            ("blame", "--ignore-revs-file=/etc/passwd"),
            ("blame", "-S/etc/passwd"),
            ("describe", "--dirty"),
            ("branch", "-D"),
            ("branch", "-d"),
            ("branch", "--edit-description"),
            ("branch", "-m"),
            ("tag", "-d"),
            ("tag", "-v"),
            ("tag", "-a"),
            ("tag", "-F/etc/passwd"),
            ("status", "--recurse-submodules"),
            ("rev-parse", "--git-path=x"),
            ("rev-list", "--alternate-refs"),
            ("shortlog", "--output=x"),
        ] {
            let error = allowed(command, &[arg]).unwrap_err();
            assert_eq!(error.kind, FailureKind::Denied, "{command} {arg}");
        }
    }

    #[test]
    fn git_paths_outside_the_root_are_refused_around_double_dash() {
        for args in [
            &["/etc/passwd", "/etc/hosts"][..],
            &["--", "/etc/passwd", "/etc/hosts"],
            &["../x", "a"],
            &["--", "a/../../x", "b"],
        ] {
            assert_eq!(allowed("diff", args).unwrap_err().code, "path_outside_root");
        }
        assert!(allowed("diff", &["HEAD~2..HEAD", "--", "src"]).is_ok());
        assert!(allowed("diff", &["main...topic"]).is_ok());
    }

    #[test]
    fn git_flag_values_are_attached_and_cannot_act_as_flags() {
        assert_eq!(
            allowed("log", &["--author", "--output=x", "-n", "5", "-n7", "-3"]).unwrap()[3..],
            ["--author=--output=x", "-n5", "-n7", "-3"]
        );
        assert!(allowed("log", &["-n"]).is_err());
        assert!(allowed("log", &["-S", ""]).is_err());
    }

    #[test]
    fn git_signature_format_placeholders_are_refused() {
        assert!(allowed("log", &["--format=%H %G?"]).is_err());
        assert!(allowed("log", &["--pretty", "%G?"]).is_err());
    }

    #[test]
    fn git_branch_and_tag_always_get_the_list_flag() {
        assert_eq!(allowed("branch", &["new-one"]).unwrap(), ["--list", "new-one"]);
        assert_eq!(allowed("tag", &[]).unwrap(), ["--list"]);
    }

    #[test]
    fn git_shortlog_gets_head_when_no_revision_is_given() {
        assert_eq!(allowed("shortlog", &["-sn"]).unwrap(), ["-sn", "HEAD"]);
        assert_eq!(
            allowed("shortlog", &["-s", "--", "src"]).unwrap(),
            ["-s", "HEAD", "--", "src"]
        );
        assert_eq!(allowed("shortlog", &["-s", "main"]).unwrap(), ["-s", "main"]);
    }
}
