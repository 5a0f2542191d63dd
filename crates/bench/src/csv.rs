//! Generated CSV: the same bytes in every run, with columns of all the kinds that a profile distinguishes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

const COUNTRIES: [&str; 8] = ["Austria", "Brazil", "Canada", "Denmark", "Estonia", "France", "Ghana", "Hungary"];
const WORDS: [&str; 8] = ["amber", "basalt", "cedar", "delta", "ember", "fjord", "granite", "harbour"];

/// Writes a file of at least `bytes` bytes, and returns its size.
pub(crate) fn write(path: &Path, bytes: u64) -> anyhow::Result<u64> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut line = Vec::with_capacity(256);
    line.extend_from_slice(b"id,at,country,amount,share,note,email,active\n");
    let (mut written, mut row) = (0, 0_u64);
    loop {
        file.write_all(&line)?;
        written += line.len() as u64;
        if written >= bytes {
            break;
        }
        line.clear();
        write_row(&mut line, row)?;
        row += 1;
    }
    file.flush()?;
    Ok(written)
}

fn write_row(line: &mut Vec<u8>, row: u64) -> anyhow::Result<()> {
    let random = scatter(row);
    let (day, minute) = (random % 28 + 1, (random >> 8) % 60);
    let amount = (random >> 16) % 1_000_000;
    let share = (random >> 24) % 100_000;
    write!(line, "{row},2026-03-{day:02}T11:{minute:02}:00Z,{},", pick(&COUNTRIES, random >> 32))?;
    // One in sixteen has no amount.
    if random & 15 != 0 {
        write!(line, "{}.{:02}", amount / 100, amount % 100)?;
    }
    let (first, second) = (pick(&WORDS, random >> 36), pick(&WORDS, random >> 40));
    write!(line, ",0.{share:05},\"{first}, {second}\",{first}{}@example.com,", random >> 44)?;
    line.extend_from_slice(if random & 16 == 0 { b"true\n" } else { b"false\n" });
    Ok(())
}

fn pick(of: &[&'static str; 8], random: u64) -> &'static str {
    let [low, ..] = random.to_le_bytes();
    of.get(usize::from(low & 7)).copied().unwrap_or_default()
}

/// Spreads consecutive numbers over all numbers (the finaliser of SplitMix64).
const fn scatter(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_requested_size_and_whole_rows_of_eight_columns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let bytes = write(&path, 100_000).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.len() as u64, bytes);
        assert!((100_000..101_000).contains(&bytes));
        for line in text.lines().skip(1) {
            // The note contains the one comma that is not a delimiter.
            assert_eq!(line.matches(',').count(), 8, "{line}");
        }
        assert!(text.ends_with('\n'));
    }
}
