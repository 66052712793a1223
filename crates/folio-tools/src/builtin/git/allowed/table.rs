//! The table of allowed commands and flags.

/// A command of git that is allowed.
pub(super) struct Command {
    pub(super) name: &'static str,
    /// Arguments that are always given, before all others.
    pub(super) always: &'static [&'static str],
    /// Flags without a value, in lists separated by white space.
    pub(super) flags: &'static [&'static str],
    /// Flags with a value: `--name=value` or `--name value`, `-nvalue` or `-n value`.
    pub(super) values: &'static [&'static str],
    /// Whether `-5` is accepted as a number of commits.
    pub(super) number: bool,
    /// The revision to look at if none is named.
    pub(super) default_revision: Option<&'static str>,
}

impl Command {
    const NONE: Self = Self {
        name: "",
        always: &[],
        flags: &[],
        values: &[],
        number: false,
        default_revision: None,
    };
}

const DIFF_ALWAYS: &[&str] = &["--no-ext-diff", "--no-textconv", "--ignore-submodules=all"];

const DIFF_FLAGS: &str = "
    --stat --shortstat --numstat --dirstat --summary --compact-summary --name-only --name-status --raw
    --patch -p -u --no-patch -s --patch-with-stat --full-index --binary -a --text -R -z --abbrev --check
    --minimal --patience --histogram -w -b --ignore-all-space --ignore-space-change --ignore-blank-lines
    --word-diff --function-context -W --no-renames -M -C --find-renames --no-prefix";

const DIFF_VALUES: &str = "
    --unified -U --diff-filter --stat --abbrev --diff-algorithm -S -G --find-renames --inter-hunk-context";

const LOG_FLAGS: &str = "
    --oneline --graph --all --merges --no-merges --first-parent --reverse --follow --full-history
    --simplify-merges --ancestry-path --topo-order --date-order --author-date-order --decorate --no-decorate
    --abbrev-commit --no-abbrev-commit --branches --tags --remotes --left-right --cherry-pick --cherry-mark
    --boundary -i --regexp-ignore-case -E --extended-regexp -F --fixed-strings --all-match --invert-grep
    -m -c --cc --parents --children --pickaxe-regex --pickaxe-all";

const LOG_VALUES: &str = "
    -n --max-count --skip --since --after --until --before --author --committer --grep --format --pretty --date
    --decorate --branches --tags --remotes --min-parents --max-parents";

const LIST_VALUES: &str = "
    --format --sort --contains --no-contains --merged --no-merged --points-at";

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "log",
        always: DIFF_ALWAYS,
        flags: &[LOG_FLAGS, DIFF_FLAGS],
        values: &[LOG_VALUES, DIFF_VALUES, "-L"],
        number: true,
        ..Command::NONE
    },
    Command {
        name: "show",
        always: DIFF_ALWAYS,
        flags: &[LOG_FLAGS, DIFF_FLAGS],
        values: &[LOG_VALUES, DIFF_VALUES],
        number: true,
        ..Command::NONE
    },
    Command {
        name: "diff",
        always: DIFF_ALWAYS,
        flags: &[DIFF_FLAGS, "--cached --staged --merge-base"],
        values: &[DIFF_VALUES],
        ..Command::NONE
    },
    Command {
        name: "status",
        always: &["--ignore-submodules=all"],
        flags: &["--short -s --porcelain --branch -b -z --long --ignored --no-renames --untracked-files"],
        values: &["--porcelain --untracked-files --ignored"],
        ..Command::NONE
    },
    Command {
        name: "ls-files",
        // `--eol` reads files, even through a symbolic link in place of a folder.
        flags: &["
            -c --cached -d --deleted -m --modified -o --others -i --ignored -s --stage -u --unmerged -k --killed
            -z -t -v --exclude-standard --full-name --deduplicate --directory --error-unmatch"],
        values: &["--exclude -x --format"],
        ..Command::NONE
    },
    Command {
        name: "blame",
        // The setting of the same name may be given several times; only the flag resets all of them.
        always: &["--no-textconv", "--no-ignore-revs-file"],
        flags: &["
            -w -M -C -e --show-email -s -t -l -f --show-name -n --show-number --porcelain -p --line-porcelain
            --root --first-parent"],
        values: &["-L --since --date --abbrev"],
        ..Command::NONE
    },
    Command {
        name: "rev-parse",
        flags: &["
            --verify --short --abbrev-ref --symbolic-full-name --symbolic --quiet -q --is-shallow-repository
            --is-bare-repository --is-inside-work-tree --branches --tags --remotes --all"],
        values: &["--short --abbrev-ref"],
        ..Command::NONE
    },
    Command {
        name: "shortlog",
        flags: &["
            -s --summary -n --numbered -e --email -c --committer --merges --no-merges --all -sn -ns -sne"],
        values: &["--since --after --until --before --author --group --format"],
        // Without a revision, the command reads the log from its standard input.
        default_revision: Some("HEAD"),
        ..Command::NONE
    },
    Command {
        name: "cat-file",
        flags: &["-t -s -p -e"],
        ..Command::NONE
    },
    Command {
        name: "branch",
        always: &["--list"],
        flags: &["
            --list -l -a --all -r --remotes -v -vv --verbose --merged --no-merged -i --ignore-case"],
        values: &[LIST_VALUES],
        ..Command::NONE
    },
    Command {
        name: "tag",
        always: &["--list"],
        flags: &["--list -l -n --merged --no-merged -i --ignore-case"],
        values: &[LIST_VALUES],
        ..Command::NONE
    },
    Command {
        name: "rev-list",
        flags: &[LOG_FLAGS, "--count"],
        values: &[LOG_VALUES],
        number: true,
        ..Command::NONE
    },
    Command {
        name: "describe",
        flags: &["--all --tags --contains --long --always --exact-match --first-parent"],
        values: &["--abbrev --candidates --match --exclude"],
        ..Command::NONE
    },
];
