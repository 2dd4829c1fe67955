//! Certificate authority for tests, and server certificates signed by it.

use std::net::TcpStream;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Certificate authority that no system trusts.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Default for Authority {
    fn default() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("empty subject names are valid");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL treats a certificate as self-signed when its issuer has the same name.
        params.distinguished_name.push(DnType::CommonName, "test authority");
        let key = KeyPair::generate().expect("cannot generate a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("cannot self-sign the authority"))
    }
}

impl Authority {
    /// Returns the authority's certificate, for clients that should trust it.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Creates a certificate for this host name, and its key.
    fn sign(&self, name: &str) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().expect("cannot generate a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("invalid host name");
        (params.signed_by(&key, &self.0).expect("cannot sign the certificate"), key)
    }

    /// Returns a certificate and its key as PEM.
    pub fn pem_for(&self, name: &str) -> (String, String) {
        let (certificate, key) = self.sign(name);
        (certificate.pem(), key.serialize_pem())
    }

    /// Creates a server identity with this host name, for these ALPN protocols.
    pub fn vouch_for(&self, name: &str, protocols: &[&[u8]]) -> Identity {
        let (certificate, key) = self.sign(name);
        let private = PrivateKeyDer::try_from(key.serialize_der()).expect("invalid generated key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| {
                let config = config.with_no_client_auth();
                config.with_single_cert(vec![certificate.der().clone()], private)
            })
            .expect("certificate does not match its key");
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Identity(Arc::new(config))
    }
}

/// A server's certificate and key.
#[derive(Debug, Clone)]
pub struct Identity(Arc<ServerConfig>);

impl Identity {
    /// Starts the server side of a TLS connection.
    pub fn accept(&self, stream: TcpStream) -> StreamOwned<ServerConnection, TcpStream> {
        let connection = ServerConnection::new(self.0.clone()).expect("invalid TLS configuration");
        StreamOwned::new(connection, stream)
    }
}
