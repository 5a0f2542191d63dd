//! Lambda takes 4 KiB for all variables of a function, and refuses more when the stack is half made.

use super::TEMPLATE;
use super::resolve::Stack;
use crate::world::file;

const VARIABLES_BYTES_MAX: usize = 4_096;

/// The parameters that become variables and have no limit of their own may have so much together.
const SHARED_BYTES_MAX: usize = 2_000;

/// The longest URL of a queue: the name has at most 80 characters.
const QUEUE_URL_BYTES_MAX: usize = 140;

fn bytes(function: &str, parameters: &[(&str, &str)]) -> usize {
    let variables = Stack::new(&TEMPLATE, parameters).environment(function);
    let queue = |value: &str| if value.starts_with("https://sqs.") { QUEUE_URL_BYTES_MAX } else { value.len() };
    variables.iter().map(|(name, value)| name.len() + queue(value)).sum()
}

#[test]
fn what_parameters_may_have_together_fits_with_all_other_variables() {
    let text = "x".repeat(SHARED_BYTES_MAX);
    for (full, functions) in [
        ("Settings", &["Worker", "ClassWorker", "DeadLetterWorker", "Publisher", "Api"][..]),
        ("Authentication", &["Api"]),
        ("SecretArns", &["Worker", "ClassWorker"]),
        ("Webhooks", &["Worker", "Publisher"]),
    ] {
        let parameters = [("Schedules", "on"), ("WorkerClass", "browsers"), ("Push", "on"), (full, text.as_str())];
        for function in functions {
            let bytes = bytes(function, &parameters);
            assert!(bytes <= VARIABLES_BYTES_MAX, "{function} with {full}: {bytes}");
        }
    }
}

#[test]
fn the_script_that_checks_parameters_adds_up_those_that_share_the_room() {
    let script = file("scripts/parameters.py");
    assert!(script.contains(&format!("\nVARIABLES_BYTES_MAX = {SHARED_BYTES_MAX}\n")));
    for name in
        ["Settings", "Authentication", "OAuthIssuers", "OAuthAudiences", "AllowOrigins", "SecretArns", "Webhooks"]
    {
        assert!(script.contains(&format!("\"{name}\"")), "{name}");
        assert!(TEMPLATE["Parameters"][name]["MaxValue"].is_null(), "{name}");
    }
}
