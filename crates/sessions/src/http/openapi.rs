//! The description of the calls, as `OpenAPI` 3.1.

use sandbox_layers::review::DiffReport;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::wire;

/// One call.
struct Call {
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    /// Parameters of the query: name, type, whether it must be there, meaning.
    query: &'static [(&'static str, &'static str, bool, &'static str)],
    body: Body,
    /// Status and schema of success.
    answers: &'static [(&'static str, &'static str, Body)],
    /// Other statuses that it may end with, beside those of every call.
    problems: &'static [&'static str],
}

/// What a body is.
#[derive(Clone, Copy)]
enum Body {
    None,
    Json(&'static str),
    /// JSON that may be left out.
    Optional(&'static str),
    /// JSON, or text of this type.
    JsonOrText(&'static str, &'static str),
    Bytes,
    Text(&'static str),
}

const SESSION: Body = Body::Json("Session");

const CALLS: &[Call] = &[
    Call {
        method: "get",
        path: "/v1/health",
        id: "health",
        summary: "Who serves",
        query: &[],
        body: Body::None,
        answers: &[("200", "It serves", Body::Json("Health"))],
        problems: &[],
    },
    Call {
        method: "get",
        path: "/v1/openapi.json",
        id: "describe",
        summary: "This description",
        query: &[],
        body: Body::None,
        answers: &[("200", "The description", Body::Json(""))],
        problems: &[],
    },
    Call {
        method: "get",
        path: "/metrics",
        id: "metrics",
        summary: "Numbers in the format of Prometheus",
        query: &[],
        body: Body::None,
        answers: &[("200", "The numbers", Body::Text("text/plain"))],
        problems: &["502", "507"],
    },
    Call {
        method: "get",
        path: "/v1/sessions",
        id: "list",
        summary: "List sessions, the oldest first",
        query: &[],
        body: Body::None,
        answers: &[("200", "The sessions", Body::Json("Sessions"))],
        problems: &["502", "507"],
    },
    Call {
        method: "post",
        path: "/v1/sessions",
        id: "create",
        summary: "Bring a session up; the same again answers with the same session, other settings for one that is up with 409",
        query: &[],
        body: Body::Json("Create"),
        answers: &[("201", "It was brought up", SESSION), ("200", "It was up already", SESSION)],
        problems: &["400", "409", "415", "422", "429", "502", "507"],
    },
    Call {
        method: "get",
        path: "/v1/sessions/{session}",
        id: "show",
        summary: "One session",
        query: &[],
        body: Body::None,
        answers: &[("200", "The session", SESSION)],
        problems: &["400", "404", "502", "507"],
    },
    Call {
        method: "delete",
        path: "/v1/sessions/{session}",
        id: "remove",
        summary: "Take a session down and forget it, with its log and its changes; 409 when it has work that was not applied",
        query: &[("discard", "boolean", false, "Remove it with work that was not applied")],
        body: Body::None,
        answers: &[("204", "It is gone", Body::None)],
        problems: &["400", "404", "409", "502", "507"],
    },
    Call {
        method: "post",
        path: "/v1/sessions/{session}/down",
        id: "down",
        summary: "Take a session down; its log and its changes stay",
        query: &[],
        body: Body::None,
        answers: &[("200", "It is down", SESSION)],
        problems: &["400", "404", "502", "507"],
    },
    Call {
        method: "post",
        path: "/v1/sessions/{session}/restart",
        id: "restart",
        summary: "Take a session down and bring it up again",
        query: &[],
        body: Body::None,
        answers: &[("200", "It is up", SESSION)],
        problems: &["400", "404", "422", "502", "507"],
    },
    Call {
        method: "get",
        path: "/v1/sessions/{session}/usage",
        id: "usage",
        summary: "What a session uses at this moment",
        query: &[],
        body: Body::None,
        answers: &[("200", "What it uses", Body::Json("Usage"))],
        problems: &["400", "404", "422", "502", "507"],
    },
    Call {
        method: "get",
        path: "/v1/sessions/{session}/logs",
        id: "logs",
        summary: "The log, an event for each line",
        query: &[("follow", "boolean", false, "Go on until the session ends")],
        body: Body::None,
        answers: &[("200", "The lines", Body::Text("text/event-stream"))],
        problems: &["400", "404", "429", "502", "507"],
    },
    Call {
        method: "get",
        path: "/v1/sessions/{session}/exec",
        id: "exec",
        summary: "Run a command over a WebSocket: the first message is an `Exec`, then binary messages are typed and text messages are `Control`; what it says comes as binary messages, 1 or 2 and the text, and its end as an `Exit`",
        query: &[],
        body: Body::None,
        answers: &[("101", "A WebSocket", Body::None)],
        problems: &["400", "404", "426", "429", "502", "507"],
    },
    Call {
        method: "get",
        path: "/v1/sessions/{session}/files",
        id: "readFile",
        summary: "Read a file inside a session",
        query: &[("path", "string", true, "The path, as the session sees it")],
        body: Body::None,
        answers: &[("200", "Its content", Body::Bytes)],
        problems: &["400", "404", "409", "502", "504", "507"],
    },
    Call {
        method: "put",
        path: "/v1/sessions/{session}/files",
        id: "writeFile",
        summary: "Write a file inside a session",
        query: &[("path", "string", true, "The path, as the session sees it")],
        body: Body::Bytes,
        answers: &[("204", "It is written", Body::None)],
        problems: &["400", "404", "409", "502", "504", "507"],
    },
    Call {
        method: "get",
        path: "/v1/sessions/{session}/diff",
        id: "diff",
        summary: "Show what a session changed, as data or as a patch for `git apply`; the session must keep its changes apart",
        query: &[
            ("format", "string", false, "`json` or `patch`; `json` when left out"),
            (
                "path",
                "string",
                false,
                "Only this path and what is below it; a relative one starts at the project",
            ),
        ],
        body: Body::None,
        answers: &[("200", "The changes", Body::JsonOrText("DiffReport", "text/x-diff"))],
        problems: &["400", "404", "409", "422", "502", "507"],
    },
    Call {
        method: "post",
        path: "/v1/sessions/{session}/apply",
        id: "apply",
        summary: "Apply a session's changes to the project; 409 with the list when some run code later or conflict with the host, and when the session is up",
        query: &[],
        body: Body::Optional("Apply"),
        answers: &[("200", "They are applied", Body::Json("Applied"))],
        problems: &["400", "404", "409", "415", "422", "502", "507"],
    },
    Call {
        method: "post",
        path: "/v1/sessions/{session}/undo",
        id: "undo",
        summary: "Revert the last apply; 409 with the list when files changed since",
        query: &[],
        body: Body::Optional("Undo"),
        answers: &[("200", "It is reverted", Body::Json("Reverted"))],
        problems: &["400", "404", "409", "415", "422", "502", "507"],
    },
    Call {
        method: "post",
        path: "/v1/sessions/{session}/discard",
        id: "discard",
        summary: "Discard a session's changes",
        query: &[],
        body: Body::Optional("Discard"),
        answers: &[("200", "They are discarded", Body::Json("Discarded"))],
        problems: &["400", "404", "409", "415", "422", "502", "507"],
    },
];

/// What every call may answer with.
const ALWAYS: &[&str] = &["400", "401", "403", "405", "408", "413", "421", "500"];

/// The whole description.
pub fn document() -> Value {
    let mut paths = Map::new();
    for call in CALLS {
        let methods = paths.entry(call.path).or_insert_with(|| json!({}));
        methods[call.method] = operation(call);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "agent-sandbox",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Sessions over HTTP, as `agent-sandbox serve` offers them on a Unix socket, or at a TCP address with a token.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" }
        },
        "servers": [{ "url": "http://localhost" }],
        "security": [{}, { "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas()
        }
    })
}

fn operation(call: &Call) -> Value {
    let mut parameters: Vec<Value> = Vec::new();
    if call.path.contains("{session}") {
        parameters.push(json!({ "name": "session", "in": "path", "required": true,
            "description": "The whole name, or the beginning of the id", "schema": { "type": "string" } }));
    }
    for (name, kind, required, meaning) in call.query {
        parameters.push(json!({ "name": name, "in": "query", "required": required,
            "description": meaning, "schema": { "type": kind } }));
    }
    let mut responses = Map::new();
    for (status, meaning, body) in call.answers {
        responses.insert((*status).into(), described(meaning, *body));
    }
    for status in call.problems.iter().chain(ALWAYS) {
        responses.insert((*status).into(), described("What went wrong", Body::Json("Failure")));
    }
    let mut operation = json!({ "operationId": call.id, "summary": call.summary, "parameters": parameters,
        "responses": responses });
    if let Some(content) = content(call.body) {
        let required = !matches!(call.body, Body::Optional(_));
        operation["requestBody"] = json!({ "required": required, "content": content });
    }
    operation
}

fn described(meaning: &str, body: Body) -> Value {
    let mut answer = json!({ "description": meaning });
    if let Some(content) = content(body) {
        answer["content"] = content;
    }
    answer
}

fn content(body: Body) -> Option<Value> {
    match body {
        Body::None => None,
        Body::Json("") => Some(json!({ "application/json": { "schema": { "type": "object" } } })),
        Body::Json(name) | Body::Optional(name) => {
            let reference = format!("#/components/schemas/{name}");
            Some(json!({ "application/json": { "schema": { "$ref": reference } } }))
        }
        Body::JsonOrText(name, kind) => {
            let mut both = content(Body::Json(name))?;
            both[kind] = json!({ "schema": { "type": "string" } });
            Some(both)
        }
        Body::Bytes => Some(json!({ "application/octet-stream": { "schema": {} } })),
        Body::Text(kind) => Some(json!({ kind: { "schema": { "type": "string" } } })),
    }
}

fn schemas() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    generator.subschema_for::<wire::Create>();
    generator.subschema_for::<wire::Sessions>();
    generator.subschema_for::<wire::Health>();
    generator.subschema_for::<wire::Usage>();
    generator.subschema_for::<wire::Exec>();
    generator.subschema_for::<wire::Control>();
    generator.subschema_for::<wire::Exit>();
    generator.subschema_for::<wire::Problem>();
    generator.subschema_for::<DiffReport>();
    generator.subschema_for::<wire::Apply>();
    generator.subschema_for::<wire::Applied>();
    generator.subschema_for::<wire::Undo>();
    generator.subschema_for::<wire::Reverted>();
    generator.subschema_for::<wire::Discard>();
    generator.subschema_for::<wire::Discarded>();
    let mut all = generator.take_definitions(true);
    let problem = json!({ "$ref": "#/components/schemas/Problem" });
    let failure =
        json!({ "type": "object", "required": ["error"], "properties": { "error": problem } });
    all.insert("Failure".into(), failure);
    Value::Object(all)
}
