//! Tables for lines, entries, tools and git; what was seen to go round wrappers of this kind is among them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use proptest::prelude::*;

use super::line::{self, LineError};
use super::wire::{self, Frame, Kind, Request, WireError};
use super::*;

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

#[test]
fn lines_are_read_as_a_shell_reads_them() {
    for (line, expected) in [
        ("pipo", &["pipo"][..]),
        ("  pipo\t a  ", &["pipo", "a"]),
        ("pipo 'a b' \"c d\" e\\ f", &["pipo", "a b", "c d", "e f"]),
        ("pipo ''", &["pipo", ""]),
        ("pipo a'b'\"c\"d", &["pipo", "abcd"]),
        (r#"pipo "a\"b" "a\\b" "a\b" "a\$b""#, &["pipo", "a\"b", "a\\b", "a\\b", "a$b"]),
        (r"pipo 'a\b' \'", &["pipo", r"a\b", "'"]),
        ("pipo ';id' '$(id)' '*'", &["pipo", ";id", "$(id)", "*"]),
        ("git log HEAD~1 a#b a=b", &["git", "log", "HEAD~1", "a#b", "a=b"]),
    ] {
        assert_eq!(words(line), expected, "{line}");
    }
}

#[test]
fn h1_lines_that_mean_more_to_a_shell_are_refused() {
    for (line, expected) in [
        ("git version; id", LineError::Meaning(b';')),
        ("pipo && id", LineError::Meaning(b'&')),
        ("pipo | id", LineError::Meaning(b'|')),
        ("pipo > /etc/x", LineError::Meaning(b'>')),
        ("pipo < /etc/x", LineError::Meaning(b'<')),
        ("pipo $(id)", LineError::Meaning(b'$')),
        ("pipo `id`", LineError::Meaning(b'`')),
        ("pipo \"$(id)\"", LineError::Meaning(b'$')),
        ("pipo \"`id`\"", LineError::Meaning(b'`')),
        ("pipo $HOME", LineError::Meaning(b'$')),
        ("pipo *", LineError::Meaning(b'*')),
        ("pipo a?", LineError::Meaning(b'?')),
        ("pipo [a]", LineError::Meaning(b'[')),
        ("pipo {a,b}", LineError::Meaning(b'{')),
        ("pipo ~root", LineError::Meaning(b'~')),
        ("a=~root pipo", LineError::Meaning(b'~')),
        ("pipo # x", LineError::Meaning(b'#')),
        ("(pipo)", LineError::Meaning(b'(')),
        ("pipo\nid", LineError::Control(b'\n')),
        ("pipo 'a\nb'", LineError::Control(b'\n')),
        ("pipo \0", LineError::Control(0)),
        ("pipo \x1b[2J", LineError::Control(0x1b)),
        ("pipo 'a", LineError::Open),
        ("pipo \"a", LineError::Open),
        ("pipo \\", LineError::Backslash),
        ("", LineError::Empty),
        ("   ", LineError::Empty),
        ("'' id", LineError::Empty),
    ] {
        assert_eq!(line::parse(line.as_bytes()), Err(expected), "{line:?}");
    }
    assert_eq!(line::parse(&vec![b'a'; line::LONGEST + 1]), Err(LineError::TooLong));
}

proptest! {
    #[test]
    fn lines_come_back_when_they_are_quoted(words in prop::collection::vec("[ -~äß]{0,12}", 1..6)) {
        prop_assume!(!words[0].is_empty());
        let line = line::quote(&words).unwrap();
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        prop_assert_eq!(line::parse(line.as_bytes()).unwrap(), words);
    }

    #[test]
    fn no_bytes_make_the_parser_fail_or_invent(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(words) = line::parse(&bytes) {
            let length: usize = words.iter().map(|word| word.as_bytes().len()).sum();
            prop_assert!(length <= bytes.len());
            prop_assert!(!words[0].is_empty());
        }
    }

    #[test]
    fn requests_come_back_when_they_are_encoded(words in prop::collection::vec("[^\0]{0,8}", 1..6)) {
        prop_assume!(!words[0].is_empty());
        let argv = words.into_iter().map(OsString::from).collect();
        let request = Request { cwd: "/work space".into(), argv };
        prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
    }

    #[test]
    fn only_the_beginning_of_a_request_decides(rest in prop::collection::vec("[a-z/=-]{1,6}", 0..4)) {
        let list = list(&["pipo run"]);
        let argv = |start: &[&str]| -> Vec<OsString> {
            start.iter().map(OsString::from).chain(rest.iter().map(OsString::from)).collect()
        };
        prop_assert!(judge(&list, &argv(&["pipo", "run"])).is_ok());
        for start in [&["pipo", "-v", "run"][..], &["run", "pipo"], &["/usr/bin/pipo", "run"], &["PIPO", "run"]] {
            prop_assert!(judge(&list, &argv(start)).is_err());
        }
    }
}

/// Real shells are asked about every line that we accept: no word may differ.
#[test]
fn accepted_lines_have_the_words_that_shells_give_them() {
    let pieces = [
        "a",
        "b c",
        "'",
        "\"",
        "\\",
        " ",
        "\t",
        "'x y'",
        "\"x\\\"y\"",
        "\\'",
        "~",
        "#",
        "=",
        "-",
        ".",
        "%",
        "^",
        "é",
        "@",
        ":",
        ",",
    ];
    let mut state = 7_usize;
    let mut next = |limit: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut accepted = Vec::new();
    while accepted.len() < 400 {
        let length = 1 + next(8);
        let text: String = (0..length).map(|_| pieces[next(pieces.len())]).collect();
        let line = format!("printf {text}");
        if let Ok(words) = line::parse(line.as_bytes()) {
            accepted.push((line, words));
        }
    }
    for shell in ["dash", "bash"] {
        let lines: Vec<String> =
            accepted.iter().map(|(line, _)| line.replacen("printf", "show", 1)).collect();
        let script = format!(
            "show() {{ printf '%s\\036' \"$@\"; printf '\\035'; }}\n{}\n",
            lines.join("\n")
        );
        let output = Command::new(testkit::need(shell)).args(["-c", &script]).output().unwrap();
        let answers: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0o35).collect();
        for ((line, words), answer) in accepted.iter().zip(answers) {
            let mut given: Vec<&[u8]> = answer.split(|byte| *byte == 0o36).collect();
            given.pop();
            let ours: Vec<&[u8]> = words[1..].iter().map(|word| word.as_bytes()).collect();
            // Without arguments `printf` prints its format once.
            assert!(
                ours == given || (ours.is_empty() && given == [b""]),
                "{shell}: {line:?} {ours:?} {given:?}"
            );
        }
    }
}

#[test]
fn the_longest_entry_decides() {
    let list = table(
        "allowed = ['pipo', { cmd = 'pipo deploy', args = 'none' }, { cmd = 'pipo log', args = ['-n', '*.log'] },
                    { cmd = 'pipo run', deny = ['--force*', '-f'] }]",
    );
    for (line, expected) in [
        ("pipo", true),
        ("pipo anything --at all", true),
        ("pipo deploy", true),
        ("pipo deploy now", false),
        ("pipo log", true),
        ("pipo log -n a.log", true),
        ("pipo log -n /etc/shadow", false),
        ("pipo run x", true),
        ("pipo run x --force=1", false),
        ("pipo run x -f", false),
        ("pipos", false),
        ("pip", false),
    ] {
        assert_eq!(passes(&list, line), expected, "{line}");
    }
}

#[test]
fn entries_that_make_no_sense_are_refused() {
    for text in ["", " ", "-x", "a/b", "FOO=1 git", "a; b", "'a", "git *"] {
        assert!(Entry::parse(text).is_err(), "{text:?}");
    }
    for text in [
        "allowed = ['a', 'a']",
        "allowed = [{ cmd = 'a', timeout = 0 }]",
        "allowed = [{ cmd = 'a', cwd = 'x' }]",
        "allowed = [{ cmd = 'a', argz = 'any' }]",
        "allowed = [{ args = 'any' }]",
        "allowed = [1]",
        "alowed = []",
        "path = ['bin']",
        "parallel = 0",
        "mounts = [{ container = 'w', host = '/w' }]",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list.toml");
        std::fs::write(&path, text).unwrap();
        assert!(matches!(HostList::read(&path), Err(ListError::Wrong { .. })), "{text}");
    }
}

/// What was seen to go round wrappers that look at the first word: nothing of it passes here.
#[test]
#[allow(clippy::too_many_lines, reason = "one flat table")]
fn e2_h2_what_goes_round_first_word_rules_is_denied() {
    let list = list(&[
        "git status",
        "git log",
        "git diff",
        "git fetch",
        "git grep",
        "git archive",
        "git",
        "docker ps",
        "docker",
        "systemctl",
        "journalctl",
        "find",
        "tar -c",
        "tar xf",
        "tar",
        "ssh",
        "sort",
        "fd",
        "rg",
        "curl -s http://x",
        "curl",
        "wget -q",
        "wget -q http://x",
        "kubectl",
        "podman",
        "ip",
        "split",
    ]);
    for line in [
        "git -c 'alias.x=!id' x",
        "git -c core.pager=id log",
        "git -c core.sshCommand=id fetch",
        "git -c diff.external=id diff",
        "git -c core.fsmonitor=id status",
        "git --config-env=core.pager=X log",
        "git --exec-path=/tmp status",
        "git -C / status",
        "git --git-dir=/x status",
        "git -p log",
        "git fetch --upload-pack=id",
        "git fetch --upl=id",
        "git ls-remote --exec=id",
        "git push --receive-pack=id",
        "git push --force",
        "git x",
        "git diff --ext-diff",
        "git diff --output=/tmp/x",
        "git diff --no-index /etc/passwd /dev/null",
        "git log --outpu=/tmp/x",
        "git grep -Oid x",
        "git grep --open-files-in-pager=id x",
        "git grep -iO x",
        "git archive -o x HEAD",
        "git rebase -x id",
        "git rebase --exec id",
        "git difftool -x id",
        "git bisect run id",
        "git config core.pager id",
        "git submodule foreach id",
        "git upload-pack .",
        "git clone -u id .",
        "git commit -e",
        "docker run -v /:/h x",
        "docker -H tcp://x ps",
        "docker exec x id",
        "docker --config /tmp ps",
        "docker cp x:/ /",
        "systemctl link /workspace/x.service",
        "systemctl enable /workspace/x.service",
        "systemctl -H x status",
        "systemctl --root=/x status",
        "journalctl --file=/etc/shadow",
        "journalctl --vacuum-size=1",
        "find . -exec id ';'",
        "find . -delete",
        "find . -fprintf /x y",
        "tar -xf a.tar",
        "tar xf a.tar --use-compress-program=id",
        "tar xf a.tar --checkpoint-action=exec=id .",
        "tar xf a.tar --to-co=id",
        "tar xf a.tar -vI id",
        "tar xf a.tar --rs=id",
        "tar xf user@host:a.tar",
        "sort --compress-program=id big",
        "sort --co=id big",
        "sort -uo x big",
        "sort --outp=x big",
        "fd -x id",
        "fd -Hx id",
        "fd -HX id",
        "fd --exec-batch id",
        "rg --pre id x",
        "rg -iz x",
        "curl http://x",
        "curl -s http://x -sK c",
        "curl -s http://x --conf c",
        "curl -s http://x -so c",
        "curl -s http://x --remote-name",
        "curl -s http://x -F 'f=<c'",
        "curl -s http://x -w '%output{c}'",
        "curl -s http://x -d @c",
        "wget -q http://y",
        "wget -q http://x -nvO c",
        "wget -q http://x --exec=x=y",
        "wget -q http://x --use-a=id",
        "kubectl get pods --server=http://x",
        "kubectl get pods -As http://x",
        "kubectl get pods --kubeconfig=x",
        "kubectl get pods -o go-template-file=x",
        "podman info --runtime=./id",
        "podman ps --storage-opt=x",
        "ip netns exec x id",
        "ip netn exe x id",
        "ip vrf exec x id",
        "ip -batch x",
        "split --filter=id x",
        "split --fil=id x",
        "git grep -e -- -Osh",
        "git diff --submodule=diff",
        "git status --ignore-submodules=none",
        "git rebase --continue",
        "git pull --rebase",
        "git pull -r",
        "git clone --recursive https://x/y",
        "ssh -oProxyCommand=id x",
        "ssh x -o ProxyCommand=id",
        "/usr/bin/git status",
        "sudo git status",
        "FOO=1 git status",
        "sh -c id",
        "cd x",
        "GIT status",
    ] {
        // `git push --force` and the like pass the words; the rules of `@git` stop them where git is asked.
        if line == "git push --force" {
            continue;
        }
        assert!(!passes(&list, line), "{line}");
    }
    for line in [
        "git status --short",
        "git log --oneline -n 3",
        "git diff HEAD~1 --stat",
        "git fetch origin",
        "docker ps -a",
        "docker logs x",
        "systemctl status ssh",
        "journalctl -u ssh -n 5",
        "find . -name x",
        "tar xf a.tar",
        "tar xf a.tar -v --strip-components=1",
        "ssh host",
        "git --version",
        "git log -- file",
        "git status --ignored",
        "git pull origin main",
        "sort -n -k 2 x",
        "sort --reverse x",
        "fd -H name",
        "rg -i --pretty x",
        "curl -s http://x -H 'a: b' --fail",
        "wget -q http://x --tries=1",
        "kubectl get pods -A -n x --show-labels",
        "podman ps -a --no-trunc",
        "ip -br addr",
        "ip route show",
        "split -l 5 x",
    ] {
        assert!(passes(&list, line), "{line}");
    }
}

#[test]
fn h9_the_host_is_not_commanded_through_itself() {
    let list = table(
        "allowed = ['agent-sandbox', 'sudo agent-sandbox', { cmd = 'agent-sandbox exec', risk = 'accepted' }, 'agentfs']",
    );
    for line in
        ["agent-sandbox --version", "sudo agent-sandbox x", "agent-sandbox exec id", "agentfs x"]
    {
        assert!(!passes(&list, line), "{line}");
    }
}

#[test]
fn tools_that_run_anything_pass_only_when_that_is_accepted() {
    let plain = list(&[
        "bash",
        "env",
        "sudo",
        "xargs",
        "python3",
        "sudo -u",
        "bash -c",
        "sudo pipo",
        "bash /opt/x.sh",
        "sudo git status",
    ]);
    for (line, expected) in [
        ("bash x", false),
        ("env pipo", false),
        ("sudo -s", false),
        ("xargs rm", false),
        ("python3 -c x", false),
        ("sudo -u root id", false),
        ("bash -c id", false),
        ("sudo pipo x", true),
        ("bash /opt/x.sh y", true),
        ("sudo git status", true),
        ("sudo git status --output=/x", false),
    ] {
        assert_eq!(passes(&plain, line), expected, "{line}");
    }
    let accepted = table("allowed = [{ cmd = 'bash', risk = 'accepted' }]");
    assert!(passes(&accepted, "bash -c id"));
    assert_eq!(warnings(&accepted.allowed).len(), 1);
    assert_eq!(warnings(&plain.allowed).len(), 8);
    assert!(warnings(&list(&["pipo", "git status", "docker ps"]).allowed).is_empty());
    assert!(warnings(&list(&["docker run"]).allowed)[0].what.contains("root"));
}

#[test]
fn tools_behind_other_tools_have_their_rules_too() {
    let list = list(&[
        "timeout 60",
        "timeout 60 find",
        "timeout -k 5 60 pipo",
        "env A=1",
        "env A=1 find",
        "env -S find",
        "nice -n 5 find",
        "sudo -u deploy",
        "sudo -nu deploy find",
        "sudo --user deploy git diff",
        "sudo -u deploy -- pipo",
        "xargs find",
        "watch pipo",
        "nohup bash",
        "unshare -r pipo",
    ]);
    for (line, expected) in [
        ("timeout 60 sh -c id", false),
        ("timeout 60 find . -name x", true),
        ("timeout 60 find . -exec id ';'", false),
        ("timeout -k 5 60 pipo x", true),
        ("env A=1 sh -c id", false),
        ("env A=1 find . -delete", false),
        ("env -S find .", false),
        ("nice -n 5 find .", true),
        ("nice -n 5 find . -exec id ';'", false),
        ("sudo -u deploy sh", false),
        ("sudo -nu deploy find .", true),
        ("sudo -nu deploy find . -exec id ';'", false),
        ("sudo --user deploy git diff --stat", true),
        ("sudo --user deploy git diff --output=x", false),
        ("sudo -u deploy -- pipo x", true),
        ("xargs find .", false),
        ("watch pipo ';id'", false),
        ("nohup bash -c id", false),
        ("unshare -r pipo", false),
    ] {
        assert_eq!(passes(&list, line), expected, "{line}");
    }
    let git = judge(&list, &words("sudo --user deploy git diff")).unwrap();
    assert_eq!(git.git, Some(3));
    assert_eq!(git.argv[3..6], ["git", "--no-pager", "diff"]);
}

#[test]
fn git_gets_settings_that_outrank_those_of_the_repository() {
    let list = list(&["git diff"]);
    let allowed = judge(&list, &words("git diff x")).unwrap();
    let hardened = ["--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "x"];
    assert_eq!(allowed.argv[..3], ["git", "--no-pager", "diff"]);
    assert_eq!(allowed.argv[3..], hardened);
    let value = |name: &str| {
        allowed.env.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    };
    assert_eq!(value("GIT_CONFIG_KEY_0"), Some("core.fsmonitor"));
    assert_eq!(value("GIT_CONFIG_VALUE_0"), Some("false"));
    assert_eq!(allowed.git, Some(0));
    assert!(!allowed.enters_submodules());
    let list = self::list(&["git add"]);
    assert!(judge(&list, &words("git add -u")).unwrap().enters_submodules());
}

#[test]
fn denials_name_the_program_and_nothing_can_paint_over_them() {
    let list = list(&["git status"]);
    let denial = judge(&list, &words("git push")).unwrap_err();
    assert_eq!(
        denial.message(),
        "denied: git\nreason: only `git status` can be asked for, with the words in that order\n"
    );
    let denial = judge(&list, &["\x1b[2Jx".into()]).unwrap_err();
    assert!(denial.message().starts_with("denied: \\u{1b}[2Jx\n"));
}

#[test]
fn h8_parts_of_words_that_may_be_paths_are_found() {
    for (word, expected) in [
        ("/etc/shadow", &["/etc/shadow"][..]),
        ("--file=/etc/shadow", &["/etc/shadow"]),
        ("-f/etc/shadow", &["/etc/shadow"]),
        ("@/etc/shadow", &["/etc/shadow"]),
        ("a:/b,/c", &["/b", "/c"]),
        ("--opt=a=/b", &["/b"]),
        ("https://example.com/x", &[]),
        ("--url=https://example.com/x", &[]),
        ("file:///etc/shadow", &["///etc/shadow"]),
        ("[f-f]ile:///etc/shadow", &["///etc/shadow"]),
        ("{f}ile:///etc/shadow", &["///etc/shadow"]),
        ("plain", &[]),
        ("-v", &[]),
        ("--x", &[]),
    ] {
        let parts = argument::parts(word.as_bytes());
        let found: Vec<&str> = parts
            .iter()
            .filter(|part| part.absolute)
            .map(|part| &word[part.range.clone()])
            .collect();
        assert_eq!(found, expected, "{word}");
    }
}

#[test]
fn h8_paths_become_the_hosts_and_do_not_leave_what_is_shared() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let work = root.join("work");
    std::fs::create_dir_all(work.join("sub")).unwrap();
    std::fs::write(work.join("sub/file"), "").unwrap();
    std::fs::write(root.join("secret"), "").unwrap();
    for (name, target) in
        [("out", "../secret"), ("abs", "/etc/passwd"), ("dirout", ".."), ("in", "sub/file")]
    {
        std::os::unix::fs::symlink(target, work.join(name)).unwrap();
    }
    let mount = HostMount { container: "/workspace".into(), host: work.clone() };
    let places = place::Places::open(&[mount]).unwrap();
    let cwd = places.work_dir("/workspace/sub".as_ref()).unwrap();
    let host = |path: &str| format!("{}/{path}", work.display());
    for (word, expected) in [
        ("/workspace/sub/file", Some(host("sub/file"))),
        ("--x=/workspace/sub", Some(format!("--x={}", host("sub")))),
        ("/workspace/in", Some(host("sub/file"))),
        ("/workspace/new", Some(host("new"))),
        ("/workspace/new/deep", Some(host("new/deep"))),
        ("file", Some("file".into())),
        ("../in", Some("../in".into())),
        ("nothing", Some("nothing".into())),
        ("https://x/y", Some("https://x/y".into())),
        ("/dev/null", Some("/dev/null".into())),
        ("/workspace/out", None),
        ("/workspace/abs", None),
        ("/workspace/dirout/secret", None),
        ("/workspace/../secret", None),
        ("/workspace/sub/../../secret", None),
        ("/workspacex/y", None),
        ("../out", None),
        ("../../secret", None),
        ("../../nothing", None),
        ("--x=../../secret", None),
        ("/etc/passwd", None),
        ("/", None),
        ("-f/etc/passwd", None),
        ("file:///etc/passwd", None),
        ("a:/etc", None),
    ] {
        let found = places
            .argument(OsStr::new(word), Some(&cwd))
            .ok()
            .map(|word| word.to_string_lossy().into_owned());
        assert_eq!(found, expected, "{word}");
    }
    for outside in ["/", "/etc", "/workspace/dirout", "/workspace/none", "/workspace/../"] {
        assert!(places.work_dir(outside.as_ref()).is_err(), "{outside}");
    }
}

#[test]
fn h8_links_are_found_behind_options_and_under_names_that_look_like_them() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    for name in ["out", "-out"] {
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join(name)).unwrap();
    }
    let mount = HostMount { container: "/workspace".into(), host: dir.path().to_owned() };
    let places = place::Places::open(&[mount]).unwrap();
    let cwd = places.work_dir("/workspace".as_ref()).unwrap();
    for (word, passes) in [
        ("-v", true),
        ("-ffile", true),
        ("-f", true),
        ("-fout", false),
        ("-vfout", false),
        ("-out", false),
    ] {
        assert_eq!(places.argument(OsStr::new(word), Some(&cwd)).is_ok(), passes, "{word}");
    }
}

#[test]
fn drift_tells_what_the_two_sides_do_not_share() {
    let container: Vec<Entry> =
        ["pipo", "git", "docker ps"].map(|text| Entry::parse(text).unwrap()).to_vec();
    let host = list(&["pipo", "git status", "make test"]);
    let expected = [
        Drift::Narrower { container: "git".into(), host: vec!["git status".into()] },
        Drift::NotOnHost("docker ps".into()),
        Drift::NotInContainer("make test".into()),
    ];
    assert_eq!(drift(&container, &host), expected);
    assert!(drift(&container, &list(&["pipo", "git", "docker"])).is_empty());
}

#[test]
fn frames_that_no_peer_of_ours_sends_are_refused() {
    for (bytes, expected) in [
        (*b"Z\0\0\0\0", Err(WireError::Kind)),
        (*b"S\x02\0\0\0", Err(WireError::Length)),
        (*b"I\x01\0\x01\0", Err(WireError::Length)),
        (*b"R\xff\xff\xff\xff", Err(WireError::Length)),
        (*b"x\x01\0\0\0", Ok((Kind::Exit, 1))),
    ] {
        assert_eq!(wire::head(bytes), expected);
    }
    for bytes in [&b""[..], b"/w", b"/w\0", b"w\0a\0", b"/w\0\0"] {
        assert_eq!(Request::decode(bytes), Err(WireError::Request), "{bytes:?}");
    }
    let mut bytes = Vec::new();
    wire::write(&mut bytes, Kind::Output, b"text").unwrap();
    let frame = Frame { kind: Kind::Output, body: b"text".to_vec() };
    assert_eq!(wire::read(bytes.as_slice()).unwrap(), Some(frame));
    assert!(wire::read(&bytes[..7]).is_err());
    assert_eq!(wire::read(&b""[..]).unwrap(), None);
}
