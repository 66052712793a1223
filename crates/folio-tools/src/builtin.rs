//! The tools that come with Folio, one file each.
//!
//! | tool | does | effect |
//! |---|---|---|
//! | `list`, `read`, `grep` | look at files | read |
//! | `write` | makes, replaces or extends a file in the run's folder | idempotent |
//! | `git` | looks at a repository | read |
//! | `http_get` | sends a request to a web server, if the run allows its host | read |
//! | `shell` | runs a command, if the run allows it | opaque |
//! | `text` | computes: templates, lists, counts, sorting | pure |
//! | `observe`, `page_append` | propose entries for the scratch page and for pages | pure |
//! | `result_read` | reads a range of an earlier result | read |
//! | `scratch_read`, `scratch_add`, `scratch_update`, `scratch_complete`, `scratch_pin`, `scratch_unpin` | the scratchbook of the thread | read, idempotent |
//! | `wait` | waits | read |

mod git;
mod grep;
mod http_get;
mod list;
mod observe;
mod page_append;
mod read;
mod result_read;
mod scratch;
mod shell;
mod text;
mod wait;
mod write;

use std::sync::Arc;

use folio_memory::passage::{newlines, whole_characters};
use serde::{Deserialize, Deserializer};

use crate::tool::Tool;

pub(crate) use write::is_own_record;

/// All built-in tools.
pub fn all() -> Vec<Arc<dyn Tool>> {
    let mut all: Vec<Arc<dyn Tool>> = vec![
        Arc::new(git::Git::default()),
        Arc::new(grep::Grep::default()),
        Arc::new(http_get::HttpGet::default()),
        Arc::new(list::List::default()),
        Arc::new(observe::Observe::default()),
        Arc::new(page_append::PageAppend::default()),
        Arc::new(read::Read::default()),
        Arc::new(result_read::ResultRead::default()),
        Arc::new(shell::Shell::default()),
        Arc::new(text::Text::default()),
        Arc::new(wait::Wait::default()),
        Arc::new(write::Write::default()),
    ];
    all.extend(scratch::Scratch::all().map(|tool| Arc::new(tool) as Arc<dyn Tool>));
    all
}

/// An argument that holds one text or a list of texts.
#[derive(Debug, Default)]
struct Texts(Vec<String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a text or a list of texts")]
        enum Given {
            One(String),
            Several(Vec<String>),
        }
        Ok(Self(match Given::deserialize(deserializer)? {
            Given::One(text) => vec![text],
            Given::Several(texts) => texts,
        }))
    }
}

/// Whether a file that begins with these bytes is binary, by git's rule.
fn looks_binary(start: &[u8]) -> bool {
    start[..start.len().min(BINARY_LOOK_BYTES)].contains(&0)
}

/// How many bytes of a file the rule looks at.
const BINARY_LOOK_BYTES: usize = 8_000;
