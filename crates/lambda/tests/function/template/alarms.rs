//! The alarms of the template, compared with the page that says what to do about them.

use super::template;
use crate::world::file;

/// Numbers as the page writes them.
const WORDS: [&str; 13] =
    ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];

fn alarms() -> Vec<String> {
    let resources = template()["Resources"].as_object().unwrap().clone();
    let alarms = resources.into_iter().filter(|(_, resource)| resource["Type"] == "AWS::CloudWatch::Alarm");
    alarms.map(|(name, _)| name).collect()
}

#[test]
fn the_docs_explain_every_alarm() {
    let page = file("docs/operations.md");
    for alarm in alarms() {
        assert!(page.contains(&format!("**{alarm}**")), "docs/operations.md does not explain {alarm}");
    }
}

#[test]
fn the_docs_have_the_right_number_of_alarms() {
    let page = file("docs/operations.md");
    let count = alarms().len();
    for text in
        [format!("{} alarms", WORDS[count]), format!("There are {}.", WORDS[count]), format!("({count} × 0.10)")]
    {
        assert!(page.contains(&text), "docs/operations.md does not say `{text}`");
    }
}
