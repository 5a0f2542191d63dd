//! `longhaul gateway` as its users see it: servers that behave as they should not, real servers, real kills.

mod answers;
mod answers_http;
mod calls;
mod command_line;
mod core_tasks;
mod ends;
mod fidelity;
mod folds;
mod forgetful;
mod http;
mod kills;
mod lists;
mod lock;
mod older;
mod outside_jobs;
mod passing;
mod permits;
mod pool;
mod process;
mod real;
mod starts;
mod subscriptions;
mod upstream_tasks;
