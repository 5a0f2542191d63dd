//! What the environment of a Lambda function says about the tools.

use longhaul::lambda::{EnvSource, names};

use crate::{Settings, ToolSet};

/// A setting of the tools that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{name} is `{value}`; it has to be `true` or `false`", name = names::DIAGNOSTICS)]
pub struct InvalidDiagnostics {
    value: String,
}

impl Settings {
    /// The settings in a function's environment. A function has no files of its own, and so no data directory.
    ///
    /// # Errors
    /// [`InvalidDiagnostics`]
    pub fn of_function(env: &dyn EnvSource) -> Result<Self, InvalidDiagnostics> {
        let tools = match env.get(names::DIAGNOSTICS).as_deref() {
            None | Some("" | "false") => ToolSet::Product,
            Some("true") => ToolSet::WithDiagnostics,
            Some(value) => return Err(InvalidDiagnostics { value: value.to_owned() }),
        };
        Ok(Self { data_dir: None, tools })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn diagnostics_are_off_unless_asked_for() {
        let tools = |value| Settings::of_function(&BTreeMap::from([(names::DIAGNOSTICS, value)])).map(|all| all.tools);
        assert_eq!(tools("true").unwrap(), ToolSet::WithDiagnostics);
        assert_eq!(tools("false").unwrap(), ToolSet::Product);
        assert_eq!(tools("").unwrap(), ToolSet::Product);
        assert!(tools("1").is_err());
        assert_eq!(Settings::of_function(&BTreeMap::new()).unwrap().tools, ToolSet::Product);
    }
}
