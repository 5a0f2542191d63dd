//! A conditional change of one item, put together from conditions and from attributes to set and to remove.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::attributes::REVISION;
use crate::item::{Item, number, text};
use crate::record::{CANCELLED, COMPLETED, FAILED, INPUT_REQUIRED, QUEUED, RUNNING, SLEEPING};

/// Under which condition an item is written, with the values that the condition compares with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condition {
    text: String,
    values: Item,
}

impl Condition {
    /// This has to hold.
    pub(crate) fn that(condition: &str) -> Self {
        Self { text: condition.to_owned(), values: Item::new() }
    }

    /// All of these have to hold. Each stands in brackets, so that an `OR` inside one stays inside; a single one has
    /// none, because DynamoDB refuses brackets that it finds redundant.
    pub(crate) fn all(conditions: &[&str]) -> Self {
        let text = conditions.iter().map(|condition| format!("({condition})")).collect::<Vec<_>>().join(" AND ");
        Self { text, values: Item::new() }
    }

    /// One more that has to hold.
    pub(crate) fn and(mut self, condition: &str) -> Self {
        self.text.push_str(&format!(" AND ({condition})"));
        self
    }

    /// What `:name` stands for.
    pub(crate) fn with(mut self, name: &str, value: AttributeValue) -> Self {
        self.values.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn into_expression(self) -> Expression {
        Expression::new(self.text, None, self.values)
    }
}

/// What becomes of an item under a condition. Every change raises the revision.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    condition: Condition,
    sets: Vec<String>,
    removes: Vec<String>,
}

impl Change {
    /// The change that is made where `condition` holds.
    pub(crate) fn when(condition: Condition) -> Self {
        Self { condition, sets: Vec::new(), removes: Vec::new() }.raise(REVISION)
    }

    /// The change that sets one attribute of an item without revisions.
    pub(crate) fn set_only(condition: Condition, attribute: &str, value: AttributeValue) -> Self {
        Self { condition, sets: Vec::new(), removes: Vec::new() }.set(attribute, value)
    }

    /// The same for an item that may not exist yet.
    pub(crate) fn of_perhaps_nothing(condition: Condition) -> Self {
        Self { condition, sets: Vec::new(), removes: Vec::new() }.raise_from_nothing(REVISION)
    }

    /// One more condition.
    pub(crate) fn and(mut self, condition: &str) -> Self {
        self.condition = self.condition.and(condition);
        self
    }

    /// What `:name` stands for.
    pub(crate) fn with(mut self, name: &str, value: AttributeValue) -> Self {
        self.condition = self.condition.with(name, value);
        self
    }

    pub(crate) fn set(mut self, attribute: &str, value: AttributeValue) -> Self {
        self.sets.push(format!("#{attribute} = :to_{attribute}"));
        self.with(&format!(":to_{attribute}"), value)
    }

    /// Sets the attribute where it is absent.
    pub(crate) fn set_first(mut self, attribute: &str, value: AttributeValue) -> Self {
        self.sets.push(format!("#{attribute} = if_not_exists(#{attribute}, :to_{attribute})"));
        self.with(&format!(":to_{attribute}"), value)
    }

    /// Adds one. The condition sees to it that a repeated write is refused instead of counted twice.
    pub(crate) fn raise(mut self, attribute: &str) -> Self {
        self.sets.push(format!("#{attribute} = #{attribute} + :one"));
        self.with(":one", number(1))
    }

    /// Adds one to what may be absent.
    pub(crate) fn raise_from_nothing(mut self, attribute: &str) -> Self {
        self.sets.push(format!("#{attribute} = if_not_exists(#{attribute}, :zero) + :one"));
        self.with(":one", number(1)).with(":zero", number(0))
    }

    /// Takes one away.
    pub(crate) fn lower(mut self, attribute: &str) -> Self {
        self.sets.push(format!("#{attribute} = #{attribute} - :one"));
        self.with(":one", number(1))
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

/// The names of states may stand in conditions without being listed.
const STATES: [&str; 7] = [QUEUED, RUNNING, SLEEPING, INPUT_REQUIRED, COMPLETED, FAILED, CANCELLED];

/// A condition, and perhaps an update, as DynamoDB wants them: every name behind `#`, because DynamoDB reserves
/// hundreds of words, and every name and value listed.
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

    /// The values, or nothing where there are none: DynamoDB refuses an empty list.
    pub(crate) fn values(&self) -> Option<Item> {
        Some(self.values.clone()).filter(|values| !values.is_empty())
    }
}

/// The words of `text` that follow `mark`.
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
