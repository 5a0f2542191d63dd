//! The settings of a database.

/// The settings of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which failures an accepted call survives.
    pub durability: Durability,
    /// How often a message is delivered before it becomes a dead letter.
    pub receives_max: u32,
    /// How many messages of one owner may be in flight at a time: delivered, and neither deleted nor visible again. The
    /// owner's other messages are passed over until then.
    pub owner_in_flight_max: usize,
    /// Whether events leave notifications.
    pub notifications: Notifications,
    /// How long to wait for another process that has locked the file, in milliseconds.
    pub busy_ms_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            durability: Durability::PowerLoss,
            receives_max: 10,
            owner_in_flight_max: usize::MAX,
            notifications: Notifications::None,
            busy_ms_max: 5_000,
        }
    }
}

/// Whether an event that ends a task, or after which it waits for its client, leaves a notification in the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notifications {
    /// It does, in the same transaction.
    Left,
    /// There are no notifications.
    None,
}

/// Which failures an accepted call survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// All: the disk has written the call before it is answered (`synchronous = FULL`).
    PowerLoss,
    /// A crash of the process, but not every crash of the machine (`synchronous = NORMAL`).
    ProcessCrash,
}

impl Durability {
    pub(crate) const fn pragma(self) -> &'static str {
        match self {
            Self::PowerLoss => "FULL",
            Self::ProcessCrash => "NORMAL",
        }
    }
}
