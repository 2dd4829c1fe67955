//! A plan as namespaces and mounts of our own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sandbox_linux::enclosure::Enclosure;
use sandbox_linux::root::{Base, Hidden, Step, Taken};
use sandbox_protocol::layout::{FILES_DIR, RUNTIME_BINARY, RUNTIME_DIR, runtime};

use super::bwrap::joined;
use crate::plan::{
    AGENT_ID, HomeOverlay, Identity, Layers, Mount, Plan, Proc, ResolverFile, Store, Through, View,
    has_below, nearest,
};
use crate::wrapper::{CoverBy, Package};
use sandbox_policy::config::{Network, Tmp};
use sandbox_policy::network::RESOLVER_CONFIGURATION;
use sandbox_policy::path::Kind;

/// Whether hiding in the home directory is done by one overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hiding {
    /// Yes, if the plan allows it.
    Overlay,
    /// No: by a mount for each path.
    Binds,
}

/// The namespaces, the root before the first step, and the steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Which namespaces are made.
    pub enclosure: Enclosure,
    /// The id that the user is seen by, when it is not his own.
    pub seen_as: Option<u32>,
    /// What is taken from the host's root.
    pub base: Base,
    /// What is made on top.
    pub steps: Vec<Step>,
}

/// The mounts of a plan, in order. `terminal` is the caller's, shown as `/dev/console`.
pub fn root(plan: &Plan, hiding: Hiding, terminal: Option<&Path>) -> Root {
    let overlay = plan.home_overlay.as_ref().filter(|_| hiding == Hiding::Overlay);
    let mut steps = Steps { list: Vec::new(), made: BTreeSet::new() };
    steps.system_dirs(plan, terminal);
    steps.mounts(plan, overlay);
    steps.runtime(plan);
    steps.files(plan, overlay);
    steps.seals(plan, overlay);
    let network = plan.config.network.value != Network::On;
    Root {
        enclosure: enclosure(&plan.runtime.proc, network),
        // Root outside, an ordinary user inside: without capabilities root could not make the
        // namespaces of a nested sandbox (user_namespaces(7), on mapping user 0).
        seen_as: plan.runtime.identity.is_some().then_some(AGENT_ID),
        base: Base { writable: plan.root_writable, taken: taken(plan) },
        steps: steps.list,
    }
}

/// The numbers of processes must be those that `/proc` shows.
pub(crate) fn enclosure(proc: &Proc, network: bool) -> Enclosure {
    Enclosure { pids: *proc != Proc::Outer, network }
}

/// `/proc` for these processes.
pub(crate) fn processes(proc: &Proc) -> Step {
    let target = PathBuf::from("/proc");
    match proc {
        Proc::New => Step::Processes { target, guarded: Vec::new() },
        Proc::Guarded(paths) => Step::Processes { target, guarded: paths.clone() },
        Proc::Outer => {
            Step::Bind { source: target.clone(), target, read_only: false, devices: false }
        }
    }
}

/// One mount does for the whole root, unless something has to be added at the top.
fn taken(plan: &Plan) -> Taken {
    if plan.top_level.is_empty() {
        return Taken::Whole;
    }
    let mut own = vec!["proc".to_owned(), "dev".to_owned(), "run".to_owned()];
    if plan.config.tmp.value == Tmp::Private {
        own.push("tmp".to_owned());
    }
    Taken::Without(own)
}

struct Steps {
    list: Vec<Step>,
    /// Places made so far, so that none is made twice.
    made: BTreeSet<PathBuf>,
}

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const DEVICE_LINKS: [(&str, &str); 6] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("core", "/proc/kcore"),
    ("ptmx", "pts/ptmx"),
];

impl Steps {
    fn dir(&mut self, path: &Path, mode: u32) {
        if self.made.insert(path.to_path_buf()) {
            self.list.push(Step::Dir { target: path.to_path_buf(), mode });
        }
    }

    fn file(&mut self, path: &Path) {
        if self.made.insert(path.to_path_buf()) {
            self.list.push(Step::File {
                target: path.to_path_buf(),
                mode: 0o644,
                content: Vec::new(),
            });
        }
    }

    fn tmpfs(&mut self, path: &Path, mode: u32) {
        self.list.push(Step::Tmpfs { target: path.to_path_buf(), mode });
    }

    fn bind(&mut self, source: &Path, target: &Path, read_only: bool, devices: bool) {
        let (source, target) = (source.to_path_buf(), target.to_path_buf());
        self.list.push(Step::Bind { source, target, read_only, devices });
    }

    /// `/proc`, `/dev`, `/run` and `/tmp`.
    fn system_dirs(&mut self, plan: &Plan, terminal: Option<&Path>) {
        self.dir(Path::new("/proc"), 0o755);
        self.list.push(processes(&plan.runtime.proc));
        self.devices(terminal);
        self.dir(Path::new("/run"), 0o755);
        self.tmpfs(Path::new("/run"), 0o755);
        if plan.config.tmp.value == Tmp::Private {
            self.dir(Path::new("/tmp"), 0o755);
            self.tmpfs(Path::new("/tmp"), 0o1777);
        }
    }

    fn devices(&mut self, terminal: Option<&Path>) {
        let dev = Path::new("/dev");
        self.dir(dev, 0o755);
        self.tmpfs(dev, 0o755);
        for name in DEVICES {
            let path = dev.join(name);
            self.file(&path);
            // Read-only concerns the mode and the owner; a device can be written all the same.
            self.bind(&path, &path, true, true);
        }
        for (name, to) in DEVICE_LINKS {
            self.list.push(Step::Symlink { target: dev.join(name), to: to.into() });
        }
        self.dir(&dev.join("pts"), 0o755);
        self.list.push(Step::Terminals { target: dev.join("pts") });
        self.dir(&dev.join("shm"), 0o755);
        self.tmpfs(&dev.join("shm"), 0o1777);
        if let Some(terminal) = terminal {
            self.file(&dev.join("console"));
            self.bind(terminal, &dev.join("console"), true, true);
        }
    }

    fn mounts(&mut self, plan: &Plan, overlay: Option<&HomeOverlay>) {
        let mut pending = overlay;
        for mount in &plan.mounts {
            // The home directory itself may need no mount; the overlay goes before what lies in it.
            if let Some(overlay) = pending.take_if(|overlay| mount.target >= overlay.dir) {
                self.home_overlay(plan, overlay);
            }
            if overlay.is_none_or(|overlay| {
                !is_hidden_by(plan, overlay, mount) && !is_linked(overlay, mount)
            }) {
                self.mount(plan, mount);
            }
        }
        if let Some(overlay) = pending {
            self.home_overlay(plan, overlay);
        }
        for socket in plan
            .sockets
            .iter()
            .filter(|socket| !overlay.is_some_and(|overlay| is_below(plan, overlay, socket)))
        {
            self.list.push(Step::Socket { target: socket.clone() });
        }
    }

    fn home_overlay(&mut self, plan: &Plan, overlay: &HomeOverlay) {
        if let Some(home) =
            plan.mounts.iter().find(|mount| mount.target == overlay.dir && mount.create)
        {
            self.place(home);
        }
        let relative = |path: &Path| path.strip_prefix(&overlay.dir).unwrap_or(path).to_path_buf();
        let masks = plan
            .mounts
            .iter()
            .filter(|mount| mount.target != overlay.dir && is_hidden_by(plan, overlay, mount));
        let mut hidden: Vec<(PathBuf, Hidden)> = masks
            .map(|mount| {
                let what = if mount.view == View::EmptyDir { Hidden::Dir } else { Hidden::File };
                (relative(&mount.target), what)
            })
            .collect();
        hidden.extend(overlay.missing.iter().map(|path| (relative(path), Hidden::Nothing)));
        hidden.extend(links(overlay).map(|(path, place)| (relative(path), Hidden::Link(place))));
        self.list.push(Step::HidingOverlay { dir: overlay.dir.clone(), hidden });
    }

    fn mount(&mut self, plan: &Plan, mount: &Mount) {
        if mount.create {
            self.place(mount);
        }
        if self.kept_apart(plan, mount) {
            return;
        }
        match mount.view {
            View::ReadWrite | View::Pin => self.bind(&mount.source, &mount.target, false, false),
            View::ReadOnly => self.bind(&mount.source, &mount.target, true, false),
            View::Device => self.bind(&mount.source, &mount.target, false, true),
            View::EmptyDir if has_content(plan, mount) => self.tmpfs(&mount.target, 0o555),
            View::EmptyDir => {
                self.list.push(Step::EmptyDir { target: mount.target.clone() });
            }
            View::EmptyFile => self.list.push(Step::EmptyFile { target: mount.target.clone() }),
        }
    }

    /// A place whose changes are kept apart shows what stands in for it; so does a mount that
    /// lies in such a place. Whether it was one.
    fn kept_apart(&mut self, plan: &Plan, mount: &Mount) -> bool {
        let Some(cow) = &plan.cow else { return false };
        let Through::Store(number, below) = cow.through(mount) else { return false };
        let target = mount.target.clone();
        match cow.stores.get(number) {
            Some(Store::Path(path)) => self.bind(&joined(path, below), &target, false, false),
            Some(Store::Overlay(layers)) if below.as_os_str().is_empty() => {
                let Layers { data, lower, upper, work } = layers.clone();
                let source = mount.source.clone();
                self.list.push(Step::Overlay { number, source, target, data, lower, upper, work });
            }
            Some(Store::Overlay(_)) => {
                self.list.push(Step::Within { number, below: below.to_path_buf(), target });
            }
            None => self.bind(&mount.source, &target, true, false),
        }
        true
    }

    /// Makes the place for a mount in a directory of ours.
    fn place(&mut self, mount: &Mount) {
        let ancestors: Vec<_> = mount.target.ancestors().skip(1).collect();
        for ancestor in ancestors.into_iter().rev().filter(|path| path.parent().is_some()) {
            self.dir(ancestor, 0o755);
        }
        match mount.kind {
            Kind::Dir => self.dir(&mount.target, 0o755),
            Kind::File | Kind::Missing => self.file(&mount.target),
        }
    }

    fn runtime(&mut self, plan: &Plan) {
        let runtime = &plan.runtime;
        let dir = Path::new(RUNTIME_DIR);
        self.dir(Path::new("/run/user"), 0o755);
        self.dir(&runtime.user_dir, 0o700);
        self.tmpfs(&runtime.user_dir, 0o700);
        self.dir(dir, 0o111);
        for name in runtime::DIRS {
            self.dir(&dir.join(name), 0o111);
        }
        if runtime.nested {
            self.dir(&dir.join(runtime::OUTER), 0o111);
            self.bind(dir, &dir.join(runtime::OUTER), true, false);
        }
        self.program(&runtime.binary, Path::new(RUNTIME_BINARY));
        for (name, real) in &runtime.commands.bins {
            self.program(real, &dir.join(runtime::BIN).join(name));
        }
        for Package { name, dir: package, script } in &runtime.commands.packages {
            self.dir(&dir.join(runtime::REAL).join(name), 0o111);
            self.bind(package, &dir.join(runtime::REAL).join(name), true, false);
            let (target, to) =
                (dir.join(runtime::BIN).join(name), Path::new("../real").join(name).join(script));
            self.list.push(Step::Symlink { target, to });
        }
        for file in &runtime.commands.files {
            let (target, mode, content) = (dir.join(file.path()), file.mode, file.content.clone());
            self.list.push(Step::File { target, mode, content });
        }
        if !runtime.policy.is_empty() {
            let (target, content) = (dir.join(runtime::POLICY), runtime.policy.clone());
            self.list.push(Step::File { target, mode: 0o444, content });
        }
        self.covers(plan);
        for (index, (path, content)) in
            runtime.identity.iter().flat_map(Identity::files).enumerate()
        {
            self.stand_in(&format!("identity-{index}"), 0o444, content, Path::new(path));
        }
        if let Some(resolver) = &runtime.resolver {
            self.resolver(resolver);
        }
    }

    fn resolver(&mut self, file: &ResolverFile) {
        let content = RESOLVER_CONFIGURATION.as_bytes();
        if !file.create {
            return self.stand_in("resolver", 0o444, content, &file.target);
        }
        let ancestors: Vec<_> = file.target.ancestors().skip(1).collect();
        for ancestor in ancestors.into_iter().rev().filter(|path| path.parent().is_some()) {
            self.dir(ancestor, 0o755);
        }
        let (target, content) = (file.target.clone(), content.to_vec());
        self.list.push(Step::File { target, mode: 0o444, content });
    }

    /// A program that saves a file by replacing it needs a directory to do that in, and the one
    /// that a writable file is seen in is read-only. So each gets a directory of its own, and a
    /// link stands in its place. The last step of replacing fails there with EBUSY, at which such
    /// programs write the file itself; at the EROFS of its own directory they give up.
    fn files(&mut self, plan: &Plan, overlay: Option<&HomeOverlay>) {
        let Some(overlay) = overlay.filter(|overlay| !overlay.files.is_empty()) else { return };
        let dir = Path::new(FILES_DIR);
        self.dir(dir, 0o755);
        self.tmpfs(dir, 0o755);
        for (path, place) in links(overlay) {
            self.dir(place.parent().unwrap_or(dir), 0o755);
            self.file(&place);
            let stand_in =
                plan.mounts.iter().find(|mount| mount.target == path).and_then(|mount| {
                    let cow = plan.cow.as_ref()?;
                    let Through::Store(number, _) = cow.through(mount) else { return None };
                    cow.stores.get(number)
                });
            match stand_in {
                Some(Store::Path(copy)) => self.bind(copy, &place, false, false),
                _ => self.bind(path, &place, false, false),
            }
        }
    }

    /// Makes a file out of sight and puts it over one of the host's.
    fn stand_in(&mut self, name: &str, mode: u32, content: &[u8], over: &Path) {
        let source = Path::new(RUNTIME_DIR).join(name);
        self.list.push(Step::File { target: source.clone(), mode, content: content.to_vec() });
        self.list.push(Step::Rebind { source, target: over.to_path_buf() });
    }

    fn program(&mut self, source: &Path, target: &Path) {
        self.file(target);
        self.bind(source, target, true, false);
    }

    fn covers(&mut self, plan: &Plan) {
        for (index, cover) in plan.runtime.commands.covers.iter().enumerate() {
            match &cover.how {
                CoverBy::Launcher => self.bind(&plan.runtime.binary, &cover.target, true, false),
                CoverBy::Shim(shim) => {
                    self.stand_in(&format!("shim-{index}"), 0o555, shim.as_bytes(), &cover.target);
                }
            }
        }
    }

    /// Nothing made here can be changed, apart from `/tmp` and the runtime directory of the user.
    fn seals(&mut self, plan: &Plan, overlay: Option<&HomeOverlay>) {
        let empty = plan.mounts.iter().filter(|mount| mount.view == View::EmptyDir);
        for mount in empty.filter(|mount| has_content(plan, mount)) {
            if overlay.is_none_or(|overlay| !is_hidden_by(plan, overlay, mount)) {
                self.list.push(Step::Seal { target: mount.target.clone() });
            }
        }
        self.list.push(Step::Seal { target: "/run".into() });
        if taken(plan) != Taken::Whole {
            self.list.push(Step::Seal { target: "/".into() });
        }
    }
}

/// The writable files seen through the overlay, and the places they are linked to.
fn links(overlay: &HomeOverlay) -> impl Iterator<Item = (&Path, PathBuf)> {
    overlay.files.iter().enumerate().map(|(index, path)| {
        let name = path.file_name().unwrap_or_default();
        (path.as_path(), Path::new(FILES_DIR).join(index.to_string()).join(name))
    })
}

/// Returns true when something is made in a hidden directory after it was hidden.
fn has_content(plan: &Plan, hidden: &Mount) -> bool {
    let resolver = plan.runtime.resolver.as_ref();
    let is_inside = |file: &ResolverFile| file.create && file.target.starts_with(&hidden.target);
    has_below(&plan.mounts, &hidden.target) || resolver.is_some_and(is_inside)
}

fn is_linked(overlay: &HomeOverlay, mount: &Mount) -> bool {
    overlay.files.contains(&mount.target)
}

/// Whether the overlay does what this mount was for: the home directory itself, and what is
/// hidden in it, unless something below has to be visible again.
fn is_hidden_by(plan: &Plan, overlay: &HomeOverlay, mount: &Mount) -> bool {
    if mount.target == overlay.dir {
        return true;
    }
    let is_mask = matches!(mount.view, View::EmptyDir | View::EmptyFile);
    is_mask && is_below(plan, overlay, &mount.target) && !has_below(&plan.mounts, &mount.target)
}

/// Whether a path is seen through the overlay, and not through a mount on top of it.
fn is_below(plan: &Plan, overlay: &HomeOverlay, path: &Path) -> bool {
    let above = path.parent().and_then(|parent| nearest(&plan.mounts, parent));
    path.starts_with(&overlay.dir)
        && above.is_none_or(|mount| overlay.dir.starts_with(&mount.target))
}

#[cfg(test)]
mod tests;
