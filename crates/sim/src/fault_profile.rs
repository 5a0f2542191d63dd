//! The faults that can be injected into a world, and how often each is.

use longhaul_testkit::models::Randomness;

/// One line for each fault: what happens, its name, and how often it happens at most, per 1,000 occasions.
macro_rules! injected_faults {
    ($(#[doc = $what:literal] $fault:ident at_most $worst:literal;)+) => {
        /// The faults of a world.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum InjectedFault {
            $(#[doc = $what] $fault,)+
        }

        impl InjectedFault {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$fault,)+];

            const fn worst(self) -> u64 {
                match self {
                    $(Self::$fault => $worst,)+
                }
            }
        }
    };
}

injected_faults! {
    /// The store fails and does nothing.
    StoreBefore at_most 150;
    /// The store succeeds, and its answer is lost.
    StoreAfter at_most 150;
    /// The store's answer is lost, and the write lands much later.
    StoreLate at_most 30;
    /// The store takes very long.
    StoreStall at_most 30;
    /// The queue fails and sends nothing.
    SendBefore at_most 300;
    /// The queue sends the message, and its answer is lost.
    SendAfter at_most 300;
    /// A message vanishes.
    SendLost at_most 300;
    /// A message arrives much later than it should.
    SendSlow at_most 200;
    /// A message is delivered twice.
    Double at_most 200;
    /// Another call to the queue fails.
    QueueFails at_most 200;
    /// A worker is killed.
    Kill at_most 60;
    /// A worker freezes for a while, and then continues.
    Freeze at_most 30;
    /// A worker is asked to stop.
    Stop at_most 20;
    /// An API instance dies in the middle of a request.
    ApiDies at_most 100;
    /// The store deletes what has expired.
    Purge at_most 20;
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
                    let fault = dice.one_of(InjectedFault::ALL);
                    profile.rates[fault as usize] = fault.worst() / dice.one_of(&[1, 3, 10]);
                }
            }
            _ => {
                for fault in InjectedFault::ALL {
                    profile.rates[*fault as usize] = fault.worst() / dice.one_of(&[2, 4, 20]);
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
