use std::os::unix::ffi::OsStringExt;

use sandbox_policy::config::Network;
use sandbox_policy::config::command_rule::CommandRule;

use super::*;

fn words(line: &[&str]) -> Vec<OsString> {
    std::iter::once("agent-sandbox").chain(line.iter().copied()).map(OsString::from).collect()
}

#[track_caller]
fn understood(line: &[&str]) -> Cli {
    match parse(words(line)) {
        Typed::Understood(cli) => *cli,
        other => panic!("{line:?}: {other:?}"),
    }
}

fn command(cli: Cli) -> Vec<OsString> {
    match cli.command {
        Some(Command::Run(command) | Command::Exec { command, .. }) => command,
        other => panic!("no command to run, but {other:?}"),
    }
}

#[test]
fn parse_ends_at_the_first_word_that_is_not_a_flag() {
    for (line, expected) in [
        (&["ls", "-h"][..], &["ls", "-h"][..]),
        (&["ls", "--help"], &["ls", "--help"]),
        (&["ls", "-v", "--network=false"], &["ls", "-v", "--network=false"]),
        (&["ls", "--", "x"], &["ls", "--", "x"]),
        (&["--", "-x"], &["-x"]),
        (&["--", "check"], &["check"]),
        (&["--", "exec", "x"], &["exec", "x"]),
        (&["exec", "check"], &["check"]),
        (&["exec", "rm", "-rf", "x"], &["rm", "-rf", "x"]),
        (&["exec", "--", "-x"], &["-x"]),
        (&["exec", "ls", "-h"], &["ls", "-h"]),
        (&["--network", "false"], &["false"]),
        (&["--json", "true"], &["true"]),
        (&["--trust", "false"], &["false"]),
        (&["-C", "dir", "pwd"], &["pwd"]),
        (&["--ro", "-x", "pwd"], &["pwd"]),
        (&["--ro", "--", "pwd"], &["pwd"]),
        (&[""], &[""]),
        (&["", "-h"], &["", "-h"]),
    ] {
        assert_eq!(command(understood(line)), expected, "{line:?}");
    }
}

#[test]
fn flags_take_their_values_in_every_form() {
    for form in [&["-Cdir"][..], &["-C", "dir"], &["-C=dir"], &["--cwd", "dir"], &["--cwd=dir"]] {
        let line: Vec<_> = form.iter().copied().chain(["pwd"]).collect();
        assert_eq!(understood(&line).flags.cwd, Some("dir".into()), "{form:?}");
    }
    assert_eq!(understood(&["--ro=x", "--ro", "y", "pwd"]).flags.ro, ["x", "y"]);
    let after = understood(&["exec", "--exclude=x", "pwd"]);
    assert_eq!(after.flags.exclude, ["x"], "flags may follow `exec`");
}

#[test]
fn booleans_have_a_form_without_a_value() {
    for (form, network) in [
        ("--network", Network::On),
        ("--network=true", Network::On),
        ("--network=1", Network::On),
        ("--network=host", Network::On),
        ("--network=false", Network::Off),
        ("--network=0", Network::Off),
        ("--network=none", Network::Off),
    ] {
        assert_eq!(understood(&[form, "true"]).flags.network, Some(network), "{form}");
    }
    for (form, expected) in [("--docker", true), ("--docker=0", false), ("--docker=false", false)] {
        assert_eq!(understood(&[form, "true"]).flags.docker, Some(expected), "{form}");
    }
    for (form, expected) in [("--json", true), ("--json=false", false), ("--json=0", false)] {
        assert_eq!(understood(&[form, "check"]).flags.json, expected, "{form}");
    }
}

#[test]
fn mistakes_end_with_code_2_and_the_nearest_name() {
    for (line, expected) in [
        (&["--netwrk", "true"][..], "--network"),
        (&["--network=maybe", "true"], "use true"),
        (&["--dryrun", "true"], "--dry-run"),
        (&["doctor", "now"], "unexpected argument"),
        (&["why"], "PATH"),
        (&["why", "a", "--host", "b"], "cannot be used with"),
        (&["exec"], "COMMAND"),
        (&["--"], "COMMAND"),
        (&["-C"], "--cwd"),
    ] {
        let Typed::Answer(answer) = parse(words(line)) else { panic!("{line:?}") };
        assert_eq!(answer.exit_code(), 2, "{line:?}");
        let text = answer.render().to_string();
        assert!(text.contains(expected), "{line:?}: {text}");
    }
}

#[test]
fn subcommand_names_are_programs_after_exec() {
    for word in help::subcommands() {
        assert_eq!(command(understood(&["exec", word])), [word], "{word}");
        assert_eq!(command(understood(&["--", word])), [word], "{word}");
    }
}

#[test]
fn command_rules_come_in_lists() {
    let rules =
        |line: &[&str]| understood(line).flags.request(Vec::new(), false).map(|it| it.commands);
    let expected = vec![("a".to_owned(), CommandRule::Block), ("b".to_owned(), CommandRule::Raw)];
    assert_eq!(rules(&["--cmd", "a=false,b=true", "x"]), Ok(expected.clone()));
    assert_eq!(rules(&["--cmd=a=false", "--cmd", "b=true", "x"]), Ok(expected));
    for bad in ["a", "=true", "a=", "a=@nothing"] {
        assert!(rules(&["--cmd", bad, "x"]).is_err(), "{bad}");
    }
}

#[test]
fn words_that_are_not_utf8_pass_through() {
    let odd = OsString::from_vec(b"a\xffb".to_vec());
    for (line, expected) in [
        (vec![odd.clone()], vec![odd.clone()]),
        (vec!["cat".into(), odd.clone()], vec!["cat".into(), odd.clone()]),
        (vec!["--".into(), odd.clone()], vec![odd.clone()]),
        (vec![odd.clone(), "-h".into()], vec![odd.clone(), "-h".into()]),
    ] {
        let args = std::iter::once("agent-sandbox".into()).chain(line.clone()).collect();
        let Typed::Understood(cli) = parse(args) else { panic!("{line:?}") };
        assert_eq!(command(*cli), expected, "{line:?}");
    }
}

#[test]
fn help_fits_100_columns() {
    use clap::CommandFactory;
    let mut cli = Cli::command();
    cli.build();
    let subs: Vec<_> = cli.get_subcommands().cloned().collect();
    for mut command in subs.into_iter().chain([cli]) {
        for line in command.render_long_help().to_string().lines() {
            assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
        }
    }
}

#[test]
fn command_without_flags_is_parsed_like_clap_parses_it() {
    use clap::CommandFactory;
    let known: Vec<_> =
        Cli::command().get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in &known {
        assert!(
            help::subcommands().any(|known| known == name),
            "`{name}` is in no group of the help page"
        );
    }
    for words in [&["ls"][..], &["ls", "-h", "--ro", "x"], &["npm", "--", "test"], &["a b"]] {
        let args: Vec<OsString> =
            ["agent-sandbox"].iter().chain(words).map(OsString::from).collect();
        let quick = without_flags(&args).unwrap();
        let slow = Cli::try_parse_from(args).unwrap();
        assert_eq!(format!("{quick:?}"), format!("{slow:?}"), "{words:?}");
    }
}
