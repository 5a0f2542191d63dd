//! The application's own settings, which the local server and the functions read with Longhaul's.

use std::path::PathBuf;

use longhaul::settings::Preset::{Unset, Value};
use longhaul::settings::{Declared, Path, Setting, SettingsError, Switch, Values};

/// The folder for local files.
pub static DATA_DIR: Setting<Path> = Setting::new(
    "data-dir",
    "LONGHAUL_DATA_DIR",
    Path("DIR"),
    "Folder below which `profile_dataset` may read files. Without it, the tool reads inline text and https URLs only.",
)
.local(Unset("none"));

/// Whether there are tools for checking a deployment.
pub static DIAGNOSTICS: Setting<Switch> = Setting::new(
    "diagnostics",
    "LONGHAUL_DIAGNOSTICS",
    Switch,
    "Also serve the tools for checking a deployment: echo, countdown, fail, ask, large_result.",
)
.local(Value("false"))
.lambda(Value("false"))
.parameter("Diagnostics");

/// All of them.
pub static ALL: [&dyn Declared; 2] = [&DATA_DIR, &DIAGNOSTICS];

/// What the operator decides about the tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The folder below which `profile_dataset` may read files; without one it reads none.
    pub data_dir: Option<PathBuf>,
    /// Which tools are served.
    pub tools: ToolSet,
}

/// Which tools are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolSet {
    /// Those that do something for people.
    #[default]
    Product,
    /// Those, and the ones with which people check a deployment.
    WithDiagnostics,
}

impl Settings {
    /// The settings that `values` hold. A function has no files of its own, and so no data directory.
    ///
    /// # Errors
    /// [`SettingsError`]
    pub fn of(values: &Values) -> Result<Self, SettingsError> {
        let tools = if values.get(&DIAGNOSTICS)? { ToolSet::WithDiagnostics } else { ToolSet::Product };
        Ok(Self { data_dir: values.find(&DATA_DIR)?, tools })
    }
}
