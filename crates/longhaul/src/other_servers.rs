//! The other servers that the tools need: which of them cannot be used now, and how many processes they have.

/// A part of a server that cannot be used now, such as another server that its tools need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degraded {
    /// Its name, for the console. `/readyz` shows to everyone how many parts there are, and no names.
    pub part: String,
    /// Why, for the console.
    pub why: String,
}

/// The processes of another server that the tools start, for [`Server::processes`](crate::Server::processes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processes {
    /// The name of the other server: a label of the metrics.
    pub server: String,
    /// How many have started and not answered yet.
    pub starting: u64,
    /// How many have answered and not ended.
    pub running: u64,
    /// How many starts replaced a process that failed. Never falls while this process runs.
    pub restarts: u64,
}
