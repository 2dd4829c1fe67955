//! `presets.md`: the tables of the presets.

use sandbox_policy::catalog::host_presets;
use sandbox_policy::preset::{NAMES, Table, tables};

use super::{code, table};

const INTRO: &str = "\
# Presets

A preset is a list of rules with a name. `@all` is on by default. A file turns one on with `\"@name\"` and off with
`\"!@name\"` in `filesystem.presets`. The last entry about a preset wins.

Relative paths start at the working directory, and `~` is the home directory. A rule for a path that does not exist
changes nothing. If several rules name the same path: [rules](../concepts/rules.md).
";

const GIT: &str = "
## `@git` and `@git-strict`

These presets apply to repositories, not to a list of paths. In every repository that the command can write:

- `config`, `config.worktree` and `hooks` are read-only, and so is the directory that `core.hooksPath` names.
- `.git` cannot be renamed or replaced.
- The same holds for worktrees, submodules, nested and bare repositories.
- New files that git would act on are moved aside at the end of the run. See [git](../how-to/git.md).
- `@git-strict` also makes other branches and all tags read-only. Only the branch that is checked out can move.
";

const HOSTS: &str = "
## Hosts

These are entries of `network.allowed_hosts` and `--allow-host`. None is on by default. No preset contains a host that
accepts uploads without an account. See [hosts by name](../how-to/allow-hosts.md).
";

#[test]
fn presets_page_lists_the_tables() {
    let names = NAMES.iter().map(|(name, about)| [code(name), (*about).to_owned()]);
    let mut text = format!("{INTRO}\n{}", table(["preset", "what it does"], names));
    let all: Vec<Table> = tables().collect();
    for (name, _) in NAMES {
        for Table { only_root, lines, .. } in all.iter().filter(|table| table.preset == *name) {
            let when = if *only_root { ", when root starts the sandbox" } else { "" };
            let rows = lines.iter().map(|(access, path)| [code(path), access.word().to_owned()]);
            text.extend([format!("\n## `{name}`{when}\n\n{}", table(["path", "rule"], rows))]);
        }
        if *name == "@git" {
            text.push_str(GIT);
        }
    }
    let hosts = host_presets().map(|preset| {
        let hosts: Vec<_> = preset.hosts.iter().map(|host| code(host)).collect();
        [code(preset.name), preset.about.to_owned(), hosts.join(" ")]
    });
    text.extend([format!("{HOSTS}\n{}", table(["preset", "what it is for", "hosts"], hosts))]);
    super::page("presets.md", &text);
}
