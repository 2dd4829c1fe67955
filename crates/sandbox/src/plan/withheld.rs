//! Credentials that the proxy holds: the variables and files that contain them are hidden from the command.
//!
//! Keeping a key in the proxy protects little if the agent can read its own login file. For each provider whose key
//! the proxy holds, the [`sandbox_policy::catalog`] lists the variables and files that would work instead. A rule that
//! names one of them makes it visible again, and a note says so.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::plan::{BaseView, Mount, View};
use sandbox_policy::catalog::{AgentFile, Provider, agent};
use sandbox_policy::config::{
    Access, BaseDirs, Config, Origin, PathRule, Secret, SecretMode, Sourced,
};
use sandbox_policy::host::Host;

/// Size limit of settings files that are searched for keys.
const LARGEST: u64 = 4 << 20;

/// Returns the secrets that the proxy holds. Inside a sandbox there are none, because the outer one handles them.
fn proxied<'c>(host: &Host, config: &'c Config) -> impl Iterator<Item = &'c Sourced<Secret>> {
    let secrets = (!host.inside).then(|| config.secrets.values());
    secrets.into_iter().flatten().filter(|secret| secret.value.mode == SecretMode::Proxy)
}

/// Returns the secret's origin if a variable is hidden because of it.
pub fn variable<'c>(host: &Host, config: &'c Config, name: &str) -> Option<&'c Origin> {
    let upper = name.to_ascii_uppercase();
    let called = [upper.as_str(), singular(&upper)];
    let covers = |secret: &Secret| {
        let own = [Some(&secret.env_var), secret.from_env.as_ref()];
        let is_own = |own: &str| called.iter().any(|name| own.eq_ignore_ascii_case(name));
        own.into_iter().flatten().any(|own| is_own(own.as_str()))
            || secret.provider().is_some_and(|provider| is_of(provider, &called))
    };
    proxied(host, config).find(|secret| covers(&secret.value)).map(|secret| &secret.origin)
}

fn is_of(provider: &Provider, called: &[&str]) -> bool {
    let begins = |name: &str| provider.prefixes.iter().any(|prefix| name.starts_with(prefix));
    called.iter().any(|name| {
        provider.key_variables.contains(name)
            || sandbox_policy::variable::has_secret_name(name) && begins(name)
    })
}

/// Returns the base name of a numbered or plural variable: `OPENAI_API_KEY` for `OPENAI_API_KEY_2` and
/// `OPENAI_API_KEYS`.
fn singular(name: &str) -> &str {
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let name = name.trim_end_matches('_');
    name.strip_suffix('S').unwrap_or(name)
}

/// Returns the files that contain the credentials, each with the origin of its secret.
fn files(host: &Host, config: &Config) -> Vec<Sourced<PathBuf>> {
    let mut all = Vec::new();
    for secret in proxied(host, config) {
        let provider = secret.value.provider();
        let logins = provider.into_iter().flat_map(|provider| agent::logins(provider.name));
        let login = secret.value.from_login.map(|login| &login.file);
        let paths = logins.chain(login).flat_map(|file| places(file, host, config));
        let own = secret.value.from_file.as_ref().map(|path| PathBuf::from(path.as_str()));
        all.extend(paths.chain(own).map(|path| Sourced::new(path, secret.origin.clone())));
    }
    let mut seen = BTreeSet::new();
    all.retain(|file| seen.insert(file.value.clone()));
    all
}

/// Returns the possible paths of an agent's file, given the home directory and variables of the command.
fn places(file: &AgentFile, host: &Host, config: &Config) -> Vec<PathBuf> {
    let set = |name: &str| {
        let rule = config.env.get(name);
        let value = rule.and_then(|rule| rule.value.as_deref()).or_else(|| host.var(name));
        value.map(|value| config.cwd.join(value))
    };
    let home = set("HOME");
    let mut paths = file.paths(host.home.as_deref(), set);
    paths.extend(file.paths(home.as_deref(), |_| None));
    paths
}

/// Returns the rules that hide the files, except files that a rule of the user names.
pub fn rules(host: &Host, config: &Config) -> Vec<Sourced<PathRule>> {
    let hidden =
        files(host, config).into_iter().filter(|file| opened(file, host, config).is_none());
    let rule = |file: Sourced<PathBuf>| {
        let pattern = sandbox_policy::path::literal(file.value.to_str()?);
        Some(Sourced::new(PathRule::new(Access::Exclude, pattern), file.origin))
    };
    hidden.filter_map(rule).collect()
}

/// Returns the origin of the user's rule that makes a file visible: it names the file, or removes the rule that hides
/// it.
fn opened<'c>(file: &Sourced<PathBuf>, host: &Host, config: &'c Config) -> Option<&'c Origin> {
    let dirs = BaseDirs { cwd: config.cwd.clone(), home: host.home.clone() };
    let path = file.value.to_str()?;
    let names = |rule: &Sourced<PathRule>| dirs.is_same(&rule.value, path);
    let shows = config.paths.iter().filter(|rule| rule.value.access != Access::Exclude);
    let back = config.unruled.iter().filter(|rule| rule.value.access == Access::Exclude);
    shows.chain(back).find(|rule| names(rule)).map(|rule| &rule.origin)
}

/// Returns a note about credentials that the command can still read.
pub fn note(host: &Host, config: &Config, mounts: &[Mount]) -> Option<String> {
    let is_readable = |path: &Path| is_readable(path, config, mounts);
    let asked = config.env.iter().filter(|(name, rule)| {
        // A rule that passes on an unset variable reveals nothing.
        rule.value.is_some() || host.var(name).is_some()
    });
    let asked = asked.map(|(name, rule)| (name.as_str(), &rule.origin));
    let mut readable = readable_variables(host, config, asked);
    readable.extend(readable_files(host, config, &is_readable));
    readable.extend(shared_files(host, config, &is_readable));
    readable.extend(keys_in_settings(host, config, &is_readable));
    line(&readable)
}

/// Returns true for a host file that is visible inside at the same path.
fn is_readable(path: &Path, config: &Config, mounts: &[Mount]) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.target));
    let Some(mount) = above.max_by_key(|mount| mount.target.as_os_str().len()) else {
        return BaseView::of(&path, config.tmp.value) == BaseView::Host;
    };
    let below = path.strip_prefix(&mount.target);
    let is_itself = below.is_ok_and(|below| mount.source.join(below) == path);
    is_itself && !matches!(mount.view, View::EmptyDir | View::EmptyFile)
}

type IsReadable<'r> = &'r dyn Fn(&Path) -> bool;

/// Returns the note for a container, which sees only the variables that are passed and the files that are mounted.
pub fn container_note<'a>(
    host: &Host,
    config: &'a Config,
    asked: impl Iterator<Item = (&'a str, &'a Origin)>,
) -> Option<String> {
    let mut readable = readable_variables(host, config, asked);
    for file in files(host, config) {
        let Ok(real) = file.value.canonicalize() else { continue };
        let opened = opened(&file, host, config).is_some();
        let shows = |source: &Path| real == source || opened && real.starts_with(source);
        let mounted = config
            .mounts
            .iter()
            .find(|mount| mount.value.host.canonicalize().is_ok_and(|source| shows(&source)));
        readable
            .extend(mounted.map(|mount| format!("`{}` ({})", file.value.display(), mount.origin)));
    }
    line(&readable)
}

fn line(readable: &[String]) -> Option<String> {
    (!readable.is_empty()).then(|| {
        format!("the command can read credentials without the proxy, in {}", readable.join(", "))
    })
}

/// Returns the variables that a rule passes on or sets, or that another secret sets.
fn readable_variables<'a>(
    host: &Host,
    config: &'a Config,
    asked: impl Iterator<Item = (&'a str, &'a Origin)>,
) -> Vec<String> {
    let replaced =
        |name: &str| proxied(host, config).any(|secret| secret.value.env_var.as_str() == name);
    let injected = config.secrets.values().filter(|secret| secret.value.mode == SecretMode::Inject);
    let injected = injected.map(|secret| (secret.value.env_var.as_str(), &secret.origin));
    asked
        .chain(injected)
        .filter(|(name, _)| !replaced(name) && variable(host, config, name).is_some())
        .map(|(name, origin)| format!("`{name}` ({origin})"))
        .collect()
}

/// Returns the files that a rule names, or that are mounted at another path.
fn readable_files(host: &Host, config: &Config, is_readable: IsReadable<'_>) -> Vec<String> {
    let mut readable = Vec::new();
    for file in files(host, config) {
        let Ok(real) = file.value.canonicalize() else { continue };
        let mounted = config.mounts.iter().find(|mount| {
            let Ok(source) = mount.value.host.canonicalize() else { return false };
            let below = real.strip_prefix(source);
            below.is_ok_and(|below| mount.value.target.join(below) != file.value)
        });
        let opened = opened(&file, host, config).filter(|_| is_readable(&file.value));
        let origin = opened.or(mounted.map(|mount| &mount.origin));
        readable.extend(origin.map(|origin| format!("`{}` ({origin})", file.value.display())));
    }
    readable
}

/// Returns the readable env files that contain the key among other variables.
fn shared_files(host: &Host, config: &Config, is_readable: IsReadable<'_>) -> Vec<String> {
    let shared = proxied(host, config).filter_map(|secret| {
        let path = secret.value.from_env_file.as_ref()?.as_str();
        is_readable(Path::new(path)).then(|| format!("`{path}` ({})", secret.origin))
    });
    shared.collect()
}

/// Returns the agents' readable settings files that contain a key.
fn keys_in_settings(host: &Host, config: &Config, is_readable: IsReadable<'_>) -> Vec<String> {
    let providers: BTreeSet<_> =
        proxied(host, config).filter_map(|secret| Some(secret.value.provider()?.name)).collect();
    let mut found = Vec::new();
    for settings in providers.into_iter().flat_map(agent::settings) {
        for path in places(&settings.file, host, config) {
            let Some(text) = read(&path).filter(|_| is_readable(&path)) else { continue };
            let word = settings.keys.iter().find(|word| text.contains(**word));
            found.extend(word.map(|word| format!("`{}` (`{word}`)", path.display())));
        }
    }
    found.sort();
    found.dedup();
    found
}

fn read(path: &Path) -> Option<String> {
    let about = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let mut text = Vec::new();
    let file = std::fs::File::open(path).ok().filter(|_| about.len() <= LARGEST)?;
    file.take(LARGEST).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}
