//! Texts of any size up to their limit: inline in the record, or in parts next to it.

use longhaul_core::ports::StoreError;
use longhaul_core::{PartsName, Payload, TaskKey, limits, split};

use crate::{Engine, LoadError};

impl Engine {
    /// Stores `text`: inline if it has at most `inline_max` bytes, otherwise in parts that are written now, before any
    /// record names them.
    pub(crate) async fn store_payload(
        &self,
        key: &TaskKey,
        name: PartsName,
        text: String,
        inline_max: usize,
    ) -> Result<Payload, StoreError> {
        let (payload, parts) = payload(name.clone(), text, inline_max);
        if !parts.is_empty() {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            self.with_retry(|| self.store().put_parts(key, &name, &parts)).await?;
        }
        Ok(payload)
    }

    /// The text of `payload`. Costs no call if it is inline, and one call if it is in parts.
    ///
    /// # Errors
    /// [`LoadError`]
    pub async fn load(&self, key: &TaskKey, payload: &Payload) -> Result<String, LoadError> {
        match payload {
            Payload::Inline(text) => Ok(text.clone()),
            Payload::Parts { name, count, bytes } => {
                let text = self.with_retry(|| self.store().parts(key, name, *count)).await;
                let text = text.map_err(self.unavailable(LoadError::Unavailable))?;
                text.filter(|text| text.len() as u64 == *bytes).ok_or(LoadError::Missing)
            }
        }
    }
}

/// What a record has for `text`: the text itself if it has at most `inline_max` bytes, otherwise the name of its parts,
/// which have to be written before the record.
pub(crate) fn payload(name: PartsName, text: String, inline_max: usize) -> (Payload, Vec<String>) {
    if text.len() <= inline_max {
        return (Payload::Inline(text), Vec::new());
    }
    let parts: Vec<String> = split(&text, limits::PART_BYTES).into_iter().map(str::to_owned).collect();
    let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    (Payload::Parts { name, count, bytes: text.len() as u64 }, parts)
}
