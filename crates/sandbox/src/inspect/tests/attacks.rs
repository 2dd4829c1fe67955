//! Attacks that plant something the host's git acts on.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::world::World;

pub(super) struct Attack {
    pub(super) id: &'static str,
    /// Sets up the files that exist before the run.
    pub(super) before: fn(&World),
    /// Does what the sandbox does.
    pub(super) plant: fn(&World),
    /// Directory and arguments of the git command that the host runs afterwards.
    pub(super) then: (&'static str, &'static [&'static str]),
}

const STATUS: &[&str] = &["status"];
const COMMIT: &[&str] = &["commit", "--allow-empty", "-qm", "next"];

fn nothing(_: &World) {}

fn repo(world: &World) {
    world.init("work");
}

fn copy(world: &World, from: &str, to: &str) {
    let copied = Command::new("cp").arg("-a").arg(world.path(from)).arg(world.path(to)).status();
    assert!(copied.unwrap().success());
}

fn with_submodule(world: &World) {
    world.init("other");
    world.init("work");
    world.git("work", &["submodule", "--quiet", "add", "../other", "sub"]);
    world.git("work", &["commit", "-qm", "sub"]);
}

fn with_worktree(world: &World) {
    world.init("main");
    fs::remove_dir(world.work()).unwrap();
    world.git("main", &["worktree", "add", "-q", "../work"]);
}

fn append(world: &World, path: &str, text: &str) {
    let old = fs::read_to_string(world.path(path)).unwrap_or_default();
    world.write(path, &(old + text));
}

/// Creates a git directory at a path of the attacker's choice. As a common directory it has no work tree,
/// so an alias shows whether git applies its settings.
fn evil_git_dir(world: &World, path: &str) {
    world.git(".", &["init", "-q", "--bare", path]);
    append(world, &format!("{path}/config"), "[core]\n\tbare = false\n\tworktree = /\n");
    world.evil_config(&format!("{path}/config"));
    let program = world.path("work/evil.sh");
    append(world, &format!("{path}/config"), &format!("[alias]\n\tzap = !{}\n", program.display()));
}

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        id: "g1_hooks_made_where_there_were_none",
        before: |world| {
            repo(world);
            fs::remove_dir_all(world.path("work/.git/hooks")).unwrap();
        },
        plant: |world| world.evil("work/.git/hooks/pre-commit"),
        then: ("work", COMMIT),
    },
    Attack {
        id: "g1_hook_in_existing_folder",
        before: repo,
        plant: |world| world.evil("work/.git/hooks/pre-commit"),
        then: ("work", COMMIT),
    },
    Attack {
        id: "g2_fsmonitor_in_config",
        before: repo,
        plant: |world| world.evil_config("work/.git/config"),
        then: ("work", STATUS),
    },
    Attack {
        id: "g2_config_replaced_by_a_link",
        before: repo,
        plant: |world| {
            world.evil_config("work/settings");
            fs::remove_file(world.path("work/.git/config")).unwrap();
            symlink("../settings", world.path("work/.git/config")).unwrap();
        },
        then: ("work", STATUS),
    },
    Attack {
        id: "g3_git_renamed_and_rebuilt",
        before: repo,
        plant: |world| {
            fs::rename(world.path("work/.git"), world.path("work/.git.old")).unwrap();
            copy(world, "work/.git.old", "work/.git");
            world.evil_config("work/.git/config");
        },
        then: ("work", STATUS),
    },
    Attack {
        id: "ra3_commondir",
        before: repo,
        plant: |world| {
            copy(world, "work/.git", "work/copy");
            world.evil_config("work/copy/config");
            world.write("work/.git/commondir", "../copy\n");
        },
        then: ("work", STATUS),
    },
    Attack {
        id: "g2_config_worktree_where_the_extension_is_on",
        before: |world| {
            repo(world);
            world.git("work", &["config", "extensions.worktreeConfig", "true"]);
        },
        plant: |world| world.evil_config("work/.git/config.worktree"),
        then: ("work", STATUS),
    },
    Attack {
        id: "g2_included_file_appears",
        before: |world| {
            repo(world);
            world.git("work", &["config", "include.path", "../team.gitconfig"]);
        },
        plant: |world| world.evil_config("work/team.gitconfig"),
        then: ("work", STATUS),
    },
    Attack {
        id: "g2_included_file_changes",
        before: |world| {
            repo(world);
            world.git("work", &["config", "includeIf.gitdir:**.path", "../team.gitconfig"]);
            world.write("work/team.gitconfig", "[user]\n\tname = team\n");
        },
        plant: |world| world.evil_config("work/team.gitconfig"),
        then: ("work", STATUS),
    },
    Attack {
        id: "g2_hooks_path_appears",
        before: |world| {
            repo(world);
            world.git("work", &["config", "core.hooksPath", "tools/hooks"]);
        },
        plant: |world| world.evil("work/tools/hooks/pre-commit"),
        then: ("work", COMMIT),
    },
    Attack {
        id: "g2_hooks_path_of_the_user_appears",
        before: |world| {
            repo(world);
            world.write("home/.gitconfig", "[core]\n\thooksPath = .myhooks\n");
        },
        plant: |world| world.evil("work/.myhooks/pre-commit"),
        then: ("work", COMMIT),
    },
    Attack {
        id: "g2_hook_in_hooks_path_changes",
        before: |world| {
            repo(world);
            world.git("work", &["config", "core.hooksPath", "tools/hooks"]);
            world.write("work/tools/hooks/pre-commit", "#!/bin/sh\n");
        },
        plant: |world| world.evil("work/tools/hooks/pre-commit"),
        then: ("work", COMMIT),
    },
    Attack {
        id: "g2_folder_above_a_missing_file_becomes_a_link",
        before: |world| {
            repo(world);
            world.git("work", &["config", "core.hooksPath", "tools/hooks"]);
        },
        plant: |world| {
            world.evil("work/elsewhere/hooks/pre-commit");
            symlink("elsewhere", world.path("work/tools")).unwrap();
        },
        then: ("work", COMMIT),
    },
    Attack {
        id: "ra4_config_of_a_submodule",
        before: with_submodule,
        plant: |world| world.evil_config("work/.git/modules/sub/config"),
        then: ("work/sub", STATUS),
    },
    Attack {
        id: "ra4_hook_of_a_submodule",
        before: with_submodule,
        plant: |world| world.evil("work/.git/modules/sub/hooks/pre-commit"),
        then: ("work/sub", COMMIT),
    },
    Attack {
        id: "ra4_pointer_of_a_submodule",
        before: with_submodule,
        plant: |world| {
            evil_git_dir(world, "work/x");
            world.write("work/sub/.git", "gitdir: ../x\n");
        },
        then: ("work/sub", STATUS),
    },
    Attack {
        id: "ra4_submodule_that_is_new",
        before: repo,
        plant: |world| {
            fs::create_dir(world.path("work/.git/modules")).unwrap();
            world.git(
                ".",
                &["init", "-q", "--separate-git-dir", "work/.git/modules/new", "work/new"],
            );
            world.evil_config("work/.git/modules/new/config");
        },
        then: ("work/new", STATUS),
    },
    Attack {
        id: "ra4_hook_of_a_nested_repository",
        before: |world| {
            repo(world);
            world.init("work/a/b/nested");
        },
        plant: |world| world.evil("work/a/b/nested/.git/hooks/pre-commit"),
        then: ("work/a/b/nested", COMMIT),
    },
    Attack {
        id: "ra5_no_repository_before",
        before: nothing,
        plant: |world| {
            world.git("work", &["init", "-q"]);
            world.evil_config("work/.git/config");
        },
        then: ("work", STATUS),
    },
    Attack {
        id: "ra5_new_nested_repository_with_a_hook",
        before: repo,
        plant: |world| {
            world.git(".", &["init", "-q", "work/deep/er/new"]);
            world.evil("work/deep/er/new/.git/hooks/pre-commit");
        },
        then: ("work/deep/er/new", COMMIT),
    },
    Attack {
        id: "ra5_new_pointer_to_a_folder_that_is_not_bare_shaped_by_name",
        before: repo,
        plant: |world| {
            evil_git_dir(world, "work/node_modules/x");
            world.write("work/sub/.git", "gitdir: ../node_modules/x\n");
        },
        then: ("work/sub", STATUS),
    },
    Attack {
        id: "ra5_new_link_to_a_git_directory",
        before: repo,
        plant: |world| {
            evil_git_dir(world, "work/x");
            fs::create_dir(world.path("work/sub")).unwrap();
            symlink("../x", world.path("work/sub/.git")).unwrap();
        },
        then: ("work/sub", STATUS),
    },
    Attack {
        id: "g4_folder_shaped_like_a_bare_repository",
        before: repo,
        plant: |world| evil_git_dir(world, "work/docs"),
        then: ("work/docs", STATUS),
    },
    Attack {
        id: "g4_folder_with_a_head_and_a_common_directory",
        before: repo,
        plant: |world| {
            evil_git_dir(world, "work/x");
            fs::create_dir_all(world.path("work/docs")).unwrap();
            fs::rename(world.path("work/x/HEAD"), world.path("work/docs/HEAD")).unwrap();
            world.write("work/docs/commondir", "../x\n");
        },
        then: ("work/docs", &["zap"]),
    },
    Attack {
        id: "g4_folder_with_a_head_below_worktrees",
        before: repo,
        plant: |world| {
            evil_git_dir(world, "work/x");
            fs::create_dir_all(world.path("work/x/worktrees/docs")).unwrap();
            fs::rename(world.path("work/x/HEAD"), world.path("work/x/worktrees/docs/HEAD"))
                .unwrap();
            world.write("work/x/worktrees/docs/commondir", "../..\n");
        },
        then: ("work/x/worktrees/docs", &["zap"]),
    },
    Attack {
        id: "g6_pointer_of_the_worktree",
        before: with_worktree,
        plant: |world| {
            evil_git_dir(world, "work/x");
            world.write("work/.git", "gitdir: x\n");
        },
        then: ("work", STATUS),
    },
    Attack {
        id: "ra6_commondir_of_the_worktree",
        before: with_worktree,
        plant: |world| {
            copy(world, "main/.git", "work/copy");
            world.evil_config("work/copy/config");
            let copy = world.path("work/copy").display().to_string();
            world.write("main/.git/worktrees/work/commondir", &copy);
        },
        then: ("work", STATUS),
    },
    Attack {
        id: "ra6_config_of_the_main_repository",
        before: with_worktree,
        plant: |world| world.evil_config("main/.git/config"),
        then: ("main", STATUS),
    },
    Attack {
        id: "ra6_hook_of_the_main_repository",
        before: with_worktree,
        plant: |world| world.evil("main/.git/hooks/pre-commit"),
        then: ("main", COMMIT),
    },
    Attack {
        id: "g3_commondir_of_another_worktree",
        before: |world| {
            repo(world);
            world.git("work", &["worktree", "add", "-q", "../elsewhere"]);
        },
        plant: |world| {
            copy(world, "work/.git", "work/copy");
            world.evil_config("work/copy/config");
            world.write("work/.git/worktrees/elsewhere/commondir", "../../../copy\n");
        },
        then: ("elsewhere", STATUS),
    },
    Attack {
        id: "g3_git_is_a_link_that_is_replaced",
        before: |world| {
            repo(world);
            fs::rename(world.path("work/.git"), world.path("store")).unwrap();
            symlink("../store", world.path("work/.git")).unwrap();
        },
        plant: |world| {
            evil_git_dir(world, "work/x");
            fs::remove_file(world.path("work/.git")).unwrap();
            symlink("x", world.path("work/.git")).unwrap();
        },
        then: ("work", STATUS),
    },
];
