//! The console in a real browser: Chromium, driven as a person would use it.

mod external;
mod process;
