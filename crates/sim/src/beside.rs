//! Tools of the simulation that ask a question next to other work.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use longhaul_core::EntryKind;
use longhaul_engine::{AttemptEnd, Every};

use super::plan::Beside;
use super::tools::Running;

impl Running<'_> {
    /// Asks, and does other work until one of the two is ready. A step records which came first, because the next
    /// attempt may find both.
    pub(super) async fn ask_beside(&self, position: usize, beside: Beside) -> Option<AttemptEnd> {
        let name = format!("q{position}");
        let first = {
            let ask = pin!(self.attempt.ask(&name, "{}".to_owned()));
            let other = pin!(self.do_beside(position, beside));
            match select(ask, other).await {
                Either::Left((answer, _)) => {
                    self.got(EntryKind::Answer, &name, &answer);
                    "answer"
                }
                Either::Right((None, _)) => "other",
                Either::Right((end @ Some(_), _)) => return end,
            }
        };
        let name = format!("w{position}");
        let Ok(first) = self.attempt.step(&name, || async { Ok::<_, Infallible>(first.to_owned()) }).await;
        self.got(EntryKind::Step, &name, &first);
        None
    }

    async fn do_beside(&self, position: usize, beside: Beside) -> Option<AttemptEnd> {
        match beside {
            Beside::Reminders(ms, count) => {
                for number in 0..count {
                    self.attempt.sleep_ms(ms).await;
                    self.step(format!("r{position}.{number}"), ms / 4, 5).await;
                }
            }
            Beside::Polls(there_ms, every_ms) => {
                let every = Every::fixed(Duration::from_millis(every_ms));
                self.poll(position, there_ms, every).await;
            }
            Beside::Signal(after_ms) => self.signal(position, after_ms).await,
            Beside::Call(number) => return self.call_all(number, 1).await,
        }
        None
    }
}
