//! Common programs behind an allow list: the same call to an allowed and to another host.

use testkit::{World, need};

use super::internet::Internet;
use crate::probe::sh;

#[test]
fn curl_reaches_what_is_allowed_and_is_told_about_the_rest() {
    need("curl");
    let internet = Internet::new();
    for url in ["https://api.example.com/hello", "http://api.example.com/hello"] {
        internet.world.host(["curl", "-sS", url]).succeeds().stdout("hello from api\n");
        internet.run(["curl", "-sS", url]).succeeds().stdout("hello from api\n");
    }
    for url in ["https://other.example.net/hello", "https://api.example.com:8443/hello"] {
        internet.world.host(["curl", "-sS", url]).succeeds();
    }
    let denied = "http://other.example.net/hello";
    let run = internet.run(["curl", "-sS", "-i", denied]).succeeds();
    run.stdout_contains("HTTP/1.1 403")
        .stdout_contains("x-agent-sandbox-error: host-not-allowed")
        .stdout_contains("\"host\":\"other.example.net\"")
        .stdout_contains("\"rule\":\"not in `allowed_hosts`\"")
        .stdout_contains("agent-sandbox --allow-host other.example.net");
    internet.run(["curl", "-sS", "https://other.example.net/hello"]).fails().stderr_contains("403");
    // A name in the machine's `/etc/hosts`.
    let listed = ["curl", "-sS", "http://listed.example.edu/hello"];
    let run = internet.world.run(["--allow-host", "listed.example.edu"].into_iter().chain(listed));
    run.succeeds().stdout("hello from the list\n");
    let port = ["--allow-host", "api.example.com:443", "curl", "-sS"];
    let to = |url| internet.world.run(port.into_iter().chain([url]));
    to("https://api.example.com/hello").succeeds().stdout("hello from api\n");
    to("https://api.example.com:8443/hello").fails();
}

#[test]
fn trailers_of_plain_http_arrive() {
    const URL: &str = "http://api.example.com/trailers";
    const ASK: [&str; 8] =
        ["curl", "-sS", "--raw", "-H", "TE: trailers", "-H", "Connection: TE", URL];
    need("curl");
    let internet = Internet::new();
    let expected = "4\r\nbody\r\n0\r\nx-sum: trailers\r\n\r\n";
    internet.world.host(ASK).succeeds().stdout(expected);
    internet.run(ASK).succeeds().stdout(expected);
    // By the address of a name that the sandbox serves, as programs without proxy support do.
    let direct = ASK.join("' '");
    internet.run(["sh", "-c", &format!("'{direct}' --noproxy '*'")]).succeeds().stdout(expected);
}

#[test]
fn socks_takes_names_and_addresses_that_are_allowed() {
    need("curl");
    let internet = Internet::new();
    let socks = |host: &str, url: &str| {
        let line =
            ["--allow-host", host, "curl", "-sSk", "--proxy", "socks5h://127.0.0.1:3128", url];
        internet.world.run(line)
    };
    socks("api.example.com", "https://api.example.com/hello").succeeds().stdout("hello from api\n");
    socks("api.example.com", "https://other.example.net/hello").fails();
    socks("api.example.com", "http://93.184.216.34/").fails();
    socks("93.184.216.34", "http://93.184.216.34/").succeeds();
}

/// Both ignore the proxy variables: this version of `node` does not know them, and `python` is told to ignore them.
#[test]
fn programs_that_know_no_proxy_reach_the_ports_of_the_web() {
    need("node");
    let internet = Internet::new();
    let fetch = |host: &str| {
        format!(
            "fetch('https://{host}/hello').then(r => r.text()).then(t => process.stdout.write(t))"
        )
    };
    internet.run(["node", "-e", &fetch("api.example.com")]).succeeds().stdout("hello from api\n");
    internet.world.host(["node", "-e", &fetch("other.example.net")]).succeeds();
    internet.run(["node", "-e", &fetch("other.example.net")]).fails().stdout("");
    let plain = "import urllib.request, sys
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
sys.stdout.write(direct.open(sys.argv[1]).read().decode())";
    let python = |url: &str| internet.run(["/usr/bin/python3", "-c", plain, url]);
    python("http://api.example.com/hello").succeeds().stdout("hello from api\n");
    python("https://api.example.com/hello").succeeds().stdout("hello from api\n");
    python("http://other.example.net/hello").fails().stderr_contains("Name or service not known");
}

#[test]
fn python_uses_the_variables() {
    let internet = Internet::new();
    let get = "import urllib.request, sys
sys.stdout.write(urllib.request.urlopen(sys.argv[1]).read().decode())";
    let python = |url: &str| internet.run(["/usr/bin/python3", "-c", get, url]);
    python("https://api.example.com/hello").succeeds().stdout("hello from api\n");
    python("https://other.example.net/hello").fails().stderr_contains("403");
}

#[test]
fn git_clones_over_https() {
    let world = World::new().file("source/read.me", "cloned\n").git_init("source");
    let internet = Internet::with(world);
    let bare = "git clone -q --bare ../source ../www/github.com/repo.git && git -C ../www/github.com/repo.git update-server-info
        mkdir -p ../www/git.example.net && cp -r ../www/github.com/repo.git ../www/git.example.net/";
    internet.world.host(sh(&format!("mkdir -p ../www/github.com && {bare}"))).succeeds();
    let clone = |from: &str, to: &str| {
        let url = format!("https://{from}/repo.git");
        internet.world.run(["--allow-host", "@github", "git", "clone", "-q", &url, to])
    };
    clone("github.com", "a").succeeds();
    assert_eq!(internet.world.read("project/a/read.me"), "cloned\n");
    clone("git.example.net", "b").fails().stderr_contains("403");
    assert!(!internet.world.has("project/b/read.me"));
}

#[test]
fn npm_installs_from_its_registry() {
    need("npm");
    let world = World::new()
        .dir("home/.npm")
        .file("package/package/package.json", "{\"name\":\"tiny\",\"version\":\"1.0.0\"}")
        .file(
            "www/registry.npmjs.org/tiny",
            "{\"name\":\"tiny\",\"dist-tags\":{\"latest\":\"1.0.0\"},\"versions\":{\"1.0.0\":{\"name\":\"tiny\",\"version\":\"1.0.0\",\
             \"dist\":{\"tarball\":\"https://registry.npmjs.org/tiny-1.0.0.tgz\"}}}}",
        )
        .file("project/package.json", "{\"private\":true}");
    world
        .host(sh("tar -czf ../www/registry.npmjs.org/tiny-1.0.0.tgz -C ../package package"))
        .succeeds();
    let internet = Internet::with(world);
    let install = |host: &str| {
        let line = "npm install --no-audit --no-fund --no-update-notifier --fetch-retries 0 tiny";
        internet.world.run(["--allow-host", host].into_iter().chain(line.split(' ')))
    };
    install("api.example.com").fails();
    assert!(!internet.world.has("project/node_modules/tiny"));
    install("@npm").succeeds();
    assert!(internet.world.has("project/node_modules/tiny/package.json"));
}

#[test]
fn pip_installs_from_its_index() {
    need("pip3");
    let wheel = "import zipfile
name = 'tiny-1.0-py3-none-any.whl'
with zipfile.ZipFile('../www/files.pythonhosted.org/' + name, 'w') as whl:
    whl.writestr('tiny.py', 'x = 1\\n')
    whl.writestr('tiny-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')
    whl.writestr('tiny-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    whl.writestr('tiny-1.0.dist-info/RECORD', '')";
    let world = World::new()
        .dir("www/files.pythonhosted.org")
        .file(
            "www/pypi.org/simple/tiny/index.html",
            "<a href='https://files.pythonhosted.org/tiny-1.0-py3-none-any.whl'>tiny-1.0-py3-none-any.whl</a>",
        );
    world.host(["/usr/bin/python3", "-c", wheel]).succeeds();
    let internet = Internet::with(world);
    let install = |host: &str| {
        let line = "/usr/bin/pip3 install --quiet --no-cache-dir --disable-pip-version-check --retries 0 --target site \
                    --index-url https://pypi.org/simple tiny";
        internet.world.run(
            ["--allow-host", host]
                .into_iter()
                .chain(line.split(' ').filter(|word| !word.is_empty())),
        )
    };
    install("pypi.org").fails();
    install("@pypi").succeeds();
    assert!(internet.world.has("project/site/tiny.py"));
}

/// Fetches a crate with the toolchain that built this test.
#[test]
fn cargo_fetches_from_its_registry() {
    let bin = std::path::Path::new(env!("CARGO")).parent().expect("it lies in a directory");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    let world = World::new()
        .file("crate/tiny-1.0.0/Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"1.0.0\"\nedition = \"2021\"\n")
        .file("crate/tiny-1.0.0/src/lib.rs", "")
        .dir("www/static.crates.io/crates/tiny/1.0.0")
        .file("www/index.crates.io/config.json", "{\"dl\":\"https://static.crates.io/crates\"}")
        .file(
            "project/Cargo.toml",
            "[package]\nname = \"user\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[dependencies]\ntiny = \"1\"\n",
        )
        .file("project/src/lib.rs", "");
    let publish = "file=../www/static.crates.io/crates/tiny/1.0.0/download
        tar -czf $file -C ../crate tiny-1.0.0; mkdir -p ../www/index.crates.io/ti/ny
        printf '{\"name\":\"tiny\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"%s\",\"features\":{},\"yanked\":false}\\n' \
          \"$(sha256sum < $file | cut -d' ' -f1)\" > ../www/index.crates.io/ti/ny/tiny";
    world.host(sh(publish)).succeeds();
    let internet = Internet::with(world);
    let fetch = |host: &str| {
        let authority = internet.world.path("project/authority.pem");
        let world = internet
            .world
            .clone()
            .env("CARGO_HOME", internet.world.path("project/cargo-home").as_os_str());
        let world = world
            .env("CARGO_HTTP_CAINFO", authority.as_os_str())
            .env("CARGO_NET_RETRY", "0")
            .env("PATH", &path);
        world.run(["--allow-host", host, "cargo", "fetch", "--quiet"])
    };
    fetch("static.crates.io").fails().stderr_contains("403");
    fetch("@crates").succeeds();
    assert!(internet.world.has("project/Cargo.lock"));
}
