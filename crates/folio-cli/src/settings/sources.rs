//! The settings that several sources can give: a flag, an environment variable, the settings file.

use std::path::Path;

use folio::memory::id::TurnRef;
use folio::{Role, SpaceName, ThreadKey};

use super::file::{beside_file, model_beside_file, name_of};
use super::store_url;
use super::surroundings::Surroundings;
use crate::arguments::{Color, Global, turn_ref};
use crate::error::Failure;

/// A value, and where it was set if not on the command line.
#[derive(Debug, Clone)]
pub(crate) struct PlacedValue {
    /// The value.
    pub(crate) text: String,
    /// The environment variable, or the key of the file.
    place: Option<String>,
}

impl PlacedValue {
    fn by_flag(text: String) -> Self {
        Self { text, place: None }
    }

    fn in_place(text: String, place: String) -> Self {
        Self {
            text,
            place: Some(place),
        }
    }

    /// Whether it was set on the command line, or nowhere.
    pub(super) fn is_by_flag(&self) -> bool {
        self.place.is_none()
    }

    /// `failure`, which is about this value, prefixed with the place where it was set.
    pub(crate) fn refused(&self, failure: Failure) -> Failure {
        match &self.place {
            Some(place) => failure.about(place),
            None => failure,
        }
    }
}

/// Where settings come from, apart from the contents of the file.
pub(super) struct Sources<'s> {
    pub(super) flags: &'s Global,
    pub(super) around: &'s Surroundings<'s>,
    /// The path of the settings file that was read.
    pub(super) file: Option<&'s Path>,
}

impl Sources<'_> {
    /// The value of the strongest source that gives one: `flag`, `variable`, or `in_file`, which is under `key`.
    fn strongest(
        &self,
        flag: Option<&String>,
        variable: &str,
        key: &str,
        in_file: Option<String>,
    ) -> Result<Option<PlacedValue>, Failure> {
        if let Some(text) = flag {
            return Ok(Some(PlacedValue::by_flag(text.clone())));
        }
        if let Some(text) = self.around.text(variable)? {
            return Ok(Some(PlacedValue::in_place(text, variable.to_owned())));
        }
        let of_file = |text| PlacedValue::in_place(text, format!("{key} in {}", name_of(self.file)));
        Ok(in_file.map(of_file))
    }

    pub(super) fn store(&self, in_file: Option<String>) -> Result<PlacedValue, Failure> {
        let in_file = in_file.map(|store| beside_file(&store_url(&store), self.file));
        match self.strongest(self.flags.store.as_ref(), "FOLIO_STORE", "store", in_file)? {
            Some(store) => Ok(PlacedValue {
                text: store_url(&store.text).into_owned(),
                ..store
            }),
            None => Ok(PlacedValue::by_flag(self.around.default_store()?)),
        }
    }

    pub(super) fn space(&self, in_file: Option<String>) -> Result<SpaceName, Failure> {
        match self.strongest(self.flags.space.as_ref(), "FOLIO_SPACE", "space", in_file)? {
            Some(space) => {
                SpaceName::parse(&space.text).map_err(|error| space.refused(Failure::usage("space_invalid", error)))
            }
            None => Ok(SpaceName::main()),
        }
    }

    pub(super) fn thread(&self, in_file: Option<String>) -> Result<ThreadKey, Failure> {
        match self.strongest(self.flags.thread.as_ref(), "FOLIO_THREAD", "thread", in_file)? {
            Some(thread) if thread.text.is_empty() => {
                Err(thread.refused(Failure::usage("thread_invalid", "the name of a thread is empty")))
            }
            Some(thread) => Ok(ThreadKey(thread.text)),
            None => Ok(default_thread(&self.around.current)),
        }
    }

    pub(super) fn model(&self, in_file: Option<String>) -> Result<Option<PlacedValue>, Failure> {
        let in_file = in_file.map(|model| model_beside_file(&model, self.file, &self.around.current));
        self.strongest(None, "FOLIO_MODEL", "model", in_file)
    }

    pub(super) fn turn(&self) -> Result<Option<TurnRef>, Failure> {
        if let Some(turn) = self.flags.turn {
            return Ok(Some(turn));
        }
        let Some(turn) = self.around.text("FOLIO_TURN")? else {
            return Ok(None);
        };
        let wrong = |error| Failure::usage("turn_invalid", format!("{turn:?} is {error}")).about("FOLIO_TURN");
        turn_ref(&turn).map(Some).map_err(wrong)
    }

    pub(super) fn color(&self, in_file: Option<Color>, is_dumb_terminal: bool) -> Result<Color, Failure> {
        let no_color = self.around.text("NO_COLOR")?.is_some_and(|value| !value.is_empty());
        let by_variable = no_color.then_some(Color::Never);
        let color = self.flags.color.or(by_variable).or(in_file).unwrap_or_default();
        Ok(match color {
            Color::Auto if is_dumb_terminal => Color::Never,
            color => color,
        })
    }

    /// The requested role.
    pub(super) fn role(&self) -> Result<Option<Role>, Failure> {
        let Some(asked) = self.strongest(self.flags.role.as_ref(), "FOLIO_ROLE", "role", None)? else {
            return Ok(None);
        };
        let role = Role::parse(&asked.text).ok_or_else(|| {
            let roles: Vec<_> = Role::ALL.into_iter().map(Role::as_str).collect();
            let wrong = Failure::usage("role_invalid", format!("{:?} is not a role", asked.text));
            asked.refused(wrong).hint(format!("one of {}", roles.join(", ")))
        })?;
        Ok(Some(role))
    }
}

/// The default thread: the worktree that `folder` is in, not the repository, since two worktrees are two pieces of
/// work.
fn default_thread(folder: &Path) -> ThreadKey {
    worktree_of(folder).map_or_else(ThreadKey::main, |folder| {
        ThreadKey(folder.to_string_lossy().into_owned())
    })
}

/// The git worktree that `folder` is in.
pub(super) fn worktree_of(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|folder| folder.join(".git").exists())
}
