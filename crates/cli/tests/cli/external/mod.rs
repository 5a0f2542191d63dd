//! Tests that need other programs than ours: `scripts/setup-tools.sh` installs them.

mod bridge;
mod login;
mod others;
mod signed;
