//! Resolves the template for given parameters: conditions, references and substitutions.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The template with these parameters; those that are not named have their defaults.
pub struct Stack<'a> {
    template: &'a Value,
    parameters: BTreeMap<&'a str, &'a str>,
}

impl<'a> Stack<'a> {
    /// The template with these parameters, each of which it has.
    pub fn new(template: &'a Value, parameters: &[(&'a str, &'a str)]) -> Self {
        for (name, _) in parameters {
            assert!(template["Parameters"][name].is_object(), "no parameter {name}");
        }
        Self { template, parameters: parameters.iter().copied().collect() }
    }

    /// The resource's properties; `None` if its condition is false.
    pub fn resource(&self, name: &str) -> Option<Value> {
        let resource = &self.template["Resources"][name];
        assert!(resource.is_object(), "no resource {name}");
        if resource["Condition"].as_str().is_some_and(|condition| !self.holds(condition)) {
            return None;
        }
        self.resolve(&resource["Properties"])
    }

    /// The faults that the template's rules find in these parameters.
    pub fn refusals(&self) -> Vec<String> {
        let rules = self.template["Rules"].as_object().unwrap().values();
        let applying = rules.filter(|rule| self.is_true(&rule["RuleCondition"]));
        let assertions = applying.flat_map(|rule| rule["Assertions"].as_array().unwrap());
        let broken = assertions.filter(|assertion| !self.is_true(&assertion["Assert"]));
        broken.map(|assertion| text(&assertion["AssertDescription"])).collect()
    }

    /// The environment of a function.
    pub fn environment(&self, function: &str) -> BTreeMap<String, String> {
        let of = |properties: &Value| properties["Environment"]["Variables"].as_object().unwrap().clone();
        let all = self.resolve(&self.template["Globals"]["Function"]).unwrap();
        let mut variables = of(&all);
        variables.extend(of(&self.resource(function).unwrap()));
        variables.into_iter().map(|(name, value)| (name, text(&value))).collect()
    }

    fn parameter(&self, name: &str) -> Option<Value> {
        let declared = self.template["Parameters"].get(name)?;
        Some(self.parameters.get(name).map_or_else(|| declared["Default"].clone(), |value| json!(value)))
    }

    fn holds(&self, condition: &str) -> bool {
        self.is_true(&self.template["Conditions"][condition])
    }

    fn is_true(&self, condition: &Value) -> bool {
        let (function, argument) = sole(condition).unwrap_or_else(|| panic!("{condition} is not a condition"));
        match function {
            "Condition" => self.holds(argument.as_str().unwrap()),
            "Fn::Not" => !self.is_true(&argument[0]),
            "Fn::Or" => argument.as_array().unwrap().iter().any(|each| self.is_true(each)),
            "Fn::And" => argument.as_array().unwrap().iter().all(|each| self.is_true(each)),
            "Fn::Equals" => {
                let side = |index: usize| self.resolve(&argument[index]).map(|value| text(&value));
                side(0) == side(1)
            }
            other => panic!("{other} in a condition"),
        }
    }

    /// `None` stands for `AWS::NoValue`.
    fn resolve(&self, value: &Value) -> Option<Value> {
        match (value, sole(value)) {
            (_, Some(("Ref", name))) => self.reference(name.as_str().unwrap()),
            (_, Some(("Fn::If", branches))) => {
                let chosen = if self.holds(branches[0].as_str().unwrap()) { &branches[1] } else { &branches[2] };
                self.resolve(chosen)
            }
            (_, Some(("Fn::FindInMap", path))) => {
                let step = |index: usize| self.resolve(&path[index]).map(|name| text(&name));
                let found = &self.template["Mappings"][step(0)?][step(1)?][step(2)?];
                assert!(!found.is_null(), "{path} is not in the mappings");
                Some(found.clone())
            }
            (_, Some(("Fn::Select", of))) => self.selected(of),
            (_, Some(("Fn::Sub", pattern))) if self.names_parameters_only(pattern) => Some(self.substituted(pattern)),
            (Value::Object(fields), _) => {
                let resolved = fields.iter().filter_map(|(name, field)| Some((name.clone(), self.resolve(field)?)));
                Some(Value::Object(resolved.collect::<Map<_, _>>()))
            }
            (Value::Array(items), _) => Some(items.iter().filter_map(|item| self.resolve(item)).collect()),
            (plain, _) => Some(plain.clone()),
        }
    }

    /// One item of a text that is taken apart.
    fn selected(&self, of: &Value) -> Option<Value> {
        let split = &of[1]["Fn::Split"];
        let whole = text(&self.resolve(&split[1])?);
        let index = usize::try_from(of[0].as_u64()?).ok()?;
        whole.split(split[0].as_str()?).nth(index).map(|item| json!(item))
    }

    /// Whether `pattern` names parameters and queues only. Anything else stays as it is written.
    fn names_parameters_only(&self, pattern: &Value) -> bool {
        let is_queue = |name: &str| self.template["Resources"][name]["Type"] == "AWS::SQS::Queue";
        let is_known = |name: &str| self.parameter(name).is_some() || is_queue(name);
        let named = |pattern: &str| pattern.split("${").skip(1).all(|rest| is_known(name_of(rest)));
        pattern.as_str().is_some_and(named)
    }

    fn substituted(&self, pattern: &Value) -> Value {
        let mut parts = pattern.as_str().unwrap().split("${");
        let mut whole = parts.next().unwrap().to_owned();
        for part in parts {
            whole.push_str(&text(&self.reference(name_of(part)).unwrap()));
            whole.push_str(part.split_once('}').unwrap().1);
        }
        json!(whole)
    }

    fn reference(&self, name: &str) -> Option<Value> {
        if name == "AWS::NoValue" {
            return None;
        }
        let resource = || match self.template["Resources"][name]["Type"].as_str() {
            Some("AWS::SQS::Queue") => json!(format!("https://sqs.us-east-1.amazonaws.com/111122223333/{name}")),
            _ => json!(name),
        };
        Some(self.parameter(name).unwrap_or_else(resource))
    }
}

/// The only field of an object.
fn sole(value: &Value) -> Option<(&str, &Value)> {
    let mut fields = value.as_object()?.iter();
    let (name, field) = fields.next()?;
    fields.next().is_none().then_some((name, field))
}

/// The name at the beginning of the text after `${`.
fn name_of(rest: &str) -> &str {
    rest.split_once('}').unwrap().0
}

/// The value as an environment variable has it.
pub fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
