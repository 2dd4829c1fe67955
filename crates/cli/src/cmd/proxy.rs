//! `proxy`: runs the credential proxy, or starts it in the background.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox_policy::Host;
use sandbox_policy::config::{self, Request};
use sandbox_protocol::Hint;
use sandbox_proxy::client::Client;
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
    #[error("there is no home directory to keep the proxy's files in")]
    NoHome,
    #[error("`--admin-listen` needs a token, and `{ADMIN_TOKEN}` has none")]
    NoAdminToken,
    #[error("`{ADMIN_TOKEN}` is no token")]
    AdminToken(#[source] TokenError),
    #[error("cannot start the proxy in the background")]
    Detach(#[source] io::Error),
    #[error("the proxy in the background ended at once: {0}")]
    Ended(String),
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
            Self::Detach(_) | Self::Ended(_) => {
                Some("run `agent-sandbox proxy` and see what it says".into())
            }
        }
    }
}

/// Runs the proxy.
pub(crate) fn run(proxy: &Proxy, host: &Host, io: &mut Ui<'_>) -> Outcome {
    let place = ProxyDirs::of(host).ok_or(ProxyError::NoHome)?;
    if proxy.detach {
        detach(proxy, &place, host)?;
        return Ok(0);
    }
    let settings = Settings {
        admin: admin(proxy, host)?,
        listen: listen(proxy, host)?,
        on_demand: proxy.background,
        source: Arc::new(sandbox_launch::credentials::sources(host)?),
        say: complain,
        dirs: place.clone(),
    };
    server::run(&settings, |running| announce(running, &place, io)).map_err(ProxyError::from)?;
    Ok(0)
}

/// Where it was told to listen, or else where the configuration says. One in the background is for sandboxes.
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

fn announce(running: &Running, place: &ProxyDirs, io: &mut Ui<'_>) {
    for address in &running.listening {
        io.say(&format!("listening at http://{address}"));
    }
    if let Some(address) = running.admin {
        io.say(&format!("admin interface at http://{address}"));
    }
    io.say(&format!("admin socket at {}", place.admin().display()));
}

/// Trouble that no client can be told of.
fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "agent-sandbox proxy: {what}");
}

/// Starts this program again, and waits until it can be used.
fn detach(proxy: &Proxy, place: &ProxyDirs, host: &Host) -> Result<(), ProxyError> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let client = Client::new(place);
    if client.health().is_ok() {
        return Ok(());
    }
    place.prepare().map_err(ProxyError::Detach)?;
    let mut child = background(proxy, place, host).map_err(ProxyError::Detach)?;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if client.health().is_ok() {
            return Ok(());
        }
        // One that lost the race to another is no failure: that other one answers next.
        if let Ok(Some(status)) = child.try_wait() {
            let late = Instant::now() + Duration::from_secs(1);
            while Instant::now() < late {
                if client.health().is_ok() {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let log = std::fs::read_to_string(place.log()).unwrap_or_default();
            return Err(ProxyError::Ended(format!("{status}: {}", log.trim())));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Err(ProxyError::Ended("it does not answer".into()))
}

fn background(proxy: &Proxy, place: &ProxyDirs, host: &Host) -> io::Result<Child> {
    // What the caller has open is not for a process that outlives it.
    sandbox_linux::fd::close_all_on_exec()?;
    let log =
        OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(place.log())?;
    let mut command = sandbox_linux::process::command(&host.exe);
    command.args(["proxy", "--background"]);
    for address in &proxy.listen {
        command.args(["--listen", &address.to_string()]);
    }
    if let Some(address) = proxy.admin_listen {
        command.args(["--admin-listen", &address.to_string()]);
    }
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()
}
