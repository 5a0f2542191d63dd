//! Files below the data directory, and nothing outside it.
//!
//! Paths are resolved component by component from the directory's own handle, so neither `..`, an absolute path nor a
//! symbolic link leads out, not even one that is replaced in the meantime. Links that stay inside are followed.

use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata};
use serde::{Deserialize, Serialize};

use super::super::error::ProfileError;

/// The longest path in bytes.
const PATH_BYTES_MAX: usize = 1_024;

/// A path that only leads downwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelativePath(PathBuf);

impl RelativePath {
    /// Checks the form of `path`.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Refused`] if it is empty, absolute, too long, or leads upwards.
    pub fn new(path: &str) -> Result<Self, ProfileError> {
        let refused = |why: &str| Err(ProfileError::Refused(format!("`path` {why}")));
        if path.trim().is_empty() {
            return refused("is empty");
        }
        if path.len() > PATH_BYTES_MAX {
            return refused("is too long");
        }
        if path.contains(['\0', '\\']) {
            return refused("contains a character that is not allowed");
        }
        let downwards = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if !Path::new(path).components().all(downwards) {
            return refused("must be relative to the data directory and stay below it");
        }
        Ok(Self(PathBuf::from(path)))
    }
}

/// What distinguishes one version of a file from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Its length.
    pub bytes: u64,
    /// When it was last written, in nanoseconds since 1970; 0 if the file system does not say.
    pub modified_ns: u64,
}

impl FileIdentity {
    fn of(metadata: &Metadata) -> Self {
        let modified = metadata.modified().ok().map(cap_std::time::SystemTime::into_std);
        let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified_ns = since.and_then(|age| u64::try_from(age.as_nanos()).ok());
        Self { bytes: metadata.len(), modified_ns: modified_ns.unwrap_or(0) }
    }
}

/// The directory whose files may be read.
#[derive(Debug, Clone)]
pub struct DataDir(Arc<Dir>);

impl DataDir {
    /// Opens the directory; it stays the same one if it is renamed.
    ///
    /// # Errors
    ///
    /// Those of the operating system.
    pub fn open_dir(path: &Path) -> std::io::Result<Self> {
        Ok(Self(Arc::new(Dir::open_ambient_dir(path, ambient_authority())?)))
    }

    /// The present version of the file. Blocks the thread.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Refused`] if there is no such file, or it is not a regular file.
    pub fn identify(&self, path: &RelativePath) -> Result<FileIdentity, ProfileError> {
        // Asked before opening: opening a pipe would wait for its writer.
        let metadata = self.0.metadata(&path.0).map_err(|error| refusal(&error))?;
        regular(&metadata)?;
        Ok(FileIdentity::of(&metadata))
    }

    /// Opens the file at `offset` if it is still `known`. Blocks the thread.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Changed`]; [`ProfileError::Refused`] if there is no longer such a file; [`ProfileError::Read`].
    pub fn open(&self, path: &RelativePath, known: &FileIdentity, offset: u64) -> Result<impl Read, ProfileError> {
        self.identify(path)?;
        let mut file = self.0.open(&path.0).map_err(|error| refusal(&error))?;
        let metadata = file.metadata()?;
        regular(&metadata)?;
        if FileIdentity::of(&metadata) != *known {
            return Err(ProfileError::Changed);
        }
        file.seek(SeekFrom::Start(offset))?;
        // What is appended from now on is not part of what was identified.
        Ok(file.take(known.bytes.saturating_sub(offset)))
    }
}

fn regular(metadata: &Metadata) -> Result<(), ProfileError> {
    if metadata.is_file() {
        Ok(())
    } else {
        Err(ProfileError::Refused("`path` does not name a regular file".to_owned()))
    }
}

/// The same text for what does not exist and what may not be read: a caller learns nothing about the disk.
fn refusal(error: &std::io::Error) -> ProfileError {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::NotADirectory => {
            ProfileError::Refused("there is no such file in the data directory".to_owned())
        }
        _ => ProfileError::Read(std::io::Error::from(error.kind())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dir: &DataDir, path: &str) -> Result<String, ProfileError> {
        let path = RelativePath::new(path)?;
        let known = dir.identify(&path)?;
        let mut text = String::new();
        dir.open(&path, &known, 0)?.read_to_string(&mut text)?;
        Ok(text)
    }

    fn disk() -> (tempfile::TempDir, DataDir) {
        let disk = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(disk.path().join("data/sub")).unwrap();
        std::fs::write(disk.path().join("secret.csv"), "secret").unwrap();
        std::fs::write(disk.path().join("data/sub/a.csv"), "inside").unwrap();
        let dir = DataDir::open_dir(&disk.path().join("data")).unwrap();
        (disk, dir)
    }

    #[test]
    fn files_below_the_directory_are_read() {
        let (_disk, dir) = disk();
        assert_eq!(read(&dir, "sub/a.csv").unwrap(), "inside");
        assert_eq!(read(&dir, "./sub//a.csv").unwrap(), "inside");
    }

    #[test]
    fn no_path_leads_out_of_the_directory() {
        let (disk, dir) = disk();
        let absolute = disk.path().join("secret.csv");
        for path in ["../secret.csv", "sub/../../secret.csv", "/etc/passwd", absolute.to_str().unwrap(), "", "a\0b"] {
            assert!(matches!(read(&dir, path), Err(ProfileError::Refused(_))), "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_symbolic_link_that_leads_out_is_refused_and_one_inside_is_followed() {
        use std::os::unix::fs::symlink;
        let (disk, dir) = disk();
        let data = disk.path().join("data");
        symlink(disk.path().join("secret.csv"), data.join("absolute.csv")).unwrap();
        symlink("../secret.csv", data.join("relative.csv")).unwrap();
        symlink("..", data.join("up")).unwrap();
        symlink("sub/a.csv", data.join("inside.csv")).unwrap();
        for path in ["absolute.csv", "relative.csv", "up/secret.csv"] {
            assert!(matches!(read(&dir, path), Err(ProfileError::Refused(_))), "{path}");
        }
        assert_eq!(read(&dir, "inside.csv").unwrap(), "inside");
    }

    #[test]
    fn a_directory_and_a_missing_file_are_refused() {
        let (_disk, dir) = disk();
        for path in ["sub", "none.csv", "sub/a.csv/b"] {
            assert!(matches!(read(&dir, path), Err(ProfileError::Refused(_))), "{path}");
        }
    }

    #[test]
    fn a_file_that_changed_is_not_read_further() {
        let (disk, dir) = disk();
        let path = RelativePath::new("sub/a.csv").unwrap();
        let known = dir.identify(&path).unwrap();
        std::fs::write(disk.path().join("data/sub/a.csv"), "longer than before").unwrap();
        assert!(matches!(dir.open(&path, &known, 0).err(), Some(ProfileError::Changed)));
    }
}
