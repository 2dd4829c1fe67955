//! AgentFS's own SDKs and this program on the same databases, in both directions.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use testkit::{Run, World, need, sdk};

/// Reads and writes a database through the SDK for Python: `dump`, `get DIR`, `put DIR`,
/// `write PATH TEXT`, `log NAME`. `get` and `put` copy all files of the root directory.
const PYTHON: &str = r#"
import asyncio, json, os, sys
from agentfs_sdk import AgentFS, AgentFSOptions

async def walk(fs, path, found):
    for name in await fs.readdir(path or "/"):
        at = f"{path}/{name}"
        stat = await fs.stat(at)
        if stat.is_directory():
            found[at] = None
            await walk(fs, at, found)
        elif stat.is_file():
            found[at] = (await fs.read_file(at, encoding=None)).decode("latin-1")

async def main():
    agent = await AgentFS.open(AgentFSOptions(path=sys.argv[1]))
    if sys.argv[2] == "dump":
        found = {}
        await walk(agent.fs, "", found)
        print(json.dumps(found))
    elif sys.argv[2] == "get":
        for name in await agent.fs.readdir("/"):
            with open(os.path.join(sys.argv[3], name), "wb") as file:
                file.write(await agent.fs.read_file("/" + name, encoding=None))
    elif sys.argv[2] == "put":
        for name in os.listdir(sys.argv[3]):
            with open(os.path.join(sys.argv[3], name), "rb") as file:
                await agent.fs.write_file("/" + name, file.read())
    elif sys.argv[2] == "write":
        await agent.fs.write_file(sys.argv[3], sys.argv[4])
    elif sys.argv[2] == "log":
        call = await agent.tools.start(sys.argv[3], {"a": 1})
        await agent.tools.success(call, {"b": 2})
        await agent.kv.set("key", {"c": 3})
    await agent.close()

asyncio.run(main())
"#;

/// Reads and writes a database through the SDK for Node.
const NODE: &str = r#"
import fs from "node:fs";
const { AgentFS } = await import(process.env.SDK);
const [database, verb, ...rest] = process.argv.slice(2);
const agent = await AgentFS.open({ path: database });
async function walk(path, found) {
  for (const name of await agent.fs.readdir(path || "/")) {
    const at = `${path}/${name}`;
    const stat = await agent.fs.stat(at);
    if (stat.isDirectory()) { found[at] = null; await walk(at, found); }
    else if (stat.isFile()) found[at] = (await agent.fs.readFile(at)).toString("latin1");
  }
}
if (verb === "dump") { const found = {}; await walk("", found); console.log(JSON.stringify(found)); }
if (verb === "get") for (const name of await agent.fs.readdir("/"))
  fs.writeFileSync(`${rest[0]}/${name}`, await agent.fs.readFile(`/${name}`));
if (verb === "put") for (const name of fs.readdirSync(rest[0]))
  await agent.fs.writeFile(`/${name}`, fs.readFileSync(`${rest[0]}/${name}`));
if (verb === "write") await agent.fs.writeFile(rest[0], rest[1]);
if (verb === "log") {
  const call = await agent.tools.start(rest[0], { a: 1 });
  await agent.tools.success(call, { b: 2 });
  await agent.kv.set("key", { c: 3 });
}
await agent.close();
"#;

/// One of the two SDKs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sdk {
    Python,
    Node,
}

pub(crate) const BOTH: [Sdk; 2] = [Sdk::Python, Sdk::Node];

impl Sdk {
    #[track_caller]
    pub(crate) fn run(self, world: &World, words: &[&str]) -> Run {
        let folder = sdk();
        let (program, script, text, name, value) = match self {
            Self::Python => ("python3", "sdk.py", PYTHON, "PYTHONPATH", folder.join("python")),
            Self::Node => {
                let index = folder.join("node_modules/agentfs-sdk/dist/index_node.js");
                ("node", "sdk.mjs", NODE, "SDK", index)
            }
        };
        need(program);
        world.write(script, text);
        let script = world.path(script).display().to_string();
        let world = world.clone().env(name, value);
        world.host([program, &script].iter().chain(words)).succeeds()
    }

    #[track_caller]
    fn dump(self, world: &World, database: &str) -> Value {
        let run = self.run(world, &[database, "dump"]);
        serde_json::from_str(&run.output()).unwrap_or_else(|error| panic!("{error}\n{run}"))
    }
}

/// Mount that is removed with the test.
pub(crate) struct Mount(pub(crate) PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("fusermount3").args(["-u", "-z", "-q"]).arg(&self.0).status();
    }
}

/// Mounts a database, runs a script in the mount, unmounts.
#[track_caller]
fn mounted(world: &World, database: &str, script: &str) -> Run {
    need("fusermount3");
    let world = world.clone().dir("mnt");
    let _mount = Mount(world.path("mnt"));
    world.run(["fs", "mount", database, "../mnt"]).succeeds();
    let run = world.clone().cwd("mnt").host(["sh", "-c", script]).succeeds();
    world.run(["fs", "unmount", "../mnt"]).succeeds();
    run
}

pub(crate) const ONE: &str = ".agentfs/one.db";

#[test]
fn what_is_written_in_a_mount_is_read_by_the_sdks() {
    for sdk in BOTH {
        let world = World::new();
        world.run(["fs", "init", "one"]).succeeds();
        mounted(
            &world,
            "one",
            "mkdir -p a/b; echo hello > a/b/file; : > empty; head -c 200000 /dev/zero | tr '\\0' x > large; echo old > gone; rm gone",
        );
        let found = sdk.dump(&world, ONE);
        assert_eq!(found["/a/b/file"], "hello\n", "{sdk:?}");
        assert_eq!(found["/empty"], "", "{sdk:?}");
        assert_eq!(found["/large"].as_str().unwrap().len(), 200_000, "{sdk:?}");
        assert_eq!(found.as_object().unwrap().len(), 5, "{sdk:?}: {found}");
        world.run(["fs", "fsck", "one"]).succeeds();
    }
}

#[test]
fn a_database_of_the_sdks_is_read_mounted_and_written_and_read_again_by_them() {
    for sdk in BOTH {
        let world = World::new().dir("project/.agentfs");
        sdk.run(&world, &[ONE, "write", "/dir/file", "from the sdk"]);
        let long = "y".repeat(10_000);
        sdk.run(&world, &[ONE, "write", "/long", &long]);
        sdk.run(&world, &[ONE, "log", "search"]);
        world.run(["fs", "ls", "-R", "one"]).succeeds().stdout("d dir\nf long\nf dir/file\n");
        world.run(["fs", "cat", "one", "dir/file"]).succeeds().stdout("from the sdk");
        world.run(["fs", "cat", "one", "long"]).succeeds().stdout(&long);
        world
            .run(["fs", "history", "one"])
            .succeeds()
            .stdout_contains("search")
            .stdout_contains("success");
        world.run(["fs", "fsck", "one"]).succeeds();
        mounted(&world, "one", "cat dir/file; echo ' and us' >> dir/file; mkdir new; echo x > new/x; mv long new/long; printf z | dd of=new/long bs=1 seek=5000 conv=notrunc status=none")
            .stdout("from the sdk");
        let found = sdk.dump(&world, ONE);
        assert_eq!(found["/dir/file"], "from the sdk and us\n", "{sdk:?}");
        assert_eq!(found["/new/x"], "x\n", "{sdk:?}");
        let changed = found["/new/long"].as_str().unwrap();
        assert_eq!((changed.len(), &changed[4999..5002]), (10_000, "yzy"), "{sdk:?}");
        world.run(["fs", "fsck", "one"]).succeeds();
        // And in the other direction.
        sdk.run(&world, &[ONE, "write", "/new/x", "theirs again"]);
        mounted(&world, "one", "cat new/x").stdout("theirs again");
    }
}

#[test]
fn an_exported_database_shows_the_same_tree_to_the_sdks() {
    for sdk in BOTH {
        let world = World::new()
            .file("base/kept", "base\n")
            .file("base/src/deep/main.rs", "fn main() {}\n")
            .file("base/gone", "soon\n");
        world.run(["fs", "init", "--base", "../base", "one"]).succeeds();
        mounted(
            &world,
            "one",
            "mv src moved; rm gone; echo new > new; mkdir src; truncate -s 100000 holes; printf end >> holes",
        );
        world.run(["fs", "export", "one", "../plain.db"]).succeeds();
        let plain = world.path("plain.db").display().to_string();
        let found = sdk.dump(&world, &plain);
        assert_eq!(found["/moved/deep/main.rs"], "fn main() {}\n", "{sdk:?}");
        assert_eq!(
            (found["/kept"].as_str(), found["/new"].as_str()),
            (Some("base\n"), Some("new\n"))
        );
        assert_eq!(found["/holes"].as_str().unwrap().len(), 100_003, "{sdk:?}");
        assert!(found.get("/gone").is_none() && found["/src"].is_null(), "{sdk:?}: {found}");
    }
}

#[test]
fn what_the_sdks_write_reaches_the_file() {
    // An engine that opens a database read-only may report success for a write.
    for sdk in BOTH {
        let world = World::new();
        world.run(["fs", "init", "one"]).succeeds();
        sdk.run(&world, &[ONE, "write", "/a", "1"]);
        sdk.run(&world, &[ONE, "write", "/b", "2"]);
        world.run(["fs", "cat", "one", "a"]).succeeds().stdout("1");
        world.run(["fs", "cat", "one", "b"]).succeeds().stdout("2");
    }
}
