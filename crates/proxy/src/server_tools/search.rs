//! Search of a body for server-side tools, URLs to fetch and files stored at the provider.

use std::fmt::Write;
use std::sync::LazyLock;

use sandbox_policy::catalog::PROVIDERS;
use sandbox_policy::catalog::provider::Tools;

use crate::json::{Json, is};

/// Tools of all providers. A client may use any provider's dialect with a custom server.
struct Known {
    /// Types of tools that the client runs, or that only affect the model. All other types count as server-side, so
    /// that new ones are refused until a catalog row lists them.
    client: Vec<&'static str>,
    /// Client-side tools that are written as a field.
    client_fields: Vec<&'static str>,
    /// Fields that are server-side tools, regardless of other fields.
    fields: Vec<&'static str>,
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    let all = |of: fn(&'static Tools) -> &'static [&'static str]| {
        PROVIDERS.iter().flat_map(|provider| of(&provider.tools)).copied().collect()
    };
    Known {
        client: all(|tools| tools.client),
        client_fields: all(|tools| tools.client_fields),
        fields: all(|tools| tools.fields),
    }
});

/// Fields whose value is a URL that the provider reads from or writes to.
const ADDRESSES: &[&str] = &[
    "image_url",
    "file_url",
    "video_url",
    "audio_url",
    "file_uri",
    "gcs_uri",
    "storage_uri",
    "output_gcs_uri",
    "uri",
    "source",
];

/// Fields whose value names files stored at the provider.
const FILES: &[&str] = &[
    "file_id",
    "file_ids",
    "input_file_id",
    "image_file_id",
    "mask_file_id",
    "training_file",
    "validation_file",
    "vector_store_id",
    "vector_store_ids",
    "skill_id",
];

/// Use of a server-side feature in a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Name of the feature in `server_tools`.
    pub tool: String,
    /// Path of the field.
    pub field: String,
    /// Index in the request's list of tools, if it is there.
    pub index: Option<usize>,
    /// Names by which the rest of the request may refer to it.
    names: Vec<String>,
}

/// Step of a path into a body.
#[derive(Clone, Copy)]
enum Step<'j> {
    Name(&'j str),
    Item(usize),
}

struct Search<'j> {
    path: Vec<Step<'j>>,
    found: Vec<Found>,
}

/// Returns all uses of server-side features in a body.
pub(super) fn through(body: &Json<'_>) -> Vec<Found> {
    let mut search = Search { path: Vec::new(), found: Vec::new() };
    search.value(body);
    search.found
}

/// Returns true when the request's `tool_choice` requires the tool.
pub(super) fn demands(body: &Json<'_>, found: &Found) -> bool {
    let choices = body.all("tool_choice");
    let mut words = choices.flat_map(|choice| choice.all("type").chain(choice.all("name")));
    words.any(|word| word.text().is_some_and(|word| found.names.iter().any(|name| is(word, name))))
}

impl<'j> Search<'j> {
    fn value(&mut self, json: &'j Json<'_>) {
        match json {
            Json::List(list) => {
                for (index, item) in list.iter().enumerate() {
                    self.path.push(Step::Item(index));
                    self.value(item);
                    self.path.pop();
                }
            }
            Json::Object(object) => {
                let is_call = self.is_model_call(json);
                for (name, value) in
                    object.iter().filter(|(name, _)| !(is_call && is(name, "input")))
                {
                    self.path.push(Step::Name(name));
                    self.field(name, value);
                    self.path.pop();
                }
            }
            Json::Text(_) | Json::Null | Json::Other => {}
        }
    }

    /// Returns true for a tool call that a model made. Its arguments are text, and the provider does not act on them.
    fn is_model_call(&self, json: &Json<'_>) -> bool {
        const CALLS: [&str; 3] = ["tool_use", "server_tool_use", "mcp_tool_use"];
        let kind = |value: &Json<'_>| value.text().is_some_and(|kind| CALLS.contains(&kind));
        self.within("messages") && json.all("type").any(kind)
    }

    fn within(&self, wanted: &str) -> bool {
        self.path.iter().any(|step| matches!(step, Step::Name(name) if is(name, wanted)))
    }

    fn field(&mut self, name: &str, value: &'j Json<'_>) {
        let is = |wanted: &[&str]| wanted.iter().any(|wanted| is(name, wanted));
        if is(&["tools"]) {
            return self.tools(value);
        }
        match self.requested(name, value) {
            Some(tool) => self.add(tool, None, &[]),
            // Arguments and result of a call.
            None if is(&["function_call"]) => {}
            None if is(&["response"]) && self.within("function_response") => {}
            None => self.value(value),
        }
    }

    /// Returns the name in `server_tools` for a field other than a list of tools, if the provider would act on it.
    fn requested(&self, name: &str, value: &Json<'_>) -> Option<&'static str> {
        let is = |wanted: &[&str]| wanted.iter().any(|wanted| is(name, wanted));
        let top = self.path.len() == 1;
        if is(&["mcp_servers"]) && !is_empty(value) {
            Some("mcp")
        } else if is(&["web_search_options"]) && *value != Json::Null {
            Some("web_search")
        } else if is(&["data_sources"]) && !is_empty(value) {
            Some("data_sources")
        } else if top && is(&["prompt"]) && matches!(value, Json::Object(_)) {
            // A prompt template stored at the provider may include tools.
            Some("prompt")
        } else if is(&["model"]) && value.text().is_some_and(searches) {
            Some("web_search")
        } else if is(FILES) && names_something(value) {
            Some("files")
        } else if is(&["cached_content"]) && names_something(value) {
            Some("cached_content")
        } else if top && is(&["container"]) && !is_empty(value) {
            Some("container")
        } else if is(ADDRESSES) && leads_away(name, value) {
            Some("url")
        } else {
            None
        }
    }

    /// Searches a list of tools.
    fn tools(&mut self, value: &'j Json<'_>) {
        let Some(list) = value.list() else {
            // Some servers accept a single object instead of a list.
            if self.path.len() == 1
                && let Some(tool) = of_provider(value)
            {
                self.add(&tool, None, &[]);
            }
            return self.value(value);
        };
        // A tool can only be removed from the list that every parser reads as the request's tools.
        let own = self.path.len() == 1 && matches!(self.path[0], Step::Name("tools"));
        for (index, item) in list.iter().enumerate() {
            self.path.push(Step::Item(index));
            if let Some(tool) = of_provider(item) {
                let names = item.all("name").filter_map(Json::text);
                let names: Vec<&str> = names.chain([tool.as_str()]).collect();
                self.add(&tool, own.then_some(index), &names);
            } else if !is_described(item) {
                self.value(item);
            }
            self.path.pop();
        }
    }

    fn add(&mut self, tool: &str, index: Option<usize>, names: &[&str]) {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        self.found.push(Found { tool: tool.to_owned(), field: self.here(), index, names });
    }

    /// Returns the current path in dotted notation.
    fn here(&self) -> String {
        let mut text = String::new();
        for step in &self.path {
            let _ = match step {
                Step::Name(name) if text.is_empty() => write!(text, "{}", name.escape_debug()),
                Step::Name(name) => write!(text, ".{}", name.escape_debug()),
                Step::Item(index) => write!(text, "[{index}]"),
            };
        }
        text
    }
}

/// Returns true for a tool that the request describes. Its schema and examples are only text.
fn is_described(tool: &Json<'_>) -> bool {
    tool.all("type").all(|kind| {
        *kind == Json::Null
            || kind.text().is_some_and(|kind| is(kind, "function") || is(kind, "custom"))
    })
}

/// Returns the name of a server-side tool.
fn of_provider(tool: &Json<'_>) -> Option<String> {
    let Json::Object(fields) = tool else { return None };
    let mut types = tool.all("type").filter(|kind| **kind != Json::Null).peekable();
    if types.peek().is_none() {
        return untyped(tool, fields.keys().map(AsRef::as_ref));
    }
    types.find_map(|kind| match kind.text() {
        Some(kind) if is(kind, "namespace") => {
            tool.all("tools").find_map(|inner| match inner.list() {
                Some(list) => list.iter().find_map(of_provider),
                None => Some("unknown".to_owned()),
            })
        }
        // Runs in a container of the provider unless the environment is local.
        Some(kind) if is(kind, "shell") => {
            let local = |place: &Json<'_>| {
                place.all("type").all(|kind| kind.text().is_some_and(|kind| is(kind, "local")))
                    && place.all("type").next().is_some()
            };
            let mut places = tool.all("environment").peekable();
            let here = places.peek().is_some() && places.all(local);
            (!here).then(|| "shell".to_owned())
        }
        Some(kind) if KNOWN.client.iter().any(|name| is(undated(kind), name)) => None,
        Some(kind) => Some(kind.to_ascii_lowercase()),
        None => Some("unknown".to_owned()),
    })
}

/// Returns the name of a server-side tool without a type. Gemini's tools are fields. Anthropic's client tools have a
/// name.
fn untyped<'f>(tool: &Json<'_>, mut fields: impl Iterator<Item = &'f str>) -> Option<String> {
    let among = |field: &str, names: &[&str]| names.iter().any(|name| is(field, name));
    let named = tool.all("name").next().is_some();
    let Known { client_fields, fields: known, .. } = &*KNOWN;
    let tool =
        fields.find(|field| among(field, known) || !(named || among(field, client_fields)))?;
    Some(known.iter().find(|name| is(tool, name)).map_or(tool, |name| *name).to_owned())
}

/// Returns a type without its date suffix.
fn undated(kind: &str) -> &str {
    match kind.rsplit_once('_') {
        Some((name, date)) if date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()) => {
            name
        }
        _ => kind,
    }
}

/// Returns true for models that search the web.
fn searches(model: &str) -> bool {
    model.to_ascii_lowercase().split(['-', '/', ':']).any(|word| word == "search")
}

/// Returns true when the provider would fetch the value. Inline data begins with `data:`.
fn leads_away(name: &str, value: &Json<'_>) -> bool {
    let away = |url: &Json<'_>| {
        url.text().is_none_or(|url| !url.starts_with("data:")) && *url != Json::Null
    };
    match value {
        Json::Text(url) => !is(name, "source") && !url.starts_with("data:"),
        Json::Object(_) => {
            let by_type =
                value.all("type").any(|kind| kind.text().is_some_and(|kind| is(kind, "url")));
            by_type || value.all("url").any(away)
        }
        Json::List(list) => list.iter().any(|item| leads_away(name, item)),
        Json::Null | Json::Other => false,
    }
}

/// Returns true when a value is a name or a list with one. An object is the schema of a field with that name.
fn names_something(value: &Json<'_>) -> bool {
    match value {
        Json::Text(_) | Json::Other => true,
        Json::List(list) => list.iter().any(names_something),
        Json::Object(_) | Json::Null => false,
    }
}

fn is_empty(value: &Json<'_>) -> bool {
    match value {
        Json::Null => true,
        Json::List(list) => list.is_empty(),
        Json::Object(object) => object.is_empty(),
        Json::Text(_) | Json::Other => false,
    }
}
