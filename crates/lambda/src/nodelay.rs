//! No delay on the connection to the Runtime API.
//!
//! A streamed answer leaves the runtime client as at least three small writes: what stands before the body, eight zero
//! bytes, the body. The client does not set `TCP_NODELAY`, so that the kernel holds the second write back until the
//! first one is acknowledged, which the other side delays by about 40 ms. The connection belongs to the client, which
//! lets nobody at it; but a process may ask the kernel for a copy of any of its own file descriptors, and options of a
//! socket are the same for all copies.

use std::fs;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::io;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// After how many answers all descriptors are looked at again: a connection that took the number of another one is not
/// noticed before.
const LOOK_AGAIN: u32 = 100;

/// Sets `TCP_NODELAY` on the connections of this process, as long as the system lets it.
#[derive(Debug, Default)]
pub(crate) struct Nodelay(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Unknown,
    Known(Connections),
    Refused,
}

/// The descriptors of this process that were connections when all were looked at.
#[derive(Debug)]
struct Connections {
    this_process: OwnedFd,
    numbers: Vec<i32>,
    uses: u32,
}

impl Nodelay {
    /// Sets it on every connection that is open now, and next time on the same ones: to look at all descriptors costs
    /// as much as a whole answer. Without effect where the system refuses: answers are then later, not wrong.
    pub(crate) fn set(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_set = match &mut *state {
            State::Refused => true,
            State::Known(connections) => connections.set(),
            State::Unknown => false,
        };
        if !is_set {
            *state = Connections::find().map_or_else(refused, State::Known);
        }
    }
}

fn refused(error: io::Errno) -> State {
    tracing::debug!(%error, "TCP_NODELAY could not be set; streamed answers may be some 40 ms later");
    State::Refused
}

impl Connections {
    /// Looks at all descriptors, and sets it on the connections among them.
    fn find() -> io::Result<Self> {
        let this_process = pidfd_open(getpid(), PidfdFlags::empty())?;
        let mut numbers = Vec::new();
        for number in open_descriptors() {
            match pidfd_getfd(&this_process, number, PidfdGetfdFlags::empty()) {
                // Files, pipes and sockets of other kinds refuse the option, and do not need it.
                Ok(copy) => numbers.extend(set_tcp_nodelay(copy, true).is_ok().then_some(number)),
                // Closed in the meantime.
                Err(io::Errno::BADF) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { this_process, numbers, uses: 0 })
    }

    /// Sets it on the same again, since another connection may have taken a number. False where one is no connection any
    /// more, or it is time to look at all.
    fn set(&mut self) -> bool {
        self.uses += 1;
        let is_set = |number: &i32| {
            let copy = pidfd_getfd(&self.this_process, *number, PidfdGetfdFlags::empty());
            copy.and_then(|copy| set_tcp_nodelay(copy, true)).is_ok()
        };
        self.uses < LOOK_AGAIN && !self.numbers.is_empty() && self.numbers.iter().all(is_set)
    }
}

fn open_descriptors() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::MutexGuard;

    use super::*;

    /// Descriptors belong to the process: one test at a time.
    static ALONE: Mutex<()> = Mutex::new(());

    fn listener() -> (MutexGuard<'static, ()>, TcpListener, SocketAddr) {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (alone, listener, address)
    }

    #[test]
    fn connections_of_others_code_get_the_option() {
        let (_alone, _listener, address) = listener();
        let stream = TcpStream::connect(address).unwrap();
        assert!(!stream.nodelay().unwrap());
        Nodelay::default().set();
        assert!(stream.nodelay().unwrap());
    }

    #[test]
    fn a_connection_that_follows_another_gets_it_too() {
        let (_alone, _listener, address) = listener();
        let nodelay = Nodelay::default();
        let first = TcpStream::connect(address).unwrap();
        nodelay.set();
        assert!(first.nodelay().unwrap());
        drop(first);
        let second = TcpStream::connect(address).unwrap();
        nodelay.set();
        assert!(second.nodelay().unwrap());
    }

    #[test]
    fn a_connection_that_is_opened_beside_others_gets_it_in_the_end() {
        let (_alone, _listener, address) = listener();
        let nodelay = Nodelay::default();
        let _first = TcpStream::connect(address).unwrap();
        nodelay.set();
        let second = TcpStream::connect(address).unwrap();
        (0..LOOK_AGAIN).for_each(|_| nodelay.set());
        assert!(second.nodelay().unwrap());
    }
}
