//! Changes of tasks, as the stream of the table has them and Lambda hands them to a function.
//!
//! The stream has every change of every item, with the item before and after it. The filter of
//! its event source mapping decides which of them a function gets. The code that reads the table reads them here.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longhaul_core::Task;
use longhaul_core::ports::StoreError;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::item::Item;
use crate::{keys, record};

/// The event of an invocation: some records of one shard of the stream, in their order.
#[derive(Clone, Debug, Deserialize)]
pub struct StreamEvent {
    /// The records.
    #[serde(rename = "Records")]
    pub records: Vec<StreamRecord>,
}

/// One change of one item. Any JSON value is one, so that none keeps the others of its batch from being read.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Value")]
pub struct StreamRecord {
    source: String,
    sequence_number: String,
    old_image: Option<Value>,
    new_image: Option<Value>,
}

impl From<Value> for StreamRecord {
    fn from(mut record: Value) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let source = text(record.get("eventSourceARN"));
        let change = record.get_mut("dynamodb");
        let sequence_number = text(change.as_deref().and_then(|change| change.get("SequenceNumber")));
        let mut images = change.and_then(Value::as_object_mut);
        let mut image = |name| images.as_mut()?.remove(name).filter(|image| !image.is_null());
        Self { source, sequence_number, old_image: image("OldImage"), new_image: image("NewImage") }
    }
}

/// The task after a change.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskChange {
    /// The task before it; `None` if it was created.
    pub before: Option<Task>,
    /// The task after it.
    pub after: Task,
}

/// An image that is not written as DynamoDB writes items in JSON.
#[derive(Debug, thiserror::Error)]
#[error("the attribute `{0}` of a stream's record is not written as DynamoDB writes attributes")]
struct NotAnImage(String);

impl StreamRecord {
    /// By which a function says that it could not deal with this record: the stream continues from here. Empty if there
    /// is none, which stands for the whole batch.
    #[must_use]
    pub fn sequence_number(&self) -> &str {
        &self.sequence_number
    }

    /// The stream, if the record says where it is from; empty if not.
    #[must_use]
    pub fn stream_arn(&self) -> &str {
        &self.source
    }

    /// The table, if the record says where it is from.
    #[must_use]
    pub fn table_arn(&self) -> Option<&str> {
        self.source.split_once("/stream/").map(|(table, _stream)| table)
    }

    /// The change of a task; `None` if the change is none of a task, or deleted one.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if an image cannot be read, [`StoreError::NewerVersion`] if a newer version wrote it.
    pub fn task_change(&self) -> Result<Option<TaskChange>, StoreError> {
        let Self { old_image, new_image, .. } = self;
        let Some(after) = new_image.as_ref().map(item).transpose()? else { return Ok(None) };
        if keys::task_key(&after).is_none() {
            return Ok(None);
        }
        let before = old_image.as_ref().map(|image| task(&item(image)?)).transpose()?;
        Ok(Some(TaskChange { before, after: task(&after)? }))
    }
}

fn task(item: &Item) -> Result<Task, StoreError> {
    let stored = record::read(item)?;
    stored.damage.map_or(Ok(stored.task), |damage| Err(damage.into()))
}

fn item(image: &Value) -> Result<Item, StoreError> {
    let attributes = image.as_object().and_then(attributes);
    let unreadable = || StoreError::Corrupt(NotAnImage(unreadable_in(image)).into());
    attributes.ok_or_else(unreadable)
}

/// The name of the first attribute that cannot be read.
fn unreadable_in(image: &Value) -> String {
    let fields = image.as_object().into_iter().flatten();
    fields.filter(|(_, value)| attribute(value).is_none()).map(|(name, _)| name.clone()).next().unwrap_or_default()
}

fn attributes(fields: &Map<String, Value>) -> Option<Item> {
    fields.iter().map(|(name, value)| Some((name.clone(), attribute(value)?))).collect()
}

/// One attribute: an object whose only field is the name of its type.
fn attribute(value: &Value) -> Option<AttributeValue> {
    let fields = value.as_object().filter(|fields| fields.len() == 1)?;
    let (kind, value) = fields.iter().next()?;
    match kind.as_str() {
        "S" => Some(AttributeValue::S(value.as_str()?.to_owned())),
        "N" => Some(AttributeValue::N(value.as_str()?.to_owned())),
        "B" => Some(AttributeValue::B(blob(value)?)),
        "BOOL" => Some(AttributeValue::Bool(value.as_bool()?)),
        "NULL" => Some(AttributeValue::Null(value.as_bool()?)),
        "L" => Some(AttributeValue::L(list(value, attribute)?)),
        "M" => Some(AttributeValue::M(attributes(value.as_object()?)?)),
        "SS" => Some(AttributeValue::Ss(list(value, text)?)),
        "NS" => Some(AttributeValue::Ns(list(value, text)?)),
        "BS" => Some(AttributeValue::Bs(list(value, blob)?)),
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn blob(value: &Value) -> Option<Blob> {
    STANDARD.decode(value.as_str()?).ok().map(Blob::new)
}

fn list<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use longhaul_core::{Lease, LeaseToken, State};
    use longhaul_testkit::{SeededIds, given};
    use serde_json::json;

    use super::*;

    /// An image as DynamoDB writes it.
    fn image(item: &Item) -> Value {
        item.iter().map(|(name, value)| (name.clone(), written(value))).collect::<Map<_, _>>().into()
    }

    fn written(value: &AttributeValue) -> Value {
        match value {
            AttributeValue::S(text) => json!({"S": text}),
            AttributeValue::N(digits) => json!({"N": digits}),
            AttributeValue::B(bytes) => json!({"B": STANDARD.encode(bytes)}),
            AttributeValue::L(list) => json!({"L": list.iter().map(written).collect::<Vec<_>>()}),
            AttributeValue::M(map) => json!({"M": image(map)}),
            AttributeValue::Ss(set) => json!({"SS": set}),
            other => panic!("tasks have no {other:?}"),
        }
    }

    fn stored(task: &Task) -> Item {
        let mut item = keys::task(&task.key()).with(record::attributes(task));
        item.insert(crate::item::REVISION.to_owned(), crate::item::number(7));
        item
    }

    fn event(before: Option<&Item>, after: Option<&Item>) -> StreamRecord {
        let event = json!({"Records": [{
            "eventName": "MODIFY",
            "eventSourceARN": "arn:aws:dynamodb:eu-west-1:111122223333:table/tasks/stream/2026-11-23T00:00:00.000",
            "dynamodb": {
                "SequenceNumber": "400000000000000499660",
                "OldImage": before.map(image),
                "NewImage": after.map(image),
            },
        }]});
        let event: StreamEvent = serde_json::from_value(event).unwrap();
        event.records.into_iter().next().unwrap()
    }

    fn task(state: State) -> Task {
        given::task_with(&SeededIds::new(1), given::owner("alice"), given::NOW, |record| record.state = state)
    }

    #[test]
    fn a_record_has_the_task_before_and_after_the_change() {
        let lease = Lease { until: given::NOW.plus_ms(30_000), token: LeaseToken::from_random([7; 16]) };
        let (running, cancelled) = (task(State::Running { lease }), task(State::Cancelled));
        let record = event(Some(&stored(&running)), Some(&stored(&cancelled)));
        let change = record.task_change().unwrap().unwrap();
        assert_eq!(change, TaskChange { before: Some(running), after: cancelled });
        assert_eq!(record.sequence_number(), "400000000000000499660");
        assert_eq!(record.table_arn(), Some("arn:aws:dynamodb:eu-west-1:111122223333:table/tasks"));
    }

    #[test]
    fn a_created_task_was_nothing_before() {
        let created = task(State::Queued);
        let change = event(None, Some(&stored(&created))).task_change().unwrap();
        assert_eq!(change, Some(TaskChange { before: None, after: created }));
    }

    #[test]
    fn other_items_and_deletions_are_no_changes_of_tasks() {
        let created = task(State::Queued);
        assert_eq!(event(Some(&stored(&created)), None).task_change().unwrap(), None);
        let quota = keys::quota(&given::owner("alice")).to_item();
        assert_eq!(event(None, Some(&quota)).task_change().unwrap(), None);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let created = task(State::Queued);
        let mut item = stored(&created);
        item.remove("tool");
        assert!(matches!(event(None, Some(&item)).task_change(), Err(StoreError::Corrupt(_))));
        let mut record = event(None, Some(&stored(&created)));
        record.new_image.as_mut().unwrap()["tool"] = json!({"S": 7});
        let error = longhaul_core::with_causes(&record.task_change().unwrap_err());
        assert!(error.contains("`tool`"), "{error}");
    }

    #[test]
    fn a_record_of_another_shape_keeps_no_other_from_being_read() {
        let event = json!({"Records": [
            7, [], {}, {"dynamodb": null}, {"dynamodb": {"SequenceNumber": 7, "NewImage": null}},
            {"dynamodb": {"SequenceNumber": "8", "NewImage": []}},
        ]});
        let event: StreamEvent = serde_json::from_value(event).unwrap();
        let (unreadable, others) = event.records.split_last().unwrap();
        assert!(others.iter().all(|record| record.task_change().unwrap().is_none()));
        assert!(unreadable.task_change().is_err());
        assert_eq!(unreadable.sequence_number(), "8");
    }

    #[test]
    fn every_type_of_attribute_is_read_and_nothing_else() {
        for (written, read) in [
            (json!({"BOOL": true}), AttributeValue::Bool(true)),
            (json!({"NULL": true}), AttributeValue::Null(true)),
            (json!({"SS": ["a"]}), AttributeValue::Ss(vec!["a".to_owned()])),
            (json!({"NS": ["1"]}), AttributeValue::Ns(vec!["1".to_owned()])),
            (json!({"BS": ["AQ=="]}), AttributeValue::Bs(vec![Blob::new([1])])),
            (json!({"B": "AQ=="}), AttributeValue::B(Blob::new([1]))),
        ] {
            assert_eq!(attribute(&written), Some(read), "{written}");
        }
        for wrong in [json!({}), json!({"S": "a", "N": "1"}), json!({"X": 1}), json!({"B": "?"}), json!("a"), json!(1)]
        {
            assert_eq!(attribute(&wrong), None, "{wrong}");
        }
    }
}
