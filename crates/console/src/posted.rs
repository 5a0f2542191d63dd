//! The fields of a form, as a browser sends them.

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use url::form_urlencoded;

use crate::limits::{POSTED_BYTES_MAX, POSTED_FIELDS_MAX, POSTED_TIME_MAX};
use crate::problem::Problem;

/// The fields of a form, in the order of the page.
#[derive(Debug, Default)]
pub(crate) struct Posted {
    fields: Vec<(String, String)>,
}

impl Posted {
    /// Reads a body.
    pub(crate) async fn of<B>(body: B) -> Result<Self, Problem>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let cut_off =
            |_cut_off| Problem::new(StatusCode::REQUEST_TIMEOUT, "Not done", "The form did not arrive in time.");
        let read = tokio::time::timeout(POSTED_TIME_MAX, Limited::new(body, POSTED_BYTES_MAX).collect())
            .await
            .map_err(cut_off)?;
        let too_large = |_too_large| {
            Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "Not done",
                "The form is larger than the console takes, or was cut off.",
            )
        };
        Self::read(&read.map_err(too_large)?.to_bytes())
    }

    pub(crate) fn read(body: &[u8]) -> Result<Self, Problem> {
        let fields: Vec<_> = form_urlencoded::parse(body).into_owned().take(POSTED_FIELDS_MAX + 1).collect();
        if fields.len() > POSTED_FIELDS_MAX {
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "Not done", "The form has too many fields."));
        }
        Ok(Self { fields })
    }

    /// The first value of a field.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values(name).next()
    }

    /// All values of a field, such as those of selected boxes.
    pub(crate) fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_their_order() {
        let posted = Posted::read(b"id=1&note=a+b%26%C3%A9&id=2&empty=").unwrap();
        assert_eq!(posted.values("id").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!([posted.value("note"), posted.value("empty"), posted.value("x")], [Some("a b&é"), Some(""), None]);
    }

    #[test]
    fn too_many_fields_are_refused() {
        let body = "a&".repeat(POSTED_FIELDS_MAX);
        assert!(Posted::read(body.as_bytes()).is_ok());
        assert!(Posted::read(format!("{body}a").as_bytes()).is_err());
    }
}
