//! Settings: Longhaul's own, which [`table`] declares, and those that an application declares in the same way.
//!
//! `docs/settings.md` shows the table.

use std::ffi::OsString;

pub use longhaul_settings::{
    Address, Declared, EnvSource, Fault, Flags, Kind, List, Number, Pairs, Path, Place, Preset, Setting, SettingsError,
    Shape, Switch, Text, Url, Values, Words, page, table,
};

/// The environment of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessEnv;

impl EnvSource for ProcessEnv {
    fn get(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }
}
