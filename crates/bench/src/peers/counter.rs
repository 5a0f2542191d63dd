//! A proxy between a system and the emulator that counts calls, what DynamoDB would bill, and bytes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::capacity;
use crate::process::endpoint;

/// What AWS's JSON protocols call the operation: `DynamoDB_20120810.UpdateItem`, `AmazonSQS.SendMessage`.
const TARGET: &str = "x-amz-target";

/// The operations that wait for something, of which a system always has some open.
const WAITS: &str = "ReceiveMessage";

/// How long to wait between two looks whether a system is at rest.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// How long a system may take to come to rest.
const REST_WAIT: Duration = Duration::from_secs(30);

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    /// Calls to DynamoDB.
    pub(crate) dynamo: u32,
    /// Calls to SQS, without those that brought no message.
    pub(crate) sqs: u32,
    /// Receives that brought no message.
    pub(crate) empty: u32,
    /// What the calls to DynamoDB read and wrote, in units of capacity.
    pub(crate) read_units: f64,
    /// See above.
    pub(crate) write_units: f64,
    /// The bytes of the bodies of requests and answers, as compact JSON.
    pub(crate) bytes: u64,
    /// How often each operation was called.
    pub(crate) operations: BTreeMap<String, u32>,
    /// Reads whose units may be too few, because their answers show less than they read.
    pub(crate) unsure: u32,
}

impl Tally {
    fn add(&mut self, call: &Seen<'_>) {
        let Seen { service, operation, request, answer, bytes } = call;
        if *operation == WAITS && answer["Messages"].as_array().is_none_or(Vec::is_empty) {
            self.empty += 1;
            return;
        }
        self.bytes += u64::try_from(*bytes).unwrap_or(u64::MAX);
        *self.operations.entry((*operation).to_owned()).or_default() += 1;
        if !service.starts_with("DynamoDB") {
            self.sqs += 1;
            return;
        }
        self.dynamo += 1;
        if is_write(operation) {
            self.write_units += capacity::write_units(request, answer);
        } else {
            self.read_units += capacity::read_units(operation, request, answer);
            self.unsure += u32::from(capacity::shows_less_than_it_read(request));
        }
    }

    /// Both together.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.dynamo += other.dynamo;
        self.sqs += other.sqs;
        self.empty += other.empty;
        self.read_units += other.read_units;
        self.write_units += other.write_units;
        self.bytes += other.bytes;
        self.unsure += other.unsure;
        for (operation, count) in &other.operations {
            *self.operations.entry(operation.clone()).or_default() += count;
        }
    }
}

/// A call that went through.
struct Seen<'a> {
    service: &'a str,
    operation: &'a str,
    request: &'a Value,
    answer: &'a Value,
    bytes: usize,
}

/// The proxy.
pub(crate) struct Counter {
    address: SocketAddr,
    inner: Arc<Inner>,
    serving: JoinHandle<()>,
}

struct Inner {
    http: reqwest::Client,
    counted: Mutex<Counted>,
}

struct Counted {
    tally: Tally,
    /// Calls that are not answered yet and wait for nothing.
    open: u32,
    /// When the last call began or ended that counts.
    busy: Instant,
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Counter {
    /// Starts it.
    pub(crate) async fn open() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let counted = Mutex::new(Counted { tally: Tally::default(), open: 0, busy: Instant::now() });
        let inner = Arc::new(Inner { http: reqwest::Client::new(), counted });
        let serving = tokio::spawn(serve(listener, Arc::clone(&inner)));
        Ok(Self { address, inner, serving })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was counted since the last time.
    pub(crate) fn take(&self) -> Tally {
        std::mem::take(&mut self.inner.counted().tally)
    }

    /// Returns once no call has begun or ended for `rest`.
    ///
    /// # Errors
    /// There are always calls.
    pub(crate) async fn rests(&self, rest: Duration) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let (open, busy) = {
                let counted = self.inner.counted();
                (counted.open, counted.busy)
            };
            if open == 0 && busy.elapsed() >= rest {
                return Ok(());
            }
            ensure!(begun.elapsed() < REST_WAIT, "it does not stop calling AWS");
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }
}

async fn serve(listener: TcpListener, inner: Arc<Inner>) {
    loop {
        let Ok((connection, _peer)) = listener.accept().await else { return };
        drop(connection.set_nodelay(true));
        let inner = Arc::clone(&inner);
        let answer = service_fn(move |request| {
            let inner = Arc::clone(&inner);
            async move { Ok::<_, Infallible>(inner.answer(request).await) }
        });
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), answer));
    }
}

impl Inner {
    fn counted(&self) -> std::sync::MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let target = request.headers().get(TARGET).and_then(|target| target.to_str().ok()).unwrap_or_default();
        let (service, operation) = target.split_once('.').unwrap_or_default();
        let (service, operation) = (service.to_owned(), operation.to_owned());
        let counts = u32::from(operation != WAITS);
        self.moved(counts, |open, counts| open + counts);
        let passed = self.pass(request, &service, &operation).await;
        self.moved(counts, u32::saturating_sub);
        passed.unwrap_or_else(|_unreachable| plain(StatusCode::BAD_GATEWAY, Bytes::new()))
    }

    fn moved(&self, counts: u32, change: impl Fn(u32, u32) -> u32) {
        if counts > 0 {
            let mut counted = self.counted();
            counted.open = change(counted.open, counts);
            counted.busy = Instant::now();
        }
    }

    /// Passes a call on, and counts it. Of writes the answer is asked what they took, which the system does not see.
    async fn pass(
        &self,
        request: Request<Incoming>,
        service: &str,
        operation: &str,
    ) -> anyhow::Result<Response<Full<Bytes>>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let mut asked: Value = serde_json::from_slice(&body).unwrap_or_default();
        let asks = service.starts_with("DynamoDB") && is_write(operation);
        if let Some(fields) = asked.as_object_mut().filter(|_fields| asks) {
            fields.insert("ReturnConsumedCapacity".to_owned(), "TOTAL".into());
        }
        let sent = if asks { Bytes::from(serde_json::to_vec(&asked)?) } else { body.clone() };
        let mut forwarded = self.http.request(head.method, format!("{}{}", endpoint(), head.uri)).body(sent);
        for (name, value) in head.headers.iter().filter(|(name, _)| **name != CONTENT_LENGTH && **name != HOST) {
            forwarded = forwarded.header(name, value);
        }
        let answer = forwarded.send().await?;
        let (status, kind) = (answer.status(), answer.headers().get(CONTENT_TYPE).cloned());
        let received = answer.bytes().await?;
        let mut said: Value = serde_json::from_slice(&received).unwrap_or_default();
        let capacity = said.as_object_mut().and_then(|fields| fields.remove("ConsumedCapacity"));
        let shown = if said.is_null() { received } else { Bytes::from(serde_json::to_vec(&said)?) };
        if let Some((fields, capacity)) = said.as_object_mut().zip(capacity) {
            fields.insert("ConsumedCapacity".to_owned(), capacity);
        }
        let bytes = body.len() + shown.len();
        self.counted().tally.add(&Seen { service, operation, request: &asked, answer: &said, bytes });
        let mut passed = plain(status, shown);
        if let Some(kind) = kind {
            passed.headers_mut().insert(CONTENT_TYPE, kind);
        }
        Ok(passed)
    }
}

fn is_write(operation: &str) -> bool {
    ["PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"].contains(&operation)
}

fn plain(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn add(tally: &mut Tally, service: &str, operation: &str, request: &Value, answer: &Value) {
        tally.add(&Seen { service, operation, request, answer, bytes: 10 });
    }

    #[test]
    fn calls_count_where_they_went_and_receives_that_brought_nothing_apart() {
        let mut tally = Tally::default();
        add(&mut tally, "AmazonSQS", "ReceiveMessage", &json!({}), &json!({}));
        add(&mut tally, "AmazonSQS", "ReceiveMessage", &json!({}), &json!({"Messages": []}));
        add(&mut tally, "AmazonSQS", "ReceiveMessage", &json!({}), &json!({"Messages": [{}]}));
        let wrote = json!({"ConsumedCapacity": {"CapacityUnits": 3.0}});
        add(&mut tally, "DynamoDB_20120810", "PutItem", &json!({}), &wrote);
        add(&mut tally, "DynamoDB_20120810", "Query", &json!({"FilterExpression": "a"}), &json!({"Items": []}));
        let operations = [("PutItem", 1), ("Query", 1), ("ReceiveMessage", 1)];
        let operations = operations.map(|(operation, count)| (operation.to_owned(), count)).into();
        let expected =
            Tally { dynamo: 2, sqs: 1, empty: 2, read_units: 0.5, write_units: 3.0, bytes: 30, operations, unsure: 1 };
        assert_eq!(tally, expected);
        tally.merge(&expected);
        assert_eq!((tally.dynamo, tally.bytes, tally.operations.get("Query")), (4, 60, Some(&2)));
    }
}
