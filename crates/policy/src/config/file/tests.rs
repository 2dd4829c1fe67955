mod keys;

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

/// A file with every key, in both syntaxes.
const JSONC: &str = r#"{
  "$schema": "https://example.com/schema.json",
  // rules
  "filesystem": {
    "presets": ["!@lint/ts", "@git-strict"],
    "ro": ["src", "!vendor"],
    "rw": ["~/out"],
    "exclude": ["**/*.key",], /* trailing comma */
  },
  "commands": { "git": true, "rm": false, "npm": "tools/npm" },
  "network": { "mode": "allow", "allowed_hosts": ["example.com"], "denied_hosts": [] },
  "docker": true,
  "tmp": "host",
  "launcher": "shim",
  "sockets": ["/run/a.sock"],
  "cow": "overlay",
  "mounts": [{ "host": "/a", "container": "/b", "mode": "rw" }, { "host": "/c", "container": "/d" }],
  "shared_dirs": { "out": { "host": "./out", "guest": "/out" } },
  "secrets": { "key": { "mode": "proxy", "env_var": "KEY", "provider": "openai", "upstream_url": "https://example.com" } },
  "backend": "docker",
  "image": "sandbox-image",
  "agent": { "command": "claude", "args": ["-p"], "user": "me", "workdir": "/w", "init": "supervise" },
  "env": { "A": "1", "GH_TOKEN": true },
  "env_file": ".env",
  "resources": { "memory": "512m", "cpus": 1.5, "pids": 512 },
  "proxy": { "addr": ":8090" },
  "workspace": { "path": ".", "commit": "HEAD", "cow": true },
  "home": { "template": "/home/x", "data": "/.data" },
  "services": { "dockerd": "required" },
  "host_commands": { "enabled": true, "transport": "ssh", "ssh_key_secret": "k", "user": "u", "host": "h", "allowed": ["git status"] }
}"#;

const TOML: &str = r#"
"$schema" = "https://example.com/schema.json"
docker = true
tmp = "host"
launcher = "shim"
sockets = ["/run/a.sock"]
cow = "overlay"
mounts = [{ host = "/a", container = "/b", mode = "rw" }, { host = "/c", container = "/d" }]
backend = "docker"
image = "sandbox-image"
env_file = ".env"
[filesystem]
presets = ["!@lint/ts", "@git-strict"]
ro = ["src", "!vendor"]
rw = ["~/out"]
exclude = ["**/*.key"]
[commands]
git = true
rm = false
npm = "tools/npm"
[network]
mode = "allow"
allowed_hosts = ["example.com"]
denied_hosts = []
[shared_dirs]
out = { host = "./out", guest = "/out" }
[secrets.key]
mode = "proxy"
env_var = "KEY"
provider = "openai"
upstream_url = "https://example.com"
[agent]
command = "claude"
args = ["-p"]
user = "me"
workdir = "/w"
init = "supervise"
[env]
A = "1"
GH_TOKEN = true
[resources]
memory = "512m"
cpus = 1.5
pids = 512
[proxy]
addr = ":8090"
[workspace]
path = "."
commit = "HEAD"
cow = true
[home]
template = "/home/x"
data = "/.data"
[services]
dockerd = "required"
[host_commands]
enabled = true
transport = "ssh"
ssh_key_secret = "k"
user = "u"
host = "h"
allowed = ["git status"]
"#;

fn jsonc(text: &str) -> Result<FileConfig, FileError> {
    parse(text, Syntax::Jsonc, Path::new("a.json"))
}

fn toml(text: &str) -> Result<FileConfig, FileError> {
    parse(text, Syntax::Toml, Path::new("a.toml"))
}

#[test]
fn parse_gives_the_same_types_when_the_syntax_differs() {
    let (from_jsonc, from_toml) = (jsonc(JSONC).unwrap(), toml(TOML).unwrap());
    assert_eq!(from_jsonc, from_toml);
    assert_eq!(from_jsonc.filesystem.ro[1].value.as_str(), "!vendor");
    assert_eq!(from_jsonc.filesystem.ro[1].position, Position { line: 6, column: 19 });
    assert_eq!(from_toml.filesystem.ro[1].position, Position { line: 14, column: 14 });
    let resources = from_toml.resources.unwrap().value;
    assert_eq!(resources.memory, Some(Memory(512 << 20)));
    assert_eq!(resources.cpus, Some(Cpus(1500)));
}

#[test]
fn parse_lifts_the_keys_when_they_stand_under_sandbox() {
    let inner = JSONC.replace("\"$schema\": \"https://example.com/schema.json\",", "");
    let mut lifted = jsonc(&format!("{{ \"sandbox\": {inner} }}")).unwrap();
    assert_eq!(lifted.sandbox.take().map(|at| at.value), Some(Nested {}));
    let plain = jsonc(&inner).unwrap();
    assert_eq!(lifted, plain);
}

#[test]
fn parse_takes_every_documented_form_of_network() {
    use crate::config::Network::{Allow, Off, On};
    for (text, expected) in [
        ("true", Some(On)),
        ("false", Some(Off)),
        ("'host'", Some(On)),
        ("'none'", Some(Off)),
        ("'bridge'", None),
        ("'my-net'", None),
        ("{ mode = 'none' }", Some(Off)),
        ("{ mode = 'host' }", Some(On)),
        ("{ mode = 'my-net' }", None),
        ("'allow'", Some(Allow)),
        ("{ allowed_hosts = [] }", Some(Allow)),
        (
            "{ mode = 'allow', allowed_hosts = ['a.io', '*.b.io:443', '@npm', '!c.io'] }",
            Some(Allow),
        ),
        ("{ private_hosts = ['db.corp.example'], denied_hosts = ['10.0.0.1'] }", Some(Allow)),
    ] {
        let network = toml(&format!("network = {text}")).unwrap().network.unwrap().value;
        assert_eq!(network.local(), expected, "{text}");
    }
    for (text, said) in [
        ("{ mode = 'host', denied_hosts = ['a'] }", "does not use lists"),
        ("{ mode = 'none', allowed_hosts = [] }", "does not use lists"),
        ("{ mode = 'bridge', denied_hosts = ['a'] }", "does not use lists"),
        ("{ mode = 'my-net', allowed_hosts = ['a.io'] }", "does not use lists"),
        ("{ allowed_hosts = ['*'] }", "too broad"),
        ("{ allowed_hosts = ['*.com'] }", "too broad"),
        ("{ allowed_hosts = ['https://a.io'] }", "`https://a.io`"),
        ("{ allowed_hosts = ['@nmp'] }", "unknown host preset"),
        ("{ denied_hosts = ['a.io.'] }", "ends with a dot"),
    ] {
        let error = toml(&format!("network = {text}")).unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn parse_takes_shared_dirs_when_they_are_a_list() {
    let list = toml("shared_dirs = [{ host_path = 'a', guest_path = '/a', read_only = true }]");
    let dirs = list.unwrap().shared_dirs.unwrap().value;
    let expected = SharedDir {
        host: FilePath::new("a").unwrap(),
        guest: InsidePath::new("/a").unwrap(),
        read_only: true,
    };
    assert_eq!(dirs.all().map(|dir| &dir.value).collect::<Vec<_>>(), [&expected]);
}

/// Returns the message and the hint for each text.
fn complaints(syntax: Syntax, texts: &[&str]) -> String {
    let mut out = String::new();
    for text in texts {
        let error = parse(text, syntax, Path::new("f")).expect_err(text);
        writeln!(out, "{error}").unwrap();
        if let Some(hint) = error.hint() {
            writeln!(out, "    hint: {hint}").unwrap();
        }
    }
    out
}

const WRONG_JSONC: &[&str] = &[
    "",
    " \n\t",
    "// nothing\n",
    "{\n  \"netwrk\": false\n}",
    "{ \"Network\": false }",
    "{ \"filesystem\": { \"rox\": [] } }",
    "{ \"sandbx\": {} }",
    "{ \"sandbox\": { \"sandbox\": {} } }",
    "{ \"docker\": true,\n  \"sandbox\": { \"docker\": false } }",
    "{ \"docker\": true,\n  \"docker\": false }",
    "{} {}",
    "[]",
    "{ \"docker\": null }",
    "{ \"docker\": \"yes\" }",
    "{ \"filesystem\": { \"ro\": \"src\" } }",
    "{ \"filesystem\": { \"ro\": [\"é\", 5] } }",
    "{ \"filesystem\": { \"ro\": [\"\"] } }",
    "{ \"filesystem\": { \"ro\": [\"@git\"] } }",
    "{ \"filesystem\": { \"presets\": [\"@secret\"] } }",
    "{ \"filesystem\": { \"presets\": [\"!base\"] } }",
    "{ \"commands\": { \"git\": \"@gti\" } }",
    "{ \"commands\": { \"/bin/git\": false } }",
    "{ \"commands\": { \"git\": null } }",
    "{ \"network\": {} }",
    "{ \"network\": 5 }",
    "{ \"network\": \"a b\" }",
    "{ \"tmp\": \"privat\" }",
    "{ \"tmp\": false }",
    "{ \"mounts\": [{ \"host\": \"/a\" }] }",
    "{ \"env\": { \"A\": false } }",
    "{ \"env\": { \"A=B\": \"x\" } }",
    "{ \"resources\": { \"memory\": \"lots\" } }",
    "{ \"resources\": { \"pids\": -1 } }",
    "{ 'docker': true }",
    "{ docker: true }",
    "{ \"docker\": true \"tmp\": \"host\" }",
    "{ \"docker\": tru }",
    "{ \"image\": \"\u{1b}[2J\u{1b}",
];

#[test]
fn parse_points_at_the_place_when_jsonc_is_wrong() {
    insta::assert_snapshot!(complaints(Syntax::Jsonc, WRONG_JSONC), @r#"
f:1:1: the file is empty
    hint: remove the file, or add settings to it
f:1:1: the file is empty
    hint: remove the file, or add settings to it
f:2:1: the file is empty
    hint: remove the file, or add settings to it
f:2:3: unknown key `netwrk`
    hint: did you mean `network`?
f:1:3: unknown key `Network`
    hint: did you mean `network`?
f:1:19: unknown key `filesystem.rox`
    hint: did you mean `ro`?
f:1:3: unknown key `sandbx`
    hint: did you mean `sandbox`?
f:1:16: key `sandbox` is given twice, first on line 1
f:2:16: key `docker` is given twice, first on line 1
f:2:3: key `docker` is given twice, first on line 1
f:1:4: text cannot contain more than one JSON value
f:1:1: expected a table of keys, found a list
f:1:13: `docker`: expected a boolean, found `null`
f:1:13: `docker`: expected a boolean, found the text `yes`
f:1:25: `filesystem.ro`: expected a list, found the text `src`
f:1:31: `filesystem.ro[1]`: expected a string, found the number 5
f:1:26: `filesystem.ro[0]`: the path is empty
f:1:26: `filesystem.ro[0]`: `@git` is a preset, not a path
    hint: put it into `filesystem.presets`, or write `./@git` for a file with this name
f:1:31: `filesystem.presets[0]`: unknown preset `@secret`
    hint: did you mean `@secrets`?
f:1:31: `filesystem.presets[0]`: unknown preset `!base`
    hint: did you mean `!@base`?
f:1:24: `commands.git`: unknown command preset `@gti`, the only one is `@git`
f:1:17: `commands`: invalid command name `/bin/git`
    hint: write the name of the command without a path
f:1:24: `commands.git`: expected `true`, `false`, `"@git"` or the path of a script, found `null`
f:1:14: `network`: missing key `mode`
f:1:14: `network`: expected `true`, `false`, a mode or a table, found the number 5
f:1:14: `network`: unknown network `a b`
f:1:10: `tmp`: unknown value `privat`, expected `private` or `host`
    hint: did you mean `private`?
f:1:10: `tmp`: expected a word, found `false`
f:1:14: `mounts[0]`: missing key `container`
f:1:17: `env.A`: expected a string, or `true` to pass the caller's value, found `false`
f:1:12: `env`: invalid variable name `A=B`
f:1:28: `resources.memory`: invalid amount of memory `lots`
    hint: write a number with `k`, `m` or `g`, such as `"512m"`
f:1:26: `resources.pids`: expected a whole number from 1, found the number -1
f:1:3: single-quoted strings are not allowed
f:1:3: expected string for object property
f:1:17: expected comma
f:1:13: unexpected word
f:1:12: unterminated string literal
"#);
}

#[test]
fn parse_points_at_the_place_when_toml_is_wrong() {
    insta::assert_snapshot!(complaints(Syntax::Toml, &[
        "",
        "netwrk = false",
        "docker = true\ndocker = false",
        "[filesystem]\nro = []\n[filesystem]\nrw = []",
        "docker = 1979-05-27",
        "docker = ",
        "x",
        "[filesystem]\nro = [\"a\", 5]",
        "filesystem.ro = 'src'",
        "resources.pids = 99999999999999999999",
        "resources.cpus = 1.23456",
        "services.dockerd = true",
        "sandbox = 5",
    ]), @r#"
f:1:1: the file is empty
    hint: remove the file, or add settings to it
f:1:1: unknown key `netwrk`
    hint: did you mean `network`?
f:2:1: key `docker` is given twice
f:3:2: key `filesystem` is given twice
f:1:10: `docker`: expected a boolean, found a date
f:1:10: string values must be quoted, expected literal string
f:1:2: key with no value, expected `=`
f:2:12: `filesystem.ro[1]`: expected a string, found the number 5
f:1:17: `filesystem.ro`: expected a list, found the text `src`
f:1:18: `resources.pids`: expected a whole number from 1, found a number out of range
f:1:18: `resources.cpus`: invalid number of CPUs `1.23456`
    hint: write a number such as `"1.5"`
f:1:20: `services.dockerd`: expected `false`, `"auto"` or `"required"`, found `true`
f:1:11: `sandbox`: expected a table of keys, found the number 5
"#);
}

#[test]
fn parse_takes_comments_alone_when_the_syntax_is_toml() {
    assert_eq!(toml("# nothing yet\n").unwrap(), FileConfig::default());
}

#[test]
fn parse_ignores_a_byte_order_mark() {
    assert_eq!(jsonc("\u{feff}{}").unwrap(), FileConfig::default());
    assert_eq!(toml("\u{feff}docker = true").unwrap().docker.unwrap().position.column, 10);
}

#[test]
fn parse_refuses_depth_and_size_beyond_reason() {
    for depth in [100, 600, 100_000] {
        let text = format!("{{\"image\": {}", "[".repeat(depth));
        assert!(jsonc(&text).is_err());
        let text = format!("{{\"image\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(jsonc(&text).is_err());
        let text = format!("image = {}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(toml(&text).is_err());
        assert!(toml(&format!("{}a = 1", "a.".repeat(depth))).is_err());
    }
    let large = format!("{{}}{}", " ".repeat(300_000));
    assert_eq!(jsonc(&large).unwrap_err().problem, Problem::TooLarge);
}

#[test]
fn decode_points_at_the_byte_when_the_file_is_not_utf8() {
    let error = decode(b"{\n \xc3\xa9 \xff}", Path::new("f")).unwrap_err();
    assert_eq!(error.to_string(), "f:2:4: the file is not UTF-8");
}

#[test]
fn syntax_follows_the_name_and_then_the_text() {
    for (path, text, expected) in [
        ("a.toml", "{", Syntax::Toml),
        ("a.json", "x = 1", Syntax::Jsonc),
        ("a.jsonc", "", Syntax::Jsonc),
        ("/dev/fd/63", " \n{}", Syntax::Jsonc),
        ("/dev/fd/63", "// x\n{}", Syntax::Jsonc),
        ("/dev/fd/63", "x = 1", Syntax::Toml),
    ] {
        assert_eq!(Syntax::of(Path::new(path), text), expected, "{path}");
    }
}

#[test]
fn schema_describes_every_key_and_hides_positions() {
    let schema = crate::config::schema();
    let keys = schema["properties"].as_object().unwrap();
    let file: serde_json::Value = {
        let plain: String = JSONC.lines().filter(|line| !line.trim().starts_with("//")).collect();
        serde_json::from_str(
            &plain
                .replace("],  }", "] }")
                .replace(",], /* trailing comma */", "],")
                .replace("],  },", "] },"),
        )
        .unwrap()
    };
    for key in file.as_object().unwrap().keys() {
        assert!(keys.contains_key(key), "{key}");
    }
    assert_eq!(schema["properties"]["sandbox"]["$ref"], "#");
    assert_eq!(schema["additionalProperties"], false);
    let text = schema.to_string();
    assert!(!text.contains("position"), "{text}");
    assert!(!text.contains("null"), "{text}");
}

proptest! {
    #[test]
    fn parse_never_panics(text in "\\PC*") {
        let _ = jsonc(&text);
        let _ = toml(&text);
    }

    #[test]
    fn parse_never_panics_when_a_good_file_is_damaged(at in 0..2000usize, with in "\\PC{0,3}", cut in 0..5usize) {
        for (text, syntax) in [(JSONC, Syntax::Jsonc), (TOML, Syntax::Toml)] {
            let letters: Vec<char> = text.chars().collect();
            let at = at.min(letters.len());
            let rest = (at + cut).min(letters.len());
            let damaged: String =
                letters[..at].iter().copied().chain(with.chars()).chain(letters[rest..].iter().copied()).collect();
            let _ = parse(&damaged, syntax, Path::new("f"));
        }
    }
}
