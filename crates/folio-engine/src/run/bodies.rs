//! The cache of large outputs (decision 0087): what was read of the outputs kept beside the journal, and the values
//! that templates see of results.
//!
//! A run never waits for an output. One that is needed but not cached is recorded as lacking; the driver of the run
//! reads it and asks again. None of this is in the journal, and the result of a run does not depend on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::size_of;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::state::Run;

/// The approximate memory that each entry of an object takes in addition to its name and value, in bytes.
const PER_ENTRY: usize = 40;

/// The cache of everything that may be dropped.
#[derive(Debug, Default)]
pub(super) struct Bodies(Mutex<OutputCache>);

#[derive(Debug, Default)]
struct OutputCache {
    /// Outputs, by the hashes that they are kept under.
    outputs: HashMap<Arc<str>, Kept>,
    /// Results as templates see them, by node; each contains its output once more.
    seen: HashMap<usize, Kept>,
    /// All cached values, least recently used first.
    order: BTreeMap<u64, CacheKey>,
    /// A counter of uses, which serves as the clock of the cache.
    time: u64,
    /// The value of `time` when the due actions were last requested, if they were.
    asked: Option<u64>,
    /// The approximate memory of all cached values, in bytes.
    bytes: usize,
    /// The hashes of outputs that were needed but not cached.
    lacking: BTreeSet<String>,
    /// The bytes of outputs that were needed so far, cached or not.
    read: u64,
}

#[derive(Debug)]
struct Kept {
    value: Arc<Value>,
    bytes: usize,
    needed: u64,
    /// The bytes of the outputs that it was made from.
    read: u64,
}

#[derive(Debug, Clone)]
enum CacheKey {
    Output(Arc<str>),
    Seen(usize),
}

impl Bodies {
    fn lock_cache(&self) -> MutexGuard<'_, OutputCache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The output that is kept under `hash`, with its size `bytes`. If it is not cached, it is recorded as lacking.
    pub(super) fn output(&self, hash: &str, bytes: u64) -> Option<Arc<Value>> {
        let mut cache = self.lock_cache();
        let OutputCache {
            outputs, order, time, ..
        } = &mut *cache;
        let found = outputs.get_mut(hash).map(|kept| kept.touch(order, time));
        cache.read = cache.read.saturating_add(bytes);
        if found.is_none() {
            cache.lacking.insert(hash.to_owned());
        }
        found
    }

    /// Whether the output that is kept under `hash` is cached. If not, it is recorded as lacking.
    pub(super) fn check_cached(&self, hash: &str) -> bool {
        let mut cache = self.lock_cache();
        let is_cached = cache.outputs.contains_key(hash);
        if !is_cached {
            cache.lacking.insert(hash.to_owned());
        }
        is_cached
    }

    /// What templates see of the result of node `index`, if it is cached.
    pub(super) fn template_value(&self, index: usize) -> Option<Arc<Value>> {
        let mut cache = self.lock_cache();
        let OutputCache {
            seen,
            order,
            time,
            read,
            ..
        } = &mut *cache;
        let kept = seen.get_mut(&index)?;
        *read = read.saturating_add(kept.read);
        Some(kept.touch(order, time))
    }

    /// Caches what templates see of the result of node `index`, which was made from outputs of `bytes_read` bytes.
    pub(super) fn cache_template_value(&self, index: usize, value: &Arc<Value>, bytes_read: u64) {
        self.lock_cache()
            .keep(CacheKey::Seen(index), Arc::clone(value), bytes_read);
    }

    /// The bytes of outputs that were needed so far.
    pub(super) fn read(&self) -> u64 {
        self.lock_cache().read
    }

    /// Marks that the due actions are requested: earlier uses do not count for that. Returns what [`Bodies::read`]
    /// does.
    pub(super) fn begin_due_query(&self) -> u64 {
        let mut cache = self.lock_cache();
        cache.asked = Some(cache.time);
        cache.read
    }
}

impl Kept {
    fn touch(&mut self, order: &mut BTreeMap<u64, CacheKey>, time: &mut u64) -> Arc<Value> {
        *time += 1;
        if let Some(name) = order.remove(&self.needed) {
            order.insert(*time, name);
        }
        self.needed = *time;
        Arc::clone(&self.value)
    }
}

impl OutputCache {
    fn keep(&mut self, name: CacheKey, value: Arc<Value>, bytes_read: u64) {
        self.time += 1;
        let kept = Kept {
            bytes: bytes_in_memory(&value),
            value,
            needed: self.time,
            read: bytes_read,
        };
        self.bytes += kept.bytes;
        self.order.insert(self.time, name.clone());
        let before = match name {
            CacheKey::Output(hash) => self.outputs.insert(hash, kept),
            CacheKey::Seen(index) => self.seen.insert(index, kept),
        };
        if let Some(before) = before {
            self.order.remove(&before.needed);
            self.bytes -= before.bytes;
        }
    }

    fn evict(&mut self, max_bytes: usize, is_held: impl Fn(&str) -> bool) {
        let (mut from, to) = (0, self.asked.unwrap_or(self.time));
        while self.bytes > max_bytes
            && let Some((needed, name)) = self.order.range(from..).next()
            && *needed <= to
        {
            let needed = *needed;
            from = needed + 1;
            let evicted = match name {
                CacheKey::Output(hash) if is_held(hash) => continue,
                CacheKey::Output(hash) => self.outputs.remove(hash),
                CacheKey::Seen(index) => self.seen.remove(index),
            };
            self.order.remove(&needed);
            self.bytes -= evicted.map_or(0, |entry| entry.bytes);
        }
    }
}

impl Run {
    /// Gives the run an output that is kept beside the journal. This is not an event: it changes nothing about what is
    /// due.
    pub fn supply(&self, hash: &str, value: Arc<Value>) {
        self.bodies.lock_cache().keep(CacheKey::Output(hash.into()), value, 0);
    }

    /// The hashes of outputs that were needed since the last event, or since the last call of this, and were not
    /// cached.
    ///
    /// If there are any, discard what the run answered meanwhile: read them, [`Run::supply`] them, and ask the run the
    /// same again. More may be lacking then. An output that no longer exists need not be supplied: the answers then say
    /// so, or do without it.
    #[must_use]
    pub fn lacking(&self) -> Vec<String> {
        std::mem::take(&mut self.bodies.lock_cache().lacking)
            .into_iter()
            .collect()
    }

    /// Drops cached outputs and values made from them, least recently used first, until the rest takes at most
    /// `max_bytes` bytes. Keeps outputs that `is_held` names by hash, and everything used since [`Run::due`] was last
    /// called. A dropped output that is needed again is lacking then.
    pub fn evict_outputs(&self, max_bytes: usize, is_held: impl Fn(&str) -> bool) {
        self.bodies.lock_cache().evict(max_bytes, is_held);
    }

    /// The approximate memory of the cached outputs and the values made from them, in bytes.
    #[must_use]
    pub fn cached_bytes(&self) -> usize {
        self.bodies.lock_cache().bytes
    }
}

/// The approximate memory of `value`, in bytes.
fn bytes_in_memory(value: &Value) -> usize {
    let within: usize = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes_in_memory).sum(),
        Value::Object(entries) => entries
            .iter()
            .map(|(name, value)| PER_ENTRY + name.len() + bytes_in_memory(value))
            .sum(),
    };
    size_of::<Value>() + within
}

#[cfg(test)]
mod tests {
    use folio_memory::RunId;
    use serde_json::json;

    use super::*;
    use crate::template::Templates;

    fn run_with(outputs: &[(&str, usize)]) -> Run {
        let run = Run::new(RunId::derived(&["bodies"]), Arc::new(Templates::new()));
        for (hash, bytes) in outputs {
            run.supply(hash, Arc::new(json!("x".repeat(*bytes))));
        }
        run
    }

    fn has(run: &Run, hash: &str) -> bool {
        run.bodies.output(hash, 0).is_some()
    }

    #[test]
    fn least_recently_used_output_is_evicted_first() {
        let run = run_with(&[("a", 1_000), ("b", 1_000), ("c", 1_000)]);
        assert!(has(&run, "a"));
        run.bodies.begin_due_query();
        run.evict_outputs(2_200, |_| false);
        assert!(run.cached_bytes() <= 2_200);
        assert_eq!(["a", "b", "c"].map(|hash| has(&run, hash)), [true, false, true]);
    }

    #[test]
    fn held_or_currently_used_outputs_are_not_evicted() {
        let run = run_with(&[("held", 1_000), ("old", 1_000), ("needed", 1_000)]);
        run.bodies.begin_due_query();
        assert!(has(&run, "needed"));
        run.evict_outputs(0, |hash| hash == "held");
        assert_eq!(
            ["held", "old", "needed"].map(|hash| has(&run, hash)),
            [true, false, true]
        );
        run.bodies.begin_due_query();
        run.evict_outputs(0, |_| false);
        assert_eq!(run.cached_bytes(), 0);
    }

    #[test]
    fn requested_outputs_not_in_memory_are_reported_once() {
        let run = run_with(&[("a", 10)]);
        assert!(has(&run, "a") && !has(&run, "c") && !has(&run, "b") && !has(&run, "c"));
        assert_eq!(run.lacking(), ["b", "c"]);
        assert_eq!(run.lacking(), [""; 0]);
    }

    #[test]
    fn output_supplied_twice_counts_its_bytes_once() {
        let run = run_with(&[("a", 1_000)]);
        let bytes = run.cached_bytes();
        run.supply("a", Arc::new(json!("x".repeat(1_000))));
        assert_eq!(run.cached_bytes(), bytes);
        run.bodies.begin_due_query();
        run.evict_outputs(bytes - 1, |_| false);
        assert_eq!(run.cached_bytes(), 0);
    }
}
