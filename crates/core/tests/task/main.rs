//! A task and its events: what always holds, what each event changes, and the table in the documentation.

mod effects;
mod ends;
mod given;
mod invariants;
mod transitions;
mod waiting;
