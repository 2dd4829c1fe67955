//! Host presets: named groups of hosts that a tool needs together, on port 443 unless it uses another.

/// A named group of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostPreset {
    /// The name, with its `@`.
    pub name: &'static str,
    /// Description of the hosts.
    pub about: &'static str,
    /// The patterns.
    pub hosts: &'static [&'static str],
    /// True for hosts that are only for downloads, such as package registries.
    pub read_only: bool,
}

/// Presets of packages, forges and images. None contains a host where any account can upload, such as gists.
pub(super) const TOOLS: &[HostPreset] = &[
    HostPreset {
        name: "@npm",
        about: "npm packages",
        hosts: &["registry.npmjs.org:443"],
        read_only: true,
    },
    HostPreset {
        name: "@pypi",
        about: "Python packages",
        hosts: &["pypi.org:443", "files.pythonhosted.org:443"],
        read_only: true,
    },
    HostPreset {
        name: "@crates",
        about: "Rust crates",
        hosts: &["crates.io:443", "index.crates.io:443", "static.crates.io:443"],
        read_only: true,
    },
    HostPreset {
        name: "@rust",
        about: "Rust toolchains",
        hosts: &["static.rust-lang.org:443"],
        read_only: true,
    },
    HostPreset {
        name: "@go",
        about: "Go modules",
        hosts: &["proxy.golang.org:443", "sum.golang.org:443"],
        read_only: true,
    },
    HostPreset {
        name: "@maven",
        about: "Maven Central artifacts",
        hosts: &["repo.maven.apache.org:443", "repo1.maven.org:443"],
        read_only: true,
    },
    HostPreset {
        name: "@rubygems",
        about: "Ruby gems",
        hosts: &["rubygems.org:443", "index.rubygems.org:443"],
        read_only: true,
    },
    HostPreset {
        name: "@github",
        about: "GitHub repositories, releases and API",
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
        about: "gitlab.com repositories",
        hosts: &["gitlab.com:443", "registry.gitlab.com:443"],
        read_only: false,
    },
    HostPreset {
        name: "@debian",
        about: "Debian packages",
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
        about: "Ubuntu packages",
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
        about: "Alpine packages",
        hosts: &["dl-cdn.alpinelinux.org:80", "dl-cdn.alpinelinux.org:443"],
        read_only: true,
    },
    HostPreset {
        name: "@docker",
        about: "Docker Hub images",
        hosts: &[
            "registry-1.docker.io:443",
            "auth.docker.io:443",
            "production.cloudflare.docker.com:443",
        ],
        read_only: true,
    },
];
