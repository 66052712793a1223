//! Recognizes what the history of a thread holds of a conversation already, so that a program may pass the whole of it
//! each time and each message is stored once.
//!
//! A block keeps a [mark](mark_after) of each message. The mark tells the message and all before it, so a list is known
//! up to its last message with a mark of the thread. From there on it is stored as a block that names what it follows:
//! two conversations that begin alike share what is alike.

use std::collections::HashMap;

use folio_memory::offload::{BEGINNING, Message, is_stand_in, mark_after, stands_in_for};
use serde_json::Value;

use super::super::{Workspace, WorkspaceError};
use super::history::{Kept, Place};

/// How much of the blocks of earlier versions, which have no marks, is read to find them.
const READ_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The beginning of a list of messages that the history holds already.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The number of messages of the list, with those that stand in for others.
    pub(super) items: usize,
    /// How many of them somebody said.
    pub(super) said: usize,
    /// The place of the last message in the history; `None` if there is none.
    pub(super) place: Option<Place>,
    /// The mark of the last message.
    pub(super) mark: String,
}

impl Workspace {
    /// The beginning of `messages` that the blocks `kept` hold.
    ///
    /// Blocks of earlier versions are read only if the marks of the others do not tell.
    pub(super) async fn known_in(&self, kept: &mut [Kept], messages: &[Message]) -> Result<Known, WorkspaceError> {
        let known = self.known_by_marks(kept, messages).await?;
        let is_told = match known.place {
            Some(place) => kept[place.block].has_marks,
            None => known.items > 0,
        };
        if is_told || kept.iter().all(|block| block.has_marks) {
            return Ok(known);
        }
        self.mark_old(kept).await?;
        self.known_by_marks(kept, messages).await
    }

    /// The same from the marks alone. What follows a message was put away with it or later, so the marks are read from
    /// the newest block on, until one of them is known.
    async fn known_by_marks(&self, kept: &mut [Kept], messages: &[Message]) -> Result<Known, WorkspaceError> {
        let leading = messages.iter().take_while(|message| is_stand_in(message)).count();
        let mut known = Known {
            items: leading,
            ..Known::default()
        };
        if let Some(stand_in) = messages[..leading].last() {
            known.place = place_of(kept, stand_in);
            known.mark = match known.place {
                Some(place) => {
                    self.load_marks(&mut kept[place.block]).await?;
                    kept[place.block].mark_of(place.number).unwrap_or_default().to_owned()
                }
                // What it stands for is not in this history, or no longer: so it is not the beginning of any other.
                None => mark_after(BEGINNING, &stand_in.given),
            };
        }
        let beginnings = beginnings(&known, messages);
        let oldest = known.place.map_or(0, |place| place.block);
        for block in (oldest..kept.len()).rev() {
            self.load_marks(&mut kept[block]).await?;
            let of_block = &kept[block];
            let marks = (of_block.from..).zip(of_block.marks.iter().flatten());
            let found = marks.filter_map(|(number, mark)| Some((number, beginnings.get(mark.as_str())?, mark)));
            if let Some((number, (items, said), mark)) = found.max_by_key(|(_, (items, _), _)| *items) {
                return Ok(Known {
                    items: *items,
                    said: *said,
                    place: Some(Place { block, number }),
                    mark: mark.clone(),
                });
            }
        }
        Ok(known)
    }

    /// Finds the marks of blocks of earlier versions, which did not keep them. Their messages may stand in for others.
    async fn mark_old(&self, kept: &mut [Kept]) -> Result<(), WorkspaceError> {
        let mut bytes = 0;
        for block in &mut *kept {
            self.load_marks(block).await?;
        }
        for at in 0..kept.len() {
            if kept[at].has_marks {
                continue;
            }
            let text = self.text_of_block(&kept[at]).await?;
            bytes += text.len();
            if bytes > READ_BYTES_MAX {
                return Ok(());
            }
            let (mut mark, mut before, mut marks) = (BEGINNING.to_owned(), Vec::new(), Vec::new());
            for message in messages_in(&text) {
                match place_of(kept, &message) {
                    Some(place) => {
                        mark = kept[place.block].mark_of(place.number).unwrap_or_default().to_owned();
                        before = kept[place.block].numbers_to(place.number);
                    }
                    None if is_stand_in(&message) => {}
                    None => mark = mark_after(&mark, &message.given),
                }
                marks.push(mark.clone());
            }
            if marks.len() as u64 == kept[at].to + 1 - kept[at].from {
                (kept[at].marks, kept[at].before) = (Some(marks), Some(before));
                kept[at].has_marks = true;
            }
        }
        Ok(())
    }
}

/// The messages of a block with this text; none if one of them is damaged.
pub(super) fn messages_in(text: &str) -> Vec<Message> {
    let read = |line: &str| {
        let message = serde_json::from_str(line).ok()?;
        Message::read_all(&Value::Array(vec![message])).ok()?.pop()
    };
    let lines = text.lines().map(read);
    let known: Option<Vec<Message>> = lines.collect();
    known.unwrap_or_default()
}

/// The place of the last message that `message` stands in for.
fn place_of(kept: &[Kept], message: &Message) -> Option<Place> {
    let (handle, number) = stands_in_for(message)?;
    let block = kept.iter().position(|block| block.handle == handle)?;
    let number = number.filter(|number| kept[block].holds(*number));
    Some(Place {
        block,
        number: number.unwrap_or(kept[block].to),
    })
}

/// By the mark of each message behind what is `known` of them: how many messages there are up to there, and how many of
/// those somebody said.
fn beginnings(known: &Known, messages: &[Message]) -> HashMap<String, (usize, usize)> {
    let (mut mark, mut said) = (known.mark.clone(), 0);
    let mut beginnings = HashMap::new();
    for (at, message) in messages.iter().enumerate().skip(known.items) {
        if !is_stand_in(message) {
            mark = mark_after(&mark, &message.given);
            said += 1;
        }
        beginnings.insert(mark.clone(), (at + 1, said));
    }
    beginnings
}
