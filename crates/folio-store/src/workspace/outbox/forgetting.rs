//! Forgetting what waits (M7.6.50). Lines lose the items that say it; what nobody can read goes whole.
//!
//! The file keeps its place and its length until nothing is left in it: what of a line is kept is written behind the others
//! first, and then the line is overwritten. Whoever dies in between leaves both, and an item that is there twice is
//! delivered once.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::ops::Range;
use std::path::Path;

use folio_memory::entry::Status;
use folio_memory::text::{Sought, plain};
use folio_memory::{Entry, EntryHandle, EntryId, EntryQuery, Seq, SpaceName, Timestamp};

use super::super::forget::{ForgetFilter, texts_of};
use super::{FORMAT, Spooled, SpooledItem, beside};
use crate::private;
use crate::said::unescaped;

/// What of the things that wait is to be forgotten.
#[derive(Debug)]
pub(in crate::workspace) struct Unwanted {
    space: SpaceName,
    entries: BTreeSet<EntryId>,
    /// What an item has to be like, as an entry; nothing if entries are named.
    query: Option<EntryQuery>,
    /// What it has to say besides.
    text: Option<Sought>,
    /// Texts with which it goes whatever it is like.
    said: Vec<Sought>,
    now: Timestamp,
}

impl Unwanted {
    /// What says one of `said`, whatever it is.
    pub(in crate::workspace) fn saying(space: &SpaceName, said: &BTreeSet<String>, now: Timestamp) -> Self {
        Self {
            query: None,
            ..Self::of(space, &ForgetFilter::default(), Vec::new(), said, now)
        }
    }

    /// What `filter` finds in `space` at `now`, and all that say what the forgotten `entries` say: one of `said`.
    pub(in crate::workspace) fn of(
        space: &SpaceName,
        filter: &ForgetFilter,
        entries: impl IntoIterator<Item = EntryId>,
        said: &BTreeSet<String>,
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
            query: filter.entries.is_empty().then_some(query),
            text: filter.text.as_deref().map(Sought::new),
            said: said.iter().map(|text| Sought::new(text)).collect(),
            now,
        }
    }

    fn takes(&self, item: &SpooledItem, at: Timestamp) -> bool {
        let texts: Vec<String> = texts_of(&item.new.fields).iter().map(|text| plain(text)).collect();
        let says = |text: &Sought| texts.iter().any(|said| text.is_in_plain(said));
        let is_found = self.query.as_ref().is_some_and(|query| {
            let entry = Entry::added((*item.new).clone(), EntryHandle(0), Seq(0), at);
            query.matches(&entry, self.now) && self.text.as_ref().is_none_or(says)
        });
        is_found || self.entries.contains(&item.new.id) || self.said.iter().any(says)
    }

    /// What `line` comes to.
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

    /// The same for a line that is torn, or of a newer version. Whose it is stands at its beginning; if it does not, it is
    /// nobody's.
    fn look_at_raw(&self, line: &[u8]) -> Verdict {
        let line = String::from_utf8_lossy(line);
        let space = line
            .split_once("\"space\":\"")
            .and_then(|(_, rest)| rest.split_once('"'));
        if space.is_some_and(|(name, _)| name != self.space.as_str()) {
            return Verdict::Stays;
        }
        let (line, texts) = (plain(&line), plain(&unescaped(&line)));
        let says = |text: &Sought| text.is_in_plain(&line) || text.is_in_plain(&texts);
        if self.said.iter().chain(&self.text).any(says) {
            Verdict::Loses(1, None)
        } else {
            Verdict::Stays
        }
    }
}

/// What a line comes to.
enum Verdict {
    Stays,
    /// So many items go; what is left of it, if anything is.
    Loses(usize, Option<String>),
}

/// Takes what is `unwanted` out of the outbox at `path` and of what was put aside from it; counts only, if nothing is to be
/// changed. Gives how many items and lines there were.
pub(super) fn forget(path: &Path, unwanted: &Unwanted, changes: bool) -> io::Result<usize> {
    let aside = beside(path);
    if !path.exists() && !aside.exists() {
        return Ok(0);
    }
    let mut options = private::options();
    options.read(true).write(true);
    // Whoever holds the outbox holds what was put aside, too.
    let mut waiting = options.clone().create(true).truncate(false).open(path)?;
    waiting.lock()?;
    let count = forget_in(&mut waiting, unwanted, changes)?;
    match options.open(aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(count),
        opened => Ok(count + forget_in(&mut opened?, unwanted, changes)?),
    }
}

fn forget_in(file: &mut File, unwanted: &Unwanted, changes: bool) -> io::Result<usize> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let (mut count, mut gone, mut rests) = (0, Vec::<Range<usize>>::new(), String::new());
    let (mut start, mut follows_empty) = (0, false);
    for line in bytes.split(|byte| *byte == b'\n') {
        let place = start..start + line.len();
        start = place.end + 1;
        if line.is_empty() {
            follows_empty = true;
            continue;
        }
        if std::mem::take(&mut follows_empty) && line[0] != b'{' {
            // Somebody died while he was overwriting it. What was to be kept of it had been written before.
            gone.push(place);
            continue;
        }
        if let Verdict::Loses(items, rest) = unwanted.look_at(line)? {
            count += items;
            gone.push(place);
            if let Some(rest) = rest {
                rests.push_str(&rest);
                rests.push('\n');
            }
        }
    }
    if gone.is_empty() || !changes {
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
    for place in gone {
        file.seek(io::SeekFrom::Start(place.start as u64))?;
        // Empty lines are nothing to whoever delivers.
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
