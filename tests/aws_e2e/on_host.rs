//! Real clients before two instances of the API function that stream their answers and stand still between two requests.
//! They get each request in turn: what one accepted, asked or began, the other one answers for.

#[path = "../e2e/clients.rs"]
#[expect(clippy::duplicate_mod, reason = "the same flows, against another server")]
mod clients;
#[path = "../e2e/legacy_clients.rs"]
#[expect(clippy::duplicate_mod, reason = "the same flows, against another server")]
mod legacy_clients;
mod process;
#[path = "../e2e/rmcp_client.rs"]
#[expect(clippy::duplicate_mod, reason = "the same flows, against another server")]
mod rmcp_client;
