//! The sender of an event that a function cannot read, so that the error says what to do about it.

use serde_json::Value;

/// An operator's name for the sender of `event`, by a member that only its events have. `None` if the sender is
/// unknown.
pub(crate) fn sender(event: &Value) -> Option<&'static str> {
    let has = |pointer: &str| event.pointer(pointer).is_some_and(|value| !value.is_null());
    let record = event.pointer("/Records/0");
    let source = |name| record.and_then(|record| record.get(name)).and_then(Value::as_str);
    // SNS alone writes it with a capital.
    match source("eventSource").or_else(|| source("EventSource")) {
        Some("aws:sqs") => return Some("an SQS queue"),
        Some("aws:dynamodb") => return Some("the stream of a DynamoDB table"),
        Some("aws:sns") => return Some("an SNS topic"),
        Some("aws:s3") => return Some("an S3 bucket"),
        Some("aws:kinesis") => return Some("a Kinesis stream"),
        Some(_) => return Some("another AWS service"),
        None => {}
    }
    [
        ("/requestContext/elb", "an Application Load Balancer"),
        ("/requestContext/serviceNetworkArn", "VPC Lattice"),
        ("/raw_path", "VPC Lattice"),
        ("/requestContext/connectionId", "a WebSocket API"),
        ("/requestContext/http", "a function URL or an HTTP API"),
        ("/httpMethod", "a REST API"),
        ("/detail-type", "EventBridge"),
        ("/lookAtSchedules", "EventBridge Scheduler"),
        ("/awslogs", "CloudWatch Logs"),
    ]
    .into_iter()
    .find_map(|(sign, sender)| has(sign).then_some(sender))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn senders_are_known_by_what_only_their_events_have() {
        for (event, expected) in [
            (json!({"requestContext": {"elb": {"targetGroupArn": "arn"}}, "httpMethod": "GET"}), "Load Balancer"),
            (json!({"raw_path": "/mcp", "method": "POST", "is_base64_encoded": false}), "Lattice"),
            (json!({"version": "2.0", "requestContext": {"serviceNetworkArn": "arn"}, "path": "/mcp"}), "Lattice"),
            (json!({"requestContext": {"connectionId": "a", "eventType": "CONNECT"}}), "WebSocket"),
            (json!({"requestContext": {"http": {"method": "POST"}}}), "function URL"),
            (json!({"Records": [{"EventSource": "aws:sns", "Sns": {}}]}), "SNS"),
            (json!({"Records": [{"eventSource": "aws:s3"}]}), "S3"),
            (json!({"Records": [{"eventSource": "aws:ses"}]}), "another AWS service"),
            (json!({"source": "aws.events", "detail-type": "Scheduled Event"}), "EventBridge"),
        ] {
            assert!(sender(&event).unwrap().contains(expected), "{event}");
        }
        for unknown in
            [json!({}), json!([]), json!(7), json!({"Records": []}), json!({"requestContext": {"elb": null}})]
        {
            assert_eq!(sender(&unknown), None, "{unknown}");
        }
    }
}
