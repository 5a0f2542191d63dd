//! Lambda takes 4 KiB for all variables of a function, and refuses more when the stack is half made.

use super::TEMPLATE;
use super::publisher::WEBHOOKS;
use super::resolve::Stack;

const VARIABLES_BYTES_MAX: usize = 4_096;

/// What `GatewayConfig`, `Webhooks`, `ToolEnvironment` and the two lists of secrets of tools may have together, as
/// their descriptions and scripts/deploy.sh say.
const SHARED_BYTES_MAX: usize = 2_000;

/// The longest URL of a queue: the name has at most 80 characters.
const QUEUE_URL_BYTES_MAX: usize = 140;

fn bytes(function: &str, parameters: &[(&str, &str)]) -> usize {
    let variables = Stack::new(&TEMPLATE, parameters).environment(function);
    let queue = |value: &str| if value.starts_with("https://sqs.") { QUEUE_URL_BYTES_MAX } else { value.len() };
    variables.iter().map(|(name, value)| name.len() + queue(value)).sum()
}

#[test]
fn what_a_stack_says_about_its_servers_fits_with_all_other_variables() {
    let config = "x".repeat(SHARED_BYTES_MAX - "{}".len());
    let others = [
        ("Schedules", "on"),
        ("WorkerClass", "browsers"),
        ("AttemptsPerOwner", "10"),
        ("LogFilter", "info,rmcp=warn,longhaul=debug,aws_sdk_dynamodb=debug"),
        ("AllowOrigins", "https://app.example.com"),
    ];
    let parameters = [&others[..], &WEBHOOKS[..], &[("GatewayConfig", &config)]].concat();
    for function in ["Worker", "ClassWorker", "DeadLetterWorker", "Publisher", "Api"] {
        let bytes = bytes(function, &parameters);
        assert!(bytes <= VARIABLES_BYTES_MAX, "{function}: {bytes}");
    }
}

#[test]
fn every_text_that_counts_says_how_much_there_is_for_all_of_them() {
    let deploy = crate::world::file("scripts/deploy.sh");
    for name in ["GatewayConfig", "Webhooks", "ToolEnvironment", "ToolSecretNames", "ToolSecretArns"] {
        assert!(deploy.contains(&format!("{name}=*")), "scripts/deploy.sh adds up {name}");
    }
    assert!(deploy.contains(&format!("readonly shared_bytes_max={SHARED_BYTES_MAX}")));
    for name in ["GatewayConfig", "Webhooks"] {
        let description = TEMPLATE["Parameters"][name]["Description"].as_str().unwrap();
        assert!(description.contains("2,000 bytes together"), "{name}: {description}");
    }
}
