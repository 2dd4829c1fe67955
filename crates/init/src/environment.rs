//! The environment as a list of entries: variables for this process, and those for the agent.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use sandbox_protocol::variable;
use zeroize::Zeroizing;

/// All entries in order, including duplicates and entries without `=`. An entry is overwritten in memory when it is
/// dropped.
#[derive(Clone, Default)]
pub(crate) struct Environment(Vec<Zeroizing<Vec<u8>>>);

impl Environment {
    /// Reads the environment of this process.
    pub(crate) fn read() -> Self {
        Self::of(sandbox_linux::environment::entries())
    }

    /// Creates an environment from entries `NAME=VALUE`.
    pub(crate) fn of(entries: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self(entries.into_iter().map(Zeroizing::new).collect())
    }

    /// Returns the value of a variable. The first entry with the name counts, as for getenv(3).
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find_map(|entry| {
            entry.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
        })
    }

    /// Returns the value of a variable that is set and not empty.
    pub(crate) fn set(&self, name: &str) -> Option<&[u8]> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Returns the value of a variable that is set and not empty, as an OS string.
    pub(crate) fn word(&self, name: &str) -> Option<OsString> {
        self.set(name).map(|value| OsString::from_vec(value.to_vec()))
    }

    /// Returns true when a switch is on: set, not empty and not `0`.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.set(name).is_some_and(|value| value != b"0")
    }

    /// Sets a variable, and removes other entries with its name.
    pub(crate) fn put(&mut self, name: &str, value: &[u8]) {
        let pair = Zeroizing::new([name.as_bytes(), b"=", value].concat());
        let prefix = [name.as_bytes(), b"="].concat();
        let at = self.0.iter().position(|entry| entry.starts_with(&prefix));
        self.0.retain(|entry| !entry.starts_with(&prefix));
        self.0.insert(at.unwrap_or(self.0.len()), pair);
    }

    /// Returns the environment of the agent.
    pub(crate) fn stripped(&self) -> Self {
        Self(self.0.iter().filter(|entry| !variable::is_stripped(entry)).cloned().collect())
    }

    /// Returns the entries in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|entry| entry.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(entries: &[&str]) -> Environment {
        Environment::of(entries.iter().map(|entry| entry.as_bytes().to_vec()))
    }

    fn texts(environment: &Environment) -> Vec<&str> {
        environment.entries().map(|entry| std::str::from_utf8(entry).unwrap()).collect()
    }

    #[test]
    fn get_takes_the_first_and_set_takes_no_empty_one() {
        let environment = of(&["A=1", "A=2", "B=", "C"]);
        assert_eq!(environment.get("A"), Some(&b"1"[..]));
        assert_eq!((environment.get("B"), environment.set("B")), (Some(&b""[..]), None));
        assert_eq!((environment.get("C"), environment.get("")), (None, None));
    }

    #[test]
    fn is_on_takes_everything_but_nothing_and_zero() {
        let environment = of(&["A=1", "B=0", "C=", "D=yes"]);
        assert_eq!(
            ["A", "B", "C", "D", "E"].map(|name| environment.is_on(name)),
            [true, false, false, true, false]
        );
    }

    #[test]
    fn stripped_keeps_order_duplicates_and_odd_entries_of_everything_else() {
        let entries =
            ["X=1", "SESSION_TOKEN=a", "X=2", "odd", "SESSION_TOKEN=b", "session_token=c", "=Y=3"];
        assert_eq!(texts(&of(&entries).stripped()), ["X=1", "X=2", "odd", "=Y=3"]);
    }

    #[test]
    fn put_replaces_every_entry_of_the_name_in_its_place() {
        let mut environment = of(&["HOME=/root", "X=1", "HOME=/other"]);
        environment.put("HOME", b"/home/agent");
        environment.put("USER", b"agent");
        assert_eq!(texts(&environment), ["HOME=/home/agent", "X=1", "USER=agent"]);
    }
}
