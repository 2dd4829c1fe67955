//! Table of the variables by which programs find a proxy. There is no standard: these are the variables that the programs
//! used by agents read. Loopback is private to the sandbox and needs no proxy.

/// Value of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    /// `http://127.0.0.1:3128`.
    Url,
    /// `127.0.0.1:3128`.
    Address,
    /// The hosts that need no proxy.
    Direct,
    /// This text.
    Text(&'static str),
}

const URL: &str = "http://127.0.0.1:3128";
const DIRECT: &str = "localhost,127.0.0.1,::1";
const JAVA: &str = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 \
    -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128 -Dhttp.nonProxyHosts=localhost|127.*|[::1]";

/// Proxy variables and their values. `ALL_PROXY` is not a SOCKS address, although the port speaks SOCKS too: some HTTP
/// libraries refuse to start with one if an optional package is missing.
const VARIABLES: &[(&str, Value)] = &[
    ("HTTP_PROXY", Value::Url),
    ("http_proxy", Value::Url),
    ("HTTPS_PROXY", Value::Url),
    ("https_proxy", Value::Url),
    ("ALL_PROXY", Value::Url),
    ("all_proxy", Value::Url),
    ("WS_PROXY", Value::Url),
    ("ws_proxy", Value::Url),
    ("WSS_PROXY", Value::Url),
    ("wss_proxy", Value::Url),
    ("NO_PROXY", Value::Direct),
    ("no_proxy", Value::Direct),
    // gRPC.
    ("GRPC_PROXY", Value::Url),
    ("grpc_proxy", Value::Url),
    ("no_grpc_proxy", Value::Direct),
    // Node: `fetch` and `http` read the variables only with this one (since 22.21 and 24).
    ("NODE_USE_ENV_PROXY", Value::Text("1")),
    ("npm_config_proxy", Value::Url),
    ("npm_config_https_proxy", Value::Url),
    ("npm_config_noproxy", Value::Direct),
    ("YARN_HTTP_PROXY", Value::Url),
    ("YARN_HTTPS_PROXY", Value::Url),
    ("ELECTRON_GET_USE_PROXY", Value::Text("1")),
    ("PIP_PROXY", Value::Url),
    ("CARGO_HTTP_PROXY", Value::Url),
    ("JAVA_TOOL_OPTIONS", Value::Text(JAVA)),
    ("RSYNC_PROXY", Value::Address),
    ("CLOUDSDK_PROXY_TYPE", Value::Text("http")),
    ("CLOUDSDK_PROXY_ADDRESS", Value::Text("127.0.0.1")),
    ("CLOUDSDK_PROXY_PORT", Value::Text("3128")),
];

/// Returns the names and values.
pub fn proxy_variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    VARIABLES.iter().map(|(name, value)| {
        let value = match value {
            Value::Url => URL,
            Value::Address => URL.trim_start_matches("http://"),
            Value::Direct => DIRECT,
            Value::Text(text) => text,
        };
        (*name, value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::PROXY_PORT;

    #[test]
    fn variables_contain_the_port_of_the_proxy() {
        for (name, value) in proxy_variables() {
            let names_a_port = value.contains("31") || value.contains(':');
            let right = value.contains(&PROXY_PORT.to_string()) || value == DIRECT;
            assert!(!names_a_port || right, "{name}={value}");
        }
    }
}
