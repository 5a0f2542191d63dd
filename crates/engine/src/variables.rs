//! A task's variables: a small JSON object that outlives legs.

use std::sync::atomic::AtomicU32;

use longhaul_core::planted::{Fault, planted};
use longhaul_core::{PartsName, TaskEvent, limits};
use serde_json::{Map, Value};

use crate::Leg;
use crate::suspension::Reason;

/// The limit that a variable would exceed. It was not set: all variables are as they were.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VariableLimit {
    /// The name is empty or too long.
    #[error("the name of a variable has between 1 and {bytes_max} bytes")]
    InvalidName {
        /// The limit.
        bytes_max: usize,
    },
    /// The value is nested too deeply.
    #[error(
        "the value of a variable may be nested at most {depth_max} deep; record larger structures as the value of a step"
    )]
    TooDeep {
        /// The limit.
        depth_max: usize,
    },
    /// A string inside the value is too long.
    #[error("a string in a variable may have at most {bytes_max} bytes; record longer texts as the value of a step")]
    StringTooLong {
        /// The limit.
        bytes_max: usize,
    },
    /// All variables together are too large.
    #[error(
        "all variables of a task may have at most {bytes_max} bytes together; with this one they would have {bytes}"
    )]
    TooLarge {
        /// How many bytes they would have.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
}

/// The variables of a leg, read from the record when they are first needed.
#[derive(Default)]
pub(crate) struct Variables {
    values: Option<Map<String, Value>>,
    version: u32,
    /// A write whose answer was lost may still land, and would take back a later one of the same attempt.
    may_land_late: bool,
}

impl Leg {
    /// The variable `name` as it was last set, in this leg or an earlier one.
    pub async fn variable(&self, name: &str) -> Option<Value> {
        let mut variables = self.shared().variables.lock().await;
        self.values(&mut variables).await.get(name).cloned()
    }

    /// Sets a variable and writes all of them down; `null` removes it.
    ///
    /// # Errors
    /// [`VariableLimit`] if the value exceeds a limit. If the store does not answer, the leg ends instead.
    pub async fn set_variable(&self, name: &str, value: Value) -> Result<(), VariableLimit> {
        check_variable(name, &value)?;
        let mut variables = self.shared().variables.lock().await;
        let mut values = self.values(&mut variables).await.clone();
        if value.is_null() {
            values.remove(name);
        } else {
            values.insert(name.to_owned(), value);
        }
        if variables.values.as_ref() == Some(&values) {
            return Ok(());
        }
        let text = write_variables(&values)?;
        if variables.may_land_late {
            // The next attempt's claim fences the late write off.
            self.shared().slot.yield_leg();
            return std::future::pending().await;
        }
        variables.version += 1;
        // Until the write is answered, also where the tool drops this future.
        variables.may_land_late = true;
        let tries = self.write(text, variables.version).await;
        variables.may_land_late = tries > 1;
        variables.values = Some(values);
        Ok(())
    }

    /// Writes the variables and says how many tries that took.
    async fn write(&self, text: String, version: u32) -> u32 {
        if planted(Fault::VariablesNotWritten) {
            return 1;
        }
        let (engine, task) = (&self.shared().engine, &self.shared().task);
        let name = PartsName::Variables { attempt: task.attempt, version };
        let tries = AtomicU32::new(0);
        let written = match engine.keep(&task.key(), name, text, limits::INLINE_BYTES_MAX).await {
            Ok(variables) => {
                let event = TaskEvent::SetVariables { attempt: task.attempt, variables };
                engine.apply_counting(&task.key(), &event, &tries).await.map(drop)
            }
            Err(error) => Err(error.into()),
        };
        match written {
            Ok(()) => tries.into_inner(),
            Err(error) => self.break_off(Reason::Retry(format!("the variables could not be written: {error}"))).await,
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
        let text = self.load_or_break_off(payload).await;
        match serde_json::from_str(&text) {
            Ok(values) => values,
            Err(error) => self.break_off(Reason::corrupt(format!("the variables cannot be read: {error}"))).await,
        }
    }
}

/// All variables of a task as JSON text.
///
/// # Errors
/// [`VariableLimit::TooLarge`]
pub fn write_variables(values: &Map<String, Value>) -> Result<String, VariableLimit> {
    let text = serde_json::to_string(values).unwrap_or_default();
    let (bytes, bytes_max) = (text.len(), limits::VARIABLES_BYTES_MAX);
    if bytes > bytes_max { Err(VariableLimit::TooLarge { bytes, bytes_max }) } else { Ok(text) }
}

/// Whether a variable of this name may have this value.
///
/// # Errors
/// [`VariableLimit`]
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn depth_is_limited() {
        let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(check_variable("v", &nested(10)), Ok(()));
        assert_eq!(check_variable("v", &nested(11)), Err(VariableLimit::TooDeep { depth_max: 10 }));
    }

    #[test]
    fn strings_are_limited_wherever_they_stand() {
        let long = "x".repeat(64 * 1024 + 1);
        for value in [json!(long), json!({"a": [long]}), json!({ long.clone(): 1 })] {
            assert_eq!(check_variable("v", &value), Err(VariableLimit::StringTooLong { bytes_max: 65_536 }));
        }
    }
}
