//! Settings of your own, declared as Longhaul's own are, which `docs/settings.md` lists.
//!
//! [`declare!`] declares settings, which the command line's help page, the environment and the checks then know:
//!
//! ```
//! use longhaul::settings::Preset::Value;
//! use longhaul::settings::{Switch, declare};
//!
//! declare! {
//!     ALL of "REPORTS_";
//!
//!     DRAFTS: Switch = Switch, local Value("false"), lambda Value("false") => "Also list drafts.";
//! }
//!
//! # #[cfg(feature = "serve")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul::serve::CommandLine;
//! use longhaul::settings::ProcessEnv;
//!
//! let command_line = CommandLine::new("reports").settings(&ALL);
//! let options = command_line.read(["reports", "--drafts"], &ProcessEnv)?;
//! assert!(options.values().get(&DRAFTS)?);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "serve"))]
//! # fn main() {}
//! ```

use std::ffi::OsString;

pub use longhaul_core::settings::{
    EnvSource, List, Number, Pairs, Path, Preset, Setting, SettingsError, Switch, Text, Url, Values, Words, declare,
};

/// The environment of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessEnv;

impl EnvSource for ProcessEnv {
    fn get(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }
}
