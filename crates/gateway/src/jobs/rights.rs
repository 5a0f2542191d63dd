//! Permissions that the workers of external jobs need on AWS.

use serde_json::{Value, json};

/// Actions on resources, as a statement of an IAM policy has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    actions: Vec<&'static str>,
    resources: Vec<String>,
    condition: Option<Value>,
}

impl Rights {
    pub(crate) fn new(actions: &[&'static str], resources: Vec<String>) -> Self {
        Self { actions: actions.to_vec(), resources, condition: None }
    }

    /// The same where the resources alone do not say what it is about.
    pub(crate) fn only_if(self, condition: Value) -> Self {
        Self { condition: Some(condition), ..self }
    }

    /// The actions.
    pub fn actions(&self) -> impl Iterator<Item = &str> {
        self.actions.iter().copied()
    }

    /// The ARNs, perhaps with `*`, that they are for.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.resources.iter().map(String::as_str)
    }

    /// The IAM policy document that grants all of them, and nothing else.
    #[must_use]
    pub fn policy(all: &[Self]) -> Value {
        let statement = |rights: &Self| {
            let mut statement = json!({"Effect": "Allow", "Action": rights.actions, "Resource": rights.resources});
            if let (Some(condition), Some(statement)) = (&rights.condition, statement.as_object_mut()) {
                statement.insert("Condition".to_owned(), condition.clone());
            }
            statement
        };
        let statements: Vec<Value> = all.iter().map(statement).collect();
        json!({"Version": "2012-10-17", "Statement": statements})
    }
}
