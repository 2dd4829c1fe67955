//! `proxy`: runs the credential proxy, or starts it in the background.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use sandbox_policy::Host;
use sandbox_policy::config::{self, Request};
use sandbox_protocol::Hint;
use sandbox_proxy::detach::{DetachError, detach};
use sandbox_proxy::dirs::ProxyDirs;
use sandbox_proxy::server::{self, Running, ServerError, Settings};
use sandbox_proxy::token::{Token, TokenError};
use thiserror::Error;

use crate::args::proxy::Proxy;
use crate::failed::{Failed, Outcome};
use crate::ui::Stdio as Ui;

const ADMIN_TOKEN: &str = "AGENT_SANDBOX_PROXY_ADMIN_TOKEN";

#[derive(Debug, Error)]
enum ProxyError {
    #[error("no home directory for the proxy's files")]
    NoHome,
    #[error("`--admin-listen` needs a token in `{ADMIN_TOKEN}`")]
    NoAdminToken,
    #[error("invalid token in `{ADMIN_TOKEN}`")]
    AdminToken(#[source] TokenError),
    #[error(transparent)]
    Detach(#[from] DetachError),
    #[error(transparent)]
    Server(#[from] ServerError),
}

impl Hint for ProxyError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoHome => Some("set `HOME`".into()),
            Self::NoAdminToken | Self::AdminToken(_) => {
                Some(format!("{ADMIN_TOKEN}=$(openssl rand -hex 32) agent-sandbox proxy …"))
            }
            Self::Server(error) => error.hint(),
            Self::Detach(_) => {
                Some("run `agent-sandbox proxy` in the foreground to see the error".into())
            }
        }
    }
}

/// Runs the proxy.
pub(crate) fn run(proxy: &Proxy, host: &Host, io: &mut Ui<'_>) -> Outcome {
    let dirs = ProxyDirs::of(host).ok_or(ProxyError::NoHome)?;
    if proxy.detach {
        detach(&dirs, &host.exe, &background(proxy)).map_err(ProxyError::from)?;
        return Ok(0);
    }
    let settings = Settings {
        admin: admin(proxy, host)?,
        listen: listen(proxy, host)?,
        on_demand: proxy.background,
        source: Arc::new(sandbox_launch::credentials::sources(host)?),
        say: complain,
        dirs: dirs.clone(),
    };
    server::run(&settings, |running| announce(running, &dirs, io)).map_err(ProxyError::from)?;
    Ok(0)
}

/// Returns the addresses of `--listen`, else of the configuration. A proxy that a sandbox started listens on none.
fn listen(proxy: &Proxy, host: &Host) -> Result<Vec<SocketAddr>, Failed> {
    if proxy.background || !proxy.listen.is_empty() {
        return Ok(proxy.listen.clone());
    }
    let config = config::load(host, &Request::default())?;
    let addr = config.session.proxy.and_then(|proxy| proxy.value.addr);
    Ok(addr.map(|addr| addr.0).into_iter().collect())
}

fn admin(proxy: &Proxy, host: &Host) -> Result<Option<(SocketAddr, Token)>, ProxyError> {
    let Some(address) = proxy.admin_listen else { return Ok(None) };
    let token =
        host.var(ADMIN_TOKEN).and_then(|value| value.to_str()).ok_or(ProxyError::NoAdminToken)?;
    Ok(Some((address, Token::parse(token).map_err(ProxyError::AdminToken)?)))
}

fn announce(running: &Running, dirs: &ProxyDirs, io: &mut Ui<'_>) {
    for address in &running.listening {
        io.say(&format!("listening on http://{address}"));
    }
    if let Some(address) = running.admin {
        io.say(&format!("admin API on http://{address}"));
    }
    io.say(&format!("admin socket at {}", dirs.admin().display()));
}

/// Prints an error that cannot be reported to a client.
fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "agent-sandbox proxy: {what}");
}

/// Returns the arguments of the background process.
fn background(proxy: &Proxy) -> Vec<String> {
    let mut arguments = vec!["proxy".to_owned(), "--background".to_owned()];
    let listen = proxy.listen.iter().map(|address| ("--listen", address));
    let admin = proxy.admin_listen.iter().map(|address| ("--admin-listen", address));
    for (flag, address) in listen.chain(admin) {
        arguments.extend([flag.to_owned(), address.to_string()]);
    }
    arguments
}
