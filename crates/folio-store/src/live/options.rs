//! When a space gets an index, and how large it may be.

/// When a space gets an index of its live entries in memory, and how large that may be.
#[derive(Debug, Clone)]
pub struct LiveOptions {
    /// Bytes that the index of one space may take; 0 for no index. Default: 64 MiB.
    pub bytes_max: usize,
    /// Bytes that the indexes of all spaces may take together; beyond it, those go that were asked longest ago. Default: 256 MiB.
    pub bytes_of_all_max: usize,
    /// Lists that are asked for before it is made, in the background; 0 to make it with the first. Default for a file: 8.
    pub after: u32,
    /// The number of entries from which a space is worth one. Default for a file: 2,000.
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
    /// An index from the first list of any space on.
    #[must_use]
    pub fn at_once() -> Self {
        Self {
            after: 0,
            from: 0,
            ..Self::default()
        }
    }
}
