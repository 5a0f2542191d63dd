//! The gateway's configuration and lock file, and that of webhooks. Each mistake is named with its place, in a bounded
//! number of words. No error contains a variable that the file does not name.

use std::collections::BTreeMap;

use longhaul_gateway::{Config, Lock};
use longhaul_http::webhooks::Reach;

/// A variable that configurations may name, and what it holds. The value is a secret: no error shows it.
const VARIABLE: (&str, &str) = ("TOKEN", "a-secret-value-a-secret-value");

/// Bytes of one error for each byte of input, and for each file.
const ERROR_FACTOR: usize = 200;
const ERROR_BYTES: usize = 4_000;

/// Secrets, all of which are the variable, or none.
fn secret(source: &str) -> Result<String, String> {
    if source.starts_with("env:") { Ok(VARIABLE.1.to_owned()) } else { Err("cannot be read".to_owned()) }
}

/// Reads the input as each of them.
pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(error) = Config::from_json(text, &BTreeMap::from([VARIABLE])) {
        judge(text, &error.to_string());
    }
    match Lock::from_json(text) {
        // What was read is written as the same thing.
        Ok(lock) => {
            let written = lock.to_json();
            assert_eq!(Lock::from_json(&written).unwrap().to_json(), written);
        }
        Err(error) => judge(text, &error.to_string()),
    }
    for reach in [Reach::Public, Reach::ThisMachineToo] {
        if let Err(error) = longhaul_http::webhooks::read(text, &secret, reach) {
            judge(text, &error.to_string());
        }
    }
}

fn judge(text: &str, said: &str) {
    assert!(!said.is_empty());
    assert!(said.len() <= ERROR_BYTES + ERROR_FACTOR * text.len(), "{said}");
    assert!(!said.contains(VARIABLE.1) || text.contains(VARIABLE.1), "an error shows the value of a variable: {said}");
}
