//! Read permissions: the first column of the table of M7.7.

use super::{Operation, Reach, reach};
use crate::actor::{Actor, Role};
use crate::entry::{Entry, EntryKind, Owner};
use crate::id::RunId;
use crate::page::PageFields;
use crate::query::PageQuery;
use crate::space::ThreadKey;
use crate::tool_exchange::ReadScope;
use crate::turn::{NewTurn, TurnQuery};

/// The part of a space that somebody may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visibility {
    /// The whole space.
    Space,
    /// The pages of a run, what was written in it, and the observations that ask the agent or a role of the run to act
    /// (M7.11.2). Without a run, only those observations.
    Run(Option<RunId>),
    /// The pages of a thread.
    Thread(ThreadKey),
    /// The observations that a manifest lets a tool see.
    Manifest(ReadScope),
}

impl Visibility {
    /// The part that `actor` may read. `thread` is the thread that the actor works in, and `scope` gives the read scope
    /// of the manifest if the actor is a tool.
    #[must_use]
    pub fn of(actor: &Actor, thread: &ThreadKey, scope: impl FnOnce() -> ReadScope) -> Self {
        match (actor.role, reach(actor.role, Operation::Read)) {
            (_, Reach::Yes) => Self::Space,
            (Role::Tool, _) => Self::Manifest(scope()),
            (Role::Compactor, _) => Self::Thread(thread.clone()),
            _ => Self::Run(actor.run),
        }
    }

    /// Whether it includes a page with these fields.
    #[must_use]
    pub fn includes_page(&self, page: &PageFields) -> bool {
        match self {
            Self::Space => true,
            Self::Run(run) => page.run.is_some() && page.run == *run,
            Self::Thread(thread) => page.thread.as_ref() == Some(thread),
            Self::Manifest(_) => false,
        }
    }

    /// Whether it includes a turn that began as `turn`: for a run, the turns of that run; for a thread, the turns in
    /// it.
    #[must_use]
    pub fn includes_turn(&self, turn: &NewTurn) -> bool {
        match self {
            Self::Space => true,
            Self::Run(run) => turn.run.is_some() && turn.run == *run,
            Self::Thread(thread) => turn.thread == *thread,
            Self::Manifest(_) => false,
        }
    }

    /// Restricts `query` to turns that it includes; `None` if there can be none.
    #[must_use]
    pub fn restrict_turns(&self, query: &TurnQuery) -> Option<TurnQuery> {
        let mut query = query.clone();
        self.narrow(&mut query.run, &mut query.thread).then_some(query)
    }

    /// Restricts `query` to pages that it includes; `None` if there can be none.
    #[must_use]
    pub fn restrict_pages(&self, query: &PageQuery) -> Option<PageQuery> {
        let mut query = query.clone();
        self.narrow(&mut query.run, &mut query.thread).then_some(query)
    }

    /// Restricts the filters for run and thread to what it includes; false if nothing can match any more.
    fn narrow(&self, run: &mut Option<RunId>, thread: &mut Option<ThreadKey>) -> bool {
        match self {
            Self::Space => true,
            Self::Run(own_run) => {
                own_run.is_some_and(|own_run| run.replace(own_run).is_none_or(|requested| requested == own_run))
            }
            Self::Thread(own_thread) => thread
                .replace(own_thread.clone())
                .is_none_or(|requested| requested == *own_thread),
            Self::Manifest(_) => false,
        }
    }

    /// Whether it includes `entry`, which stands on a page with the fields `page`.
    #[must_use]
    pub fn includes_entry(&self, entry: &Entry, page: &PageFields) -> bool {
        let fields = &entry.fields;
        match self {
            Self::Space => true,
            Self::Run(run) => {
                let actors = [Owner::agent(), Owner::planner(), Owner::executor()];
                self.includes_page(page)
                    || run.is_some() && fields.source.run == *run
                    || entry.kind == EntryKind::Observation && actors.contains(&fields.owner)
            }
            Self::Thread(_) => self.includes_page(page),
            Self::Manifest(scope) => {
                let is_of_type = |name: &String| fields.type_name.as_ref() == Some(name);
                entry.kind == EntryKind::Observation
                    && (scope.types.is_empty() || scope.types.iter().any(is_of_type))
                    && (scope.tags.is_empty() || fields.tags.iter().any(|tag| scope.tags.contains(tag)))
            }
        }
    }
}
