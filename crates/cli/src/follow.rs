//! Waiting for the end of tasks: polls at the server's pace, over lost connections, and asks the questions of tasks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul_client::{Client, Error, Question, Status, Task};
use serde_json::Value;

use crate::clock;
use crate::exit::{Exit, Stop};
use crate::form::{self, Asked};
use crate::limits::{
    BACK_OFF, BACK_OFF_MAX, INTERVAL, INTERVAL_MAX, INTERVAL_MIN, SECOND_CTRL_C, SILENT_MAX, UNASKED_MAX,
};
use crate::out;
use crate::screen::{Screen, View};

/// How waiting for a task ended.
pub(crate) enum Followed {
    Ended(Task),
    /// It asks a question, and there is no terminal to ask at.
    Unanswered(Task),
    /// The user stops waiting.
    Left,
    Stopped(Stop),
}

/// A task that is waited for, and a client that its server shows it to.
#[derive(Clone)]
pub(crate) struct Watched {
    pub(crate) id: String,
    pub(crate) client: Arc<Client>,
}

/// The means to wait for tasks of one server.
pub(crate) struct Follower {
    pub(crate) screen: Screen,
    /// The flag that makes a further verb find the server.
    pub(crate) come_back: String,
    /// How long to wait before the first poll.
    pub(crate) first: Duration,
}

impl Follower {
    /// Waits for the end of tasks, unless the user presses Ctrl-C, or `wait` has ended first.
    ///
    /// # Errors
    /// Why the command stops waiting while the tasks continue.
    pub(crate) async fn follow(&self, tasks: &[Watched], wait: Option<Duration>) -> Result<Vec<Followed>, Stop> {
        let all = futures::future::join_all(tasks.iter().map(|task| self.follow_one(task, tasks.len())));
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => self.leave(tasks).await,
            () = self.screen.reader_gone() => Err(Stop::reader_gone()),
            all = all => {
                let has_left = all.iter().any(|followed| matches!(followed, Followed::Left));
                if has_left { self.leave(tasks).await } else { Ok(all) }
            }
            () = over(wait) => Err(self.wait_is_over(&ids(tasks))),
        }
    }

    pub(crate) fn wait_is_over(&self, ids: &[String]) -> Stop {
        Stop::new(Exit::WaitOver, format!("it has not ended yet\n{}", self.how_to_come_back(ids)))
    }

    fn how_to_come_back(&self, ids: &[String]) -> String {
        let (ids, it) = (ids.join(" "), if ids.len() == 1 { "The task continues" } else { "The tasks continue" });
        format!("{it}. To come back: longhaul watch {ids}{}", self.come_back)
    }

    /// The tasks continue, unless the user presses Ctrl-C once more.
    async fn leave(&self, tasks: &[Watched]) -> Result<Vec<Followed>, Stop> {
        let text = format!("\n{}\nPress Ctrl-C again to cancel.", self.how_to_come_back(&ids(tasks)));
        self.screen.say(&text);
        if tokio::time::timeout(SECOND_CTRL_C, tokio::signal::ctrl_c()).await.is_err() {
            return Err(Stop::interrupted());
        }
        for task in tasks {
            match task.client.cancel(&task.id).await {
                Err(error) if error.may_pass() => return Err(error.into()),
                // A cancel is refused most often because the task has ended.
                Ok(()) | Err(_) => {}
            }
        }
        Err(Stop::new(Exit::Interrupted, "interrupted; the server was asked to cancel"))
    }

    async fn follow_one(&self, watched: &Watched, of: usize) -> Followed {
        let mut view = self.screen.view(if of == 1 { "" } else { &watched.id });
        let mut asked = Answered::default();
        clock::pause(self.first).await;
        loop {
            let tell = |error: &Error, failures| self.tell(&mut view, error, failures);
            let task = match patiently(async || watched.client.task(&watched.id).await, tell).await {
                Ok(task) => task,
                Err(error) => return Followed::Stopped(error.into()),
            };
            if let Err(stop) = view.task(&task) {
                return Followed::Stopped(stop);
            }
            if let Some(followed) = self.seen(&watched.client, &task, &mut asked, of).await {
                return followed;
            }
            clock::pause(interval(&task)).await;
        }
    }

    /// How waiting ends, if it does now. Asks the task's questions.
    async fn seen(&self, client: &Client, task: &Task, answered: &mut Answered, of: usize) -> Option<Followed> {
        match task.status {
            Status::Completed | Status::Failed | Status::Cancelled => Some(Followed::Ended(task.clone())),
            Status::InputRequired => self.answer(client, task, answered, of).await,
            Status::Working => {
                *answered = Answered::default();
                None
            }
        }
    }

    fn tell(&self, view: &mut View, error: &Error, failures: u32) {
        if failures == 1 {
            self.screen.say(&format!("{}; trying again, the task is not lost", out::line(&error.to_string())));
        }
        view.message("not reachable, trying again");
    }

    /// Asks the task's questions. Returns how waiting ends, if that cannot be done.
    async fn answer(&self, client: &Client, task: &Task, answered: &mut Answered, of: usize) -> Option<Followed> {
        for question in &task.questions {
            if answered.questions.contains(question) {
                continue;
            }
            if of > 1 || !out::can_ask() || matches!(self.screen, Screen::Json) {
                return Some(Followed::Unanswered(task.clone()));
            }
            match ask(&self.screen, question).await {
                Asked::Answer(answer) => match self.send(client, task, question, answer).await {
                    Ok(()) => answered.note(question),
                    Err(error) => return Some(Followed::Stopped(error.into())),
                },
                Asked::Later => return Some(Followed::Left),
                Asked::CannotAsk => return Some(Followed::Unanswered(task.clone())),
            }
        }
        answered.is_stuck().then(|| Followed::Unanswered(task.clone()))
    }

    async fn send(&self, client: &Client, task: &Task, question: &Question, answer: Value) -> Result<(), Error> {
        let tell = |error: &Error, failures| {
            if failures == 1 {
                self.screen.say(&format!("{}; trying again", out::line(&error.to_string())));
            }
        };
        // The first answer counts, so a second one does no harm.
        patiently(async || client.answer(&task.id, question, answer.clone()).await, tell).await
    }
}

/// The questions of a task that were answered since it last worked.
#[derive(Default)]
struct Answered {
    questions: Vec<Question>,
    /// Since when there has been no question, although the task needs an answer.
    unasked: Option<Instant>,
}

impl Answered {
    fn note(&mut self, question: &Question) {
        self.questions.push(question.clone());
        self.unasked = None;
    }

    /// Whether the task waits for the answer to a question that is not shown.
    fn is_stuck(&mut self) -> bool {
        self.unasked.get_or_insert_with(clock::instant).elapsed() > UNASKED_MAX
    }
}

fn ids(tasks: &[Watched]) -> Vec<String> {
    tasks.iter().map(|task| task.id.clone()).collect()
}

/// Asks a server again while it is away, or has no time, but not for longer than ten minutes. `tell` learns of each
/// failure, and how many there were.
///
/// # Errors
/// The last failure.
pub(crate) async fn patiently<T>(
    mut ask: impl AsyncFnMut() -> Result<T, Error>,
    mut tell: impl FnMut(&Error, u32),
) -> Result<T, Error> {
    let (begun, mut failures) = (clock::instant(), 0_u32);
    loop {
        let error = match ask().await {
            Err(error) if error.may_pass() => error,
            done => return done,
        };
        let pause = back_off(failures, &error);
        if begun.elapsed().saturating_add(pause) > SILENT_MAX {
            return Err(error);
        }
        failures = failures.saturating_add(1);
        tell(&error, failures);
        clock::pause(pause).await;
    }
}

/// Ends when the user's waiting time has elapsed.
pub(crate) async fn over(wait: Option<Duration>) {
    match wait {
        Some(wait) => clock::pause(wait).await,
        None => std::future::pending().await,
    }
}

/// Asks at the terminal, on a thread of its own.
pub(crate) async fn ask(screen: &Screen, question: &Question) -> Asked {
    let (screen, question) = (screen.clone(), question.clone());
    let asked = tokio::task::spawn_blocking(move || screen.suspend(|| form::ask(&question))).await;
    asked.unwrap_or(Asked::CannotAsk)
}

/// How long to wait until the next poll.
pub(crate) fn interval(task: &Task) -> Duration {
    task.interval_ms.map_or(INTERVAL, |ms| Duration::from_millis(ms).clamp(INTERVAL_MIN, INTERVAL_MAX))
}

/// How long to wait after so many polls in a row that failed.
fn back_off(failures: u32, error: &Error) -> Duration {
    let own = BACK_OFF.saturating_mul(1 << failures.min(5)).min(BACK_OFF_MAX);
    error.after().map_or(own, |after| own.max(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_shows_no_question_is_not_waited_for_without_end() {
        let mut answered = Answered::default();
        assert!(!answered.is_stuck());
        answered.unasked = answered.unasked.and_then(|since| since.checked_sub(UNASKED_MAX + UNASKED_MAX));
        assert!(answered.is_stuck());
    }

    #[tokio::test]
    async fn a_server_that_wants_to_be_left_alone_for_too_long_is_given_up() {
        let busy = || Error::Busy { status: 429, after: Some(SILENT_MAX + BACK_OFF) };
        let mut told = 0;
        let asked: Result<(), Error> = patiently(async || Err(busy()), |_, _| told += 1).await;
        assert!(matches!(asked, Err(Error::Busy { .. })) && told == 0);
    }
}
