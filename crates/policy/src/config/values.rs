//! Values of one layer, each with its origin. A file and the flags have the same form.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use super::base_dirs::BaseDirs;
use super::discover::Found;
use super::enforced;
use super::error::ConfigError;
use super::file::{
    At, CommandName, EnvName, EnvValue, FileConfig, FileError, FilePath, HostText, InsidePath,
    Invalid, MountMode, NetworkText, PathText, Position, PresetToggle, Problem, Secret,
};
use super::layer::{Origin, Sourced};
use super::{
    Access, BindMount, ContainerNetwork, Cow, CowScope, HostList, Launcher, Network, PathRule,
    Request, SessionConfig, Tmp,
};
use crate::config::command_rule::{Builtin, CommandRule};
use crate::text::shown;

/// Values of one layer. Patterns can start with `!`.
#[derive(Debug, Default)]
pub struct Values {
    pub(super) presets: Vec<Sourced<String>>,
    pub(super) paths: Vec<Sourced<PathRule>>,
    pub(super) commands: Vec<(String, Sourced<CommandRule>)>,
    pub(super) network: Option<Sourced<Network>>,
    pub(super) hosts: Vec<(HostList, Sourced<String>)>,
    pub(super) upload_limit: Option<Sourced<u64>>,
    pub(super) docker: Option<Sourced<bool>>,
    pub(super) tmp: Option<Sourced<Tmp>>,
    pub(super) launcher: Option<Sourced<Launcher>>,
    pub(super) cow: Option<Sourced<Cow>>,
    pub(super) sockets: Vec<Sourced<String>>,
    /// Bind mounts, each with its key.
    pub(super) mounts: Vec<(&'static str, Sourced<BindMount>)>,
    pub(super) env: Vec<(String, Sourced<Option<OsString>>)>,
    pub(super) secrets: Vec<(String, Sourced<Secret>)>,
    pub(super) session: SessionConfig,
    /// The session keys that are set, and whether they widen the policy.
    pub(super) session_keys: Vec<(Sourced<String>, bool)>,
}

/// A file that is converted to values.
struct Source<'a> {
    found: &'a Found,
    path: Arc<Path>,
    dirs: &'a BaseDirs,
    /// The directory of relative path rules, if it is not the working directory.
    base: Option<Arc<Path>>,
}

impl Source<'_> {
    fn origin(&self, position: Position) -> Origin {
        Origin::File { layer: self.found.layer, path: Arc::clone(&self.path), line: position.line }
    }

    fn at<T, U>(&self, at: &At<T>, value: impl FnOnce(&T) -> U) -> Sourced<U> {
        Sourced::new(value(&at.value), self.origin(at.position))
    }

    fn copy<T: Copy>(&self, at: Option<&At<T>>) -> Option<Sourced<T>> {
        at.map(|at| self.at(at, |value| *value))
    }

    fn clone_of<T: Clone>(&self, at: Option<&At<T>>) -> Option<Sourced<T>> {
        at.map(|at| self.at(at, T::clone))
    }

    fn error(&self, position: Position, key: &str, problem: Invalid) -> FileError {
        let problem = Problem::Invalid { message: problem.message, hint: problem.hint };
        let problem = Problem::In { key: key.to_owned(), problem: Box::new(problem) };
        FileError::new(&self.path, position, problem)
    }

    fn rule(&self, access: Access, text: &PathText) -> PathRule {
        PathRule { base: self.base.clone(), ..PathRule::new(access, text.as_str()) }
    }

    fn paths(&self, file: &FileConfig) -> Vec<Sourced<PathRule>> {
        let lists = [
            (Access::Rw, &file.filesystem.rw),
            (Access::Ro, &file.filesystem.ro),
            (Access::Exclude, &file.filesystem.exclude),
        ];
        let rule = |access, at: &At<PathText>| self.at(at, |text| self.rule(access, text));
        lists
            .into_iter()
            .flat_map(|(access, list)| list.iter().map(move |at| rule(access, at)))
            .collect()
    }

    fn hosts(&self, file: &FileConfig) -> Vec<(HostList, Sourced<String>)> {
        let Some(At { value: NetworkText::Table(table), .. }) = &file.network else {
            return Vec::new();
        };
        let lists = [
            (HostList::Allowed, &table.allowed_hosts),
            (HostList::Private, &table.private_hosts),
            (HostList::Denied, &table.denied_hosts),
        ];
        let line = |at: &At<HostText>| self.at(at, |text| text.as_str().to_owned());
        lists
            .into_iter()
            .flat_map(|(list, lines)| lines.iter().flatten().map(move |at| (list, line(at))))
            .collect()
    }

    fn upload_limit(&self, file: &FileConfig) -> Option<Sourced<u64>> {
        let NetworkText::Table(table) = &file.network.as_ref()?.value else { return None };
        table.upload_limit.as_ref().map(|at| self.at(at, |limit| limit.0))
    }

    fn commands(
        &self,
        file: &FileConfig,
    ) -> Result<Vec<(String, Sourced<CommandRule>)>, FileError> {
        let rules = file.commands.iter().map(|(name, at)| {
            let rule = command(name, at.value.0.clone(), self.dirs, &self.found.base);
            let rule = rule.map_err(|problem| {
                self.error(at.position, &format!("commands.{}", name.as_str()), problem)
            })?;
            Ok((name.as_str().to_owned(), Sourced::new(rule, self.origin(at.position))))
        });
        rules.collect()
    }

    /// Returns the secrets, with absolute paths. Relative paths are relative to the file.
    fn secrets(&self, file: &FileConfig) -> Result<Vec<(String, Sourced<Secret>)>, FileError> {
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        let expand = |path: &FilePath| {
            FilePath::new(self.dirs.expand(path.as_str(), dir)?.to_string_lossy())
        };
        let secrets = file.secrets.iter().map(|(name, at)| {
            let made = at.value.check().and_then(|()| {
                Ok(Secret {
                    from_file: at.value.from_file.as_ref().map(expand).transpose()?,
                    from_env_file: at.value.from_env_file.as_ref().map(expand).transpose()?,
                    ..at.value.clone()
                })
            });
            let name = name.as_str();
            let made = made
                .map_err(|problem| self.error(at.position, &format!("secrets.{name}"), problem))?;
            Ok((name.to_owned(), Sourced::new(made, self.origin(at.position))))
        });
        secrets.collect()
    }

    /// Returns the session keys. Their meaning for a container is not checked here.
    fn session(&self, file: &FileConfig) -> Result<SessionConfig, FileError> {
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        let env_file = file.env_file.as_ref().map(|at| {
            let path = self
                .dirs
                .expand(at.value.as_str(), dir)
                .map_err(|problem| self.error(at.position, "env_file", problem))?;
            Ok(Sourced::new(path, self.origin(at.position)))
        });
        Ok(SessionConfig {
            backend: self.clone_of(file.backend.as_ref()),
            image: self.clone_of(file.image.as_ref()),
            runtime: self.clone_of(file.runtime.as_ref()),
            agent: self.clone_of(file.agent.as_ref()),
            env_file: env_file.transpose()?,
            env_accepted: None,
            resources: self.clone_of(file.resources.as_ref()),
            proxy: self.clone_of(file.proxy.as_ref()),
            workspace: self.clone_of(file.workspace.as_ref()),
            home: self.clone_of(file.home.as_ref()),
            services: self.clone_of(file.services.as_ref()),
            host_commands: self.clone_of(file.host_commands.as_ref()),
            network: file.network.as_ref().map(|at| self.at(at, ContainerNetwork::of_text)),
            nested: file.sandbox.as_ref().map(|at| self.at(at, |_| ())),
        })
    }

    fn mounts(
        &self,
        file: &FileConfig,
    ) -> Result<Vec<(&'static str, Sourced<BindMount>)>, FileError> {
        // Paths are relative to the directory of the file. For a link, this is not the directory of its target.
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        let mut mounts = Vec::new();
        for at in &file.mounts {
            let text = &at.value;
            let access = if text.mode == MountMode::Rw { Access::Rw } else { Access::Ro };
            let mount = bind(text.host.as_str(), &text.container, access, dir, self.dirs)
                .map_err(|problem| self.error(at.position, "mounts", problem))?;
            mounts.push(("mounts", Sourced::new(mount, self.origin(at.position))));
        }
        for at in file.shared_dirs.iter().flat_map(|dirs| dirs.value.all()) {
            let text = &at.value;
            let access = if text.read_only { Access::Ro } else { Access::Rw };
            let mount = bind(text.host.as_str(), &text.guest, access, dir, self.dirs)
                .map_err(|problem| self.error(at.position, "shared_dirs", problem))?;
            mounts.push(("shared_dirs", Sourced::new(mount, self.origin(at.position))));
        }
        Ok(mounts)
    }
}

impl Values {
    /// Returns the values of a file.
    pub(super) fn of_file(
        file: &FileConfig,
        found: &Found,
        dirs: &BaseDirs,
    ) -> Result<Self, FileError> {
        let base = (found.base != dirs.cwd).then(|| Arc::from(found.base.as_path()));
        let source = Source { found, path: Arc::from(found.path.as_path()), dirs, base };
        let preset = |at| source.at(at, |toggle: &PresetToggle| toggle.as_str().to_owned());
        // Sockets are no patterns, so an absolute path means the same.
        let socket = |at| source.at(at, |path: &PathText| source.rule(Access::Rw, path).spelled());
        let env = |(name, at): (&EnvName, &At<EnvValue>)| {
            let value = |value: &EnvValue| match value {
                EnvValue::Pass => None,
                EnvValue::Set(text) => Some(OsString::from(text)),
            };
            (name.as_str().to_owned(), source.at(at, value))
        };
        let network = file
            .network
            .as_ref()
            .and_then(|at| Some(Sourced::new(at.value.local()?, source.origin(at.position))));
        let session_keys = enforced::asked(file).map(|(row, position)| {
            (Sourced::new(row.key.to_owned(), source.origin(position)), row.widens)
        });
        Ok(Self {
            presets: file.filesystem.presets.iter().map(preset).collect(),
            paths: source.paths(file),
            commands: source.commands(file)?,
            network,
            hosts: source.hosts(file),
            upload_limit: source.upload_limit(file),
            docker: source.copy(file.docker.as_ref()),
            tmp: source.copy(file.tmp.as_ref()),
            launcher: source.copy(file.launcher.as_ref()),
            cow: file
                .cow
                .as_ref()
                .map(|at| source.at(at, |engine| Cow { engine: *engine, scope: CowScope::Work })),
            sockets: file.sockets.iter().map(socket).collect(),
            mounts: source.mounts(file)?,
            env: file.env.iter().map(env).collect(),
            secrets: source.secrets(file)?,
            session: source.session(file)?,
            session_keys: session_keys.collect(),
        })
    }

    /// Returns the values of the flags.
    pub(super) fn of_request(request: &Request, dirs: &BaseDirs) -> Result<Self, ConfigError> {
        let mut values = Self {
            network: network(request)?,
            docker: request.docker.map(|docker| {
                let flag = if docker { "--docker" } else { "--docker=false" };
                Sourced::new(docker, Origin::Flag(flag.to_owned()))
            }),
            cow: request.cow.map(|cow| Sourced::new(cow, Origin::Flag(cow.flag()))),
            ..Self::default()
        };
        let network = values.network.clone();
        values.session.network =
            network.map(|network| Sourced::new(network.value.into(), network.origin));
        for host in &request.hosts {
            let flag = format!("--allow-host {host}");
            let text = flagged(&flag, HostText::new(host.as_str()))?;
            let line = Sourced::new(text.as_str().to_owned(), Origin::Flag(flag));
            values.hosts.push((HostList::Allowed, line));
        }
        for (access, pattern) in &request.paths {
            let flag = format!("--{} {pattern}", access.word());
            let text = flagged(&flag, PathText::new(pattern.as_str()))?;
            let rule = PathRule::new(*access, text.as_str());
            values.paths.push(Sourced::new(rule, Origin::Flag(flag)));
        }
        for (name, rule) in &request.commands {
            let flag = format!("--cmd {name}={}", written(rule));
            let known = flagged(&flag, CommandName::new(name.as_str()))?;
            let rule = flagged(&flag, command(&known, rule.clone(), dirs, &dirs.cwd))?;
            values.commands.push((name.clone(), Sourced::new(rule, Origin::Flag(flag))));
        }
        for (name, value) in &request.env {
            // The value may be a credential. Origins are printed, so the origin contains only the name.
            let flag = format!("--env {name}");
            flagged(&flag, EnvName::new(name.as_str()))?;
            values.env.push((name.clone(), Sourced::new(value.clone(), Origin::Flag(flag))));
        }
        Ok(values)
    }
}

/// Returns the value of `--network`. `--allow-host` implies `--network=allow`.
fn network(request: &Request) -> Result<Option<Sourced<Network>>, ConfigError> {
    let by_host = request.hosts.first().map(|host| format!("--allow-host {host}"));
    let (network, flag) = match (request.network, by_host) {
        (Some(Network::Allow), _) => (Network::Allow, "--network=allow".to_owned()),
        (None, None) => return Ok(None),
        (None, Some(flag)) => (Network::Allow, flag),
        (Some(Network::On), None) => (Network::On, "--network".to_owned()),
        (Some(Network::Off), None) => (Network::Off, "--network=false".to_owned()),
        (Some(network), Some(flag)) => {
            let all = if network == Network::On { "all hosts" } else { "no host" };
            let problem = Invalid::new(format!("no effect, because `--network` allows {all}"))
                .hint("remove `--network`");
            return Err(ConfigError::Flag { flag, problem });
        }
    };
    Ok(Some(Sourced::new(network, Origin::Flag(flag))))
}

fn flagged<T>(flag: &str, result: Result<T, Invalid>) -> Result<T, ConfigError> {
    result.map_err(|problem| ConfigError::Flag { flag: flag.to_owned(), problem })
}

/// Returns the written form of a rule, as in a flag or a file.
pub(super) fn written(rule: &CommandRule) -> String {
    match rule {
        CommandRule::Raw => "true".to_owned(),
        CommandRule::Block => "false".to_owned(),
        CommandRule::Builtin(Builtin::Git) => "@git".to_owned(),
        CommandRule::Script(path) => path.display().to_string(),
    }
}

/// Checks that a rule applies to its command, and makes the path of a script absolute.
fn command(
    name: &CommandName,
    rule: CommandRule,
    dirs: &BaseDirs,
    base: &Path,
) -> Result<CommandRule, Invalid> {
    match rule {
        CommandRule::Builtin(Builtin::Git) if name.as_str() != "git" => {
            Err(Invalid::new(format!("the preset `@git` wraps git, not {}", shown(name.as_str()))))
        }
        CommandRule::Script(path) => {
            // A path from a flag need not be UTF-8. Then `~` is not expanded.
            let script = match path.to_str() {
                Some("") => return Err(Invalid::new("the path of the script is empty")),
                Some(text) => dirs.expand(text, base)?,
                None => base.join(&path),
            };
            Ok(CommandRule::Script(script))
        }
        other => Ok(other),
    }
}

/// Returns a bind mount. A relative host path is relative to `base`.
fn bind(
    host: &str,
    target: &InsidePath,
    access: Access,
    base: &Path,
    dirs: &BaseDirs,
) -> Result<BindMount, Invalid> {
    let target = Path::new(target.as_str()).components().collect();
    Ok(BindMount { host: dirs.expand(host, base)?, target, access })
}
