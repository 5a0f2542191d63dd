//! Settings that were removed, each with its replacement.

use crate::settings::{Declared, EnvSource, Fault, Flags};

/// The names of settings that are gone, and what holds in their place.
pub static REMOVED: [(&str, &str); 9] = [
    ("first-byte-ms-max", "leave it out: a new connection may be silent for ten seconds"),
    ("head-ms-max", "leave it out: the head of a connection's first request may take ten seconds"),
    ("body-ms-max", "leave it out: a body may take twenty seconds, and a second more for each 16 KiB of it"),
    ("body-bytes-per-s-min", "leave it out: each 16 KiB of a body earn it another second"),
    ("unread-ms-max", "leave it out: a client may read nothing of an answer for a minute"),
    ("http2-ping-ms", "leave it out: a client of HTTP/2 is asked every twenty seconds whether it is still there"),
    (
        "leg-margin-ms",
        "leave it out: no step begins in the last five seconds of an attempt, or in its last quarter if shorter",
    ),
    ("leg-ms", "use --attempt-ms or LONGHAUL_ATTEMPT_MS"),
    ("cleaning-ms", "use --cleanup-ms or LONGHAUL_CLEANUP_MS"),
];

/// A fault for each of them that has a value, unless it is the name of a setting that an application declares.
pub(crate) fn removed_faults(declared: &[&dyn Declared], flags: &Flags, env: &dyn EnvSource) -> Vec<Fault> {
    let removed = REMOVED.iter().filter(|(name, _)| declared.iter().all(|setting| setting.name() != *name));
    let faults = removed.flat_map(|(name, holds)| {
        let variable = format!("LONGHAUL_{}", name.to_uppercase().replace('-', "_"));
        let is_set = env.get(&variable).is_some_and(|text| !text.is_empty());
        let given = [flags.contains_key(name).then(|| format!("--{name}")), is_set.then_some(variable)];
        let problem = format!("is no longer a setting, {holds}");
        given.into_iter().flatten().map(move |name| Fault { name, problem: problem.clone() })
    });
    faults.collect()
}
