//! A call that runs a program, in a server of macros and in one written by hand: killed, stopped and cancelled in the
//! middle.

use longhaul::rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest, ContentBlock, JsonObject,
    ListToolsResult, PaginatedRequestParams, Tool,
};
use longhaul::rmcp::service::{ClientLifecycleMode, PeerRequestOptions, RequestContext};
use longhaul::rmcp::{ErrorData, RoleServer, ServerHandler};
use longhaul::{Server, TaskContext, TaskPolicy};
use serde_json::json;

use crate::machine::{Machine, Window};
use crate::tools::Tools;
use crate::{PATIENCE, run, runs};

/// How a call is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Kill,
    Stop,
    Cancel,
}

/// The same tool without macros.
#[derive(Clone)]
struct ByHand(Tools);

impl ServerHandler for ByHand {
    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema: JsonObject = json!({"type": "object"}).as_object().unwrap().clone();
        Ok(ListToolsResult::with_all_items(vec![Tool::new("convert", "Converts.", schema)]))
    }

    async fn call_tool(
        &self,
        _request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let task = TaskContext::of(&context);
        Ok(CallToolResult::success(vec![ContentBlock::text(self.0.converted(&task).await)]).into())
    }
}

pub(crate) fn server_by_hand() -> Server {
    let by_hand = ByHand(Tools::from_env());
    Server::new(move || by_hand.clone()).task("convert", TaskPolicy::optional())
}

async fn window(machine: &Machine, program: &str) -> Window {
    machine.window(program, &[], ClientLifecycleMode::Initialize).await
}

/// The call continues with its program in the next process, unless it was cancelled. No process of it is left.
pub(crate) fn a_call_that_runs_a_program_is_interrupted(program: &'static str, how: How) {
    run(async move {
        let machine = Machine::new();
        let mut first = window(&machine, program).await;
        let call = ClientRequest::CallToolRequest(CallToolRequest::new(CallToolRequestParams::new("convert")));
        let call = first.client.peer().send_cancellable_request(call, PeerRequestOptions::no_options()).await.unwrap();
        machine.until_noted("pid").await;
        let pid = machine.noted().iter().find_map(|noted| Some(noted.strip_prefix("pid ")?.to_owned())).unwrap();
        match how {
            How::Kill => first.server.kill().await.unwrap(),
            How::Stop => {
                let server = first.server.id().unwrap().to_string();
                assert!(std::process::Command::new("kill").arg(server).status().unwrap().success());
                assert_eq!(first.server.wait().await.unwrap().code(), Some(0));
            }
            How::Cancel => call.cancel(None).await.unwrap(),
        }
        let ended = async {
            while runs(&pid) {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.unwrap();
        let count = |what: &str| machine.noted().iter().filter(|noted| noted.starts_with(what)).count();
        if how == How::Cancel {
            assert_eq!(first.close().await, Some(0));
            assert_eq!(window(&machine, program).await.close().await, Some(0));
            assert_eq!((count("pid"), count("converted")), (1, 0), "{:?}", machine.noted());
            return;
        }
        let second = window(&machine, program).await;
        machine.until_noted("converted").await;
        assert_eq!((count("pid"), count("converted")), (2, 1), "{:?}", machine.noted());
        assert_eq!(second.close().await, Some(0));
    });
}
