//! Authorization: who may do what (M7.7).

mod read;
mod write;

use std::fmt;

pub use read::Visibility;
pub use write::{Known, Needs, may_write, needs};

use crate::actor::{Actor, Role};
use crate::change::FieldChange;
use crate::entry::{Entry, EntryKind, Status};
use crate::id::RunId;

/// An operation on memory that may need permission: the columns of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Read the content of the space.
    Read,
    /// Add an entry.
    Add,
    /// Settle or supersede one's own entry.
    SettleOwn,
    /// Change one's own entry.
    PatchOwn,
    /// Change the status of another's entry.
    SetStatusOfOthers,
    /// Change any other field of another's entry.
    PatchOthers,
    /// Confirm that an entry still holds.
    Confirm,
    /// Pin or unpin an entry.
    Pin,
    /// Archive an entry.
    Archive,
    /// Restore an entry from the archive.
    Restore,
    /// Erase the content of an entry.
    Forget,
    /// Add a page, link it, or set its status.
    Pages,
    /// Set the policy of the space.
    SetPolicy,
    /// Read the trace.
    ReadTrace,
    /// Import what was made elsewhere, with its original times and the source that it claims.
    Import,
    /// End a turn, which archives what is resolved.
    EndTurn,
    /// Write and query on behalf of a tool.
    SpeakForTool,
    /// Start, stop or answer a run.
    Steer,
}

impl Operation {
    /// Every operation, in the order of the table.
    pub const ALL: [Self; 18] = [
        Self::Read,
        Self::Add,
        Self::SettleOwn,
        Self::PatchOwn,
        Self::SetStatusOfOthers,
        Self::PatchOthers,
        Self::Confirm,
        Self::Pin,
        Self::Archive,
        Self::Restore,
        Self::Forget,
        Self::Pages,
        Self::SetPolicy,
        Self::ReadTrace,
        Self::Import,
        Self::EndTurn,
        Self::SpeakForTool,
        Self::Steer,
    ];

    /// The operation as a verb that follows "may not".
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read | Self::ReadTrace => "read",
            Self::Add => "add",
            Self::SettleOwn => "settle",
            Self::PatchOwn => "change",
            Self::SetStatusOfOthers => "change the status of what others wrote:",
            Self::PatchOthers => "change what others wrote:",
            Self::Confirm => "confirm",
            Self::Pin => "pin or unpin",
            Self::Archive => "archive",
            Self::Restore => "restore",
            Self::Forget => "forget",
            Self::Pages => "add, link or set the status of",
            Self::SetPolicy => "set",
            Self::Import => "bring in",
            Self::EndTurn => "end",
            Self::SpeakForTool => "speak for",
            Self::Steer => "start, stop or answer",
        }
    }
}

/// How far somebody may carry out an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Not at all.
    No,
    /// Within their own scope: their run, their thread's scratchbook, the scratch page.
    Within,
    /// Anywhere in the space.
    Yes,
}

/// How far `role` may carry out `operation`: the table of M7.7.
#[must_use]
pub fn reach(role: Role, operation: Operation) -> Reach {
    use Reach::{No, Within, Yes};
    // The columns: read, add, settle own, patch own, status of others, others, confirm, pin, archive, restore, forget,
    // pages, policy, trace, import, end a turn, speak for a tool, steer
    let row = match role {
        Role::Tool => [
            Within, Yes, Yes, No, No, No, No, No, No, No, No, No, No, No, No, No, Within, No,
        ],
        Role::Executor => [
            Within, Yes, Yes, Yes, Within, No, Yes, Within, No, No, No, Within, No, No, No, No, Yes, No,
        ],
        Role::Planner => [
            Within, Yes, Yes, Yes, Within, Within, Yes, Yes, Within, No, No, Yes, No, No, No, Within, No, No,
        ],
        Role::Router => [
            Yes, Yes, Yes, Yes, No, No, Yes, No, No, No, No, No, No, No, No, No, No, No,
        ],
        Role::Clarifier => [
            Yes, Within, Yes, Yes, No, No, Yes, No, No, No, No, No, No, No, No, No, No, No,
        ],
        Role::Evaluator => [
            Yes, Yes, Yes, Yes, Yes, No, Yes, No, No, No, No, No, No, No, No, Yes, No, No,
        ],
        Role::Reflector => [
            Yes, Within, Yes, Yes, No, No, Yes, No, Yes, No, No, Within, No, No, No, Yes, No, No,
        ],
        Role::Cleaner => [
            Yes, Within, Yes, Yes, No, No, Yes, No, Yes, No, No, Within, No, No, No, No, No, No,
        ],
        Role::Compactor => [
            Within, Within, Yes, Yes, No, No, Yes, No, No, No, No, Within, No, No, No, No, No, No,
        ],
        Role::Client => [
            Yes, Yes, Yes, Yes, Within, Within, Yes, Within, Within, No, No, Within, No, No, No, Yes, Yes, Yes,
        ],
        Role::Human => [Yes; 18],
    };
    let column = Operation::ALL.iter().position(|known| *known == operation);
    column.map_or(No, |column| row[column])
}

/// The operation that `changes` of `entry` by `actor` amount to.
#[must_use]
pub fn operation_of(actor: &Actor, entry: &Entry, changes: &[FieldChange]) -> Operation {
    let only = |predicate: fn(&FieldChange) -> bool| changes.iter().all(predicate);
    let is_own_entry = is_own(actor, entry);
    if let Some(operation) = author_independent_operation(changes) {
        operation
    } else if is_own_entry && only(settles) {
        Operation::SettleOwn
    } else if is_own_entry {
        Operation::PatchOwn
    } else if only(|change| settles(change) || is_about_status(change)) {
        Operation::SetStatusOfOthers
    } else {
        Operation::PatchOthers
    }
}

/// The operation that `changes` amount to if it is the same for every entry's author.
fn author_independent_operation(changes: &[FieldChange]) -> Option<Operation> {
    let has = |predicate: fn(&FieldChange) -> bool| changes.iter().any(predicate);
    if has(|change| matches!(change, FieldChange::Restored(_))) {
        Some(Operation::Restore)
    } else if has(|change| matches!(change, FieldChange::Status(Status::Archived))) {
        Some(Operation::Archive)
    } else if has(|change| matches!(change, FieldChange::PinRank(_))) {
        Some(Operation::Pin)
    } else if has(|change| matches!(change, FieldChange::ValidatedAt(_))) {
        Some(Operation::Confirm)
    } else if matches!(changes, [FieldChange::Ended(_) | FieldChange::Expired(_)]) {
        // Noting that an entry has expired belongs to those who may archive.
        Some(Operation::Archive)
    } else {
        None
    }
}

/// Whether `change` belongs to `operation` and needs no other permission.
fn belongs_to(operation: Operation, change: &FieldChange) -> bool {
    match operation {
        Operation::Restore => matches!(
            change,
            FieldChange::Restored(_) | FieldChange::ArchivedFor(_) | FieldChange::Lifetime(_)
        ),
        Operation::Archive => matches!(
            change,
            FieldChange::Status(Status::Archived)
                | FieldChange::ArchivedFor(_)
                | FieldChange::Phase(_)
                | FieldChange::LeaseUntil(_)
                | FieldChange::Ended(_)
                | FieldChange::Expired(_)
        ),
        Operation::Pin => matches!(
            change,
            FieldChange::PinRank(_) | FieldChange::Ended(_) | FieldChange::Expired(_)
        ),
        Operation::Confirm => matches!(change, FieldChange::ValidatedAt(_) | FieldChange::Lifetime(_)),
        _ => true,
    }
}

/// Checks that `actor` may make each of `changes` of `entry`. `is_in_scope` says whether the entry is within the
/// actor's own scope for an operation.
///
/// # Errors
///
/// The operation that is not allowed, and who may carry it out.
pub fn may_patch(
    actor: &Actor,
    entry: &Entry,
    is_in_scope: impl Fn(Operation) -> bool,
    changes: &[FieldChange],
) -> Result<(), Denied> {
    let mut left = changes.to_vec();
    loop {
        let operation = operation_of(actor, entry, &left);
        check_permission(actor, operation, is_in_scope(operation), &entry.handle.to_string())?;
        // A change that belongs to another operation needs that permission as well.
        left.retain(|change| !belongs_to(operation, change));
        if left.is_empty() {
            return Ok(());
        }
    }
}

fn settles(change: &FieldChange) -> bool {
    matches!(
        change,
        FieldChange::Status(Status::Resolved | Status::Done) | FieldChange::SupersededBy(_) | FieldChange::Outcome(_)
    ) || matches!(change, FieldChange::Progress(Some(all)) if *all >= 1.0)
}

fn is_about_status(change: &FieldChange) -> bool {
    matches!(
        change,
        FieldChange::Status(_) | FieldChange::Phase(_) | FieldChange::Progress(_) | FieldChange::LeaseUntil(_)
    )
}

/// Whether `actor` wrote `entry`.
#[must_use]
pub fn is_own(actor: &Actor, entry: &Entry) -> bool {
    let source = &entry.fields.source;
    match (&source.principal, actor.role) {
        (principal, Role::Tool) => match &source.tool {
            Some(tool) => *tool == actor.name,
            // An actor without a name is recorded by its role only.
            None => actor.name.is_empty() && principal.as_deref() == Some(actor.role.as_str()),
        },
        (Some(principal), _) => *principal == actor.to_string(),
        (None, _) => actor.run.is_some() && source.run == actor.run,
    }
}

/// Whether `entry` is within the actor's own scope, as the table defines it for the role.
#[must_use]
pub fn is_in_own_scope(actor: &Actor, entry: &Entry) -> bool {
    let in_run = actor.run.is_some() && entry.fields.source.run == actor.run;
    match actor.role {
        Role::Executor => entry.kind == EntryKind::Observation || in_run,
        Role::Planner => in_run,
        _ => false,
    }
}

/// Checks that `actor` may carry out `operation` on `subject`. `is_in_scope` says whether that is within the actor's
/// own scope.
///
/// # Errors
///
/// The operation that is not allowed, and who may carry it out.
pub fn check_permission(actor: &Actor, operation: Operation, is_in_scope: bool, subject: &str) -> Result<(), Denied> {
    match reach(actor.role, operation) {
        Reach::Yes => return Ok(()),
        Reach::Within if is_in_scope => return Ok(()),
        Reach::Within | Reach::No => {}
    }
    Err(Denied {
        role: actor.role,
        operation,
        what: subject.to_owned(),
        is_of_other_thread: false,
    })
}

/// Checks that `actor` may end the turn called `turn`, which was begun in `run` if it belongs to one. Roles that may
/// end any turn, and the run that a turn belongs to, may.
///
/// # Errors
///
/// The operation that is not allowed, and who may carry it out.
pub fn may_end_turn(actor: &Actor, run: Option<RunId>, turn: &str) -> Result<(), Denied> {
    let is_own = run.is_some() && run == actor.run;
    check_permission(actor, Operation::EndTurn, is_own, turn)
}

/// Returns the actor for the tool called `tool`, on whose behalf `actor` speaks. Only those who call tools may do so; a
/// tool always stays itself, whatever name is given. Other roles are refused, because what they may read and write is
/// less than what some tools may.
///
/// # Errors
///
/// Who may speak for a tool.
pub fn speaking_for(actor: &Actor, tool: &str) -> Result<Actor, Denied> {
    let is_tool = actor.role == Role::Tool;
    check_permission(actor, Operation::SpeakForTool, is_tool, "a tool")?;
    let name = if is_tool { actor.name.as_str() } else { tool };
    Ok(Actor {
        role: Role::Tool,
        name: name.to_owned(),
        ..actor.clone()
    })
}

/// Checks that `actor` may start, stop or answer runs. Tools, and roles within a run or a turn, may not: they could not
/// see the runs that they start.
///
/// # Errors
///
/// Who may.
pub fn may_steer(actor: &Actor) -> Result<(), Denied> {
    check_permission(actor, Operation::Steer, false, "a run")
}

/// An operation that a role may not carry out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Denied {
    /// The role that was refused.
    pub role: Role,
    /// The operation that was attempted.
    pub operation: Operation,
    /// The object of the operation.
    pub what: String,
    /// Whether the object belongs to another thread than the one that the actor works in. There the role may carry out
    /// the operation.
    pub is_of_other_thread: bool,
}

impl Denied {
    /// The stable code of the error, for programs.
    pub const CODE: &str = "role_denied";

    /// The same refusal, which says that the object belongs to another thread if that is why.
    #[must_use]
    pub fn because_of_thread(self, is_of_other_thread: bool) -> Self {
        let is_of_other_thread = is_of_other_thread && reach(self.role, self.operation) == Reach::Within;
        Self {
            is_of_other_thread,
            ..self
        }
    }

    /// The other roles that may carry out the operation anywhere.
    #[must_use]
    pub fn who_may(&self) -> Vec<Role> {
        let is_permitted = |role: &Role| *role != self.role && reach(*role, self.operation) == Reach::Yes;
        Role::ALL.into_iter().filter(is_permitted).collect()
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let permitted_roles: Vec<_> = self.who_may().into_iter().map(Role::as_str).collect();
        write!(
            f,
            "{} {} may not {} {}",
            if self.role.as_str().starts_with(['a', 'e', 'i', 'o', 'u']) {
                "an"
            } else {
                "a"
            },
            self.role,
            self.operation.as_str(),
            self.what,
        )?;
        if self.is_of_other_thread {
            return f.write_str(", which belongs to another thread; use a workspace of that thread (`in_thread`)");
        }
        match permitted_roles.as_slice() {
            [] => Ok(()),
            permitted_roles => write!(f, "; {} may", permitted_roles.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Trust;
    use crate::change::NewEntry;
    use crate::entry::{EntryFields, Owner};
    use crate::id::{EntryHandle, EntryId, PageId, Seq};
    use crate::time::Timestamp;

    /// The table in readable form: y, -, or w for "within their own scope".
    const TABLE: &str = "\
        role       read add settle own others_status others confirm pin archive restore forget pages policy trace import end speak steer
        tool       w    y   y      -   -             -      -       -   -       -       -      -     -      -     -      -   w     -
        executor   w    y   y      y   w             -      y       w   -       -       -      w     -      -     -      -   y     -
        planner    w    y   y      y   w             w      y       y   w       -       -      y     -      -     -      w   -     -
        router     y    y   y      y   -             -      y       -   -       -       -      -     -      -     -      -   -     -
        clarifier  y    w   y      y   -             -      y       -   -       -       -      -     -      -     -      -   -     -
        evaluator  y    y   y      y   y             -      y       -   -       -       -      -     -      -     -      y   -     -
        reflector  y    w   y      y   -             -      y       -   y       -       -      w     -      -     -      y   -     -
        cleaner    y    w   y      y   -             -      y       -   y       -       -      w     -      -     -      -   -     -
        compactor  w    w   y      y   -             -      y       -   -       -       -      w     -      -     -      -   -     -
        client     y    y   y      y   w             w      y       w   w       -       -      w     -      -     -      y   y     y
        human      y    y   y      y   y             y      y       y   y       y       y      y     y      y     y      y   y     y";

    #[test]
    fn role_permissions_match_the_table_m7_7() {
        let rows: Vec<Vec<&str>> = TABLE
            .lines()
            .skip(1)
            .map(|row| row.split_whitespace().collect())
            .collect();
        assert_eq!(rows.len(), Role::ALL.len());
        for (row, role) in rows.iter().zip(Role::ALL) {
            assert_eq!(row[0], role.as_str());
            assert_eq!(row.len(), Operation::ALL.len() + 1);
            for (cell, operation) in row[1..].iter().zip(Operation::ALL) {
                let actor = Actor::new(role, "x");
                let may = |within| check_permission(&actor, operation, within, "e1").is_ok();
                let wanted = (*cell != "-", *cell == "y");
                assert_eq!((may(true), may(false)), wanted, "{role} {operation:?}");
            }
        }
    }

    #[test]
    fn only_permitted_actors_speak_for_tools_and_end_turns_m7_7() {
        let tool = speaking_for(&Actor::new(Role::Tool, "scan"), "other").unwrap();
        assert_eq!((tool.role, tool.name.as_str()), (Role::Tool, "scan"));
        let tool = speaking_for(&Actor::new(Role::Client, "ci"), "other").unwrap();
        assert_eq!((tool.role, tool.name.as_str()), (Role::Tool, "other"));
        let refused = speaking_for(&Actor::new(Role::Router, ""), "other").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "a router may not speak for a tool; executor, client, human may"
        );
        let run: RunId = "run_00000000000000000000000001".parse().unwrap();
        let planner = Actor::new(Role::Planner, "runner");
        assert!(may_end_turn(&planner.clone().in_run(run), Some(run), "t1").is_ok());
        assert!(may_end_turn(&planner.clone().in_run(run), None, "t1").is_err());
        assert!(may_end_turn(&planner, None, "t1").is_err());
    }

    #[test]
    fn unnamed_tool_owns_the_entries_it_wrote_m7_7() {
        let written_by = |principal: &str, tool: Option<&str>| {
            let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::ToolInternal);
            fields.source.principal = Some(principal.to_owned());
            fields.source.tool = tool.map(str::to_owned);
            let (id, page) = (EntryId::derived(&["e"]), PageId::derived(&["p"]));
            let kind = EntryKind::Observation;
            let new = NewEntry { id, page, kind, fields };
            Entry::added(new, EntryHandle(1), Seq(1), Timestamp::default())
        };
        let (nameless, named) = (Actor::new(Role::Tool, ""), Actor::new(Role::Tool, "scan"));
        let (of_nameless, of_named) = (written_by("tool", None), written_by("tool:scan", Some("scan")));
        assert!(is_own(&nameless, &of_nameless) && is_own(&named, &of_named));
        assert!(!is_own(&nameless, &of_named) && !is_own(&named, &of_nameless));
        assert!(!is_own(&nameless, &written_by("human", None)));
    }

    #[test]
    fn refusal_names_role_operation_and_permitted_roles_m7_7() {
        let denied = check_permission(&Actor::new(Role::Tool, "t"), Operation::Archive, false, "e7").unwrap_err();
        assert_eq!(
            denied.to_string(),
            "a tool may not archive e7; reflector, cleaner, human may"
        );
        // The message must not name the refused role among those that may.
        let denied = |role, operation| Denied {
            role,
            operation,
            what: "e3".to_owned(),
            is_of_other_thread: false,
        };
        for (role, operation, told) in [
            (
                Role::Client,
                Operation::Pin,
                "a client may not pin or unpin e3; planner, human may",
            ),
            (
                Role::Planner,
                Operation::Pin,
                "a planner may not pin or unpin e3; human may",
            ),
            (Role::Human, Operation::Forget, "a human may not forget e3"),
        ] {
            assert_eq!(denied(role, operation).to_string(), told);
        }
    }
}
