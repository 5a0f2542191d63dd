//! `docs/public-api.txt` lists what users of the crate `longhaul` can name.

use std::path::Path;

use longhaul_published::public_api::lines;

const PAGE: &str = "docs/public-api.txt";

#[test]
fn the_public_api_is_the_listed_one() {
    let real = lines(Path::new(env!("CARGO_TARGET_TMPDIR"))).join("\n") + "\n";
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(page, real).unwrap();
    } else {
        let text = std::fs::read_to_string(page).unwrap();
        assert_eq!(text, real, "{PAGE} is out of date: run with UPDATE_GOLDEN=1 and read the difference");
    }
}
