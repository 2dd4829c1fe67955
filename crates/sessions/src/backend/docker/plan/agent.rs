//! Who the agent is, and what PID 1 does for it.

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
use super::{Container, ContainerError, Engine, GRACE, OwnDir, OwnFile, SessionPaths};
use sandbox_policy::config::{Access, AgentInit, Config, CowEngine, Dockerd, Origin};
use sandbox_policy::host::Host;
use sandbox_policy::network::PROXY_PORT;

/// The number of the user `agent` in images of ours.
const USUAL: u32 = 1000;

/// Who the agent is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Agent {
    /// As the engine and the first process are told.
    pub user: String,
    /// Its numbers, where they are known before the image is looked into.
    pub ids: Option<(u32, u32)>,
    /// Its home.
    pub home: PathBuf,
    /// Where it starts.
    pub workdir: PathBuf,
    /// What PID 1 does.
    pub start: Start,
    /// Uid of PID 1 where the agent has root's. The name in a plan is older, and part of every policy's hash.
    #[serde(rename = "keeper", skip_serializing_if = "Option::is_none")]
    pub init_uid: Option<u32>,
}

/// What PID 1 does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// It becomes the agent.
    Exec,
    /// It starts the agent and stays.
    Supervise,
}

impl Agent {
    /// The one that the configuration asks for. By default it has the caller's number, so that files
    /// belong to the caller.
    pub(super) fn of(
        host: &Host,
        config: &Config,
        engine: &Engine,
    ) -> Result<Self, ContainerError> {
        let asked = config.session.agent.as_ref();
        let text = asked.map(|agent| agent.value.clone()).unwrap_or_default();
        let origin = asked.map_or(Origin::Default, |agent| agent.origin.clone());
        let (user, ids) = user(host, config, engine, text.user.as_deref())
            .map_err(|(user, why)| ContainerError::User { origin, user, why })?;
        let set_up = sets_up_home(config);
        let keeps = cow(config) != Cow::None;
        let home = match (set_up, keeps) {
            (false, _) | (true, true) => PathBuf::from(HOME),
            (true, false) => Path::new(DATA).join("agent"),
        };
        let usual = if set_up { home.join("workspace") } else { WORKSPACE.into() };
        let workdir = text.workdir.map_or(usual, PathBuf::from);
        let init_uid = users::init_uid(engine, ids);
        Ok(Self { user, ids, home, workdir, start: Start::Exec, init_uid })
    }

    /// Returns the options of a tmpfs that belongs to PID 1, also where the agent has uid 0.
    pub(super) fn of_init(&self, options: &str) -> String {
        let owner = self.init_uid.map(|number| format!(",uid={number},gid={number}"));
        format!("{options}{}", owner.unwrap_or_default())
    }
}

type Named = (String, Option<(u32, u32)>);

fn user(
    host: &Host,
    config: &Config,
    engine: &Engine,
    wanted: Option<&str>,
) -> Result<Named, (String, &'static str)> {
    let numbered = |uid: u32, gid: u32| (format!("{uid}:{gid}"), Some((uid, gid)));
    let Some(wanted) = wanted.filter(|name| *name != "agent") else {
        let (uid, gid) = callers(host, config, engine);
        return Ok(numbered(uid, gid));
    };
    let (name, group) = wanted.split_once(':').unwrap_or((wanted, ""));
    let refused = |why| Err((wanted.to_owned(), why));
    match (name.parse::<u32>(), group.parse::<u32>()) {
        (Ok(0), _) => refused("that is root"),
        (Ok(uid), Ok(gid)) => Ok(numbered(uid, gid)),
        (Ok(uid), Err(_)) if group.is_empty() => Ok(numbered(uid, uid)),
        _ if name == "root" => refused("that is root"),
        _ if !is_name(name) || !group.is_empty() => refused("it is neither a name nor a number"),
        _ => Ok((name.to_owned(), None)),
    }
}

fn is_name(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(letters)
}

/// Root's agent is not root: it is whoever has the project, else the user of our images. The root of a rootless
/// Docker is the caller.
fn callers(host: &Host, config: &Config, engine: &Engine) -> (u32, u32) {
    if engine.rootless && !engine.podman {
        return (0, 0);
    }
    if host.uid != 0 {
        return (host.uid, host.gid);
    }
    let owner = std::fs::metadata(project(config)).ok().map(|about| (about.uid(), about.gid()));
    owner.filter(|(uid, _)| *uid != 0 && !engine.rootless).unwrap_or((USUAL, USUAL))
}

/// Who keeps the changes of a home that the first process sets up.
fn cow(config: &Config) -> Cow {
    let cloned = config.session.workspace.as_ref().filter(|_| clones(config));
    match cloned.and_then(|workspace| workspace.value.cow) {
        None | Some(CowEngine::Off) => Cow::None,
        Some(CowEngine::On | CowEngine::Overlay) => Cow::Overlay,
        Some(CowEngine::Agentfs) => Cow::Agentfs,
    }
}

/// The first process, with what it needs and no more.
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
            // Nothing has to be done after the agent, which as PID 1 does not hear TERM unless it handles it.
            made.stop_timeout = GRACE;
            own_tmp(made);
            controlled_by(made, Path::new(RUNTIME_DIR), true);
            Personality::Entrypoint
        }
        Start::Supervise => {
            made.user = "0:0".into();
            let why = "the first process starts the agent as its user, and ends it";
            made.allow(&["SETUID", "SETGID", "SETPCAP", "KILL"], why);
            let private = made.agent.of_init("rw,nosuid,nodev,noexec,mode=0700,size=1m");
            made.tmpfs.insert(PRIVATE_DIR.into(), private);
            controlled_by(made, Path::new(PRIVATE_DIR), false);
            open_door(session, made);
            made.env.insert(variable::AGENT_STOP_GRACE.into(), GRACE.to_string());
            Personality::Init
        }
    };
    made.entrypoint = vec![init, personality.word().into()];
    home(config, session, made)
}

/// The first process is the agent, and only the owner may change the mode of `/tmp`, which some engines take from the
/// image.
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
            "there is no `agent.command`: somebody has to wait for `exec`",
        ),
        (sets_up_home(config), "the workspace or the home has to be set up"),
        (made.door.is_some(), "the way to the proxy has to be opened"),
        (!made.layers.is_empty(), "what lies below the layer has to be looked at"),
        (
            services.is_some_and(|services| services.value.dockerd != Dockerd::Off),
            "a Docker daemon has to be started",
        ),
        (made.agent.ids.is_none(), "the image has to be asked who that user is"),
    ];
    let need = needs.into_iter().find(|(is_needed, _)| *is_needed).map(|(_, why)| why);
    // Where nobody stays beside the agent, it can read the key of host commands: only whoever asks for that gets it.
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

/// Our own programs, from beside this one; else the image has to have the first process.
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

/// Any image knows the agent, by the number that it has here.
fn describe_user(made: &mut Container) {
    let Some((uid, gid)) = made.agent.ids else { return };
    let home = made.agent.home.display();
    // The first of a number gives it its name.
    let passwd = format!(
        "agent:x:{uid}:{gid}:agent:{home}:/bin/sh\nroot:x:0:0:root:/root:/sbin/nologin\n\
         nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n"
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
    // The set-up of a home goes by the user's name.
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
        made.env.insert(variable::AGENT_COMMAND.into(), command);
        let args = serde_json::to_string(&agent.args.unwrap_or_default()).unwrap_or_default();
        made.env.insert(variable::AGENT_ARGS_JSON.into(), args);
    }
}

/// Where the first process finds what is said about the session. The agent never reads it: it is gone
/// before, or lies where only root can go.
fn controlled_by(made: &mut Container, above: &Path, agents: bool) {
    let (bits, access) = if agents { (0o700, Access::Rw) } else { (0o755, Access::Ro) };
    made.dirs.push(OwnDir { path: session::CONTROL_DIR.into(), mode: bits, agents });
    let inside = above.join(session::CONTROL_DIR);
    made.bind(Bind::of_session(Path::new(session::CONTROL_DIR), &inside, access));
    let file = inside.join(session::CONTROL_FILE).to_string_lossy().into_owned();
    made.env.insert(variable::AGENT_CONTROL_FILE.into(), file);
}

/// The way to the proxy: a directory that only root can reach, and the listeners to hand over there.
fn open_door(_: &SessionPaths<'_>, made: &mut Container) {
    let Some(door) = &made.door else { return };
    let mut ports = vec![Port::Tcp(PROXY_PORT)];
    // The engine lets everybody inside use low ports: it is a network of its own.
    if door.policy.is_some() {
        ports.extend([Port::Tcp(53), Port::Udp(53), Port::Tcp(443), Port::Tcp(80)]);
    }
    let inside = Path::new(PRIVATE_DIR).join(session::RENDEZVOUS_DIR);
    made.dirs.push(OwnDir { path: session::RENDEZVOUS_DIR.into(), mode: 0o755, agents: false });
    made.bind(Bind::of_session(Path::new(session::RENDEZVOUS_DIR), &inside, Access::Ro));
    let socket = inside.join(session::RENDEZVOUS_SOCKET).to_string_lossy().into_owned();
    made.env.insert(variable::AGENT_DOOR.into(), socket);
    made.env.insert(variable::AGENT_DOOR_PORTS.into(), port_list(&ports));
}

/// A home that outlives the container: a directory of the session's, or what the first process sets up.
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
        // The agent's home is in it, and what else is there has an owner of its own.
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
    let why = "the first process copies the home for the agent's user";
    made.allow(&["CHOWN", "DAC_OVERRIDE", "FOWNER"], why);
    if engine != Cow::None {
        made.allow(&["SYS_ADMIN"], "the first process mounts the layer on the home");
        made.except("no AppArmor profile", "it forbids every mount", None);
    }
    if engine == Cow::Agentfs {
        made.devices.push("/dev/fuse".into());
        made.new_privileges = true;
        made.except(
            "new privileges",
            "the layer's file system is mounted by a setuid program",
            None,
        );
    }
    super::mounts::home(config, session, made)
}
