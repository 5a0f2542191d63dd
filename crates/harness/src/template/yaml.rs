//! The template as JSON: short forms such as `!Ref X` become their long form, so that there is only one to read.

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Value, json};

use crate::file;

/// `template.yaml`.
pub fn template() -> Value {
    template_at("template.yaml")
}

/// The template with this path.
pub fn template_at(path: &str) -> Value {
    let text = file(path);
    let [document]: [Yaml<'_>; 1] = Yaml::load_from_str(&text).unwrap().try_into().unwrap();
    json_of(&document)
}

fn json_of(yaml: &Yaml<'_>) -> Value {
    match yaml {
        Yaml::Value(scalar) => match scalar {
            Scalar::Null => Value::Null,
            Scalar::Boolean(value) => json!(value),
            Scalar::Integer(value) => json!(value),
            Scalar::FloatingPoint(value) => json!(value.into_inner()),
            Scalar::String(value) => json!(value),
        },
        Yaml::Sequence(items) => items.iter().map(json_of).collect(),
        Yaml::Mapping(fields) => {
            let named = |(name, field): (&Yaml<'_>, &Yaml<'_>)| (name.as_str().unwrap().to_owned(), json_of(field));
            fields.iter().map(named).collect()
        }
        Yaml::Tagged(tag, inner) => {
            let function = match tag.suffix.as_str() {
                name @ ("Ref" | "Condition") => name.to_owned(),
                name => format!("Fn::{name}"),
            };
            json!({ function: json_of(inner) })
        }
        Yaml::Representation(..) | Yaml::Alias(_) | Yaml::BadValue => panic!("{yaml:?} in the template"),
    }
}
