//! Many settings, each declared in a few lines, and the list of them.

/// Declares settings: a `static` [`Setting`](crate::settings::Setting) for each, and the list of all of them.
///
/// A setting has the name that its flag and its variable have: `DATA_DIR` makes `--data-dir` and, with the beginning of
/// all variables, `SHOP_DATA_DIR`. Its kind follows, then by the names of the methods of
/// [`Setting`](crate::settings::Setting) who reads it, and its sentence.
///
/// ```
/// use longhaul_core::settings::Preset::{Unset, Value};
/// use longhaul_core::settings::{Declared, Path, Switch, declare};
///
/// declare! {
///     ALL of "SHOP_";
///
///     DATA_DIR: Path = Path("DIR"), local Unset("none") => "Folder of the shop's goods.";
///     DRAFTS: Switch = Switch, local Value("false"), lambda Value("false"), parameter "Drafts" =>
///         "Also list drafts.";
/// }
///
/// let names = ALL.map(|setting| (setting.name(), setting.variable()));
/// assert_eq!(names, [("data-dir", "SHOP_DATA_DIR"), ("drafts", "SHOP_DRAFTS")]);
/// ```
#[macro_export]
macro_rules! declare {
    ($all:ident of $prefix:literal;
     $($name:ident: $kind:ty = $value:expr $(, $method:ident $argument:expr)* => $about:literal;)+) => {
        $(
            #[doc = $about]
            pub static $name: $crate::settings::Setting<$kind> = {
                const NAME: &str = stringify!($name);
                const FLAG: [u8; NAME.len()] = $crate::settings::flag(NAME);
                const VARIABLE: &str = concat!($prefix, stringify!($name));
                $crate::settings::Setting::new($crate::settings::text(&FLAG), VARIABLE, $value, $about)
                    $(.$method($argument))*
            };
        )+

        /// All of them, in the order of the documentation.
        pub static $all: [&dyn $crate::settings::Declared; [$(stringify!($name)),+].len()] = [$(&$name),+];
    };
}

/// The bytes of the flag of a setting with this name: `DATA_DIR` is `data-dir`.
#[doc(hidden)]
#[must_use]
pub const fn flag<const LENGTH: usize>(name: &str) -> [u8; LENGTH] {
    let mut flag = [b'-'; LENGTH];
    let (mut rest, mut free): (_, &mut [u8]) = (name.as_bytes(), &mut flag);
    while let ([letter, letters @ ..], [place, places @ ..]) = (rest, free) {
        if *letter != b'_' {
            *place = letter.to_ascii_lowercase();
        }
        (rest, free) = (letters, places);
    }
    flag
}

/// `bytes` as text: empty if they are none, which identifiers of ASCII always are.
#[doc(hidden)]
#[must_use]
pub const fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => "",
    }
}
