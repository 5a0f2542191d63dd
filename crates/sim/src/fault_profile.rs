//! The faults that can be injected into a world, and how often each is.

use longhaul_testkit::models::Randomness;

/// What can go wrong in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InjectedFault {
    /// The store fails and does nothing.
    StoreBefore,
    /// The store succeeds, and its answer is lost.
    StoreAfter,
    /// The store's answer is lost, and the write lands much later.
    StoreLate,
    /// The store takes very long.
    StoreStall,
    /// The queue fails and sends nothing.
    SendBefore,
    /// The queue sends the message, and its answer is lost.
    SendAfter,
    /// A message vanishes.
    SendLost,
    /// A message arrives much later than it should.
    SendSlow,
    /// A message is delivered twice.
    Double,
    /// Another call to the queue fails.
    QueueFails,
    /// A worker is killed.
    Kill,
    /// A worker freezes for a while, and then continues.
    Freeze,
    /// A worker is asked to stop.
    Stop,
    /// An API instance dies in the middle of a request.
    ApiDies,
    /// The store deletes what has expired.
    Purge,
}

impl InjectedFault {
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

/// Rates per 1,000 occasions, by fault.
#[derive(Clone, Debug)]
pub struct FaultProfile {
    rates: [u64; InjectedFault::ALL.len()],
    /// Whether the clocks differ.
    pub clocks_differ: bool,
}

impl FaultProfile {
    /// A profile without faults, with a few kinds of them, or with all kinds.
    pub(crate) fn roll(dice: &mut Randomness) -> Self {
        let mut profile = Self { rates: [0; InjectedFault::ALL.len()], clocks_differ: dice.happens(400) };
        match dice.below(10) {
            0 => {}
            1..=6 => {
                for _ in 0..dice.between(1, 4) {
                    let fault = dice.one_of(&InjectedFault::ALL);
                    profile.rates[fault as usize] = worst(fault) / dice.one_of(&[1, 3, 10]);
                }
            }
            _ => {
                for fault in InjectedFault::ALL {
                    profile.rates[fault as usize] = worst(fault) / dice.one_of(&[2, 4, 20]);
                }
            }
        }
        profile
    }

    /// The same profile, except that nothing is lost between a record and its message.
    pub(crate) const fn without_losses(mut self) -> Self {
        self.rates[InjectedFault::SendLost as usize] = 0;
        self.rates[InjectedFault::ApiDies as usize] = 0;
        self
    }

    /// The profile without faults.
    pub(crate) const NONE: Self = Self { rates: [0; InjectedFault::ALL.len()], clocks_differ: false };

    /// Whether no fault is injected.
    pub(crate) fn is_none(&self) -> bool {
        self.rates.iter().all(|rate| *rate == 0)
    }

    /// The rate of `fault` per 1,000 occasions.
    #[must_use]
    pub const fn rate(&self, fault: InjectedFault) -> u64 {
        self.rates[fault as usize]
    }

    /// Leaves `fault` out.
    pub const fn spare(&mut self, fault: InjectedFault) {
        self.rates[fault as usize] = 0;
    }
}

const fn worst(fault: InjectedFault) -> u64 {
    match fault {
        InjectedFault::StoreBefore | InjectedFault::StoreAfter => 150,
        InjectedFault::SendBefore | InjectedFault::SendAfter | InjectedFault::SendLost => 300,
        InjectedFault::SendSlow | InjectedFault::Double | InjectedFault::QueueFails => 200,
        InjectedFault::Kill => 60,
        InjectedFault::StoreLate | InjectedFault::Freeze | InjectedFault::StoreStall => 30,
        InjectedFault::Stop | InjectedFault::Purge => 20,
        InjectedFault::ApiDies => 100,
    }
}
