//! Where a body asks the provider for something that the provider does, or fetches.

use std::fmt::Write;
use std::sync::LazyLock;

use sandbox_policy::catalog::PROVIDERS;
use sandbox_policy::catalog::provider::Tools;

use crate::json::{Json, is};

/// Tools of all providers. A client may speak the dialect of any of them to a server of its own.
struct Known {
    /// Types of tools that the client runs itself, or that reach nothing but the model. A type that is not among them is
    /// the provider's: a new one is kept out until a row of the catalog names it.
    client: Vec<&'static str>,
    /// Tools of that kind that are fields.
    client_fields: Vec<&'static str>,
    /// Fields that are tools of the provider, whatever stands beside them.
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

/// Fields whose value is fetched, or written to, by address.
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

/// Fields whose value names files that lie at the provider.
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

/// Something that the provider would do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// What `server_tools` calls it.
    pub tool: String,
    /// Where it stands.
    pub field: String,
    /// Which of the request's own tools it is.
    pub place: Option<usize>,
    /// How the rest of the request would speak of it.
    names: Vec<String>,
}

/// One step into a body.
#[derive(Clone, Copy)]
enum Step<'j> {
    Name(&'j str),
    Item(usize),
}

struct Look<'j> {
    path: Vec<Step<'j>>,
    found: Vec<Found>,
}

/// Everything of the kind that a body has.
pub(super) fn through(body: &Json<'_>) -> Vec<Found> {
    let mut look = Look { path: Vec::new(), found: Vec::new() };
    look.value(body);
    look.found
}

/// Whether the request cannot do without a tool: its choice names it.
pub(super) fn demands(body: &Json<'_>, found: &Found) -> bool {
    let choices = body.all("tool_choice");
    let mut words = choices.flat_map(|choice| choice.all("type").chain(choice.all("name")));
    words.any(|word| word.text().is_some_and(|word| found.names.iter().any(|name| is(word, name))))
}

impl<'j> Look<'j> {
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
                let said = self.is_said(json);
                for (name, value) in object.iter().filter(|(name, _)| !(said && is(name, "input")))
                {
                    self.path.push(Step::Name(name));
                    self.field(name, value);
                    self.path.pop();
                }
            }
            Json::Text(_) | Json::Null | Json::Other => {}
        }
    }

    /// Whether this is a call that a model made: the arguments are its words, and nobody acts on them.
    fn is_said(&self, json: &Json<'_>) -> bool {
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
        match self.asked(name, value) {
            Some(tool) => self.add(tool, None, &[]),
            // The arguments of a call, and what it gave.
            None if is(&["function_call"]) => {}
            None if is(&["response"]) && self.within("function_response") => {}
            None => self.value(value),
        }
    }

    /// Returns the word that `server_tools` has for a field other than a list of tools, if the provider would act on it.
    fn asked(&self, name: &str, value: &Json<'_>) -> Option<&'static str> {
        let is = |wanted: &[&str]| wanted.iter().any(|wanted| is(name, wanted));
        let top = self.path.len() == 1;
        if is(&["mcp_servers"]) && !is_empty(value) {
            Some("mcp")
        } else if is(&["web_search_options"]) && *value != Json::Null {
            Some("web_search")
        } else if is(&["data_sources"]) && !is_empty(value) {
            Some("data_sources")
        } else if top && is(&["prompt"]) && matches!(value, Json::Object(_)) {
            // One that is stored at the provider, with its tools.
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

    /// The tools of a request, or of something in it.
    fn tools(&mut self, value: &'j Json<'_>) {
        let Some(list) = value.list() else {
            // Some servers take one thing for a list of it.
            if self.path.len() == 1
                && let Some(tool) = of_provider(value)
            {
                self.add(&tool, None, &[]);
            }
            return self.value(value);
        };
        // Only of what everybody reads as the request's tools can one be taken out.
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

    fn add(&mut self, tool: &str, place: Option<usize>, names: &[&str]) {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        self.found.push(Found { tool: tool.to_owned(), field: self.here(), place, names });
    }

    /// The path as a programmer writes it.
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

/// Whether a tool is one that the request describes: what its schema and its examples say is only words.
fn is_described(tool: &Json<'_>) -> bool {
    tool.all("type").all(|kind| {
        *kind == Json::Null
            || kind.text().is_some_and(|kind| is(kind, "function") || is(kind, "custom"))
    })
}

/// What a tool is called, if the provider runs it.
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
        // In a container of the provider's, unless it says otherwise.
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

/// Gemini's tools have no type: each is a field. Anthropic's have none where they are the client's, but a name.
fn untyped<'f>(tool: &Json<'_>, mut fields: impl Iterator<Item = &'f str>) -> Option<String> {
    let among = |field: &str, names: &[&str]| names.iter().any(|name| is(field, name));
    let named = tool.all("name").next().is_some();
    let Known { client_fields, fields: known, .. } = &*KNOWN;
    let tool =
        fields.find(|field| among(field, known) || !(named || among(field, client_fields)))?;
    Some(known.iter().find(|name| is(tool, name)).map_or(tool, |name| *name).to_owned())
}

/// A type without the date behind it.
fn undated(kind: &str) -> &str {
    match kind.rsplit_once('_') {
        Some((name, date)) if date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()) => {
            name
        }
        _ => kind,
    }
}

/// Models that look into the web before they say anything.
fn searches(model: &str) -> bool {
    model.to_ascii_lowercase().split(['-', '/', ':']).any(|word| word == "search")
}

/// Whether something is to be fetched. What is there already begins with `data:`.
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

/// Returns whether a value is a name, or a list with one. An object is the schema of a field that is called so.
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
