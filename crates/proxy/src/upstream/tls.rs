//! TLS towards servers: the system's own authorities, or those that `SSL_CERT_FILE` names.

use std::io;
use std::sync::{Arc, LazyLock};

use rustls::{ClientConfig, RootCertStore};

/// Settings for both kinds of HTTP, and for HTTP/1.1 alone, which WebSocket needs.
pub(super) struct Settings {
    pub any: Arc<ClientConfig>,
    pub http1: Arc<ClientConfig>,
}

/// Made when the first connection needs them: reading a system's authorities takes memory and time.
pub(super) fn settings() -> io::Result<&'static Settings> {
    static SETTINGS: LazyLock<Result<Settings, String>> = LazyLock::new(make);
    SETTINGS.as_ref().map_err(|error| io::Error::other(error.clone()))
}

fn make() -> Result<Settings, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("cannot set TLS up: {error}"))?
        .with_root_certificates(roots()?)
        .with_no_client_auth();
    let with = |protocols: &[&[u8]]| {
        let mut config = config.clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    };
    Ok(Settings { any: with(&[b"h2", b"http/1.1"]), http1: with(&[b"http/1.1"]) })
}

/// The system's, where it has some. A machine without any, such as a bare container, gets Mozilla's.
fn roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        // A file that was named but cannot be used is not replaced in silence.
        let named =
            |name: &str| std::env::vars_os().any(|(key, value)| key == name && !value.is_empty());
        if named("SSL_CERT_FILE") || named("SSL_CERT_DIR") {
            let why = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
            return Err(format!("`SSL_CERT_FILE` or `SSL_CERT_DIR` gives no authority{why}"));
        }
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    Ok(store)
}
