//! The limits of flow control, and functions of the arguments of a call.

use std::fmt;
use std::sync::Arc;

use longhaul_core::{Rate, strict_json};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The limits of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) concurrency: Option<u32>,
    pub(super) rate: Option<Rate>,
    pub(super) key: Option<OfArguments<String>>,
    pub(super) priority: Option<OfArguments<u8>>,
}

/// A function of the arguments of a call.
#[derive(Clone)]
pub(super) struct OfArguments<T>(pub(super) Arc<Function<T>>);

pub(super) type Function<T> = dyn Fn(Value) -> Result<T, serde_json::Error> + Send + Sync;

impl<T> OfArguments<T> {
    pub(super) fn new<A: DeserializeOwned>(of: impl Fn(&A) -> T + Send + Sync + 'static) -> Option<Self> {
        Some(Self(Arc::new(move |arguments| strict_json::from_value::<A>(arguments).map(|arguments| of(&arguments)))))
    }
}

impl<T> PartialEq for OfArguments<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Eq for OfArguments<T> {}

impl<T> fmt::Debug for OfArguments<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OfArguments")
    }
}
