//! What the SDK sends: an interceptor that notes every try of every call.

use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;

/// One try of one call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) body: String,
}

/// Everything that was sent and received since it was last read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    calls: Vec<Call>,
    received: usize,
}

impl Meter {
    /// A client like this one, whose calls are noted here.
    pub(crate) fn on(&self, dynamo: &Client) -> Client {
        Client::from_conf(dynamo.config().to_builder().interceptor(self.clone()).build())
    }

    /// The calls since the last reading.
    pub(crate) fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut *self.0.lock().unwrap()).calls
    }

    /// The names of the calls since the last reading.
    pub(crate) fn names(&self) -> Vec<String> {
        self.calls().into_iter().map(|call| call.name).collect()
    }

    /// The names of the calls since the last reading, and the bytes that they sent and received.
    pub(crate) fn cost(&self) -> (Vec<String>, usize, usize) {
        let noted = std::mem::take(&mut *self.0.lock().unwrap());
        let sent = noted.calls.iter().map(|call| call.body.len()).sum();
        (noted.calls.into_iter().map(|call| call.name).collect(), sent, noted.received)
    }
}

impl Intercept for Meter {
    fn name(&self) -> &'static str {
        "Meter"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let request = context.request();
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let name = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body = String::from_utf8_lossy(request.body().bytes().unwrap_or_default()).into_owned();
        self.0.lock().unwrap().calls.push(Call { name, body });
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let length = context.response().headers().get("content-length").and_then(|length| length.parse().ok());
        self.0.lock().unwrap().received += length.unwrap_or(0_usize);
        Ok(())
    }
}
