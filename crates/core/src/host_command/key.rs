//! Keys of SSH as text: which host is believed, and whom it lets in.

use std::fmt;

/// Kinds of keys that a host may have.
const KINDS: [&str; 5] =
    ["ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa"];
/// What sshd starts for a key, whatever was asked for.
pub(super) const FORCED_COMMAND: &str = "/usr/local/sbin/miclaw-cmd-wrapper";

/// A public key: its kind and its letters, without a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey(String);

impl PublicKey {
    /// A line of a `.pub` file.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (kind, body) = (words.next()?, words.next()?);
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        // Every body begins with the length of its kind, a small number of four bytes.
        let is_key = KINDS.contains(&kind) && body.starts_with("AAAA") && body.bytes().all(letters);
        is_key.then(|| Self(format!("{kind} {body}")))
    }

    /// The line of `known_hosts` that believes a host with this key.
    pub fn known_host(&self, host: &str, port: u16) -> String {
        if port == 22 { format!("{host} {self}\n") } else { format!("[{host}]:{port} {self}\n") }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The line of `authorized_keys` that lets a key in to the forced command, and to nothing else.
pub fn authorized_line(
    key: &str,
    from: Option<&str>,
    expires: Option<&str>,
) -> Result<String, String> {
    let key = key.trim();
    let plain = |c: char| c.is_ascii_graphic() || c == ' ';
    if !key.starts_with("ssh-") && !key.starts_with("ecdsa-") || !key.chars().all(plain) {
        return Err("the key file holds no public key".into());
    }
    let mut options = format!("restrict,command=\"{FORCED_COMMAND}\"");
    if let Some(from) = from {
        if !from.chars().all(|c| c.is_ascii_graphic() && c != '"' && c != '\\') {
            return Err(format!("`{from}` is no list of addresses"));
        }
        options.extend([",from=\"", from, "\""]);
    }
    if let Some(expires) = expires {
        if ![8, 12, 14].contains(&expires.len())
            || !expires.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Err(format!("`{expires}` is no time such as 20270131"));
        }
        options.extend([",expiry-time=\"", expires, "\""]);
    }
    Ok(format!("{options} {key}\n"))
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
