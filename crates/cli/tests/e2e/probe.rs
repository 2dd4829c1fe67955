//! Access of a command to paths, found by trying it.

use testkit::World;

/// Prints a word for each path: `rw`, `ro`, or `hidden` if it does not exist or is empty.
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

/// Asserts the access to paths of the world, which must not be empty. The control: without
/// the sandbox, everything is writable.
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

/// Returns the words that a run of the shell prints.
pub(crate) fn sh(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

/// Returns true when the runs of this world use the bubblewrap rendering.
pub(crate) fn is_plain(world: &World) -> bool {
    world.host(["printenv", "AGENT_SANDBOX_MOUNTS"]).output().trim() == "bwrap"
}
