//! Why a test run did not come to its end.

use std::fmt;

/// Why a test run did not come to its end, or not to the same one. `Debug` prints the sentence too, since a test that
/// ends with it shows that.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TestError {
    /// The server refused the request.
    #[error("the server refused `{request}`: {message}")]
    Refused {
        /// The method of the request.
        request: &'static str,
        /// The server's message.
        message: String,
    },
    /// The call was answered at once, because the tool is not one that may become a task.
    #[error("calls of `{tool}` do not become tasks: name it with `Server::task`")]
    NotATask {
        /// The tool.
        tool: String,
    },
    /// The tool asks something that the test does not answer.
    #[error("there is no answer to {questions:?}: use `answer` or `decline` for each of them")]
    Unanswered {
        /// The keys of the questions.
        questions: Vec<String>,
    },
    /// The test has an answer to a question that the tool never asked.
    #[error("the tool never asked {questions:?}, to which the test has answers; the task ended: {end}")]
    NeverAsked {
        /// The keys of the questions.
        questions: Vec<String>,
        /// The status of the task, and its result or error.
        end: String,
    },
    /// The test answers a question that the task does not ask now.
    #[error("the task does not ask `{question}` now; it asks {open:?}")]
    NotAsked {
        /// The key of the question.
        question: String,
        /// The keys of the questions that it asks.
        open: Vec<String>,
    },
    /// The task ended before it came to a point that the test names.
    #[error("the task ended ({status}) and never came to this: {moments}; its steps are {steps:?}")]
    NeverReached {
        /// The point that it did not reach.
        moments: String,
        /// How it ended.
        status: String,
        /// The steps that it came to.
        steps: Vec<String>,
    },
    /// An attempt waited for something that did not happen, in real time.
    #[error("the tool waited for {seconds} s for something other than its task; the last step that it came to: {step}")]
    Stuck {
        /// How long.
        seconds: u64,
        /// The last step that it came to.
        step: String,
    },
    /// The task did not end.
    #[error("the task did not end within {attempts} attempts")]
    NeverEnds {
        /// How many there were.
        attempts: usize,
    },
    /// The task failed at its deadline, so that crashes after it are not tested.
    #[error(
        "the task has no time left, so crashes could not be tested to its end: {message}; allow more time with \
         `TaskPolicy::run_at_most`"
    )]
    TimedOut {
        /// The error that its client gets.
        message: String,
    },
    /// The task failed.
    #[error("the task failed: {message}; if it is to fail, say `expect_failure`\n{report}")]
    Failed {
        /// The error that its client gets.
        message: String,
        /// Its journal.
        report: String,
    },
    /// The task did not fail, and was expected to.
    #[error("the task was expected to fail, and ended: {end}")]
    DidNotFail {
        /// Its status, and its result or error.
        end: String,
    },
    /// The tool does something else than a recorded task did.
    #[error("{difference}")]
    Diverges {
        /// The first difference.
        difference: String,
    },
    /// The journal to replay is not one, or not a whole one.
    #[error("this journal cannot be replayed: {0}")]
    NotAJournal(String),
    /// The tool does something else after a crash.
    #[error("the tool is not the same after a crash:\n{}", .differences.join("\n"))]
    Differs {
        /// One sentence for each difference.
        differences: Vec<String>,
    },
    /// Something that cannot be had here was expected: this is a defect of the test kit.
    #[error("the test kit got something unexpected: {0}")]
    Unexpected(String),
}

impl fmt::Debug for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

pub(super) fn unexpected(error: impl fmt::Display) -> TestError {
    TestError::Unexpected(error.to_string())
}
