//! `OpenAPI` 3.1 document. It is derived: parameters, bodies and responses come from the types in a handler's signature,
//! and schemas from the types that are read and written.

use std::collections::BTreeSet;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::wire;

/// Error statuses of every call.
const ALWAYS: &[u16] = &[400, 401, 403, 405, 408, 413, 421, 500];

/// Part of a handler's signature: an extractor or a response.
pub(super) trait Describe {
    /// Adds its part to the description of the call.
    fn describe(operation: &mut Operation<'_>);
}

/// Handler whose signature describes a call. `P` is the tuple of its extractors.
pub(super) trait Signature<P> {
    /// Describes the call.
    fn describe(operation: &mut Operation<'_>);
}

macro_rules! signature {
    ($($part:ident),*) => {
        impl<F, A, $($part),*> Signature<($($part,)*)> for F
        where
            F: FnOnce($($part),*) -> A,
            A: Future<Output: Describe>,
            $($part: Describe),*
        {
            fn describe(operation: &mut Operation<'_>) {
                $($part::describe(operation);)*
                A::Output::describe(operation);
            }
        }
    };
}

signature!();
signature!(P1);
signature!(P1, P2);
signature!(P1, P2, P3);
signature!(P1, P2, P3, P4);

/// Texts about a call that its signature does not provide.
#[derive(Clone, Copy)]
pub(super) struct Doc {
    id: &'static str,
    summary: &'static str,
    answer: &'static str,
    problems: &'static [u16],
}

impl Doc {
    /// Creates the texts of a call.
    pub(super) const fn new(id: &'static str, summary: &'static str, answer: &'static str) -> Self {
        Self { id, summary, answer, problems: &[] }
    }

    /// Adds error statuses of the call.
    pub(super) const fn fails(self, problems: &'static [u16]) -> Self {
        Self { problems, ..self }
    }
}

/// Description of a call under construction.
pub(super) struct Operation<'g> {
    generator: &'g mut SchemaGenerator,
    answer: &'static str,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: Map<String, Value>,
    problems: BTreeSet<u16>,
}

impl Operation<'_> {
    /// Adds a path parameter.
    pub(super) fn path(&mut self, name: &str, meaning: &str) {
        self.parameters.push(json!({ "name": name, "in": "path", "required": true,
            "description": meaning, "schema": { "type": "string" } }));
    }

    /// Adds the fields of a type as query parameters.
    pub(super) fn query<T: JsonSchema>(&mut self) {
        let schema = settings().into_generator().into_root_schema_for::<T>();
        let required = schema.get("required").and_then(Value::as_array);
        let fields = schema.get("properties").and_then(Value::as_object);
        for (name, field) in fields.into_iter().flatten() {
            let is_required = required.is_some_and(|all| all.iter().any(|one| one == name));
            let meaning = field["description"].as_str().unwrap_or_default();
            // A missing parameter is not `null`.
            let kind = field["type"].as_array().map_or(&field["type"], |kinds| &kinds[0]);
            self.parameters.push(json!({ "name": name, "in": "query", "required": is_required,
                "description": meaning.trim_end_matches('.'), "schema": { "type": kind } }));
        }
    }

    /// Sets the request body.
    pub(super) fn body(&mut self, required: bool, content: &Value) {
        self.body = Some(json!({ "required": required, "content": content }));
    }

    /// Adds a response with the text of the call's [`Doc`].
    pub(super) fn answer(&mut self, status: u16, content: Option<Value>) {
        self.answer_as(status, self.answer, content);
    }

    /// Adds a response with a different text.
    pub(super) fn answer_as(&mut self, status: u16, meaning: &str, content: Option<Value>) {
        let mut answer = json!({ "description": meaning });
        if let Some(content) = content {
            answer["content"] = content;
        }
        self.answers.insert(status.to_string(), answer);
    }

    /// Adds error statuses.
    pub(super) fn problems(&mut self, statuses: &[u16]) {
        self.problems.extend(statuses);
    }

    /// Returns a type's schema as JSON content.
    pub(super) fn json<T: JsonSchema>(&mut self) -> Value {
        json!({ "application/json": { "schema": self.generator.subschema_for::<T>() } })
    }

    fn finish(mut self, doc: &Doc) -> Value {
        let failure = self.json::<wire::Failure>();
        self.problems(doc.problems);
        self.problems(ALWAYS);
        for status in std::mem::take(&mut self.problems) {
            self.answer_as(status, "A problem", Some(failure.clone()));
        }
        let mut operation = json!({ "operationId": doc.id, "summary": doc.summary,
            "parameters": self.parameters, "responses": self.answers });
        if let Some(body) = self.body {
            operation["requestBody"] = body;
        }
        operation
    }
}

/// `OpenAPI` document under construction.
pub(super) struct Description {
    generator: SchemaGenerator,
    paths: Map<String, Value>,
}

impl Description {
    /// Creates a document without calls.
    pub(super) fn new() -> Self {
        Self { generator: settings().into_generator(), paths: Map::new() }
    }

    /// Adds a call.
    pub(super) fn add<P, H: Signature<P>>(&mut self, method: &str, path: &str, doc: &Doc, _: &H) {
        let mut operation = Operation {
            generator: &mut self.generator,
            answer: doc.answer,
            parameters: Vec::new(),
            body: None,
            answers: Map::new(),
            problems: BTreeSet::new(),
        };
        H::describe(&mut operation);
        let operation = operation.finish(doc);
        self.paths.entry(path).or_insert_with(|| json!({}))[method] = operation;
    }

    /// Returns the finished document.
    pub(super) fn document(mut self) -> Value {
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": "agent-sandbox",
                "version": env!("CARGO_PKG_VERSION"),
                "description": "Session API of `agent-sandbox serve`, on a Unix socket, or over TCP with a token.",
                "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" }
            },
            "servers": [{ "url": "http://localhost" }],
            "security": [{}, { "token": [] }],
            "paths": self.paths,
            "components": {
                "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
                "schemas": self.generator.take_definitions(true)
            }
        })
    }
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
}
