//! Table of providers: their servers, how they receive a key, and the requests that an agent may send.

mod types;

pub use types::{
    AgentAddress, Header, Hosts, KeyHeader, LoginKeys, Merge, OwnTools, Provider, TestRequest,
    Tools, UnknownProvider, Upstream, Usage,
};

use super::hosts::HostPreset;

/// Every provider, in the order in which they are listed.
pub const PROVIDERS: &[Provider] = &[
    Provider {
        name: "anthropic",
        api: "the Anthropic API",
        upstream: Upstream::Public("https://api.anthropic.com"),
        key: KeyHeader::Header { name: "x-api-key", format: "{}" },
        login_keys: LoginKeys::Begin { with: "sk-ant-oat", provider: "anthropic-subscription" },
        headers: &[],
        routes: ANTHROPIC_ROUTES,
        key_variables: ANTHROPIC_KEYS,
        prefixes: &["ANTHROPIC_", "CLAUDE_"],
        passed_variables: &["ANTHROPIC_*"],
        addresses: &[("ANTHROPIC_BASE_URL", "")],
        agents: ANTHROPIC_AGENTS,
        test: ANTHROPIC_TEST,
        hosts: Hosts::Preset(HostPreset {
            name: "@anthropic",
            about: "the Anthropic API",
            hosts: &["api.anthropic.com:443"],
            read_only: false,
        }),
        usage: ANTHROPIC_USAGE,
        tools: ANTHROPIC_TOOLS,
    },
    Provider {
        name: "anthropic-subscription",
        api: "the Anthropic API",
        upstream: Upstream::Public("https://api.anthropic.com"),
        key: BEARER,
        login_keys: LoginKeys::None,
        // The API accepts the token of a subscription only with this feature.
        headers: &[Header {
            name: "anthropic-beta",
            value: "oauth-2025-04-20",
            merge: Merge::AddToList,
        }],
        routes: ANTHROPIC_ROUTES,
        key_variables: ANTHROPIC_KEYS,
        prefixes: &["ANTHROPIC_", "CLAUDE_"],
        passed_variables: &["ANTHROPIC_*"],
        addresses: &[("ANTHROPIC_BASE_URL", "")],
        agents: ANTHROPIC_AGENTS,
        test: ANTHROPIC_TEST,
        hosts: Hosts::None,
        usage: ANTHROPIC_USAGE,
        tools: ANTHROPIC_TOOLS,
    },
    Provider {
        name: "openai",
        api: "the OpenAI API",
        upstream: Upstream::Public("https://api.openai.com"),
        key: BEARER,
        login_keys: LoginKeys::None,
        headers: &[],
        routes: OPENAI_ROUTES,
        key_variables: OPENAI_KEYS,
        prefixes: &["OPENAI_", "CODEX_", "AZURE_OPENAI_"],
        passed_variables: &["OPENAI_*", "AZURE_OPENAI_*"],
        addresses: &[("OPENAI_BASE_URL", "/v1"), ("OPENAI_API_BASE", "/v1")],
        agents: &[
            AgentAddress { agent: "opencode", name: "openai", path: "/v1" },
            AgentAddress { agent: "codex", name: "OpenAI", path: "/v1" },
        ],
        test: TestRequest { path: "/v1/models", headers: &[] },
        hosts: Hosts::Preset(HostPreset {
            name: "@openai",
            about: "the OpenAI API and the Codex login",
            hosts: &["api.openai.com:443", "auth.openai.com:443", "chatgpt.com:443"],
            read_only: false,
        }),
        usage: OPENAI_USAGE,
        tools: OPENAI_TOOLS,
    },
    Provider {
        name: "openai-subscription",
        api: "the ChatGPT API",
        upstream: Upstream::Public("https://chatgpt.com/backend-api/codex"),
        key: BEARER,
        login_keys: LoginKeys::None,
        headers: &[],
        routes: CODEX_ROUTES,
        key_variables: OPENAI_KEYS,
        prefixes: &["OPENAI_", "CODEX_", "AZURE_OPENAI_"],
        passed_variables: &["OPENAI_*", "AZURE_OPENAI_*"],
        addresses: &[],
        agents: &[AgentAddress { agent: "codex", name: "OpenAI", path: "" }],
        test: TestRequest { path: "/models", headers: &[] },
        hosts: Hosts::None,
        usage: OPENAI_USAGE,
        tools: OPENAI_TOOLS,
    },
    Provider {
        name: "ollama",
        api: "Ollama",
        upstream: Upstream::Local("http://127.0.0.1:11434"),
        key: KeyHeader::None,
        login_keys: LoginKeys::None,
        headers: &[],
        routes: OLLAMA_ROUTES,
        key_variables: &["OLLAMA_API_KEY"],
        prefixes: &["OLLAMA_"],
        passed_variables: &["OLLAMA_*"],
        addresses: &[("OLLAMA_HOST", "")],
        agents: &[],
        test: TestRequest { path: "/api/version", headers: &[] },
        hosts: Hosts::None,
        usage: Usage { input: &["prompt_eval_count"], output: &["eval_count"], cached: &[] },
        tools: Tools {
            own: OwnTools::Some,
            client: &["function"],
            client_fields: &[],
            fields: &[],
        },
    },
    Provider {
        name: "gemini",
        api: "the Gemini API",
        upstream: Upstream::Public("https://generativelanguage.googleapis.com"),
        key: KeyHeader::Header { name: "x-goog-api-key", format: "{}" },
        login_keys: LoginKeys::None,
        headers: &[],
        routes: GEMINI_ROUTES,
        key_variables: &[
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "GOOGLE_GENAI_API_KEY",
            "GOOGLE_AI_API_KEY",
            "GEMINI_CLI_CUSTOM_HEADERS",
            "GOOGLE_CLOUD_ACCESS_TOKEN",
        ],
        prefixes: &["GEMINI_", "GOOGLE_GENAI_", "GOOGLE_GENERATIVE_AI_", "GOOGLE_AI_"],
        passed_variables: &[
            "GEMINI_*",
            "GOOGLE_API_KEY",
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "GOOGLE_GENAI_*",
        ],
        addresses: &[("GOOGLE_GEMINI_BASE_URL", "")],
        agents: &[
            AgentAddress { agent: "opencode", name: "google", path: "/v1beta" },
            AgentAddress { agent: "gemini", name: "gemini-api-key", path: "" },
        ],
        test: TestRequest { path: "/v1beta/models", headers: &[] },
        hosts: Hosts::None,
        usage: Usage {
            input: &["promptTokenCount"],
            output: &["candidatesTokenCount"],
            cached: &[],
        },
        tools: GEMINI_TOOLS,
    },
    Provider {
        name: "custom",
        api: "the server",
        upstream: Upstream::Configured,
        key: BEARER,
        login_keys: LoginKeys::None,
        headers: &[],
        routes: &["*"],
        key_variables: &[],
        prefixes: &[],
        passed_variables: &[],
        addresses: &[],
        agents: &[],
        test: TestRequest { path: "/", headers: &[] },
        hosts: Hosts::None,
        usage: Usage { input: &[], output: &[], cached: &[] },
        tools: Tools { own: OwnTools::None, client: &[], client_fields: &[], fields: &[] },
    },
];

/// Variables of model providers without a row. They reach the command.
pub(crate) const OTHER_VARIABLES: &[&str] = &[
    "AWS_BEARER_TOKEN_BEDROCK",
    "OPENROUTER_*",
    "MISTRAL_*",
    "CODESTRAL_*",
    "GROQ_*",
    "XAI_*",
    "DEEPSEEK_*",
    "TOGETHER_*",
    "FIREWORKS_*",
    "CEREBRAS_*",
    "COHERE_*",
    "PERPLEXITY_*",
    "MOONSHOT_*",
    "KIMI_*",
    "DASHSCOPE_*",
    "ZAI_*",
    "ZHIPU*",
    "MINIMAX_*",
    "LITELLM_*",
    "VOYAGE_*",
];

const BEARER: KeyHeader = KeyHeader::Header { name: "authorization", format: "Bearer {}" };

pub(super) const ANTHROPIC_KEYS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_REFRESH_TOKEN",
    "ANTHROPIC_OAUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "CLAUDE_API_KEY",
    "CLAUDE_CODE_API_KEY",
];
const ANTHROPIC_AGENTS: &[AgentAddress] =
    &[AgentAddress { agent: "opencode", name: "anthropic", path: "/v1" }];
const ANTHROPIC_TEST: TestRequest =
    TestRequest { path: "/v1/models", headers: &[("anthropic-version", "2023-06-01")] };
/// Requests to models. Files, batches, fine-tuning and account administration are not included.
const ANTHROPIC_ROUTES: &[&str] = &[
    "POST /v1/messages",
    "POST /v1/messages/count_tokens",
    "POST /v1/complete",
    "GET /v1/models",
    "GET /v1/models/*",
    "GET /",
];
const ANTHROPIC_USAGE: Usage = Usage {
    input: &["input_tokens"],
    output: &["output_tokens"],
    cached: &["cache_creation_input_tokens", "cache_read_input_tokens"],
};
const ANTHROPIC_TOOLS: Tools = Tools {
    own: OwnTools::Some,
    client: &[
        "custom",
        "bash",
        "text_editor",
        "computer",
        "memory",
        "tool_search_tool_regex",
        "tool_search_tool_bm25",
    ],
    client_fields: &[],
    fields: &["mcp_servers"],
};

const OPENAI_KEYS: &[&str] = &[
    "OPENAI_API_KEY",
    "CODEX_API_KEY",
    "CODEX_ACCESS_TOKEN",
    "OPENAI_ACCESS_TOKEN",
    "OPENAI_AUTH_TOKEN",
    "OPENAI_ADMIN_KEY",
    "OPENAI_KEY",
    "AZURE_OPENAI_API_KEY",
];
const OPENAI_ROUTES: &[&str] = &[
    "POST /v1/chat/completions",
    "POST /v1/completions",
    "* /v1/responses",
    "* /v1/responses/**",
    "POST /v1/embeddings",
    "POST /v1/moderations",
    "POST /v1/audio/**",
    "POST /v1/images/**",
    "* /v1/realtime",
    "GET /v1/models",
    "GET /v1/models/*",
];
const CODEX_ROUTES: &[&str] = &[
    "* /**/responses",
    "* /**/responses/**",
    "* /responses",
    "* /responses/**",
    "GET /**/models",
    "GET /models",
];
const OPENAI_USAGE: Usage = Usage {
    input: &["input_tokens", "prompt_tokens"],
    output: &["output_tokens", "completion_tokens"],
    cached: &[],
};
const OPENAI_TOOLS: Tools = Tools {
    own: OwnTools::Some,
    client: &[
        "function",
        "custom",
        "computer_use_preview",
        "local_shell",
        "apply_patch",
        "image_generation",
        "tool_search",
    ],
    client_fields: &[],
    fields: &["code_execution", "file_search", "retrieval"],
};

/// Requests to existing models. Pulling, pushing, copying and deleting models are not included.
const OLLAMA_ROUTES: &[&str] = &[
    "POST /api/chat",
    "POST /api/generate",
    "POST /api/embed",
    "POST /api/embeddings",
    "POST /api/show",
    "GET /api/tags",
    "GET /api/ps",
    "GET /api/version",
    "POST /v1/chat/completions",
    "POST /v1/completions",
    "POST /v1/embeddings",
    "POST /v1/responses",
    "POST /v1/messages",
    "GET /v1/models",
    "GET /v1/models/*",
    "GET /",
];

const GEMINI_ROUTES: &[&str] = &[
    "POST /v1*/models/*",
    "GET /v1*/models",
    "GET /v1*/models/*",
    "POST /v1*/openai/chat/completions",
    "POST /v1*/openai/embeddings",
    "GET /v1*/openai/models",
];
const GEMINI_TOOLS: Tools = Tools {
    own: OwnTools::Some,
    client: &[],
    client_fields: &["function_declarations", "computer_use"],
    fields: &[
        "google_search",
        "google_search_retrieval",
        "google_maps",
        "url_context",
        "code_execution",
        "file_search",
        "enterprise_web_search",
        "retrieval",
        "parallel_ai_search",
        "external_api",
    ],
};
