//! Lookup of users in `/etc/passwd`. A static binary cannot use the name service switch.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use thiserror::Error;

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    /// `None` for a uid without an entry.
    pub(crate) name: Option<OsString>,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) home: PathBuf,
    pub(crate) shell: PathBuf,
}

/// Failure to find a user.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum UserError {
    #[error("the user `{0}` is not in /etc/passwd")]
    Unknown(String),
    #[error("the entry of the user `{0}` in /etc/passwd has no valid uid and gid")]
    Broken(String),
}

/// Finds a user by name or uid, optionally followed by `:GID`.
pub(crate) fn find(passwd: &[u8], word: &str) -> Result<User, UserError> {
    let unknown = || UserError::Unknown(word.to_owned());
    let (who, group) = match word.split_once(':') {
        Some((who, group)) => (who, Some(number(group.as_bytes()).ok_or_else(unknown)?)),
        None => (word, None),
    };
    let user = match named(passwd, who)? {
        Some(user) => user,
        None => numbered(passwd, number(who.as_bytes()).ok_or_else(unknown)?),
    };
    Ok(User { gid: group.unwrap_or(user.gid), ..user })
}

/// Returns the user with a uid. A uid without an entry has the same gid, and `/` as its home.
pub(crate) fn numbered(passwd: &[u8], uid: u32) -> User {
    let known = entries(passwd).filter_map(|entry| entry.user()).find(|user| user.uid == uid);
    known.unwrap_or(User { name: None, uid, gid: uid, home: "/".into(), shell: "/bin/sh".into() })
}

fn named(passwd: &[u8], name: &str) -> Result<Option<User>, UserError> {
    let entry = entries(passwd).find(|entry| entry.fields[0] == name.as_bytes());
    let broken = || UserError::Broken(name.to_owned());
    entry.map(|entry| entry.user().ok_or_else(broken)).transpose()
}

/// A line with at least the fields of the ids. Shorter lines are skipped.
struct Entry<'p> {
    fields: Vec<&'p [u8]>,
}

fn entries(passwd: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    let lines = passwd.split(|byte| *byte == b'\n');
    let split = lines.map(|line| line.split(|byte| *byte == b':').collect());
    split.filter(|fields: &Vec<_>| fields.len() >= 4).map(|fields| Entry { fields })
}

impl Entry<'_> {
    fn user(&self) -> Option<User> {
        let field = |index: usize, missing: &str| -> PathBuf {
            let text = self.fields.get(index).filter(|text| !text.is_empty());
            text.map_or_else(|| missing.into(), |text| OsString::from_vec(text.to_vec()).into())
        };
        Some(User {
            name: Some(OsString::from_vec(self.fields[0].to_vec())).filter(|name| !name.is_empty()),
            uid: number(self.fields[2])?,
            gid: number(self.fields[3])?,
            home: field(5, "/"),
            shell: field(6, "/bin/sh"),
        })
    }
}

/// Parses an id: digits only. `u32::MAX` is invalid, because `setresuid(2)` leaves an id unchanged for it.
fn number(text: &[u8]) -> Option<u32> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| digits)?;
    text.parse().ok().filter(|number| *number != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &[u8] = b"root:x:0:0:root:/root:/bin/ash\n\
        # a comment is a line like any other\n\
        short:x:7\n\
        agent:x:1000:1000:Agent:/home/agent:/bin/bash\n\
        agent:x:0:0::/root:/bin/sh\n\
        bad:x:one:1::/:/bin/sh\n\
        huge:x:4294967295:1::/:/bin/sh\n\
        bare:x:1001:1002\n";

    fn ids(word: &str) -> Result<(u32, u32), String> {
        find(PASSWD, word).map(|user| (user.uid, user.gid)).map_err(|error| error.to_string())
    }

    #[test]
    fn find_knows_names_numbers_and_groups() {
        for (word, expected) in [
            ("agent", Some((1000, 1000))),
            ("root", Some((0, 0))),
            ("bare", Some((1001, 1002))),
            ("1000", Some((1000, 1000))),
            ("1001", Some((1001, 1002))),
            ("4242", Some((4242, 4242))),
            ("1000:50", Some((1000, 50))),
            ("agent:50", Some((1000, 50))),
            ("4242:4243", Some((4242, 4243))),
            ("absent", None),
            ("short", None),
            ("bad", None),
            ("huge", None),
            (" agent", None),
            ("", None),
            (":", None),
            ("1000:", None),
            ("1000:staff", None),
            ("-1", None),
            ("+1", None),
            ("4294967295", None),
            ("4294967296", None),
            ("1000:1000:1000", None),
        ] {
            assert_eq!(ids(word).ok(), expected, "{word}");
        }
    }

    #[test]
    fn find_gives_home_and_shell_with_what_is_usual_where_they_are_missing() {
        let user = find(PASSWD, "agent").unwrap();
        assert_eq!((user.home, user.shell), ("/home/agent".into(), "/bin/bash".into()));
        for word in ["bare", "4242"] {
            let user = find(PASSWD, word).unwrap();
            assert_eq!((user.home, user.shell), ("/".into(), "/bin/sh".into()), "{word}");
        }
    }

    #[test]
    fn find_says_whether_the_user_is_missing_or_the_entry_is_broken() {
        assert_eq!(find(PASSWD, "absent"), Err(UserError::Unknown("absent".into())));
        assert_eq!(find(PASSWD, "bad"), Err(UserError::Broken("bad".into())));
    }
}
