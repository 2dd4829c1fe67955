//! Hosts that are used together. Each is on port 443 unless the tool needs another.

/// Hosts with one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostPreset {
    /// The name, with its `@`.
    pub name: &'static str,
    /// Its purpose.
    pub about: &'static str,
    /// The patterns.
    pub hosts: &'static [&'static str],
    /// True for hosts that are only read from, such as those of packages.
    pub read_only: bool,
}

/// Hosts of packages, forges and images. Hosts that accept uploads from every account, such as gists, are in none.
pub(super) const TOOLS: &[HostPreset] = &[
    HostPreset {
        name: "@npm",
        about: "packages of npm",
        hosts: &["registry.npmjs.org:443"],
        read_only: true,
    },
    HostPreset {
        name: "@pypi",
        about: "packages of Python",
        hosts: &["pypi.org:443", "files.pythonhosted.org:443"],
        read_only: true,
    },
    HostPreset {
        name: "@crates",
        about: "crates of Rust",
        hosts: &["crates.io:443", "index.crates.io:443", "static.crates.io:443"],
        read_only: true,
    },
    HostPreset {
        name: "@rust",
        about: "toolchains of Rust",
        hosts: &["static.rust-lang.org:443"],
        read_only: true,
    },
    HostPreset {
        name: "@go",
        about: "modules of Go",
        hosts: &["proxy.golang.org:443", "sum.golang.org:443"],
        read_only: true,
    },
    HostPreset {
        name: "@maven",
        about: "artifacts of Maven Central",
        hosts: &["repo.maven.apache.org:443", "repo1.maven.org:443"],
        read_only: true,
    },
    HostPreset {
        name: "@rubygems",
        about: "gems of Ruby",
        hosts: &["rubygems.org:443", "index.rubygems.org:443"],
        read_only: true,
    },
    HostPreset {
        name: "@github",
        about: "repositories, releases and the API of GitHub",
        hosts: &[
            "github.com:443",
            "api.github.com:443",
            "codeload.github.com:443",
            "raw.githubusercontent.com:443",
            "objects.githubusercontent.com:443",
            "release-assets.githubusercontent.com:443",
        ],
        read_only: false,
    },
    HostPreset {
        name: "@gitlab",
        about: "repositories of gitlab.com",
        hosts: &["gitlab.com:443", "registry.gitlab.com:443"],
        read_only: false,
    },
    HostPreset {
        name: "@debian",
        about: "packages of Debian",
        hosts: &[
            "deb.debian.org:80",
            "deb.debian.org:443",
            "security.debian.org:80",
            "security.debian.org:443",
        ],
        read_only: true,
    },
    HostPreset {
        name: "@ubuntu",
        about: "packages of Ubuntu",
        hosts: &[
            "archive.ubuntu.com:80",
            "archive.ubuntu.com:443",
            "security.ubuntu.com:80",
            "security.ubuntu.com:443",
            "ports.ubuntu.com:80",
            "ports.ubuntu.com:443",
        ],
        read_only: true,
    },
    HostPreset {
        name: "@alpine",
        about: "packages of Alpine",
        hosts: &["dl-cdn.alpinelinux.org:80", "dl-cdn.alpinelinux.org:443"],
        read_only: true,
    },
    HostPreset {
        name: "@docker",
        about: "images of Docker Hub",
        hosts: &[
            "registry-1.docker.io:443",
            "auth.docker.io:443",
            "production.cloudflare.docker.com:443",
        ],
        read_only: true,
    },
];
