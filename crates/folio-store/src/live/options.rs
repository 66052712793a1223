//! When a space gets an index, and how large it may be.

/// When a space gets an index of its live entries in memory, and how large that may be.
#[derive(Debug, Clone)]
pub struct LiveOptions {
    /// The most bytes for the index of one space; 0 for no index. Default: 64 MiB.
    pub bytes_max: usize,
    /// The most bytes for the indexes of all spaces together; beyond that, those that were not queried for the longest
    /// time are dropped. Default: 256 MiB.
    pub bytes_of_all_max: usize,
    /// How many lists are requested before the index is built in the background; 0 to build it at the first. Default
    /// for a file: 8.
    pub after: u32,
    /// The number of entries from which a space gets an index. Default for a file: 2,000.
    pub from: u64,
}

impl Default for LiveOptions {
    fn default() -> Self {
        Self {
            bytes_max: 64 * 1024 * 1024,
            bytes_of_all_max: 256 * 1024 * 1024,
            after: 8,
            from: 2_000,
        }
    }
}

impl LiveOptions {
    /// Options for an index from the first list of any space on.
    #[must_use]
    pub fn at_once() -> Self {
        Self {
            after: 0,
            from: 0,
            ..Self::default()
        }
    }
}
