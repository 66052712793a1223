//! Forgetting in the outbox (M7.6.50). Lines lose the items in question; unreadable lines are removed whole.
//!
//! The file stays in place and keeps its length until nothing is left in it: what is kept of a line is first appended,
//! and then the line is overwritten. If the process dies in between, both are there, and an item that is there twice is
//! delivered once.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::ops::Range;
use std::path::Path;

use folio_memory::entry::Status;
use folio_memory::text::{Needle, plain};
use folio_memory::{Entry, EntryHandle, EntryId, EntryQuery, Seq, SpaceName, Timestamp};

use super::super::forget::{ForgetFilter, texts_of};
use super::{FORMAT, Spooled, SpooledItem, damaged_lines_path, open_delivery_lock};
use crate::needles::Needles;
use crate::private;
use crate::text_search::unescaped;

/// Which of the waiting items are to be forgotten.
#[derive(Debug)]
pub(in crate::workspace) struct Unwanted {
    space: SpaceName,
    entries: BTreeSet<EntryId>,
    /// The query that an item must match, as an entry; `None` if entries or runs are named.
    query: Option<EntryQuery>,
    /// The text that it must also contain.
    text: Option<Needle>,
    /// Texts that make an item unwanted whatever else it is.
    said: Needles<()>,
    now: Timestamp,
}

impl Unwanted {
    /// Unwanted is every item that contains one of `texts`.
    pub(in crate::workspace) fn saying(space: &SpaceName, texts: &BTreeSet<String>, now: Timestamp) -> Self {
        Self {
            query: None,
            ..Self::of(space, &ForgetFilter::default(), Vec::new(), texts, now)
        }
    }

    /// Unwanted is what `filter` finds in `space` at `now`, and every item that says what the forgotten `entries` say:
    /// one of `texts`.
    pub(in crate::workspace) fn of(
        space: &SpaceName,
        filter: &ForgetFilter,
        entries: impl IntoIterator<Item = EntryId>,
        texts: &BTreeSet<String>,
        now: Timestamp,
    ) -> Self {
        let query = EntryQuery {
            status: Status::ALL.to_vec(),
            include_expired: true,
            include_superseded: true,
            ..filter.query.clone()
        };
        Self {
            space: space.clone(),
            entries: entries.into_iter().collect(),
            query: (!filter.names_something()).then_some(query),
            text: filter.text.as_deref().map(Needle::new),
            said: Needles::of(texts.iter().map(|text| (plain(text), ()))),
            now,
        }
    }

    fn takes(&self, item: &SpooledItem, at: Timestamp) -> bool {
        let texts: Vec<String> = texts_of(&item.new.fields).iter().map(|text| plain(text)).collect();
        let occurs = |text: &Needle| texts.iter().any(|text_of_item| text.is_in_plain(text_of_item));
        let is_found = self.query.as_ref().is_some_and(|query| {
            let entry = Entry::added((*item.new).clone(), EntryHandle(0), Seq(0), at);
            query.matches(&entry, self.now) && self.text.as_ref().is_none_or(occurs)
        });
        is_found || self.entries.contains(&item.new.id) || texts.iter().any(|text| self.said.are_in(text.as_bytes()))
    }

    /// Decides what happens to `line`.
    fn look_at(&self, line: &[u8]) -> io::Result<Verdict> {
        let spooled = serde_json::from_slice::<Spooled>(line).ok();
        let Some(mut spooled) = spooled.filter(|spooled| spooled.v <= FORMAT) else {
            return Ok(self.look_at_raw(line));
        };
        if spooled.space != self.space {
            return Ok(Verdict::Stays);
        }
        let (before, at) = (spooled.items.len(), spooled.at);
        spooled.items.retain(|item| !self.takes(item, at));
        let count = before - spooled.items.len();
        if count == 0 {
            return Ok(Verdict::Stays);
        }
        let rest = match spooled.items.is_empty() {
            true => None,
            false => Some(serde_json::to_string(&spooled)?),
        };
        Ok(Verdict::Loses(count, rest))
    }

    /// The same for a line that is torn or of a newer version. Its space is named at its beginning; a line that names
    /// none belongs to no space in particular.
    fn look_at_raw(&self, line: &[u8]) -> Verdict {
        let line = String::from_utf8_lossy(line);
        let space = line
            .split_once("\"space\":\"")
            .and_then(|(_, rest)| rest.split_once('"'));
        if space.is_some_and(|(name, _)| name != self.space.as_str()) {
            return Verdict::Stays;
        }
        let (line, texts) = (plain(&line), plain(&unescaped(&line)));
        let occurs = |text: &Needle| text.is_in_plain(&line) || text.is_in_plain(&texts);
        let says = |text: &String| self.said.are_in(text.as_bytes());
        if self.text.as_ref().is_some_and(occurs) || says(&line) || says(&texts) {
            Verdict::Loses(1, None)
        } else {
            Verdict::Stays
        }
    }
}

/// What happens to a line.
enum Verdict {
    Stays,
    /// This many items are removed; the rest of the line, if any.
    Loses(usize, Option<String>),
}

/// Removes what is `unwanted` from the outbox at `path` and from its file of damaged lines; only counts if `changes` is
/// false. Returns the number of items and lines.
pub(super) fn forget(path: &Path, unwanted: &Unwanted, changes: bool) -> io::Result<usize> {
    let damaged_path = damaged_lines_path(path);
    if !path.exists() && !damaged_path.exists() {
        return Ok(0);
    }
    let mut options = private::options();
    options.read(true).write(true);
    // What somebody delivers at this moment would come back.
    let delivering = open_delivery_lock(path)?;
    delivering.lock()?;
    // The lock of the outbox also covers the file of damaged lines.
    let mut waiting = options.clone().create(true).truncate(false).open(path)?;
    waiting.lock()?;
    let count = forget_in(&mut waiting, unwanted, changes)?;
    match options.open(damaged_path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(count),
        opened => Ok(count + forget_in(&mut opened?, unwanted, changes)?),
    }
}

fn forget_in(file: &mut File, unwanted: &Unwanted, changes: bool) -> io::Result<usize> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let (mut count, mut dropped_ranges, mut rests) = (0, Vec::<Range<usize>>::new(), String::new());
    let (mut start, mut follows_empty) = (0, false);
    for line in bytes.split(|byte| *byte == b'\n') {
        let place = start..start + line.len();
        start = place.end + 1;
        if line.is_empty() {
            follows_empty = true;
            continue;
        }
        if std::mem::take(&mut follows_empty) && line[0] != b'{' {
            // A process died while overwriting this line. What was to be kept of it had been written before.
            dropped_ranges.push(place);
            continue;
        }
        if let Verdict::Loses(items, rest) = unwanted.look_at(line)? {
            count += items;
            dropped_ranges.push(place);
            if let Some(rest) = rest {
                rests.push_str(&rest);
                rests.push('\n');
            }
        }
    }
    if dropped_ranges.is_empty() || !changes {
        return Ok(count);
    }
    if !rests.is_empty() {
        let is_torn = bytes.last().is_some_and(|last| *last != b'\n');
        let rests = if is_torn { format!("\n{rests}") } else { rests };
        file.seek(io::SeekFrom::End(0))?;
        file.write_all(rests.as_bytes())?;
        file.sync_all()?;
        bytes.extend_from_slice(rests.as_bytes());
    }
    for place in dropped_ranges {
        file.seek(io::SeekFrom::Start(place.start as u64))?;
        // Empty lines are ignored on delivery.
        bytes[place.clone()].fill(b'\n');
        file.write_all(&bytes[place])?;
    }
    file.sync_all()?;
    if bytes.iter().all(|byte| *byte == b'\n') {
        file.set_len(0)?;
        file.sync_all()?;
    }
    Ok(count)
}
