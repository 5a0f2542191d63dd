//! Whether a caller may do what needs certain scopes.

use std::collections::BTreeSet;

use longhaul_core::Principal;

use crate::settings::NeededScopes;

/// Whether the caller has all of these scopes.
pub(crate) fn has_all<'a>(caller: &Principal, needed: impl IntoIterator<Item = &'a String>) -> bool {
    needed.into_iter().all(|scope| caller.scopes.contain(scope))
}

/// Whether the caller may call `tool`, and sees it in lists.
pub(crate) fn may_call(scopes: &NeededScopes, caller: &Principal, tool: &str) -> bool {
    has_all(caller, scopes.of_call(tool))
}

/// What the caller should come back with: `needed`, and what it has of all that this server knows.
pub(crate) fn wanted_of(scopes: &NeededScopes, caller: &Principal, needed: &BTreeSet<String>) -> BTreeSet<String> {
    scopes.all().into_iter().filter(|scope| needed.contains(scope) || caller.scopes.contain(scope)).collect()
}
