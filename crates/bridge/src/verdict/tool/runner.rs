//! Finds the program in an entry that begins with a runner, such as `sudo -u deploy mytool`.

use std::path::Path;

/// Runner: its name, short options with a value, long options with a value, and number of operands before the program.
type Runner = (&'static str, &'static str, &'static [&'static str], usize);

#[rustfmt::skip]
const RUNNERS: &[Runner] = &[
    ("sudo", "ugphCrtTDRU", &["--user", "--group", "--prompt", "--host", "--close-from", "--role", "--type", "--chdir", "--chroot"], 0),
    ("doas", "uC", &[], 0),
    ("env", "uC", &["--unset", "--chdir"], 0),
    ("nice", "n", &["--adjustment"], 0),
    ("ionice", "cn", &["--class", "--classdata"], 0),
    ("timeout", "sk", &["--signal", "--kill-after"], 1),
    ("stdbuf", "ioe", &["--input", "--output", "--error"], 0),
    ("flock", "wE", &["--timeout", "--conflict-exit-code"], 1),
    ("taskset", "", &[], 1),
    ("chrt", "", &[], 1),
    ("chroot", "", &[], 1),
];

/// Returns the index of the program in an entry. `None` if the request chooses it, or if the runner's syntax is
/// unknown.
pub(in crate::verdict) fn program(words: &[String]) -> Option<usize> {
    let name = Path::new(words.first()?).file_name()?.to_str()?;
    let known = RUNNERS.iter().find(|(runner, ..)| *runner == name);
    let mut operands = known.map_or(0, |(.., operands)| *operands);
    let mut at = 1;
    loop {
        let word = words.get(at)?;
        if word.starts_with('-') {
            let (_, letters, long, _) = known?;
            // `env -S` splits words.
            if name == "env" && (word.starts_with("-S") || word.starts_with("--s")) {
                return None;
            }
            at += 1 + usize::from(takes_next(word, letters, long));
        } else if matches!(name, "env" | "sudo") && word.contains('=') {
            at += 1;
        } else if operands > 0 {
            operands -= 1;
            at += 1;
        } else {
            return Some(at);
        }
    }
}

/// Returns true if the value of an option is the next word.
fn takes_next(word: &str, letters: &str, long: &[&str]) -> bool {
    if word.starts_with("--") {
        return long.contains(&word);
    }
    let bundle = &word[1..];
    bundle.find(|letter| letters.contains(letter)).is_some_and(|at| at + 1 == bundle.len())
}
