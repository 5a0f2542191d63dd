//! Real clients of two instances of the API function, which stream their answers and are frozen between requests.
//! Requests go to them in turn: what one accepted, asked or began, the other one continues.

#[path = "../e2e/external/clients.rs"]
#[expect(clippy::duplicate_mod, reason = "the same flows, against another server")]
mod clients;
#[path = "../e2e/external/legacy_clients.rs"]
#[expect(clippy::duplicate_mod, reason = "the same flows, against another server")]
mod legacy_clients;
mod process;
#[path = "../e2e/rmcp_client.rs"]
#[expect(clippy::duplicate_mod, reason = "the same flows, against another server")]
mod rmcp_client;
