//! A model of DynamoDB's partitions. It limits the units a second of each key and of the table, refuses the calls above
//! the limits, and counts the used units.
//!
//! Units that a key or the table has not used stay available for a tenth of a second. DynamoDB often lets a key use
//! more for a while, but does not promise to.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_core::{Task, TaskKey};

use super::units::{Call, PartitionKey, Units};

/// How many capacity units a second there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throughput {
    /// Write units of one partition key.
    pub key_write: u32,
    /// Read units of one partition key.
    pub key_read: u32,
    /// Write units of the table.
    pub table_write: u32,
    /// Read units of the table.
    pub table_read: u32,
}

impl Throughput {
    /// A partition of DynamoDB, in a table with the default quota of an account.
    pub const BY_QUOTA: Self = Self { key_write: 1_000, key_read: 3_000, table_write: 40_000, table_read: 40_000 };

    /// The same, in a new table on demand.
    pub const NEW_TABLE: Self = Self { table_write: 4_000, table_read: 12_000, ..Self::BY_QUOTA };

    /// The same, in a table that nothing limits.
    pub const ANY_TABLE: Self = Self { table_write: u32::MAX, table_read: u32::MAX, ..Self::BY_QUOTA };
}

/// The use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// The calls that were made, by name.
    pub calls: BTreeMap<&'static str, u64>,
    /// All write units.
    pub write: u64,
    /// All read units.
    pub read: u64,
    /// The calls that were refused, by the limit that had no more units: the table, or the kind of a key.
    pub refused: BTreeMap<&'static str, u64>,
    /// Changes of counts that were given up: what was counted stays until the count is corrected.
    pub uncounted: u64,
    /// The kind of the key that used the largest share of its limit in one second, and how many write and read units
    /// that were.
    pub hottest: Option<(&'static str, u64, u64)>,
}

/// The partitions of one table, and what is known of its items.
pub(crate) struct Partitions(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// `None` for no limit.
    throughput: Option<Throughput>,
    table: Bucket,
    keys: HashMap<PartitionKey, Bucket>,
    known: HashMap<TaskKey, Known>,
    usage: Usage,
    names: Vec<&'static str>,
    hottest_share: f64,
}

/// The known items of a task.
#[derive(Clone, Default)]
pub(crate) struct Known {
    /// The latest record that was seen.
    pub(crate) task: Option<Task>,
    /// As how many it was counted.
    pub(crate) slots: u32,
    /// Bytes of its journal.
    pub(crate) journal: u64,
}

/// For how long units are there that were not used, in seconds.
const KEPT_S: f64 = 0.1;

/// The units that are left, and those of the present second.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    write: f64,
    read: f64,
    at_ms: Option<u64>,
    second: u64,
    in_second: (u64, u64),
}

impl Bucket {
    /// Adds what time has brought. The first use finds it full.
    fn fill(&mut self, write: u32, read: u32, now_ms: u64) {
        let (write, read) = (f64::from(write), f64::from(read));
        let [write_max, read_max] = [write, read].map(|units| (units * KEPT_S).max(1.0));
        let Some(at_ms) = self.at_ms.replace(now_ms) else {
            (self.write, self.read) = (write_max, read_max);
            return;
        };
        let seconds = now_ms.saturating_sub(at_ms) as f64 / 1_000.0;
        self.write = write_max.min(self.write + write * seconds);
        self.read = read_max.min(self.read + read * seconds);
    }

    fn has(&self, units: &Units) -> bool {
        (units.write == 0 || self.write >= 1.0) && (units.read == 0 || self.read >= 1.0)
    }

    fn take(&mut self, units: &Units, now_ms: u64) {
        self.write -= units.write as f64;
        self.read -= units.read as f64;
        let second = now_ms / 1_000;
        if self.second != second {
            (self.second, self.in_second) = (second, (0, 0));
        }
        self.in_second = (self.in_second.0 + units.write, self.in_second.1 + units.read);
    }
}

impl Partitions {
    /// Partitions with this throughput; `None` to count only.
    pub(crate) fn with(throughput: Option<Throughput>) -> Self {
        Self(Mutex::new(Inner { throughput, ..Inner::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the limit from now on.
    pub(crate) fn open(&self) {
        self.lock().throughput = None;
    }

    /// Makes a call at `now_ms`.
    ///
    /// # Errors
    /// The keys without units. Nothing was used then.
    pub(crate) fn make(&self, call: &Call, now_ms: u64) -> Result<(), &'static str> {
        self.lock().make(call, now_ms)
    }

    /// Notes that a call which was made used so many more units.
    pub(crate) fn used_more(&self, units: Units, now_ms: u64) {
        self.lock().take(&units, now_ms);
    }

    /// Takes back a call that was not made after all.
    pub(crate) fn unmake(&self, call: &Call) {
        self.lock().unmake(call);
    }

    /// The known items of a task.
    pub(crate) fn known(&self, key: &TaskKey) -> Known {
        self.lock().known.get(key).cloned().unwrap_or_default()
    }

    /// Notes what is known of a task.
    pub(crate) fn note(&self, key: &TaskKey, note: impl FnOnce(&mut Known)) {
        note(self.lock().known.entry(*key).or_default());
    }

    /// Notes that a change of an owner's count was given up.
    pub(crate) fn note_uncounted(&self) {
        self.lock().usage.uncounted += 1;
    }

    /// The use so far.
    pub(crate) fn usage(&self) -> Usage {
        self.lock().usage.clone()
    }

    /// The names of the calls since the last time.
    pub(crate) fn take_names(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.lock().names)
    }
}

/// Names that are kept for [`Partitions::take_names`]: enough for a test of one task.
const NAMES_MAX: usize = 1_000;

impl Inner {
    fn make(&mut self, call: &Call, now_ms: u64) -> Result<(), &'static str> {
        let lacking = call.units.iter().find_map(|units| self.lacks(units, now_ms));
        if let Some(what) = lacking {
            *self.usage.refused.entry(what).or_default() += 1;
            return Err(what);
        }
        call.units.iter().for_each(|units| self.take(units, now_ms));
        *self.usage.calls.entry(call.name).or_default() += 1;
        if self.names.len() < NAMES_MAX {
            self.names.push(call.name);
        }
        Ok(())
    }

    fn unmake(&mut self, call: &Call) {
        for units in &call.units {
            self.usage.write -= units.write;
            self.usage.read -= units.read;
            let key = self.keys.entry(units.key).or_default();
            for bucket in [key, &mut self.table] {
                bucket.write += units.write as f64;
                bucket.read += units.read as f64;
                let (write, read) = bucket.in_second;
                bucket.in_second = (write.saturating_sub(units.write), read.saturating_sub(units.read));
            }
        }
        self.usage.calls.entry(call.name).and_modify(|calls| *calls -= 1);
        self.names.pop();
    }

    /// The keys without units.
    fn lacks(&mut self, units: &Units, now_ms: u64) -> Option<&'static str> {
        let throughput = self.throughput?;
        self.table.fill(throughput.table_write, throughput.table_read, now_ms);
        let key = self.keys.entry(units.key).or_default();
        key.fill(throughput.key_write, throughput.key_read, now_ms);
        if !key.has(units) {
            return Some(units.key.kind());
        }
        (!self.table.has(units)).then_some("table")
    }

    fn take(&mut self, units: &Units, now_ms: u64) {
        self.usage.write += units.write;
        self.usage.read += units.read;
        let Some(throughput) = self.throughput else { return };
        self.table.take(units, now_ms);
        let key = self.keys.entry(units.key).or_default();
        key.take(units, now_ms);
        let (write, read) = key.in_second;
        let of = |used: u64, may: u32| used as f64 / f64::from(may);
        let share = of(write, throughput.key_write).max(of(read, throughput.key_read));
        if share > self.hottest_share {
            self.hottest_share = share;
            self.usage.hottest = Some((units.key.kind(), write, read));
        }
    }
}
