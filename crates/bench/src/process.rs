//! The AWS emulator with which the functions are measured.

use std::sync::OnceLock;

use anyhow::Context;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};

/// The variable that names the emulator's endpoint, as for every AWS client.
const ENDPOINT: &str = "AWS_ENDPOINT_URL";

static EMULATOR: OnceLock<String> = OnceLock::new();

/// Finds the emulator.
pub(crate) fn find() -> anyhow::Result<()> {
    let url = std::env::var(ENDPOINT);
    let url = url.with_context(|| {
        format!("{ENDPOINT} is not set; run this with `make bench` or scripts/emulator.sh run-with")
    })?;
    EMULATOR.get_or_init(|| url);
    Ok(())
}

/// The emulator's endpoint.
pub(crate) fn endpoint() -> &'static str {
    EMULATOR.get().expect("the emulator is found before anything is measured with it")
}

/// What an SDK client needs to reach the emulator.
pub(crate) fn config() -> SdkConfig {
    let credentials = Credentials::new("test", "test", None, None, "bench");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(endpoint())
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .build()
}

/// What a process's environment says of the emulator, or of a proxy before it.
pub(crate) fn environment(endpoint: &str) -> [(&'static str, String); 4] {
    [
        (ENDPOINT, endpoint.to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
    ]
}
