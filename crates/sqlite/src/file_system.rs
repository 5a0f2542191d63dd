//! On which file systems a database is refused.
//!
//! SQLite's log needs memory that all processes share, and locks that hold for all of them. Between machines there is
//! neither: two servers on a network file system destroy the database of each other.

use std::path::Path;

use crate::OpenError;

/// Refuses the database at `path` if it is on a network file system, or has a second name.
pub(crate) fn check(path: &Path) -> Result<(), OpenError> {
    if let Some(kind) = system::network(path) {
        return Err(OpenError::NetworkFileSystem { path: path.to_owned(), kind });
    }
    if path.is_file() && system::names(path) > 1 {
        return Err(OpenError::Linked(path.to_owned()));
    }
    Ok(())
}

#[cfg(target_os = "linux")]
mod system {
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    /// Network file systems, by the number that the kernel has for each.
    const NETWORK: [(u64, &str); 15] = [
        (0x0000_6969, "NFS"),
        (0x0000_517B, "SMB"),
        (0xFE53_4D42, "SMB"),
        (0xFF53_4D42, "CIFS"),
        (0x0000_564C, "NCP"),
        (0x00C3_6400, "CephFS"),
        (0x0BD0_0BD0, "Lustre"),
        (0x4750_4653, "GPFS"),
        (0x1983_0326, "BeeGFS"),
        (0xAAD7_AAEA, "PanFS"),
        (0x0116_1970, "GFS2"),
        (0x7461_636F, "OCFS2"),
        (0x5346_414F, "AFS"),
        (0x6B41_4653, "AFS"),
        (0x7375_7245, "Coda"),
    ];

    /// The number of all file systems in user space.
    const FUSE: u64 = 0x6573_5546;

    /// The file systems of these that are on a network, by the name that their mounts have. Others may be on this
    /// machine's disk.
    const NETWORK_FUSE: [&str; 17] = [
        "fuse.blobfuse",
        "fuse.blobfuse2",
        "fuse.ceph",
        "fuse.ceph-fuse",
        "fuse.cifs",
        "fuse.curlftpfs",
        "fuse.davfs",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.goofys",
        "fuse.juicefs",
        "fuse.mfs",
        "fuse.mount-s3",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.seaweedfs",
        "fuse.sshfs",
    ];

    /// The name of the network file system that this path is on; `None` if it is on another one.
    pub(super) fn network(path: &Path) -> Option<String> {
        let number = u64::try_from(rustix::fs::statfs(path).ok()?.f_type).ok()?;
        if number != FUSE {
            return named(number).map(str::to_owned);
        }
        let device = path.metadata().ok()?.dev();
        let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        mounted(&mounts, &device).filter(|kind| NETWORK_FUSE.contains(kind)).map(str::to_owned)
    }

    pub(super) fn names(path: &Path) -> u64 {
        path.metadata().map_or(1, |file| file.nlink())
    }

    fn named(number: u64) -> Option<&'static str> {
        NETWORK.iter().find(|(network, _)| *network == number).map(|(_, name)| *name)
    }

    /// The kind of the file system on this device, in the lines of `/proc/self/mountinfo`.
    fn mounted<'a>(mounts: &'a str, device: &str) -> Option<&'a str> {
        let of_device = mounts.lines().find(|line| line.split(' ').nth(2) == Some(device))?;
        of_device.split_once(" - ")?.1.split(' ').next()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn network_file_systems_are_told_from_those_of_this_machine() {
            assert_eq!((named(0x6969), named(0xFF53_4D42)), (Some("NFS"), Some("CIFS")));
            // ext4, tmpfs, overlayfs, btrfs, XFS, ZFS, 9p.
            for local in [0xEF53, 0x0102_1994, 0x794C_7630, 0x9123_683E, 0x5846_5342, 0x2FC1_2FC1, 0x0102_1997] {
                assert_eq!(named(local), None, "{local:x}");
            }
            assert_eq!(network(&std::env::temp_dir()), None);
        }

        #[test]
        fn the_kind_of_a_file_system_in_user_space_is_read_from_its_mount() {
            let mounts = "36 25 0:32 / /home rw - ext4 /dev/sda1 rw\n\
                          90 36 0:52 / /home/me/far rw,nosuid shared:1 - fuse.sshfs me@far:/ rw\n\
                          91 36 0:53 / /home/me/near rw - fuse.bindfs /near rw\n";
            assert_eq!(mounted(mounts, "0:52"), Some("fuse.sshfs"));
            assert_eq!(mounted(mounts, "0:53").filter(|kind| NETWORK_FUSE.contains(kind)), None);
            assert_eq!(mounted(mounts, "0:5"), None);
        }
    }
}

/// Other systems do not say it in this way.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::path::Path;

    pub(super) fn network(_path: &Path) -> Option<String> {
        None
    }

    #[cfg(unix)]
    pub(super) fn names(path: &Path) -> u64 {
        use std::os::unix::fs::MetadataExt;

        path.metadata().map_or(1, |file| file.nlink())
    }

    #[cfg(not(unix))]
    pub(super) fn names(_path: &Path) -> u64 {
        1
    }
}
