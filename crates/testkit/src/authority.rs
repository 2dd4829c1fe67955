//! A certificate authority of a test's own, and servers that it vouches for.

use std::net::TcpStream;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// An authority that nobody knows unless they are told.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Default for Authority {
    fn default() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names are no wrong names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Another name than that of the servers: OpenSSL takes them for the same otherwise.
        params.distinguished_name.push(DnType::CommonName, "an authority of a test");
        let key = KeyPair::generate().expect("a key can be made");
        Self(CertifiedIssuer::self_signed(params, key).expect("a key can sign itself"))
    }
}

impl Authority {
    /// What others have to know to believe it.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this name, and its key.
    fn sign(&self, name: &str) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key can be made");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name of a host");
        (params.signed_by(&key, &self.0).expect("an authority can sign"), key)
    }

    /// The same for programs that read them from files, as PEM.
    pub fn pem_for(&self, name: &str) -> (String, String) {
        let (certificate, key) = self.sign(name);
        (certificate.pem(), key.serialize_pem())
    }

    /// A server's proof that it has this name, for these protocols.
    pub fn vouch_for(&self, name: &str, protocols: &[&[u8]]) -> Identity {
        let (certificate, key) = self.sign(name);
        let private = PrivateKeyDer::try_from(key.serialize_der()).expect("a key that we made");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| {
                let config = config.with_no_client_auth();
                config.with_single_cert(vec![certificate.der().clone()], private)
            })
            .expect("a certificate with its own key");
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Identity(Arc::new(config))
    }
}

/// A server's certificate and key.
#[derive(Debug, Clone)]
pub struct Identity(Arc<ServerConfig>);

impl Identity {
    /// The server's side of a connection.
    pub fn accept(&self, stream: TcpStream) -> StreamOwned<ServerConnection, TcpStream> {
        let connection = ServerConnection::new(self.0.clone()).expect("a whole configuration");
        StreamOwned::new(connection, stream)
    }
}
