//! The file of a list of tokens, which only its owner may read.

use std::io::Read;
use std::path::Path;

use super::list::{FILE_BYTES_MAX, TokensError};

/// The content of the file at `path`.
///
/// # Errors
/// If it cannot be read, is too large, or others may read it.
pub fn read_token_file(path: &Path) -> Result<Vec<u8>, TokensError> {
    // Before it is opened: opening a pipe waits for somebody who writes to it.
    if !std::fs::metadata(path)?.is_file() {
        return Err(TokensError::NotAFile);
    }
    let file = std::fs::File::open(path)?;
    if is_open_to_others(&file.metadata()?) {
        return Err(TokensError::Open);
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(TokensError::TooLarge);
    }
    Ok(bytes)
}

#[cfg(unix)]
fn is_open_to_others(file: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;

    file.mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn is_open_to_others(_file: &std::fs::Metadata) -> bool {
    false
}
