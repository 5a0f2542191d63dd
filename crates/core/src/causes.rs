//! Errors in full words.

use std::error::Error;

/// The message of `error`, followed by those of its causes: the last one is the one to repair.
#[must_use]
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let all = std::iter::successors(Some(error), |error| (*error).source()).map(ToString::to_string);
    all.collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Failed(&'static str, Option<Box<Self>>);

    impl std::fmt::Display for Failed {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Failed {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    #[test]
    fn all_causes_follow_the_error() {
        let refused = Failed("connection refused", None);
        assert_eq!(with_causes(&refused), "connection refused");
        let unread =
            Failed("the table does not answer", Some(Box::new(Failed("dispatch failure", Some(Box::new(refused))))));
        assert_eq!(with_causes(&unread), "the table does not answer: dispatch failure: connection refused");
    }
}
