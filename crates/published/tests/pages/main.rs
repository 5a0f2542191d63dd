//! Pages and files that are compared with what they describe. With the variable `UPDATE_GOLDEN` the tests write them.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]

mod audit;
mod public_api;
mod settings;
mod starter_template;

/// How the functions' tests read `template.yaml`.
#[expect(dead_code, reason = "those tests use more of it")]
#[path = "../../../lambda/tests/function/template"]
mod template {
    pub(crate) mod applications;
    pub(crate) mod parameters;
    pub(crate) mod resolve;
    pub(crate) mod yaml;
}

mod world {
    pub(crate) fn file(of: &str) -> String {
        let path = format!("{}/../../{of}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}
