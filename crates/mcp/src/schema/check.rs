//! Checking arguments against a compiled schema.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Map, Number, Value};

use super::fault::{self, Fault, Mismatch, Path};
use super::number::{canonical, compare, is_multiple, same};
use super::{Condition, Contains, Index, ListRules, Node, NumberRules, ObjectRules, Range, Rules, Schema, TextRules};

/// Faults that are listed, at most.
const FAULTS_MAX: usize = 5;

/// Schemas that are applied to one call's arguments, at most: alternatives inside alternatives multiply.
const CHECKS_MAX: u64 = 2_000_000;

/// How many schemas may be applied inside each other.
const DEPTH_MAX: usize = 200;

/// One check of some arguments.
#[derive(Default)]
struct Run {
    checks: u64,
    depth: usize,
    /// The arguments were too much to check.
    is_over: bool,
}

impl Schema {
    /// Checks the arguments of a call.
    ///
    /// # Errors
    /// What is wrong, as sentences; the first few if there are many.
    pub(crate) fn check(&self, arguments: &Value) -> Result<(), Vec<String>> {
        let (mut run, mut faults) = (Run::default(), Vec::new());
        self.apply(self.root, arguments, &Path::Root, &mut run, &mut faults);
        if run.is_over {
            return Err(vec!["they are nested too deeply, or too large, to be checked".to_owned()]);
        }
        if faults.is_empty() { Ok(()) } else { Err(faults.into_iter().map(|fault| fault.sentence).collect()) }
    }

    fn node(&self, index: Index) -> &Node {
        // Indexes come from the compiler only.
        self.nodes.get(index).unwrap_or(&Node::Anything)
    }

    /// Adds what is wrong with `value`, until there are enough faults.
    fn apply(&self, index: Index, value: &Value, at: &Path<'_>, run: &mut Run, faults: &mut Vec<Fault>) {
        run.checks += 1;
        if run.checks > CHECKS_MAX || run.depth >= DEPTH_MAX {
            run.is_over = true;
        }
        if run.is_over || faults.len() >= FAULTS_MAX {
            return;
        }
        run.depth += 1;
        match self.node(index) {
            Node::Anything => {}
            Node::Nothing => add(faults, at, format!("{} must not be given", at.words_or("this"))),
            Node::Rules(rules) => self.apply_rules(rules, value, at, run, faults),
        }
        run.depth -= 1;
    }

    fn apply_rules(&self, rules: &Rules, value: &Value, at: &Path<'_>, run: &mut Run, faults: &mut Vec<Fault>) {
        if let Some(mismatch) = mismatch(rules, value) {
            let name = at.words_or("the value");
            let sentence = format!("{name} must be {}, not {}", self.expected_by(rules), fault::shown(value));
            faults.push(Fault { depth: at.depth(), mismatch: Some(mismatch), sentence });
            return;
        }
        if let Some(reference) = rules.reference {
            self.apply(reference, value, at, run, faults);
        }
        match value {
            Value::Number(number) => check_number(&rules.number, number, at, faults),
            Value::String(text) => check_text(&rules.text, text, at, faults),
            Value::Array(items) => self.apply_list(&rules.list, items, at, run, faults),
            Value::Object(fields) => {
                self.apply_object(&rules.object, fields, at, run, faults);
                for (_, schema) in rules.object.schema_with.iter().filter(|(name, _)| fields.contains_key(*name)) {
                    self.apply(*schema, value, at, run, faults);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
        for part in &rules.all_of {
            self.apply(*part, value, at, run, faults);
        }
        self.apply_any(&rules.any_of, value, at, run, faults);
        self.apply_one(&rules.one_of, value, at, run, faults);
        if let Some(not) = rules.not
            && self.matches(not, value, at, run)
        {
            add(faults, at, format!("{} has a value that is not allowed", at.words_or("the value")));
        }
        if let Some(Condition { when, then, otherwise }) = &rules.condition {
            let next = *if self.matches(*when, value, at, run) { then } else { otherwise };
            next.into_iter().for_each(|next| self.apply(next, value, at, run, faults));
        }
    }

    fn matches(&self, index: Index, value: &Value, at: &Path<'_>, run: &mut Run) -> bool {
        self.faults_of(index, value, at, run).is_empty()
    }

    fn faults_of(&self, index: Index, value: &Value, at: &Path<'_>, run: &mut Run) -> Vec<Fault> {
        let mut faults = Vec::new();
        self.apply(index, value, at, run, &mut faults);
        faults
    }

    fn apply_any(&self, choices: &[Index], value: &Value, at: &Path<'_>, run: &mut Run, faults: &mut Vec<Fault>) {
        if choices.is_empty() {
            return;
        }
        let mut refused = Vec::new();
        for choice in choices {
            let found = self.faults_of(*choice, value, at, run);
            if found.is_empty() {
                return;
            }
            refused.push(found);
        }
        self.explain(choices, refused, value, at, faults);
    }

    fn apply_one(&self, choices: &[Index], value: &Value, at: &Path<'_>, run: &mut Run, faults: &mut Vec<Fault>) {
        if choices.is_empty() {
            return;
        }
        let found = choices.iter().map(|choice| self.faults_of(*choice, value, at, run));
        let found: Vec<_> = found.collect();
        match found.iter().filter(|faults| faults.is_empty()).count() {
            1 => {}
            0 => self.explain(choices, found, value, at, faults),
            _ => add(
                faults,
                at,
                format!("{} matches more than one of the forms of which it may have one", at.words_or("the value")),
            ),
        }
    }

    /// Why no choice matches: what is wrong with the only one that was meant, if that can be seen; otherwise all of
    /// them.
    fn explain(
        &self,
        choices: &[Index],
        refused: Vec<Vec<Fault>>,
        value: &Value,
        at: &Path<'_>,
        faults: &mut Vec<Fault>,
    ) {
        // A choice of another type was not meant, and neither was one with another tag in a field.
        let depth = at.depth();
        let is_other = |fault: &Fault| match fault.mismatch {
            None => false,
            Some(Mismatch::Type) => fault.depth <= depth,
            Some(Mismatch::Value) => fault.depth <= depth + 1,
        };
        let mut meant = refused.iter().filter(|found| !found.iter().any(is_other));
        if let (Some(only), None) = (meant.next(), meant.next()) {
            faults.extend(only.iter().take(FAULTS_MAX.saturating_sub(faults.len())).cloned());
            return;
        }
        let expected: Vec<String> = choices.iter().map(|choice| self.expected(*choice)).collect();
        let mut unlike: Vec<String> = Vec::new();
        expected.into_iter().for_each(|words| {
            if !unlike.contains(&words) {
                unlike.push(words)
            }
        });
        let sentence =
            format!("{} must be {}, not {}", at.words_or("the value"), fault::one_of(&unlike), fault::shown(value));
        faults.push(Fault { depth, mismatch: Some(Mismatch::Type), sentence });
    }

    /// What a schema wants, as part of a sentence.
    fn expected(&self, index: Index) -> String {
        let mut index = index;
        for _ in 0..DEPTH_MAX {
            match self.node(index) {
                Node::Anything | Node::Nothing => return "something else".to_owned(),
                Node::Rules(rules) => {
                    match rules.reference.filter(|_| rules.types.is_none() && rules.allowed.is_none()) {
                        Some(next) => index = next,
                        None => return self.expected_by(rules),
                    }
                }
            }
        }
        "something else".to_owned()
    }

    fn expected_by(&self, rules: &Rules) -> String {
        if let Some(allowed) = &rules.allowed {
            return fault::one_of(&allowed.iter().map(fault::shown).collect::<Vec<_>>());
        }
        if let Some(types) = &rules.types {
            return fault::one_of(&types.iter().map(|kind| kind.words().to_owned()).collect::<Vec<_>>());
        }
        let choices = if rules.any_of.is_empty() { &rules.one_of } else { &rules.any_of };
        let direct = choices.iter().filter_map(|choice| match self.node(*choice) {
            Node::Rules(rules) if rules.types.is_some() || rules.allowed.is_some() => Some(self.expected_by(rules)),
            Node::Rules(_) | Node::Anything | Node::Nothing => None,
        });
        let direct: Vec<String> = direct.collect();
        if direct.is_empty() { "something else".to_owned() } else { fault::one_of(&direct) }
    }

    fn apply_list(&self, rules: &ListRules, items: &[Value], at: &Path<'_>, run: &mut Run, faults: &mut Vec<Fault>) {
        check_count(rules.count, items.len(), "items", at, faults);
        for (number, item) in items.iter().enumerate() {
            if faults.len() >= FAULTS_MAX {
                return;
            }
            if let Some(schema) = rules.prefix.get(number).copied().or(rules.rest) {
                self.apply(schema, item, &Path::Item(at, number), run, faults);
            }
        }
        if rules.unique && has_the_same_twice(items) {
            add(faults, at, format!("{} must not have the same item twice", at.words_or("the value")));
        }
        if let Some(Contains { schema, count }) = &rules.contains {
            let found = items.iter().enumerate();
            let found =
                found.filter(|(number, item)| self.matches(*schema, item, &Path::Item(at, *number), run)).count();
            check_count(*count, found, &format!("items that are {}", self.expected(*schema)), at, faults);
        }
    }

    fn apply_object(
        &self,
        rules: &ObjectRules,
        fields: &Map<String, Value>,
        at: &Path<'_>,
        run: &mut Run,
        faults: &mut Vec<Fault>,
    ) {
        let missing = rules.required.iter().filter(|name| !fields.contains_key(*name));
        for name in missing {
            let expected = rules
                .properties
                .get(name)
                .map(|schema| self.expected(*schema))
                .filter(|words| words != "something else");
            let expected = expected.map(|words| format!("; it must be {words}")).unwrap_or_default();
            add(faults, at, format!("{} is missing{expected}", Path::Field(at, name).words_or("")));
        }
        for (name, others) in &rules.required_with {
            let missing = others.iter().filter(|other| fields.contains_key(name) && !fields.contains_key(*other));
            for other in missing {
                let (other, with) = (Path::Field(at, other).words_or(""), Path::Field(at, name).words_or(""));
                add(faults, at, format!("{other} is missing; {with} needs it"));
            }
        }
        check_count(rules.count, fields.len(), "fields", at, faults);
        for (name, value) in fields {
            if faults.len() >= FAULTS_MAX || run.is_over {
                return;
            }
            self.apply_field(rules, (name, value), at, run, faults);
        }
    }

    fn apply_field(
        &self,
        rules: &ObjectRules,
        (name, value): (&String, &Value),
        at: &Path<'_>,
        run: &mut Run,
        faults: &mut Vec<Fault>,
    ) {
        let here = Path::Field(at, name);
        if let Some(names) = rules.names
            && !self.matches(names, &Value::from(name.as_str()), at, run)
        {
            add(faults, &here, format!("{} is not an allowed name", here.words_or("")));
        }
        let own = rules.properties.get(name).copied();
        let by_pattern = rules.patterns.iter().filter(|(pattern, _)| pattern.is_match(name)).map(|(_, schema)| *schema);
        let mut schemas: Vec<Index> = own.into_iter().chain(by_pattern).collect();
        if schemas.is_empty() {
            match rules.others.map(|others| (others, self.node(others))) {
                Some((_, Node::Nothing)) => {
                    let known = fault::known(name, rules.properties.keys());
                    return add(faults, &here, format!("{} is not a known argument; {known}", here.words_or("")));
                }
                Some((others, Node::Anything | Node::Rules(_))) => schemas.push(others),
                None => {}
            }
        }
        for schema in schemas {
            self.apply(schema, value, &here, run, faults);
        }
    }
}

fn add(faults: &mut Vec<Fault>, at: &Path<'_>, sentence: String) {
    if faults.len() < FAULTS_MAX {
        faults.push(Fault { depth: at.depth(), mismatch: None, sentence });
    }
}

/// Whether the value has none of the types, or is none of the values, that the rules allow.
fn mismatch(rules: &Rules, value: &Value) -> Option<Mismatch> {
    if rules.types.as_ref().is_some_and(|types| !types.iter().any(|kind| kind.matches(value))) {
        return Some(Mismatch::Type);
    }
    let is_allowed = rules.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|one| same(one, value)));
    (!is_allowed).then_some(Mismatch::Value)
}

fn check_number(rules: &NumberRules, number: &Number, at: &Path<'_>, faults: &mut Vec<Fault>) {
    let fails = |bound: &Option<Number>, allowed: &[Ordering]| {
        let fails = |bound: &&Number| compare(number, bound).is_some_and(|ordering| !allowed.contains(&ordering));
        bound.as_ref().filter(fails).cloned()
    };
    let bounds = [
        (fails(&rules.minimum, &[Ordering::Greater, Ordering::Equal]), "at least"),
        (fails(&rules.exclusive_minimum, &[Ordering::Greater]), "greater than"),
        (fails(&rules.maximum, &[Ordering::Less, Ordering::Equal]), "at most"),
        (fails(&rules.exclusive_maximum, &[Ordering::Less]), "less than"),
        (rules.multiple_of.clone().filter(|step| !is_multiple(number, step)), "a multiple of"),
    ];
    for (bound, words) in bounds {
        if let Some(bound) = bound {
            let shown = fault::shown(&Value::Number(number.clone()));
            add(faults, at, format!("{} must be {words} {bound}, not {shown}", at.words_or("the value")));
        }
    }
}

fn check_text(rules: &TextRules, text: &str, at: &Path<'_>, faults: &mut Vec<Fault>) {
    if rules.characters.min.is_some() || rules.characters.max.is_some() {
        check_count(rules.characters, text.chars().count(), "characters", at, faults);
    }
    if let Some(pattern) = rules.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        let shown = fault::shown(&Value::from(text));
        add(faults, at, format!("{} must match the pattern {pattern}, and {shown} does not", at.words_or("the value")));
    }
}

fn check_count(range: Range, count: usize, of: &str, at: &Path<'_>, faults: &mut Vec<Fault>) {
    let number = u64::try_from(count).unwrap_or(u64::MAX);
    let too_few = range.min.filter(|min| number < *min).map(|min| ("at least", min));
    let too_many = range.max.filter(|max| number > *max).map(|max| ("at most", max));
    for (words, bound) in too_few.into_iter().chain(too_many) {
        add(faults, at, format!("{} must have {words} {bound} {of}, not {count}", at.words_or("the value")));
    }
}

fn has_the_same_twice(items: &[Value]) -> bool {
    let mut seen = HashSet::new();
    items.iter().any(|item| {
        let mut text = String::new();
        canonical(item, &mut text);
        !seen.insert(text)
    })
}
