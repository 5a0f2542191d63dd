//! How often what goes wrong.

use super::chance::Chance;

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mishap {
    /// The store fails and does nothing.
    StoreBefore,
    /// The store does it, and its answer is lost.
    StoreAfter,
    /// The store's answer is lost, and the write lands much later.
    StoreLate,
    /// The store takes very long.
    StoreStall,
    /// The queue fails and sends nothing.
    SendBefore,
    /// The queue sends, and its answer is lost.
    SendAfter,
    /// A message vanishes.
    SendLost,
    /// A message comes much later than it should.
    SendSlow,
    /// A delivery comes twice.
    Double,
    /// Another call to the queue fails.
    QueueFails,
    /// A worker is killed.
    Kill,
    /// A worker stands still for a while, and then goes on.
    Freeze,
    /// A worker is asked to stop.
    Stop,
    /// An API instance dies in the middle of a request.
    ApiDies,
    /// The store sweeps out what has expired.
    Purge,
}

impl Mishap {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::StoreBefore,
        Self::StoreAfter,
        Self::StoreLate,
        Self::StoreStall,
        Self::SendBefore,
        Self::SendAfter,
        Self::SendLost,
        Self::SendSlow,
        Self::Double,
        Self::QueueFails,
        Self::Kill,
        Self::Freeze,
        Self::Stop,
        Self::ApiDies,
        Self::Purge,
    ];
}

/// Rates per 1,000 occasions, by mishap.
#[derive(Clone, Debug)]
pub struct Weather {
    rates: [u64; Mishap::ALL.len()],
    /// Whether the clocks differ.
    pub clocks_differ: bool,
}

impl Weather {
    /// A world's weather: fine, with one or two mishaps, or terrible.
    pub(crate) fn roll(dice: &mut Chance) -> Self {
        let mut weather = Self { rates: [0; Mishap::ALL.len()], clocks_differ: dice.happens(400) };
        match dice.below(10) {
            0 => {}
            1..=6 => {
                for _ in 0..dice.between(1, 4) {
                    let mishap = dice.one_of(&Mishap::ALL);
                    weather.rates[mishap as usize] = worst(mishap) / dice.one_of(&[1, 3, 10]);
                }
            }
            _ => {
                for mishap in Mishap::ALL {
                    weather.rates[mishap as usize] = worst(mishap) / dice.one_of(&[2, 4, 20]);
                }
            }
        }
        weather
    }

    /// The same weather, but nothing is lost between a record and its message.
    pub(crate) const fn without_losses(mut self) -> Self {
        self.rates[Mishap::SendLost as usize] = 0;
        self.rates[Mishap::ApiDies as usize] = 0;
        self
    }

    /// The rate of `mishap` per 1,000 occasions.
    #[must_use]
    pub const fn rate(&self, mishap: Mishap) -> u64 {
        self.rates[mishap as usize]
    }

    /// Never again `mishap`.
    pub const fn spare(&mut self, mishap: Mishap) {
        self.rates[mishap as usize] = 0;
    }
}

const fn worst(mishap: Mishap) -> u64 {
    match mishap {
        Mishap::StoreBefore | Mishap::StoreAfter => 150,
        Mishap::SendBefore | Mishap::SendAfter | Mishap::SendLost => 300,
        Mishap::SendSlow | Mishap::Double | Mishap::QueueFails => 200,
        Mishap::Kill => 60,
        Mishap::StoreLate | Mishap::Freeze | Mishap::StoreStall => 30,
        Mishap::Stop | Mishap::Purge => 20,
        Mishap::ApiDies => 100,
    }
}
