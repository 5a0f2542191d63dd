//! How many requests to one endpoint are open at a time in this process: so that one that hangs does not keep the
//! workers from other work.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Requests to one endpoint at a time.
const OPEN_MAX: usize = 4;

/// The open requests of each endpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Permits(Arc<Mutex<HashMap<String, usize>>>);

/// One open request; over when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    of: Permits,
    endpoint: String,
}

impl Permits {
    /// A permit for one more request, if there is one.
    pub(crate) fn take(&self, endpoint: &str) -> Option<Permit> {
        let mut open = self.lock();
        let count = open.entry(endpoint.to_owned()).or_default();
        if *count >= OPEN_MAX {
            return None;
        }
        *count += 1;
        drop(open);
        Some(Permit { of: self.clone(), endpoint: endpoint.to_owned() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(count) = self.of.lock().get_mut(&self.endpoint) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_endpoint_has_its_own_permits_and_gets_them_back() {
        let permits = Permits::default();
        let mut taken: Vec<Permit> = (0..OPEN_MAX).filter_map(|_| permits.take("a")).collect();
        assert_eq!(taken.len(), OPEN_MAX);
        assert!(permits.take("a").is_none());
        assert!(permits.take("b").is_some());
        taken.pop();
        assert!(permits.take("a").is_some());
    }
}
