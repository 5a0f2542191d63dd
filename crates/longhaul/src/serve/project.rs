//! Where the tasks of a project folder are, for a server that a client starts in it.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use longhaul_core::settings::EnvSource;

use super::ServeError;
use crate::settings::ProcessEnv;

/// The file for the folder in which this process was started. The folders above it are made.
pub(super) fn database(server: Option<&str>) -> Result<PathBuf, ServeError> {
    let no_place = |cause: &str| ServeError::NoPlace { cause: cause.to_owned() };
    let project = std::env::current_dir().map_err(|error| no_place(&format!("the folder cannot be read: {error}")))?;
    let state = state_folder(&ProcessEnv).ok_or_else(|| no_place("neither XDG_STATE_HOME nor HOME is set"))?;
    let file = file_for(&state, server.unwrap_or("server"), &project);
    let folder = file.parent().unwrap_or(&state);
    make(folder).map_err(|error| no_place(&format!("{} cannot be made: {error}", folder.display())))?;
    Ok(file)
}

/// Where the process that has the database `file` serves others. Its path is short, as those of sockets have to be.
pub(super) fn socket(file: &Path) -> Option<PathBuf> {
    let state = state_folder(&ProcessEnv)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let file = folder.canonicalize().ok()?.join(file.file_name()?);
    make(&state).ok()?;
    Some(state.join(format!("{:016x}.sock", hash(file.as_os_str().as_encoded_bytes()))))
}

/// Makes a folder that is the user's alone, and those above it.
fn make(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn state_folder(env: &dyn EnvSource) -> Option<PathBuf> {
    let folder = |name| env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("longhaul"))
}

/// One for each server and folder. The hash tells folders of one name apart.
fn file_for(state: &Path, server: &str, project: &Path) -> PathBuf {
    let name = project.file_name().map_or("root".into(), |name| name.to_string_lossy());
    let project = format!("{}-{:016x}", plain(&name), hash(project.as_os_str().as_encoded_bytes()));
    state.join(plain(server)).join(project).join("tasks.db")
}

/// FNV-1a, which is the same in every process and every version.
fn hash(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// A name of a file that is safe everywhere.
fn plain(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
    name.chars().take(64).map(safe).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn each_project_folder_has_a_file_of_its_own_that_does_not_change() {
        let file = |server: &str, project: &str| file_for(Path::new("/state"), server, Path::new(project));
        let one = file("cargo runner", "/home/ann/app");
        assert_eq!(one, file("cargo runner", "/home/ann/app"));
        assert!(one.starts_with("/state/cargo_runner"), "{}", one.display());
        assert!(one.parent().unwrap().file_name().unwrap().to_string_lossy().starts_with("app-"), "{}", one.display());
        for other in [file("other", "/home/ann/app"), file("cargo runner", "/home/bob/app"), file("../..", "/")] {
            assert!(other != one && other.starts_with("/state"), "{}", other.display());
        }
    }

    #[test]
    fn the_state_folder_is_that_of_the_user() {
        let of = |env: &[(&'static str, &'static str)]| {
            state_folder(&env.iter().copied().collect::<BTreeMap<_, _>>()).map(|path| path.display().to_string())
        };
        assert_eq!(of(&[("HOME", "/home/ann")]).unwrap(), "/home/ann/.local/state/longhaul");
        assert_eq!(of(&[("HOME", "/home/ann"), ("XDG_STATE_HOME", "/s")]).unwrap(), "/s/longhaul");
        assert_eq!(of(&[]), None);
    }
}
