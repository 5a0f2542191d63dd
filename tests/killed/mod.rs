//! A server with schedules, callbacks, calls that start later and calls that take turns, killed around the times that
//! count. Its program is that of the conformance suite's fixtures.

mod callbacks;
mod flow;
mod later;
mod process;
mod schedules;
