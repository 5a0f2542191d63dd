//! The resources and prompts of a server.

use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::error::Error;

impl Client {
    /// All resources of the server, as it lists them.
    pub async fn resources(&self) -> Result<Vec<Value>, Error> {
        self.all("resources/list", "resources").await
    }

    /// All templates for URIs of resources, as the server lists them.
    pub async fn resource_templates(&self) -> Result<Vec<Value>, Error> {
        self.all("resources/templates/list", "resourceTemplates").await
    }

    /// The contents of a resource, as the server sends them.
    pub async fn resource(&self, uri: &str) -> Result<Value, Error> {
        answered(self.result("resources/read", json!({"uri": uri}), Some(uri)).await?)
    }

    /// All prompts of the server, as it lists them.
    pub async fn prompts(&self) -> Result<Vec<Value>, Error> {
        self.all("prompts/list", "prompts").await
    }

    /// The messages of a prompt, as the server sends them.
    pub async fn prompt(&self, name: &str, arguments: &Map<String, Value>) -> Result<Value, Error> {
        let params = json!({"name": name, "arguments": arguments});
        answered(self.result("prompts/get", params, Some(name)).await?)
    }

    async fn all(&self, method: &'static str, member: &str) -> Result<Vec<Value>, Error> {
        Ok(self.pages(method, json!({}), member, usize::MAX, |one| Some(one.clone())).await?.0)
    }
}

/// The result, unless the server of revision `2026-07-28` asks something first.
fn answered(result: Value) -> Result<Value, Error> {
    match result["resultType"].as_str() {
        Some("input_required") => {
            Err(Error::Unsupported("the server asks for input first, which this client gives to tools only".to_owned()))
        }
        _ => Ok(result),
    }
}
