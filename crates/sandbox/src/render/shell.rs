//! Rendering of a plan as a bash command line, which `--dry-run` prints.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sandbox_linux::escape::visible;

use super::bwrap::{self, Arguments, Data, Word};
use super::find::find;
use crate::plan::Plan;
use sandbox_policy::host::Host;

/// First descriptor that shells do not use internally.
const FIRST_DESCRIPTOR: usize = 10;

/// Returns a command line that can be pasted into bash. Data for a descriptor appears as a redirection.
pub fn line(plan: &Plan, host: &Host) -> String {
    let program =
        find(host, Some(plan)).map_or_else(|_| "bwrap".into(), |bwrap| bwrap.path.into_os_string());
    let Arguments { words, data } = bwrap::arguments(plan);
    let mut text = environment(plan, host);
    text.push_str(&quote(&program));
    // `--perms` belongs to the option that follows it.
    let mut belongs = false;
    for word in &words {
        let (word, is_option) = match word {
            Word::Text(word) => (quote(word), word.as_bytes().starts_with(b"--")),
            Word::Data(index) => ((FIRST_DESCRIPTOR + index).to_string(), false),
        };
        let _ = write!(text, "{}{word}", if is_option && !belongs { " \\\n  " } else { " " });
        belongs = word == "--perms" || (belongs && !is_option);
    }
    text.push_str(" \\\n  --");
    plan.command.iter().for_each(|word| {
        let _ = write!(text, " {}", quote(word));
    });
    for (index, data) in data.iter().enumerate() {
        let _ = write!(text, " \\\n  {}", redirection(FIRST_DESCRIPTOR + index, data));
    }
    text.push('\n');
    text.push_str(&limits(plan));
    text
}

/// Renders the environment as `env` in front of bubblewrap. `ps` would show the values of `--setenv`.
fn environment(plan: &Plan, host: &Host) -> String {
    let mut text = String::from("env");
    for name in host.env.keys().filter(|name| !plan.environment.set.contains_key(*name)) {
        let _ = write!(text, " -u {}", quote(name));
    }
    for (name, value) in
        plan.environment.set.iter().filter(|(name, value)| host.env.get(*name) != Some(*value))
    {
        let mut pair = OsString::from(name);
        pair.push("=");
        pair.push(value);
        let _ = write!(text, " {}", quote(&pair));
    }
    text.push_str(" \\\n");
    text
}

fn redirection(number: usize, data: &Data) -> String {
    match std::str::from_utf8(&data.content) {
        Ok("") => format!("{number}</dev/null"),
        Ok(text) if !text.contains('\0') => {
            format!("{number}< <(printf %s {})", quote(OsStr::new(text)))
        }
        _ => format!("{number}< <(base64 -d <<<{})", STANDARD.encode(&data.content)),
    }
}

/// Lists as comments what bubblewrap's arguments cannot express.
fn limits(plan: &Plan) -> String {
    let mut text = String::from("# not part of this command; agent-sandbox also does this:\n");
    text.push_str(
        "# - closes all descriptors except 0, 1 and 2, and refuses directories among those\n",
    );
    text.push_str(
        "# - confines abstract sockets and signals with Landlock, on Linux 6.12 and later\n",
    );
    if let Some(overlay) = &plan.home_overlay {
        let (dir, missing) = (overlay.dir.display(), overlay.missing.len());
        let _ = writeln!(
            text,
            "# - hides {missing} more paths that do not exist yet, and all sockets, by an overlay on {dir}"
        );
    }
    if plan.egress.is_some() {
        text.push_str(
            "# - serves the proxy on port 3128 of the sandbox's loopback; it connects to the allowed hosts only\n",
        );
    }
    for root in plan.cow.iter().flat_map(|cow| &cow.roots) {
        let place = quote(root.target.as_os_str());
        let _ = writeln!(
            text,
            "# - makes {place} writable: changes go into a layer (read-only with bubblewrap alone)"
        );
    }
    text.push_str("# - provides a description of this plan for `why` inside\n");
    text.push_str("# - forwards INT and TERM to the command and kills it after ten seconds\n");
    text.push_str("# - moves planted git internals aside after the run\n");
    text
}

/// Quotes a word for bash.
pub fn quote(word: &OsStr) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./,:=@%+".contains(byte);
    match word.to_str() {
        Some(text) if !text.is_empty() && text.bytes().all(|byte| plain(&byte)) => text.to_owned(),
        Some(text) if !text.chars().any(char::is_control) && visible(text) == text => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        _ => format!("$'{}'", word.as_bytes().iter().map(|byte| escape(*byte)).collect::<String>()),
    }
}

/// Escapes one byte for use between `$'` and `'`.
fn escape(byte: u8) -> String {
    match byte {
        b'\n' => "\\n".into(),
        b'\t' => "\\t".into(),
        b'\'' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).into(),
        _ => format!("\\x{byte:02x}"),
    }
}
