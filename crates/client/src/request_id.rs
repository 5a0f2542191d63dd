//! The ids of requests.

use crate::error::Error;

/// An id that no request had before, in any session: sessions continue in other processes, which do not know what
/// was used. A server may hold the answer to an earlier request for as long as it likes.
pub fn request_id() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Error::Unexpected(error.to_string()))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
