//! No delay on the connection to the Runtime API.
//!
//! A streamed response leaves the runtime client as at least three small writes: the prelude, eight zero bytes, the body.
//! The client does not set `TCP_NODELAY`, so the kernel holds the second write back until the first one is acknowledged,
//! which the other side delays by about 40 ms. The client does not expose its connection; but a process may ask the
//! kernel for a copy of any of its own file descriptors, and socket options are shared by all copies.

use std::fs;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::io;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// After how many responses all descriptors are examined again: until then, a connection that reused the number of
/// another one goes unnoticed.
const LOOK_AGAIN: u32 = 100;

/// Sets `TCP_NODELAY` on the connections of this process, as long as the system allows it.
#[derive(Debug, Default)]
pub(crate) struct Nodelay(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Unknown,
    Known(Connections),
    Refused,
}

/// The descriptors of this process that were connections when all were last examined.
#[derive(Debug)]
struct Connections {
    this_process: OwnedFd,
    numbers: Vec<i32>,
    uses: u32,
}

impl Nodelay {
    /// Sets it on every connection that is open now, and next time on the same ones: examining all descriptors costs as
    /// much as a whole response. Has no effect if the system refuses: responses are then slower, but not wrong.
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
    /// Examines all descriptors, and sets the option on the connections among them.
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

    /// Sets the option on the same descriptors again, since another connection may have reused a number. False if one of
    /// them is not a connection any more, or if it is time to examine all of them.
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
    fn connections_of_other_code_get_the_option() {
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
    fn a_connection_that_is_opened_while_others_are_open_gets_it_eventually() {
        let (_alone, _listener, address) = listener();
        let nodelay = Nodelay::default();
        let _first = TcpStream::connect(address).unwrap();
        nodelay.set();
        let second = TcpStream::connect(address).unwrap();
        (0..LOOK_AGAIN).for_each(|_| nodelay.set());
        assert!(second.nodelay().unwrap());
    }
}
