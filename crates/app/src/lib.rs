//! The shipped application: tools that run for long, as an ordinary `rmcp` server would write them.

pub mod tools;
