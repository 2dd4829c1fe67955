//! The Gemini API, as far as Gemini CLI and opencode need it.

use serde_json::{Value, json};

use crate::provider::LAST_WORDS;

/// Returns a response: a call of the shell tool, or the end once its result is there. Side requests, such as the one
/// for the difficulty of the task, have no tools and expect JSON.
pub(crate) fn answer(asked: &Value, command: &str) -> Value {
    let tools = asked["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let declared = tools.iter().filter_map(|tool| tool["functionDeclarations"].as_array());
    let mut names = declared.flatten().filter_map(|function| function["name"].as_str());
    let shell = names.find(|name| ["run_shell_command", "bash"].contains(name));
    let part = match (shell, result(asked)) {
        (None, _) => {
            let text = json!({ "complexity_reasoning": "none", "complexity_score": 1 });
            json!({ "text": text.to_string() })
        }
        (Some(shell), None) => {
            let arguments = json!({ "command": command, "description": "Do the work" });
            json!({ "functionCall": { "name": shell, "args": arguments } })
        }
        (Some(_), Some(_)) => json!({ "text": LAST_WORDS }),
    };
    let content = json!({ "role": "model", "parts": [part] });
    let usage = json!({ "promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2 });
    json!({
        "candidates": [{ "content": content, "finishReason": "STOP", "index": 0 }],
        "usageMetadata": usage,
    })
}

/// Returns the result of a tool call that a request contains.
pub(crate) fn result(asked: &Value) -> Option<String> {
    let contents = asked["contents"].as_array()?;
    let mut parts = contents.iter().filter_map(|content| content["parts"].as_array()).flatten();
    let part = parts.find(|part| part["functionResponse"].is_object())?;
    let response = &part["functionResponse"]["response"];
    Some(response["output"].as_str().map_or_else(|| response.to_string(), str::to_owned))
}
