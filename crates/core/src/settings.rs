//! The settings of an operator. Each is declared once, in [`table`]: its names, its range, its defaults and one
//! sentence. The flags of the local server and the environment of the Lambda functions come from that table. Tests
//! compare the parameters of the template and `docs/settings.md` with it.
//!
//! An application declares its own settings in the same way, with [`declare!`], or as a `static` [`Setting`] for each.

#![expect(clippy::wildcard_enum_match_arm, reason = "settings are values of JSON, not states of a task")]

mod bundles;
mod declare;
mod kind;
mod page;
mod removed;
mod setting;
mod source;
mod stores;
pub mod table;
mod text;
mod values;

pub use crate::declare;
#[doc(hidden)]
pub use declare::{flag, text};
pub use kind::{Address, List, Number, Pairs, Path, ScopeList, Switch, Text, Url, Words};
pub use page::page;
pub use removed::REMOVED;
pub use setting::{Declared, Kind, Place, Preset, Setting, Shape, Third};
pub use source::{EnvSource, Fault, Flags, SettingsError};
pub use stores::{Queue, QueueAt, Store, StoreAt};
pub use text::{BOM, read_text, text_in, text_of};
pub use values::Values;
