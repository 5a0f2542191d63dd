//! The labels that a policy gives to the tasks of its tool.

use longhaul_core::{LabelLimit, Labels, check_label_key, limits};
use rmcp::ErrorData;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::TaskPolicy;
use super::shared_limits::OfArguments;

impl TaskPolicy {
    /// Gives the tasks of the tool a label, by which lists find them: `longhaul tasks --label customer=acme`.
    ///
    /// A task has at most 8 labels, including those of [`TaskContext::label`](crate::TaskContext::label). A key has at
    /// most 64 letters and digits of ASCII, `.`, `_` and `-`, and a value at most 256 bytes. An empty value sets no
    /// label.
    ///
    /// The function gets the arguments of the call as any type that they can be read into. A call whose arguments
    /// cannot, or whose value is too long, is refused with `-32602`.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskPolicy;
    /// #[derive(serde::Deserialize)]
    /// struct Export {
    ///     customer: String,
    /// }
    ///
    /// let policy = TaskPolicy::optional().label("customer", |export: &Export| export.customer.clone());
    /// # let _ = policy;
    /// ```
    #[must_use]
    pub fn label<A, V>(mut self, key: impl Into<String>, value: impl Fn(&A) -> V + Send + Sync + 'static) -> Self
    where
        A: DeserializeOwned,
        V: ToString,
    {
        let value = OfArguments::new(move |arguments: &A| value(arguments).to_string());
        self.labels.extend(value.map(|value| (key.into(), value)));
        self
    }

    /// The labels of a call with these arguments. Fails with `-32602` if they make none.
    pub(crate) fn labels_of(
        &self,
        tool: &str,
        arguments: impl FnOnce() -> serde_json::Result<Value>,
    ) -> Result<Labels, ErrorData> {
        let mut labels = Labels::default();
        if self.labels.is_empty() {
            return Ok(labels);
        }
        let unread = |error| {
            let message = format!("the labels of `{tool}` cannot be read from these arguments: {error}");
            ErrorData::invalid_params(message, None)
        };
        let arguments = arguments().map_err(unread)?;
        for (key, OfArguments(value)) in &self.labels {
            let value = value(arguments.clone()).map_err(unread)?;
            labels.set(key, &value).map_err(|limit| ErrorData::invalid_params(limit.to_string(), None))?;
        }
        Ok(labels)
    }

    /// The label that no task can have, in a sentence.
    pub(super) fn label_contradiction(&self) -> Option<String> {
        for (number, (key, _)) in self.labels.iter().enumerate() {
            if let Err(limit) = check_label_key(key) {
                return Some(limit.to_string());
            }
            if self.labels.iter().skip(number + 1).any(|(other, _)| other == key) {
                return Some(format!("the label `{key}` is set twice: name each label once"));
            }
            if number >= limits::LABELS_MAX {
                return Some(LabelLimit::TooMany(key.clone()).to_string());
            }
        }
        None
    }
}
