//! Rendering of a plan as native namespaces and mounts.

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

/// Method by which paths in the home directory are hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hiding {
    /// One overlay, if the plan has it.
    Overlay,
    /// One mount for each path.
    Binds,
}

/// Namespaces of a sandbox, and its root: the base, and the steps on top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Namespaces to create.
    pub enclosure: Enclosure,
    /// User ID inside, if it differs from the caller's.
    pub seen_as: Option<u32>,
    /// The part of the host's root to start with.
    pub base: Base,
    /// Mounts and files on top, in order.
    pub steps: Vec<Step>,
}

/// Renders a plan. `terminal` is the caller's terminal, which becomes `/dev/console`.
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
        // Root outside is an ordinary user inside. Without capabilities, user 0 could not create the namespaces of a
        // nested sandbox: user_namespaces(7), on mapping user 0.
        seen_as: plan.runtime.identity.is_some().then_some(AGENT_ID),
        base: Base { writable: plan.root_writable, taken: taken(plan) },
        steps: steps.list,
    }
}

/// Returns the namespaces to create. The PID namespace must match `/proc`.
pub(crate) fn enclosure(proc: &Proc, network: bool) -> Enclosure {
    Enclosure { pids: *proc != Proc::Outer, network }
}

/// Returns the step that mounts `/proc`.
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

/// Returns the part of the host's root to start with: all of it in one mount, unless the top level needs new names.
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
    /// Paths created so far, so that none is created twice.
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
            // Read-only protects mode and owner. A read-only mount does not prevent writing to a device.
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
            // The overlay has to come before the mounts below it, also if the home directory has no mount itself.
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
            self.mount_point(home);
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
            self.mount_point(mount);
        }
        if self.copy_on_write(plan, mount) {
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

    /// Adds the mount for a copy-on-write path, or for a path below one. Returns false for any other mount, and adds
    /// nothing.
    fn copy_on_write(&mut self, plan: &Plan, mount: &Mount) -> bool {
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

    /// Creates the mount point for a mount in a directory that is created for the sandbox.
    fn mount_point(&mut self, mount: &Mount) {
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
            self.replace_file(&format!("identity-{index}"), 0o444, content, Path::new(path));
        }
        if let Some(resolver) = &runtime.resolver {
            self.resolver(resolver);
        }
    }

    fn resolver(&mut self, file: &ResolverFile) {
        let content = RESOLVER_CONFIGURATION.as_bytes();
        if !file.create {
            return self.replace_file("resolver", 0o444, content, &file.target);
        }
        let ancestors: Vec<_> = file.target.ancestors().skip(1).collect();
        for ancestor in ancestors.into_iter().rev().filter(|path| path.parent().is_some()) {
            self.dir(ancestor, 0o755);
        }
        let (target, content) = (file.target.clone(), content.to_vec());
        self.list.push(Step::File { target, mode: 0o444, content });
    }

    /// Provides writable files whose directories are read-only.
    ///
    /// Many programs save a file by writing a new one beside it and renaming it. In a read-only directory that fails
    /// with `EROFS`, and they give up. So each file is mounted in a separate writable directory, and a symlink replaces
    /// it in the home directory. There only the final rename fails, with `EBUSY` because the file is a mount point, and
    /// such programs then write to the file directly.
    fn files(&mut self, plan: &Plan, overlay: Option<&HomeOverlay>) {
        let Some(overlay) = overlay.filter(|overlay| !overlay.files.is_empty()) else { return };
        let dir = Path::new(FILES_DIR);
        self.dir(dir, 0o755);
        self.tmpfs(dir, 0o755);
        for (path, place) in links(overlay) {
            self.dir(place.parent().unwrap_or(dir), 0o755);
            self.file(&place);
            let store = plan.mounts.iter().find(|mount| mount.target == path).and_then(|mount| {
                let cow = plan.cow.as_ref()?;
                let Through::Store(number, _) = cow.through(mount) else { return None };
                cow.stores.get(number)
            });
            match store {
                Some(Store::Path(copy)) => self.bind(copy, &place, false, false),
                _ => self.bind(path, &place, false, false),
            }
        }
    }

    /// Creates a file in the runtime directory and mounts it over a file of the host.
    fn replace_file(&mut self, name: &str, mode: u32, content: &[u8], over: &Path) {
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
                    let name = format!("shim-{index}");
                    self.replace_file(&name, 0o555, shim.as_bytes(), &cover.target);
                }
            }
        }
    }

    /// Makes every directory created here read-only, except `/tmp` and the user's runtime directory.
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

/// Returns the writable files below the overlay, and the targets of the symlinks that replace them.
fn links(overlay: &HomeOverlay) -> impl Iterator<Item = (&Path, PathBuf)> {
    overlay.files.iter().enumerate().map(|(index, path)| {
        let name = path.file_name().unwrap_or_default();
        (path.as_path(), Path::new(FILES_DIR).join(index.to_string()).join(name))
    })
}

/// Returns true if a mount or file is created in a directory after the directory was hidden.
fn has_content(plan: &Plan, hidden: &Mount) -> bool {
    let resolver = plan.runtime.resolver.as_ref();
    let is_inside = |file: &ResolverFile| file.create && file.target.starts_with(&hidden.target);
    has_below(&plan.mounts, &hidden.target) || resolver.is_some_and(is_inside)
}

fn is_linked(overlay: &HomeOverlay, mount: &Mount) -> bool {
    overlay.files.contains(&mount.target)
}

/// Returns true if the overlay makes a mount redundant: the home directory itself, and hidden paths in it, unless a path
/// below has to be visible again.
fn is_hidden_by(plan: &Plan, overlay: &HomeOverlay, mount: &Mount) -> bool {
    if mount.target == overlay.dir {
        return true;
    }
    let is_mask = matches!(mount.view, View::EmptyDir | View::EmptyFile);
    is_mask && is_below(plan, overlay, &mount.target) && !has_below(&plan.mounts, &mount.target)
}

/// Returns true if a path is seen through the overlay, and not through a mount on top of it.
fn is_below(plan: &Plan, overlay: &HomeOverlay, path: &Path) -> bool {
    let above = path.parent().and_then(|parent| nearest(&plan.mounts, parent));
    path.starts_with(&overlay.dir)
        && above.is_none_or(|mount| overlay.dir.starts_with(&mount.target))
}

#[cfg(test)]
mod tests;
