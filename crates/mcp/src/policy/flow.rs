//! Flow control, as an author sets it: how many calls of a tool run at a time, and how many begin within a time.

use std::time::Duration;

use longhaul_core::{FlowControl, Rate, limits};
use rmcp::ErrorData;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::shared_limits::{Flow, OfArguments};
use super::{TaskPolicy, ms};

impl TaskPolicy {
    /// Runs at most `n` calls of the tool at a time, of all owners and in all processes that share the store. The other
    /// calls are accepted, and wait without a worker.
    ///
    /// It counts calls whose code runs. A task that sleeps, asks, or waits for a callback or a child gives its permit
    /// back, and waits for one when it continues. So tools that call each other cannot wait for each other for good. If
    /// a worker dies, its permit is free once the next attempt of the task has ended, or after
    /// [`attempt_at_most`](Self::attempt_at_most). The limit counts for tasks that are accepted from then on.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskPolicy;
    /// let policy = TaskPolicy::optional().concurrency(4);
    /// # let _ = policy;
    /// ```
    #[must_use]
    pub const fn concurrency(mut self, n: u32) -> Self {
        self.flow.concurrency = Some(n);
        self
    }

    /// Begins at most `n` calls of the tool within any time of this length, of all owners and in all processes that
    /// share the store. The other calls are accepted, and wait without a worker. A task counts once, when its first
    /// attempt begins.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskPolicy;
    /// let policy = TaskPolicy::optional().rate(100, Duration::from_secs(60));
    /// # let _ = policy;
    /// ```
    #[must_use]
    pub fn rate(mut self, n: u32, per: Duration) -> Self {
        self.flow.rate = Some(Rate { max: n, per_ms: ms(per) });
        self
    }

    /// Limits the calls of each key on their own: [`concurrency`](Self::concurrency) and [`rate`](Self::rate) then hold
    /// for the calls for which the function returns the same key. Without it, they hold for all calls of the tool.
    ///
    /// The function gets the arguments of the call as any type that they can be read into. A call whose arguments
    /// cannot, or whose key has more than 1,024 bytes, is refused with `-32602`. The key is stored with the task.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskPolicy;
    /// #[derive(serde::Deserialize)]
    /// struct Export {
    ///     customer: String,
    /// }
    ///
    /// // One export for each customer at a time.
    /// let policy = TaskPolicy::optional().concurrency(1).concurrency_key(|export: &Export| export.customer.clone());
    /// # let _ = policy;
    /// ```
    #[must_use]
    pub fn concurrency_key<A, K>(mut self, key: impl Fn(&A) -> K + Send + Sync + 'static) -> Self
    where
        A: DeserializeOwned,
        K: ToString,
    {
        self.flow.key = OfArguments::new(move |arguments: &A| key(arguments).to_string());
        self
    }

    /// Lets calls for which the function returns a higher number come first when they wait for a permit of
    /// [`concurrency`](Self::concurrency): 0 is usual. Among calls with the same one, those of an owner with few running
    /// ones come first, and then those that have waited longest. It interrupts no call that runs.
    ///
    /// The function gets the arguments as [`concurrency_key`](Self::concurrency_key)'s does.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskPolicy;
    /// # #[derive(serde::Deserialize)]
    /// # struct Export { urgent: bool }
    /// let policy = TaskPolicy::optional().concurrency(4).priority(|export: &Export| u8::from(export.urgent));
    /// # let _ = policy;
    /// ```
    #[must_use]
    pub fn priority<A: DeserializeOwned>(mut self, priority: impl Fn(&A) -> u8 + Send + Sync + 'static) -> Self {
        self.flow.priority = OfArguments::new(priority);
        self
    }

    /// Whether calls of the tool wait for permits.
    #[doc(hidden)]
    #[must_use]
    pub const fn has_flow_control(&self) -> bool {
        self.flow.concurrency.is_some() || self.flow.rate.is_some()
    }

    /// The limits of a call with these arguments. Fails with `-32602` if they make no key.
    pub(crate) fn flow_of(
        &self,
        tool: &str,
        arguments: impl FnOnce() -> serde_json::Result<Value>,
    ) -> Result<Option<FlowControl>, ErrorData> {
        if !self.has_flow_control() {
            return Ok(None);
        }
        let Flow { concurrency, rate, key, priority } = &self.flow;
        let made = (|| {
            let arguments = if key.is_some() || priority.is_some() { arguments()? } else { Value::Null };
            let key = key.as_ref().map_or(Ok(String::new()), |OfArguments(key)| key(arguments.clone()))?;
            Ok::<_, serde_json::Error>((key, priority.as_ref().map_or(Ok(0), |OfArguments(of)| of(arguments))?))
        })();
        let (key, priority) = made.map_err(|error| {
            let message = format!("the limits of `{tool}` cannot be read from these arguments: {error}");
            ErrorData::invalid_params(message, None)
        })?;
        let (bytes, bytes_max) = (key.len(), limits::CONCURRENCY_KEY_BYTES_MAX);
        if bytes > bytes_max {
            let message = format!(
                "the concurrency key of `{tool}` has {bytes} bytes for these arguments, and at most {bytes_max} are \
                 allowed: call it with shorter ones"
            );
            return Err(ErrorData::invalid_params(message, None));
        }
        let (concurrency, rate) = (*concurrency, *rate);
        Ok(Some(FlowControl { key, concurrency, rate, priority, attempt_ms: self.attempt_ms() }))
    }

    /// The part of the limits that cannot be kept, in a sentence.
    pub(super) fn flow_contradiction(&self) -> Option<String> {
        let Flow { concurrency, rate, key, priority } = &self.flow;
        let numbers = [("concurrency", *concurrency), ("rate", rate.map(|rate| rate.max))];
        let allowed = 1..=limits::GROUP_ATTEMPTS_MAX;
        if let Some((name, n)) = numbers.iter().find_map(|(name, n)| Some((name, n.filter(|n| !allowed.contains(n))?)))
        {
            return Some(format!("`{name}` is {n}: name a number from 1 to {}", allowed.end()));
        }
        if let Some(Rate { per_ms, .. }) = rate.filter(|rate| !(1..=limits::RATE_MS_MAX).contains(&rate.per_ms)) {
            return Some(format!("`rate` is for {per_ms} ms: name a time from a millisecond to a week"));
        }
        if priority.is_some() && concurrency.is_none() {
            return Some("`priority` orders nothing alone: add `concurrency`".to_owned());
        }
        (key.is_some() && !self.has_flow_control())
            .then(|| "`concurrency_key` limits nothing alone: add `concurrency` or `rate`".to_owned())
    }
}
