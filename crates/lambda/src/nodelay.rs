//! No delay on the connection to the Runtime API.
//!
//! A streamed answer leaves the runtime client as at least three small writes: what stands before the body, eight zero
//! bytes, the body. The client does not set `TCP_NODELAY`, so that the kernel holds the second write back until the
//! first one is acknowledged, which the other side delays by about 40 ms. The connection belongs to the client, which
//! lets nobody at it; but a process may ask the kernel for a copy of any of its own file descriptors, and options of a
//! socket are the same for all copies.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// Sets `TCP_NODELAY` on the connections of this process, as long as the system lets it.
#[derive(Debug, Default)]
pub(crate) struct Nodelay {
    refused: AtomicBool,
}

impl Nodelay {
    /// Sets it on every connection that is open now. Costs some microseconds; without effect where the system refuses:
    /// answers are then later, not wrong.
    pub(crate) fn set(&self) {
        if self.refused.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = set_on_open_connections() {
            self.refused.store(true, Ordering::Relaxed);
            tracing::debug!(%error, "TCP_NODELAY could not be set; streamed answers may be some 40 ms later");
        }
    }
}

fn set_on_open_connections() -> io::Result<()> {
    let this_process = pidfd_open(getpid(), PidfdFlags::empty())?;
    for number in open_descriptors() {
        match pidfd_getfd(&this_process, number, PidfdGetfdFlags::empty()) {
            // Files, pipes and sockets of other kinds refuse the option, and do not need it.
            Ok(copy) => drop(set_tcp_nodelay(copy, true)),
            // Closed in the meantime.
            Err(io::Errno::BADF) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn open_descriptors() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn connections_of_others_code_get_the_option() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!stream.nodelay().unwrap());
        Nodelay::default().set();
        assert!(stream.nodelay().unwrap());
    }
}
