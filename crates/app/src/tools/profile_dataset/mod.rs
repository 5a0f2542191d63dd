//! `profile_dataset`: describes every column of a CSV or JSON Lines source in constant memory.
//!
//! The source is read in chunks ([`chunk`]), one durable step each: a step's result is a [`checkpoint::Checkpoint`]
//! from which the next chunk continues, so a killed run repeats at most one chunk. Within a chunk a reader cuts
//! [`blocks`] of whole records, and two [`lane`]s split them ([`csv_records`], [`json_lines`]), group equal values
//! ([`entries`]) and count them ([`mod@column`]).

pub mod arguments;
pub mod blocks;
pub mod checkpoint;
pub mod chunk;
pub mod column;
pub mod csv_records;
pub mod distinct;
pub mod entries;
pub mod error;
pub mod frequent;
pub mod grid;
pub mod json_lines;
pub mod lane;
pub mod limits;
pub mod moments;
pub mod quantiles;
pub mod report;
pub mod sniff;
pub mod source;
pub mod text_bounds;
mod tool;
pub mod value;
