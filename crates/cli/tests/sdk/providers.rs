//! The official SDKs of Anthropic and OpenAI, unmodified and without a key, in a sandbox that reaches
//! only the proxy: complete responses and streams.

use serde_json::{Value, json};
use testkit::{Answer, Authority, EVENTS, Provider, World, need, sdk};

const ANTHROPIC: &str = "sk-ant-the-real-one-0123456789";
const OPENAI: &str = "sk-proj-the-real-one-0123456789";

/// Two secrets, both held by the proxy.
const POLICY: &str = "network = false
secrets.anthropic = { mode = 'proxy', env_var = 'ANTHROPIC_API_KEY', upstream_url = 'URL' }
secrets.openai = { mode = 'proxy', env_var = 'OPENAI_API_KEY', upstream_url = 'URL' }
";

const PYTHON: &str = r#"
import os
from anthropic import Anthropic
from openai import OpenAI

ask = [{"role": "user", "content": "hello"}]
claude, gpt = Anthropic(max_retries=0), OpenAI(max_retries=0)
print(claude.messages.create(model="m", max_tokens=9, messages=ask).content[0].text)
with claude.messages.stream(model="m", max_tokens=9, messages=ask) as stream:
    print("|".join(stream.text_stream))
print(gpt.chat.completions.create(model="m", messages=ask).choices[0].message.content)
parts = gpt.chat.completions.create(model="m", messages=ask, stream=True)
print("|".join(part.choices[0].delta.content for part in parts))
print(gpt.responses.create(model="m", input="hello").output_text)
print(os.environ["ANTHROPIC_API_KEY"], os.environ["OPENAI_API_KEY"])
"#;

const NODE: &str = r#"
const load = async (name) => (await import(`${process.env.SDK}/node_modules/${name}/index.mjs`)).default;
const [Anthropic, OpenAI] = [await load("@anthropic-ai/sdk"), await load("openai")];
const ask = [{ role: "user", content: "hello" }];
const [claude, gpt] = [new Anthropic({ maxRetries: 0 }), new OpenAI({ maxRetries: 0 })];
console.log((await claude.messages.create({ model: "m", max_tokens: 9, messages: ask })).content[0].text);
const texts = [];
await claude.messages.stream({ model: "m", max_tokens: 9, messages: ask }).on("text", (text) => texts.push(text)).finalMessage();
console.log(texts.join("|"));
console.log((await gpt.chat.completions.create({ model: "m", messages: ask })).choices[0].message.content);
const parts = [];
for await (const part of await gpt.chat.completions.create({ model: "m", messages: ask, stream: true }))
  parts.push(part.choices[0].delta.content);
console.log(parts.join("|"));
console.log((await gpt.responses.create({ model: "m", input: "hello" })).output_text);
console.log(process.env.ANTHROPIC_API_KEY, process.env.OPENAI_API_KEY);
"#;

/// Output of both programs, without the tokens.
const SAID: &str = "whole claude\nin|parts\nwhole gpt\nin|parts\nwhole response\n";

fn answer(path: &str, body: &str) -> Answer {
    let streams = serde_json::from_str::<Value>(body).unwrap()["stream"] == true;
    match (path, streams) {
        ("/v1/messages", false) => ("application/json", message(&["whole claude"]).to_string()),
        ("/v1/messages", true) => (EVENTS, message_events(&["in", "parts"])),
        ("/v1/chat/completions", false) => {
            let said = json!({ "role": "assistant", "content": "whole gpt" });
            let choice = json!({ "index": 0, "message": said, "finish_reason": "stop" });
            ("application/json", completion("chat.completion", &choice).to_string())
        }
        ("/v1/chat/completions", true) => (EVENTS, completion_events(&["in", "parts"])),
        ("/v1/responses", false) => ("application/json", response("whole response").to_string()),
        (path, streams) => panic!("unexpected request for {path} (streamed: {streams})"),
    }
}

fn message(texts: &[&str]) -> Value {
    let content: Vec<_> =
        texts.iter().map(|text| json!({ "type": "text", "text": text })).collect();
    json!({ "id": "msg", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": "end_turn", "stop_sequence": null, "usage": { "input_tokens": 3, "output_tokens": 2 } })
}

fn message_events(texts: &[&str]) -> String {
    let mut events = vec![
        json!({ "type": "message_start", "message": message(&[]) }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
    ];
    events.extend(texts.iter().map(|text| {
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } })
    }));
    events.extend([
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn", "stop_sequence": null }, "usage": { "output_tokens": 2 } }),
        json!({ "type": "message_stop" }),
    ]);
    let line =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(line).collect()
}

fn completion(object: &str, choice: &Value) -> Value {
    json!({ "id": "chat", "object": object, "created": 1, "model": "m", "choices": [choice] })
}

fn completion_events(texts: &[&str]) -> String {
    let chunks = texts.iter().map(|text| {
        let choice = json!({ "index": 0, "delta": { "content": text }, "finish_reason": null });
        format!("data: {}\n\n", completion("chat.completion.chunk", &choice))
    });
    chunks.chain(["data: [DONE]\n\n".to_owned()]).collect()
}

fn response(text: &str) -> Value {
    let content = json!({ "type": "output_text", "text": text, "annotations": [] });
    let output = json!({ "type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": [content] });
    json!({ "id": "resp", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": [output],
        "parallel_tool_calls": true, "tool_choice": "auto", "tools": [] })
}

/// Creates a world with a provider behind TLS that only the proxy reaches and trusts.
fn scene() -> (World, Provider) {
    let authority = Authority::default();
    let provider = Provider::secure(&authority, answer);
    let world = World::new()
        .file("home/authority.pem", authority.pem())
        .file("home/policy.toml", POLICY.replace("URL", provider.url()))
        .env("ANTHROPIC_API_KEY", ANTHROPIC)
        .env("OPENAI_API_KEY", OPENAI)
        .env("PYTHONPATH", sdk().join("python"))
        .env("SDK", sdk());
    let known = world.path("home/authority.pem");
    (world.env("SSL_CERT_FILE", known), provider)
}

#[track_caller]
fn works(program: &str, script: &str, text: &str) {
    need(program);
    let (world, provider) = scene();
    world.write(script, text);
    let (policy, script) = (world.path("home/policy.toml"), world.path(script));
    let sdks = sdk();
    let words = [
        "-c".as_ref(),
        policy.as_os_str(),
        // They may be in the host's /tmp.
        "--ro".as_ref(),
        sdks.as_os_str(),
        program.as_ref(),
        script.as_os_str(),
    ];
    let run = world.run(words).succeeds();
    let output = run.output();
    let tokens = output.strip_prefix(SAID).unwrap_or_else(|| panic!("another answer: {run}"));
    let tokens: Vec<_> = tokens.split_whitespace().collect();
    assert!(
        tokens.iter().all(|token| token.starts_with("session-")) && tokens[0] != tokens[1],
        "{tokens:?}"
    );
    for head in provider.heads() {
        let key = if head.contains("/v1/messages") {
            format!("x-api-key: {ANTHROPIC}")
        } else {
            format!("authorization: Bearer {OPENAI}")
        };
        assert!(head.contains(&key) && !head.contains("session-"), "{head}");
    }
    assert_eq!(provider.heads().len(), 5);
    // The usage of both libraries is counted, also for streams.
    let told: Value = serde_json::from_str(&world.run(["usage", "--json"]).output()).unwrap();
    let of = |name: &str| {
        told.as_array().unwrap().iter().find(|row| row["provider"] == name).unwrap().clone()
    };
    assert_eq!(
        (&of("anthropic")["requests"], &of("openai")["requests"]),
        (&2.into(), &3.into()),
        "{told}"
    );
    assert_eq!(
        of("anthropic")["tokens"],
        json!({ "input": 6, "output": 4, "cached": 0 }),
        "{told}"
    );
}

#[test]
fn the_sdks_for_python_work_without_a_key_and_without_a_network() {
    works("python3", "project/ask.py", PYTHON);
}

#[test]
fn the_sdks_for_node_work_without_a_key_and_without_a_network() {
    works("node", "project/ask.mjs", NODE);
}

/// The control: the same programs, connected directly to the provider.
#[test]
fn without_the_proxy_the_provider_sees_nothing_but_the_token() {
    need("python3");
    let (world, provider) = scene();
    let direct = world
        .clone()
        .env("ANTHROPIC_API_KEY", "session-of-another-user")
        .env("ANTHROPIC_BASE_URL", provider.url())
        .env("OPENAI_API_KEY", "session-of-another-user")
        .env("OPENAI_BASE_URL", format!("{}/v1", provider.url()));
    direct.write("project/ask.py", PYTHON);
    let script = direct.path("project/ask.py");
    direct.host(["python3".as_ref(), script.as_os_str()]).succeeds().stdout_contains(SAID);
    let heads = provider.heads();
    assert!(heads.iter().all(|head| head.contains("session-of-another-user")), "{heads:?}");
}
