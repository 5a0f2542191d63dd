//! Names of tools with `*` for any part.

/// A name, or several: `*` stands for any number of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(String);

impl Pattern {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// How much it says about a name: a whole name more than any pattern, and otherwise the longer one more.
    pub(crate) fn weight(&self) -> (bool, usize) {
        (!self.0.contains('*'), self.0.len())
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else {
            return self.0 == name;
        };
        let Some(mut name) = name.strip_prefix(first) else {
            return false;
        };
        let mut parts: Vec<&str> = rest.split('*').collect();
        let last = parts.pop().unwrap_or_default();
        for part in parts {
            match name.split_once(part) {
                Some((_, after)) => name = after,
                None => return false,
            }
        }
        name.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_part() {
        let cases = [
            ("git_commit", "git_commit", true),
            ("git_commit", "git_commits", false),
            ("*", "", true),
            ("git_*", "git_commit", true),
            ("git_*", "got_commit", false),
            ("*_file", "edit_file", true),
            ("*_file", "edit_files", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(Pattern::new(pattern).matches(name), expected, "{pattern} {name}");
        }
    }
}
