//! `environment.md`: variables that are read, set and hidden.

use sandbox_policy::network::proxy_variables;
use sandbox_policy::variable::{Hidden, hidden_variables, provider_variables};

use super::{code, table};

const INTRO: &str = "\
# Environment variables

The command gets the caller's environment, without the variables that `@secrets` hides, and with a few more that the
sandbox sets. To pass a hidden variable: [secrets and environment](../how-to/secrets-and-environment.md).
";

const READ: &[(&str, &str)] = &[
    ("HOME", "the home directory, which is `~` in rules"),
    ("PATH", "the directories in which commands and bubblewrap are found"),
    ("XDG_CONFIG_HOME", "the directory with `agent-sandbox/config.*` [default: `~/.config`]"),
    (
        "XDG_STATE_HOME",
        "the directory with `agent-sandbox`, which holds trust and run records [default: `~/.local/state`]",
    ),
    (
        "XDG_RUNTIME_DIR",
        "the directory of the proxy's sockets, and of the socket of a rootless Docker daemon",
    ),
    ("DOCKER_HOST", "the Docker daemon's address, with `docker = true`"),
    ("AGENT_SANDBOX_TRUST", "`1` trusts the project's configuration, as `--trust` does"),
    ("AGENT_SANDBOX_MOUNTS", "`bwrap` leaves all mounts to bubblewrap"),
    (
        "AGENT_SANDBOX_API_TOKEN",
        "the token for callers of `serve --listen`; not passed to sessions",
    ),
    ("NO_COLOR", "no colours, unless `--color always`"),
    ("TERM", "`dumb` means no colours"),
];

const SET: &[(&str, &str)] = &[
    ("PATH", "the caller's, with `/run/agent-sandbox` in front"),
    ("TMPDIR", "`/tmp`, if that is private"),
    ("XDG_RUNTIME_DIR", "`/run/user/UID`, private and empty"),
    ("AGENT_SANDBOX_CMD", "in a wrapper script: the name of the command that was called"),
    ("AGENT_SANDBOX_REAL", "in a wrapper script: the real program; empty when there is none"),
    (
        "AGENT_SANDBOX_PID",
        "in a wrapper script: its process ID, by which agent-sandbox recognises its calls",
    ),
];

#[test]
fn environment_page_lists_the_variables() {
    let described = |rows: &[(&str, &str)]| {
        let rows: Vec<_> = rows.iter().map(|(name, what)| [code(name), (*what).into()]).collect();
        table(["variable", "meaning"], rows)
    };
    let mut text = format!(
        "{INTRO}\n## Read\n\n{}\n## Set inside the sandbox\n\n{}\n## Hidden by `@secrets`\n\n\
         `*` stands for any text. `NODE_OPTIONS` is hidden only when it loads code.\n",
        described(READ),
        described(SET)
    );
    let proxy: Vec<&str> = proxy_variables().map(|(name, _)| name).collect();
    text = text.replacen(
        "\n## Hidden by",
        &format!("\n### With a list of hosts\n\nThey point to the proxy on the sandbox's loopback.\n\n{}\n\n## Hidden by", list(&proxy)),
        1,
    );
    for (why, names) in hidden_variables() {
        let heading = match why {
            Hidden::Credential => "Credentials",
            Hidden::Socket => "Addresses of sockets on the host",
            Hidden::Injecting => "Variables that make programs run other code",
        };
        text.extend([format!("\n### {heading}\n\n{}\n", list(&names))]);
    }
    let mut passed: Vec<&str> = Vec::new();
    for name in provider_variables() {
        if !passed.contains(&name) {
            passed.push(name);
        }
    }
    text.extend([format!(
        "\n## Never hidden as credentials\n\nAn agent needs these variables to reach its model.\n\n{}\n",
        list(&passed)
    )]);
    super::page("environment.md", &text);
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| code(name)).collect::<Vec<_>>().join(", ")
}
