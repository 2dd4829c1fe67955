//! User and paths of the agent, and the role of PID 1.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sandbox_protocol::layout::{
    DATA, HOME, IMAGE_INIT, PRIVATE_DIR, RUNTIME_BINARY, RUNTIME_DIR, RUNTIME_INIT, WORKSPACE,
    session,
};
use sandbox_protocol::multicall::Personality;
use sandbox_protocol::value::{self, Cow, Port, port_list};
use sandbox_protocol::variable;
use serde::Serialize;

use super::mounts::Bind;
use super::users;
use super::workspace::{clones, project, sets_up_home};
use super::{Container, ContainerError, EngineFacts, GRACE, OwnDir, OwnFile, SessionPaths};
use sandbox_policy::config::file::AgentUser;
use sandbox_policy::config::{Access, AgentInit, Config, CowEngine, Dockerd};
use sandbox_policy::host::Host;
use sandbox_policy::network::PROXY_PORT;

/// Uid of the user `agent` in our images.
const USUAL: u32 = 1000;

/// Agent of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContainerAgent {
    /// User, in the form that the engine and PID 1 accept.
    pub user: String,
    /// Uid and gid, if they are known without inspecting the image.
    pub ids: Option<(u32, u32)>,
    /// Home directory.
    pub home: PathBuf,
    /// Working directory.
    pub workdir: PathBuf,
    /// Role of PID 1.
    pub start: Start,
    /// Uid of PID 1 if the agent has uid 0. The name in a plan is older, and part of every policy's hash.
    #[serde(rename = "keeper", skip_serializing_if = "Option::is_none")]
    pub init_uid: Option<u32>,
}

/// Role of PID 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// PID 1 becomes the agent.
    Exec,
    /// PID 1 starts the agent and supervises it.
    Supervise,
}

impl ContainerAgent {
    /// Returns the agent that the configuration describes. By default it has the caller's uid, so that files
    /// belong to the caller.
    pub(super) fn of(host: &Host, config: &Config, engine: &EngineFacts) -> Self {
        let asked = config.session.agent.as_ref();
        let asked = asked.map(|agent| agent.value.clone()).unwrap_or_default();
        let (user, ids) = user(host, config, engine, asked.user);
        let set_up = sets_up_home(config);
        let keeps = cow(config) != Cow::None;
        let home = match (set_up, keeps) {
            (false, _) | (true, true) => PathBuf::from(HOME),
            (true, false) => Path::new(DATA).join("agent"),
        };
        let usual = if set_up { home.join("workspace") } else { WORKSPACE.into() };
        let workdir = asked.workdir.map_or(usual, |dir| dir.as_str().into());
        let init_uid = users::init_uid(engine, ids);
        Self { user, ids, home, workdir, start: Start::Exec, init_uid }
    }

    /// Returns the options of a tmpfs that belongs to PID 1, even if the agent has uid 0.
    pub(super) fn of_init(&self, options: &str) -> String {
        let owner = self.init_uid.map(|number| format!(",uid={number},gid={number}"));
        format!("{options}{}", owner.unwrap_or_default())
    }
}

/// Returns the user in the form that the engine and PID 1 accept, with its ids if they are known.
fn user(
    host: &Host,
    config: &Config,
    engine: &EngineFacts,
    wanted: Option<AgentUser>,
) -> (String, Option<(u32, u32)>) {
    let (uid, gid) = match wanted {
        Some(AgentUser::Named(name)) => return (name, None),
        Some(AgentUser::Ids(uid, gid)) => (uid, gid),
        None | Some(AgentUser::Default) => callers(host, config, engine),
    };
    (format!("{uid}:{gid}"), Some((uid, gid)))
}

/// Returns the default uid and gid. If the caller is root, the agent is not: it is the owner of the project, else the
/// user of our images. In rootless Docker, root is the caller.
fn callers(host: &Host, config: &Config, engine: &EngineFacts) -> (u32, u32) {
    if engine.rootless && !engine.podman {
        return (0, 0);
    }
    if host.uid != 0 {
        return (host.uid, host.gid);
    }
    let owner = std::fs::metadata(project(config)).ok().map(|about| (about.uid(), about.gid()));
    owner.filter(|(uid, _)| *uid != 0 && !engine.rootless).unwrap_or((USUAL, USUAL))
}

/// Returns the engine of the layer on a home that PID 1 sets up.
fn cow(config: &Config) -> Cow {
    let cloned = config.session.workspace.as_ref().filter(|_| clones(config));
    match cloned.and_then(|workspace| workspace.value.cow) {
        None | Some(CowEngine::Off) => Cow::None,
        Some(CowEngine::On | CowEngine::Overlay) => Cow::Overlay,
        Some(CowEngine::Agentfs) => Cow::Agentfs,
    }
}

/// Configures PID 1, with only the permissions that it needs.
pub(super) fn first_process(
    config: &Config,
    session: &SessionPaths<'_>,
    made: &mut Container,
) -> Result<(), ContainerError> {
    made.agent.start = start(config, made)?;
    let init = binaries(session, made);
    describe_user(made);
    variables(config, made);
    let personality = match made.agent.start {
        Start::Exec => {
            // No clean-up follows the agent. As PID 1 it gets SIGTERM only if it has a handler,
            // pid_namespaces(7).
            made.stop_timeout = GRACE;
            own_tmp(made);
            controlled_by(made, Path::new(RUNTIME_DIR), true);
            Personality::Entrypoint
        }
        Start::Supervise => {
            made.user = "0:0".into();
            let why = "PID 1 starts the agent as its user, and ends it";
            made.allow(&["SETUID", "SETGID", "SETPCAP", "KILL"], why);
            let private = made.agent.of_init("rw,nosuid,nodev,noexec,mode=0700,size=1m");
            made.tmpfs.insert(PRIVATE_DIR.into(), private);
            controlled_by(made, Path::new(PRIVATE_DIR), false);
            open_rendezvous(session, made);
            made.env.insert(variable::AGENT_STOP_GRACE.into(), GRACE.to_string());
            Personality::Init
        }
    };
    made.entrypoint = vec![init, personality.word().into()];
    home(config, session, made)
}

/// Makes the agent, as PID 1, the owner of `/tmp`. Some engines take its mode from the image, and only the owner can
/// change it.
fn own_tmp(made: &mut Container) {
    if let (Some((uid, gid)), Some(options)) =
        (made.agent.ids, made.tmpfs.get_mut(Path::new("/tmp")))
    {
        *options = format!("{options},uid={uid},gid={gid}");
    }
}

fn start(config: &Config, made: &Container) -> Result<Start, ContainerError> {
    let agent = config.session.agent.as_ref();
    let asked = agent.and_then(|agent| agent.value.init);
    let commands = config.session.host_commands.as_ref();
    let services = config.session.services.as_ref();
    let needs = [
        (
            agent.is_none_or(|agent| agent.value.command.is_none()),
            "there is no `agent.command`, so PID 1 waits for `exec`",
        ),
        (sets_up_home(config), "PID 1 sets up the workspace or the home"),
        (made.proxy.is_some(), "PID 1 opens the connection to the proxy"),
        (!made.layers.is_empty(), "PID 1 checks the directory below the layer"),
        (
            services.is_some_and(|services| services.value.dockerd != Dockerd::Off),
            "PID 1 starts a Docker daemon",
        ),
        (made.agent.ids.is_none(), "PID 1 looks the user up in the image"),
    ];
    let need = needs.into_iter().find(|(is_needed, _)| *is_needed).map(|(_, why)| why);
    // Without a supervisor the agent can read the SSH key of host commands, so that needs an explicit setting.
    let better = commands.is_some_and(|commands| commands.value.enabled) && asked.is_none();
    match (asked, need, agent) {
        (Some(AgentInit::Exec), Some(why), Some(agent)) => {
            Err(ContainerError::NeedsInit { origin: agent.origin.clone(), why })
        }
        (Some(AgentInit::Supervise), ..) | (_, Some(_), _) => Ok(Start::Supervise),
        _ if better => Ok(Start::Supervise),
        _ => Ok(Start::Exec),
    }
}

/// Mounts our binaries. Returns the path of PID 1, which is the image's if we have none.
fn binaries(session: &SessionPaths<'_>, made: &mut Container) -> String {
    if let Some(sandbox) = &session.binaries.sandbox {
        made.bind(Bind::ours(sandbox, Path::new(RUNTIME_BINARY), Access::Ro));
    }
    match &session.binaries.init {
        Some(init) => {
            made.bind(Bind::ours(init, Path::new(RUNTIME_INIT), Access::Ro));
            RUNTIME_INIT.into()
        }
        None => IMAGE_INIT.into(),
    }
}

/// Adds the agent to the user database of any image, with its uid on this machine.
fn describe_user(made: &mut Container) {
    let Some((uid, gid)) = made.agent.ids else { return };
    let home = made.agent.home.display();
    // The first entry of a uid determines its name.
    let passwd = format!(
        "agent:x:{uid}:{gid}:agent:{home}:/bin/sh\nroot:x:0:0:root:/root:/sbin/nologin\n\
         nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n" // words: quoted
    );
    let group = format!("agent:x:{gid}:\nroot:x:0:\nnogroup:x:65534:\n");
    for (name, text) in [("passwd", passwd), ("group", group)] {
        let path = Path::new("etc").join(name);
        made.files.push(OwnFile { path: path.clone(), text, mode: 0o644 });
        made.bind(Bind::of_session(&path, &Path::new("/etc").join(name), Access::Ro));
    }
}

fn variables(config: &Config, made: &mut Container) {
    let agent = config.session.agent.as_ref().map(|agent| agent.value.clone()).unwrap_or_default();
    // The set-up of a home looks the user up by name.
    let user = if sets_up_home(config) && made.agent.ids.is_some() {
        "agent".to_owned()
    } else {
        made.agent.user.clone()
    };
    made.env.insert(variable::AGENT_USER.into(), user);
    if let Some(uid) = made.agent.init_uid {
        made.env.insert(variable::AGENT_KEEPER.into(), uid.to_string());
    }
    let services = config.session.services.as_ref().map(|services| services.value.dockerd);
    let dockerd = match services.unwrap_or_default() {
        Dockerd::Off => value::Dockerd::Off,
        Dockerd::Auto => value::Dockerd::Auto,
        Dockerd::Required => value::Dockerd::Required,
    };
    made.env.insert(variable::AGENT_DOCKERD.into(), dockerd.word().into());
    made.env.insert(variable::AGENT_REQUIRE_USER.into(), "1".into());
    made.env
        .insert(variable::AGENT_WORKDIR.into(), made.agent.workdir.to_string_lossy().into_owned());
    if let Some(command) = agent.command {
        made.terminal = true;
        made.env.insert(variable::AGENT_COMMAND.into(), command.as_str().to_owned());
        let args = serde_json::to_string(&agent.args.unwrap_or_default()).unwrap_or_default();
        made.env.insert(variable::AGENT_ARGS_JSON.into(), args);
    }
}

/// Mounts the control file of PID 1. The agent never reads it: it is removed before the agent starts, or is
/// in a directory that only root can enter.
fn controlled_by(made: &mut Container, above: &Path, agents: bool) {
    let (bits, access) = if agents { (0o700, Access::Rw) } else { (0o755, Access::Ro) };
    made.dirs.push(OwnDir { path: session::CONTROL_DIR.into(), mode: bits, agents });
    let inside = above.join(session::CONTROL_DIR);
    made.bind(Bind::of_session(Path::new(session::CONTROL_DIR), &inside, access));
    let file = inside.join(session::CONTROL_FILE).to_string_lossy().into_owned();
    made.env.insert(variable::AGENT_CONTROL_FILE.into(), file);
}

/// Mounts the directory of the rendezvous socket, which only root can reach, and sets the listeners that PID 1 passes to
/// the proxy.
fn open_rendezvous(_: &SessionPaths<'_>, made: &mut Container) {
    let Some(proxy) = &made.proxy else { return };
    let mut ports = vec![Port::Tcp(PROXY_PORT)];
    // The engine lets all users bind low ports in the container's private network namespace.
    if proxy.policy.is_some() {
        ports.extend([Port::Tcp(53), Port::Udp(53), Port::Tcp(443), Port::Tcp(80)]);
    }
    let inside = Path::new(PRIVATE_DIR).join(session::RENDEZVOUS_DIR);
    made.dirs.push(OwnDir { path: session::RENDEZVOUS_DIR.into(), mode: 0o755, agents: false });
    made.bind(Bind::of_session(Path::new(session::RENDEZVOUS_DIR), &inside, Access::Ro));
    let socket = inside.join(session::RENDEZVOUS_SOCKET).to_string_lossy().into_owned();
    made.env.insert(variable::AGENT_DOOR.into(), socket);
    made.env.insert(variable::AGENT_DOOR_PORTS.into(), port_list(&ports));
}

/// Mounts a home that outlives the container: a directory of the session, or one that PID 1 sets up.
fn home(
    config: &Config,
    session: &SessionPaths<'_>,
    made: &mut Container,
) -> Result<(), ContainerError> {
    if sets_up_home(config)
        || made
            .env
            .get(variable::AGENT_DOCKERD)
            .is_some_and(|word| word != value::Dockerd::Off.word())
    {
        // It contains the agent's home, and entries of other owners.
        made.dirs.push(OwnDir { path: "data".into(), mode: 0o711, agents: false });
        made.bind(Bind::of_session(Path::new("data"), Path::new(DATA), Access::Rw));
    }
    if !sets_up_home(config) {
        made.dirs.push(OwnDir { path: "home".into(), mode: 0o700, agents: true });
        made.bind(Bind::of_session(Path::new("home"), Path::new(HOME), Access::Rw));
        if made.agent.start == Start::Supervise {
            made.env.insert(variable::AGENT_HOME.into(), HOME.into());
        }
        return Ok(());
    }
    let engine = cow(config);
    made.env.insert(variable::AGENT_COW.into(), engine.word().into());
    let why = "PID 1 copies the home for the agent's user";
    made.allow(&["CHOWN", "DAC_OVERRIDE", "FOWNER"], why);
    if engine != Cow::None {
        made.allow(&["SYS_ADMIN"], "PID 1 mounts the layer on the home");
        made.except("no AppArmor profile", "the profile denies all mounts", None);
    }
    if engine == Cow::Agentfs {
        made.devices.push("/dev/fuse".into());
        made.new_privileges = true;
        made.except("new privileges", "a setuid program mounts the layer's file system", None);
    }
    super::mounts::home(config, session, made)
}
