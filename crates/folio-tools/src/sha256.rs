//! The hash of content, in the form that evidence carries.

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

/// Hashes content that comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct ContentHash(Sha256);

impl ContentHash {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash, as `sha256:` and hexadecimal digits.
    pub(crate) fn finish(self) -> String {
        format!("sha256:{}", HEXLOWER.encode(&self.0.finalize()))
    }
}

/// Hashes content that is held whole.
pub(crate) fn content_hash(bytes: &[u8]) -> String {
    let mut hash = ContentHash::default();
    hash.update(bytes);
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_hash_matches_known_sha256_vector() {
        assert_eq!(
            content_hash(b"abc"),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
