//! Logins of agents, read from the agents' files each time. A copy would become invalid when the agent renews its
//! login.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use zeroize::Zeroizing;

use crate::credential::{Resolved, Secret};
use sandbox_policy::catalog::Login;
use sandbox_policy::catalog::agent::LoginFormat;

/// Returns the file of a login.
pub(super) fn file(login: &Login, home: &Path) -> PathBuf {
    home.join(login.file.in_home())
}

/// Returns the token in the file, with its headers and expiry.
pub(super) fn token(login: &Login, text: &str) -> Option<Resolved> {
    let content: Value = serde_json::from_str(text).ok()?;
    match login.format {
        LoginFormat::ClaudeCode => claude(&content["claudeAiOauth"]),
        LoginFormat::Codex => codex(&content["tokens"]),
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

/// Returns the refresh token.
pub(super) fn refresh(login: &Login, content: &Value) -> Option<Zeroizing<String>> {
    let token = match login.format {
        LoginFormat::ClaudeCode => &content["claudeAiOauth"]["refreshToken"],
        LoginFormat::Codex => &content["tokens"]["refresh_token"],
    };
    token.as_str().filter(|token| !token.is_empty()).map(|token| Zeroizing::new(token.to_owned()))
}

/// Merges a provider's response into the file's content. Changes nothing if the response is invalid.
pub(super) fn renewed(login: &Login, content: &mut Value, answer: &Value) -> Option<()> {
    let access = answer["access_token"].as_str().filter(|token| is_token(token))?;
    let optional = |name: &str| match &answer[name] {
        Value::Null => Some(None),
        Value::String(token) if is_token(token) => Some(Some(token.clone())),
        _ => None,
    };
    let (refresh, id) = (optional("refresh_token")?, optional("id_token")?);
    match login.format {
        LoginFormat::ClaudeCode => {
            let seconds = answer["expires_in"].as_u64()?;
            let end = SystemTime::now().checked_add(Duration::from_secs(seconds))?;
            let end = end.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis();
            let end = u64::try_from(end).ok()?;
            let login = content.get_mut("claudeAiOauth")?.as_object_mut()?;
            login.insert("accessToken".into(), access.into());
            login.insert("expiresAt".into(), end.into());
            login.extend(refresh.map(|token| ("refreshToken".to_owned(), token.into())));
        }
        LoginFormat::Codex => {
            let tokens = content.get_mut("tokens")?.as_object_mut()?;
            tokens.insert("access_token".into(), access.into());
            tokens.extend(refresh.map(|token| ("refresh_token".to_owned(), token.into())));
            tokens.extend(id.map(|token| ("id_token".to_owned(), token.into())));
            content["last_refresh"] = crate::audit::rfc3339(SystemTime::now()).into();
        }
    }
    Some(())
}

/// Returns true when a header can carry the text.
fn is_token(text: &str) -> bool {
    (8..=16 << 10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns the `exp` claim of a JWT. It is only a hint, because the server decides.
fn ends(token: &str) -> Option<SystemTime> {
    let claims = crate::base64_secret::decode(token.split('.').nth(1)?)?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(claims["exp"].as_u64()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claude() -> &'static Login {
        Login::named("claude").unwrap()
    }

    fn codex() -> &'static Login {
        Login::named("codex").unwrap()
    }

    #[test]
    fn renewed_merges_a_whole_response_or_nothing() {
        use serde_json::json;
        let sent = json!({ "claudeAiOauth": { "accessToken": "a", "refreshToken": "r", "expiresAt": 1, "scopes": ["s"] }, "other": 1 });
        let mut content = sent.clone();
        let answer = json!({ "access_token": "new-access", "refresh_token": "new-refresh", "expires_in": 3600 });
        renewed(claude(), &mut content, &answer).unwrap();
        assert_eq!(content["claudeAiOauth"]["accessToken"], "new-access");
        assert_eq!(content["claudeAiOauth"]["refreshToken"], "new-refresh");
        assert_eq!(
            (&content["claudeAiOauth"]["scopes"], &content["other"]),
            (&json!(["s"]), &json!(1))
        );
        assert!(content["claudeAiOauth"]["expiresAt"].as_u64().unwrap() > 1_700_000_000_000);
        let mut tokens = json!({ "OPENAI_API_KEY": null, "tokens": { "access_token": "a", "refresh_token": "r", "account_id": "acc" } });
        renewed(
            codex(),
            &mut tokens,
            &json!({ "access_token": "new-access", "id_token": "new-identity" }),
        )
        .unwrap();
        let expected = json!({ "access_token": "new-access", "refresh_token": "r", "id_token": "new-identity", "account_id": "acc" });
        assert_eq!(tokens["tokens"], expected);
        for wrong in [
            json!({}),
            json!([]),
            json!({ "access_token": "new-access" }),
            json!({ "access_token": "", "expires_in": 1 }),
            json!({ "access_token": "new\naccess", "expires_in": 1 }),
            json!({ "access_token": "new-access", "refresh_token": 7, "expires_in": 1 }),
            json!({ "access_token": "new-access", "refresh_token": "", "expires_in": 1 }),
            json!({ "access_token": "new-access", "expires_in": u64::MAX }),
        ] {
            let mut content = sent.clone();
            assert_eq!(renewed(claude(), &mut content, &wrong), None, "{wrong}");
            assert_eq!(content, sent, "{wrong}");
        }
    }

    #[test]
    fn logins_are_read_as_the_agents_write_them() {
        let text = r#"{"claudeAiOauth":{"accessToken":"sk-ant-oat01-x","refreshToken":"r","expiresAt":1700000000500}}"#;
        let token = token(claude(), text).unwrap();
        assert_eq!(token.value.expose(), "sk-ant-oat01-x");
        assert_eq!(
            token.expires.unwrap(),
            SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_500)
        );
        // {"alg":"none"}.{"exp":1700000000}
        let jwt = "eyJhbGciOiJub25lIn0.eyJleHAiOjE3MDAwMDAwMDB9.";
        let text = format!(r#"{{"tokens":{{"access_token":"{jwt}","account_id":"acc"}}}}"#);
        let token = super::token(codex(), &text).unwrap();
        assert_eq!(
            token.expires.unwrap(),
            SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
        );
        assert_eq!(token.headers, [("chatgpt-account-id".to_owned(), "acc".to_owned())]);
        for wrong in ["", "{}", r#"{"tokens":{"access_token":7}}"#, "[]"] {
            assert!(
                super::token(codex(), wrong).is_none() && super::token(claude(), wrong).is_none()
            );
        }
    }
}
