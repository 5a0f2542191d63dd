//! DynamoDB accepts all of them.

use std::collections::HashSet;

use longhaul_core::ports::NewTask;
use longhaul_testkit::{SeededIds, StoreModel, given};
use proptest::prelude::*;

use super::counts::*;
use super::permits::*;
use super::*;

/// The words in the expression that begin with `mark`.
fn mentioned(expression: &Expression, mark: char) -> HashSet<String> {
    let all = format!("{} {}", expression.condition, expression.update.as_deref().unwrap_or_default());
    let word = |rest: &str| {
        let end = rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(rest.len());
        format!("{mark}{}", &rest[..end])
    };
    all.split(mark).skip(1).map(word).collect()
}

/// Checks for faults that DynamoDB refuses regardless of the item. These are names and values that are missing or not
/// used, an attribute that is changed twice, and an expression of more than 4 KB.
fn is_valid(expression: &Expression) -> Result<(), TestCaseError> {
    prop_assert_eq!(mentioned(expression, '#'), expression.names.keys().cloned().collect::<HashSet<_>>());
    prop_assert_eq!(mentioned(expression, ':'), expression.values.keys().cloned().collect::<HashSet<_>>());
    let update = expression.update.as_deref().unwrap_or_default();
    let (sets, removes) = update.split_once(" REMOVE ").unwrap_or((update, ""));
    let targets = sets.trim_start_matches("SET ").split(", #").filter_map(|set| set.split(' ').next());
    let targets: Vec<_> = targets.chain(removes.split(", ").filter(|name| !name.is_empty())).collect();
    let names: HashSet<_> = targets.iter().map(|name| name.trim_start_matches('#')).collect();
    prop_assert_eq!(names.len(), targets.len(), "changed twice: {:?}", update);
    prop_assert!(expression.condition.len() < 4_096 && update.len() < 4_096);
    Ok(())
}

proptest! {
    #[test]
    fn dynamodb_accepts_the_change_of_every_event(run in StoreModel::run()) {
        let (mut task, events) = run;
        for (event, now) in events {
            if let Some(change) = at_once(&event, now) {
                is_valid(&change.into_expression())?;
            }
            let Ok(next) = task.apply(&event, now) else { continue };
            let seen = Stored { task, revision: 7, slots: 1, idempotency: None, damage: None };
            let change = after_seeing(&seen, &event, &next, now);
            is_valid(&change.into_expression())?;
            task = next;
        }
    }

    #[test]
    fn every_task_is_read_as_it_was_written(run in StoreModel::run()) {
        let (mut task, events) = run;
        for (event, now) in events {
            task = task.apply(&event, now).unwrap_or(task);
            let mut item = crate::keys::task(&task.key()).with(record::attributes(&task));
            item.insert(crate::item::REVISION.to_owned(), number(3));
            let stored = record::read(&item).unwrap();
            prop_assert_eq!((stored.task, stored.revision, stored.slots), (task.clone(), 3, 0));
        }
    }
}

#[test]
fn dynamodb_accepts_the_condition_of_every_list() {
    let now = given::NOW;
    is_valid(&listed(now)).unwrap();
    let labels = given::labels(&[("customer", "acme"), ("stage", "a=b")]);
    for status in longhaul_core::Status::ALL {
        for tool in [None, Some("a".repeat(1_000))] {
            is_valid(&listed_by(
                &TaskFilter { statuses: [status].into(), tool: tool.clone(), labels: labels.clone() },
                now,
            ))
            .unwrap();
            is_valid(&listed_by(&TaskFilter { tool, ..TaskFilter::default() }, now)).unwrap();
        }
    }
}

#[test]
fn dynamodb_accepts_every_other_change() {
    let task = given::task(&SeededIds::new(1), given::owner("alice"), given::NOW);
    let now = given::NOW;
    let new = given::new(task.clone());
    let limited = NewTask { new_max: Some(3), ..new.clone() };
    let reserved = Reserved { slots: 4, new: 1, bytes: 5, until: "b1".to_owned() };
    for next_count in [NextCount::AsSet { unless_set: now }, NextCount::WithThisTask] {
        for (new, window) in
            [(&new, Window::Current), (&limited, Window::Current), (&limited, Window::After { since: now })]
        {
            is_valid(&reserve(new, &reserved, next_count, window, now).into_expression()).unwrap();
        }
    }
    let permit = Permit { name: format!("l{:032x}", 0), value: "1#2".to_owned(), ttl: now };
    let over: Vec<String> = (0..crate::permits::CLEARED_MAX).map(|number| format!("l{:096x}", number + 1)).collect();
    let changes = [
        release(&reserved),
        release(&Reserved { slots: 0, new: 0, ..reserved.clone() }),
        end_of(&Reserved { slots: 0, ..reserved.clone() }),
        forget_bytes("b1", &[("b1".to_owned(), 5), ("b2".to_owned(), 6)]),
        begin_to_count(Some(now), now),
        begin_to_count(None, now),
        correct_count(-2, now),
        correct_count(0, now),
        extend_ttl(now),
        take_permit(&permit, 2),
        take_over_permit(&permit, &Permit { value: "3#4#5".to_owned(), ..permit.clone() }),
        over.iter().fold(unchanged(7, now).set(&permit.name, text(&permit.value)), |change, name| change.remove(name)),
        give_permit_back(&permit),
    ];
    for change in changes {
        is_valid(&change.into_expression()).unwrap();
    }
    let seen = Stored { task, revision: 1, slots: 0, idempotency: None, damage: None };
    is_valid(&open_unexpired(now)).unwrap();
    for condition in [new_item(), task_in_place_of(&seen), key_in_place_of("x"), empty_mailbox(now)] {
        is_valid(&condition.into_expression()).unwrap();
    }
}
