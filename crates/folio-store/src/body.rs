//! Bodies as every store keeps them: compressed where that saves space, and named by the hash of their original
//! content.

use std::io::Read;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::commit::Blob;
use crate::error::StoreError;

/// Size in bytes below which compression saves less than it costs.
const COMPRESSED_FROM: usize = 256;
/// Half the time of the usual level, for output that is a few hundredths larger.
const LEVEL: i32 = 1;
const BYTES_MAX: usize = 900 * 1024 * 1024;

/// A body as it is stored.
pub(crate) struct Packed {
    pub(crate) hash: [u8; 32],
    pub(crate) size: u64,
    pub(crate) encoding: &'static str,
    pub(crate) bytes: Vec<u8>,
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Packed({} bytes as {} of {})",
            self.size,
            self.bytes.len(),
            self.encoding
        )
    }
}

impl Packed {
    /// Compresses `blob` if that makes it smaller.
    ///
    /// # Errors
    ///
    /// `Invalid` if the body is too large.
    pub(crate) fn of(blob: Blob) -> Result<Self, StoreError> {
        let size = blob.bytes().len() as u64;
        if blob.bytes().len() > BYTES_MAX {
            return Err(StoreError::Invalid(format!(
                "a body of {size} bytes is larger than {BYTES_MAX}"
            )));
        }
        let hash = blob.digest();
        let smaller = (blob.bytes().len() >= COMPRESSED_FROM)
            .then(|| zstd::bulk::compress(blob.bytes(), LEVEL).ok())
            .flatten()
            .filter(|compressed| compressed.len() < blob.bytes().len() / 10 * 9);
        Ok(match smaller {
            Some(bytes) => Self {
                hash,
                size,
                encoding: "zstd",
                bytes,
            },
            None => Self {
                hash,
                size,
                encoding: "raw",
                bytes: blob.into_bytes(),
            },
        })
    }
}

/// Unpacks a stored body, or says what is wrong with it.
pub(crate) fn unpack(hash: &[u8], size: u64, encoding: &str, stored: Vec<u8>) -> Result<Vec<u8>, String> {
    let bytes = match encoding {
        "raw" => stored,
        "zstd" => {
            let mut bytes = Vec::new();
            // One byte beyond the expected size is enough to see that the size is wrong.
            let decoder = zstd::stream::read::Decoder::new(stored.as_slice()).map_err(|e| e.to_string())?;
            let read = decoder.take(size.saturating_add(1)).read_to_end(&mut bytes);
            read.map_err(|error| format!("cannot be unpacked: {error}"))?;
            bytes
        }
        other => return Err(format!("is stored in the unknown encoding {other:?}")),
    };
    if Sha256::digest(&bytes).as_slice() == hash {
        Ok(bytes)
    } else {
        Err("does not match its hash".to_owned())
    }
}

/// The first `max` bytes of a stored body, without looking whether it matches its hash. `None` if it cannot be
/// unpacked.
pub(crate) fn beginning(encoding: &str, mut stored: Vec<u8>, max: usize) -> Option<Vec<u8>> {
    match encoding {
        "raw" => {
            stored.truncate(max);
            Some(stored)
        }
        "zstd" => {
            let mut bytes = Vec::new();
            let decoder = zstd::stream::read::Decoder::new(stored.as_slice()).ok()?;
            decoder.take(max as u64).read_to_end(&mut bytes).ok()?;
            Some(bytes)
        }
        _ => None,
    }
}

/// The beginning of a text whose first bytes these are: a character that was cut at the end is left out.
pub(crate) fn text_beginning(bytes: Vec<u8>) -> String {
    let text = String::from_utf8(bytes);
    text.unwrap_or_else(|error| {
        let text = String::from_utf8_lossy(error.as_bytes());
        text.trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned()
    })
}

/// Parses a written hash into its bytes.
pub(crate) fn parse_hash(hash: &str) -> Option<[u8; 32]> {
    HEXLOWER.decode(hash.as_bytes()).ok()?.try_into().ok()
}
