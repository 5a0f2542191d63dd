//! The application's own settings, which the local server and the functions read with Longhaul's.

use std::path::PathBuf;

use longhaul::ToolEnv;
use longhaul::settings::Preset::{Unset, Value};
use longhaul::settings::{Path, SettingsError, Switch, Values, declare};

declare! {
    ALL of "LONGHAUL_";

    DATA_DIR: Path = Path("DIR"), local Unset("none") =>
        "Folder below which `profile_dataset` may read files. Without it, the tool reads inline text and https URLs \
         only.";
    DIAGNOSTICS: Switch = Switch, local Value("false"), lambda Value("false"), parameter "Settings" =>
        "Also serve the tools for checking a deployment: echo, fail, ask, gather, large_result, tool_env.";
}

/// The operator's settings of the tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The folder below which `profile_dataset` may read files; if unset, it reads no files.
    pub data_dir: Option<PathBuf>,
    /// Which tools are served.
    pub tools: ToolSet,
    /// The environment of the tools.
    pub env: ToolEnv,
}

/// Which tools are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolSet {
    /// The tools that users call.
    #[default]
    Product,
    /// The same, and the tools for checking a deployment.
    WithDiagnostics,
}

impl Settings {
    /// The settings that `values` hold, for tools with this environment. A Lambda function has no local files, so it
    /// has no data directory.
    pub fn of(values: &Values, env: ToolEnv) -> Result<Self, SettingsError> {
        let tools = if values.get(&DIAGNOSTICS)? { ToolSet::WithDiagnostics } else { ToolSet::Product };
        Ok(Self { data_dir: values.find(&DATA_DIR)?, tools, env })
    }
}
