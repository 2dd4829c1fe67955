//! Public keys of SSH hosts.

use std::fmt;

/// Key types of OpenSSH that are accepted for a host.
const KINDS: [&str; 5] =
    ["ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa"];

/// A public key: its type and its Base64 body, without the comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey(String);

impl PublicKey {
    /// Parses a line of a `.pub` file.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (kind, body) = (words.next()?, words.next()?);
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        // Every body begins with the length of the type, as four bytes: RFC 4253, 6.6.
        let is_key = KINDS.contains(&kind) && body.starts_with("AAAA") && body.bytes().all(letters);
        is_key.then(|| Self(format!("{kind} {body}")))
    }

    /// Returns the line of `known_hosts` for a host with this key.
    pub fn known_host(&self, host: &str, port: u16) -> String {
        if port == 22 { format!("{host} {self}\n") } else { format!("[{host}]:{port} {self}\n") }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_keys_are_read_without_their_comments_and_nothing_else_is() {
        let key = PublicKey::parse("ssh-ed25519 AAAAC3Nz+/= root@host\n").unwrap();
        assert_eq!(key.known_host("h", 22), "h ssh-ed25519 AAAAC3Nz+/=\n");
        assert_eq!(key.known_host("h", 2222), "[h]:2222 ssh-ed25519 AAAAC3Nz+/=\n");
        for text in ["", "ssh-ed25519", "ssh-ed25519 x", "ssh-dss AAAAB3", "@cert-authority * AAAA"]
        {
            assert_eq!(PublicKey::parse(text), None, "{text}");
        }
    }
}
