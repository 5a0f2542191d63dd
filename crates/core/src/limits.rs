//! Every limit of the domain, and what it respects.

use crate::Timestamp;

/// Bytes of a payload that stays inside the record. A record under 4 KB costs one read unit in DynamoDB; the rest of
/// the record needs about 1 KB.
pub const INLINE_BYTES_MAX: usize = 3 * 1024;

/// Bytes of one part. A DynamoDB item has at most 400 KB, keys and attribute names included.
pub const PART_BYTES: usize = 350 * 1024;

/// Bytes of a request as it is stored: 4 MiB of arguments, and what the client says about itself. Lambda accepts
/// requests of at most 6 MB, envelope and base64 included.
pub const REQUEST_BYTES_MAX: usize = 4 * 1024 * 1024 + 64 * 1024;

/// Bytes of a request's body: the largest request, and room for the envelope around it.
pub const BODY_BYTES_MAX: usize = REQUEST_BYTES_MAX + 256 * 1024;

/// Bytes of the JSON about a caller that is stored with a task. The headers of a request, where a token
/// comes from, have at most 10 KB in all at API Gateway.
pub const CALLER_BYTES_MAX: usize = 16 * 1024;

/// Bytes of memory that reading one request may take. A text of 4 MiB can be a tree of more than a GiB.
pub const REQUEST_MEMORY_BYTES_MAX: usize = 40 * 1024 * 1024;

/// Bytes of a result or an error. Lambda's buffered responses have at most 6 MB, and a result is sent inside its task.
pub const RESULT_BYTES_MAX: usize = 4 * 1024 * 1024 + 512 * 1024;

/// Bytes of one recorded step or answer.
pub const ENTRY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes of a journal entry that stays inside its item; a larger one is stored in parts and read when it is replayed.
pub const ENTRY_INLINE_BYTES_MAX: usize = 32 * 1024;

/// Journal entries of one task. At 32 KiB each, this bounds what a replay holds in memory.
pub const ENTRIES_MAX: usize = 4_096;

/// Bytes of the journal that a resumed task takes over. They are in memory, and written before anything else happens.
pub const RESUMED_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Tries of one step. Each that fails is a journal entry.
pub const TRIES_MAX: u32 = 1_000;

/// Bytes of the name of a step, an input request or a variable. DynamoDB sort keys have at most 1,024 bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// Input requests that one task may wait for at a time.
pub const ASKS_MAX: usize = 64;

/// Bytes of all input requests that a task waits for: they are part of the record, so that a poll stays one read.
pub const ASKS_BYTES_MAX: usize = 256 * 1024;

/// Bytes of a concurrency key, which is part of the record.
pub const CONCURRENCY_KEY_BYTES_MAX: usize = 1_024;

/// Labels of a task. A record and a `DynamoDB` item have all of them, and each is an index entry in `SQLite`.
pub const LABELS_MAX: usize = 8;
/// Bytes of the key of a label.
pub const LABEL_KEY_BYTES_MAX: usize = 64;
/// Bytes of the value of a label.
pub const LABEL_VALUE_BYTES_MAX: usize = 256;

/// The most attempts of one group. Their permits share an item of DynamoDB, in which each takes about 200 bytes. Each
/// write of the item is paid by its size.
pub const GROUP_ATTEMPTS_MAX: u32 = 1_000;

/// How long a task that waits for a permit is noted, in milliseconds, unless it comes again before: twice the longest
/// time between two tries.
pub const PERMIT_WAIT_MS: u64 = 120_000;

/// Tasks of one group that are noted to wait for a permit. Further ones come when there is room.
pub const PERMITS_AWAITED_MAX: usize = 32;

/// The longest time of a rate, in milliseconds: a week.
pub const RATE_MS_MAX: u64 = 7 * 24 * 3_600_000;

/// How often the cleanup of a task is begun. Tries that are put off do not count.
pub const CLEANUP_TRIES_MAX: u32 = 5;

/// How long after the end of a task, in milliseconds, a cleanup that returns an error is put off: six hours.
pub const CLEANUP_MS_MAX: u64 = 6 * 60 * 60 * 1_000;

/// The longest pause before a cleanup that returned an error is tried again, in milliseconds: the longest delay of a
/// message on SQS.
pub const CLEANUP_PAUSE_MS_MAX: u64 = 900_000;

/// Schedules of one server: a poll of all of them takes milliseconds.
pub const SCHEDULES_MAX: usize = 256;

/// Bytes of the arguments of a schedule, as JSON.
pub const SCHEDULE_ARGUMENTS_BYTES_MAX: usize = 64 * 1024;

/// How many tasks may be above one that a tool made by calling another tool.
pub const CHILD_DEPTH_MAX: u8 = 8;

/// The longest time for which a task that has a parent sleeps at a time, in milliseconds: then it polls whether its
/// parent was ended.
pub const CHILD_POLL_MS_MAX: u64 = 900_000;

/// How often a running task that has a parent polls whether its parent was ended, in milliseconds.
pub const PARENT_POLL_MS: u64 = 60_000;

/// How many children are cancelled at a time.
pub const CHILDREN_CANCELLED_AT_A_TIME: usize = 32;

/// The first wait of a task for a signal, in milliseconds, before it checks for the signal without a wake-up.
pub const SIGNAL_POLL_MS_FIRST: u64 = 60_000;

/// The longest of these waits: the longest delay of a message in SQS.
pub const SIGNAL_POLL_MS_MAX: u64 = 900_000;

/// How long before its expiry a task that has missed its deadline ends although a worker may still take its message, in
/// milliseconds. Longer than the pauses between two readings of all unfinished tasks.
pub const EXPIRES_SOON_MS: u64 = 900_000;

/// The longest time that a task with many attempts lets pass after it was woken, in milliseconds.
pub const WAKE_DELAY_MS_MAX: u64 = 5_000;

/// The shortest pause between two polls of a tool at the same thing, in milliseconds.
pub const POLL_EVERY_MS_MIN: u64 = 100;

/// Bytes of a status message or of the reason of a failure.
pub const MESSAGE_BYTES_MAX: usize = 1024;

/// Attempts of a task that its record remembers.
pub const NOTED_ATTEMPTS_MAX: u32 = 16;

/// Bytes of the reason that a record keeps of a failed attempt. All attempts together stay below 1 KB, or at most 1.5
/// KB if all of them failed.
pub const ATTEMPT_REASON_BYTES_MAX: usize = 40;

/// Bytes of all variables of a task together.
pub const VARIABLES_BYTES_MAX: usize = 1024 * 1024;

/// How deep a variable's value may be nested.
pub const VARIABLE_DEPTH_MAX: usize = 10;

/// Bytes of one string inside a variable.
pub const VARIABLE_STRING_BYTES_MAX: usize = 64 * 1024;

/// Bytes of an idempotency key as the caller sends it.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 256;

/// Tasks on one page of a list.
pub const PAGE_MAX: usize = 100;

/// The most tasks that a store reads for one page of a filtered list, if it reads each of them. `DynamoDB` needs 16
/// queries for 64 items each.
pub const CHOSEN_FROM_MAX: usize = 1_024;

/// Unfinished tasks of one owner, unless configured otherwise.
pub const OPEN_TASKS_MAX_DEFAULT: u32 = 10_000;

/// Bytes of arguments and results that are stored for one owner, unless configured otherwise: 1 GiB.
pub const STORED_BYTES_MAX_DEFAULT: u64 = 1 << 30;

/// The treatment of polls of one task that come much faster than its poll interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PollLimit {
    /// They are answered.
    #[default]
    Off,
    /// They are answered later.
    Slow,
    /// They are refused, with the time after which to come again.
    Refuse,
}

/// How long the tasks are counted that an owner creates, before the count starts again: a minute.
pub const NEW_TASKS_WINDOW_MS: u64 = 60_000;

/// Time to live if the caller does not ask for one: 4 days, the longest run and the retention.
pub const TTL_MS_DEFAULT: u64 = RUN_MS_DEFAULT + RETENTION_MS_DEFAULT;

/// The longest time to live that a caller may ask for: 7 days. A tool whose longest run exceeds that gets more.
pub const TTL_MS_MAX_DEFAULT: u64 = 7 * 86_400_000;

/// The longest run that a policy may allow: 400 days.
pub const TTL_MS_CEILING: u64 = 400 * 86_400_000;

/// The longest run of a tool whose author does not set one: a day.
pub const RUN_MS_DEFAULT: u64 = 86_400_000;

/// The longest attempt of a tool whose author does not set one, in milliseconds: an hour. A tool that hangs is found
/// out long before its task's deadline.
pub const ATTEMPT_MS_DEFAULT: u64 = 3_600_000;

/// How long a result is retained after the end by default: 3 days.
pub const RETENTION_MS_DEFAULT: u64 = 3 * 86_400_000;

/// The shortest time that a result is retained after the end. A minute lets a poll find that a task missed its
/// deadline, and lets the client read that.
pub const RETENTION_MS_MIN: u64 = 60_000;

/// Consecutive attempts that may die or fail without recording a step before the task fails.
pub const CONSECUTIVE_FAILURES_MAX_DEFAULT: u32 = 3;

/// Suggested poll interval of a task that was just created: a short task's end is seen soon. The interval then grows
/// with the age, up to the first of [`POLL_STEPS`].
pub const POLL_MS_FIRST: u64 = 100;

/// The age from which on the first of [`POLL_STEPS`] holds in full.
pub const POLL_SETTLED_MS: u64 = 1_000;

/// The age below which the author's hint for polling is used unchanged.
pub const POLL_FIRST_STEP_MS: u64 = 10_000;

/// The longest suggested poll interval of a task that is to start later.
pub const POLL_MS_BEFORE_START_MAX: u64 = 60_000;

/// How far ahead a call may ask to start: 90 days. On AWS a task that waits costs a message and a refused claim each 15
/// minutes.
pub const START_AHEAD_MS_MAX: u64 = 90 * 86_400_000;

/// Suggested poll interval by age: (younger than, interval), both in milliseconds.
pub const POLL_STEPS: [(u64, u64); 3] = [(POLL_FIRST_STEP_MS, 1_000), (60_000, 3_000), (600_000, 5_000)];

/// Suggested poll interval of tasks older than all of [`POLL_STEPS`].
pub const POLL_MS_LAST: u64 = 10_000;

// What is related stays so. AWS allows items of 400 KB, sort keys of 1,024 bytes, 6 MB to and from functions, and
// delays of messages of at most 15 minutes.
const _: () = {
    const ITEM_BYTES_MAX: usize = 400_000;
    const SORT_KEY_BYTES_MAX: usize = 1_024;
    const FUNCTION_BYTES_MAX: usize = 6 * 1024 * 1024;
    const MESSAGE_DELAY_MS_MAX: u64 = 900_000;

    // A request fits into a body, and a body into the event of a function, where it is base64.
    assert!(REQUEST_BYTES_MAX < BODY_BYTES_MAX && BODY_BYTES_MAX / 3 * 4 <= FUNCTION_BYTES_MAX);
    assert!(BODY_BYTES_MAX <= REQUEST_MEMORY_BYTES_MAX);
    assert!(RESULT_BYTES_MAX < FUNCTION_BYTES_MAX);
    // An answer comes in a request; variables are stored as an entry is; a schedule makes a call.
    assert!(ENTRY_BYTES_MAX < REQUEST_BYTES_MAX);
    assert!(VARIABLE_STRING_BYTES_MAX <= VARIABLES_BYTES_MAX && VARIABLES_BYTES_MAX <= ENTRY_BYTES_MAX);
    assert!(SCHEDULE_ARGUMENTS_BYTES_MAX < REQUEST_BYTES_MAX);
    // A part is an item; so is a record with all that may be inside it: payloads, questions, names of answers.
    assert!(INLINE_BYTES_MAX <= ENTRY_INLINE_BYTES_MAX && ENTRY_INLINE_BYTES_MAX <= PART_BYTES);
    assert!(PART_BYTES + CALLER_BYTES_MAX < ITEM_BYTES_MAX);
    assert!(ASKS_BYTES_MAX + 2 * ASKS_MAX * NAME_BYTES_MAX + 4 * INLINE_BYTES_MAX + CALLER_BYTES_MAX < ITEM_BYTES_MAX);
    assert!(NOTED_ATTEMPTS_MAX as usize * ATTEMPT_REASON_BYTES_MAX < 1_024);
    assert!(NAME_BYTES_MAX < SORT_KEY_BYTES_MAX && IDEMPOTENCY_KEY_BYTES_MAX < SORT_KEY_BYTES_MAX);
    // What waits for a message waits no longer than a message can be delayed.
    assert!(SIGNAL_POLL_MS_FIRST <= SIGNAL_POLL_MS_MAX && SIGNAL_POLL_MS_MAX <= MESSAGE_DELAY_MS_MAX);
    assert!(CHILD_POLL_MS_MAX <= MESSAGE_DELAY_MS_MAX && WAKE_DELAY_MS_MAX <= MESSAGE_DELAY_MS_MAX);
    assert!(PARENT_POLL_MS <= CHILD_POLL_MS_MAX);
    // A task with all defaults runs to its end, and is kept, within its time to live.
    assert!(RUN_MS_DEFAULT + RETENTION_MS_DEFAULT <= TTL_MS_DEFAULT && ATTEMPT_MS_DEFAULT < RUN_MS_DEFAULT);
    assert!(TTL_MS_DEFAULT <= TTL_MS_MAX_DEFAULT && TTL_MS_MAX_DEFAULT <= TTL_MS_CEILING);
    assert!(RETENTION_MS_MIN <= RETENTION_MS_DEFAULT && START_AHEAD_MS_MAX <= TTL_MS_CEILING);
    // Polls become slower with the age of a task, never faster.
    let [(younger, soon), (young, later), (old, late)] = POLL_STEPS;
    assert!(POLL_SETTLED_MS < younger && younger < young && young < old);
    assert!(POLL_MS_FIRST <= soon && soon <= later && later <= late && late <= POLL_MS_LAST);
    assert!(POLL_MS_LAST <= POLL_MS_BEFORE_START_MAX);
    assert!(PAGE_MAX <= CHOSEN_FROM_MAX);
};

/// How long the window that began at `since` still lasts, in which an owner's new tasks are counted; 0 if it has ended.
/// A clock that was set back makes it last for at most a minute longer: a window that begins later than that has ended.
#[must_use]
pub const fn minute_left_ms(since: Timestamp, now: Timestamp) -> u64 {
    let ahead_ms = since.since_ms(now);
    if ahead_ms >= NEW_TASKS_WINDOW_MS {
        return 0;
    }
    NEW_TASKS_WINDOW_MS.saturating_sub(now.since_ms(since)).saturating_add(ahead_ms)
}

/// How long a signal delays the next attempt of a task after this many attempts, in milliseconds. The first ones are
/// not delayed, and later ones are delayed for longer. The same attempt sees all signals of that time. So a thousand
/// signals at once cost tens of attempts, and not a thousand.
#[must_use]
pub const fn wake_delay_ms(attempt: u32) -> u64 {
    let delay_ms = (attempt / 16) as u64 * 250;
    if delay_ms < WAKE_DELAY_MS_MAX { delay_ms } else { WAKE_DELAY_MS_MAX }
}

/// `text` cut to `bytes_max` at a character boundary, with an ellipsis if anything was cut.
#[must_use]
pub fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max.saturating_sub('…'.len_utf8()));
    let (start, _) = text.split_at(end);
    format!("{start}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers as the documentation states them; a limit that is computed wrongly does not go unnoticed.
    #[test]
    fn every_limit_is_the_documented_number() {
        assert_eq!(INLINE_BYTES_MAX, 3_072);
        assert_eq!(PART_BYTES, 358_400);
        assert_eq!(REQUEST_BYTES_MAX, 4_259_840);
        assert_eq!(RESULT_BYTES_MAX, 4_718_592);
        assert_eq!(ENTRY_BYTES_MAX, 4_194_304);
        assert_eq!(ENTRY_INLINE_BYTES_MAX, 32_768);
        assert_eq!(ASKS_BYTES_MAX, 262_144);
        assert_eq!(VARIABLES_BYTES_MAX, 1_048_576);
        assert_eq!(STORED_BYTES_MAX_DEFAULT, 1_073_741_824);
        assert_eq!(VARIABLE_STRING_BYTES_MAX, 65_536);
        assert_eq!(TTL_MS_CEILING, 34_560_000_000);
        assert_eq!(START_AHEAD_MS_MAX, 7_776_000_000);
    }

    #[test]
    fn a_window_of_new_tasks_is_over_after_a_minute_also_if_a_clock_was_set_back() {
        let at = Timestamp::from_ms;
        let left = |since, now| minute_left_ms(at(since), at(now));
        assert_eq!([left(1_000, 1_000), left(1_000, 60_999), left(1_000, 61_000)], [60_000, 1, 0]);
        assert_eq!(left(1_000, u64::MAX), 0);
        // What it says is true: after that time it is over.
        assert_eq!((left(60_999, 1_000), left(60_999, 1_000 + 119_999)), (119_999, 0));
        assert_eq!((left(61_000, 1_000), left(u64::MAX, 0)), (0, 0));
    }

    #[test]
    fn a_text_is_cut_to_the_limit_and_marked() {
        assert_eq!(cut("abcd", 4), "abcd");
        assert_eq!(cut("abcde", 4), "a…");
        assert_eq!(cut("äöü", 5), "ä…", "cut between characters");
        assert_eq!(cut("abc", 2), "…");
    }
}
