//! The faults and their times: all of it follows from the seed.

use std::fmt;
use std::time::Duration;

use crate::dice::Dice;

/// Which servers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// One server with an embedded database.
    Local,
    /// Three servers on a table and a queue of the emulator.
    Instances,
    /// The gateway in front of a server that is a process.
    Gateway,
    /// The template, with its functions, on the emulator.
    Deployed,
}

/// Whether a call that is sent again is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// By its key.
    Taken,
    /// Never: it has no key, and may be another task.
    Refused,
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A server gets SIGKILL, and is started again after a while.
    Kill {
        /// Which one.
        server: usize,
        /// For how long it is gone.
        down: Duration,
    },
    /// A server stands still for a while.
    Freeze {
        /// Which one.
        server: usize,
        /// For how long.
        time: Duration,
    },
    /// A process behind the gateway gets SIGKILL.
    KillChild {
        /// Which of those that run.
        child: usize,
    },
    /// All processes that run a function get SIGKILL.
    KillFunction(Function),
    /// The emulator stands still.
    PauseStore(Duration),
    /// All connections break, and none can be made.
    Cut(Network, Duration),
    /// Everything takes so much longer, for some seconds.
    Slow(Network, Duration),
    /// Requests arrive, and are not answered.
    LoseAnswers(Network, Duration),
    /// The system that runs jobs stands still.
    FreezeJobs(Duration),
    /// The disk with the database is full.
    FillDisk(Duration),
    /// The server gets SIGKILL, and is started again while the disk with the database is full.
    StartOnFullDisk(Duration),
}

/// Which connections something happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// The connections of clients to the servers.
    Clients,
    /// The connections of the servers to the emulator.
    Store,
    /// The connections of the servers to the system that runs jobs.
    Jobs,
}

/// A function of the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// The one that answers requests.
    Api,
    /// The one that runs tools.
    Worker,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = |network| match network {
            Network::Clients => "the connections of clients",
            Network::Store => "the connections to the emulator",
            Network::Jobs => "the connections to the system that runs jobs",
        };
        match *self {
            Self::Kill { server, down } => write!(f, "kills server {server}, which is gone for {down:?}"),
            Self::Freeze { server, time } => write!(f, "freezes server {server} for {time:?}"),
            Self::KillChild { child } => write!(f, "kills process {child} behind the gateway, if there are so many"),
            Self::PauseStore(time) => write!(f, "stops the emulator for {time:?}"),
            Self::KillFunction(function) => write!(f, "kills all that run the {} function", function.name()),
            Self::Cut(network, time) => write!(f, "cuts {} for {time:?}", connections(network)),
            Self::Slow(network, delay) => write!(f, "makes {} slower by {delay:?}", connections(network)),
            Self::LoseAnswers(network, time) => write!(f, "loses the answers on {} for {time:?}", connections(network)),
            Self::FreezeJobs(time) => write!(f, "freezes the system that runs jobs for {time:?}"),
            Self::FillDisk(time) => write!(f, "fills the disk for {time:?}"),
            Self::StartOnFullDisk(time) => {
                write!(f, "kills server 0, and starts it on a disk that is full for {time:?}")
            }
        }
    }
}

impl Function {
    /// The name in the template.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Api => "ApiFunction",
            Self::Worker => "WorkerFunction",
        }
    }
}

impl Fault {
    /// The name in reports.
    pub(crate) const fn name(self) -> &'static str {
        self.kind().0
    }

    /// Which column of the table of results it belongs to.
    pub(crate) const fn sort(self) -> Sort {
        self.kind().1
    }

    const fn kind(self) -> (&'static str, Sort) {
        match self {
            Self::Kill { .. } => ("server killed", Sort::Kill),
            Self::Freeze { .. } => ("server frozen", Sort::Standstill),
            Self::KillChild { .. } => ("process behind killed", Sort::Kill),
            Self::KillFunction(Function::Api) => ("API function killed", Sort::Kill),
            Self::KillFunction(Function::Worker) => ("worker killed", Sort::Kill),
            Self::PauseStore(_) => ("emulator paused", Sort::Standstill),
            Self::Cut(Network::Clients, _) => ("clients cut off", Sort::Cut),
            Self::Cut(Network::Store, _) => ("emulator cut off", Sort::Cut),
            Self::Cut(Network::Jobs, _) => ("jobs cut off", Sort::Cut),
            Self::Slow(Network::Clients, _) => ("clients slow", Sort::Slow),
            Self::Slow(Network::Store, _) => ("emulator slow", Sort::Slow),
            Self::Slow(Network::Jobs, _) => ("jobs slow", Sort::Slow),
            Self::LoseAnswers(Network::Clients, _) => ("client answers lost", Sort::Loss),
            Self::LoseAnswers(Network::Store, _) => ("store answers lost", Sort::Loss),
            Self::LoseAnswers(Network::Jobs, _) => ("job answers lost", Sort::Loss),
            Self::FreezeJobs(_) => ("job system frozen", Sort::Standstill),
            Self::FillDisk(_) => ("disk full", Sort::Disk),
            Self::StartOnFullDisk(_) => ("killed, disk full", Sort::Disk),
        }
    }
}

/// The sort of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Processes are killed.
    Kill,
    /// Something stands still.
    Standstill,
    /// Connections break.
    Cut,
    /// Connections are slow.
    Slow,
    /// Answers are lost.
    Loss,
    /// The disk is full.
    Disk,
}

/// A fault, and how long after the one before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) after: Duration,
    pub(crate) fault: Fault,
}

impl Form {
    /// The name in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Instances => "instances",
            Self::Gateway => "gateway",
            Self::Deployed => "deployed",
        }
    }

    /// Whether its servers have a schedule. The deployed template has none without a parameter.
    pub(crate) const fn has_schedule(self) -> bool {
        matches!(self, Self::Local | Self::Instances)
    }

    /// Whether calls have keys. The callers of the deployed template are anonymous.
    pub(crate) const fn keys(self) -> Keys {
        if matches!(self, Self::Deployed) { Keys::Refused } else { Keys::Taken }
    }

    /// Servers that clients talk to.
    pub(crate) const fn servers(self) -> usize {
        if matches!(self, Self::Instances) { 3 } else { 1 }
    }

    fn fault(self, dice: &mut Dice) -> Fault {
        let server = dice.index(self.servers());
        let network = match (self, dice.index(6)) {
            (_, 0) => Network::Jobs,
            (Self::Instances, 1..=3) | (Self::Gateway, 1) => Network::Store,
            _ => Network::Clients,
        };
        let ms = |dice: &mut Dice, from, to| Duration::from_millis(dice.between(from, to));
        match (self, dice.between(0, 16)) {
            (_, 0 | 1) => Fault::Cut(network, ms(dice, 100, 3_000)),
            (_, 2) => Fault::Slow(network, ms(dice, 5, 150)),
            (_, 3 | 4) => Fault::LoseAnswers(network, ms(dice, 100, 1_500)),
            (Self::Local, 5) => Fault::FillDisk(ms(dice, 200, 5_000)),
            (Self::Local, 6) => Fault::StartOnFullDisk(ms(dice, 200, 5_000)),
            (_, 16) => Fault::FreezeJobs(ms(dice, 200, 6_000)),
            (_, 5) => Fault::PauseStore(ms(dice, 200, 3_000)),
            (Self::Local | Self::Instances, 7) => Fault::Freeze { server, time: ms(dice, 100, 6_000) },
            (Self::Gateway, 6..=10) => Fault::KillChild { child: dice.index(4) },
            (Self::Deployed, 6..=8) => Fault::KillFunction(Function::Api),
            (Self::Deployed, _) => Fault::KillFunction(Function::Worker),
            _ => Fault::Kill { server, down: ms(dice, 0, 1_500) },
        }
    }

    /// The faults within `time`.
    pub(crate) fn plan(self, seed: u64, time: Duration) -> Vec<Planned> {
        let mut dice = Dice::new(seed, 1 + self as u64);
        let (mut plan, mut at) = (Vec::new(), Duration::ZERO);
        loop {
            let after = Duration::from_millis(dice.between(100, 3_000));
            at += after;
            if at >= time {
                return plan;
            }
            plan.push(Planned { after, fault: self.fault(&mut dice) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_seed_repeats_a_schedule() {
        assert_eq!(Form::Local.plan(5, MINUTE), Form::Local.plan(5, MINUTE));
        assert_ne!(Form::Local.plan(5, MINUTE), Form::Local.plan(6, MINUTE));
    }

    #[test]
    fn each_form_has_its_own_faults_and_always_kills() {
        let has =
            |form: Form, is: fn(&Fault) -> bool| form.plan(1, 20 * MINUTE).iter().any(|planned| is(&planned.fault));
        let kills: fn(&Fault) -> bool = |fault| matches!(fault, Fault::Kill { .. } | Fault::KillFunction(_));
        let loses: fn(&Fault) -> bool = |fault| matches!(fault, Fault::LoseAnswers(Network::Clients, _));
        let cuts: fn(&Fault) -> bool = |fault| matches!(fault, Fault::Cut(Network::Store, _));
        let freezes_jobs: fn(&Fault) -> bool = |fault| matches!(fault, Fault::FreezeJobs(_));
        let loses_starts: fn(&Fault) -> bool = |fault| matches!(fault, Fault::LoseAnswers(Network::Jobs, _));
        let fills: fn(&Fault) -> bool = |fault| matches!(fault, Fault::FillDisk(_) | Fault::StartOnFullDisk(_));
        let kills_child: fn(&Fault) -> bool = |fault| matches!(fault, Fault::KillChild { .. });
        for form in [Form::Local, Form::Instances, Form::Gateway, Form::Deployed] {
            assert!(has(form, kills) && has(form, loses), "{form:?}");
            assert_eq!(has(form, cuts), [Form::Instances, Form::Gateway].contains(&form));
            assert!(has(form, freezes_jobs) && has(form, loses_starts), "{form:?}");
            assert_eq!(has(form, fills), form == Form::Local);
            assert_eq!(has(form, kills_child), form == Form::Gateway);
        }
    }
}
