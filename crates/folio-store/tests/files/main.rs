//! A file and its spaces: who may read it, what the doctor finds in it, and that spaces see nothing of one another.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod check;
#[path = "../damage/mod.rs"]
mod damage;
mod full;
mod migration;
mod mixed;
mod moved;
mod private;
mod spaces;
mod spaces_alone;
mod tokens;
