//! Variables: small state that outlives attempts.

use std::future::Future;

use longhaul_core::strict_json;
use longhaul_engine::VariableLimit;
use rmcp::ErrorData;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::TaskContext;

/// Why a variable was not set, or could not be read. The variables are as they were.
///
/// In a tool that returns `Result<_, ErrorData>`, `?` makes it an internal error.
///
/// ```
/// # use longhaul_mcp as longhaul;
/// use longhaul::{TaskContext, VariableError};
///
/// /// Where to continue: at the beginning if an earlier version of the tool left something else.
/// async fn cursor(task: &TaskContext) -> Result<u64, VariableError> {
///     match task.get("cursor").await {
///         Err(VariableError::WrongType { .. }) => Ok(0),
///         found => Ok(found?.unwrap_or(0)),
///     }
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VariableError {
    /// The value cannot be written as JSON, such as a map whose keys are not strings.
    #[error("the value of the variable `{name}` cannot be written as JSON")]
    NotJson {
        /// Which variable.
        name: String,
        /// The cause.
        #[source]
        cause: serde_json::Error,
    },
    /// The variable holds something else than the type that was asked for.
    #[error("the variable `{name}` does not have the type that the tool expects")]
    WrongType {
        /// Which variable.
        name: String,
        /// The cause.
        #[source]
        cause: serde_json::Error,
    },
    /// The name or the value exceeds a limit.
    #[error("the variable `{name}` cannot be set")]
    Limit {
        /// Which variable.
        name: String,
        /// Which limit.
        #[source]
        cause: VariableLimit,
    },
}

impl From<VariableError> for ErrorData {
    fn from(error: VariableError) -> Self {
        let message = match &error {
            VariableError::NotJson { cause, .. } | VariableError::WrongType { cause, .. } => {
                format!("{error}: {cause}")
            }
            VariableError::Limit { cause, .. } => format!("{error}: {cause}"),
        };
        Self::internal_error(message, None)
    }
}

impl TaskContext {
    /// The variable `name` as it was last [set](Self::set), in this attempt or an earlier one; `None` if it is not set.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # use rmcp::ErrorData;
    /// # async fn tool(task: TaskContext) -> Result<(), ErrorData> {
    /// let cursor = task.get::<u64>("cursor").await?.unwrap_or(0);
    /// task.set("cursor", &(cursor + 1)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`VariableError::WrongType`] if it holds something that is not a `T`.
    pub async fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, VariableError> {
        let read = self.0.attempt.variable(name).await.map(strict_json::from_value).transpose();
        read.map_err(|cause| VariableError::WrongType { name: name.to_owned(), cause })
    }

    /// Sets a variable: small state that outlives attempts and that later attempts read with [`get`](Self::get). Unlike
    /// a step, a variable can change. In a plain call it lives as long as the call. A value that is written as JSON
    /// `null`, such as `None`, removes the variable.
    ///
    /// # Errors
    /// [`VariableError`] if the value is not JSON or exceeds a limit.
    pub fn set<T: Serialize + ?Sized>(
        &self,
        name: &str,
        value: &T,
    ) -> impl Future<Output = Result<(), VariableError>> + Send {
        // Written before the future is made, so that the future can move between threads whatever `T` is.
        let value = serde_json::to_value(value);
        async move {
            let value = value.map_err(|cause| VariableError::NotJson { name: name.to_owned(), cause })?;
            self.set_value(name, value).await
        }
    }

    /// Removes a variable. Nothing happens if it is not set.
    ///
    /// # Errors
    /// [`VariableError::Limit`] if no variable can have this name.
    pub async fn remove(&self, name: &str) -> Result<(), VariableError> {
        self.set_value(name, Value::Null).await
    }

    async fn set_value(&self, name: &str, value: Value) -> Result<(), VariableError> {
        let set = self.0.attempt.set_variable(name, value).await;
        set.map_err(|cause| VariableError::Limit { name: name.to_owned(), cause })
    }
}
