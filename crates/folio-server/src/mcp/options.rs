//! The options of an MCP server: what it offers, and to whom.

use std::path::PathBuf;
use std::str::FromStr;

use folio::memory::tokens::{Counter, for_model};
use folio::memory::{Invalid, TurnId};
use folio::{Actor, Role, ThreadKey};

use super::MAX_NAME_BYTES;

/// A tool set: tools that are offered together, besides the six of the scratchbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ToolSet {
    /// All of memory: search it, get what belongs in a prompt, read pages.
    Memory,
    /// Observations: add, list and update them.
    Observe,
    /// Work that several agents share: list what is ready, claim it, delegate it, report on it.
    Plan,
    /// Runs: start one from a plan, see its state, answer its questions.
    Run,
    /// Administration of memory: archive, restore, forget.
    Admin,
}

impl ToolSet {
    /// All tool sets.
    pub const ALL: [Self; 5] = [Self::Memory, Self::Observe, Self::Plan, Self::Run, Self::Admin];

    /// Returns the name of the set, as options and documents write it.
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

    /// Parses a name as [`Self::as_str`] gives it. The error lists the sets that exist.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|set| set.as_str() == name);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.into_iter().map(Self::as_str).collect();
            format!("there is no tool set {name:?}; there are {}", names.join(", "))
        })
    }
}

/// What an MCP server offers, and to whom.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct McpOptions {
    /// The thread of calls that name none.
    pub thread: ThreadKey,
    /// Whether it is the only thread: then a call that names another is refused.
    pub is_bound: bool,
    /// The role of clients, which decides what they may do (M7.7).
    pub role: Role,
    /// The name of a client that gives none.
    pub user: String,
    /// The turn that everything is done in, if there is one.
    pub turn: Option<TurnId>,
    /// How tokens are counted for the model.
    pub tokens: Counter,
    /// The tool sets that are offered besides the scratchbook.
    pub sets: Vec<ToolSet>,
    /// The folder that runs may read. Relative paths start there, and no path leads out of it.
    pub folder: Option<PathBuf>,
    /// The tools that runs of models may call without the approval that they otherwise wait for: `NAME`, or `SERVER.*`
    /// for all tools of an MCP server.
    pub allow_tools: Vec<String>,
    /// The options with which a command of `folio` finds the same store and space, for commands that answers offer a
    /// person; empty, or beginning with a space.
    pub command_options: String,
}

impl McpOptions {
    /// Returns options that offer the six tools of the scratchbook of `thread` to clients.
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
            command_options: String::new(),
        }
    }

    /// Returns the actor of a client that calls itself `name`. Only its letters, digits and `. _ -` are kept, so that
    /// it stays one word in a trace.
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

    /// Returns the thread of a call that names `requested`.
    pub(super) fn thread_of(&self, requested: Option<&str>) -> Result<ThreadKey, Invalid> {
        match requested {
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
