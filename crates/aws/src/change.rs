//! A conditional change of one item: built from conditions, and from attributes to set and to remove.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::item::{Item, REVISION, number, text};
use crate::record::{CANCELLED, COMPLETED, FAILED, INPUT_REQUIRED, QUEUED, RUNNING, SLEEPING};

/// The condition for a write of an item, with the values that it compares with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condition {
    text: String,
    values: Item,
}

impl Condition {
    pub(crate) fn that(condition: &str) -> Self {
        Self { text: condition.to_owned(), values: Item::new() }
    }

    /// All of these have to hold. Each is put in brackets, because it may contain an `OR`. A single condition gets no
    /// brackets ([`that`](Self::that)), because DynamoDB refuses redundant ones.
    pub(crate) fn all(conditions: &[&str]) -> Self {
        let text = conditions.iter().map(|condition| format!("({condition})")).collect::<Vec<_>>().join(" AND ");
        Self { text, values: Item::new() }
    }

    pub(crate) fn and(mut self, condition: &str) -> Self {
        self.text.push_str(&format!(" AND ({condition})"));
        self
    }

    pub(crate) fn with(mut self, name: &str, value: AttributeValue) -> Self {
        self.values.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn into_expression(self) -> Expression {
        Expression::new(self.text, None, self.values)
    }
}

/// How to change an item if a condition holds. Every change of an item with a revision increments it.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    condition: Condition,
    sets: Vec<String>,
    removes: Vec<String>,
}

impl Change {
    pub(crate) fn when(condition: Condition) -> Self {
        Self { condition, sets: Vec::new(), removes: Vec::new() }.increment(REVISION)
    }

    /// A change that sets one attribute of an item without a revision.
    pub(crate) fn set_only(condition: Condition, attribute: &str, value: AttributeValue) -> Self {
        Self { condition, sets: Vec::new(), removes: Vec::new() }.set(attribute, value)
    }

    /// Like [`when`](Self::when), for an item that may not exist yet.
    pub(crate) fn upsert(condition: Condition) -> Self {
        Self { condition, sets: Vec::new(), removes: Vec::new() }.increment_or_insert(REVISION)
    }

    pub(crate) fn and(mut self, condition: &str) -> Self {
        self.condition = self.condition.and(condition);
        self
    }

    pub(crate) fn with(mut self, name: &str, value: AttributeValue) -> Self {
        self.condition = self.condition.with(name, value);
        self
    }

    pub(crate) fn set(mut self, attribute: &str, value: AttributeValue) -> Self {
        self.sets.push(format!("#{attribute} = :to_{attribute}"));
        self.with(&format!(":to_{attribute}"), value)
    }

    /// Sets the attribute if it is absent.
    pub(crate) fn set_if_absent(mut self, attribute: &str, value: AttributeValue) -> Self {
        self.sets.push(format!("#{attribute} = if_not_exists(#{attribute}, :to_{attribute})"));
        self.with(&format!(":to_{attribute}"), value)
    }

    /// Sets the attribute to the list in `from`, or to `otherwise` if that is absent, with the values of `added` after
    /// it.
    pub(crate) fn set_extended(
        mut self,
        attribute: &str,
        from: &str,
        otherwise: AttributeValue,
        added: AttributeValue,
    ) -> Self {
        self.sets.push(format!("#{attribute} = list_append(if_not_exists(#{from}, :no_{from}), :to_{attribute})"));
        self.with(&format!(":no_{from}"), otherwise).with(&format!(":to_{attribute}"), added)
    }

    /// Adds one. The condition has to refuse a repeated write, which would be counted twice otherwise.
    pub(crate) fn increment(mut self, attribute: &str) -> Self {
        self.sets.push(format!("#{attribute} = #{attribute} + :one"));
        self.with(":one", number(1))
    }

    /// Adds one to an attribute that may be absent.
    pub(crate) fn increment_or_insert(mut self, attribute: &str) -> Self {
        self.sets.push(format!("#{attribute} = if_not_exists(#{attribute}, :zero) + :one"));
        self.with(":one", number(1)).with(":zero", number(0))
    }

    /// Adds `by`, which may be negative. The condition has to refuse a repeated write, or the count has to be corrected
    /// later.
    pub(crate) fn add(mut self, attribute: &str, by: i64) -> Self {
        self.sets.push(format!("#{attribute} = #{attribute} + :by_{attribute}"));
        self.with(&format!(":by_{attribute}"), number(by))
    }

    /// The same for an attribute that may be absent.
    pub(crate) fn add_or_insert(mut self, attribute: &str, by: i64) -> Self {
        self.sets.push(format!("#{attribute} = if_not_exists(#{attribute}, :zero) + :by_{attribute}"));
        self.with(&format!(":by_{attribute}"), number(by)).with(":zero", number(0))
    }

    pub(crate) fn remove(mut self, attribute: impl Into<String>) -> Self {
        self.removes.push(attribute.into());
        self
    }

    pub(crate) fn into_expression(self) -> Expression {
        let mut update = format!("SET {}", self.sets.join(", "));
        for (number, attribute) in self.removes.iter().enumerate() {
            update.push_str(if number == 0 { " REMOVE #" } else { ", #" });
            update.push_str(attribute);
        }
        Expression::new(self.condition.text, Some(update), self.condition.values)
    }
}

/// The names of states may be used as values in conditions without [`Condition::with`].
const STATES: [&str; 7] = [QUEUED, RUNNING, SLEEPING, INPUT_REQUIRED, COMPLETED, FAILED, CANCELLED];

/// A condition, and possibly an update, as DynamoDB requires them. Every name begins with `#`, because DynamoDB
/// reserves hundreds of words. Every name and value is listed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expression {
    pub(crate) condition: String,
    pub(crate) update: Option<String>,
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: Item,
}

impl Expression {
    fn new(condition: String, update: Option<String>, mut values: Item) -> Self {
        let all = format!("{condition} {}", update.as_deref().unwrap_or_default());
        let names = words(&all, '#').map(|word| (format!("#{word}"), word.to_owned())).collect();
        for word in words(&all, ':').filter(|word| STATES.contains(word)) {
            values.insert(format!(":{word}"), text(word));
        }
        Self { condition, update, names, values }
    }

    /// The values; `None` if there are none, because DynamoDB refuses an empty list.
    pub(crate) fn values(&self) -> Option<Item> {
        Some(self.values.clone()).filter(|values| !values.is_empty())
    }
}

fn words(text: &str, mark: char) -> impl Iterator<Item = &str> {
    text.split(mark).skip(1).map(|rest| {
        let end = rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_and_value_of_an_expression_is_listed() {
        let change = Change::when(Condition::all(&["#state = :queued OR #a < :a", "#b = :b"]))
            .with(":a", number(1))
            .with(":b", number(2))
            .set("c", number(3))
            .remove("d")
            .remove("e");
        let expression = change.into_expression();
        assert_eq!(expression.condition, "(#state = :queued OR #a < :a) AND (#b = :b)");
        assert_eq!(expression.update.as_deref(), Some("SET #revision = #revision + :one, #c = :to_c REMOVE #d, #e"));
        let mut names: Vec<_> = expression.names.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["#a", "#b", "#c", "#d", "#e", "#revision", "#state"]);
        let mut values: Vec<_> = expression.values.keys().map(String::as_str).collect();
        values.sort_unstable();
        assert_eq!(values, [":a", ":b", ":one", ":queued", ":to_c"]);
    }
}
