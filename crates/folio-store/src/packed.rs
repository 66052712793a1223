//! Texts that are stored compressed, with a dictionary of what such texts have in common.
//!
//! A packed text consists of one byte for the dictionary, four bytes for the length of the text, and a zstd frame.

use std::sync::LazyLock;

use zstd::dict::{DecoderDictionary, EncoderDictionary};

use crate::fold;

/// All dictionaries that were ever in use. A published one must never change; packing uses the last.
const DICTIONARIES: [&[u8]; 1] = [include_bytes!("dictionaries/1.zdict")];
const LEVEL: i32 = 9;
const HEAD: usize = 5;

/// Packs `text`, or returns `None` if that saves less than a tenth.
pub(crate) fn pack(text: &str) -> Option<Vec<u8>> {
    static DICTIONARY: LazyLock<EncoderDictionary<'_>> =
        LazyLock::new(|| EncoderDictionary::copy(DICTIONARIES[DICTIONARIES.len() - 1], LEVEL));
    let mut compressor = zstd::bulk::Compressor::with_prepared_dictionary(&DICTIONARY).ok()?;
    let frame = compressor.compress(text.as_bytes()).ok()?;
    let mut packed = vec![u8::try_from(DICTIONARIES.len()).ok()?];
    packed.extend(u32::try_from(text.len()).ok()?.to_le_bytes());
    packed.extend(frame);
    (packed.len() < text.len() / 10 * 9).then_some(packed)
}

/// Size in bytes from which a record is packed.
const RECORD_FROM: usize = 512;

/// Packs a commit's record; `None` if that is not worth it, or if it belongs to a run, whose commits are read again and
/// again.
pub(crate) fn pack_record(text: &str) -> Option<Vec<u8>> {
    let is_packed = text.len() > RECORD_FROM && fold::run_of(text).is_none();
    is_packed.then(|| pack(text)).flatten()
}

/// Unpacks `packed`, or says what is wrong with it.
pub(crate) fn unpack(packed: &[u8]) -> Result<String, String> {
    static DICTIONARY: LazyLock<[DecoderDictionary<'_>; DICTIONARIES.len()]> =
        LazyLock::new(|| DICTIONARIES.map(DecoderDictionary::copy));
    let (head, frame) = packed.split_at_checked(HEAD).ok_or("is cut off")?;
    let dictionary = usize::from(head[0])
        .checked_sub(1)
        .and_then(|index| DICTIONARY.get(index));
    let dictionary = dictionary.ok_or_else(|| format!("needs the unknown dictionary {}", head[0]))?;
    let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    let mut decompressor =
        zstd::bulk::Decompressor::with_prepared_dictionary(dictionary).map_err(|error| error.to_string())?;
    let bytes = decompressor
        .decompress(frame, usize::try_from(len).unwrap_or(0))
        .map_err(|error| format!("cannot be unpacked: {error}"))?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_text_is_smaller_and_unpacks_unchanged_m7_6_45() {
        let text = "The build of the web client fails on the second machine because the cache was made by an older \
                    version; clearing it helped twice this week. "
            .repeat(5);
        let packed = pack(&text).unwrap();
        assert!(packed.len() * 3 < text.len(), "{} of {}", packed.len(), text.len());
        assert_eq!(unpack(&packed).unwrap(), text);
    }

    #[test]
    fn incompressible_text_is_not_packed_m7_6_45() {
        let noise: String = (0..600_u32)
            .map(|n| char::from(b'!' + (n.wrapping_mul(2_654_435_761) >> 25) as u8 % 90))
            .collect();
        assert_eq!(pack(&noise[..8]), None);
    }

    #[test]
    fn unpacking_damaged_bytes_is_an_error() {
        for bad in [&[][..], &[9, 0, 0, 0, 0, 1], &[1, 200, 0, 0, 0, 1, 2, 3]] {
            assert!(unpack(bad).is_err(), "{bad:?}");
        }
    }
}
