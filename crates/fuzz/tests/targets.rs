//! Every target on its corpus, and on inputs that are made from it by chance. The same inputs in every run: a test that
//! fails can be repeated. `make fuzz` looks further.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed test panics, and its output names the input"
)]

use std::path::PathBuf;

use longhaul_core::IdSource;
use longhaul_fuzz::{TARGETS, run, target};
use longhaul_testkit::SeededIds;
use peak_alloc::PeakAlloc;

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

/// Inputs by chance for each target.
const INPUTS: u64 = 300;

/// Changes of one input.
const EDITS_MAX: u64 = 6;

/// Bytes that one change adds, or takes away.
const SPAN_MAX: u64 = 24;

/// What breaks readers more often than other bytes do.
const PIECES: [&[u8]; 24] = [
    b"\0",
    b"\xff",
    b"\xc3",
    b"\n",
    b"\r\n",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"-1",
    b"0",
    b"1e999",
    b"18446744073709551616",
    b"9007199254740993",
    b"\\ud800",
    b"\\u0000",
    b"../",
    b"%%",
    b" ",
];

fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut inputs: Vec<_> = files
        .map(|file| file.unwrap())
        .map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap()))
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{} is empty", folder.display());
    inputs
}

/// One of `inputs`, changed in some places.
fn changed(inputs: &[(String, Vec<u8>)], chance: &SeededIds) -> Vec<u8> {
    let below = |count: usize| usize::try_from(chance.up_to(count as u64 - 1)).unwrap();
    let mut input = inputs[below(inputs.len())].1.clone();
    for _ in 0..=chance.up_to(EDITS_MAX) {
        let at = below(input.len() + 1);
        let end = input.len().min(at + below(usize::try_from(SPAN_MAX).unwrap()));
        match chance.up_to(5) {
            0 => input.insert(at, u8::try_from(chance.up_to(255)).unwrap()),
            1 => drop(input.drain(at..end)),
            2 => drop(input.splice(at..at, PIECES[below(PIECES.len())].iter().copied())),
            3 => drop(input.splice(at..end, PIECES[below(PIECES.len())].iter().copied())),
            4 => {
                let piece = input[at..end].to_vec();
                drop(input.splice(at..at, piece));
            }
            _ => {
                let other = &inputs[below(inputs.len())].1;
                let from = below(other.len() + 1);
                let piece = other[from..other.len().min(from + 4 * usize::try_from(SPAN_MAX).unwrap())].to_vec();
                drop(input.splice(at..end, piece));
            }
        }
    }
    input
}

/// Runs the target called `name` on its corpus, and on inputs by chance.
fn withstands(name: &str) {
    let (target, inputs) = (target(name), corpus(name));
    for (file, input) in &inputs {
        println!("corpus/{name}/{file}");
        run(target, input);
    }
    for seed in 0..INPUTS {
        let input = changed(&inputs, &SeededIds::new(seed));
        println!("seed {seed}: {:?}", String::from_utf8_lossy(&input));
        run(target, &input);
    }
}

/// A test for each of these targets, which are all.
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                withstands(stringify!($name));
            }
        )+

        #[test]
        fn every_target_has_a_test() {
            assert_eq!(TARGETS.iter().map(|target| target.name).collect::<Vec<_>>(), [$(stringify!($name)),+]);
        }
    };
}

tests! {
    requests, headers, signed, schemas, events, records, dynamo, data_sets,
    settings, texts, token_file, tokens, configurations, upstream, client,
}
