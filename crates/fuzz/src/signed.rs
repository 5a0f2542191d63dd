//! Values that the server signed and a client changed: sessions, cursors, states of rounds. Each changed value is
//! refused. An unchanged value is accepted only from its owner.
//!
//! The first byte of an input chooses the value, and the rest says how it is changed. Each three bytes are a position,
//! an operation, and a byte.

use longhaul_core::Clock;
use longhaul_testkit::{SeededIds, given};
use serde_json::Value;

use crate::dialogue::{Seen, check, request};
use crate::driver::drive;
use crate::world::{World, owner};

/// Changes of one value.
const EDITS_MAX: usize = 32;

/// One more than a page of a list.
const LISTED: usize = longhaul_core::limits::PAGE_MAX + 1;

/// A value that is signed: what makes the server sign it, and how it comes back, each with its headers and its body.
struct Signed {
    name: &'static str,
    place: Place,
    made_by: [&'static str; 2],
    sent_with: [&'static str; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Header,
    Body,
}

/// The headers of a call of `rounds`, and of the revision whose lists have cursors.
const ROUNDS: &str = "mcp-protocol-version: 2026-07-28\nmcp-method: tools/call\nmcp-name: rounds\n";
const LISTS: &str = "mcp-protocol-version: 2025-11-25\n";

const VALUES: [Signed; 4] = [
    Signed {
        name: "{session}",
        place: Place::Header,
        made_by: [
            "accept: application/json, text/event-stream\n",
            r"{'jsonrpc':'2.0','id':1,'method':'initialize','params':{'protocolVersion':'2025-06-18','capabilities':{'elicitation':{}},'clientInfo':{'name':'c','version':'1'}}}",
        ],
        sent_with: [
            "accept: application/json, text/event-stream\nmcp-protocol-version: 2025-06-18\n\
             mcp-session-id: {session}\n",
            r"{'jsonrpc':'2.0','id':1,'method':'tools/list','params':{}}",
        ],
    },
    Signed {
        name: "{state}",
        place: Place::Body,
        made_by: [
            ROUNDS,
            r"{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'rounds','arguments':{},'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28','io.modelcontextprotocol/clientInfo':{'name':'c','version':'1'},'io.modelcontextprotocol/clientCapabilities':{'elicitation':{'form':{}}}}}}",
        ],
        sent_with: [
            ROUNDS,
            r"{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'rounds','arguments':{},'requestState':'{state}','inputResponses':{'value':{'action':'accept','content':{'value':'x'}}},'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28','io.modelcontextprotocol/clientInfo':{'name':'c','version':'1'},'io.modelcontextprotocol/clientCapabilities':{'elicitation':{'form':{}}}}}}",
        ],
    },
    Signed {
        name: "{cursor}",
        place: Place::Body,
        made_by: [LISTS, r"{'jsonrpc':'2.0','id':1,'method':'tasks/list','params':{}}"],
        sent_with: [LISTS, r"{'jsonrpc':'2.0','id':1,'method':'tasks/list','params':{'cursor':'{cursor}'}}"],
    },
    Signed {
        name: "{cursor}",
        place: Place::Body,
        made_by: [
            LISTS,
            r"{'jsonrpc':'2.0','id':1,'method':'dev.longhaul/tasks/list','params':{'status':['working']}}",
        ],
        sent_with: [
            LISTS,
            r"{'jsonrpc':'2.0','id':1,'method':'dev.longhaul/tasks/list','params':{'status':['working'],'cursor':'{cursor}'}}",
        ],
    },
];

/// A request of this caller, as a block of a conversation.
fn block(caller: &str, [headers, body]: [&str; 2]) -> String {
    format!("{caller} POST /mcp\ncontent-type: application/json\n{headers}\n{}", body.replace('\'', "\""))
}

/// Changes one value, and sends it back.
pub(crate) fn run(input: &[u8]) {
    let Some((choice, edits)) = input.split_first() else { return };
    let signed = &VALUES[usize::from(*choice) % VALUES.len()];
    let world = World::new();
    let clock = std::sync::Arc::clone(&world.clock);
    drive(&clock, async {
        if signed.name == "{cursor}" {
            fill(&world).await;
        }
        let mut seen = Seen::default();
        let made = world.send(request(block("alice", signed.made_by).as_bytes()).unwrap().1).await;
        seen.note(&made, &check(&made));
        let value = seen.0.get(signed.name).unwrap_or_else(|| panic!("nothing was signed: {:?}", made.body)).clone();
        let changed = edited(&value, edits);
        let is_same = match signed.place {
            // A line end begins another header, and what is around a value does not belong to it.
            Place::Header if changed.contains(&b'\n') => return,
            Place::Header => changed.trim_ascii() == value.as_bytes(),
            Place::Body => changed == value.as_bytes(),
        };
        assert!(
            !is_accepted(&world, signed, value.as_bytes(), "bob").await,
            "another owner's {} was accepted",
            signed.name
        );
        let accepted = is_accepted(&world, signed, &changed, "alice").await;
        assert_eq!(accepted, is_same, "{} {value} as {:?}", signed.name, String::from_utf8_lossy(&changed));
    });
}

/// More tasks than one page has.
async fn fill(world: &World) {
    let ids = SeededIds::new(2);
    for _ in 0..LISTED {
        let task = given::task(&ids, owner("alice"), world.clock.now());
        world.store.create(given::new(task), world.clock.now()).await.unwrap();
    }
}

async fn is_accepted(world: &World, signed: &Signed, value: &[u8], caller: &str) -> bool {
    let block = block(caller, signed.sent_with);
    let value = match signed.place {
        Place::Header => value.to_vec(),
        Place::Body => {
            let Ok(text) = std::str::from_utf8(value) else { return false };
            let quoted = Value::from(text).to_string();
            quoted.as_bytes()[1..quoted.len() - 1].to_vec()
        }
    };
    let at = crate::dialogue::find(block.as_bytes(), signed.name.as_bytes()).unwrap();
    let mut block = block.into_bytes();
    block.splice(at..at + signed.name.len(), value);
    let Some((_, request)) = request(&block) else { return false };
    let answer = world.send(request).await;
    let messages = check(&answer);
    answer.status.is_success() && messages.iter().all(|message| message.get("error").is_none())
}

/// The value with the changes that the input names.
fn edited(value: &str, edits: &[u8]) -> Vec<u8> {
    let mut bytes = value.as_bytes().to_vec();
    for edit in edits.chunks_exact(3).take(EDITS_MAX) {
        let at = usize::from(edit[0]) * (bytes.len() + 1) / 256;
        match (edit[1] % 5, at < bytes.len()) {
            (0, true) => bytes[at] = edit[2],
            (1, true) => bytes[at] ^= edit[2] & 0x3f,
            (2, true) => drop(bytes.remove(at)),
            (3, true) => bytes.truncate(at),
            _ => bytes.insert(at, edit[2]),
        }
    }
    bytes
}
