//! Arguments and results in logs.

use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterFn, filter_fn};

/// Libraries that log what they carry, below the level `INFO`.
const CARRIERS: [&str; 7] = ["rmcp", "aws", "h2", "hyper", "lambda", "reqwest", "tower"];

/// Whether arguments and results may be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payloads {
    /// They may not, even if the filter allows it.
    Hidden,
    /// They are logged if the filter says so.
    Shown,
}

impl From<bool> for Payloads {
    fn from(shown: bool) -> Self {
        if shown { Self::Shown } else { Self::Hidden }
    }
}

/// A filter that holds back events with arguments and results, unless they may be logged.
#[must_use]
pub fn without_payloads(payloads: Payloads) -> FilterFn<impl Fn(&Metadata<'_>) -> bool + Clone> {
    filter_fn(move |event| payloads == Payloads::Shown || *event.level() <= Level::INFO || !carries(event.target()))
}

fn carries(target: &str) -> bool {
    let library = target.split([':', '_']).next().unwrap_or(target);
    CARRIERS.contains(&library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_recognised_by_the_beginning_of_their_targets() {
        for target in ["rmcp::service", "rmcp", "aws_smithy_runtime::client", "hyper_util::x", "lambda_runtime"] {
            assert!(carries(target), "{target}");
        }
        for target in ["longhaul_engine::delivery", "awsome", "longhaul_aws", "local", ""] {
            assert!(!carries(target), "{target}");
        }
    }
}
