//! Permissions of the files of a database: only their owner may read them, with any umask. They hold arguments,
//! results, and the key that signs sessions.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::OpenError;

/// The endings of the name of the database for the files next to it: SQLite's own, and the
/// [`Lock`](crate::lock::Lock).
const COMPANIONS: [&str; 4] = ["-wal", "-shm", "-journal", "-lock"];

/// The file next to the database with this ending. It is next to the file itself, whichever of its names `path` is.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path.canonicalize().unwrap_or_else(|_unresolved| path.to_owned()));
    name.push(ending);
    PathBuf::from(name)
}

/// Creates the file, if there is none, so that only its owner can read it. SQLite gives the files that it creates next
/// to it the same permissions.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    if path.exists() { Ok(()) } else { system::create(path) }
}

/// Takes the permissions of all others from an existing database and the files next to it. Only called for a database
/// of Longhaul.
pub(crate) fn restrict(path: &Path) -> Result<(), OpenError> {
    let beside = COMPANIONS.iter().map(|ending| beside(path, ending));
    for path in std::iter::once(path.to_owned()).chain(beside) {
        match system::restrict(&path) {
            Ok(()) => {}
            // SQLite deletes the files beside the database when it is closed.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(OpenError::Readable { path, cause }),
        }
    }
    Ok(())
}

#[cfg(unix)]
mod system {
    use std::fs::{OpenOptions, Permissions, metadata, set_permissions};
    use std::io;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    use std::path::Path;

    const OWNER_ONLY: u32 = 0o600;
    const OTHERS: u32 = 0o077;

    pub(super) fn create(path: &Path) -> io::Result<()> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(OWNER_ONLY).open(path)?;
        // The umask may have taken the owner's own permissions.
        file.set_permissions(Permissions::from_mode(OWNER_ONLY))
    }

    pub(super) fn restrict(path: &Path) -> io::Result<()> {
        let mode = |path| metadata(path).map(|of_file| of_file.permissions().mode());
        let before = mode(path)?;
        if before & OTHERS == 0 {
            return Ok(());
        }
        set_permissions(path, Permissions::from_mode(before & 0o777 & !OTHERS))?;
        if mode(path)? & OTHERS != 0 {
            return Err(io::Error::other("the file system does not keep permissions"));
        }
        let before = format!("{:o}", before & 0o777);
        tracing::warn!(path = %path.display(), before, "other users could read the database: now only its owner can");
        Ok(())
    }
}

/// Other systems do not have these permissions; new files inherit those of their directory.
#[cfg(not(unix))]
mod system {
    use std::io;
    use std::path::Path;

    pub(super) fn create(_path: &Path) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn restrict(_path: &Path) -> io::Result<()> {
        Ok(())
    }
}
