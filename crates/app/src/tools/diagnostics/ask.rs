//! `ask`: asks the caller questions, one after the other, and returns all answers.

use longhaul::rmcp::handler::server::wrapper::{Json, Parameters};
use longhaul::rmcp::{self, ErrorData, tool, tool_router};
use longhaul::{Answer as Given, TaskContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::App;
use crate::tools::refused;

/// The maximum number of questions in one call.
pub const QUESTIONS_MAX: usize = 20;

/// The maximum length of a question, in bytes.
pub const QUESTION_BYTES_MAX: usize = 2_000;

/// The arguments of `ask`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskArgs {
    /// The questions in order, 1 to 20.
    #[schemars(length(min = 1, max = 20))]
    pub questions: Vec<String>,
}

/// The form that the user fills in for each question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The answer to the question.
    pub answer: String,
}

/// The outcome of one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerAction {
    /// It was answered.
    Accept,
    /// The user declined to answer.
    Decline,
    /// The user closed the form.
    Cancel,
}

/// A question with its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnsweredQuestion {
    /// The question.
    pub question: String,
    /// The outcome.
    pub action: AnswerAction,
    /// The answer, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// The result of `ask`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskAnswer {
    /// One for each question, in order.
    pub answers: Vec<AnsweredQuestion>,
}

/// Why questions are refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AskError {
    /// None, or too many.
    #[error("there are {0} `questions`: there must be between 1 and {QUESTIONS_MAX}")]
    Count(usize),
    /// One is blank.
    #[error("question {0} is empty")]
    Empty(usize),
    /// One is too long.
    #[error("question {0} is longer than {QUESTION_BYTES_MAX} bytes")]
    Long(usize),
}

impl AskArgs {
    /// Checks whether these questions can be asked.
    ///
    /// # Errors
    ///
    /// [`AskError`] says what to change; it counts questions from 1.
    pub fn check(&self) -> Result<(), AskError> {
        if !(1..=QUESTIONS_MAX).contains(&self.questions.len()) {
            return Err(AskError::Count(self.questions.len()));
        }
        for (number, question) in (1..).zip(&self.questions) {
            if question.trim().is_empty() {
                return Err(AskError::Empty(number));
            }
            if question.len() > QUESTION_BYTES_MAX {
                return Err(AskError::Long(number));
            }
        }
        Ok(())
    }
}

/// The key under which question `number`, counted from 1, is asked. Keys stay the same when the call is run again.
#[must_use]
pub fn question_key(number: usize) -> String {
    format!("question-{number}")
}

#[tool_router(router = ask_tool, vis = "pub(crate)")]
impl App {
    /// Asks the questions one after the other.
    #[tool(
        name = "ask",
        description = "Asks the user the given questions, one after the other, and returns all answers. For checking a \
                       deployment."
    )]
    async fn ask(
        &self,
        Parameters(args): Parameters<AskArgs>,
        task: TaskContext,
    ) -> Result<Json<AskAnswer>, ErrorData> {
        args.check().map_err(refused)?;
        let mut answers = Vec::with_capacity(args.questions.len());
        for (number, question) in (1..).zip(args.questions) {
            let (action, answer) = match task.ask::<Answer>(&question_key(number), question.as_str()).await? {
                Given::Accepted(Answer { answer }) => (AnswerAction::Accept, Some(answer)),
                Given::Declined => (AnswerAction::Decline, None),
                // Cancelled, or a kind of answer that a later version adds.
                _ => (AnswerAction::Cancel, None),
            };
            answers.push(AnsweredQuestion { question, action, answer });
        }
        Ok(Json(AskAnswer { answers }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(questions: &[String]) -> Result<(), AskError> {
        AskArgs { questions: questions.to_vec() }.check()
    }

    #[test]
    fn questions_within_the_limits_are_accepted_and_others_refused() {
        assert_eq!(check(&["Why?".to_owned()]), Ok(()));
        assert_eq!(check(&[]), Err(AskError::Count(0)));
        assert_eq!(check(&vec!["Why?".to_owned(); 21]), Err(AskError::Count(21)));
        assert_eq!(check(&["Why?".to_owned(), " ".to_owned()]), Err(AskError::Empty(2)));
        assert_eq!(check(&["x".repeat(2_001)]), Err(AskError::Long(1)));
    }
}
