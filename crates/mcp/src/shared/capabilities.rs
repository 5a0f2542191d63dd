//! What a client can be asked, according to the capabilities that it declared.

use rmcp::ErrorData;
use rmcp::model::{
    ClientCapabilities, ElicitRequestParams, ElicitationCapability, FormElicitationCapability, InputRequest,
    UrlElicitationCapability,
};

/// Whether a client with these capabilities can be asked this.
///
/// # Errors
/// `-32021`, which names what the client would have to declare.
pub(crate) fn check(declared: &ClientCapabilities, request: &InputRequest) -> Result<(), ErrorData> {
    let needed = needed(request);
    if covers(declared, &needed) { Ok(()) } else { Err(ErrorData::missing_required_client_capability(needed)) }
}

fn needed(request: &InputRequest) -> ClientCapabilities {
    let mut needed = ClientCapabilities::default();
    match request {
        InputRequest::Elicitation(request) => {
            needed.elicitation = Some(match &request.params {
                ElicitRequestParams::UrlElicitationParams { .. } => {
                    ElicitationCapability::new().with_url(UrlElicitationCapability::default())
                }
                // Forms, and anything that a later version of `rmcp` may add.
                _ => ElicitationCapability::new().with_form(FormElicitationCapability::default()),
            });
        }
        InputRequest::CreateMessage(_) => needed.sampling = Some(rmcp::model::SamplingCapability::default()),
        // Roots, and anything that a later version of `rmcp` may add.
        _ => needed.roots = Some(rmcp::model::RootsCapabilities::default()),
    }
    needed
}

fn covers(declared: &ClientCapabilities, needed: &ClientCapabilities) -> bool {
    let elicitation = match (&declared.elicitation, &needed.elicitation) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(declared), Some(needed)) if needed.url.is_some() => declared.url.is_some(),
        // An empty object means forms: it dates from before there were other kinds.
        (Some(declared), Some(_)) => declared.form.is_some() || declared.url.is_none(),
    };
    let sampling = needed.sampling.is_none() || declared.sampling.is_some();
    let roots = needed.roots.is_none() || declared.roots.is_some();
    elicitation && sampling && roots
}
