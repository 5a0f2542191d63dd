//! What the environment of a Lambda function says about the tools.

use longhaul::lambda::{EnvSource, names};

use crate::{Settings, ToolSet};

impl Settings {
    /// The settings in a function's environment. A function has no files of its own, and so no data directory. What is
    /// neither `true` nor `false` is told when the function's whole configuration is read, with all that is wrong there.
    #[must_use]
    pub fn of_function(env: &dyn EnvSource) -> Self {
        let tools = match env.get(names::DIAGNOSTICS).as_deref() {
            Some("true") => ToolSet::WithDiagnostics,
            Some(_) | None => ToolSet::Product,
        };
        Self { data_dir: None, tools }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn diagnostics_are_off_unless_asked_for() {
        let tools = |value| Settings::of_function(&BTreeMap::from([(names::DIAGNOSTICS, value)])).tools;
        assert_eq!(tools("true"), ToolSet::WithDiagnostics);
        for other in ["false", "", "1", "True"] {
            assert_eq!(tools(other), ToolSet::Product, "{other}");
        }
        assert_eq!(Settings::of_function(&BTreeMap::new()).tools, ToolSet::Product);
    }
}
