//! What the index keeps about each entry, and how it is updated.

use std::collections::{BTreeMap, HashMap};

use folio_memory::terms::terms_of;
use folio_memory::{Entry, EntryKind, Status, Timestamp};
use roaring::RoaringBitmap;

/// One hour in nanoseconds: the granularity by which ends of lifetimes are sorted in advance.
const HOUR: i64 = 3_600_000_000_000;
/// The end of a lifetime that has none.
const NEVER: i64 = i64::MAX;

/// What the index needs to know about one live entry.
#[derive(Debug, Clone)]
pub(crate) struct Facts<'e> {
    pub(crate) number: u64,
    /// The number of its page.
    pub(crate) page: u64,
    pub(crate) kind: EntryKind,
    pub(crate) type_name: Option<&'e str>,
    pub(crate) status: Status,
    pub(crate) owner: &'e str,
    pub(crate) confidence: Option<f64>,
    pub(crate) is_pinned: bool,
    /// When it expires; `None` if it does not, or is pinned.
    pub(crate) expires_at: Option<Timestamp>,
    /// Its terms, as `folio_memory::terms` computes them.
    pub(crate) terms: &'e [String],
}

impl<'e> Facts<'e> {
    /// The facts about `entry`; `None` if it is not live, whatever the time.
    pub(crate) fn of(entry: &'e Entry, page: u64, terms: &'e [String]) -> Option<Self> {
        let fields = &entry.fields;
        let is_live = fields.status != Status::Archived && fields.superseded_by.is_none();
        is_live.then(|| Self {
            number: entry.handle.0,
            page,
            kind: entry.kind,
            type_name: fields.type_name.as_deref(),
            status: fields.status,
            owner: fields.owner.as_str(),
            confidence: fields.confidence.map(folio_memory::Confidence::value),
            is_pinned: fields.pin_rank.is_some(),
            expires_at: fields.lifetime.expires_at().filter(|_| fields.pin_rank.is_none()),
            terms,
        })
    }
}

/// The index of one space.
#[derive(Debug)]
pub(crate) struct LiveIndex {
    /// The number of the first slot's entry.
    first: u64,
    /// By slot, ascending: the distance of its number from the first.
    offsets: Vec<u32>,
    /// By slot: the index in `confidences`.
    sureness: Vec<u32>,
    /// The distinct values, usually few; the first one stands for none.
    confidences: Vec<f64>,
    confidence_ids: HashMap<u64, u32>,
    /// By slot: when the entry expires.
    expires: Vec<i64>,
    /// By slot: where `words` has the number of its tags and context values, followed by these.
    worded: Vec<u32>,
    words: Vec<u32>,
    /// The words, each with the number of its set.
    names: HashMap<Box<str>, u32>,
    sets: Vec<RoaringBitmap>,
    /// The words for statuses, owners and pins, which an entry can gain and lose.
    fluid: Vec<u32>,
    /// The slots that are live at `now`.
    live: RoaringBitmap,
    /// The slots that expire, by the hour in which they do.
    ends: BTreeMap<i64, RoaringBitmap>,
    /// Nothing expires before this time.
    next_end: i64,
    /// When the last of the expired entries that were removed had expired.
    last_end: i64,
    now: Timestamp,
    /// Set when an entry could not be given a slot.
    is_broken: bool,
    /// How many words no slot refers to any more.
    garbage: usize,
}

/// The families of words that are neither tags nor context values. No tag can begin like one of these.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Family {
    Kind,
    Page,
    Type,
    Status,
    Owner,
    /// The word that all pinned entries have.
    Pinned,
}

impl Default for LiveIndex {
    fn default() -> Self {
        Self {
            first: 0,
            offsets: Vec::new(),
            sureness: Vec::new(),
            confidences: vec![f64::NAN],
            confidence_ids: HashMap::new(),
            expires: Vec::new(),
            worded: Vec::new(),
            // The entry for slots without words.
            words: vec![0],
            names: HashMap::new(),
            sets: Vec::new(),
            fluid: Vec::new(),
            live: RoaringBitmap::new(),
            ends: BTreeMap::new(),
            next_end: NEVER,
            last_end: i64::MIN,
            is_broken: false,
            now: Timestamp::MIN,
            garbage: 0,
        }
    }
}

impl LiveIndex {
    /// Adds or updates an entry.
    pub(crate) fn put(&mut self, facts: &Facts<'_>) {
        let slot = match self.slot_of(facts.number) {
            Ok(slot) => {
                self.forget_changing(slot);
                slot
            }
            Err(slot) if slot == self.offsets.len() && self.push(facts.number) => {
                for (family, text) in [
                    (Family::Kind, facts.kind.as_str()),
                    (Family::Page, &facts.page.to_string()),
                ] {
                    self.add_word(family, text, slot);
                }
                if let Some(type_name) = facts.type_name {
                    self.add_word(Family::Type, type_name, slot);
                }
                slot
            }
            // The entry was not live when later ones were added, and is live again: there is no room for its slot.
            Err(_) => {
                self.is_broken = true;
                return;
            }
        };
        self.add_word(Family::Status, facts.status.as_str(), slot);
        self.add_word(Family::Owner, facts.owner, slot);
        if facts.is_pinned {
            self.add_word(Family::Pinned, "", slot);
        }
        if !facts.terms.is_empty() {
            self.worded[slot] = small(self.words.len());
            self.words.push(small(facts.terms.len()));
            for term in facts.terms {
                let word = self.word(term);
                self.sets[word as usize].insert(small(slot));
                self.words.push(word);
            }
        }
        self.sureness[slot] = facts.confidence.map_or(0, |confidence| self.confidence_id(confidence));
        self.expires[slot] = facts.expires_at.map_or(NEVER, Timestamp::as_nanos);
        if self.expires[slot] != NEVER {
            self.next_end = self.next_end.min(self.expires[slot]);
            self.ends
                .entry(self.expires[slot].div_euclid(HOUR))
                .or_default()
                .insert(small(slot));
        }
        if self.expires[slot] > self.now.as_nanos() {
            self.live.insert(small(slot));
        } else {
            self.live.remove(small(slot));
            self.last_end = self.last_end.max(self.expires[slot]);
        }
    }

    /// Adds or updates `entry` of the page with the number `page`, or removes it if it is not live.
    pub(crate) fn take_in(&mut self, entry: &Entry, page: u64) {
        let terms = terms_of(&entry.fields);
        match Facts::of(entry, page, &terms) {
            Some(facts) => self.put(&facts),
            None => self.remove(entry.handle.0),
        }
    }

    /// Removes an entry that is archived or superseded.
    pub(crate) fn remove(&mut self, number: u64) {
        if let Ok(slot) = self.slot_of(number) {
            self.forget_changing(slot);
            self.live.remove(small(slot));
            self.garbage = self.garbage.saturating_add(1);
        }
    }

    /// Sets the time to `now`. An earlier time is not set; then returns false if anything has expired since, because
    /// that was removed.
    pub(crate) fn advance(&mut self, now: Timestamp) -> bool {
        if now < self.now {
            return self.is_at(now);
        }
        self.now = now;
        let nanos = now.as_nanos();
        if nanos < self.next_end {
            return true;
        }
        self.next_end = NEVER;
        while let Some(mut hour) = self.ends.first_entry() {
            let (expired, left): (RoaringBitmap, RoaringBitmap) = hour
                .get()
                .iter()
                .partition(|slot| self.expires[*slot as usize] <= nanos);
            self.garbage = self
                .garbage
                .saturating_add(usize::try_from(expired.len()).unwrap_or(usize::MAX));
            let last = expired.iter().map(|slot| self.expires[slot as usize]).max();
            self.last_end = self.last_end.max(last.unwrap_or(i64::MIN));
            self.live -= expired;
            if let Some(next) = left.iter().map(|slot| self.expires[slot as usize]).min() {
                self.next_end = next;
                hour.insert(left);
                break;
            }
            hour.remove();
        }
        true
    }

    /// Whether the index is exact for `now` without [`Self::advance`]: no entry expires by then, and none that was
    /// removed expired later. Later pages of a list use the time of the first page.
    pub(crate) fn is_at(&self, now: Timestamp) -> bool {
        (self.last_end..self.next_end).contains(&now.as_nanos())
    }

    /// Whether the index gives wrong answers, or contains so much garbage that it should be rebuilt.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_broken || (self.garbage > 10_000 && self.garbage > self.offsets.len())
    }

    /// Whether the index should be dropped: it is spent, or takes more than `bytes_max`, which is checked now and then.
    pub(crate) fn has_outgrown(&self, bytes_max: usize) -> bool {
        self.is_spent() || (self.is_looked_at() && self.bytes() > bytes_max)
    }

    /// Whether it has grown so much since the last check that its size should be checked.
    pub(crate) fn is_looked_at(&self) -> bool {
        self.last_number().is_multiple_of(1_024)
    }

    /// Roughly how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        let sets: usize = self
            .sets
            .iter()
            .chain(self.ends.values())
            .map(|set| set.serialized_size() + 64)
            .sum();
        let names: usize = self.names.keys().map(|name| name.len() + 32).sum();
        let degrees = self.confidences.len() * (8 + 24);
        self.offsets.len() * (4 + 4 + 8 + 4) + self.words.len() * 4 + sets + names + degrees
    }

    /// The highest number in the index; zero if it is empty.
    pub(crate) fn last_number(&self) -> u64 {
        self.offsets.last().map_or(0, |offset| self.first + u64::from(*offset))
    }

    /// Whether any entry has the word `term`.
    pub(crate) fn knows(&self, term: &str) -> bool {
        self.set_of(term).is_some_and(|set| !set.is_empty())
    }

    /// Adds the words of all entries at once, word by word. For an index that has no words yet.
    pub(crate) fn words(&mut self) -> Words<'_> {
        Words {
            index: self,
            found: Vec::new(),
            current: None,
        }
    }

    pub(super) fn live(&self) -> &RoaringBitmap {
        &self.live
    }

    /// The number of slots, live or not.
    pub(super) fn slots(&self) -> u64 {
        self.offsets.len() as u64
    }

    pub(super) fn number(&self, slot: u32) -> u64 {
        self.first + u64::from(self.offsets[slot as usize])
    }

    /// The confidence; NaN if there is none.
    pub(super) fn confidence(&self, slot: u32) -> f64 {
        self.confidences[self.sureness[slot as usize] as usize]
    }

    /// The slot of an entry, or the one before which it would be inserted.
    pub(super) fn slot_of(&self, number: u64) -> Result<usize, usize> {
        let offset = number.checked_sub(self.first).ok_or(0_usize)?;
        self.offsets.binary_search_by(|known| u64::from(*known).cmp(&offset))
    }

    /// The slots of a word of `family`.
    pub(super) fn set(&self, family: Family, text: &str) -> Option<&RoaringBitmap> {
        self.set_of(&named(family, text))
    }

    /// The slots of a tag or a context value.
    pub(super) fn set_of(&self, term: &str) -> Option<&RoaringBitmap> {
        self.names.get(term).map(|word| &self.sets[*word as usize])
    }

    /// Adds a slot for `number`; returns whether that was possible.
    fn push(&mut self, number: u64) -> bool {
        if self.offsets.is_empty() {
            self.first = number;
        }
        let Ok(offset) = u32::try_from(number.saturating_sub(self.first)) else {
            return false;
        };
        self.offsets.push(offset);
        self.sureness.push(0);
        self.expires.push(NEVER);
        self.worded.push(0);
        true
    }

    fn confidence_id(&mut self, confidence: f64) -> u32 {
        let next = small(self.confidences.len());
        let id = *self.confidence_ids.entry(confidence.to_bits()).or_insert(next);
        if id == next {
            self.confidences.push(confidence);
        }
        id
    }

    /// The range of a slot's words.
    fn words_of(&self, slot: usize) -> std::ops::Range<usize> {
        let begin = self.worded[slot] as usize;
        begin + 1..begin + 1 + self.words[begin] as usize
    }

    /// Removes a slot from the sets of all words that can change.
    fn forget_changing(&mut self, slot: usize) {
        let bit = small(slot);
        for word in &self.fluid {
            self.sets[*word as usize].remove(bit);
        }
        let words = self.words_of(slot);
        self.garbage = self.garbage.saturating_add(words.len().div_ceil(8));
        for word in &self.words[words] {
            self.sets[*word as usize].remove(bit);
        }
        self.worded[slot] = 0;
        if let Some(ends) = self.ends.get_mut(&self.expires[slot].div_euclid(HOUR)) {
            ends.remove(bit);
        }
        self.expires[slot] = NEVER;
    }

    fn add_word(&mut self, family: Family, text: &str, slot: usize) {
        let known = self.sets.len();
        let word = self.word(&named(family, text));
        if self.sets.len() > known && matches!(family, Family::Status | Family::Owner | Family::Pinned) {
            self.fluid.push(word);
        }
        self.sets[word as usize].insert(small(slot));
    }

    fn word(&mut self, name: &str) -> u32 {
        if let Some(word) = self.names.get(name) {
            return *word;
        }
        let word = small(self.sets.len());
        self.sets.push(RoaringBitmap::new());
        self.names.insert(name.into(), word);
        word
    }
}

fn named(family: Family, text: &str) -> String {
    let mark = match family {
        Family::Kind => '\u{2}',
        Family::Page => '\u{3}',
        Family::Type => '\u{4}',
        Family::Status => '\u{5}',
        Family::Owner => '\u{6}',
        Family::Pinned => '\u{7}',
    };
    format!("{mark}{text}")
}

/// Slots and words are counted in 32 bits: an index of that many entries would exceed any memory limit long before.
fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Words that are added one after the other, each with all its entries.
#[derive(Debug)]
pub(crate) struct Words<'i> {
    index: &'i mut LiveIndex,
    /// Slots with their words.
    found: Vec<(u32, u32)>,
    current: Option<(Box<str>, u32)>,
}

impl Words<'_> {
    /// Adds that the entry `number` has the word `term`. Entries that are not live are skipped.
    pub(crate) fn add(&mut self, term: &str, number: u64) {
        let Ok(slot) = self.index.slot_of(number) else { return };
        let word = match &self.current {
            Some((name, word)) if **name == *term => *word,
            _ => {
                let word = self.index.word(term);
                self.current = Some((term.into(), word));
                word
            }
        };
        self.index.sets[word as usize].insert(small(slot));
        self.found.push((small(slot), word));
    }

    /// How many were added.
    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    /// Stores for each entry which words it has.
    pub(crate) fn finish(mut self) {
        self.found.sort_unstable();
        let index = self.index;
        for chunk in self.found.chunk_by(|a, b| a.0 == b.0) {
            let Some((slot, _)) = chunk.first() else { continue };
            index.worded[*slot as usize] = small(index.words.len());
            index.words.push(small(chunk.len()));
            index.words.extend(chunk.iter().map(|(_, word)| *word));
        }
    }
}
