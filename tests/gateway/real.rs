//! Tests that need more than Rust: servers from their registries, FastMCP, and the AWS emulator, all of which
//! `scripts/setup-tools.sh` installs. `--skip real::` runs the others.

mod outside_jobs;
mod servers;
mod tasks;
