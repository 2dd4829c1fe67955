//! A plan as a command line for bash, which `--dry-run` prints.

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

/// The first descriptor that shells leave alone.
const FIRST_DESCRIPTOR: usize = 10;

/// Returns a line that can be pasted into bash. What goes by descriptor appears as a redirection.
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
    text.push_str(&beyond(plan));
    text
}

/// The environment is changed around bubblewrap and not by `--setenv`, which `ps` would show.
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

/// What bubblewrap's arguments cannot say.
fn beyond(plan: &Plan) -> String {
    let mut text = String::from("# beyond this line, and only when agent-sandbox runs it:\n");
    text.push_str(
        "# - all descriptors but 0, 1 and 2 are closed; none of them may be a directory\n",
    );
    text.push_str(
        "# - Landlock keeps abstract sockets and signals inside, where the kernel can (6.12)\n",
    );
    if let Some(overlay) = &plan.home_overlay {
        let (dir, missing) = (overlay.dir.display(), overlay.missing.len());
        let _ = writeln!(
            text,
            "# - an overlay on {dir} hides {missing} more paths that do not exist yet, and every socket in it"
        );
    }
    if plan.egress.is_some() {
        text.push_str(
            "# - the proxy serves port 3128 of the sandbox's own loopback: only the allowed hosts are reached\n",
        );
    }
    for root in plan.cow.iter().flat_map(|cow| &cow.roots) {
        let place = quote(root.target.as_os_str());
        let _ = writeln!(
            text,
            "# - {place} is writable: changes go into a layer (bubblewrap alone shows it read-only)"
        );
    }
    text.push_str("# - `why` inside answers from a description of this plan\n");
    text.push_str("# - INT and TERM reach the command, which has ten seconds to end\n");
    text.push_str("# - planted git internals are moved aside at the end of the run\n");
    text
}

/// Quotes a word, such that bash reads it back.
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

/// One byte between `$'` and `'`.
fn escape(byte: u8) -> String {
    match byte {
        b'\n' => "\\n".into(),
        b'\t' => "\\t".into(),
        b'\'' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).into(),
        _ => format!("\\x{byte:02x}"),
    }
}
