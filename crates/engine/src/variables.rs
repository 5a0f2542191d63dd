//! A task's variables, a small JSON object that outlives attempts, and what they may be.

use longhaul_core::limits;
use serde_json::{Map, Value};

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
    #[error("a string inside a variable may have at most {bytes_max} bytes; record large texts as a step's value")]
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

/// The variables of an attempt, read from the record when they are first needed.
#[derive(Default)]
pub(crate) struct Variables {
    pub(crate) values: Option<Map<String, Value>>,
    pub(crate) version: u32,
    /// A write whose answer was lost may still be applied, and would then overwrite a later write of the same attempt.
    pub(crate) may_land_late: bool,
}

/// All variables of a task as JSON text.
///
/// # Errors
/// [`VariableLimit::TooLarge`] and [`VariableLimit::Unwritable`]
pub fn write_variables(values: &Map<String, Value>) -> Result<String, VariableLimit> {
    let text = serde_json::to_string(values).map_err(|error| VariableLimit::Unwritable(error.to_string()))?;
    let (bytes, bytes_max) = (text.len(), limits::VARIABLES_BYTES_MAX);
    if bytes > bytes_max { Err(VariableLimit::TooLarge { bytes, bytes_max }) } else { Ok(text) }
}

/// Checks that a variable of this name may have this value.
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
