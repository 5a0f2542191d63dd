//! Labels: short words by which people find a task again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::{LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX};

/// The labels of a task: at most [`LABELS_MAX`] keys, each with one value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(BTreeMap<String, String>);

/// Why a label is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelLimit {
    /// The key is empty, too long, or has other characters.
    #[error(
        "`{0}` cannot be the key of a label: use at most {LABEL_KEY_BYTES_MAX} letters and digits of ASCII, `.`, `_` \
         and `-`"
    )]
    Key(String),
    /// The value is too long.
    #[error("the label `{0}` has {1} bytes, and at most {LABEL_VALUE_BYTES_MAX} are allowed: use a shorter value")]
    Value(String, usize),
    /// The task has as many labels as it can have.
    #[error("the label `{0}` is one too many: a task has at most {LABELS_MAX}")]
    TooMany(String),
}

impl Labels {
    /// Sets a label. An empty value removes it.
    ///
    /// # Errors
    /// [`LabelLimit`]; the labels are then unchanged.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), LabelLimit> {
        check_label_key(key)?;
        if value.is_empty() {
            self.0.remove(key);
        } else if value.len() > LABEL_VALUE_BYTES_MAX {
            return Err(LabelLimit::Value(key.to_owned(), value.len()));
        } else if self.0.len() >= LABELS_MAX && !self.0.contains_key(key) {
            return Err(LabelLimit::TooMany(key.to_owned()));
        } else {
            self.0.insert(key.to_owned(), value.to_owned());
        }
        Ok(())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each key and its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether each of `wanted` is among them, with the same value.
    #[must_use]
    pub fn include(&self, wanted: &Self) -> bool {
        wanted.0.iter().all(|(key, value)| self.0.get(key) == Some(value))
    }
}

/// Whether this can be the key of a label.
///
/// # Errors
/// [`LabelLimit::Key`] if it cannot.
pub fn check_label_key(key: &str) -> Result<(), LabelLimit> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fits = (1..=LABEL_KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(is_allowed);
    if fits { Ok(()) } else { Err(LabelLimit::Key(crate::limits::cut(key, LABEL_KEY_BYTES_MAX))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_one_value_and_an_empty_one_removes_it() {
        let mut labels = Labels::default();
        labels.set("customer", "acme").unwrap();
        labels.set("customer", "globex").unwrap();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("customer", "globex")]);
        labels.set("customer", "").unwrap();
        assert!(labels.is_empty());
    }

    #[test]
    fn limits_hold_for_keys_values_and_their_number() {
        let mut labels = Labels::default();
        for key in ["", "a=b", "a b", "ä", &"k".repeat(65)] {
            assert!(matches!(labels.set(key, "x"), Err(LabelLimit::Key(_))), "{key}");
        }
        assert!(matches!(labels.set("a", &"v".repeat(257)), Err(LabelLimit::Value(_, 257))));
        for number in 0..LABELS_MAX {
            labels.set(&format!("key-{number}"), &"v".repeat(256)).unwrap();
        }
        let full = labels.clone();
        assert_eq!(labels.set("more", "x"), Err(LabelLimit::TooMany("more".to_owned())));
        assert_eq!(labels, full);
        labels.set("key-0", "other").unwrap();
    }

    #[test]
    fn labels_include_those_with_the_same_values() {
        let of = |pairs: &[(&str, &str)]| {
            let mut labels = Labels::default();
            pairs.iter().for_each(|(key, value)| labels.set(key, value).unwrap());
            labels
        };
        let labels = of(&[("a", "1"), ("b", "2")]);
        assert!([of(&[]), of(&[("b", "2")]), labels.clone()].iter().all(|wanted| labels.include(wanted)));
        assert!(![of(&[("a", "2")]), of(&[("a", "1"), ("c", "3")])].iter().any(|wanted| labels.include(wanted)));
    }
}
