//! The logins of agents on this machine. They are read each time, never copied: the agent on the host
//! renews them, and it alone does, so that nothing logs it out.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::Login;
use crate::credential::{Resolved, Secret};

/// Where an agent keeps its login.
pub(super) fn file(login: Login, home: &Path) -> PathBuf {
    match login {
        Login::Claude => home.join(".claude/.credentials.json"),
        Login::Codex => home.join(".codex/auth.json"),
    }
}

/// What has to be run for a new one.
pub(super) fn remedy(login: Login) -> &'static str {
    match login {
        Login::Claude => {
            "start `claude` on the host once, outside the sandbox; or `claude setup-token`"
        }
        Login::Codex => "run `codex login` on the host, outside the sandbox",
    }
}

/// The token in the file, what must be said with it, and when it ends.
pub(super) fn token(login: Login, text: &str) -> Option<Resolved> {
    let content: Value = serde_json::from_str(text).ok()?;
    match login {
        Login::Claude => claude(&content["claudeAiOauth"]),
        Login::Codex => codex(&content["tokens"]),
    }
}

fn claude(login: &Value) -> Option<Resolved> {
    let value = Secret::from(login["accessToken"].as_str()?.to_owned());
    let expires =
        login["expiresAt"].as_u64().map(|ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms));
    Some(Resolved { value, headers: Vec::new(), expires })
}

fn codex(login: &Value) -> Option<Resolved> {
    let token = login["access_token"].as_str()?;
    let account =
        login["account_id"].as_str().map(|id| ("chatgpt-account-id".to_owned(), id.to_owned()));
    Some(Resolved {
        value: Secret::from(token.to_owned()),
        headers: account.into_iter().collect(),
        expires: ends(token),
    })
}

/// The `exp` of a JSON web token. Nobody relies on it: the server decides.
fn ends(token: &str) -> Option<SystemTime> {
    let claims = base64url(token.split('.').nth(1)?)?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(claims["exp"].as_u64()?))
}

fn base64url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let digit = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_read_as_the_agents_write_them() {
        let claude = r#"{"claudeAiOauth":{"accessToken":"sk-ant-oat01-x","refreshToken":"r","expiresAt":1700000000500}}"#;
        let token = token(Login::Claude, claude).unwrap();
        assert_eq!(token.value.expose(), "sk-ant-oat01-x");
        assert_eq!(
            token.expires.unwrap(),
            SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_500)
        );
        // {"alg":"none"}.{"exp":1700000000}
        let jwt = "eyJhbGciOiJub25lIn0.eyJleHAiOjE3MDAwMDAwMDB9.";
        let codex = format!(r#"{{"tokens":{{"access_token":"{jwt}","account_id":"acc"}}}}"#);
        let token = super::token(Login::Codex, &codex).unwrap();
        assert_eq!(
            token.expires.unwrap(),
            SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
        );
        assert_eq!(token.headers, [("chatgpt-account-id".to_owned(), "acc".to_owned())]);
        for wrong in ["", "{}", r#"{"tokens":{"access_token":7}}"#, "[]"] {
            assert!(
                super::token(Login::Codex, wrong).is_none()
                    && super::token(Login::Claude, wrong).is_none()
            );
        }
    }
}
