//! What DynamoDB bills for a call: the sizes of items, and the units of reads. The emulator reports what writes take,
//! by DynamoDB's rules; of reads it does not look at the size, so those are computed here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// The bytes that a unit of a read covers, and those of a write.
const READ_BYTES: usize = 4_096;
const WRITE_BYTES: usize = 1_024;

/// The bytes of an item, as DynamoDB counts them: names and values.
pub(crate) fn item_bytes(item: &Value) -> usize {
    item.as_object().map_or(0, attributes_bytes)
}

fn attributes_bytes(attributes: &Map<String, Value>) -> usize {
    attributes.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
}

/// The bytes of a value such as `{"S":"text"}`.
fn value_bytes(value: &Value) -> usize {
    let Some((kind, value)) = value.as_object().and_then(|typed| typed.iter().next()) else { return 0 };
    let members = || value.as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| value.as_str().map_or(0, str::len);
    match kind.as_str() {
        "S" => text(value),
        "N" => number_bytes(value),
        "B" => binary_bytes(value),
        "SS" => members().iter().map(text).sum(),
        "NS" => members().iter().map(number_bytes).sum(),
        "BS" => members().iter().map(binary_bytes).sum(),
        "L" => 3 + members().iter().map(|member| 1 + value_bytes(member)).sum::<usize>(),
        "M" => value.as_object().map_or(0, |inner| 3 + inner.len() + attributes_bytes(inner)),
        // NULL and BOOL.
        _ => 1,
    }
}

/// About a byte for two digits, and one more.
fn number_bytes(value: &Value) -> usize {
    let digits = value.as_str().unwrap_or_default().bytes().filter(u8::is_ascii_digit).count();
    digits.div_ceil(2) + 1
}

fn binary_bytes(value: &Value) -> usize {
    STANDARD.decode(value.as_str().unwrap_or_default()).map_or(0, |bytes| bytes.len())
}

/// The units of a read: one for each 4 KiB, a half where the latest write need not be seen, two in a transaction. Of a
/// query the items of a page count together.
pub(crate) fn read_units(operation: &str, request: &Value, answer: &Value) -> f64 {
    let each = |request: &Value| if request["ConsistentRead"] == Value::Bool(true) { 1.0 } else { 0.5 };
    let list = |items: &Value| items.as_array().cloned().unwrap_or_default();
    match operation {
        "GetItem" => each(request) * units(item_bytes(&answer["Item"]), READ_BYTES),
        "Query" | "Scan" => {
            let bytes = list(&answer["Items"]).iter().map(item_bytes).sum();
            each(request) * units(bytes, READ_BYTES)
        }
        "BatchGetItem" => {
            let tables = answer["Responses"].as_object().cloned().unwrap_or_default();
            let of_table = |(table, items): (&String, &Value)| {
                let units: f64 = list(items).iter().map(|item| units(item_bytes(item), READ_BYTES)).sum();
                each(request["RequestItems"].get(table).unwrap_or(&Value::Null)) * units
            };
            tables.iter().map(of_table).sum()
        }
        "TransactGetItems" => {
            let items = list(&answer["Responses"]);
            items.iter().map(|found| 2.0 * units(item_bytes(&found["Item"]), READ_BYTES)).sum()
        }
        _ => 0.0,
    }
}

/// The units of a write: what the answer says, or for a write that was refused those of the item that was sent.
pub(crate) fn write_units(request: &Value, answer: &Value) -> f64 {
    match &answer["ConsumedCapacity"] {
        Value::Array(tables) => tables.iter().filter_map(|table| table["CapacityUnits"].as_f64()).sum(),
        Value::Object(table) => table.get("CapacityUnits").and_then(Value::as_f64).unwrap_or_default(),
        _ => units(item_bytes(&request["Item"]), WRITE_BYTES),
    }
}

/// Whether the answer may show less than was read, so that its size says too little.
pub(crate) fn shows_less_than_it_read(request: &Value) -> bool {
    ["ProjectionExpression", "FilterExpression", "AttributesToGet", "Select"]
        .iter()
        .any(|part| !request[*part].is_null())
}

/// Units are begun whole; what is not there takes one too.
fn units(bytes: usize, each: usize) -> f64 {
    f64::from(u32::try_from(bytes.div_ceil(each).max(1)).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn same(one: f64, other: f64) {
        assert!((one - other).abs() < f64::EPSILON, "{one} is not {other}");
    }

    #[test]
    fn an_item_has_the_bytes_of_its_names_and_values() {
        // 2 + 3, 1 + 3 (five digits), 1 + 1, 1 + 3 (decoded), 1 + 3 + 1 + 2 (a list of "ab"), 1 + 3 + 1 + 1 + 1.
        let item = json!({"pk": {"S": "abc"}, "n": {"N": "-12.345"}, "t": {"BOOL": true}, "b": {"B": "AQID"},
            "l": {"L": [{"S": "ab"}]}, "m": {"M": {"x": {"NULL": true}}}});
        assert_eq!(item_bytes(&item), 5 + 5 + 2 + 4 + 7 + 7);
        assert_eq!(item_bytes(&Value::Null), 0);
        assert_eq!(item_bytes(&json!({"s": {"SS": ["a", "bc"]}, "u": {"NS": ["1", "23"]}})), 4 + 5);
    }

    #[test]
    fn a_read_takes_a_unit_for_each_four_kib_and_half_of_that_if_it_may_be_stale() {
        let answer = json!({"Item": {"a": {"S": "x".repeat(4_096)}}});
        same(read_units("GetItem", &json!({"ConsistentRead": true}), &answer), 2.0);
        same(read_units("GetItem", &json!({}), &answer), 1.0);
        same(read_units("GetItem", &json!({}), &json!({})), 0.5);
        let item = json!({"a": {"S": "x".repeat(2_999)}});
        same(read_units("Query", &json!({}), &json!({"Items": [item, item, item]})), 1.5);
        let request = json!({"RequestItems": {"t": {"ConsistentRead": true}}});
        same(read_units("BatchGetItem", &request, &json!({"Responses": {"t": [item, item]}})), 2.0);
        same(read_units("TransactGetItems", &json!({}), &json!({"Responses": [{"Item": item}]})), 2.0);
    }

    #[test]
    fn a_write_takes_what_the_answer_says_or_what_was_sent_if_it_was_refused() {
        let request = json!({"Item": {"a": {"S": "x".repeat(1_024)}}});
        same(write_units(&request, &json!({"ConsumedCapacity": {"CapacityUnits": 7.0}})), 7.0);
        let tables = json!([{"CapacityUnits": 4.0}, {"CapacityUnits": 2.0}]);
        same(write_units(&request, &json!({"ConsumedCapacity": tables})), 6.0);
        same(write_units(&request, &json!({"__type": "ConditionalCheckFailedException"})), 2.0);
        same(write_units(&json!({}), &json!({})), 1.0);
    }

    #[test]
    fn an_answer_that_shows_a_part_of_what_was_read_is_known() {
        assert!(shows_less_than_it_read(&json!({"FilterExpression": "a = :a"})));
        assert!(!shows_less_than_it_read(&json!({"KeyConditionExpression": "a = :a"})));
    }
}
