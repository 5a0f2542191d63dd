//! One chunk of a source: what one durable step does. A chunk is a function of the source's bytes and the state before
//! it, so a step that is run twice gives the same result twice.

use std::io::{Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Scope, ScopedJoinHandle, scope};

use serde::{Deserialize, Serialize};

use super::blocks::{Blocks, RecordEnd};
use super::checkpoint::{Checkpoint, State};
use super::column::Column;
use super::error::ProfileError;
use super::lane::{Lane, Tally};
use super::limits::{BLOCK_BYTES, BLOCKS_WAITING_MAX, CHUNK_BYTES, HEAD_BYTES, LANES};
use super::report::DatasetProfile;
use super::sniff::{Format, Hints, Layout};

/// How a source is to be read.
#[derive(Debug, Clone)]
pub struct Reading {
    /// What the caller says about the format.
    pub hints: Hints,
    /// CSV texts that mean "no value", in addition to the empty one.
    pub null_values: Vec<String>,
    /// How many of the most frequent values to report per column, at most.
    pub top_values: usize,
    /// The length of a chunk and of a block.
    pub pace: Pace,
}

/// The result of a chunk, which is the result of one durable step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// There may be more: continue from here.
    More(Checkpoint),
    /// The source has been read to its end.
    Done(Box<DatasetProfile>),
}

/// How much is read at a time.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Bytes of a chunk; it ends with the record in which this is reached.
    pub chunk_bytes: u64,
    /// Bytes of a block.
    pub block_bytes: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { chunk_bytes: CHUNK_BYTES, block_bytes: BLOCK_BYTES }
    }
}

/// Stops a running chunk whose result is no longer needed.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// The chunk ends with [`ProfileError::Stopped`] at its next block.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn check(&self) -> Result<(), ProfileError> {
        if self.0.load(Ordering::Relaxed) {
            return Err(ProfileError::Stopped);
        }
        Ok(())
    }
}

/// Profiles the first chunk of a source, which `source` gives from its start. Blocks the thread.
///
/// # Errors
///
/// See [`ProfileError`].
pub fn first_chunk<R: Read>(mut source: R, reading: &Reading, stop: &Stop) -> Result<Progress, ProfileError> {
    let mut head = Vec::new();
    source.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    let layout = Layout::of(&head, &reading.hints)?;
    let columns = layout.names.len();
    let tally = Tally {
        columns: layout.names.into_iter().map(|name| Column::new(name, columns)).collect::<Result<_, _>>()?,
        ..Tally::default()
    };
    let state = State { format: layout.format, offset: layout.data_start as u64, tally };
    let rest_of_head = head.get(layout.data_start..).unwrap_or_default();
    run(Cursor::new(rest_of_head).chain(source), state, reading, stop)
}

/// Profiles the chunk after `before`, which `source` gives from byte [`Checkpoint::offset`]. Blocks the thread.
///
/// # Errors
///
/// See [`ProfileError`].
pub fn next_chunk<R: Read>(
    before: &Checkpoint,
    source: R,
    reading: &Reading,
    stop: &Stop,
) -> Result<Progress, ProfileError> {
    run(source, before.state()?, reading, stop)
}

fn run<R: Read>(source: R, state: State, reading: &Reading, stop: &Stop) -> Result<Progress, ProfileError> {
    let record_end = match state.format {
        Format::Csv { delimiter } => RecordEnd::Csv { delimiter },
        Format::JsonLines => RecordEnd::Line,
    };
    let mut blocks = Blocks::new(source, state.offset, record_end, reading.pace.block_bytes);
    let lane_of = |tally| Lane::new(state.format, reading.null_values.clone(), tally);
    // The first lane continues from the state, the others start empty; in the end they are merged in order.
    let mut lanes = Vec::with_capacity(LANES);
    for _ in 1..LANES {
        lanes.push(lane_of(state.tally.without_values()?));
    }
    lanes.insert(0, lane_of(state.tally));
    let (fed, tally) = scope(|threads| {
        let (spent, returned) = channel();
        let running: Vec<_> = lanes.into_iter().map(|lane| Running::start(threads, lane, spent.clone())).collect();
        let fed = feed(&mut blocks, &running, &returned, reading.pace.chunk_bytes, stop);
        let tally = join(running);
        // A lane that failed has stopped taking blocks: its error is the cause.
        tally.and_then(|tally| Ok((fed?, tally)))
    })?;
    let state = State { format: state.format, offset: blocks.offset(), tally };
    Ok(match fed {
        Fed::WholeSource => Progress::Done(Box::new(DatasetProfile::of(state, reading.top_values))),
        Fed::Chunk => Progress::More(state.record()?),
    })
}

/// A lane that is running in its thread.
struct Running<'scope> {
    blocks: SyncSender<Vec<u8>>,
    thread: ScopedJoinHandle<'scope, Result<Tally, ProfileError>>,
}

impl<'scope> Running<'scope> {
    fn start<'env>(threads: &'scope Scope<'scope, 'env>, mut lane: Lane, spent: Sender<Vec<u8>>) -> Self {
        let (blocks, waiting) = sync_channel::<Vec<u8>>(BLOCKS_WAITING_MAX);
        let thread = threads.spawn(move || {
            for mut block in waiting {
                lane.absorb(&mut block)?;
                // The reader may have ended already; then the memory is not needed again.
                spent.send(block).ok();
            }
            Ok(lane.into_tally())
        });
        Self { blocks, thread }
    }
}

/// How feeding ended.
enum Fed {
    /// At the end of the chunk.
    Chunk,
    /// At the end of the source.
    WholeSource,
}

/// Distributes the blocks of a chunk to the lanes in turn.
fn feed<R: Read>(
    blocks: &mut Blocks<R>,
    lanes: &[Running<'_>],
    returned: &Receiver<Vec<u8>>,
    chunk_bytes: u64,
    stop: &Stop,
) -> Result<Fed, ProfileError> {
    let mut left = chunk_bytes.max(1);
    for lane in lanes.iter().cycle() {
        stop.check()?;
        let mut block = returned.try_recv().unwrap_or_default();
        let length = blocks.next_into(&mut block)?;
        if length == 0 {
            return Ok(Fed::WholeSource);
        }
        if lane.blocks.send(block).is_err() || left <= length as u64 {
            return Ok(Fed::Chunk);
        }
        left -= length as u64;
    }
    Err(ProfileError::Internal("no lane"))
}

fn join(running: Vec<Running<'_>>) -> Result<Tally, ProfileError> {
    // All lanes first lose their senders, so that all end.
    let threads: Vec<_> = running.into_iter().map(|lane| lane.thread).collect();
    let mut whole: Option<Tally> = None;
    for thread in threads {
        let tally = thread.join().map_err(|_panic| ProfileError::Internal("a lane panicked"))??;
        match &mut whole {
            None => whole = Some(tally),
            Some(whole) => whole.merge(tally)?,
        }
    }
    whole.ok_or(ProfileError::Internal("no lane"))
}
