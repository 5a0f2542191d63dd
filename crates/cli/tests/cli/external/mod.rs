//! Tests that need other programs than Longhaul's: `scripts/setup-tools.sh` installs them.

mod bridge;
mod login;
mod others;
mod signed;
