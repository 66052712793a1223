//! Episodes: earlier turns in memory (M7.11.5), with their input and what they touched.

use folio_memory::turn::words::words;
use folio_memory::turn::{Turn, TurnQuery};
use folio_memory::{Entry, ThreadKey, Timestamp};
use serde::Serialize;

use super::super::{Workspace, WorkspaceError};

/// How many turns are searched for a text.
const LOOKED_AT: u32 = 1_000;

/// Which earlier turns are wanted, newest first. Fields that are not set restrict nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EpisodeQuery {
    /// Turns of this thread.
    pub thread: Option<ThreadKey>,
    /// Turns that began at this instant or later.
    pub from: Option<Timestamp>,
    /// Turns that began before this instant.
    pub until: Option<Timestamp>,
    /// Turns with all of these words in the input or in what they touched.
    pub text: Option<String>,
    /// Turns older than the one with this number.
    pub before: Option<u64>,
    /// How many at most; 0 means 10.
    pub limit: usize,
}

/// An earlier turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Episode {
    /// The turn.
    pub turn: Turn,
    /// What it touched, as of its end. Entries forgotten since are left out.
    pub touched: Vec<Entry>,
}

/// Earlier turns, newest first.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Episodes {
    /// Those that match.
    pub found: Vec<Episode>,
    /// When the oldest turn began that was searched for the text, if older ones were not searched.
    pub searched_from: Option<Timestamp>,
}

impl Workspace {
    /// Returns the turns that have ended and match `query`, with what they touched. At most 1,000 turns are searched
    /// for a text.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn episodes(&self, query: &EpisodeQuery) -> Result<Episodes, WorkspaceError> {
        self.require_space_read("earlier turns")?;
        let limit = if query.limit == 0 { 10 } else { query.limit };
        let query_words = query.text.as_deref().map(words).unwrap_or_default();
        let turn_query = TurnQuery {
            thread: query.thread.clone(),
            ended: Some(true),
            from: query.from,
            until: query.until,
            before: query.before,
            limit: if query.text.is_some() {
                // One more, to learn whether there are more.
                LOOKED_AT + 1
            } else {
                u32::try_from(limit).unwrap_or(LOOKED_AT)
            },
            ..TurnQuery::default()
        };
        let mut episodes = Episodes::default();
        let mut turns = self.turns(&turn_query).await?;
        if turns.len() > LOOKED_AT as usize {
            turns.truncate(LOOKED_AT as usize);
            episodes.searched_from = turns.last().map(|turn| turn.started_at);
        }
        for turn in turns {
            if episodes.found.len() >= limit {
                // What is left out is older than what was found.
                episodes.searched_from = None;
                break;
            }
            let episode = self.episode(turn).await?;
            let mut episode_words = words(&episode.turn.begun.input);
            for entry in &episode.touched {
                episode_words.extend(words(&entry.fields.title));
                episode_words.extend(words(&entry.fields.body));
                entry
                    .fields
                    .tags
                    .iter()
                    .for_each(|tag| episode_words.extend(words(tag.as_str())));
            }
            if query_words.is_subset(&episode_words) {
                episodes.found.push(episode);
            }
        }
        Ok(episodes)
    }

    async fn episode(&self, turn: Turn) -> Result<Episode, WorkspaceError> {
        let mut touched = Vec::new();
        if let Some(ended) = &turn.ended {
            let export = self.read_export(&ended.end.export).await?;
            let entries = self.exported(&export, false).await?;
            touched.extend(entries.into_iter().filter_map(|exported| exported.entry));
        }
        Ok(Episode { turn, touched })
    }
}
