//! The calls of a load: tools, rates and callers.

use super::super::partitions::Throughput;

/// Calls at a steady rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadPlan {
    /// Where all randomness comes from.
    pub seed: u64,
    /// The callers, in turn.
    pub owners: u32,
    /// Calls a second.
    pub rate: u32,
    /// For how many seconds.
    pub seconds: u32,
    /// Whether each call has an idempotency key.
    pub keys: bool,
    /// Steps of a task. An attempt takes one second, with any number of steps.
    pub steps: u32,
    /// The units of the store.
    pub throughput: Throughput,
    /// How many unfinished tasks an owner may have.
    pub open_tasks_max: u32,
    /// How many attempts run at a time in the beginning, and how many more every second, up to how many.
    pub attempts: Attempts,
}

/// How many attempts run at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts {
    /// At once.
    pub first: u32,
    /// More of them, every second.
    pub per_second: u32,
    /// At most.
    pub max: u32,
}

impl Attempts {
    /// As many as are needed.
    pub const ENOUGH: Self = Self { first: 1 << 17, per_second: 0, max: 1 << 17 };

    /// As Lambda starts them for a queue that was empty, each with one attempt: five at once, 300 more a minute, up to
    /// 1,000.
    pub const OF_A_NEW_QUEUE: Self = Self { first: 5, per_second: 5, max: 1_000 };
}

impl LoadPlan {
    /// Calls without keys and without steps, with as many workers as are needed.
    #[must_use]
    pub const fn new(owners: u32, rate: u32, seconds: u32, throughput: Throughput) -> Self {
        Self {
            seed: 1,
            owners,
            rate,
            seconds,
            keys: false,
            steps: 0,
            throughput,
            open_tasks_max: 1_000_000,
            attempts: Attempts::ENOUGH,
        }
    }

    /// The rows of the table in `docs/scale.md`.
    #[must_use]
    pub fn of_the_page() -> Vec<Self> {
        let quota = |owners, rate, seconds| Self::new(owners, rate, seconds, Throughput::BY_QUOTA);
        let many = 1_000;
        vec![
            quota(1, 10, 20),
            quota(many, 10, 20),
            quota(1, 1_000, 8),
            Self { keys: true, ..quota(1, 1_000, 8) },
            Self { steps: 10, ..quota(1, 1_000, 8) },
            quota(many, 1_000, 8),
            Self::new(many, 1_000, 8, Throughput::NEW_TABLE),
            Self { attempts: Attempts::OF_A_NEW_QUEUE, ..quota(many, 1_000, 20) },
            Self { attempts: Attempts::OF_A_NEW_QUEUE, open_tasks_max: 10_000, ..quota(1, 1_000, 20) },
            quota(1, 2_000, 6),
            quota(1, 3_000, 6),
            quota(1, 6_000, 4),
            quota(1, 20_000, 2),
            quota(many, 5_000, 4),
            quota(many, 8_000, 4),
            quota(many, 20_000, 2),
        ]
    }

    pub(super) const fn calls(&self) -> usize {
        self.rate as usize * self.seconds as usize
    }
}
