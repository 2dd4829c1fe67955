//! Base of all trees: a repository, an archive and a crate.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use sandbox_policy::Host;
use testkit::{Layered, World};

use crate::BenchError;

/// Amount of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Number of files in the repository and in the archive.
    pub(crate) files: usize,
    /// Number of small files to create.
    pub(crate) small: usize,
    /// Size of the large file in MiB.
    pub(crate) large: usize,
    /// Number of random reads and writes of 4 KiB.
    pub(crate) random: usize,
    /// Number of writes with `fdatasync(2)`.
    pub(crate) synced: usize,
}

impl Size {
    pub(crate) const FULL: Self =
        Self { files: 6000, small: 10_000, large: 1024, random: 20_000, synced: 100 };
    pub(crate) const QUICK: Self =
        Self { files: 2000, small: 3000, large: 128, random: 5000, synced: 20 };
}

/// World with the base that all trees share.
pub(crate) struct Fixture {
    pub(crate) world: World,
    pub(crate) size: Size,
}

impl Fixture {
    pub(crate) fn new(size: Size) -> Result<Self, BenchError> {
        let host = Host::read();
        let binary = host.var("AGENT_SANDBOX_BIN").map(PathBuf::from);
        let binary = binary.filter(|path| path.is_file()).ok_or(BenchError::NoBinary)?;
        // Use the compiler that built this program. Its directory may be in a home.
        let compiler = Path::new(env!("CARGO")).parent().unwrap_or(Path::new("/usr/bin"));
        let found = host.var("PATH").unwrap_or_default();
        let path = format!("{}:/usr/sbin:/sbin:{}", compiler.display(), found.to_string_lossy());
        // The default is a disk directory that other users can access.
        let dir = host.var("BENCH_DIR").map_or("/var/tmp".into(), PathBuf::from);
        let world = World::below(&dir, binary.canonicalize()?);
        let world = world.env("PATH", path).env("CARGO_NET_OFFLINE", "true");
        fs::copy(std::env::current_exe()?, world.path("bench"))?;
        let fixture = Self { world, size };
        fixture.fill()?;
        Ok(fixture)
    }

    fn fill(&self) -> Result<(), BenchError> {
        let base = self.world.path("base");
        for number in 0..self.size.files {
            let dir = base.join(format!("repo/dir{}/sub{}", number % 30, number % 7));
            fs::create_dir_all(&dir)?;
            fs::write(dir.join(format!("file{number}.txt")), text(number))?;
        }
        fill_crate(&base.join("crate"))?;
        let shell =
            |script: &str| self.world.clone().cwd("base").host(["sh", "-euc", script]).succeeds();
        shell("tar cf ../files.tar repo");
        shell(
            "cd repo && git init -q -b main && git add -A && git commit -q -m start && git gc -q",
        );
        // Other users must be able to read it.
        shell(
            "mv ../files.tar . && chmod -R a+rX .. && chmod a+w ../home && git config --global --add safe.directory '*' && chmod a+r ../home/.gitconfig",
        );
        Ok(())
    }

    /// Returns a command line of this program that runs a task.
    pub(crate) fn own(&self, task: &str, amount: usize) -> Vec<OsString> {
        let own = self.world.path("bench");
        vec![own.into(), super::INSIDE.into(), task.into(), amount.to_string().into()]
    }

    /// Removes a tree, so that the next one has the same free space.
    pub(crate) fn remove(tree: Layered) -> Result<(), BenchError> {
        let dir = tree.dir().to_owned();
        drop(tree);
        fs::remove_dir_all(dir)?;
        Ok(())
    }
}

/// Creates a small crate with many modules.
fn fill_crate(dir: &Path) -> Result<(), BenchError> {
    const MODULES: usize = 40;
    fs::create_dir_all(dir.join("src"))?;
    let settings =
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n";
    fs::write(dir.join("Cargo.toml"), settings)?;
    for number in 0..MODULES {
        let part = format!("pub fn sum(n: u64) -> u64 {{ (1..=n).map(|x| x * {number}).sum() }}\n");
        fs::write(dir.join(format!("src/part{number}.rs")), part)?;
    }
    let modules: Vec<String> = (0..MODULES).map(|number| format!("mod part{number};")).collect();
    let main = "fn main() { println!(\"{}\", part7::sum(9)); }\n";
    fs::write(dir.join("src/main.rs"), modules.join("\n") + "\n" + main)?;
    Ok(())
}

/// Returns text with the size of typical source files: 0.5 to 8 KiB, 2 KiB on average.
fn text(number: usize) -> String {
    let lines = 10 + (number * 7919) % 60 + if number.is_multiple_of(10) { 100 } else { 0 };
    let line =
        |line: usize| format!("line {line} of file {number}: needle{}", (line * number) % 97);
    (0..lines).map(line).collect::<Vec<_>>().join("\n")
}
