//! Tests that need programs of other languages, or the AWS emulator: `scripts/setup-tools.sh` installs them.

use super::process;

mod clients;
mod containers;
mod instances;
mod legacy_clients;
mod login;
mod tokens;
mod webhooks;
