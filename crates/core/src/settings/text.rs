//! Text in files, as people and their editors save it.

use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// The byte order mark of UTF-8, which some editors and shells write.
pub const BOM: &[u8] = "\u{feff}".as_bytes();

/// Reads the text in a file. A byte order mark is skipped.
///
/// # Errors
/// If it cannot be read, has more than `bytes_max` bytes, or is not in UTF-8.
pub fn read_text(file: &Path, bytes_max: u64) -> Result<String> {
    text_in(std::fs::File::open(file)?, bytes_max)
}

/// Reads the text of an opened file. A byte order mark is skipped.
pub fn text_in(from: impl Read, bytes_max: u64) -> Result<String> {
    let mut bytes = Vec::new();
    from.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("it has more than {bytes_max} bytes")));
    }
    text_of(bytes)
}

/// The text that bytes are. A byte order mark is skipped.
pub fn text_of(mut bytes: Vec<u8>) -> Result<String> {
    let wrong = |why: &str| Error::new(ErrorKind::InvalidData, why);
    // With a byte order mark, or by a first character of ASCII.
    let is_utf_16 = match bytes.as_slice() {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [first, second, ..] => (*first == 0) != (*second == 0),
        _ => false,
    };
    if is_utf_16 {
        return Err(wrong("it is in UTF-16: save it in UTF-8"));
    }
    if bytes.starts_with(BOM) {
        bytes.drain(..BOM.len());
    }
    String::from_utf8(bytes).map_err(|_not| wrong("it is not text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_skipped_and_utf_16_is_named() {
        let read = |bytes: &[u8]| text_of(bytes.to_vec()).map_err(|error| error.to_string());
        assert_eq!(read(b"\xef\xbb\xbf{}"), Ok("{}".to_owned()));
        assert_eq!(read("\u{feff}\u{feff}".as_bytes()), Ok("\u{feff}".to_owned()), "one is");
        assert_eq!((read(b""), read(b"a")), (Ok(String::new()), Ok("a".to_owned())));
        for utf_16 in [&b"\xff\xfe{\0}\0"[..], b"\xfe\xff\0{\0}", b"{\0}\0", b"\0{\0}"] {
            assert_eq!(read(utf_16), Err("it is in UTF-16: save it in UTF-8".to_owned()));
        }
        assert_eq!(read(b"caf\xe9"), Err("it is not text in UTF-8".to_owned()));
    }

    #[test]
    fn what_is_too_long_is_refused_and_not_cut() {
        assert_eq!(text_in(&b"abc"[..], 3).unwrap(), "abc");
        assert_eq!(text_in(&b"abcd"[..], 3).unwrap_err().to_string(), "it has more than 3 bytes");
    }
}
