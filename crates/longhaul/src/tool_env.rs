//! Settings and secrets of tools.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rmcp::ErrorData;

/// The settings and secrets of tools: names with values, some of which may be secrets.
///
/// On AWS the values come from the setting `tool-env`, and the secrets from Secrets Manager or SSM, by `secret-names`
/// and the parameter `SecretArns`. On a local server they come from `--tool-env NAME=VALUE` and
/// `--secret NAME=file:PATH`. In a test, make one:
///
/// ```
/// use longhaul::ToolEnv;
/// use longhaul::rmcp::ErrorData;
///
/// struct Mail {
///     env: ToolEnv,
/// }
///
/// impl Mail {
///     fn greeting(&self) -> Result<String, ErrorData> {
///         let password = self.env.get("MAIL_PASSWORD")?;
///         Ok(format!("{} signs in with {} bytes", self.env.get("MAIL_USER")?, password.len()))
///     }
/// }
///
/// let mail = Mail { env: ToolEnv::from([("MAIL_USER", "ann"), ("MAIL_PASSWORD", "secret")]) };
/// assert_eq!(mail.greeting().unwrap(), "ann signs in with 6 bytes");
/// assert_eq!(format!("{:?}", mail.env), r#"ToolEnv {"MAIL_PASSWORD", "MAIL_USER"}"#);
/// ```
///
/// Read it where the tool runs, not where the server is made: the function that answers requests has no secrets, and
/// makes the same server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ToolEnv(Arc<BTreeMap<String, String>>);

impl ToolEnv {
    /// The value of `name`.
    ///
    /// # Errors
    /// [`NotInToolEnv`], which says how to set it, and becomes an error of a tool by `?`.
    pub fn get(&self, name: &str) -> Result<&str, NotInToolEnv> {
        self.find(name).ok_or_else(|| NotInToolEnv { name: name.to_owned() })
    }

    /// The value of `name`, if there is one.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for ToolEnv {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(values: I) -> Self {
        Self(Arc::new(values.into_iter().map(|(name, value)| (name.into(), value.into())).collect()))
    }
}

impl<K: Into<String>, V: Into<String>, const N: usize> From<[(K, V); N]> for ToolEnv {
    fn from(values: [(K, V); N]) -> Self {
        values.into_iter().collect()
    }
}

impl fmt::Debug for ToolEnv {
    /// The names only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToolEnv ")?;
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A tool has asked for something that is not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotInToolEnv {
    /// The name that was requested.
    pub name: String,
}

impl fmt::Display for NotInToolEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        write!(
            f,
            "`{name}` is not set for tools. On AWS name it in the setting tool-env, or as a secret in secret-names and \
             SecretArns, which workers alone have; on a local server use `--tool-env {name}=VALUE` or \
             `--secret {name}=file:PATH`"
        )
    }
}

impl std::error::Error for NotInToolEnv {}

impl From<NotInToolEnv> for ErrorData {
    /// The log says what is missing; a client learns that something is.
    fn from(missing: NotInToolEnv) -> Self {
        tracing::error!(name = missing.name, "{missing}");
        Self::internal_error("the server lacks a setting that this tool needs", None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_to_the_operator_and_not_to_clients() {
        let missing = ToolEnv::default().get("DB_PASSWORD").unwrap_err();
        for part in ["`DB_PASSWORD`", "SecretArns", "--secret DB_PASSWORD=file:PATH"] {
            assert!(missing.to_string().contains(part), "{missing}");
        }
        assert!(!ErrorData::from(missing).message.contains("DB_PASSWORD"));
    }

    #[test]
    fn debug_output_has_no_values() {
        let env = ToolEnv::from([("DB_PASSWORD", "hunter2")]);
        assert_eq!(env.get("DB_PASSWORD"), Ok("hunter2"));
        assert_eq!(format!("{env:?}"), r#"ToolEnv {"DB_PASSWORD"}"#);
    }
}
