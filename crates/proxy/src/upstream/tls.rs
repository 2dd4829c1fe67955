//! TLS settings for connections to servers. Trusts the system's certificate authorities, or those in `SSL_CERT_FILE`.

use std::io;
use std::sync::{Arc, LazyLock};

use rustls::{ClientConfig, RootCertStore};

/// Settings with HTTP/2 and HTTP/1.1, and with HTTP/1.1 only, which WebSockets need.
pub(super) struct Settings {
    pub any: Arc<ClientConfig>,
    pub http1: Arc<ClientConfig>,
}

/// Returns the settings. They are created at first use, because loading the system's authorities is expensive.
pub(super) fn settings() -> io::Result<&'static Settings> {
    static SETTINGS: LazyLock<Result<Settings, String>> = LazyLock::new(make);
    SETTINGS.as_ref().map_err(|error| io::Error::other(error.clone()))
}

fn make() -> Result<Settings, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("cannot set up TLS: {error}"))?
        .with_root_certificates(roots()?)
        .with_no_client_auth();
    let with = |protocols: &[&[u8]]| {
        let mut config = config.clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    };
    Ok(Settings { any: with(&[b"h2", b"http/1.1"]), http1: with(&[b"http/1.1"]) })
}

/// Returns the system's authorities, or Mozilla's if there are none, as in a minimal container.
fn roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        // Do not ignore a configured file that is not usable.
        let named =
            |name: &str| std::env::vars_os().any(|(key, value)| key == name && !value.is_empty());
        if named("SSL_CERT_FILE") || named("SSL_CERT_DIR") {
            let why = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
            return Err(format!(
                "found no certificate authority in `SSL_CERT_FILE` or `SSL_CERT_DIR`{why}"
            ));
        }
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    Ok(store)
}
