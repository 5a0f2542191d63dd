//! Pages: their common frame, and their parts, some of which are updated while the page is open.

use http::StatusCode;
use longhaul_client::ALL_OWNERS;
use longhaul_client::text::{count, line};
use maud::{DOCTYPE, Markup, html};

use crate::ask::{PageRequest, link};
use crate::guard::LOG_OUT;
use crate::limits::AGAIN_S;
use crate::problem::Problem;

/// The pages that each page leads to, in the path and in words.
const NAV: &[(&str, &str)] = &[("", "Tasks"), ("questions", "Questions"), ("tools", "Tools"), ("health", "Health")];

/// The outcome of a form.
pub(crate) enum Done {
    /// The browser is sent there.
    To(String),
    /// A page instead, such as the form with its faults.
    Page(Box<Page>),
}

pub(crate) struct Page {
    title: String,
    status: StatusCode,
    is_tried_again: bool,
    is_settled: bool,
    is_for_strangers: bool,
    /// How many tasks wait for an answer of this caller, if that is known.
    asking: Option<usize>,
    parts: Vec<Part>,
}

/// A part of a page.
struct Part {
    id: &'static str,
    html: Markup,
    /// Whether an open page replaces it with its new state.
    is_live: bool,
}

impl Page {
    pub(crate) fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            status: StatusCode::OK,
            is_tried_again: false,
            is_settled: false,
            is_for_strangers: false,
            asking: None,
            parts: Vec::new(),
        }
    }

    /// The page that says why the requested one is not shown. A page that only shows something tries again on its own.
    pub(crate) fn of(problem: &Problem) -> Self {
        let html = html! {
            section class="card problem" role="alert" {
                h1 { (problem.title) }
                p { (problem.sentence()) }
                @if problem.may_pass { p class="dim" { "Nothing is lost: tasks are kept by the server." } }
            }
        };
        let page = Self::new(problem.title).status(problem.status).still("problem", html);
        if problem.may_pass { page.again() } else { page }
    }

    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Adds a part that an open page replaces with its new state. It must not have fields that people write in.
    pub(crate) fn live(mut self, id: &'static str, html: Markup) -> Self {
        self.parts.push(Part { id, html, is_live: true });
        self
    }

    /// Shows how many tasks wait for an answer of this caller, on the way to their questions.
    pub(crate) fn badge(mut self, asking: usize) -> Self {
        self.asking = Some(asking);
        self
    }

    /// Whether the number of those tasks is unknown.
    pub(crate) fn lacks_badge(&self) -> bool {
        self.asking.is_none() && !self.is_for_strangers && !self.is_tried_again
    }

    /// Adds a part that stays as it is.
    pub(crate) fn still(mut self, id: &'static str, html: Markup) -> Self {
        self.parts.push(Part { id, html, is_live: false });
        self
    }

    /// The browser loads the page again after some seconds.
    pub(crate) fn again(mut self) -> Self {
        self.is_tried_again = true;
        self
    }

    /// The browser does not load the page again on its own, because the request was an action.
    pub(crate) fn once(mut self) -> Self {
        self.is_tried_again = false;
        self
    }

    /// No part of it will change any more.
    pub(crate) fn settled(mut self) -> Self {
        self.is_settled = true;
        self
    }

    /// It is for users who have not logged in.
    pub(crate) fn for_strangers(mut self) -> Self {
        self.is_for_strangers = true;
        self
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled
    }

    pub(crate) fn code(&self) -> StatusCode {
        self.status
    }

    /// The parts that are replaced in an open page.
    pub(crate) fn live_parts(self) -> impl Iterator<Item = (&'static str, String)> {
        let badge = self.asking.map(|asking| (BADGE, badge(Some(asking)).into_string()));
        let live = self.parts.into_iter().filter(|part| part.is_live).map(|part| (part.id, part.html.into_string()));
        live.chain(badge)
    }

    /// The whole document.
    pub(crate) fn document(&self, ask: &PageRequest) -> String {
        let has_live = self.parts.iter().any(|part| part.is_live);
        let here = ask.link_with(&[]);
        let live = has_live.then(|| link("live", &[("page", &here)]));
        let document = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    @if self.is_tried_again { meta http-equiv="refresh" content=(AGAIN_S); }
                    title { (tab(&self.title)) }
                    link rel="icon" href={ (crate::PATH) "/icon.svg" } type="image/svg+xml";
                    link rel="stylesheet" href={ (crate::PATH) "/console.css" };
                    script src={ (crate::PATH) "/console.js" } defer {}
                }
                body data-live=[live] {
                    a class="skip" href="#main" { "Skip to the content" }
                    (self.header(ask))
                    main id="main" {
                        @if let Some(did) = notice(ask) { p class="notice" role="status" { (did) } }
                        @for part in &self.parts {
                            div id=(part.id) data-live[part.is_live] { (part.html) }
                        }
                        @if self.is_tried_again {
                            p class="dim" { "Trying again every " (AGAIN_S) " seconds. " a href=(here) { "Try now" } }
                        }
                    }
                    footer { (footer(ask)) }
                }
            }
        };
        document.into_string()
    }

    fn header(&self, ask: &PageRequest) -> Markup {
        html! {
            header {
                a class="brand" href=(link("", &[])) { "Longhaul" }
                nav aria-label="Pages" {
                    @for (name, label) in NAV {
                        @let is_here = ask.name() == *name;
                        a href=(to(ask, name)) aria-current=[is_here.then_some("page")] {
                            (label)
                            @if *name == "questions" { span id=(BADGE) { (badge(self.asking)) } }
                        }
                    }
                }
                p class="server" title="The server whose tasks these are" { (line(ask.source().url(), 200)) }
                p id="state" role="status" aria-live="polite" {}
                @if !self.is_for_strangers && ask.has_log_in() {
                    form method="post" action=(link(LOG_OUT, &[])) class="inline" {
                        (ask.token_field())
                        button class="quiet" { "Log out" }
                    }
                }
            }
        }
    }
}

/// The id of the number of open questions.
const BADGE: &str = "badge";

fn badge(asking: Option<usize>) -> Markup {
    html! {
        @if let Some(asking @ 1..) = asking {
            " " span class="badge" { (asking) span class="unseen" { " open" } }
        }
    }
}

/// The URL of a page: it keeps all owners, if an operator chose them and the page has them.
fn to(ask: &PageRequest, name: &str) -> String {
    let owner = ask.owner().filter(|_| matches!(name, "" | "health"));
    link(name, &owner.map(|_| ("owner", ALL_OWNERS)).into_iter().collect::<Vec<_>>())
}

/// The title of a browser's tab.
pub(crate) fn tab(title: &str) -> String {
    format!("{title} · Longhaul")
}

fn footer(ask: &PageRequest) -> Markup {
    html! {
        p {
            span id="zone" { "Times are UTC." } " "
            @if ask.is_read_only() { "This console only shows: it was started read-only." }
        }
    }
}

/// The action after which the browser was sent here: the code in the URL, and its text.
const NOTICES: &[(&str, &str, &str)] = &[
    ("none", "No task was selected, so nothing was done.", ""),
    ("resumed", "This new task continues the failed one.", ""),
    ("cancelled", "1 task was asked to stop.", "tasks were asked to stop."),
    ("again", "1 call was made again.", "calls were made again."),
    ("answered", "The answer was given.", "answers were given."),
    ("declined", "The question was declined.", "questions were declined."),
    ("dismissed", "The question was dismissed.", "questions were dismissed."),
    ("called", "The tool was called.", "calls were made."),
    ("used", "This link was used before. You are logged in already.", ""),
];

fn notice(ask: &PageRequest) -> Option<String> {
    let did = ask.value("did")?;
    let (_, one, several) = NOTICES.iter().find(|(code, ..)| *code == did)?;
    let number: usize = ask.value("n").and_then(|number| number.parse().ok()).unwrap_or(1);
    Some(if number == 1 { (*one).to_owned() } else { count(number, one, several) })
}
