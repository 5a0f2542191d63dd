//! Flags: from the table of settings to those of a command, and back.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use longhaul_core::settings::{Declared, Flags, Place, Preset, REMOVED, Shape, table};

/// The settings that have flags: those of a local server, and `own` ones of the application.
pub(super) fn declared(own: &[&'static dyn Declared]) -> impl Iterator<Item = &'static dyn Declared> {
    let all = table::ALL.into_iter().chain(own.iter().copied());
    all.filter(|setting| setting.preset(Place::Local) != Preset::Absent)
}

/// The names of the flags that there were, but for those that the application has.
fn removed_names(own: &[&'static dyn Declared]) -> impl Iterator<Item = &'static str> {
    let names = REMOVED.iter().map(|(name, _)| *name);
    names.filter(|name| own.iter().all(|setting| setting.name() != *name))
}

/// The flag of a setting. Its id is the variable, since no field of a program's own has such a name.
pub(super) fn arg(setting: &'static dyn Declared) -> Arg {
    let arg = Arg::new(setting.variable()).long(setting.name()).help(help(setting));
    match setting.shape() {
        Shape::Switch => arg.action(ArgAction::SetTrue),
        Shape::One(placeholder) => arg.value_name(placeholder).value_parser(value_parser!(OsString)),
        Shape::Several(placeholder) => {
            arg.value_name(placeholder).value_parser(value_parser!(OsString)).action(ArgAction::Append)
        }
    }
}

/// The flags that there were: they are taken with their values, to be refused together with all other faults.
pub(super) fn removed(own: &[&'static dyn Declared]) -> impl Iterator<Item = Arg> {
    removed_names(own).map(|name| {
        let arg = Arg::new(name).long(name).hide(true).num_args(0..=1);
        arg.action(ArgAction::Append).value_parser(value_parser!(OsString))
    })
}

/// The flags that were given. A flag that the command does not have was not given.
pub(super) fn given(own: &[&'static dyn Declared], matches: &mut ArgMatches) -> Flags {
    let removed = removed_names(own).filter(|name| matches!(matches.try_contains_id(name), Ok(true)));
    let removed: Vec<_> = removed.map(|name| (name, OsString::new())).collect();
    let given = declared(own).filter_map(|setting| Some((setting.name(), text(setting, matches)?)));
    given.chain(removed).collect()
}

/// The sentence about the setting, and on a separate line what is allowed, the default and the variable.
fn help(setting: &dyn Declared) -> String {
    let allowed = match setting.shape() {
        Shape::Switch => String::new(),
        Shape::One(_) | Shape::Several(_) => format!("[{}] ", setting.allowed()),
    };
    let default = match setting.preset(Place::Local) {
        Preset::Value(text) => format!("[default: {text}] "),
        Preset::Unset(meaning) => format!("[default: {meaning}] "),
        Preset::Required => "[required] ".to_owned(),
        Preset::Absent => String::new(),
    };
    format!("{}\n{allowed}{default}[env: {}]", setting.about(), setting.variable())
}

/// The value of the flag; `None` if it is not given.
fn text(setting: &dyn Declared, matches: &mut ArgMatches) -> Option<OsString> {
    let id = setting.variable();
    match setting.shape() {
        Shape::Switch => matches.try_remove_one::<bool>(id).ok()?.filter(|is_given| *is_given).map(|_| "true".into()),
        Shape::One(_) => matches.try_remove_one(id).ok()?,
        Shape::Several(_) => {
            let texts: Vec<OsString> = matches.try_remove_many(id).ok()??.collect();
            Some(texts.join(OsStr::new(",")))
        }
    }
}
