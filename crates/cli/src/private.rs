//! Files and folders that only their user may read. Unix has modes for that; elsewhere the permissions of the user's
//! own folder apply.

use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// Makes a folder, and those above it, for its user alone.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Options that make a new file for its user alone.
#[cfg(unix)]
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Options for a new file, in a folder that only its user may read.
#[cfg(not(unix))]
pub(crate) fn options() -> OpenOptions {
    OpenOptions::new()
}

/// The mode of a file that others than its user may read; `None` if they may not.
#[cfg(unix)]
pub(crate) fn mode_for_others(metadata: &Metadata) -> Option<u32> {
    let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

/// Files have no modes here.
#[cfg(not(unix))]
pub(crate) fn mode_for_others(_: &Metadata) -> Option<u32> {
    None
}
