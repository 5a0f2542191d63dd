//! The processes of this machine.

use std::fs;
use std::path::PathBuf;

use rustix::process::Pid;

/// The processes whose file of this name in `/proc` satisfies `is_one`.
pub(crate) fn processes(file: &str, is_one: impl Fn(&[u8]) -> bool) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let pid = |path: PathBuf| Pid::from_raw(path.file_name()?.to_str()?.parse().ok()?);
    entries.filter(|path| is_one(&fs::read(path.join(file)).unwrap_or_default())).filter_map(pid).collect()
}
