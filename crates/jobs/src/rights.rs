//! What an identity of AWS has to be allowed to run jobs.

use serde_json::{Value, json};

/// Actions on resources, as a statement of an IAM policy has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    actions: Vec<&'static str>,
    resources: Vec<String>,
}

impl Rights {
    pub(crate) fn new(actions: &[&'static str], resources: Vec<String>) -> Self {
        Self { actions: actions.to_vec(), resources }
    }

    /// The ARNs, perhaps with `*`, that they are for.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.resources.iter().map(String::as_str)
    }

    /// The IAM policy document that grants all of them, and nothing else.
    #[must_use]
    pub fn policy(all: &[Self]) -> Value {
        let statement =
            |rights: &Self| json!({"Effect": "Allow", "Action": rights.actions, "Resource": rights.resources});
        let statements: Vec<Value> = all.iter().map(statement).collect();
        json!({"Version": "2012-10-17", "Statement": statements})
    }
}
