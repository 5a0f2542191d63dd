//! All of them need Chromium and Node.

use super::process;

mod flows;
