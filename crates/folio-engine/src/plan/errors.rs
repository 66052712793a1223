//! What is wrong with a plan, and where.

use std::fmt;

/// A place in the text of a plan, counted from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One mistake in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError {
    /// The code of the mistake, `P001` and on; see [`CODES`].
    pub code: &'static str,
    /// The place in the text.
    pub place: Place,
    /// The path in the plan, for example `steps[2].do.args.pattern`; empty for the plan as a whole.
    pub path: String,
    /// What is wrong, quoting what was written.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if !self.path.is_empty() {
            write!(f, " {}", self.path)?;
        }
        write!(f, ": {} {}", self.code, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for PlanError {}

/// How many mistakes of a plan are listed. A plan of a mebibyte can have a hundred thousand, and nobody reads them all.
pub const MISTAKES_LISTED: usize = 100;

/// The mistakes of a plan. Displayed one per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanErrors {
    /// The first of them, in the order of the text: at most [`MISTAKES_LISTED`].
    pub listed: Vec<PlanError>,
    /// How many more there are.
    pub unlisted: usize,
}

impl PlanErrors {
    /// Lists the first of `all`, which are in the order of the text.
    pub(super) fn first_of(mut all: Vec<PlanError>) -> Self {
        let unlisted = all.len().saturating_sub(MISTAKES_LISTED);
        all.truncate(MISTAKES_LISTED);
        Self { listed: all, unlisted }
    }

    /// The number of mistakes, listed or not.
    #[must_use]
    pub fn count(&self) -> usize {
        self.listed.len() + self.unlisted
    }

    /// Each mistake with its path, and the number of others, for a plan that was not written as a text.
    #[must_use]
    pub fn in_words(&self) -> Vec<String> {
        let describe = |error: &PlanError| {
            let hint = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("{}: {}{hint}", error.path, error.message)
        };
        let more = (self.unlisted > 0).then(|| format!("and {} more mistakes", self.unlisted));
        self.listed.iter().map(describe).chain(more).collect()
    }
}

impl fmt::Display for PlanErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, error) in self.listed.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        match self.unlisted {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for PlanErrors {}

macro_rules! codes {
    ($($name:ident = $code:literal, $meaning:literal;)*) => {
        /// Every code of a [`PlanError`] and what it means.
        pub const CODES: &[(&str, &str)] = &[$(($code, $meaning)),*];

        /// The codes by name.
        pub(super) mod code {
            $(pub(in crate::plan) const $name: &str = $code;)*
        }
    };
}

codes! {
    UNREADABLE = "P001", "the text is not one YAML or JSON document of reasonable size and depth";
    DUPLICATE_KEY = "P002", "a key is written twice in one object";
    UNKNOWN_KEY = "P003", "a key that the plan language does not have here";
    UNKNOWN_TOOL = "P004", "a tool that is not available";
    MISSING = "P005", "something required is not there";
    WRONG_TYPE = "P006", "a value of the wrong type";
    BAD_VALUE = "P007", "a value that is not allowed here";
    BAD_SLUG = "P008", "an id that is not a slug";
    DUPLICATE_ID = "P009", "an id that is used twice in one plan";
    UNKNOWN_NEED = "P010", "`needs` names a step that does not exist";
    FOREIGN_NEED = "P011", "`needs` names a step of another plan";
    CYCLE = "P012", "steps that wait for one another";
    EMPTY = "P013", "a plan, group or sequence without steps";
    OVER_CAP = "P014", "more than the limits allow";
    TWO_WAYS = "P015", "a task that says in two ways how it is done";
    MISSING_ARGUMENT = "P016", "a required argument of a tool is not given";
    UNKNOWN_ARGUMENT = "P017", "an argument that the tool does not have";
    TEMPLATE_SYNTAX = "P018", "a template that cannot be read";
    UNKNOWN_NAME = "P019", "a template that names something that does not exist";
    NOT_VISIBLE = "P020", "a template that names a result which is not finished before it";
    NOT_A_LIST = "P021", "`for_each` over something that is not a list or a reference to one";
    RACING_WRITES = "P022", "`first_ok` or a quorum over branches that may write";
    BAD_REGEX = "P023", "a regular expression that cannot be read";
    BAD_SCHEMA = "P024", "a JSON schema that is not one";
    BAD_DURATION = "P025", "a duration that cannot be read";
    BAD_DEFAULT = "P026", "a default of another type than the input";
    BAD_QUORUM = "P027", "a quorum of none, or of more branches than there are";
    DUPLICATE_CRITERION = "P028", "a criterion's id that is used twice";
    BAD_ARGUMENT = "P029", "an argument that the tool does not take";
    UNKNOWN_EXECUTOR = "P030", "an executor that is not set up";
    UNKNOWN_CRITERION = "P031", "`satisfies` names no criterion";
    TOOL_BEYOND = "P032", "a tool that the step around it may not use";
}
