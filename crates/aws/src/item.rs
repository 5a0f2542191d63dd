//! Items and their attributes: writing values, and reading them back with an error that names the attribute.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_core::Timestamp;
use longhaul_core::ports::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// An item, or the attributes inside a map.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// An attribute that is missing, or is not what it should be.
#[derive(Debug, thiserror::Error)]
#[error("the attribute `{attribute}` of a stored item is missing or cannot be read")]
pub(crate) struct Unreadable {
    pub(crate) attribute: &'static str,
}

impl From<Unreadable> for StoreError {
    fn from(error: Unreadable) -> Self {
        Self::Corrupt(Box::new(error))
    }
}

/// A text.
pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

/// A whole number.
pub(crate) fn number(value: impl Into<i128>) -> AttributeValue {
    AttributeValue::N(value.into().to_string())
}

/// A moment, in milliseconds.
pub(crate) fn moment(at: Timestamp) -> AttributeValue {
    number(at.as_ms())
}

/// A moment as DynamoDB's TTL expects it: in seconds, rounded up.
pub(crate) fn seconds(at: Timestamp) -> AttributeValue {
    number(at.as_ms().div_ceil(1_000))
}

/// A hash as its bytes.
pub(crate) fn hash(hash: [u8; 32]) -> AttributeValue {
    AttributeValue::B(Blob::new(hash))
}

/// A small value as JSON text.
pub(crate) fn json<T: Serialize>(value: &T) -> AttributeValue {
    // The domain's values are texts, numbers and lists of them, which can always be written as JSON.
    text(serde_json::to_string(value).unwrap_or_default())
}

/// The word that serde writes for a value without fields.
pub(crate) fn word<T: Serialize>(value: &T) -> AttributeValue {
    text(serde_json::to_value(value).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default())
}

/// Reads the attributes of an item.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a Item);

impl<'a> Fields<'a> {
    pub(crate) fn has(self, attribute: &str) -> bool {
        self.0.contains_key(attribute)
    }

    pub(crate) fn value(self, attribute: &'static str) -> Result<&'a AttributeValue, Unreadable> {
        self.0.get(attribute).ok_or(Unreadable { attribute })
    }

    pub(crate) fn text(self, attribute: &'static str) -> Result<&'a str, Unreadable> {
        self.value(attribute)?.as_s().map(String::as_str).map_err(|_other_type| Unreadable { attribute })
    }

    pub(crate) fn number<T: std::str::FromStr>(self, attribute: &'static str) -> Result<T, Unreadable> {
        let digits = self.value(attribute)?.as_n().map_err(|_other_type| Unreadable { attribute })?;
        digits.parse().map_err(|_not_in_range| Unreadable { attribute })
    }

    pub(crate) fn moment(self, attribute: &'static str) -> Result<Timestamp, Unreadable> {
        Ok(Timestamp::from_ms(self.number(attribute)?))
    }

    pub(crate) fn hash(self, attribute: &'static str) -> Result<[u8; 32], Unreadable> {
        let bytes = self.value(attribute)?.as_b().map_err(|_other_type| Unreadable { attribute })?;
        bytes.as_ref().try_into().map_err(|_other_length| Unreadable { attribute })
    }

    pub(crate) fn json<T: DeserializeOwned>(self, attribute: &'static str) -> Result<T, Unreadable> {
        serde_json::from_str(self.text(attribute)?).map_err(|_not_such_json| Unreadable { attribute })
    }

    pub(crate) fn word<T: DeserializeOwned>(self, attribute: &'static str) -> Result<T, Unreadable> {
        serde_json::from_value(self.text(attribute)?.into()).map_err(|_no_such_word| Unreadable { attribute })
    }

    pub(crate) fn map(self, attribute: &'static str) -> Result<Self, Unreadable> {
        self.value(attribute)?.as_m().map(Fields).map_err(|_other_type| Unreadable { attribute })
    }

    /// The attribute, read with `read`; `None` if it is absent.
    pub(crate) fn optional<T>(
        self,
        attribute: &'static str,
        read: impl FnOnce(Self, &'static str) -> Result<T, Unreadable>,
    ) -> Result<Option<T>, Unreadable> {
        if self.has(attribute) { read(self, attribute).map(Some) } else { Ok(None) }
    }
}
