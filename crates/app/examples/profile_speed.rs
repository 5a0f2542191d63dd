//! Measures `profile_dataset` on a file: `cargo run --release --example profile_speed FILE [CHUNK_BYTES]`.
//! Prints the time, the throughput, the largest recorded state and the peak memory of this process.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::time::Instant;

use longhaul_app::tools::profile_dataset::chunk::{Pace, Progress, Reading, Stop, first_chunk, next_chunk};
use longhaul_app::tools::profile_dataset::sniff::Hints;

#[expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a measuring program: it prints and measures time")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name a file")?;
    let mut pace = Pace::default();
    if let Some(bytes) = std::env::args().nth(2) {
        pace.chunk_bytes = bytes.parse()?;
    }
    let reading = Reading { hints: Hints::default(), null_values: Vec::new(), top_values: 10, pace };
    let stop = Stop::default();
    let start = Instant::now();
    let (mut chunks, mut largest) = (1, 0);
    let mut progress = first_chunk(File::open(&path)?, &reading, &stop)?;
    let profile = loop {
        match progress {
            Progress::Done(profile) => break profile,
            Progress::More(checkpoint) => {
                largest = largest.max(checkpoint.state_bytes());
                chunks += 1;
                let mut file = File::open(&path)?;
                file.seek(SeekFrom::Start(checkpoint.offset))?;
                progress = next_chunk(&checkpoint, file, &reading, &stop)?;
            }
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    let megabytes = f64::from(u32::try_from(profile.bytes / 1000)?) / 1000.0;
    println!("{}", serde_json::to_string_pretty(&profile)?);
    println!("{megabytes:.0} MB in {seconds:.2} s: {:.0} MB/s", megabytes / seconds);
    println!("{chunks} chunks, largest recorded state {largest} bytes");
    for line in std::fs::read_to_string("/proc/self/status")?.lines() {
        if line.starts_with("VmHWM") {
            println!("{line}");
        }
    }
    Ok(())
}
