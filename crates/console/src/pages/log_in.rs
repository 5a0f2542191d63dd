//! The page for users who have not logged in.

use http::StatusCode;
use maud::html;

use crate::ask::PageRequest;
use crate::guard::LOG_IN;
use crate::page::Page;

/// Why a link does not log in.
const USED: &str = "This link was used before, or is of an earlier start: a link works once. Log in with the token, or \
                    start the console again for another link.";

/// The form for signing in, with the reason if it is shown again. The link that works once leads here too, so that a
/// program that only opens links does not use it up.
pub(crate) fn log_in_page(ask: &PageRequest, refused: Option<&str>) -> Page {
    let guard = &ask.shared().guard;
    let is_unused = |once: &&str| guard.log_in.as_ref().is_some_and(|log_in| log_in.is_unused(once));
    let once = ask.value("once").filter(|_| ask.name() == LOG_IN);
    let unused = once.filter(is_unused);
    let refused = refused.or_else(|| once.filter(|_| unused.is_none()).map(|_| USED));
    let form = html! {
        h1 { "Log in" }
        @if let Some(why) = refused { p class="wrong" role="alert" { (why) } }
        form method="post" action={ (crate::PATH) "/" (LOG_IN) } class="card form" {
            (guard.field())
            @if let Some(once) = unused {
                input type="hidden" name="once" value=(once);
                p { "This link opens the console once." }
                button { "Open the console" }
            } @else {
                label for="secret" { "The token in the file that the console was started with" }
                input id="secret" name="secret" type="password" required autocomplete="off";
                button { "Log in" }
            }
        }
    };
    Page::new("Log in").status(StatusCode::UNAUTHORIZED).for_strangers().still("log-in", form)
}
