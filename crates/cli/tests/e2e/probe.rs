//! What a command can do with paths, asked by doing it.

use testkit::World;

/// Prints a word for each path: `rw`, `ro`, or `hidden` for what is not there or has nothing in it.
const LOOK: &str = r#"
for path; do
  if [ -d "$path" ]; then
    if [ -n "$(ls -A "$path" 2>/dev/null)" ]; then view=ro; else view=hidden; fi
    if (: > "$path/.probe") 2>/dev/null; then rm "$path/.probe"; view=rw; fi
  else
    if [ -n "$(cat "$path" 2>/dev/null)" ]; then view=ro; else view=hidden; fi
    if [ -e "$path" ] && (: >> "$path") 2>/dev/null; then view=rw; fi
  fi
  echo "$view $path"
done"#;

/// Asserts what the sandbox shows of paths of the world, which must have something in them. The
/// control comes with it: without the sandbox everything is writable.
#[track_caller]
pub(crate) fn assert_views(world: &World, flags: &[&str], expected: &[(&str, &str)]) {
    let paths: Vec<String> =
        expected.iter().map(|(path, _)| world.path(path).display().to_string()).collect();
    let look = ["sh", "-c", LOOK, "look"];
    let command = || look.into_iter().chain(paths.iter().map(String::as_str));
    let lines = |views: Vec<&str>| {
        let line = |(view, path): (&str, &String)| [view, " ", path, "\n"].concat();
        views.into_iter().zip(&paths).map(line).collect::<String>()
    };
    world.host(command()).succeeds().stdout(&lines(vec!["rw"; paths.len()]));
    let views = expected.iter().map(|(_, view)| *view).collect();
    world.run(flags.iter().copied().chain(command())).succeeds().stdout(&lines(views));
}

/// The words of a run of the shell.
pub(crate) fn sh(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

/// Whether the runs of this world leave all mounts to bubblewrap.
pub(crate) fn is_plain(world: &World) -> bool {
    world.host(["printenv", "AGENT_SANDBOX_MOUNTS"]).output().trim() == "bwrap"
}
