//! What a server of the protocol offers, and to whom.

use std::path::PathBuf;
use std::str::FromStr;

use folio::memory::tokens::{Counter, for_model};
use folio::memory::{Invalid, TurnId};
use folio::{Actor, Role, ThreadKey};

use super::MAX_NAME_BYTES;

/// Tools that are offered together, besides the six of the scratchbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ToolSet {
    /// All of memory: search, what goes into a prompt, pages.
    Memory,
    /// Observations: add, list, update.
    Observe,
    /// Work that several share: what is ready, taking it on, handing it on, saying what came of it.
    Plan,
    /// Runs: start one from a plan, and see where one stands.
    Run,
    /// Memory as a whole: archive, restore, forget.
    Admin,
}

impl ToolSet {
    /// Every set that there is.
    pub const ALL: [Self; 5] = [Self::Memory, Self::Observe, Self::Plan, Self::Run, Self::Admin];

    /// The name as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Observe => "observe",
            Self::Plan => "plan",
            Self::Run => "run",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for ToolSet {
    type Err = String;

    /// Reads what [`Self::as_str`] gives; otherwise says what there is.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|set| set.as_str() == name);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.into_iter().map(Self::as_str).collect();
            format!(
                "this version has no set of tools {name:?}; there are {}",
                names.join(", ")
            )
        })
    }
}

/// What a server of the protocol offers, and to whom.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct McpOptions {
    /// The thread that is meant when a call names none.
    pub thread: ThreadKey,
    /// Whether it is the only one: then a call that names another is refused.
    pub is_bound: bool,
    /// What its clients may do (M7.7).
    pub role: Role,
    /// What a client is called that does not say it.
    pub user: String,
    /// The turn that everything is done in, if in one.
    pub turn: Option<TurnId>,
    /// How tokens are counted.
    pub tokens: Counter,
    /// The tools besides those of the scratchbook.
    pub sets: Vec<ToolSet>,
    /// The folder that runs may read: what a relative path means, and what no path leads out of.
    pub folder: Option<PathBuf>,
    /// The tools that runs of models may call although they wait for a person's yes: `NAME`, or `SERVER.*` for all of an MCP server.
    pub allow_tools: Vec<String>,
}

impl McpOptions {
    /// The six tools of the scratchbook of `thread`, for clients.
    #[must_use]
    pub fn of(thread: ThreadKey) -> Self {
        Self {
            thread,
            is_bound: false,
            role: Role::Client,
            user: String::new(),
            turn: None,
            tokens: for_model(""),
            sets: Vec::new(),
            folder: None,
            allow_tools: Vec::new(),
        }
    }

    /// Who a client is that calls itself `name`: letters, digits and `. _ -` of it, so that it stays one word of a trace.
    pub(super) fn actor(&self, name: &str) -> Actor {
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let name: String = name.chars().filter(is_plain).take(MAX_NAME_BYTES).collect();
        let name = if name.is_empty() { self.user.clone() } else { name };
        let actor = Actor::new(self.role, name);
        match self.turn {
            Some(turn) => actor.in_turn(turn),
            None => actor,
        }
    }

    /// The thread that a call means which names `asked`.
    pub(super) fn thread_of(&self, asked: Option<&str>) -> Result<ThreadKey, Invalid> {
        match asked {
            None => Ok(self.thread.clone()),
            Some(name) if name == self.thread.0 => Ok(self.thread.clone()),
            Some("") => Err(Invalid::new(
                "thread_invalid",
                "thread",
                "the name of a thread is empty",
            )),
            Some(name) if self.is_bound => {
                let message = format!(
                    "{name:?} is not the thread of this connection, which is {:?}",
                    self.thread.0
                );
                Err(Invalid::new("thread_invalid", "thread", message))
            }
            Some(name) => Ok(ThreadKey(name.to_owned())),
        }
    }
}
