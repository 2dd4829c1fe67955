//! The Messages API, as far as Claude Code and opencode need it.

use serde_json::{Value, json};

use crate::provider::LAST_WORDS;

/// Returns the events of a response: a call of the shell tool, or the end once its result is there. Side
/// requests, such as the one for a title, have no tools and are ended at once.
pub(crate) fn answer(asked: &Value, command: &str) -> Vec<Value> {
    let tools = asked["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut names = tools.iter().filter_map(|tool| tool["name"].as_str());
    let shell = names.find(|name| name.eq_ignore_ascii_case("bash"));
    let (block, delta, stop) = if let (Some(shell), None) = (shell, result(asked)) {
        let input = json!({ "command": command, "description": "Do the work" }).to_string();
        (
            json!({ "type": "tool_use", "id": "toolu_1", "name": shell, "input": {} }),
            json!({ "type": "input_json_delta", "partial_json": input }),
            "tool_use",
        )
    } else {
        (
            json!({ "type": "text", "text": "" }),
            json!({ "type": "text_delta", "text": LAST_WORDS }),
            "end_turn",
        )
    };
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"], "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": 1, "output_tokens": 1 },
    });
    vec![
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({
            "type": "message_delta", "usage": { "output_tokens": 1 },
            "delta": { "stop_reason": stop, "stop_sequence": null },
        }),
        json!({ "type": "message_stop" }),
    ]
}

/// Returns the result of a tool call that a request contains.
pub(crate) fn result(asked: &Value) -> Option<String> {
    let messages = asked["messages"].as_array()?;
    let mut blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let block = blocks.find(|block| block["type"] == "tool_result")?;
    Some(block["content"].as_str().map_or_else(|| block["content"].to_string(), str::to_owned))
}
