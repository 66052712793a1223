//! What is reported of a check.

use folio_memory::counted::counted;

use super::problem::Problem;
use crate::store::Checkup;

/// What was checked, and what is wrong.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    checked: Vec<String>,
    problems: Vec<String>,
}

impl Findings {
    /// Adds what was checked.
    pub(crate) fn add_checked(&mut self, subject: impl Into<String>) {
        self.checked.push(subject.into());
    }

    /// Adds a problem, unless enough are known.
    pub(crate) fn add(&mut self, problem: impl FnOnce() -> String) {
        if self.problems.len() < Checkup::PROBLEMS_MAX {
            self.problems.push(problem());
        }
    }

    /// Adds a problem of a row, unless enough are known.
    pub(crate) fn report(&mut self, problem: Problem<'_>) {
        self.add(|| problem.to_string());
    }

    /// Adds what was found in the space `name`.
    pub(crate) fn add_space(&mut self, name: &str, found: Self) {
        self.checked.extend(found.checked);
        for problem in found.problems {
            self.add(|| format!("space {name}: {problem}"));
        }
    }
}

impl From<Findings> for Checkup {
    fn from(findings: Findings) -> Self {
        Self {
            checked: findings.checked,
            problems: findings.problems,
        }
    }
}

/// How many rows follow from the log.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) commits: u64,
    pub(crate) entries: u64,
    pub(crate) pages: u64,
    pub(crate) runs: u64,
    pub(crate) turns: u64,
    pub(crate) terms: u64,
    pub(crate) watched: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.commits += other.commits;
        self.entries += other.entries;
        self.pages += other.pages;
        self.runs += other.runs;
        self.turns += other.turns;
        self.terms += other.terms;
        self.watched += other.watched;
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    /// What people call one of them.
    pub(crate) what: &'static str,
    /// The table in which they are kept.
    pub(crate) table: &'static str,
    /// Which rows of the table, in SQL; `true` for all of them.
    pub(crate) which: &'static str,
    /// How many there should be.
    pub(crate) wanted: u64,
}

impl Counts {
    /// Each kind of rows. Watches that end with the first look (5 and 6) are not counted.
    pub(crate) fn row_counts(&self) -> [Counted; 7] {
        let rows = |what, table, wanted| Counted {
            what,
            table,
            which: "true",
            wanted,
        };
        [
            rows("commit", "log", self.commits),
            rows("entry", "entry", self.entries),
            rows("page", "page", self.pages),
            rows("run", "run", self.runs),
            rows("turn", "turn", self.turns),
            rows("indexed word", "entry_term", self.terms),
            Counted {
                which: "what NOT IN (5, 6)",
                ..rows("watch", "watch", self.watched)
            },
        ]
    }
}

impl Counted {
    /// Reports that `found` rows were rebuilt.
    pub(crate) fn rebuilt_message(&self, found: u64) -> String {
        format!("{}, rebuilt from the log", counted(found, self.what))
    }

    /// Adds a problem if another number was `found`.
    pub(crate) fn compare(&self, found: u64, findings: &mut Findings) {
        let Self { what, wanted, .. } = self;
        if found != *wanted {
            findings.add(|| format!("{} found, but the log accounts for {wanted}", counted(found, what)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkup_reports_at_most_twenty_problems_across_all_spaces() {
        let mut findings = Findings::default();
        for name in ["one", "two"] {
            let mut found = Findings::default();
            (0..15).for_each(|number| found.add(|| format!("problem {number}")));
            findings.add_space(name, found);
        }
        let told = Checkup::from(findings).problems;
        assert_eq!(told.len(), Checkup::PROBLEMS_MAX);
        assert_eq!(told.first().map(String::as_str), Some("space one: problem 0"));
        assert_eq!(told.last().map(String::as_str), Some("space two: problem 4"));
    }
}
