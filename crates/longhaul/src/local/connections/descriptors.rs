//! How many file descriptors this process may have.

/// The number of file descriptors that this process may have, after raising it to `wanted` as far as the system allows.
#[cfg(unix)]
pub(super) fn at_least(wanted: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let soft = limit.current.unwrap_or(u64::MAX);
    let raised = limit.maximum.map_or(wanted, |hard| wanted.min(hard));
    if soft >= raised {
        return soft;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), ..limit }) {
        Ok(()) => raised,
        Err(error) => {
            tracing::warn!(%error, soft, raised, "the limit of file descriptors could not be raised");
            soft
        }
    }
}

/// Other systems do not count sockets among files.
#[cfg(not(unix))]
pub(super) fn at_least(_wanted: u64) -> u64 {
    u64::MAX
}
