//! `serve`: serves the session API over HTTP.

use sandbox_policy::Host;
use sandbox_sessions::API_TOKEN;
use sandbox_sessions::http::{self, LogEntry, Settings};

use super::{service, up};
use crate::args::sessions::Serve;
use crate::failed::{Failed, Outcome};
use crate::ui::{Stdio, Tone, visible};

/// Shortest allowed token, because a shorter one can be guessed.
const SHORTEST: usize = 32;

/// Serves until a signal.
pub(crate) fn run(serve: &Serve, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    if serve.openapi {
        crate::cmd::json(&http::document(), io);
        return Ok(0);
    }
    // Creates and checks the directory of the socket.
    let data_dir = service::make(host)?.data_dir().clone();
    let socket = serve.socket.clone().unwrap_or_else(|| data_dir.path().join("api.sock"));
    let tcp = serve.listen.map(|address| token(host).map(|token| (address, token))).transpose()?;
    let settings = Settings {
        host: host.clone(),
        data_dir,
        log: Box::new(log),
        socket: socket.clone(),
        tcp,
        sessions: serve.max_sessions,
        search_path: host.var("PATH").unwrap_or_default().to_owned(),
    };
    let told = |bound: Option<std::net::SocketAddr>| {
        io.say(&format!("serving at {}", socket.display()));
        if let Some(bound) = bound {
            io.say(&format!("serving at http://{bound}"));
        }
    };
    http::run(settings, told)?;
    Ok(0)
}

fn token(host: &Host) -> Result<String, Failed> {
    let token = host.var(API_TOKEN).and_then(|token| token.to_str()).unwrap_or_default();
    if token.len() >= SHORTEST && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(token.to_owned());
    }
    let mut failed = Failed::usage(format!(
        "`--listen` needs a token of at least {SHORTEST} characters in `{API_TOKEN}`"
    ));
    failed.hint =
        Some(format!("{API_TOKEN}=$(openssl rand -hex 32) agent-sandbox serve --listen …"));
    Err(failed)
}

/// Writes an entry of the server's log.
fn log(entry: &LogEntry) {
    let io = &mut Stdio::real();
    match entry {
        LogEntry::Notice(notice) => up::tell_notice(notice, io),
        LogEntry::Warning(text) => io.labelled(Tone::Warning, "warning", &visible(text)),
    }
}
