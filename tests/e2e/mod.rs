//! The demonstration server as its users see it: real clients, real HTTP, real kills.

mod abuse;
mod anonymous_callers;
mod children;
mod connections;
mod external;
mod flows;
mod ground;
mod isolation;
mod kills;
mod logs;
mod memory;
mod process;
mod readiness;
mod rmcp_client;
mod startup;
mod traces;
mod webhooks;
