//! Tools with which people check a deployment. Served only if asked for.

pub mod ask;
pub mod countdown;
pub mod echo;
pub mod fail;
pub mod large_result;
