//! A task's variables, a small JSON object that outlives attempts, and what they may be.

use std::sync::atomic::AtomicU32;

use longhaul_core::{PartsName, TaskEvent, limits, strict_json};
use serde_json::{Map, Value};

use crate::Attempt;
use crate::attempt::Variables;
use crate::suspension::Reason;

/// The limit that a variable would exceed. It was not set: all variables are unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VariableLimit {
    /// The name is empty or too long.
    #[error("a variable's name must have 1 to {bytes_max} bytes")]
    InvalidName {
        /// The limit.
        bytes_max: usize,
    },
    /// The value is nested too deeply.
    #[error("a variable may be nested at most {depth_max} deep; record large structures as a step's value")]
    TooDeep {
        /// The limit.
        depth_max: usize,
    },
    /// A string inside the value is too long.
    #[error("a string inside a variable may have at most {bytes_max} bytes; record large strings as a step's value")]
    StringTooLong {
        /// The limit.
        bytes_max: usize,
    },
    /// All variables together are too large.
    #[error("all variables of a task may have at most {bytes_max} bytes together; these would have {bytes}")]
    TooLarge {
        /// The size that they would have.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The variables cannot be written as JSON, for this reason.
    #[error("the variables cannot be written as JSON: {0}")]
    Unwritable(String),
}

/// All variables of a task as JSON text.
pub fn write_variables(values: &Map<String, Value>) -> Result<String, VariableLimit> {
    let text = serde_json::to_string(values).map_err(|error| VariableLimit::Unwritable(error.to_string()))?;
    let (bytes, bytes_max) = (text.len(), limits::VARIABLES_BYTES_MAX);
    if bytes > bytes_max { Err(VariableLimit::TooLarge { bytes, bytes_max }) } else { Ok(text) }
}

/// Checks that a variable of this name may have this value.
pub fn check_variable(name: &str, value: &Value) -> Result<(), VariableLimit> {
    if name.is_empty() || name.len() > limits::NAME_BYTES_MAX {
        return Err(VariableLimit::InvalidName { bytes_max: limits::NAME_BYTES_MAX });
    }
    check_value(value, limits::VARIABLE_DEPTH_MAX)
}

fn check_value(value: &Value, depth_left: usize) -> Result<(), VariableLimit> {
    let check_string = |text: &str| {
        let bytes_max = limits::VARIABLE_STRING_BYTES_MAX;
        if text.len() > bytes_max { Err(VariableLimit::StringTooLong { bytes_max }) } else { Ok(()) }
    };
    let deeper = || depth_left.checked_sub(1).ok_or(VariableLimit::TooDeep { depth_max: limits::VARIABLE_DEPTH_MAX });
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        Value::String(text) => check_string(text),
        Value::Array(items) => {
            let depth_left = deeper()?;
            items.iter().try_for_each(|item| check_value(item, depth_left))
        }
        Value::Object(fields) => {
            let depth_left = deeper()?;
            fields.iter().try_for_each(|(name, field)| {
                check_string(name)?;
                check_value(field, depth_left)
            })
        }
    }
}

impl Attempt {
    /// The variable `name` as it was last set, in this attempt or an earlier one.
    pub async fn variable(&self, name: &str) -> Option<Value> {
        let mut variables = self.shared().variables.lock().await;
        self.values(&mut variables).await.get(name).cloned()
    }

    /// Sets a variable and writes all of them; `null` removes it.
    ///
    /// # Errors
    /// [`VariableLimit`] if the value exceeds a limit. If the store does not answer, the attempt ends instead.
    pub async fn set_variable(&self, name: &str, value: Value) -> Result<(), VariableLimit> {
        check_variable(name, &value)?;
        let mut variables = self.shared().variables.lock().await;
        let mut values = self.values(&mut variables).await.clone();
        if value.is_null() {
            values.shift_remove(name);
        } else {
            values.insert(name.to_owned(), value);
        }
        if variables.values.as_ref() == Some(&values) {
            return Ok(());
        }
        let text = write_variables(&values)?;
        if self.task().has_ended() || !self.is_stored() {
            variables.values = Some(values);
            return Ok(());
        }
        if variables.may_land_late {
            // The next attempt's claim fences off the late write.
            self.shared().suspend.yield_attempt();
            return std::future::pending().await;
        }
        variables.version += 1;
        // Until the write is answered, even if the tool drops this future.
        variables.may_land_late = true;
        let tries = self.write(text, variables.version).await;
        variables.may_land_late = tries > 1;
        variables.values = Some(values);
        Ok(())
    }

    /// Writes the variables and returns how many tries that took.
    async fn write(&self, text: String, version: u32) -> u32 {
        let (engine, task) = (&self.shared().engine, &self.shared().task);
        let name = PartsName::Variables { attempt: task.attempt, version };
        let tries = AtomicU32::new(0);
        let written = match engine.store_payload(&task.key(), name, text, limits::INLINE_BYTES_MAX).await {
            Ok(variables) => {
                let event = TaskEvent::SetVariables { attempt: task.attempt, variables };
                engine.apply_counting(&task.key(), &event, &tries).await.map(drop)
            }
            Err(error) => Err(error.into()),
        };
        match written {
            Ok(()) => tries.into_inner(),
            Err(error) => self.abort(Reason::Retry(format!("the variables could not be written: {error}"))).await,
        }
    }

    async fn values<'a>(&self, variables: &'a mut Variables) -> &'a mut Map<String, Value> {
        if variables.values.is_none() {
            variables.values = Some(self.stored_values().await);
        }
        variables.values.get_or_insert_default()
    }

    async fn stored_values(&self) -> Map<String, Value> {
        let Some(payload) = &self.shared().task.variables else { return Map::new() };
        let text = self.load_or_abort(payload).await;
        match strict_json::from_str(&text) {
            Ok(values) => values,
            Err(error) => self.abort(Reason::corrupt(format!("the variables cannot be read: {error}"))).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn depth_is_limited() {
        let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(check_variable("v", &nested(10)), Ok(()));
        assert_eq!(check_variable("v", &nested(11)), Err(VariableLimit::TooDeep { depth_max: 10 }));
        let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({ "in": inner }));
        assert_eq!(check_variable("v", &nested(10)), Ok(()));
        assert_eq!(check_variable("v", &nested(11)), Err(VariableLimit::TooDeep { depth_max: 10 }));
    }

    #[test]
    fn names_are_limited() {
        let refused = Err(VariableLimit::InvalidName { bytes_max: 256 });
        assert_eq!(check_variable("", &json!(1)), refused);
        assert_eq!(check_variable(&"n".repeat(256), &json!(1)), Ok(()));
        assert_eq!(check_variable(&"n".repeat(257), &json!(1)), refused);
    }

    #[test]
    fn all_variables_together_are_limited() {
        // `{"v":"…"}` has 8 bytes around the text.
        let variables = |bytes: usize| Map::from_iter([("v".to_owned(), json!("x".repeat(bytes - 8)))]);
        let bytes_max = 1_048_576;
        assert_eq!(write_variables(&variables(bytes_max)).map(|text| text.len()), Ok(bytes_max));
        let refused = Err(VariableLimit::TooLarge { bytes: bytes_max + 1, bytes_max });
        assert_eq!(write_variables(&variables(bytes_max + 1)), refused);
    }

    #[test]
    fn strings_are_limited_wherever_they_occur() {
        assert_eq!(check_variable("v", &json!("x".repeat(64 * 1024))), Ok(()));
        let long = "x".repeat(64 * 1024 + 1);
        for value in [json!(long), json!({"a": [long]}), json!({ long.clone(): 1 })] {
            assert_eq!(check_variable("v", &value), Err(VariableLimit::StringTooLong { bytes_max: 65_536 }));
        }
    }
}
