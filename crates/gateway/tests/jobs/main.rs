//! External jobs against stand-ins for their systems: servers that speak their APIs, and that fail, hang and lie on
//! demand.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may end by a panic, and its server runs beside it"
)]

mod arguments;
mod aws;
mod credentials;
mod eventual;
mod external;
mod http;
mod kinds;
mod permissions;
mod stand_in;
mod tool;
