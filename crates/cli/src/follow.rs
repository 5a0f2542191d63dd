//! Waiting for the end of tasks: looks at the server's pace, over lost connections, with what tasks ask.

use std::collections::HashSet;
use std::time::Duration;

use longhaul_client::{Client, Error, Question, Status, Task};
use serde_json::Value;

use crate::clock;
use crate::exit::{Exit, Stop};
use crate::form::{self, Asked};
use crate::out;
use crate::screen::{Screen, View};

/// Between two looks, if the server does not say how long.
const INTERVAL: Duration = Duration::from_secs(1);

/// No server is asked more often, whatever it says.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The first pause after a look that failed; each further one is twice as long.
const BACK_OFF: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// A server that has not answered for so long is given up.
const SILENT_MAX: Duration = Duration::from_secs(10 * 60);

/// How long after a first Ctrl-C a second one cancels.
const SECOND_CTRL_C: Duration = Duration::from_secs(2);

/// How waiting for a task ended.
pub(crate) enum Followed {
    Ended(Task),
    /// It asks something that nobody can be asked here.
    Unanswered(Task),
    /// The user wants to go.
    Left,
    Stopped(Stop),
}

/// What waits for tasks of one server.
pub(crate) struct Follower<'c> {
    pub(crate) client: &'c Client,
    pub(crate) screen: Screen,
    /// What is added to a verb so that it finds the server.
    pub(crate) come_back: String,
    /// How long to wait before the first look.
    pub(crate) first: Duration,
}

impl Follower<'_> {
    /// Waits for the end of tasks, unless the user presses Ctrl-C, or `wait` is over first.
    ///
    /// # Errors
    /// Why nobody waits any more, while the tasks go on.
    pub(crate) async fn follow(&self, ids: &[String], wait: Option<Duration>) -> Result<Vec<Followed>, Stop> {
        let all = futures::future::join_all(ids.iter().map(|id| self.follow_one(id, ids.len())));
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => self.leave(ids).await,
            all = all => {
                let has_left = all.iter().any(|followed| matches!(followed, Followed::Left));
                if has_left { self.leave(ids).await } else { Ok(all) }
            }
            () = over(wait) => Err(Stop::new(Exit::WaitOver, format!("it has not ended yet\n{}",
                self.how_to_come_back(ids)))),
        }
    }

    fn how_to_come_back(&self, ids: &[String]) -> String {
        let (ids, it) = (ids.join(" "), if ids.len() == 1 { "The task goes on" } else { "The tasks go on" });
        format!("{it}. To come back: longhaul watch {ids}{}", self.come_back)
    }

    /// The tasks go on, unless the user presses Ctrl-C once more.
    async fn leave(&self, ids: &[String]) -> Result<Vec<Followed>, Stop> {
        self.screen.say(&format!("\n{}\nPress Ctrl-C again to cancel.", self.how_to_come_back(ids)));
        if tokio::time::timeout(SECOND_CTRL_C, tokio::signal::ctrl_c()).await.is_err() {
            return Err(Stop::interrupted());
        }
        for id in ids {
            match self.client.cancel(id).await {
                Err(error) if error.may_pass() => return Err(error.into()),
                // One that is refused has ended, most often.
                Ok(()) | Err(_) => {}
            }
        }
        Err(Stop::new(Exit::Interrupted, "interrupted; the server was asked to cancel"))
    }

    async fn follow_one(&self, id: &str, of: usize) -> Followed {
        let mut view = self.screen.view(if of == 1 { "" } else { id });
        let mut answered = HashSet::new();
        let (mut failures, mut silent) = (0_u32, Duration::ZERO);
        clock::pause(self.first).await;
        loop {
            let pause = match self.client.task(id).await {
                Ok(task) => {
                    (failures, silent) = (0, Duration::ZERO);
                    view.task(&task);
                    match self.seen(&task, &mut answered, of).await {
                        Some(followed) => return followed,
                        None => interval(&task),
                    }
                }
                Err(error) if error.may_pass() && silent < SILENT_MAX => {
                    let pause = back_off(failures, &error);
                    (failures, silent) = (failures.saturating_add(1), silent + pause);
                    self.tell(&mut view, &error, failures);
                    pause
                }
                Err(error) => return Followed::Stopped(error.into()),
            };
            clock::pause(pause).await;
        }
    }

    /// How waiting ends, if it does now. What the task asks is asked.
    async fn seen(&self, task: &Task, answered: &mut HashSet<String>, of: usize) -> Option<Followed> {
        match task.status {
            Status::Completed | Status::Failed | Status::Cancelled => Some(Followed::Ended(task.clone())),
            Status::InputRequired => self.answer(task, answered, of).await,
            Status::Working => None,
        }
    }

    fn tell(&self, view: &mut View, error: &Error, failures: u32) {
        if failures == 1 {
            self.screen.say(&format!("{}; trying again, the task is not lost", out::line(&error.to_string())));
        }
        view.message("not reachable, trying again");
    }

    /// Asks what the task asks; how waiting ends, if that cannot be done.
    async fn answer(&self, task: &Task, answered: &mut HashSet<String>, of: usize) -> Option<Followed> {
        for question in &task.questions {
            if answered.contains(&question.key) {
                continue;
            }
            if of > 1 || !out::can_ask() || matches!(self.screen, Screen::Json) {
                return Some(Followed::Unanswered(task.clone()));
            }
            match ask(&self.screen, question).await {
                Asked::Answer(answer) => match self.send(task, question, answer).await {
                    Ok(()) => answered.insert(question.key.clone()),
                    Err(error) => return Some(Followed::Stopped(error.into())),
                },
                Asked::Later => return Some(Followed::Left),
                Asked::CannotAsk => return Some(Followed::Unanswered(task.clone())),
            };
        }
        None
    }

    async fn send(&self, task: &Task, question: &Question, answer: Value) -> Result<(), Error> {
        match self.client.answer(&task.id, question, answer.clone()).await {
            // The first answer counts, so that a second one does no harm.
            Err(error) if error.may_pass() => {
                clock::pause(BACK_OFF).await;
                self.client.answer(&task.id, question, answer).await
            }
            sent => sent,
        }
    }
}

/// Ends when the user waits no longer.
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

/// How long to wait until the next look.
pub(crate) fn interval(task: &Task) -> Duration {
    task.interval_ms.map_or(INTERVAL, |ms| Duration::from_millis(ms).max(INTERVAL_MIN))
}

/// How long to wait after so many looks in a row that failed.
pub(crate) fn back_off(failures: u32, error: &Error) -> Duration {
    let own = BACK_OFF.saturating_mul(1 << failures.min(5)).min(BACK_OFF_MAX);
    match error {
        Error::Busy { after: Some(after), .. } => own.max(*after),
        _ => own,
    }
}
