use std::path::Path;

use sandbox_protocol::Hint;

use super::agent::{self, Moved, OnFirstRun, ProjectConfig, ProxyNaming, TOOLS};
use super::*;
use crate::config::Access;
use crate::preset;

#[test]
fn rows_refer_to_existing_names() {
    let providers = |names: &[&str], row: &str| {
        for name in names {
            assert!(Provider::named(name).is_ok(), "{row}: {name}");
        }
    };
    for row in AGENTS {
        providers(row.providers, row.title);
        assert!(!row.programs.is_empty(), "{}", row.title);
    }
    for row in TOOLS {
        providers(row.providers, row.title);
    }
    for login in Login::all() {
        providers(&[login.provider], login.name);
        assert_eq!(Login::named(login.name), Some(login));
    }
    for row in PROVIDERS {
        for told in row.agents {
            let agent = Agent::of_command(told.agent.as_ref());
            let agent = agent.unwrap_or_else(|| panic!("{}: {}", row.name, told.agent));
            assert_ne!(agent.proxy, ProxyNaming::Variables, "{}", agent.title);
        }
    }
    assert_eq!(Provider::custom().map(|row| row.name), Some("custom"));
}

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = PROVIDERS.iter().map(|row| row.name).collect();
    names.extend(AGENTS.iter().flat_map(|row| row.programs).map(|name| match *name {
        "gemini" => "the agent gemini",
        name => name,
    }));
    names.extend(host_presets().map(|preset| preset.name));
    names.extend(agent::project_config().map(|config| match config {
        ProjectConfig::File(name, _) | ProjectConfig::Dir(name, _) => *name,
    }));
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert_eq!(twice, Vec::<&[&str]>::new());
}

#[test]
fn state_that_is_created_is_writable_by_a_preset() {
    let lines: Vec<_> = preset::tables().flat_map(|table| table.lines).collect();
    for (agent, state) in AGENTS.iter().flat_map(|row| row.state.iter().map(move |s| (row, s))) {
        let created = matches!(state.on_first_run, OnFirstRun::Created(_));
        let writable = lines.contains(&(Access::Rw, state.path));
        assert!(!created || writable, "{}: {}", agent.title, state.path);
    }
}

#[test]
fn files_of_agents_are_in_the_home_directory_or_where_a_variable_points() {
    for (file, home, moved) in [
        (
            agent::logins("anthropic").next().unwrap(),
            ".claude/.credentials.json",
            "/v/.credentials.json",
        ),
        (
            agent::logins("gemini").find(|file| file.dir == ".gemini").unwrap(),
            ".gemini/oauth_creds.json",
            "/v/.gemini/oauth_creds.json",
        ),
    ] {
        assert_eq!(file.in_home(), Path::new(home));
        let paths = file.paths(Some(Path::new("/h")), |_| Some("/v".into()));
        assert_eq!(paths, [Path::new("/h").join(home), moved.into()]);
        assert!(matches!(file.moved, Moved::By { .. }));
        assert_eq!(file.paths(None, |_| None), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn a_misspelled_provider_gets_a_suggestion() {
    for (name, hint) in [
        ("antropic", "did you mean `anthropic`?"),
        (
            "zzz",
            "providers: anthropic, anthropic-subscription, openai, openai-subscription, ollama, gemini, custom",
        ),
    ] {
        assert_eq!(Provider::named(name).unwrap_err().hint().as_deref(), Some(hint));
    }
}

#[test]
fn a_login_token_belongs_to_the_subscription() {
    for (name, key, expected) in [
        ("anthropic", "sk-ant-api03-x", "anthropic"),
        ("anthropic", "sk-ant-oat01-x", "anthropic-subscription"),
        ("openai", "sk-ant-oat01-x", "openai"),
    ] {
        assert_eq!(Provider::named(name).unwrap().for_key(key).name, expected, "{name} {key}");
    }
}
