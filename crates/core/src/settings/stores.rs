//! The kinds of values that name a store and a queue: a word for where it is, a colon, and its name there.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::settings::{Kind, Shape};

/// Where tasks are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAt {
    /// In this file, and their queue too: `sqlite:FILE`.
    Sqlite(PathBuf),
    /// In this table: `dynamodb:TABLE`.
    Dynamodb(String),
}

/// Where work is queued that is not in a file with its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueAt {
    /// In the queue with this URL: `sqs:URL`.
    Sqs(String),
}

/// The kind of a setting that names a store.
pub struct Store;

/// The kind of a setting that names a queue.
pub struct Queue;

impl Kind for Store {
    type Value = StoreAt;

    fn parse(&self, text: &OsStr) -> Option<StoreAt> {
        match text.to_str()?.split_once(':')? {
            ("sqlite", file) if !file.is_empty() => Some(StoreAt::Sqlite(file.into())),
            ("dynamodb", table) if is_table(table) => Some(StoreAt::Dynamodb(table.to_owned())),
            _ => None,
        }
    }

    fn text(&self, value: &StoreAt) -> OsString {
        match value {
            StoreAt::Sqlite(file) => {
                let mut text = OsString::from("sqlite:");
                text.push(file);
                text
            }
            StoreAt::Dynamodb(table) => format!("dynamodb:{table}").into(),
        }
    }

    fn expected(&self) -> String {
        "`sqlite:FILE`, or `dynamodb:TABLE` with the name of a table, which is 3 to 255 letters, digits, `_`, `-` and \
         `.`"
        .to_owned()
    }

    fn allowed(&self) -> String {
        "`sqlite:FILE` or `dynamodb:TABLE`".to_owned()
    }

    fn shape(&self) -> Shape {
        Shape::One("STORE")
    }
}

impl Kind for Queue {
    type Value = QueueAt;

    fn parse(&self, text: &OsStr) -> Option<QueueAt> {
        let url = text.to_str()?.strip_prefix("sqs:")?;
        is_queue_url(url).then(|| QueueAt::Sqs(url.to_owned()))
    }

    fn text(&self, QueueAt::Sqs(url): &QueueAt) -> OsString {
        format!("sqs:{url}").into()
    }

    fn expected(&self) -> String {
        "`sqs:` and the URL of a standard queue (not of one that ends with `.fifo`), such as \
         `sqs:https://sqs.eu-west-1.amazonaws.com/111122223333/work`"
            .to_owned()
    }

    fn allowed(&self) -> String {
        "`sqs:` and a queue's URL".to_owned()
    }

    fn shape(&self) -> Shape {
        Shape::One("QUEUE")
    }
}

/// Whether DynamoDB accepts the name of a table.
fn is_table(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (3..=255).contains(&name.len()) && name.bytes().all(allowed)
}

fn is_queue_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some((host, path)) = rest.and_then(|rest| rest.split_once('/')) else { return false };
    let is_name = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_name(host) && is_name(path) && !path.ends_with('/') && !path.contains(['?', '#']) && !path.ends_with(".fifo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_file_or_a_table() {
        let parse = |text: &str| Store.parse(OsStr::new(text));
        assert_eq!(parse("sqlite:a:b.db"), Some(StoreAt::Sqlite("a:b.db".into())));
        assert_eq!(parse("dynamodb:my-tasks_2.a"), Some(StoreAt::Dynamodb("my-tasks_2.a".to_owned())));
        for wrong in ["", "tasks.db", "foo:", "foo:tasks", "sqlite:", "dynamodb:", "dynamodb:ab", "dynamodb:a b c"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(parse(&format!("dynamodb:{}", "a".repeat(256))), None);
    }

    #[test]
    fn a_queue_is_the_url_of_a_standard_queue() {
        let parse = |text: &str| Queue.parse(OsStr::new(text));
        for right in
            ["https://sqs.eu-west-1.amazonaws.com/111122223333/work", "http://127.0.0.1:4566/000000000000/work"]
        {
            assert_eq!(parse(&format!("sqs:{right}")), Some(QueueAt::Sqs(right.to_owned())));
        }
        for wrong in [
            "",
            "sqs:",
            "sqs:work",
            "https://sqs.example/1/work",
            "sqs:ftp://sqs.example/1/work",
            "sqs:https://sqs.example",
            "sqs:https://sqs.example/",
            "sqs:https:///1/work",
            "sqs:https://sqs.example/1/work/",
            "sqs:https://a/1/b c",
            "sqs:https://sqs.example/1/work.fifo",
            "sqs:https://sqs.example/1/work?x",
            "rabbit:https://sqs.example/1/work",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        for store in [StoreAt::Sqlite("tasks.db".into()), StoreAt::Dynamodb("tasks".to_owned())] {
            assert_eq!(Store.parse(&Store.text(&store)), Some(store));
        }
        let queue = QueueAt::Sqs("https://sqs.example/1/work".to_owned());
        assert_eq!(Queue.parse(&Queue.text(&queue)), Some(queue));
    }
}
