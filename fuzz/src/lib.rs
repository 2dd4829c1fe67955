//! Fuzz targets: entry points that parse untrusted input, with assertions about their results.
//!
//! `cargo fuzz` runs them with libFuzzer's inputs. A test of `sandbox-core` runs the same functions on stable Rust with
//! a simple mutator.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use sandbox_bridge::argument;
use sandbox_bridge::list::HostList;
use sandbox_bridge::verdict;
use sandbox_git::command::{ConfigScope, Env, Globals, RepoView, Verdict, judge, with_extra};
use sandbox_git::protect::config;
use sandbox_policy::Host;
use sandbox_policy::config::command::{Entry, line};
use sandbox_policy::config::command_rule::CommandRule;
use sandbox_policy::config::file::{self, Syntax};
use sandbox_policy::config::{Access, Config, ConfigError, Request, Tmp};
use sandbox_policy::network::dns::{self, Answer};
use sandbox_policy::network::hello::{self, Hello};
use sandbox_policy::network::{EgressPolicy, HostName, HostPattern, HostPort, HostRule};
use sandbox_policy::path::pattern::Pattern;
use sandbox_protocol::Hint;
use sandbox_protocol::frame::Request as HostRequest;

/// Name of a target and of its directory of seeds, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets of this file.
pub const TARGETS: [Target; 8] = [
    ("config_json", config_json),
    ("config_toml", config_toml),
    ("project_file", project_file),
    ("git_judge", git_judge),
    ("git_config", git_config),
    ("pattern", pattern),
    ("network", network),
    ("host_command", host_command),
];

/// Parses any text as JSONC configuration.
pub fn config_json(data: &[u8]) {
    configuration(data, Syntax::Jsonc);
}

/// Parses any text as TOML configuration.
pub fn config_toml(data: &[u8]) {
    configuration(data, Syntax::Toml);
}

/// Checks that a file is accepted, or refused with a valid position and a message without terminal control characters.
fn configuration(data: &[u8], syntax: Syntax) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match file::parse(text, syntax, Path::new("f")) {
        Ok(config) => {
            let again = file::parse(text, syntax, Path::new("f")).expect("it was accepted before");
            assert_eq!(config, again);
        }
        Err(error) => {
            let lines = text.lines().count().max(1) + 1;
            assert!((1..=lines).contains(&(error.position.line as usize)), "{error}");
            assert!(error.position.column >= 1, "{error}");
            assert_plain(&error.to_string());
            assert_plain(&error.hint().unwrap_or_default());
        }
    }
}

/// Checks that a message cannot move the cursor, change colours or change the direction of text.
fn assert_plain(message: &str) {
    let unsafe_char = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!message.contains(unsafe_char), "{message:?}");
}

thread_local! {
    /// Home with a project. Each thread has one.
    static WORLD: OnceCell<(tempfile::TempDir, Host)> = const { OnceCell::new() };
}

fn with_world<T>(body: impl FnOnce(&Host, &Path) -> T) -> T {
    WORLD.with(|world| {
        let (_, host) = world.get_or_init(|| {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let home = dir.path().canonicalize().expect("the directory was just created");
            let cwd = home.join("project");
            fs::create_dir_all(cwd.join("src")).expect("an empty directory");
            let (env, exe) = (Env::new(), "/usr/bin/agent-sandbox".into());
            let host =
                Host { cwd: Some(cwd), home: Some(home), env, exe, uid: 1, gid: 1, inside: false };
            (dir, host)
        });
        let cwd = host.cwd.as_deref().expect("set above");
        body(host, cwd)
    })
}

/// Loads an untrusted project file. It must not widen the policy.
pub fn project_file(data: &[u8]) {
    let (first, rest) = data.split_first().unwrap_or((&0, &[]));
    let name = if first % 2 == 0 { ".agent-sandbox.json" } else { "sandbox.toml" };
    with_world(|host, cwd| {
        let path = cwd.join(name);
        fs::write(&path, rest).expect("a private directory");
        let loaded = sandbox_policy::config::load(host, &Request::default());
        fs::remove_file(&path).expect("the file was just written");
        match loaded {
            Ok(config) => assert_no_wider(&config, cwd),
            Err(ConfigError::Untrusted { widenings, .. }) => assert!(!widenings.is_empty()),
            Err(error) => {
                assert_plain(&error.to_string());
                assert_plain(&error.hint().unwrap_or_default());
            }
        }
    });
}

fn assert_no_wider(config: &Config, cwd: &Path) {
    assert!(!config.docker.value);
    assert_eq!(config.tmp.value, Tmp::Private);
    assert!(config.sockets.is_empty() && config.mounts.is_empty() && config.env.is_empty());
    assert_ne!(config.commands.get("git").map(|rule| &rule.value), Some(&CommandRule::Raw));
    let presets = sandbox_policy::preset::Presets::of(&config.presets);
    assert!(["@base", "@secrets", "@git"].iter().all(|name| presets.has(name)));
    assert!(config.unruled.iter().all(|rule| rule.value.access == Access::Rw));
    for rule in config.paths.iter().filter(|rule| rule.value.access == Access::Rw) {
        let parsed = Pattern::parse(&rule.value.pattern, cwd, cwd.parent());
        let Ok(Pattern::Exact(base) | Pattern::Glob { base, .. }) = parsed else { continue };
        assert!(base.starts_with(cwd), "{:?} opens {}", rule.value, base.display());
    }
}

/// Call of git, parsed from lines: `$NAME=VALUE` is a variable, `%KEY VALUE` is a setting of the repository, and other
/// lines are words of the command.
struct Call {
    argv: Vec<OsString>,
    env: Env,
    settings: Vec<(String, Vec<u8>)>,
}

impl Call {
    fn of(data: &[u8]) -> Self {
        let mut call = Self { argv: Vec::new(), env: Env::new(), settings: Vec::new() };
        for line in data.split(|byte| *byte == b'\n') {
            let halves = |separator: u8| {
                let at = line.iter().position(|byte| *byte == separator).unwrap_or(line.len());
                (line.get(1..at).unwrap_or_default(), line.get(at + 1..).unwrap_or_default())
            };
            match line.first() {
                Some(b'$') => {
                    let (name, value) = halves(b'=');
                    call.env.insert(
                        OsString::from_vec(name.to_vec()),
                        OsString::from_vec(value.to_vec()),
                    );
                }
                Some(b'%') => {
                    let (key, value) = halves(b' ');
                    call.settings.push((String::from_utf8_lossy(key).into_owned(), value.to_vec()));
                }
                _ => call.argv.push(OsStr::from_bytes(line).to_owned()),
            }
        }
        call
    }
}

impl RepoView for Call {
    fn config(&self, _: &Globals, pattern: &str, asked: ConfigScope) -> Vec<(String, Vec<u8>)> {
        let section = |key: &str| key.split('.').next().unwrap_or_default().to_ascii_lowercase();
        let wanted = |key: &str| {
            asked == ConfigScope::Effective && pattern.contains(&format!("{}\\.", section(key)))
        };
        self.settings.iter().filter(|(key, _)| wanted(key)).cloned().collect()
    }
    fn is_scratch(&self, _: &Globals) -> bool {
        false
    }
    fn remote_is_scratch(&self, _: &Globals, _: Option<&OsStr>) -> bool {
        false
    }
    fn partly_writable(&self, _: &Globals) -> Option<PathBuf> {
        Some("/top".into())
    }
    fn is_read_only(&self, path: &Path) -> bool {
        path.components().any(|part| part == Component::ParentDir)
    }
    fn ask(&self, _: &Globals, query: &[OsString]) -> Option<Vec<u8>> {
        Some(query.last()?.as_bytes().to_vec())
    }
    fn caller(&self) -> Option<Vec<OsString>> {
        None
    }
    fn usual_env(&self) -> &[(OsString, OsString)] {
        &[]
    }
}

/// Judges a call of git. The verdict must be deterministic, and harmless options must not bypass a refusal.
pub fn git_judge(data: &[u8]) {
    let call = Call::of(data);
    let verdict = judge(&call.argv, &call.env, &call);
    assert_eq!(verdict, judge(&call.argv, &call.env, &call));
    match verdict {
        Verdict::Allow { extra } => {
            let words = with_extra(&call.argv, extra.clone());
            assert!(words.len() <= call.argv.len() + extra.len());
            let mut rest = words.iter();
            assert!(call.argv.iter().all(|word| rest.any(|other| other == word)), "{words:?}");
        }
        Verdict::Refuse(refusal) => {
            assert!(refusal.what.starts_with("git ") && !refusal.instead.is_empty());
            for harmless in [&["--no-pager"][..], &["-C", "."], &["-c", "user.name=x"]] {
                let mut argv = call.argv.clone();
                if argv.first().is_some_and(|program| program == "git") {
                    argv.splice(1..1, harmless.iter().map(OsString::from));
                    let judged = judge(&argv, &call.env, &call);
                    assert!(matches!(judged, Verdict::Refuse(_)), "{argv:?} bypasses {refusal:?}");
                }
            }
        }
    }
}

/// Parses a git configuration. Keys must be normalised as git does, and an error must have a valid line.
pub fn git_config(data: &[u8]) {
    match config::parse(data) {
        // A NUL byte ends a name at any position.
        Ok(vars) if data.contains(&0) => drop(vars),
        Ok(vars) => {
            for var in &vars {
                assert!(var.key.starts_with(|c: char| c.is_ascii_lowercase()), "{var:?}");
                assert!(!var.section.contains(|c: char| c.is_ascii_uppercase()), "{var:?}");
            }
        }
        Err(error) => {
            let lines = data.split(|byte| *byte == b'\n').count();
            assert!((1..=lines).contains(&error.line), "{error}");
        }
    }
}

/// Parses a path rule. The path must be absolute and free of `..`.
pub fn pattern(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let parsed = Pattern::parse(text, Path::new("/srv/project"), Some(Path::new("/home/me")));
    let base = match &parsed {
        Ok(Pattern::Exact(path)) => path,
        Ok(Pattern::Glob { base, segments }) => {
            assert!(!segments.is_empty(), "{text:?} has nothing to match");
            for matcher in segments.iter().flatten() {
                matcher.is_match("name");
            }
            base
        }
        Err(error) => return assert_plain(&error.to_string()),
    };
    let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    assert!(base.is_absolute() && base.components().all(plain), "{text:?} is {}", base.display());
}

/// Parses a sandbox's network input: host names, TLS `ClientHellos` and DNS queries.
pub fn network(data: &[u8]) {
    let (first, rest) = data.split_first().unwrap_or((&0, &[]));
    match first % 3 {
        0 => host(rest),
        1 => greeting(rest),
        _ => question(rest),
    }
}

/// Checks that a host has one canonical form, and that only hosts on the list are allowed.
fn host(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(host) = text.parse::<HostName>() {
        assert_eq!(host.to_string().parse(), Ok(host), "{text:?}");
    }
    let pattern = |text: &str| text.parse::<HostPattern>().expect("a pattern");
    let rules = ["*.example.com", "example.org:443"].map(|text| HostRule::new(pattern(text), ""));
    let policy = EgressPolicy { allowed: rules.to_vec(), ..EgressPolicy::default() };
    if let Ok(asked) = text.parse::<HostPort>()
        && policy.check(&asked).is_ok()
    {
        let text = text.to_ascii_lowercase();
        let host = text.rsplit_once(':').map_or("", |(host, _)| host);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        assert!(host.bytes().all(plain), "{text:?}");
        assert!(host.ends_with(".example.com") || text == "example.org:443", "{text:?}");
    }
    match text.parse::<HostPattern>() {
        Ok(pattern) => assert_eq!(pattern.to_string().parse(), Ok(pattern), "{text:?}"),
        Err(error) => assert_plain(&error.to_string()),
    }
}

/// Checks that more bytes never change a name that was already read.
fn greeting(data: &[u8]) {
    let all = hello::read(data);
    for end in [data.len() / 2, data.len().saturating_sub(1)] {
        match hello::read(&data[..end]) {
            Hello::Incomplete => {}
            some => assert_eq!(some, all, "{end}"),
        }
    }
}

/// Checks that a DNS response repeats the query and contains only the loopback address.
fn question(data: &[u8]) {
    let Some(question) = dns::read(data) else { return };
    for answer in [Answer::Here, Answer::Unknown] {
        let message = question.answer(answer);
        assert_eq!(message[..2], data[..2]);
        assert!(message.len() <= data.len() + 16);
        assert!(message[7] == 0 || message.ends_with(&[127, 0, 0, 1]));
    }
}

/// Parses a host command from a container. Its words must survive a round trip, and only commands that begin with an
/// entry of the list may be allowed.
pub fn host_command(data: &[u8]) {
    if let Ok(request) = HostRequest::decode(data) {
        assert_eq!(HostRequest::decode(&request.encode()), Ok(request));
    }
    let Ok(words) = line::parse(data) else { return };
    if let Ok(text) = line::quote(&words) {
        assert_eq!(line::parse(text.as_bytes()).as_ref(), Ok(&words), "{text:?}");
    }
    for word in &words {
        let bytes = word.as_bytes();
        for part in argument::parts(bytes) {
            assert!(part.range.end <= bytes.len() && !part.range.is_empty(), "{part:?}");
            assert!(!part.absolute || bytes[part.range.start] == b'/', "{part:?}");
        }
    }
    let allowed = ["mytool", "git", "git status", "docker ps", "find", "sudo mytool"];
    let allowed = allowed.map(|text| Entry::parse(text).expect("an entry")).to_vec();
    let list = HostList { allowed, ..HostList::default() };
    match verdict::judge(&list, &words) {
        Err(denial) => assert_plain(&denial.message().replace('\n', " ")),
        Ok(passed) => {
            assert!(passed.entry.covers(&words), "{words:?}");
            let mut rest = passed.argv.iter();
            assert!(words.iter().all(|word| rest.any(|other| other == word)), "{words:?}");
            let first = words.get(1).map_or(&b""[..], |word| word.as_bytes());
            assert!(words[0] != "git" || !first.starts_with(b"-") || first == b"--version");
            assert!(
                words[0] != "find"
                    || words.iter().all(|word| !word.as_bytes().starts_with(b"-exec"))
            );
        }
    }
}
