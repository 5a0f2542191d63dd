//! What the engine asks of whoever runs the tool, and how a leg may end.

use async_trait::async_trait;
use longhaul_core::{Ask, ResultKind};

use crate::Leg;
use crate::suspension::Reason;

/// Runs the tool of a task for one leg.
#[async_trait]
pub trait ToolRunner: Send + Sync {
    /// Runs the tool until it ends or has to wait. Dropping the future stops the tool at its next await point.
    ///
    /// An implementation drives the tool's future with [`Leg::drive`], which tells when the tool waits for something
    /// that ends the leg.
    async fn run(&self, leg: Leg) -> LegEnd;
}

/// How a leg ended.
#[derive(Debug)]
pub enum LegEnd {
    /// The tool gave a result.
    Completed {
        /// The result as JSON text.
        result: String,
        /// What it says of itself.
        kind: ResultKind,
    },
    /// The tool gave an error that another try would not mend.
    Failed {
        /// The error in words.
        message: String,
        /// The error as JSON text.
        detail: String,
    },
    /// The tool panicked, or died in another way that is worth a retry.
    Crashed {
        /// What is known of it.
        reason: String,
    },
    /// The tool waits: what [`Leg::drive`] or [`Leg::ask_round`] gave.
    Suspended(Suspended),
}

/// What a tool waits for.
#[derive(Debug)]
pub struct Suspended(pub(crate) Reason);

/// Questions that a tool asked by returning them, and what it wants to get back with the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The questions.
    pub asks: Vec<Ask>,
    /// What the tool wants back, opaque here.
    pub carry: String,
}
