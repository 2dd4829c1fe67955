//! Tables of requests, by subject.

mod entries;
mod bypasses;
mod tools;
mod paths;

use std::ffi::OsString;

use sandbox_policy::config::command::{Entry, line};

use crate::check::{Drift, drift};
use crate::list::{HostList, HostMount, ListError};
use crate::shared_dirs::{SharedDirs, argument};
use crate::verdict::{judge, warnings};

fn words(line: &str) -> Vec<OsString> {
    line::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn list(entries: &[&str]) -> HostList {
    let allowed = entries.iter().map(|entry| Entry::parse(entry).unwrap()).collect();
    HostList { allowed, ..HostList::default() }
}

fn table(text: &str) -> HostList {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("list.toml");
    std::fs::write(&path, text).unwrap();
    HostList::read(&path).unwrap()
}

fn passes(list: &HostList, line: &str) -> bool {
    judge(list, &words(line)).is_ok()
}
