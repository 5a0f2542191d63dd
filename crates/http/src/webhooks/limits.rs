//! The limits of webhooks, and the times of their tries.

use std::time::Duration;

use longhaul_core::limits;

/// How many endpoints there may be.
pub(crate) const ENDPOINTS_MAX: usize = 16;

/// How long the name of an endpoint may be.
pub(crate) const NAME_BYTES_MAX: usize = 64;

/// How many tools, or patterns of tools, an endpoint may name.
pub(crate) const TOOLS_MAX: usize = 64;

/// How many secrets an endpoint may have: one, and another that replaces it.
pub(crate) const SECRETS_MAX: usize = 2;

/// How long one request may take, with the connection and the head of the answer.
pub(crate) const REQUEST_S: u64 = 20;

pub(crate) const MINUTE_MS: u64 = 60_000;

pub(crate) const HOUR_MS: u64 = 60 * MINUTE_MS;

/// The pauses before each try, as Standard Webhooks proposes them.
pub(crate) const PAUSES_MS: [u64; 10] = [
    0,
    5_000,
    5 * MINUTE_MS,
    30 * MINUTE_MS,
    2 * HOUR_MS,
    5 * HOUR_MS,
    10 * HOUR_MS,
    14 * HOUR_MS,
    20 * HOUR_MS,
    24 * HOUR_MS,
];

/// The longest time that an endpoint may ask for with `Retry-After`.
pub(crate) const RETRY_AFTER_MS_MAX: u64 = HOUR_MS;

/// The longest time of a delivery: all pauses with all that is added to them, and some time for each try.
pub(crate) const RUN_MS_MAX: u64 = 90 * HOUR_MS;

/// A pause is longer by up to this part of it, so that deliveries that failed together do not return together.
pub(crate) const JITTER_PART: u64 = 10;

/// How long a webhook delivery waits, without a worker, while its endpoint has as many deliveries as it may have.
pub(crate) const FULL_PAUSE: Duration = Duration::from_secs(2);

/// The time for which the end of a webhook delivery is shown.
pub(crate) const RETENTION_MS: u64 = 6 * 60 * 60 * 1_000;

/// How many attempts in a row may die without a recorded try.
pub(crate) const DEATHS_MAX: u32 = 20;

/// The time for which it is stored that an endpoint has switched itself off: ten years.
pub(crate) const OFF_MS: u64 = 10 * 366 * 24 * 60 * 60 * 1_000;

/// Requests to one endpoint at a time.
pub(crate) const OPEN_REQUESTS_MAX: usize = 4;

// What is related stays so.
const _: () = {
    assert!(RETRY_AFTER_MS_MAX < RUN_MS_MAX);
    assert!(RUN_MS_MAX + RETENTION_MS <= limits::TTL_MS_CEILING);
    assert!(RETENTION_MS >= limits::RETENTION_MS_MIN);
    // An endpoint that is switched off stays so for longer than anything is sent to it.
    assert!(OFF_MS > RUN_MS_MAX);
};
