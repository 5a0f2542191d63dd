//! A server with schedules, callbacks and calls that start later, killed around the times that count. Its program is
//! that of the conformance suite's fixtures.

mod callbacks;
mod later;
mod process;
mod schedules;
