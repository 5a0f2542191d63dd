//! Hostile inputs for everything that reads bytes from outside. Each target takes any bytes, gives them to the product
//! by the same ways as their senders do, and panics if a promise is broken.
//!
//! `tests/targets.rs` runs every target on its corpus and on some thousand changed inputs, in every test run. `make
//! fuzz` runs them with libFuzzer, which looks for inputs that reach new code. Both call [`run`], so that whatever the
//! fuzzer finds can be run again as a plain test.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a broken promise shows as a panic; nothing here runs in production"
)]

mod client;
mod configurations;
mod data_sets;
mod dialogue;
mod driver;
mod dynamo;
mod events;
mod headers;
mod memory;
mod records;
mod schemas;
mod settings;
mod signed;
mod texts;
mod token_file;
mod tokens;
mod tools;
mod upstream;
mod world;

/// Something that reads bytes from outside.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its folder below `corpus`.
    pub name: &'static str,
    /// Gives it these bytes, and panics if a promise is broken.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 15] = [
    Target { name: "requests", run: dialogue::run },
    Target { name: "headers", run: headers::run },
    Target { name: "signed", run: signed::run },
    Target { name: "schemas", run: schemas::run },
    Target { name: "events", run: events::run },
    Target { name: "records", run: records::run },
    Target { name: "dynamo", run: dynamo::run },
    Target { name: "data_sets", run: data_sets::run },
    Target { name: "settings", run: settings::run },
    Target { name: "texts", run: texts::run },
    Target { name: "token_file", run: token_file::run },
    Target { name: "tokens", run: tokens::run },
    Target { name: "configurations", run: configurations::run },
    Target { name: "upstream", run: upstream::run },
    Target { name: "client", run: client::run },
];

/// The target called `name`.
#[must_use]
pub fn target(name: &str) -> Target {
    let found = TARGETS.into_iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("`{name}` is not a target; the targets are {:?}", TARGETS.map(|target| target.name)))
}

/// Runs the target on an input, and panics if it takes more memory than a request may.
pub fn run(target: Target, input: &[u8]) {
    memory::bounded(|| (target.run)(input));
}
