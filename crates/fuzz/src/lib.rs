//! Hostile inputs for everything that reads bytes from outside. Each target takes any bytes, gives them to the product
//! by the same ways as their senders do, and panics if a promise is broken.
//!
//! `tests/targets.rs` runs every target on its corpus and on some thousand changed inputs, in every test run. `make
//! fuzz` runs them with libFuzzer, which looks for inputs that reach new code. Both call [`run`], so that an input that
//! the fuzzer finds can be run again as a plain test.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a broken promise shows as a panic; nothing here runs in production"
)]

mod driver;
mod memory;
mod tools;
mod world;

/// Something that reads bytes from outside.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its folder below `corpus`.
    pub name: &'static str,
    /// Gives it these bytes, and panics if a promise is broken.
    pub run: fn(&[u8]),
}

/// The targets: a module each, with a function `run`, and a folder of that name below `corpus`.
macro_rules! targets {
    ($($module:ident as $name:ident),+ $(,)?) => {
        $(mod $module;)+

        /// All of them.
        pub const TARGETS: &[Target] = &[$(Target { name: stringify!($name), run: $module::run }),+];
    };
}

targets! {
    dialogue as requests,
    headers as headers,
    signed as signed,
    schemas as schemas,
    events as events,
    records as records,
    dynamo as dynamo,
    data_sets as data_sets,
    settings as settings,
    texts as texts,
    token_file as token_file,
    tokens as tokens,
    configurations as configurations,
    upstream as upstream,
    client as client,
}

/// The target called `name`.
#[must_use]
pub fn target(name: &str) -> Target {
    let found = TARGETS.iter().copied().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("`{name}` is not a target; the targets are {TARGETS:?}"))
}

/// Runs the target on an input, and panics if it takes more memory than a request may.
pub fn run(target: Target, input: &[u8]) {
    memory::bounded(|| (target.run)(input));
}
