//! Stand-in for a provider, with a model that runs one command.

use serde_json::Value;
use testkit::{Answer, Authority, EVENTS};

use crate::{contents, messages, responses};

/// Text of the model after the result of its tool call.
pub(crate) const LAST_WORDS: &str = "the stand-in has seen enough";

/// Starts a model that calls one tool, and then ends.
pub(crate) struct Provider(testkit::Provider);

impl Provider {
    /// Starts a model that runs this command in a shell.
    pub(crate) fn start(command: &'static str) -> Self {
        Self(testkit::Provider::plain(move |path, body| answer(path, body, command)))
    }

    /// Starts it behind TLS, with a certificate that only this authority signed.
    pub(crate) fn secure(authority: &Authority, command: &'static str) -> Self {
        Self(testkit::Provider::secure(authority, move |path, body| answer(path, body, command)))
    }

    /// Returns its base URL, without a path.
    pub(crate) fn url(&self) -> &str {
        self.0.url()
    }

    /// Returns all received requests, as text.
    pub(crate) fn heard(&self) -> String {
        self.0.bodies().join("\n")
    }

    /// Returns the headers of every request.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.0.heads()
    }

    /// Returns the result of the tool call.
    #[track_caller]
    pub(crate) fn result(&self) -> String {
        let bodies = self.0.bodies();
        let parsed = bodies.iter().filter_map(|body| serde_json::from_str(body).ok());
        let mut results = parsed.filter_map(|body| {
            let kinds = [messages::result, responses::result, contents::result];
            kinds.iter().find_map(|result| result(&body))
        });
        results.next().unwrap_or_else(|| panic!("no tool result in {} requests", bodies.len()))
    }
}

fn answer(path: &str, body: &str, command: &str) -> Answer {
    let asked: Value = serde_json::from_str(body).unwrap_or_default();
    match path {
        "/v1/messages" => (EVENTS, events(&messages::answer(&asked, command))),
        // The second path is that of subscriptions.
        "/v1/responses" | "/responses" => (EVENTS, events(&responses::answer(&asked, command))),
        _ if path.ends_with(":streamGenerateContent") => {
            (EVENTS, format!("data: {}\r\n\r\n", contents::answer(&asked, command)))
        }
        _ if path.ends_with(":generateContent") => {
            ("application/json", contents::answer(&asked, command).to_string())
        }
        _ => ("application/json", "{}".to_owned()),
    }
}

/// Formats server-sent events, with their type as the name.
fn events(events: &[Value]) -> String {
    let mut stream = String::new();
    for event in events {
        let name = event["type"].as_str().unwrap_or_default();
        stream.extend(["event: ", name, "\ndata: ", &event.to_string(), "\n\n"]);
    }
    stream
}
