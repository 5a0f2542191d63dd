//! Classes of tools, each of which may have workers of its own.

use std::fmt;

/// The longest name of a class, so that a queue of that name has room for more.
const BYTES_MAX: usize = 32;

/// The name of a class of tools: those that need the same kind of worker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolClass(String);

impl ToolClass {
    /// The class of this name: a letter first, then letters, digits and hyphens; all lower case, 32 at most.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let begins = name.starts_with(|first: char| first.is_ascii_lowercase());
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (begins && name.len() <= BYTES_MAX && name.bytes().all(allowed)).then(|| Self(name.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_a_short_name_in_lower_case() {
        for name in ["heavy", "a", "gpu-2", &"x".repeat(32)] {
            assert_eq!(ToolClass::parse(name).map(|class| class.to_string()).as_deref(), Some(name));
        }
        for name in ["", "Heavy", "2gpu", "-a", "a b", "a=b", "a,b", "größe", &"x".repeat(33)] {
            assert_eq!(ToolClass::parse(name), None, "{name}");
        }
    }
}
