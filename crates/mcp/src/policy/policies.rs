//! The policies of all tools of a server, and their cleanup functions.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use longhaul_core::{ToolClass, WEBHOOK_DELIVERY_TOOL, limits};
use longhaul_engine::Ended;

use super::{Need, TaskPolicy};

/// The tools that may become tasks, and their policies: for tools by name, and by a function for all others. Also the
/// cleanup functions of these tools.
#[derive(Clone, Default)]
pub struct Policies {
    named: BTreeMap<String, TaskPolicy>,
    by_function: Option<Arc<PolicyFunction>>,
    cleaners: Cleaners,
}

/// The cleanup functions: for tools by name, and one for all others that a function covers.
#[derive(Clone, Default)]
pub(crate) struct Cleaners {
    named: BTreeMap<String, Arc<Cleaner>>,
    others: Option<(Arc<Covers>, Arc<Cleaner>)>,
}

/// The cleanup of one task; fails with the reason if it could not.
pub(crate) type Cleaner = dyn Fn(Ended) -> BoxFuture<'static, Result<(), String>> + Send + Sync;

/// Says whether a tool has something to clean up.
type Covers = dyn Fn(&str) -> bool + Send + Sync;

type PolicyFunction = dyn Fn(&str) -> Option<TaskPolicy> + Send + Sync;

impl Cleaners {
    /// Whether new tasks of this tool need a cleanup.
    pub(crate) fn cover(&self, tool: &str) -> bool {
        self.named.contains_key(tool) || self.others.as_ref().is_some_and(|(covers, _)| covers(tool))
    }

    /// The cleanup function for a task of this tool. Whether the task needs it was decided when it was accepted: the
    /// decision may be another one now.
    pub(crate) fn of(&self, tool: &str) -> Option<&Arc<Cleaner>> {
        self.named.get(tool).or_else(|| self.others.as_ref().map(|(_, cleaner)| cleaner))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.named.keys()
    }
}

impl Policies {
    /// Names a tool. Its own policy replaces the one of the function.
    pub fn insert(&mut self, tool: String, policy: TaskPolicy) {
        self.named.insert(tool, policy);
    }

    /// Takes over what tools say themselves ([`task_support`](crate::task_support)), for those about which nothing else
    /// decides.
    pub fn insert_declared(&mut self, declared: &BTreeMap<String, TaskPolicy>) {
        if !self.has_function() {
            for (tool, policy) in declared {
                self.named.entry(tool.clone()).or_insert_with(|| policy.clone());
            }
        }
    }

    /// Has `decide` decide about all tools that are not named. It replaces an earlier function.
    pub fn decide_by(&mut self, decide: impl Fn(&str) -> Option<TaskPolicy> + Send + Sync + 'static) {
        self.by_function = Some(Arc::new(decide));
    }

    /// Sets the cleanup function for the tasks of this tool. It replaces an earlier one.
    pub(crate) fn insert_cleaner(&mut self, tool: String, cleaner: Arc<Cleaner>) {
        self.cleaners.named.insert(tool, cleaner);
    }

    /// Sets the cleanup function for the tasks of all tools that are not named, if `covers` returns true for them. It
    /// replaces an earlier one.
    pub(crate) fn clean_others(&mut self, covers: Arc<Covers>, cleaner: Arc<Cleaner>) {
        self.cleaners.others = Some((covers, cleaner));
    }

    pub(crate) const fn cleaners(&self) -> &Cleaners {
        &self.cleaners
    }

    /// The policy of this tool; `None` if its calls are plain. No client's call becomes a webhook delivery.
    #[must_use]
    pub fn get(&self, tool: &str) -> Option<Cow<'_, TaskPolicy>> {
        if tool == WEBHOOK_DELIVERY_TOOL {
            return None;
        }
        match self.named.get(tool) {
            Some(policy) => Some(Cow::Borrowed(policy)),
            None => Some(Cow::Owned(self.by_function.as_ref()?(tool)?)),
        }
    }

    /// Whether new tasks of this tool have a cleanup, which runs if they do not end with success.
    pub(crate) fn cleans_up(&self, tool: &str) -> bool {
        self.cleaners.cover(tool) || self.compensates(tool)
    }

    /// Whether this tool may register compensations.
    pub(crate) fn compensates(&self, tool: &str) -> bool {
        self.get(tool).is_some_and(|policy| policy.compensates)
    }

    /// The tools that are named, with their policies.
    pub fn named(&self) -> impl Iterator<Item = (&String, &TaskPolicy)> {
        self.named.iter()
    }

    pub(crate) fn names(&self, tool: &str) -> bool {
        self.named.contains_key(tool)
    }

    /// Whether a function decides about the tools that are not named.
    #[must_use]
    pub const fn has_function(&self) -> bool {
        self.by_function.is_some()
    }

    /// The class of this tool, if it has one.
    #[must_use]
    pub fn class_of(&self, tool: &str) -> Option<ToolClass> {
        self.get(tool)?.class_name().and_then(ToolClass::parse)
    }

    /// The scopes that the policy of this tool says its callers need.
    pub(crate) fn scopes_of(&self, tool: &str) -> BTreeSet<String> {
        self.get(tool).map_or_else(BTreeSet::new, |policy| policy.scopes().clone())
    }

    /// Whether no tool can become a task.
    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty() && !self.has_function()
    }

    /// Whether clients that know no tasks may get a job.
    pub(crate) fn may_make_jobs(&self) -> bool {
        self.has_function() || self.named.values().any(|policy| policy.need == Need::Optional)
    }

    /// How long a result can be kept, in milliseconds, at most; `None` if there are no tasks.
    pub(crate) fn kept_ms_max(&self) -> Option<u64> {
        let kept_ms = |policy: &TaskPolicy| policy.terms.ttl_ms_max.max(policy.terms.retention_ms);
        let unknown = self.has_function().then_some(limits::TTL_MS_CEILING);
        self.named.values().map(kept_ms).chain(unknown).max()
    }
}

impl From<BTreeMap<String, TaskPolicy>> for Policies {
    fn from(named: BTreeMap<String, TaskPolicy>) -> Self {
        Self { named, by_function: None, cleaners: Cleaners::default() }
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut policies = f.debug_struct("Policies");
        policies.field("named", &self.named).field("cleaned_up", &self.cleaners.named.keys());
        if self.has_function() { policies.finish_non_exhaustive() } else { policies.finish() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_policy_makes_a_webhook_delivery_of_a_call() {
        let mut policies = Policies::from(BTreeMap::from([(WEBHOOK_DELIVERY_TOOL.to_owned(), TaskPolicy::optional())]));
        policies.decide_by(|_tool| Some(TaskPolicy::optional()));
        assert!(policies.get("report").is_some());
        assert!(policies.get(WEBHOOK_DELIVERY_TOOL).is_none());
    }
}
