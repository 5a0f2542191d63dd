//! The AWS emulator: one for all test processes, and separate tables and queues for each test.

use std::fs::File;
use std::io::Read;
use std::process::Command;
use std::sync::OnceLock;

use crate::{output_of, root};

#[cfg(feature = "aws")]
mod resources;

#[cfg(feature = "aws")]
pub use resources::{RECEIVES_MAX, config, config_of, create_queues, create_table, queues, table};

/// The endpoint of the emulator that `start` starts, unless another process has started it. It runs at least as long as
/// the file is open. `state` is its folder below the checkout's root.
pub fn shared(state: &str, start: &mut Command) -> (File, String) {
    let state = root().join(state);
    std::fs::create_dir_all(&state).unwrap();
    let used = File::options().create(true).append(true).open(state.join("users.lock")).unwrap();
    used.lock_shared().unwrap();
    (used, output_of(start).trim().to_owned())
}

/// The endpoint of an emulator without functions, which runs at least as long as this process.
pub fn endpoint() -> &'static str {
    static EMULATOR: OnceLock<(File, String)> = OnceLock::new();
    let start = || shared(".cache/emulator", Command::new(root().join("scripts/emulator.sh")).arg("shared"));
    &EMULATOR.get_or_init(start).1
}

/// A name that no other test uses.
pub fn fresh_name() -> String {
    let mut random = [0_u8; 6];
    File::open("/dev/urandom").unwrap().read_exact(&mut random).unwrap();
    random.iter().fold("test-".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}
