//! Requests as the author's handler gets them. The type follows from the method, so parameters that cannot be read are
//! never mistaken for an unknown method.

#![expect(deprecated, reason = "methods of older revisions are requests too")]

use longhaul_core::strict_json;
use rmcp::ErrorData;
use rmcp::model::{
    ClientNotification, ClientRequest, CompleteRequest, CompleteRequestParams, CustomRequest, DiscoverRequest,
    DiscoverRequestParams, GetPromptRequest, GetPromptRequestParams, GetSkillRequest, GetSkillRequestParams,
    InitializeRequest, InitializeRequestParams, PaginatedRequestParams, PingRequest, ReadResourceDirectoryRequest,
    ReadResourceDirectoryRequestParams, ReadResourceRequest, ReadResourceRequestParams, RequestOptionalParam,
    SetLevelRequest, SetLevelRequestParams, SubscribeRequest, SubscribeRequestParams, SubscriptionsListenRequest,
    SubscriptionsListenRequestParams, UnsubscribeRequest, UnsubscribeRequestParams,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::request::params::Members;

/// The request with these parameters. Fails with `-32602` if they are not those of the method.
pub(crate) fn request(method: &str, params: &Members<'_>) -> Result<ClientRequest, ErrorData> {
    macro_rules! read {
        ($request:ident($type:ty)) => {
            $request::new(params.read_as::<$type>(method)?).into()
        };
    }
    Ok(match method {
        "ping" => PingRequest::default().into(),
        "initialize" => read!(InitializeRequest(InitializeRequestParams)),
        "server/discover" => read!(DiscoverRequest(DiscoverRequestParams)),
        "tools/list" => ClientRequest::ListToolsRequest(page(method, params)?),
        "prompts/get" => read!(GetPromptRequest(GetPromptRequestParams)),
        "prompts/list" => ClientRequest::ListPromptsRequest(page(method, params)?),
        "resources/read" => read!(ReadResourceRequest(ReadResourceRequestParams)),
        "resources/list" => ClientRequest::ListResourcesRequest(page(method, params)?),
        "resources/templates/list" => ClientRequest::ListResourceTemplatesRequest(page(method, params)?),
        "resources/directory/read" => read!(ReadResourceDirectoryRequest(ReadResourceDirectoryRequestParams)),
        "resources/subscribe" => read!(SubscribeRequest(SubscribeRequestParams)),
        "resources/unsubscribe" => read!(UnsubscribeRequest(UnsubscribeRequestParams)),
        "subscriptions/listen" => read!(SubscriptionsListenRequest(SubscriptionsListenRequestParams)),
        "skills/list" => ClientRequest::ListSkillsRequest(page(method, params)?),
        "skills/get" => read!(GetSkillRequest(GetSkillRequestParams)),
        "completion/complete" => read!(CompleteRequest(CompleteRequestParams)),
        "logging/setLevel" => read!(SetLevelRequest(SetLevelRequestParams)),
        custom => CustomRequest::new(custom, Some(params.read_as::<Value>(custom)?)).into(),
    })
}

/// The notification with these parameters; `None` if they are not those of the method.
pub(crate) fn notification(method: &str, params: Option<&RawValue>) -> Option<ClientNotification> {
    let params = params.map_or(Ok(Value::Null), |params| strict_json::from_str(params.get())).ok()?;
    let message =
        if params.is_null() { json!({"method": method}) } else { json!({"method": method, "params": params}) };
    strict_json::from_value(message).ok()
}

fn page<M: Default>(
    method: &str,
    params: &Members<'_>,
) -> Result<RequestOptionalParam<M, PaginatedRequestParams>, ErrorData> {
    Ok(RequestOptionalParam::with_param(params.read_as(method)?))
}
