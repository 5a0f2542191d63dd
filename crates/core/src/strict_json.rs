//! JSON from outside. `serde` alone also reads a structure from a list, by the positions of its fields. Then `[1]` is a
//! message, and its first element is believed. Here a structure is read from an object, at every depth. All else is as
//! in [`serde_json`].
//!
//! Exceptions are the variants of an `untagged` or `tag`ged enum, and the fields of a `flatten`ed one. `serde` reads
//! those from a copy of its own.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde_json::{Number, Value};

/// Reads a JSON text.
pub fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = T::deserialize(Strict(&mut deserializer))?;
    deserializer.end()?;
    Ok(read)
}

/// Reads a JSON text.
pub fn from_slice<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let read = T::deserialize(Strict(&mut deserializer))?;
    deserializer.end()?;
    Ok(read)
}

/// Takes a `T` out of a value.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    // `serde` cannot copy such a number for an `untagged` or `tag`ged enum out of a value, and can out of a text.
    if has_long_integer(&value) {
        return from_str(&value.to_string());
    }
    T::deserialize(Strict(value))
}

/// Whether there is an integer of more than 64 bits in a value. It has them if `serde_json` keeps all digits.
fn has_long_integer(value: &Value) -> bool {
    match value {
        Value::Number(number) => !number.is_i64() && !number.is_u64() && !number.is_f64(),
        Value::Array(items) => items.iter().any(has_long_integer),
        Value::Object(members) => members.values().any(has_long_integer),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// Reads a number that may be missing, for a field of an `untagged`, `tag`ged or `flatten`ed type. `serde` alone reads
/// no fraction there if `serde_json` keeps all digits of numbers. One crate of a program decides that for all.
///
/// # Errors
/// If it is not a number.
pub fn optional_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let number = Option::<Number>::deserialize(deserializer)?;
    number.map(|number| number.as_f64().ok_or_else(|| D::Error::custom("the number is too large"))).transpose()
}

/// A reader, with all that it reads inside.
struct Strict<T>(T);

/// The reader of a structure: it is given the members of an object, or refuses.
struct Members<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Members<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Strict(members))
    }
}

macro_rules! forward {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(Strict(visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    forward! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
        deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_option
        deserialize_unit deserialize_seq deserialize_map deserialize_identifier
    }

    /// Any JSON is asked for: there is no structure in it.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_ignored_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, Members(visitor))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, Strict(visitor))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_newtype_struct(name, Strict(visitor))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(length, Strict(visitor))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple_struct(name, length, Strict(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, Strict(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! forward_visits {
    ($($method:ident: $kind:ty,)*) => {
        $(fn $method<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.0.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Strict<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    forward_visits! {
        visit_bool: bool,
        visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64, visit_i128: i128,
        visit_u8: u8, visit_u16: u16, visit_u32: u32, visit_u64: u64, visit_u128: u128,
        visit_f32: f32, visit_f64: f64,
        visit_char: char, visit_str: &str, visit_borrowed_str: &'de str, visit_string: String,
        visit_bytes: &[u8], visit_borrowed_bytes: &'de [u8], visit_byte_buf: Vec<u8>,
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, some: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Strict(some))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Strict(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Strict(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Strict(members))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Strict(variant))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict(deserializer))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(Strict(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Strict<A> {
    type Error = A::Error;
    type Variant = Strict<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, variant) = self.0.variant_seed(Strict(seed))?;
        Ok((value, Strict(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Strict(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(length, Strict(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Members(visitor))
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        #[serde(default)]
        number: u8,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Wrapped(Inner);

    #[derive(Deserialize)]
    struct Lent<'a>(#[serde(borrow)] Cow<'a, str>);

    #[derive(Debug, PartialEq, Deserialize)]
    enum Choice {
        Unit,
        Newtype(Inner),
        Tuple(u8, Inner),
        Struct { inner: Inner },
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Outer {
        text: Option<String>,
        inner: Option<Inner>,
        wrapped: Option<Wrapped>,
        boxed: Option<Box<Inner>>,
        list: Vec<Inner>,
        pair: Option<(u8, Inner)>,
        map: BTreeMap<String, Inner>,
        choices: Vec<Choice>,
        any: Option<Value>,
    }

    /// What `serde_json` alone reads, and what is read here, of a text and of the same value.
    fn agree(text: &str) -> bool {
        let alone = serde_json::from_str::<Outer>(text).expect("it can be read by position");
        let here = from_str::<Outer>(text).ok();
        assert_eq!(from_slice::<Outer>(text.as_bytes()).ok(), here);
        let of_value = from_value::<Outer>(serde_json::from_str(text).expect("it is JSON"));
        assert_eq!(of_value.ok(), here);
        here.is_some_and(|here| here == alone)
    }

    #[test]
    fn objects_are_read_as_ever() {
        let all = json!({
            "text": "a\"b", "inner": {"number": 1}, "wrapped": {"number": 2}, "boxed": {}, "more": [1, {"a": []}],
            "list": [{}, {"number": 3}], "pair": [4, {"number": 5}], "map": {"a": {"number": 6}},
            "choices": ["Unit", {"Newtype": {}}, {"Tuple": [7, {}]}, {"Struct": {"inner": {"number": 8}}}],
            "any": [[1], {"a": null}],
        });
        assert!(agree(&all.to_string()));
        assert!(agree("{}"));
        assert_eq!(from_str::<(u8, String)>(r#"[1, "a"]"#).expect("a pair is a list"), (1, "a".to_owned()));
        assert!(matches!(from_str::<Lent<'_>>(r#""lent""#), Ok(Lent(Cow::Borrowed("lent")))));
    }

    #[test]
    fn a_list_stands_for_no_structure_at_any_depth() {
        for text in [
            r#"["a"]"#,
            "[]",
            r#"{"inner": [1]}"#,
            r#"{"inner": []}"#,
            r#"{"wrapped": [1]}"#,
            r#"{"boxed": [1]}"#,
            r#"{"list": [{}, [1]]}"#,
            r#"{"pair": [1, [1]]}"#,
            r#"{"map": {"a": [1]}}"#,
            r#"{"choices": [{"Newtype": [1]}]}"#,
            r#"{"choices": [{"Tuple": [1, [1]]}]}"#,
            r#"{"choices": [{"Struct": [{}]}]}"#,
            r#"{"choices": [{"Struct": {"inner": [1]}}]}"#,
        ] {
            assert!(!agree(text), "{text}");
        }
        let error = from_str::<Outer>("[]").expect_err("it is a list").to_string();
        assert!(error.starts_with("invalid type: sequence, expected struct Outer"), "{error}");
    }

    #[test]
    fn what_follows_a_text_is_an_error() {
        assert!(from_str::<Inner>("{} {}").is_err() && from_slice::<Inner>(b"{}x").is_err());
        assert!(from_slice::<Inner>(b" {} \n").is_ok());
    }
}
