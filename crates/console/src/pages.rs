//! The pages. Each is a file and a line in [`get`]. Its actions are a line in [`post`].

mod acts;
mod filter;
mod health;
pub(crate) mod log_in;
mod questions;
mod task;
mod tasks;
mod tools;

use crate::ask::PageRequest;
use crate::page::{Done, Page};
use crate::posted::Posted;
use crate::problem::Problem;

/// The requested page.
pub(crate) async fn get(ask: &PageRequest) -> Result<Page, Problem> {
    match ask.name() {
        "" => tasks::page(ask).await,
        "health" => health::page(ask).await,
        "questions" => questions::page(ask).await,
        "task" => task::page(ask).await,
        "tools" => tools::page(ask).await,
        _ => Err(Problem::not_found("The console does not have this page.")),
    }
}

/// The same for its live parts only.
pub(crate) async fn live(ask: &PageRequest) -> Result<Page, Problem> {
    match ask.name() {
        "questions" => questions::live(ask).await,
        _ => get(ask).await,
    }
}

/// Runs the action of a form. The caller has checked that it comes from a page of the console.
pub(crate) async fn post(ask: &PageRequest, posted: &Posted) -> Result<Done, Problem> {
    match ask.name() {
        "act" => acts::act(ask, posted).await,
        "questions" => questions::act(ask, posted).await,
        "tools" => tools::act(ask, posted).await,
        _ => Err(Problem::not_found("The console does not offer this action.")),
    }
}
